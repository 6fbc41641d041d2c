//! What a workspace may hold, as data: the configuration's allow list (R81) and what becomes of the
//! remote `origin` (R79). The self-check reads the finished repository against the same data.

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::git::{
    ConfigSection, HashKind, RawConfig, has_credential, host_of, redacted, without_credential,
};

/// The kind of workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// One branch, no remote unless asked for, no identity, no credential ever.
    Sealed,
}

/// What becomes of the source's remote `origin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OriginPolicy {
    /// No remote.
    None,
    /// The remote, its URLs without credentials.
    Strip,
    /// The remote as it is; refused where a URL carries a credential.
    Carry,
}

/// What became of the remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OriginRecord {
    /// What was asked for.
    pub policy: OriginPolicy,
    /// Whether a URL lost a credential, or was left out since it could not be without one.
    pub credential_stripped: bool,
    /// The URLs that were kept.
    pub urls: Vec<String>,
}

/// The remote of a new workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) urls: Vec<String>,
    pub(super) push_urls: Vec<String>,
    pub(super) record: OriginRecord,
}

impl Origin {
    /// Keeps nothing.
    pub(super) fn none() -> Self {
        Self {
            urls: Vec::new(),
            push_urls: Vec::new(),
            record: OriginRecord {
                policy: OriginPolicy::None,
                credential_stripped: false,
                urls: Vec::new(),
            },
        }
    }

    /// Decides what is kept of the remote that `config`, the source's own file, names.
    ///
    /// # Errors
    /// `credential-in-origin` where one would have to be carried.
    pub(super) fn decide(policy: OriginPolicy, config: &RawConfig) -> Result<Self> {
        let raw = |key| match policy {
            OriginPolicy::None => Vec::new(),
            _ => config.values("remote", Some("origin"), key),
        };
        let mut record = OriginRecord {
            policy,
            credential_stripped: false,
            urls: Vec::new(),
        };
        let mut keep = |urls: Vec<String>| -> Result<Vec<String>> {
            let bad = urls.iter().find(|url| has_credential(url));
            match (policy, bad) {
                (OriginPolicy::Carry, Some(bad)) => Err(Error::new(
                    ErrorKind::Unsupported,
                    "credential-in-origin",
                    format!(
                        "the remote origin ({}) carries a credential, which a sealed workspace never \
                         holds; give --origin strip or --origin none",
                        redacted(bad)
                    ),
                )),
                (_, bad) => {
                    record.credential_stripped |= bad.is_some();
                    Ok(urls
                        .iter()
                        .filter_map(|url| without_credential(url))
                        .collect())
                }
            }
        };
        let urls = keep(raw("url"))?;
        let push_urls = keep(raw("pushurl"))?;
        record.urls.extend(urls.iter().cloned());
        Ok(Self {
            urls,
            push_urls,
            record,
        })
    }

    /// Returns one line that says what was taken out, without saying it.
    pub(super) fn note(&self) -> Option<String> {
        self.record.credential_stripped.then(|| {
            let host = self.urls.first().map(|url| host_of(url));
            match host.filter(|host| !host.is_empty()) {
                Some(host) => format!(
                    "credential-stripped: the remote origin at {host} lost the credential in its URL"
                ),
                None => String::from(
                    "credential-stripped: a URL of the remote origin was left out, since it cannot \
                     be told from its credential",
                ),
            }
        })
    }
}

