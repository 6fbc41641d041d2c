//! The kernel's mount table as data: `/proc/self/mountinfo`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// One line of the mount table.
#[derive(Debug, Clone)]
pub(crate) struct MountLine {
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// The mount's own options.
    pub(crate) options: String,
    /// The file system type with its subtype.
    pub(crate) fstype: String,
    /// What it says it mounts.
    pub(crate) source: String,
    /// The whole line.
    pub(crate) line: String,
    /// The minor device number, which names the FUSE connection.
    pub(crate) minor: u32,
}

/// Undoes the octal escapes of `mountinfo` (proc_pid_mountinfo(5)).
pub(crate) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, octal) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Reads the mounts of a process (`self`, or a number).
pub(crate) fn mounts_of(process: &str) -> Vec<MountLine> {
    let text = std::fs::read(format!("/proc/{process}/mountinfo")).expect("a mount table");
    text.split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
            let dash = fields.iter().position(|f| *f == b"-").expect("a separator");
            let text = |at: usize| String::from_utf8_lossy(fields[at]).into_owned();
            let minor = text(2).split_once(':').expect("a device").1.to_owned();
            MountLine {
                point: PathBuf::from(std::ffi::OsStr::from_bytes(&unescape(fields[4]))),
                options: text(5),
                fstype: text(dash + 1),
                source: text(dash + 2),
                line: String::from_utf8_lossy(line).into_owned(),
                minor: minor.parse().expect("a number"),
            }
        })
        .collect()
}

/// Returns the mounts at exactly this path, lowest first.
pub(crate) fn mounts_at(point: &Path) -> Vec<MountLine> {
    let mut mounts = mounts_of("self");
    mounts.retain(|mount| mount.point == point);
    mounts
}
