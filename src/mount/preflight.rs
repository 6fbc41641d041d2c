//! What this host must have before anything can be mounted, and the line that mends what it lacks
//! (R38, R43). Also the host part of `doctor`.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::sys::mounts::open_fuse_device;
use crate::sys::process::effective_ids;

/// How `/dev/fuse` answers this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FuseDevice {
    /// It can be opened.
    Usable,
    /// There is no such device, or the kernel has no FUSE behind it.
    Missing,
    /// It is there, but this user may not open it.
    Forbidden,
}

/// What mounting depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    /// The effective user.
    pub uid: u32,
    /// How `/dev/fuse` answers.
    pub fuse_device: FuseDevice,
    /// Where `fusermount3` is, which anybody but root needs.
    pub fusermount3: Option<PathBuf>,
    /// Whether it is set-uid root or this user is root, without which it cannot mount.
    pub fusermount3_privileged: bool,
    /// Whether /etc/fuse.conf lets users other than root give `--allow-other`.
    pub user_allow_other: bool,
}

/// What is to be mounted, as far as the host must allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Whether `--allow-other` was given.
    pub allow_other: bool,
}

/// Looks at this host; starts nothing. `path_variable` is `PATH`.
#[must_use]
pub fn host_facts(path_variable: Option<&OsStr>) -> HostFacts {
    let (uid, _) = effective_ids();
    let fusermount3 = path_variable.and_then(|path| find_program(path, "fusermount3"));
    let fusermount3_privileged = uid == 0 || fusermount3.as_deref().is_some_and(is_set_uid_root);
    HostFacts {
        uid,
        fuse_device: look_at_device(),
        fusermount3,
        fusermount3_privileged,
        user_allow_other: read_bounded(Path::new("/etc/fuse.conf"))
            .is_some_and(|text| allows_other(&text)),
    }
}

/// Refuses a mount that this host cannot make; returns how to make it.
///
/// # Errors
/// Kind `Host`: `fuse-missing`, `fuse-forbidden`, `fusermount3-missing`, `allow-other-forbidden`,
/// each with the line that mends it.
pub fn check_host(facts: &HostFacts, wish: Wish) -> Result<MountWay> {
    let host = |slug, message: &str| Err(Error::new(ErrorKind::Host, slug, message));
    match facts.fuse_device {
        FuseDevice::Usable => {}
        FuseDevice::Missing => {
            return host(
                "fuse-missing",
                "/dev/fuse is missing; run as root: modprobe fuse (in a container: --device /dev/fuse --cap-add SYS_ADMIN)",
            );
        }
        // fusermount3 opens the device as root, but then the daemon would hold what its user may
        // not open again; every distribution's udev rule makes it 0666.
        FuseDevice::Forbidden => {
            return host(
                "fuse-forbidden",
                "this user may not open /dev/fuse; run as root: chmod 0666 /dev/fuse",
            );
        }
    }
    if facts.uid == 0 {
        return Ok(MountWay::MountSyscall);
    }
    let Some(program) = facts.fusermount3.clone() else {
        return host(
            "fusermount3-missing",
            "fusermount3 is not on PATH; run as root: apt-get install fuse3",
        );
    };
    if !facts.fusermount3_privileged {
        return Err(Error::new(
            ErrorKind::Host,
            "fusermount3-missing",
            format!(
                "{0} is not set-uid root; run as root: chown root {0} && chmod 4755 {0}",
                program.display()
            ),
        ));
    }
    if wish.allow_other && !facts.user_allow_other {
        return host(
            "allow-other-forbidden",
            "--allow-other is not allowed to users; run as root: echo user_allow_other >> /etc/fuse.conf",
        );
    }
    Ok(MountWay::Fusermount(program))
}

/// How this process can mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountWay {
    /// `mount(2)`, as root.
    MountSyscall,
    /// The set-uid program at this path.
    Fusermount(PathBuf),
}

fn look_at_device() -> FuseDevice {
    match open_fuse_device() {
        Ok(fd) => match is_fuse(fd) {
            true => FuseDevice::Usable,
            false => FuseDevice::Missing,
        },
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => FuseDevice::Forbidden,
        Err(_) => FuseDevice::Missing,
    }
}

