//! Ending a mount: ours alone, whatever state it is in, never waiting without an end (R40..R42).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::state::record;
use crate::sys::DirFd;
use crate::sys::mountinfo::{MountEntry, mount_of, read_mounts, top_mount_at};
use crate::sys::mounts::{FUSE_TYPE, abort_connection, unmount, unmount_forced};
use crate::sys::process::ProcessHandle;

use super::find::{FoundMount, MountState, find_mounts, within};

/// How long names are resolved and a daemon's end is awaited.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often and after what pause a mount that is busy is tried again.
const BUSY_TRIES: u32 = 6;
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// How long a daemon whose connection was ended is given to notice; then it is killed.
const ABORT_PATIENCE: Duration = Duration::from_secs(1);

/// How long the logs of daemons that failed are kept.
const LOG_AGE_MAX: Duration = Duration::from_secs(7 * 86_400);

/// How long the daemon of a mount that was detached while in use is given.
const LAZY_PATIENCE: Duration = Duration::from_millis(300);

/// How a mount is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UmountMode {
    /// Only where nobody uses it.
    Clean,
    /// Detach at once; it ends with its last user.
    Lazy,
    /// End the FUSE connection first, which frees every process that waits for an answer.
    Abort,
}

/// How a mount ended.
#[derive(Debug)]
pub struct Unmounted {
    /// Where it was.
    pub mount_point: PathBuf,
    /// How it stood before.
    pub state: MountState,
    /// The daemon's process number, where it was recorded.
    pub pid: Option<u32>,
    /// Whether the daemon has ended; `None` where nothing says which process it was.
    pub daemon_ended: Option<bool>,
    /// The log that a dead daemon left behind, below the state root.
    pub log: Option<String>,
}

/// Ends the forgefs mount at `path` (absolute), and forgets what is recorded of it and of other
/// mounts that ended without doing so themselves. Returns when its daemon is gone, or after 10
/// seconds where another mount namespace keeps it.
///
/// # Errors
/// `not-mounted`, `not-a-forgefs-mount`, `mount-busy`, `umount-forbidden`, `path-unreachable`.
pub fn umount(records: Option<&DirFd>, path: &Path, mode: UmountMode) -> Result<Unmounted> {
    let entry = target(path)?;
    let found = find_mounts(records)?;
    let this = found
        .iter()
        .find(|m| m.entry.as_ref().is_some_and(|e| e.id == entry.id));
    let state = this.map_or(MountState::Foreign, |m| m.state);
    let known = this.and_then(|m| m.record.as_ref());
    // Opened before the mount ends, so that a number that is reused meanwhile cannot be mistaken.
    let daemon = known.and_then(|r| r.process().open().ok());
    detach(&entry, mode)?;
    let patience = match mode {
        UmountMode::Lazy => LAZY_PATIENCE,
        UmountMode::Abort => ABORT_PATIENCE,
        UmountMode::Clean => PATIENCE,
    };
    let mut daemon_ended = match (&daemon, known) {
        (Some(daemon), _) => Some(ended(daemon, patience)?),
        (None, Some(_)) => Some(true),
        (None, None) => None,
    };
    if let (UmountMode::Abort, Some(false), Some(daemon)) = (mode, daemon_ended, &daemon) {
        // Its connection is gone, so there is nothing that it could still be serving.
        let _ = daemon.kill();
        daemon_ended = Some(ended(daemon, PATIENCE)?);
    }
    if let (Some(dir), Some(this)) = (records, this) {
        if daemon_ended == Some(true) {
            forget(dir, this)?;
        }
        sweep(dir, &found)?;
    }
    Ok(Unmounted {
        state,
        pid: known.map(|r| r.pid),
        daemon_ended,
        log: known
            .filter(|_| state == MountState::Dead)
            .and_then(|r| r.log.clone()),
        mount_point: entry.mount_point,
    })
}

fn ended(daemon: &ProcessHandle, patience: Duration) -> Result<bool> {
    daemon
        .wait_ended(patience)
        .doing(|| String::from("cannot wait for the daemon"))
}

