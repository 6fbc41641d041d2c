//! Mounts made through the program, unmounted when the test is over, whatever happens.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::host::Host;
use super::mounts::{MountLine, mounts_at};
use super::repo::Repo;

/// A mount that this test made.
#[derive(Debug)]
pub(crate) struct Mounted<'h> {
    host: &'h Host,
    point: PathBuf,
    /// What `forgefs mount --json` said.
    pub(crate) record: serde_json::Value,
}

impl Host {
    /// Mounts a commit at a fresh place.
    #[track_caller]
    pub(crate) fn mount(&self, repo: &Repo, commit_id: &str) -> Mounted<'_> {
        self.mount_with(repo, commit_id, &[])
    }

    /// Mounts a commit at a fresh place with these options.
    #[track_caller]
    pub(crate) fn mount_with(&self, repo: &Repo, commit_id: &str, options: &[&str]) -> Mounted<'_> {
        let name = (0..)
            .map(|n| format!("mnt{n}"))
            .find(|name| std::fs::symlink_metadata(self.path(name)).is_err())
            .expect("a free name");
        self.mount_at(repo, commit_id, &self.dir(name), options)
    }

    /// Mounts a commit at an empty directory with these options.
    #[track_caller]
    pub(crate) fn mount_at(
        &self,
        repo: &Repo,
        commit_id: &str,
        point: &Path,
        options: &[&str],
    ) -> Mounted<'_> {
        let run = self.forgefs(["--json", "mount"]).args(options);
        let finished = run.arg(repo.path()).arg(commit_id).arg(point).run();
        finished.exits(0);
        Mounted {
            host: self,
            point: point.to_owned(),
            record: finished.json(),
        }
    }
}

impl<'h> Mounted<'h> {
    /// Takes over a mount that a test made by itself.
    pub(crate) fn adopt(host: &'h Host, point: &Path, record: serde_json::Value) -> Self {
        Self {
            host,
            point: point.to_owned(),
            record,
        }
    }

    /// Returns the mount point.
    pub(crate) fn point(&self) -> &Path {
        &self.point
    }

    /// Returns a path in the mount.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.point.join(name)
    }

    /// Returns the daemon's process id.
    #[track_caller]
    pub(crate) fn pid(&self) -> i32 {
        let pid = self.record["pid"].as_i64();
        let pid = pid.unwrap_or_else(|| panic!("no pid in {}", self.record));
        i32::try_from(pid).expect("a process id")
    }

    /// Returns the mount table's one line of it.
    #[track_caller]
    pub(crate) fn line(&self) -> MountLine {
        let mut lines = mounts_at(&self.point);
        assert_eq!(lines.len(), 1, "one mount at {}", self.point.display());
        lines.remove(0)
    }

    /// Sends the daemon a signal.
    #[track_caller]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("a process of ours");
    }

    /// Kills the daemon and waits until it is gone.
    #[track_caller]
    pub(crate) fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
        self.wait_until_gone(Duration::from_secs(10));
    }

    /// Returns what `forgefs ls --json` says of it.
    #[track_caller]
    pub(crate) fn listed(&self) -> Option<serde_json::Value> {
        let finished = self.host.forgefs(["ls", "--json"]).run();
        finished.exits(0);
        listed_at(&finished.json(), &self.point)
    }

    /// Returns whether `forgefs ls` calls it live, dead or foreign; absent if it does not.
    #[track_caller]
    pub(crate) fn state(&self) -> String {
        let listed = self.listed().unwrap_or_default();
        listed["state"].as_str().unwrap_or("absent").to_owned()
    }

    /// Waits until the daemon has ended (a zombie that nobody of ours must reap counts as ended).
    #[track_caller]
    pub(crate) fn wait_until_gone(&self, deadline: Duration) {
        let pid = self.pid();
        wait_for(deadline, &format!("daemon {pid} to end"), || !lives(pid));
    }

    /// Unmounts through the program; mount and daemon must be gone.
    #[track_caller]
    pub(crate) fn umount(&self) {
        let run = self.host.forgefs(["umount"]).arg(&self.point);
        run.run().exits(0);
        assert!(
            mounts_at(&self.point).is_empty(),
            "still mounted after umount: {:?}",
            mounts_at(&self.point)
        );
        self.wait_until_gone(Duration::from_secs(5));
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        while !mounts_at(&self.point).is_empty() {
            let detach = rustix::mount::UnmountFlags::DETACH;
            if rustix::mount::unmount(&self.point, detach).is_err() {
                return;
            }
        }
    }
}

/// Finds a mount point in what `forgefs ls --json` said.
pub(crate) fn listed_at(record: &serde_json::Value, point: &Path) -> Option<serde_json::Value> {
    let mounts = record["mounts"].as_array()?;
    let point = point.to_string_lossy();
    mounts
        .iter()
        .find(|mount| mount["mountpoint"] == *point)
        .cloned()
}

/// Returns whether a process runs; a zombie does not.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Polls until `done`, and fails with the mount table when the deadline is over.
#[track_caller]
pub(crate) fn wait_for(deadline: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + deadline;
    while !done() {
        assert!(
            Instant::now() < end,
            "waited {deadline:?} for {what}; mounts:\n{}",
            std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