/// Containers are given /dev/null or an empty file in its place; character device 10:229 is FUSE
/// (Documentation/admin-guide/devices.txt).
fn is_fuse(fd: OwnedFd) -> bool {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    const FUSE_DEVICE: u64 = (10 << 8) | 229;
    std::fs::File::from(fd)
        .metadata()
        .is_ok_and(|m| m.file_type().is_char_device() && m.rdev() == FUSE_DEVICE)
}

/// Finds an executable file on `path_variable`; relative entries are passed over, since the daemon
/// works in /.
pub(crate) fn find_program(path_variable: &OsStr, name: &str) -> Option<PathBuf> {
    path_variable
        .as_bytes()
        .split(|b| *b == b':')
        .map(|dir| Path::new(OsStr::from_bytes(dir)))
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| {
            path.metadata()
                .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        })
}

fn is_set_uid_root(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    path.metadata()
        .is_ok_and(|m| m.uid() == 0 && m.mode() & 0o4000 != 0)
}

fn read_bounded(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(1 << 20).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// fuse.conf(5) as `fusermount3` reads it: a line of its own, comments from `#` on.
fn allows_other(text: &[u8]) -> bool {
    text.split(|b| *b == b'\n').any(|line| {
        let code = line.split(|b| *b == b'#').next().unwrap_or_default();
        code.trim_ascii() == b"user_allow_other"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> HostFacts {
        HostFacts {
            uid: 1000,
            fuse_device: FuseDevice::Usable,
            fusermount3: Some(PathBuf::from("/usr/bin/fusermount3")),
            fusermount3_privileged: true,
            user_allow_other: false,
        }
    }

    #[test]
    fn r38_r43_what_the_host_lacks_is_named_with_the_line_that_mends_it() {
        let with = |change: fn(&mut HostFacts), allow_other| {
            let mut facts = facts();
            change(&mut facts);
            check_host(&facts, Wish { allow_other })
        };
        for (got, slug, line) in [
            (
                with(|f| f.fuse_device = FuseDevice::Missing, false),
                "fuse-missing",
                "modprobe fuse",
            ),
            (
                with(|f| f.fuse_device = FuseDevice::Forbidden, false),
                "fuse-forbidden",
                "chmod 0666 /dev/fuse",
            ),
            (
                with(|f| f.fusermount3 = None, false),
                "fusermount3-missing",
                "apt-get install fuse3",
            ),
            (
                with(|f| f.fusermount3_privileged = false, false),
                "fusermount3-missing",
                "chmod 4755 /usr/bin/fusermount3",
            ),
            (
                with(|_| (), true),
                "allow-other-forbidden",
                "echo user_allow_other >> /etc/fuse.conf",
            ),
        ] {
            let error = got.unwrap_err();
            assert_eq!((error.kind(), error.slug()), (ErrorKind::Host, slug));
            assert!(error.message().contains(line), "{error}");
        }
        let program = PathBuf::from("/usr/bin/fusermount3");
        assert_eq!(
            with(|_| (), false).unwrap(),
            MountWay::Fusermount(program.clone())
        );
        assert_eq!(
            with(|f| f.user_allow_other = true, true).unwrap(),
            MountWay::Fusermount(program)
        );
        assert_eq!(
            with(
                |f| {
                    f.uid = 0;
                    f.fusermount3 = None;
                },
                true
            )
            .unwrap(),
            MountWay::MountSyscall
        );
    }

    #[test]
    fn r43_user_allow_other_is_a_line_of_its_own() {
        for (text, want) in [
            ("user_allow_other", true),
            ("mount_max = 9\n  user_allow_other \n", true),
            ("user_allow_other # yes", true),
            ("#user_allow_other", false),
            ("user_allow_other_too", false),
            ("", false),
        ] {
            assert_eq!(allows_other(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn a_program_is_found_on_absolute_entries_without_running_it() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("fusermount3");
        std::fs::write(&file, "").unwrap();
        let path = OsStr::new(temp.path());
        assert_eq!(find_program(path, "fusermount3"), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_program(path, "fusermount3"), Some(file.clone()));
        assert!(!is_set_uid_root(&file));
        assert_eq!(find_program(OsStr::new("relative:"), "fusermount3"), None);
    }
}