/// Finds the mount that `path` names without touching it: by the name as given, by its resolved
/// parent, and only then through links.
fn target(path: &Path) -> Result<MountEntry> {
    let mounts = read_mounts().doing(|| String::from("cannot read the list of mounts"))?;
    let plain: PathBuf = path.components().collect();
    let mut found = top_mount_at(&mounts, &plain);
    let mut real = None;
    if let (None, Some(parent), Some(leaf)) = (found, plain.parent(), plain.file_name()) {
        let at = resolve(parent, path)?.map(|parent| parent.join(leaf));
        found = at.as_deref().and_then(|at| top_mount_at(&mounts, at));
        real = at;
    }
    if found.is_none() {
        real = resolve(&plain, path)?.or(real);
        found = real.as_deref().and_then(|at| top_mount_at(&mounts, at));
    }
    let shown = path.display().to_string();
    let shown = shown.escape_debug();
    match found {
        Some(entry) if entry.is_type(FUSE_TYPE) => Ok(entry.clone()),
        Some(entry) => {
            let fs_type = entry.fs_type.to_string_lossy();
            Err(Error::new(
                ErrorKind::Unsafe,
                "not-a-forgefs-mount",
                format!(
                    "{shown} is a mount of type {}; forgefs ends only its own (umount(8) ends others)",
                    fs_type.escape_debug()
                ),
            )
            .at(path))
        }
        None => {
            let around = real
                .as_deref()
                .and_then(|real| mount_of(&mounts, real))
                .filter(|m| m.is_type(FUSE_TYPE))
                .map(|m| format!("; it is inside the mount at {}", m.mount_point.display()));
            let message = format!(
                "nothing is mounted on {shown}{}",
                around.unwrap_or_default()
            );
            Err(Error::new(ErrorKind::NotFound, "not-mounted", message).at(path))
        }
    }
}

/// Resolves a path's links, in bounded time; `None` where it does not exist.
fn resolve(path: &Path, named: &Path) -> Result<Option<PathBuf>> {
    let owned = path.to_path_buf();
    match within(PATIENCE, move || std::fs::canonicalize(owned)) {
        Some(result) => Ok(result.ok()),
        None => Err(Error::new(
            ErrorKind::Host,
            "path-unreachable",
            "a directory on the way does not answer; name the mount point as /proc/self/mountinfo lists it",
        )
        .at(named)),
    }
}

fn detach(entry: &MountEntry, mode: UmountMode) -> Result<()> {
    let point = &entry.mount_point;
    let result = match mode {
        UmountMode::Clean => unmount_soon(point),
        UmountMode::Lazy => unmount(point, true),
        UmountMode::Abort => abort(entry),
    };
    result.map_err(|e| explain(point, e))
}

/// Unmounts, trying again for a moment where it is busy: a process that was just started by one
/// with a file open on the mount holds that file until it executes.
fn unmount_soon(point: &Path) -> io::Result<()> {
    let mut result = unmount(point, false);
    for _ in 0..BUSY_TRIES {
        match &result {
            Err(error) if is_busy(error) => std::thread::sleep(BUSY_PAUSE),
            _ => return result,
        }
        result = unmount(point, false);
    }
    result
}

fn is_busy(error: &io::Error) -> bool {
    // The words are those of fusermount3.
    error.kind() == io::ErrorKind::ResourceBusy
        || error.to_string().to_lowercase().contains("resource busy")
}

/// Ends the connection through fusectl, or where that is not mounted, by a forced unmount, which
/// does the same first; then detaches what is left.
fn abort(entry: &MountEntry) -> io::Result<()> {
    let point = &entry.mount_point;
    if let Err(error) = abort_connection(entry.device.1) {
        tracing::debug!(connection = entry.device.1, %error, "no abort through fusectl");
        if unmount_forced(point).is_ok() {
            return Ok(());
        }
    }
    unmount(point, true)
}

fn explain(point: &Path, error: io::Error) -> Error {
    let shown = point.display().to_string();
    let shown = shown.escape_debug();
    let text = error.to_string().to_lowercase();
    let is = |kind: io::ErrorKind, words: &str| error.kind() == kind || text.contains(words);
    // What fusermount3 says of a mount that it did not make for this user.
    let is_not_in_mtab = text.contains("not found in");
    let (kind, slug, message) = if is_busy(&error) {
        let way = "end what uses it (fuser -vm lists it), or give --lazy";
        let message = format!("mount {shown} is in use; {way}");
        (ErrorKind::Conflict, "mount-busy", message)
    } else if is(io::ErrorKind::PermissionDenied, "not permitted") || is_not_in_mtab {
        let message = format!("mount {shown} is another user's; ask that user, or root");
        (ErrorKind::Host, "umount-forbidden", message)
    } else if error.kind() == io::ErrorKind::InvalidInput {
        let message = format!("nothing is mounted on {shown} any more");
        (ErrorKind::NotFound, "not-mounted", message)
    } else {
        return Error::io(format!("cannot unmount {shown}"), error).at(point);
    };
    Error::new(kind, slug, message).caused_by(error).at(point)
}

