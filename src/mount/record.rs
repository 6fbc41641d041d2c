//! `forgefs.mount/1`: what is remembered and told of one mount (R49).

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::sys::process::ProcessId;

/// The schema of [`MountRecord`].
pub const MOUNT_SCHEMA: &str = "forgefs.mount/1";

/// One mount: printed by `mount --json`, kept in `mounts/<id>.json` while its daemon lives, read by
/// `ls` and `umount`. It is advisory: the kernel's list of mounts decides what is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRecord {
    /// `forgefs.mount/1`.
    pub schema: String,
    /// Where it is mounted; bytes that are not UTF-8 are replaced.
    pub mountpoint: String,
    /// The repository that it is served from, as it was named.
    pub repo: String,
    /// The id of the commit.
    pub commit: String,
    /// The id of its root tree.
    pub tree: String,
    /// The daemon's process number.
    pub pid: u32,
    /// When the daemon started, in clock ticks since boot; tells a recycled number.
    pub start_ticks: u64,
    /// The mount's id in `/proc/self/mountinfo`.
    pub mnt_id: u64,
    /// The mount's id that is never reused, where the kernel has it (6.8 and later).
    #[serde(default)]
    pub mnt_id_unique: Option<u64>,
    /// The FUSE connection: `/sys/fs/fuse/connections/<id>`.
    pub connection: u32,
    /// What stands as the mount's source: `forgefs:<12 hex>`.
    pub source: String,
    /// Who is shown as owner of every entry, `UID:GID`.
    pub owner: String,
    /// Whether other users may enter.
    pub allow_other: bool,
    /// Whether programs may not be run from it.
    pub noexec: bool,
    /// Whether `user.forgefs.*` attributes are answered.
    pub xattrs: bool,
    /// When it was mounted, seconds since 1970.
    pub created_s: u64,
    /// The daemon's log, below the state root.
    #[serde(default)]
    pub log: Option<String>,
    /// What the survey found around the objects and in the root directory, a row for each feature.
    #[serde(default)]
    pub features: serde_json::Value,
    /// One line for each feature that is shown otherwise than a checkout would.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl MountRecord {
    /// Returns the daemon as no other process can be.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            start_ticks: self.start_ticks,
        }
    }

    /// Returns the id that the names of its record and its log begin with.
    #[must_use]
    pub fn id(commit: &str, process: ProcessId) -> String {
        let prefix = Self::id_prefix(commit, process.pid);
        format!("{prefix}{}", process.start_ticks)
    }

    /// Returns what the ids of the process number `pid` for this commit begin with.
    #[must_use]
    pub fn id_prefix(commit: &str, pid: u32) -> String {
        let short = commit.get(..12).unwrap_or(commit);
        format!("{short}-{pid}-")
    }
}

/// Returns a host path as text for records and messages.
#[must_use]
pub fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
