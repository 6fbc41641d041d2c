//! `forgefs umount`: ends a forgefs mount, live or dead, and no other (R40).

use std::path::PathBuf;

use clap::Args;

use serde_json::json;

use super::{Context, Outcome};
use crate::error::{Context as _, ErrorKind, Result};
use crate::mount::control::{UmountMode, umount};
use crate::mount::record::shown;

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
    let path = std::path::absolute(&args.dir).context(ErrorKind::Usage, "empty-path", || {
        String::from("give the directory that is mounted on")
    })?;
    let mode = match (args.lazy, args.abort) {
        (_, true) => UmountMode::Abort,
        (true, false) => UmountMode::Lazy,
        (false, false) => UmountMode::Clean,
    };
    // A broken state root must not keep a mount alive: its records are advisory.
    let records = match context.mount_records() {
        Ok(records) => records,
        Err(error) if error.slug() == "state-dir-not-absolute" => return Err(error),
        Err(error) => {
            context.out.note(&format!("no records are read: {error}"));
            None
        }
    };
    let done = umount(records.as_ref(), &path, mode)?;
    let point = shown(&done.mount_point);
    if done.daemon_ended == Some(false) && mode != UmountMode::Lazy {
        let pid = done.pid.unwrap_or_default();
        context.out.note(&format!(
            "the daemon (pid {pid}) still serves copies of the mount elsewhere, such as in a container; it ends with the last one"
        ));
    }
    if let Some(log) = &done.log {
        context.out.note(&format!(
            "the daemon had died; its log is {}",
            context.state_path()?.join(log).display()
        ));
    }
    let record = json!({
        "schema": "forgefs.umount/1",
        "mountpoint": point,
        "state": done.state,
        "pid": done.pid,
        "daemon_ended": done.daemon_ended,
        "log": done.log,
    });
    context
        .out
        .data(&record, &format!("unmounted {}", point.escape_debug()))?;
    Ok(Outcome::Done)
}
