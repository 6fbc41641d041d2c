//! What a test needs of the host (R132): a test that cannot run here says so, is counted and named,
//! and never counts as passed; `FORGEFS_REQUIRE=fuse,docker,...` turns the skip into a failure.
//!
//! libtest has no word for a skip at run time, so the names go to the file of `FORGEFS_SKIP_LOG`,
//! and `scripts/test` takes them out of the passed ones.

use std::io::Write;
use std::path::Path;

use super::command::Run;

/// Something that not every host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// `/dev/fuse`, and the right to mount.
    Fuse,
    /// `fusermount3`, set-uid, and another user to run as.
    NonRoot,
    /// Docker's engine and client.
    Docker,
    /// Podman with runc.
    Podman,
    /// Bubblewrap.
    Bwrap,
    /// A user 1000 with user namespaces, for rootless podman.
    Rootless,
    /// `strace`, and the right to trace.
    Strace,
    /// A C compiler.
    Cc,
    /// `getfattr` of the package attr.
    Attr,
}

impl Need {
    /// Returns the word that stands for it in `FORGEFS_REQUIRE`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fuse => "fuse",
            Self::NonRoot => "nonroot",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Bwrap => "bwrap",
            Self::Rootless => "rootless",
            Self::Strace => "strace",
            Self::Cc => "cc",
            Self::Attr => "attr",
        }
    }

    /// Returns why this host does not have it, if it does not.
    pub(crate) fn lacking(self) -> Option<String> {
        match self {
            Self::Fuse => fuse(),
            Self::NonRoot => fuse()
                .or_else(|| programs(&["fusermount3", "setpriv"]))
                .or_else(open_the_device),
            Self::Docker => programs(&["dockerd", "docker", "busybox"]).or_else(root),
            Self::Podman => programs(&["podman", "runc", "busybox"]).or_else(root),
            Self::Bwrap => {
                programs(&["bwrap"]).or_else(|| tries(&["bwrap", "--ro-bind", "/", "/", "true"]))
            }
            Self::Rootless => tries(&["getent", "passwd", "1000"]).or_else(|| {
                let user = ["--reuid=1000", "--regid=1000", "--clear-groups"];
                tries(&[&["setpriv"][..], &user, &["unshare", "-Ur", "true"]].concat())
            }),
            Self::Strace => {
                programs(&["strace"]).or_else(|| tries(&["strace", "-o", "/dev/null", "true"]))
            }
            Self::Cc => programs(&["cc"]),
            Self::Attr => programs(&["getfattr"]),
        }
    }
}

fn root() -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| String::from("not root"))
}

fn fuse() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let device = Path::new("/dev/fuse").metadata();
    // 10:229 (devices.txt of the kernel).
    if !device.is_ok_and(|device| device.rdev() == rustix::fs::makedev(10, 229)) {
        return Some(String::from("no /dev/fuse"));
    }
    if let Err(e) = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
    {
        return Some(format!("cannot open /dev/fuse: {e}"));
    }
    root()
}

/// Gives `/dev/fuse` the mode that udev gives it everywhere (0666); some containers have 0600.
fn open_the_device() -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions("/dev/fuse", mode)
        .err()
        .map(|e| format!("other users cannot open /dev/fuse: {e}"))
}

fn programs(names: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = |name: &&&str| {
        !std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|dir| dir.join(name).is_file())
    };
    let name = names.iter().find(missing)?;
    Some(format!("no {name}"))
}

fn tries(words: &[&str]) -> Option<String> {
    let tried = Run::new(words[0]).args(&words[1..]).run();
    (tried.code() != Some(0)).then(|| format!("{} does not work here", words[0]))
}

/// Returns whether this host has it; where not, says, counts or refuses the skip.
pub(crate) fn has(need: Need) -> bool {
    let Some(reason) = need.lacking() else {
        return true;
    };
    let required = std::env::var("FORGEFS_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|word| word.trim() == need.word()),
        "FORGEFS_REQUIRE asks for {}, and this host lacks it: {reason}",
        need.word()
    );
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    let line = format!("{}\t{test}\t{}: {reason}\n", target(), need.word());
    if let Some(log) = std::env::var_os("FORGEFS_SKIP_LOG") {
        let file = std::fs::File::options().append(true).create(true).open(log);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("a writable skip log");
    } else {
        // Not eprintln: libtest would swallow it together with the "ok".
        let _ = write!(std::io::stderr(), "SKIPPED (untested): {line}");
    }
    false
}

/// Leaves the test, counted as skipped, unless the host has all that is named.
macro_rules! need {
    ($($need:ident),+ $(,)?) => {
        $(if !$crate::support::need::has($crate::support::need::Need::$need) {
            return;
        })+
    };
}
pub(crate) use need;

/// Returns the name of this test target: that of its program, without cargo's hash.
fn target() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    stem.rsplit_once('-')
        .map_or(&*stem, |(name, _)| name)
        .to_owned()
}

/// Returns whether the full numbers are asked for (`scripts/test --long`).
pub(crate) fn long() -> bool {
    std::env::var_os("FORGEFS_LONG").is_some()
}