/// Removes the record of a mount whose daemon is gone.
fn forget(dir: &DirFd, found: &FoundMount) -> Result<()> {
    match &found.record_name {
        Some(name) => record::remove(dir, name),
        None => Ok(()),
    }
}

/// Removes the records of mounts that are gone together with their daemon, and old logs.
fn sweep(dir: &DirFd, found: &[FoundMount]) -> Result<()> {
    found
        .iter()
        .filter(|m| m.state == MountState::Ended)
        .try_for_each(|m| forget(dir, m))?;
    let listed = dir
        .list()
        .doing(|| String::from("cannot list the records of mounts"))?;
    let is_old = |name: &[u8]| -> io::Result<bool> {
        let modified = dir.open_file(name)?.metadata()?.modified()?;
        Ok(modified.elapsed().is_ok_and(|age| age > LOG_AGE_MAX))
    };
    for entry in listed.iter().filter(|e| e.name.ends_with(b".log")) {
        // A log that cannot be looked at or removed is in nobody's way.
        if is_old(&entry.name).unwrap_or(false) && !is_in_use(found, &entry.name) {
            let _ = dir.remove_file(&entry.name);
        }
    }
    Ok(())
}

fn is_in_use(found: &[FoundMount], log: &[u8]) -> bool {
    found.iter().any(|m| {
        let recorded = m.record.as_ref().and_then(|r| r.log.as_deref());
        recorded.is_some_and(|path| path.as_bytes().ends_with(log)) || m.problem.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r40_what_is_not_a_forgefs_mount_is_not_touched() {
        let temp = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc", temp.path().join("link")).unwrap();
        for (path, slug, kind) in [
            (
                temp.path().to_path_buf(),
                "not-mounted",
                ErrorKind::NotFound,
            ),
            (temp.path().join("gone"), "not-mounted", ErrorKind::NotFound),
            (
                temp.path().join("gone/deep"),
                "not-mounted",
                ErrorKind::NotFound,
            ),
            (
                PathBuf::from("/proc"),
                "not-a-forgefs-mount",
                ErrorKind::Unsafe,
            ),
            (
                PathBuf::from("/proc/"),
                "not-a-forgefs-mount",
                ErrorKind::Unsafe,
            ),
            (
                temp.path().join("link"),
                "not-a-forgefs-mount",
                ErrorKind::Unsafe,
            ),
            (PathBuf::from("/"), "not-a-forgefs-mount", ErrorKind::Unsafe),
        ] {
            for mode in [UmountMode::Clean, UmountMode::Lazy, UmountMode::Abort] {
                let error = umount(None, &path, mode).unwrap_err();
                assert_eq!(
                    (error.slug(), error.kind()),
                    (slug, kind),
                    "{}",
                    path.display()
                );
            }
        }
    }

    #[test]
    fn r126_logs_without_a_mount_are_kept_for_a_week() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DirFd::open(temp.path()).unwrap();
        let week_ago = std::time::SystemTime::now() - LOG_AGE_MAX - Duration::from_secs(60);
        for (name, old) in [("new.log", false), ("old.log", true), ("old.json", true)] {
            let file = dir.create_file(name.as_bytes(), true).unwrap();
            if old {
                file.set_modified(week_ago).unwrap();
            }
        }
        sweep(&dir, &[]).unwrap();
        let kept = |name: &str| temp.path().join(name).exists();
        assert!(kept("new.log") && kept("old.json") && !kept("old.log"));
    }

    #[test]
    fn each_refusal_of_the_kernel_or_the_helper_has_its_slug() {
        for (error, slug) in [
            (io::Error::from_raw_os_error(16), "mount-busy"),
            (io::Error::from_raw_os_error(1), "umount-forbidden"),
            (io::Error::from_raw_os_error(22), "not-mounted"),
            (
                io::Error::other("fusermount3: failed to unmount /m: Device or resource busy"),
                "mount-busy",
            ),
            (
                io::Error::other("fusermount3: failed to unmount /m: Operation not permitted"),
                "umount-forbidden",
            ),
            (
                io::Error::other("fusermount3: entry for /m not found in /etc/mtab"),
                "umount-forbidden",
            ),
            (io::Error::from_raw_os_error(5), "io"),
        ] {
            assert_eq!(explain(Path::new("/m"), error).slug(), slug);
        }
    }
}
