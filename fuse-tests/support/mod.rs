//! What the three test targets share: a private host directory, git repositories with fixed ids,
//! running programs with a deadline and a full report, mounts, and the judges that are not ours.
//!
//! Each target includes this folder by path, so what one of them does not use is no mistake.
#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "each target uses its own part"
)]

pub(crate) mod bad_trees;
pub(crate) mod command;
pub(crate) mod golden;
pub(crate) mod host;
pub(crate) mod listing;
pub(crate) mod model;
pub(crate) mod mounted;
pub(crate) mod mounts;
pub(crate) mod need;
pub(crate) mod oracle;
pub(crate) mod plants;
pub(crate) mod repo;
pub(crate) mod rng;
pub(crate) mod zoo;

pub(crate) use command::{Finished, Run, forgefs_program};
pub(crate) use host::Host;
pub(crate) use mounted::{Mounted, wait_for};
pub(crate) use need::need;
pub(crate) use repo::{Entry, Repo};
