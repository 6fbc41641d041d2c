//! `objects/info/alternates` (gitrepository-layout): other object directories to look into.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::sys::DirFd;

/// The longest alternates file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The most object directories that are followed; git stops at five levels, we at this number.
const DIRS_MAX: usize = 256;

/// An object directory and its path for messages.
pub(super) type ObjectsFd = (DirFd, PathBuf);

/// What was found from one object directory on.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The directory itself first, then its alternates, breadth first, each once.
    pub(super) dirs: Vec<ObjectsFd>,
    /// Alternates that could not be opened, as they are written.
    pub(super) absent: Vec<String>,
}

/// Follows alternates from `objects` on: relative ones from the directory that names them, each
/// directory once, so that a diamond is read once and a cycle ends.
pub(super) fn follow(objects: DirFd, path: &Path) -> Found {
    let mut found = Found::default();
    let mut seen = HashSet::new();
    if let Ok(stat) = objects.stat_self() {
        seen.insert((stat.identity.dev, stat.identity.ino));
    }
    found.dirs.push((objects, path.to_path_buf()));
    let mut at = 0;
    while let Some((dir, path)) = found.dirs.get(at) {
        let mut next = Vec::new();
        for name in parse(&read(dir)) {
            let shown = path.join(OsStr::from_bytes(&name));
            match dir.open_dir_following(&name) {
                Ok(alternate) => next.push((alternate, shown)),
                Err(error) => {
                    let path = shown.display().to_string();
                    tracing::warn!(path, %error, "alternate object directory cannot be opened");
                    found.absent.push(path);
                }
            }
        }
        for (alternate, shown) in next {
            let is_new = alternate
                .stat_self()
                .is_ok_and(|stat| seen.insert((stat.identity.dev, stat.identity.ino)));
            if is_new && found.dirs.len() < DIRS_MAX {
                found.dirs.push((alternate, shown));
            }
        }
        at += 1;
    }
    found
}

fn read(objects: &DirFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = objects.open_file_following(b"info/alternates");
    let read = file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "info/alternates cannot be read");
        }
        _ => {}
    }
    bytes
}

/// Returns the paths of an alternates file: a line each, `#` begins a comment, a line that begins
/// with `"` is quoted as in C.
pub(super) fn parse(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty() && line.first() != Some(&b'#'))
        .map(|line| unquote(line).unwrap_or_else(|| line.to_vec()))
        .filter(|path| !path.contains(&0))
        .collect()
}

/// Undoes git's C quoting; `None` where the line is not a quoted string.
fn unquote(line: &[u8]) -> Option<Vec<u8>> {
    let mut rest = line.strip_prefix(b"\"")?.iter().copied();
    let mut out = Vec::new();
    loop {
        match rest.next()? {
            b'"' => return Some(out),
            b'\\' => out.push(match rest.next()? {
                b'a' => 7,
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                same @ (b'"' | b'\\') => same,
                high @ b'0'..=b'3' => {
                    let mut value = high - b'0';
                    for _ in 0..2 {
                        let digit = rest.next()?.checked_sub(b'0').filter(|d| *d < 8)?;
                        value = value * 8 + digit;
                    }
                    value
                }
                _ => return None,
            }),
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_git_reads_them() {
        let text = b"# comment\n\n../x/objects\n\"/sp ace\\\"q/\\303\\244\"\n/last";
        assert_eq!(
            parse(text),
            [
                b"../x/objects".to_vec(),
                b"/sp ace\"q/\xc3\xa4".to_vec(),
                b"/last".to_vec()
            ]
        );
        for not_quoted in ["\"open", "\"bad\\x\"", "\"\\9\""] {
            assert_eq!(parse(not_quoted.as_bytes()), [not_quoted.as_bytes()]);
        }
    }

    #[test]
    fn cycles_and_diamonds_end_with_each_directory_once() {
        let top = tempfile::tempdir().unwrap();
        let alternates = |dir: &str, text: &str| {
            let dir = top.path().join(dir);
            std::fs::create_dir_all(dir.join("info")).unwrap();
            std::fs::write(dir.join("info/alternates"), text).unwrap();
        };
        alternates("a", "../b\n../c\n../nowhere\n");
        alternates("b", "../d\n");
        alternates("c", "../d\n");
        alternates("d", "../a\n");
        let path = top.path().join("a");
        let found = follow(DirFd::open(&path).unwrap(), &path);
        let names: Vec<_> = found
            .dirs
            .iter()
            .map(|(_, path)| path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        assert_eq!(found.absent.len(), 1);
    }
}
