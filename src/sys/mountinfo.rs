//! `/proc/self/mountinfo` as data (proc_pid_mountinfo(5)): the list of this mount namespace, read
//! without touching any of the mounts, so that a dead or hung one cannot stop the reader (R42).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// More than any real namespace has; a longer list is refused, not cut.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// One mount of this namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// The id of the mount, reused after it ends.
    pub id: u64,
    /// The id of the mount that it stands on.
    pub parent_id: u64,
    /// The device of the superblock: major and minor. The minor is a FUSE connection's id.
    pub device: (u32, u32),
    /// Which directory of the file system is shown, `/` unless it is a bind mount.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Options of this mount, comma separated.
    pub options: OsString,
    /// The file system type with its subtype, such as `fuse.forgefs`.
    pub fs_type: OsString,
    /// What was named as mounted.
    pub source: OsString,
    /// Options of the superblock, comma separated.
    pub super_options: OsString,
}

/// Reads the mounts of this process's namespace.
///
/// # Errors
/// What reading says, or `InvalidData` for a line that is none.
pub fn read_mounts() -> io::Result<Vec<MountEntry>> {
    let mut bytes = Vec::new();
    std::fs::File::open("/proc/self/mountinfo")?
        .take(LIST_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIST_BYTES_MAX {
        return Err(io::Error::other(
            "the list of mounts is longer than 256 MiB",
        ));
    }
    parse_mounts(&bytes)
}

/// Parses the content of a `mountinfo` file.
///
/// # Errors
/// `InvalidData` for a line that is none; never a partial list.
pub fn parse_mounts(bytes: &[u8]) -> io::Result<Vec<MountEntry>> {
    bytes
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            parse_line(line).ok_or_else(|| {
                let text = format!("not a line of mountinfo: {}", line.escape_ascii());
                io::Error::new(io::ErrorKind::InvalidData, text)
            })
        })
        .collect()
}

/// `36 35 98:0 /root /point options [optional..] - type source super-options`; one space between
/// fields, any of which may be empty but for the numbers.
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|b| *b == b' ');
    let id = number(fields.next()?)?;
    let parent_id = number(fields.next()?)?;
    let device = fields.next()?;
    let colon = device.iter().position(|b| *b == b':')?;
    let (major, minor) = device.split_at_checked(colon)?;
    let device = (number(major)?, number(minor.get(1..)?)?);
    let root = path(fields.next()?);
    let mount_point = path(fields.next()?);
    let options = unescape(fields.next()?);
    fields.by_ref().find(|field| *field == b"-")?;
    Some(MountEntry {
        id,
        parent_id,
        device,
        root,
        mount_point,
        options,
        fs_type: unescape(fields.next()?),
        source: unescape(fields.next()?),
        super_options: unescape(fields.next().unwrap_or_default()),
    })
}

fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(unescape(field))
}

/// Undoes the kernel's `\040`-style octal escapes; a backslash that begins none stands for itself.
fn unescape(field: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = |b: &u8| (b'0'..=b'7').contains(b).then(|| u32::from(b - b'0'));
        let code = match (first, tail) {
            (b'\\', [a, b, c, ..]) => octal(a)
                .zip(octal(b))
                .zip(octal(c))
                .and_then(|((a, b), c)| u8::try_from(a * 64 + b * 8 + c).ok()),
            _ => None,
        };
        match code {
            Some(byte) => {
                out.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(out)
}

/// Returns the mount that shows at `point`: of several stacked there, the topmost.
#[must_use]
pub fn top_mount_at<'a>(mounts: &'a [MountEntry], point: &Path) -> Option<&'a MountEntry> {
    let here = || mounts.iter().filter(|m| m.mount_point == point);
    here().rfind(|m| !here().any(|above| above.parent_id == m.id && above.id != m.id))
}

/// Returns the mount that `path` (absolute, without links) lies in.
#[must_use]
pub fn mount_of<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    path.ancestors()
        .find_map(|ancestor| top_mount_at(mounts, ancestor))
}

