//! Reads a finished repository back and holds it to its profile, before it gets its name: what was
//! meant to be written is what is there, and nothing else is.

use std::io::Read;
use std::os::unix::fs::FileExt;

use super::profile::allows;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::git::{Oid, PackRecord, RawConfig};
use crate::sys::{DirFd, FileKind};

/// No small file of a workspace is longer, bytes.
const SMALL_FILE_BYTES_MAX: u64 = 64 << 20;

/// What the repository must be.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    /// Files of `.git` with their exact content.
    pub(super) files: &'a [(Vec<u8>, Vec<u8>)],
    /// Whether an index is there whose content is not compared.
    pub(super) index_only_named: bool,
    /// The pack; `None` where it lies in a layer.
    pub(super) pack: Option<&'a PackRecord>,
}

/// Checks the repository in `git_dir`.
///
/// # Errors
/// `self-check` (internal) naming what is not as it must be.
pub(super) fn check(git_dir: &DirFd, expected: &Expected<'_>) -> Result<()> {
    for (name, content) in expected.files {
        let found = read(git_dir, name)?;
        if found != *content {
            return Err(broken(name, "does not hold what was written"));
        }
        if name == b"config" {
            check_config(&found)?;
        }
    }
    let mut allowed: Vec<Vec<u8>> = expected
        .files
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    if expected.index_only_named {
        allowed.push(b"index".to_vec());
    }
    let suffixes = ["pack", "idx", "rev"].into_iter();
    for (suffix, pack) in suffixes.filter_map(|suffix| Some((suffix, expected.pack?))) {
        allowed.push(format!("objects/pack/{}", pack.file_name(suffix)).into_bytes());
    }
    check_names(git_dir, &allowed)?;
    match expected.pack {
        Some(pack) => {
            let dir = git_dir
                .open_dir(b"objects/pack")
                .doing(|| String::from("cannot read the new repository"))?;
            check_pack(&dir, pack)
        }
        None => Ok(()),
    }
}

/// Every file is expected, every directory is one of the few that a repository has: so there are no
/// hooks, alternates, other refs, reflogs or links.
fn check_names(git_dir: &DirFd, allowed: &[Vec<u8>]) -> Result<()> {
    let mut stack: Vec<Vec<u8>> = vec![Vec::new()];
    let mut found = 0;
    while let Some(dir) = stack.pop() {
        let opened = if dir.is_empty() {
            git_dir.reopen()
        } else {
            git_dir.open_dir(&dir)
        };
        let opened = opened.doing(|| String::from("cannot read the new repository"))?;
        for entry in opened
            .list()
            .doing(|| String::from("cannot list the new repository"))?
        {
            let path = if dir.is_empty() {
                entry.name
            } else {
                [&dir[..], b"/", &entry.name].concat()
            };
            let stat = git_dir_stat(&opened, &path)?;
            match stat {
                FileKind::Directory if is_known_dir(&path) => stack.push(path),
                FileKind::File if allowed.contains(&path) => found += 1,
                _ => return Err(broken(&path, "does not belong into a workspace")),
            }
        }
    }
    if found != allowed.len() {
        return Err(broken(b".git", "lacks a file"));
    }
    Ok(())
}

fn git_dir_stat(dir: &DirFd, path: &[u8]) -> Result<FileKind> {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    dir.stat(name)
        .map(|stat| stat.kind)
        .doing(|| String::from("cannot stat a file of the new repository"))
}

fn is_known_dir(path: &[u8]) -> bool {
    matches!(
        path,
        b"objects" | b"objects/pack" | b"objects/info" | b"refs" | b"refs/heads" | b"refs/tags"
    ) || path.starts_with(b"refs/heads/")
}

fn check_config(bytes: &[u8]) -> Result<()> {
    let config = RawConfig::parse(bytes)?;
    for (section, subsection, key) in config.keys() {
        if !allows(&section, subsection.as_deref(), &key) {
            return Err(broken(b"config", &format!("holds {section}.{key}")));
        }
    }
    Ok(())
}

/// The pack and its index are as long as they should be and end in each other's check sums.
pub(super) fn check_pack(pack_dir: &DirFd, pack: &PackRecord) -> Result<()> {
    let read_end = |suffix: &str, sums: u64| -> Result<(u64, Vec<u8>)> {
        let name = pack.file_name(suffix);
        let doing = || format!("cannot read {name} back");
        let file = pack_dir.open_file(name.as_bytes()).doing(doing)?;
        let len = file.metadata().doing(doing)?.len();
        let id_len = pack.name.as_slice().len();
        let mut sum = vec![0; id_len];
        file.read_exact_at(&mut sum, len.saturating_sub(sums * id_len as u64))
            .doing(doing)?;
        Ok((len, sum))
    };
    let (len, sum) = read_end("pack", 1)?;
    if len != pack.bytes || Oid::try_from(&sum[..]).ok() != Some(pack.name) {
        return Err(broken(
            b"objects/pack",
            "holds a pack that is not the one written",
        ));
    }
    for suffix in ["idx", "rev"] {
        if Oid::try_from(&read_end(suffix, 2)?.1[..]).ok() != Some(pack.name) {
            return Err(broken(b"objects/pack", "holds an index of another pack"));
        }
    }
    Ok(())
}

fn read(git_dir: &DirFd, name: &[u8]) -> Result<Vec<u8>> {
    let doing = || format!("cannot read {} back", name.escape_ascii());
    let mut bytes = Vec::new();
    git_dir
        .open_file(name)
        .doing(doing)?
        .take(SMALL_FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .doing(doing)?;
    Ok(bytes)
}

fn broken(name: &[u8], what: &str) -> Error {
    Error::new(
        ErrorKind::Internal,
        "self-check",
        format!(
            "the new workspace is not as it must be: {} {what}",
            name.escape_ascii()
        ),
    )
}
