//! What a repository's configuration says of its format (R8, R9): the version and the extensions,
//! by the rules of gitrepository-layout and `git-config`'s `extensions.*`; everything else in there
//! is ignored.

use super::HashKind;
use crate::error::{Error, ErrorKind, Result};

/// How a repository keeps its refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefStorage {
    /// Loose files and `packed-refs`.
    Files,
    /// The reftable format.
    Reftable,
}

/// The format of a repository, as far as its configuration decides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// `core.repositoryFormatVersion`: 0 or 1.
    pub version: u8,
    /// `extensions.objectFormat`.
    pub hash_kind: HashKind,
    /// `extensions.refStorage`.
    pub ref_storage: RefStorage,
    /// `extensions.partialClone`: the remote that promised what is missing.
    pub partial_clone: Option<String>,
    /// The names of all extensions that are set, lower case, in order of appearance.
    pub extensions: Vec<String>,
}

impl Format {
    /// Reads the bytes of `config`; includes are not followed.
    ///
    /// # Errors
    /// `bad-config` where it does not parse, `unsupported-version` over 1, `unsupported-extension`
    /// for an extension that is unknown or set to an unknown value, `unsupported-object-format`.
    pub fn read(config: &[u8]) -> Result<Self> {
        let file = gix::config::File::from_bytes_no_includes(
            config,
            gix::config::file::Metadata::from(gix::config::Source::Local),
            gix::config::file::init::Options {
                lossy: true,
                ..Default::default()
            },
        )
        .map_err(|error| {
            Error::new(
                ErrorKind::Corrupt,
                "bad-config",
                "the repository's config file does not parse; `git config --list --local` shows where",
            )
            .caused_by(error.to_string())
        })?;
        let mut format = Self {
            version: 0,
            hash_kind: HashKind::Sha1,
            ref_storage: RefStorage::Files,
            partial_clone: None,
            extensions: Vec::new(),
        };
        let mut extensions: Vec<(String, String)> = Vec::new();
        for section in file.sections() {
            if section.header().subsection_name().is_some() {
                continue;
            }
            let section_name = section.header().name().to_ascii_lowercase();
            let read = |key: &str| {
                let value = section.value_implicit(key).flatten();
                value.map_or_else(String::new, |text| text.to_string())
            };
            match section_name.as_slice() {
                b"core" if section.contains_value_name("repositoryformatversion") => {
                    format.version = parse_version(&read("repositoryformatversion"))?;
                }
                b"extensions" => {
                    for key in section.value_names() {
                        let value = read(&key);
                        extensions.push((key, value));
                    }
                }
                _ => {}
            }
        }
        for (key, value) in extensions {
            format.apply(&key, value.trim())?;
            let key = key.to_ascii_lowercase();
            if !format.extensions.contains(&key) {
                format.extensions.push(key);
            }
        }
        Ok(format)
    }

    /// Takes one extension in; a repository of version 0 has none that we must know.
    fn apply(&mut self, key: &str, value: &str) -> Result<()> {
        match key.to_ascii_lowercase().as_str() {
            "objectformat" => match value.to_ascii_lowercase().as_str() {
                "sha1" => self.hash_kind = HashKind::Sha1,
                "sha256" if self.version > 0 => self.hash_kind = HashKind::Sha256,
                _ => {
                    return Err(unsupported(
                        "unsupported-object-format",
                        format!(
                            "extensions.objectFormat={value} in a repository of version {} is not \
                             supported; forgefs reads sha1 and sha256",
                            self.version
                        ),
                    ));
                }
            },
            "partialclone" => self.partial_clone = Some(value.to_owned()),
            _ if self.version == 0 => {}
            "refstorage" => {
                self.ref_storage = match value.split(':').next() {
                    Some("files") => RefStorage::Files,
                    Some("reftable") => RefStorage::Reftable,
                    _ => return Err(unknown_extension(&format!("refStorage={value}"))),
                };
            }
            "noop" | "noop-v1" | "preciousobjects" | "worktreeconfig" | "relativeworktrees"
            | "compatobjectformat" => {}
            _ => return Err(unknown_extension(key)),
        }
        Ok(())
    }
}

fn parse_version(text: &str) -> Result<u8> {
    match text.trim().parse::<u64>() {
        Ok(0) => Ok(0),
        Ok(1) => Ok(1),
        _ => Err(unsupported(
            "unsupported-version",
            format!(
                "core.repositoryFormatVersion is {:?}; forgefs reads repositories of version 0 and 1",
                text.trim()
            ),
        )),
    }
}

fn unknown_extension(key: &str) -> Error {
    unsupported(
        "unsupported-extension",
        format!(
            "the repository uses extensions.{key}, which forgefs does not know, so its objects may \
             be laid out otherwise; use a repository without it"
        ),
    )
}

fn unsupported(slug: &'static str, message: String) -> Error {
    Error::new(ErrorKind::Unsupported, slug, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_unknown_extensions_versions_and_hashes_are_refused() {
        let v1 = "[core]\nrepositoryformatversion = 1\n";
        for (text, want) in [
            ("", Ok(HashKind::Sha1)),
            ("[core]\n\tbare = false\n", Ok(HashKind::Sha1)),
            (
                "[core]\nrepositoryFormatVersion = 0\n[extensions]\nfuture = 1\n",
                Ok(HashKind::Sha1),
            ),
            (&format!("{v1}[extensions]\nnoop\n"), Ok(HashKind::Sha1)),
            (
                &format!("{v1}[EXTENSIONS]\nObjectFormat = sha256\n"),
                Ok(HashKind::Sha256),
            ),
            (
                &format!("[extensions]\nobjectformat = sha256\n{v1}"),
                Ok(HashKind::Sha256),
            ),
            (
                &format!("{v1}[extensions \"sub\"]\nfuture = 1\n"),
                Ok(HashKind::Sha1),
            ),
            (
                &format!(
                    "{v1}[extensions]\npreciousObjects=true\npartialClone=origin\nworktreeConfig\n\
                          relativeWorktrees=true\nrefStorage=reftable\ncompatObjectFormat=sha256\n"
                ),
                Ok(HashKind::Sha1),
            ),
            (
                &format!("{v1}[include]\npath = /etc/passwd\n"),
                Ok(HashKind::Sha1),
            ),
            (
                &format!("{v1}[extensions]\nfutureMagic = 1\n"),
                Err("unsupported-extension"),
            ),
            (
                &format!("{v1}[extensions]\nrefStorage = sqlite\n"),
                Err("unsupported-extension"),
            ),
            (
                &format!("{v1}[extensions]\nobjectFormat = md5\n"),
                Err("unsupported-object-format"),
            ),
            (
                "[extensions]\nobjectFormat = sha256\n",
                Err("unsupported-object-format"),
            ),
            (
                "[core]\nrepositoryformatversion = 2\n",
                Err("unsupported-version"),
            ),
            (
                "[core]\nrepositoryformatversion = -1\n",
                Err("unsupported-version"),
            ),
            ("[core\n", Err("bad-config")),
        ] {
            let got = Format::read(text.as_bytes());
            let got = got
                .as_ref()
                .map(|format| format.hash_kind)
                .map_err(Error::slug);
            assert_eq!(got, want, "{text}");
        }
        let error = Format::read(format!("{v1}[extensions]\nfutureMagic = 1\n").as_bytes());
        assert!(error.unwrap_err().to_string().contains("futureMagic"));
    }
}