impl MountEntry {
    /// Returns whether the file system type is `name`.
    #[must_use]
    pub fn is_type(&self, name: &str) -> bool {
        self.fs_type == OsStr::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn one(line: &str) -> Option<MountEntry> {
        parse_mounts(line.as_bytes())
            .ok()
            .and_then(|mut list| list.pop())
    }

    #[test]
    fn a_line_gives_its_fields_whatever_the_number_of_optional_ones() {
        for optional in [
            "",
            "shared:7 ",
            "shared:7 master:2 propagate_from:1 unbindable ",
        ] {
            let line =
                format!("36 35 0:41 / /tmp/m ro,nosuid {optional}- fuse.forgefs forgefs:0123 ro");
            let entry = one(&line).unwrap();
            assert_eq!((entry.id, entry.parent_id), (36, 35));
            assert_eq!(entry.device, (0, 41));
            assert_eq!(entry.mount_point, Path::new("/tmp/m"));
            assert!(entry.is_type("fuse.forgefs"));
            assert_eq!(entry.source, "forgefs:0123");
            assert_eq!(entry.super_options, "ro");
        }
    }

    #[test]
    fn octal_escapes_are_undone_and_lone_backslashes_kept() {
        for (field, want) in [
            (r"/a\040b", &b"/a b"[..]),
            (r"/a\011b\012c\134d\043", b"/a\tb\nc\\d#"),
            (r"/a\04", br"/a\04"),
            (r"/a\", br"/a\"),
            (r"/a\999", br"/a\999"),
            (r"/a\777", br"/a\777"),
            (r"/a\303\251", "/a\u{e9}".as_bytes()),
        ] {
            let entry = one(&format!("1 0 0:1 / {field} rw - tmpfs none rw")).unwrap();
            assert_eq!(entry.mount_point.as_os_str().as_bytes(), want, "{field}");
        }
    }

    #[test]
    fn an_empty_source_and_missing_super_options_are_read() {
        let entry = one("1 0 0:1 / /m rw - tmpfs  rw").unwrap();
        assert_eq!((entry.source.len(), entry.super_options.len()), (0, 2));
        assert_eq!(
            one("1 0 0:1 / /m rw - tmpfs none").unwrap().super_options,
            ""
        );
    }

    #[test]
    fn a_line_that_is_none_fails_the_whole_list() {
        for line in [
            "x",
            "1 0 01 / /m rw - tmpfs none rw",
            "1 0 0:1 / /m rw",
            "1 0 0:1 / /m rw - tmpfs",
            "-1 0 0:1 / /m rw - tmpfs none rw",
            "1 0 0:99999999999 / /m rw - tmpfs none rw",
        ] {
            assert!(parse_mounts(line.as_bytes()).is_err(), "{line}");
        }
        assert!(parse_mounts(b"").unwrap().is_empty());
    }

    #[test]
    fn of_stacked_mounts_the_topmost_shows_and_paths_lie_in_the_nearest() {
        let list = parse_mounts(
            b"1 1 0:1 / / rw - ext4 d rw\n3 2 0:3 / /m rw - fuse.forgefs f rw\n\
              2 1 0:2 / /m rw - tmpfs t rw\n",
        )
        .unwrap();
        assert_eq!(top_mount_at(&list, Path::new("/m")).unwrap().id, 3);
        assert_eq!(mount_of(&list, Path::new("/m/a/b")).unwrap().id, 3);
        assert_eq!(mount_of(&list, Path::new("/ma")).unwrap().id, 1);
        assert!(top_mount_at(&list, Path::new("/x")).is_none());
    }

    #[test]
    fn this_namespace_has_proc_mounted() {
        let list = read_mounts().unwrap();
        assert!(
            top_mount_at(&list, Path::new("/proc"))
                .unwrap()
                .is_type("proc")
        );
    }
}
