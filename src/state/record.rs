//! Records: small JSON files with a schema, read with a bound and written by rename (R56).

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use std::path::Path;

use crate::error::{Context, Error, ErrorKind, IoContext, Result};
use crate::sys::{DirFd, FileKind, os_name, process, stat_fd};

/// No record comes near it; a longer file is not one of ours.
pub const RECORD_BYTES_MAX: u64 = 1 << 20;

/// What a record must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: the file and its directory are synced before `write` returns.
    Synced,
    /// The end of processes, not of the host: for records of what ends with the host anyway, such
    /// as mounts. A sync costs milliseconds, more than mounting does.
    WhileHostRuns,
}

/// Reads the record `name` of `dir`. `None` where there is no such file.
///
/// # Errors
/// `corrupt-state` for a file that is not a regular one of this user with one name, is too long,
/// does not parse or has another schema. The file is left as it is.
pub fn read<T: DeserializeOwned>(dir: &DirFd, name: &str, schema: &str) -> Result<Option<T>> {
    let corrupt = |what: String| corrupt(name, &what);
    let file = match dir.open_file(name.as_bytes()) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(corrupt(String::from("cannot be opened")).caused_by(e)),
    };
    let stat = stat_fd(std::os::fd::AsFd::as_fd(&file))
        .doing(|| format!("cannot stat the record {name}"))?;
    if stat.kind != FileKind::File {
        return Err(corrupt(String::from("is not a regular file")));
    }
    if stat.uid != process::effective_ids().0 {
        return Err(corrupt(format!("belongs to user {}", stat.uid)));
    }
    if stat.nlink > 1 {
        return Err(corrupt(format!("has {} names", stat.nlink)));
    }
    if stat.size > RECORD_BYTES_MAX {
        return Err(corrupt(format!(
            "has {} bytes, more than any record",
            stat.size
        )));
    }
    let mut bytes = Vec::new();
    file.take(RECORD_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .doing(|| format!("cannot read the record {name}"))?;
    let value: serde_json::Value = serde_json::from_slice(&bytes)
        .map_err(|e| corrupt(String::from("is not JSON")).caused_by(e))?;
    let found = value.get("schema").and_then(serde_json::Value::as_str);
    if found != Some(schema) {
        let found = found.unwrap_or("none").escape_debug();
        return Err(corrupt(format!(
            "has the schema {found} instead of {schema}"
        )));
    }
    serde_json::from_value(value)
        .map(Some)
        .map_err(|e| corrupt(String::from("lacks a field of its schema")).caused_by(e))
}

fn corrupt(name: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "corrupt-state",
        format!("the record {name} {what}; look at it, then remove it"),
    )
    .at(Path::new(os_name(name.as_bytes())))
}

/// Writes the record `name` of `dir`, mode 0600, by a rename: a reader sees the old one or the new
/// one, whole.
///
/// # Errors
/// What the file system says; nothing is left behind then.
pub fn write(
    dir: &DirFd,
    name: &str,
    record: &impl Serialize,
    durability: Durability,
) -> Result<()> {
    let mut bytes =
        serde_json::to_vec_pretty(record).context(ErrorKind::Internal, "internal", || {
            format!("cannot write {name} as JSON")
        })?;
    bytes.push(b'\n');
    let temporary = format!(".{name}.{}", std::process::id());
    let doing = || format!("cannot write the record {name}");
    let _ = dir.remove_file(temporary.as_bytes()); // of a process of this number that was killed
    let mut file = dir.create_file(temporary.as_bytes(), false).doing(doing)?;
    let result = file
        .write_all(&bytes)
        .and_then(|()| match durability {
            Durability::Synced => file.sync_all(),
            Durability::WhileHostRuns => Ok(()),
        })
        .and_then(|()| dir.rename(temporary.as_bytes(), name.as_bytes()))
        .and_then(|()| match durability {
            Durability::Synced => dir.sync(),
            Durability::WhileHostRuns => Ok(()),
        });
    if result.is_err() {
        let _ = dir.remove_file(temporary.as_bytes());
    }
    result.doing(doing)
}

/// Removes the record `name`; one that is gone is no error.
///
/// # Errors
/// What `unlink` says.
pub fn remove(dir: &DirFd, name: &str) -> Result<()> {
    match dir.remove_file(name.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("cannot remove the record {name}"), e))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::os::unix::fs::MetadataExt;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        schema: String,
        number: u32,
    }

    fn sample() -> Sample {
        Sample {
            schema: String::from("forgefs.sample/1"),
            number: 7,
        }
    }

    fn get(dir: &DirFd) -> Result<Option<Sample>> {
        read(dir, "a.json", "forgefs.sample/1")
    }

    #[test]
    fn r56_what_was_written_is_read_and_only_its_user_may() {
        for durability in [Durability::Synced, Durability::WhileHostRuns] {
            let temp = tempfile::tempdir().unwrap();
            let dir = DirFd::open(temp.path()).unwrap();
            assert_eq!(get(&dir).unwrap(), None);
            write(&dir, "a.json", &sample(), durability).unwrap();
            write(&dir, "a.json", &sample(), durability).unwrap();
            assert_eq!(get(&dir).unwrap(), Some(sample()));
            let meta = std::fs::metadata(temp.path().join("a.json")).unwrap();
            assert_eq!((meta.mode() & 0o7777, meta.nlink()), (0o600, 1));
            assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
            remove(&dir, "a.json").unwrap();
            remove(&dir, "a.json").unwrap();
            assert_eq!(get(&dir).unwrap(), None);
        }
    }

    #[test]
    fn r56_a_damaged_record_fails_loudly_and_is_left_as_it_is() {
        let good = serde_json::to_string(&sample()).unwrap();
        for bytes in [
            String::new(),
            good.get(..good.len() - 1).unwrap().to_owned(),
            good.replace("/1", "/9"),
            good.replace("number", "nember"),
            good.replace('7', "\"7\""),
            String::from("[]"),
            "[".repeat(100_000),
        ] {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join("a.json");
            std::fs::write(&path, &bytes).unwrap();
            let error = get(&DirFd::open(temp.path()).unwrap()).unwrap_err();
            assert_eq!(
                (error.kind(), error.slug()),
                (ErrorKind::Corrupt, "corrupt-state")
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn r56_what_is_no_plain_file_of_ours_is_refused() {
        type Make = fn(&Path);
        let make: [(&str, Make); 4] = [
            ("sparse", |p| {
                std::fs::File::create(p).unwrap().set_len(1 << 30).unwrap();
            }),
            ("link", |p| {
                std::os::unix::fs::symlink("/etc/passwd", p).unwrap();
            }),
            ("directory", |p| std::fs::create_dir(p).unwrap()),
            ("two names", |p| {
                std::fs::write(p, serde_json::to_string(&sample()).unwrap()).unwrap();
                std::fs::hard_link(p, p.with_extension("other")).unwrap();
            }),
        ];
        for (what, make) in make {
            let temp = tempfile::tempdir().unwrap();
            make(&temp.path().join("a.json"));
            let error = get(&DirFd::open(temp.path()).unwrap()).unwrap_err();
            assert_eq!(error.slug(), "corrupt-state", "{what}");
        }
    }
}
