//! A private piece of the host for one test: home, state and temporary directories, repositories
//! and mount points below one temporary directory, which is unmounted and removed at the end.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::command::{Run, forgefs_program};
use super::repo::Repo;

/// A private piece of the host.
#[derive(Debug)]
pub(crate) struct Host {
    root: TempDir,
}

impl Host {
    /// Makes one.
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new()
            .prefix("forgefs-test-")
            .tempdir()
            .expect("a temporary directory");
        let host = Self { root };
        for name in ["home", "tmp"] {
            host.dir(name);
        }
        host
    }

    /// Returns a path below it.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }

    /// Makes a directory below it, with its parents.
    pub(crate) fn dir(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).expect("a new directory");
        path
    }

    /// Makes an empty SHA-1 repository below it.
    pub(crate) fn repo(&self, name: &str) -> Repo {
        Repo::init(&self.path(name), "sha1")
    }

    /// Returns where forgefs keeps its records here.
    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Returns the logs of the daemons of this host.
    pub(crate) fn logs(&self) -> String {
        let script = "find \"$1\" -name '*.log' -exec cat {} + || :";
        self.run("sh")
            .args(["-euc", script, "sh"])
            .arg(self.state())
            .ok()
    }

    /// Prepares any program with this host's directories.
    pub(crate) fn run(&self, program: impl AsRef<std::ffi::OsStr>) -> Run {
        Run::new(program)
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("FORGEFS_STATE_DIR", self.state())
            .dir(self.root.path())
    }

    /// Prepares the forgefs under test with this host's directories.
    pub(crate) fn forgefs<A: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Run {
        self.run(forgefs_program()).args(args)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mountinfo = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let root = self.root.path().as_os_str().as_encoded_bytes().to_vec();
        let mut points: Vec<Vec<u8>> = mountinfo
            .split(|b| *b == b'\n')
            .filter_map(|line| line.split(|b| *b == b' ').nth(4))
            .map(super::mounts::unescape)
            .filter(|point| point.starts_with(&root))
            .collect();
        while let Some(point) = points.pop() {
            let _ = rustix::mount::unmount(&*point, rustix::mount::UnmountFlags::DETACH);
        }
    }
}
