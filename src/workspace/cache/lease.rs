//! Who uses a layer: a small record for each workspace, good while the workspace is there.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Layer, SeedCache};
use crate::error::{IoContext, Result};
use crate::state::record;
use crate::sys::DirFd;

const LEASE_SCHEMA: &str = "forgefs.lease/1";

/// A lease this young counts although its workspace is not there yet: it is being made.
const GRACE_S: i64 = 3600;

/// Who uses a layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Lease {
    schema: String,
    workspace: String,
    dev: (u32, u32),
    ino: u64,
}

impl SeedCache {
    /// Notes that the workspace whose upper layer is `upper`, at `path` now or soon, uses `layer`.
    ///
    /// # Errors
    /// Errors of writing; the layer may have been dropped meanwhile.
    pub(in crate::workspace) fn lease(
        &self,
        layer: &Layer,
        path: &Path,
        upper: &DirFd,
    ) -> Result<()> {
        let doing = || String::from("cannot lease the pack layer");
        let _lock = self.lock()?;
        let leases = layer.dir.open_dir(b"leases").doing(doing)?;
        let identity = upper.stat_self().doing(doing)?.identity;
        let (major, minor) = identity.dev;
        let name = format!("{major}-{minor}-{}", identity.ino);
        let lease = Lease {
            schema: LEASE_SCHEMA.to_owned(),
            workspace: path.to_string_lossy().into_owned(),
            dev: identity.dev,
            ino: identity.ino,
        };
        record::write(&leases, &name, &lease, record::Durability::WhileHostRuns)
    }
}

/// Returns the workspaces that use a layer; leases of those that are gone are dropped.
pub(super) fn holders(layer: &DirFd) -> Vec<String> {
    let Ok(leases) = layer.open_dir(b"leases") else {
        return Vec::new();
    };
    let now_s = now_on(layer);
    let mut out = Vec::new();
    for entry in leases.list().unwrap_or_default() {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let Ok(Some(lease)) = record::read::<Lease>(&leases, &name, LEASE_SCHEMA) else {
            continue;
        };
        let upper = Path::new(&lease.workspace).join("upper");
        let is_there = DirFd::open_no_follow(&upper)
            .and_then(|dir| dir.stat_self())
            .is_ok_and(|stat| stat.identity.dev == lease.dev && stat.identity.ino == lease.ino);
        let age_s = leases
            .written_stat(&entry.name)
            .map_or(0, |stat| now_s.saturating_sub(stat.mtime.0));
        if is_there || age_s < GRACE_S {
            out.push(lease.workspace);
        } else {
            let _ = leases.remove_file(&entry.name);
        }
    }
    out.sort_unstable();
    out
}

/// Returns the time as the file system of `dir` tells it, from a file made for the question.
fn now_on(dir: &DirFd) -> i64 {
    let name = b".now";
    let _ = dir.remove_file(name);
    let now = dir
        .create_beneath(name, 0o600)
        .and_then(|file| file.metadata())
        .map_or(i64::MIN, |meta| meta.mtime());
    let _ = dir.remove_file(name);
    now
}
