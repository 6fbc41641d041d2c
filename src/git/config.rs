//! Git configuration: raw values of an existing file, read without includes and without expansion
//! (R104, R105), and the writer of new files, which knows nothing but the keys it is given (R81).

use crate::error::{Context, Error, ErrorKind, Result};

/// A configuration file larger than this is not read.
const BYTES_MAX: usize = 1 << 20;

/// The values of one configuration file, as they stand there: no include is followed, nothing is
/// expanded, no other file is looked at.
#[derive(Debug)]
pub struct RawConfig(gix::config::File);

impl RawConfig {
    /// Parses the content of one file.
    ///
    /// # Errors
    /// `bad-config` where it does not parse or is larger than 1 MiB.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let says = || String::from("the repository's configuration does not parse");
        if bytes.len() > BYTES_MAX {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "bad-config",
                "the repository's configuration is larger than 1 MiB",
            ));
        }
        let options = gix::config::file::init::Options {
            lossy: true,
            ..Default::default()
        };
        let meta = gix::config::file::Metadata::from(gix::config::Source::Local);
        gix::config::File::from_bytes_no_includes(bytes, meta, options)
            .map(Self)
            .map_err(|e| e.to_string())
            .context(ErrorKind::Unsupported, "bad-config", says)
    }

    /// Returns all values of `section.subsection.name` in their order, such as `remote`, `origin`,
    /// `url`. A value that is not UTF-8 is left out.
    #[must_use]
    pub fn values(&self, section: &str, subsection: Option<&str>, name: &str) -> Vec<String> {
        let subsection = subsection.map(|text| text.as_bytes().into());
        self.0
            .raw_values_by(section, subsection, name)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|value| String::from_utf8(value.to_vec()).ok())
            .collect()
    }

    /// Returns every key that is set, as section, subsection and key; sections and keys in lower
    /// case, as git compares them.
    #[must_use]
    pub fn keys(&self) -> Vec<(String, Option<String>, String)> {
        let mut out = Vec::new();
        for section in self.0.sections() {
            let header = section.header();
            for key in section.body().value_names() {
                out.push((
                    header.name().to_string().to_ascii_lowercase(),
                    header.subsection_name().map(ToString::to_string),
                    key.to_ascii_lowercase(),
                ));
            }
        }
        out
    }
}

/// One section of a configuration to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSection {
    /// The section, lower case.
    pub name: &'static str,
    /// The subsection, any text without line ends.
    pub subsection: Option<String>,
    /// Keys and values in their order.
    pub entries: Vec<(&'static str, String)>,
}

impl ConfigSection {
    /// Makes a section without a subsection.
    #[must_use]
    pub fn new(name: &'static str, entries: &[(&'static str, &str)]) -> Self {
        Self {
            name,
            subsection: None,
            entries: entries
                .iter()
                .map(|(key, value)| (*key, (*value).to_owned()))
                .collect(),
        }
    }
}

/// Returns the bytes of a configuration file with exactly these sections.
///
/// # Errors
/// `bad-config` for a value or subsection with a NUL or a line end, which no file can hold safely.
pub fn config_bytes(sections: &[ConfigSection]) -> Result<Vec<u8>> {
    let mut out = String::new();
    for section in sections {
        out.push('[');
        out.push_str(section.name);
        if let Some(subsection) = &section.subsection {
            out.push_str(" \"");
            for c in checked(subsection)?.chars() {
                if matches!(c, '"' | '\\') {
                    out.push('\\');
                }
                out.push(c);
            }
            out.push('"');
        }
        out.push_str("]\n");
        for (key, value) in &section.entries {
            out.push('\t');
            out.push_str(key);
            out.push_str(" = ");
            push_value(&mut out, checked(value)?);
            out.push('\n');
        }
    }
    Ok(out.into_bytes())
}

fn checked(text: &str) -> Result<&str> {
    if text.contains(['\0', '\n', '\r']) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "bad-config",
            "a configuration value holds a line end or a NUL",
        ));
    }
    Ok(text)
}

/// Quotes where git would otherwise trim, or take the rest for a comment.
fn push_value(out: &mut String, value: &str) {
    let quoted = value.starts_with(char::is_whitespace)
        || value.ends_with(char::is_whitespace)
        || value.contains(['#', ';']);
    if quoted {
        out.push('"');
    }
    for c in value.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            _ => out.push(c),
        }
    }
    if quoted {
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[expect(clippy::disallowed_methods, reason = "git is the oracle of this test")]
    fn git_config(file: &Path, args: &[&str]) -> String {
        let out = std::process::Command::new("git")
            .arg("config")
            .arg("--file")
            .arg(file)
            .args(args)
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    }

    #[test]
    fn git_reads_back_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        for value in [
            "plain", "", " lead", "trail ", "a#b", "a;b", "q\"q", "b\\s", "tab\tx", "a=b [c]",
            "\u{e9}",
        ] {
            let section = ConfigSection {
                name: "remote",
                subsection: Some(String::from("o\"r\\i")),
                entries: vec![("url", value.to_owned())],
            };
            std::fs::write(&file, config_bytes(&[section]).unwrap()).unwrap();
            let got = git_config(&file, &["-z", "--get", "remote.o\"r\\i.url"]);
            assert_eq!(got, format!("{value}\0"), "{value:?}");
            let raw = RawConfig::parse(&std::fs::read(&file).unwrap()).unwrap();
            assert_eq!(raw.values("remote", Some("o\"r\\i"), "url"), [value]);
        }
        assert!(config_bytes(&[ConfigSection::new("a", &[("b", "c\nd")])]).is_err());
    }

    #[test]
    fn r105_includes_and_rewrites_are_not_followed() {
        let text = "[include]\n\tpath = /dev/stdin\n[url \"x\"]\n\tinsteadOf = https\n\
                    [remote \"origin\"]\n\turl = https://a\n\turl = https://b\n";
        let raw = RawConfig::parse(text.as_bytes()).unwrap();
        assert_eq!(
            raw.values("remote", Some("origin"), "url"),
            ["https://a", "https://b"]
        );
        assert!(raw.values("remote", Some("other"), "url").is_empty());
        assert!(RawConfig::parse(b"[unclosed").is_err());
    }
}
