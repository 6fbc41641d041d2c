//! What `find` shows of a directory, as data.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::command::Run;

/// One path as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    /// The path below the directory; empty for itself.
    pub(crate) path: PathBuf,
    /// `f`, `d` or `l`.
    pub(crate) kind: String,
    /// The permission bits, in octal.
    pub(crate) mode: String,
    /// The size in bytes.
    pub(crate) size: u64,
    /// The time of the last change, as `find` prints it.
    pub(crate) mtime: String,
    /// The inode number.
    pub(crate) ino: u64,
    /// The number of links.
    pub(crate) nlink: u64,
    /// The 512-byte blocks.
    pub(crate) blocks: u64,
    /// Where a symbolic link points.
    pub(crate) target: Vec<u8>,
}

/// Lists everything below a directory, itself first, sorted by path.
#[track_caller]
pub(crate) fn listing(dir: &Path) -> Vec<Seen> {
    let format = "%P\\0%y\\0%m\\0%s\\0%T@\\0%i\\0%n\\0%b\\0%l\\0";
    let finished = Run::new("find").arg(dir).args(["-printf", format]).run();
    finished.exits(0);
    let mut fields: Vec<&[u8]> = finished.stdout.split(|b| *b == 0).collect();
    assert_eq!(fields.pop(), Some(&b""[..]), "the last field is ended");
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let number = |field: &[u8]| text(field).parse().expect("a number");
    let mut seen: Vec<Seen> = fields
        .chunks(9)
        .map(|f| Seen {
            path: PathBuf::from(std::ffi::OsStr::from_bytes(f[0])),
            kind: text(f[1]),
            mode: text(f[2]),
            size: number(f[3]),
            mtime: text(f[4]),
            ino: number(f[5]),
            nlink: number(f[6]),
            blocks: number(f[7]),
            target: f[8].to_vec(),
        })
        .collect();
    seen.sort();
    seen
}