/// Returns the whole configuration of a workspace.
pub(super) fn config_sections(
    hash_kind: HashKind,
    origin: &Origin,
    is_overlay: bool,
) -> Vec<ConfigSection> {
    let is_sha256 = hash_kind == HashKind::Sha256;
    let mut sections = vec![ConfigSection::new(
        "core",
        &[
            ("repositoryformatversion", if is_sha256 { "1" } else { "0" }),
            ("filemode", "true"),
            ("bare", "false"),
            ("logallrefupdates", "true"),
            ("checkstat", "minimal"),
            ("trustctime", "false"),
        ],
    )];
    if is_sha256 {
        sections.push(ConfigSection::new(
            "extensions",
            &[("objectformat", "sha256")],
        ));
    }
    if is_overlay {
        // A pack of its own would take the place of the shared one.
        sections.push(ConfigSection::new("gc", &[("auto", "0")]));
    }
    if !origin.urls.is_empty() {
        let mut entries: Vec<(&'static str, String)> = Vec::new();
        entries.extend(origin.urls.iter().map(|url| ("url", url.clone())));
        entries.extend(origin.push_urls.iter().map(|url| ("pushurl", url.clone())));
        entries.push(("fetch", String::from("+refs/heads/*:refs/remotes/origin/*")));
        sections.push(ConfigSection {
            name: "remote",
            subsection: Some(String::from("origin")),
            entries,
        });
    }
    sections
}

/// Returns whether the allow list has a key (R81).
pub(super) fn allows(section: &str, subsection: Option<&str>, key: &str) -> bool {
    match (section, subsection) {
        ("core", None) => matches!(
            key,
            "repositoryformatversion"
                | "filemode"
                | "bare"
                | "logallrefupdates"
                | "checkstat"
                | "trustctime"
        ),
        ("extensions", None) => key == "objectformat",
        ("gc", None) => key == "auto",
        ("remote", Some("origin")) => matches!(key, "url" | "pushurl" | "fetch"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> RawConfig {
        RawConfig::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn r79_origin_policies_keep_no_credential() {
        let dirty = config(
            "[remote \"origin\"]\nurl = https://u:TOKEN@h/x.git\npushurl = https://ghp_x@h/x.git\n",
        );
        let none = Origin::decide(OriginPolicy::None, &dirty).unwrap();
        assert!(none.urls.is_empty() && !none.record.credential_stripped);
        let strip = Origin::decide(OriginPolicy::Strip, &dirty).unwrap();
        assert_eq!(strip.urls, ["https://h/x.git"]);
        assert_eq!(strip.push_urls, ["https://h/x.git"]);
        assert!(strip.record.credential_stripped);
        assert!(strip.note().unwrap().contains(" h lost"));
        let error = Origin::decide(OriginPolicy::Carry, &dirty).unwrap_err();
        assert_eq!(error.slug(), "credential-in-origin");
        assert!(!error.to_string().contains("TOKEN"));
        let clean = config("[remote \"origin\"]\nurl = git@h:x.git\n");
        let carry = Origin::decide(OriginPolicy::Carry, &clean).unwrap();
        assert_eq!(carry.urls, ["git@h:x.git"]);
        let helper = config("[remote \"origin\"]\nurl = ext::sh -c TOKEN\n");
        let strip = Origin::decide(OriginPolicy::Strip, &helper).unwrap();
        assert!(strip.urls.is_empty() && strip.note().is_some());
    }

    #[test]
    fn r81_the_allow_list_allows_exactly_what_is_written() {
        let dirty = config("[remote \"origin\"]\nurl = https://h/x\npushurl = https://h/y\n");
        let origin = Origin::decide(OriginPolicy::Strip, &dirty).unwrap();
        for hash_kind in [HashKind::Sha1, HashKind::Sha256] {
            for section in config_sections(hash_kind, &origin, true) {
                for (key, _) in &section.entries {
                    assert!(allows(section.name, section.subsection.as_deref(), key));
                }
            }
        }
        for (section, subsection, key) in [
            ("core", None, "hookspath"),
            ("core", None, "fsmonitor"),
            ("core", Some("x"), "bare"),
            ("include", None, "path"),
            ("remote", Some("other"), "url"),
            ("remote", Some("origin"), "promisor"),
            ("credential", None, "helper"),
        ] {
            assert!(!allows(section, subsection, key));
        }
    }
}
