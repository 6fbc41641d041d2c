//! `forgefs mount`: checks everything, starts the daemon, returns when the root answers (R37, R38).

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;

use super::logging::LOG_BYTES_MIN;
use super::serve::serve_in_foreground;
use super::{Context, Outcome, quantity};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::git::parse_full_id;
use crate::mount::handshake::{ServeSpec, start_daemon};
use crate::mount::record::MountRecord;
use crate::sys::process::effective_ids;

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
    #[arg(long, value_name = "UID:GID", value_parser = quantity::parse_owner)]
    pub owner: Option<(u32, u32)>,
    /// Let other users read the mount (as non-root needs user_allow_other in /etc/fuse.conf)
    #[arg(long)]
    pub allow_other: bool,
    /// Forbid running programs from the mount
    #[arg(long)]
    pub noexec: bool,
    /// How much content the daemon keeps in memory, for instance 64M
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = quantity::parse_bytes)]
    pub cache_bytes: u64,
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
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = parse_log_bytes)]
    pub log_max_bytes: u64,
}

/// Runs the verb.
pub(super) fn run(context: &Context, args: &MountArgs) -> Result<Outcome> {
    // Refused before the repository is looked at (R1).
    parse_full_id(&args.commit)?;
    let spec = spec(context, args)?;
    if args.foreground {
        serve_in_foreground(context, &spec, &mut |record| tell(context, record))?;
    } else {
        tell(context, &start_daemon(&spec)?)?;
    }
    Ok(Outcome::Done)
}

fn spec(context: &Context, args: &MountArgs) -> Result<ServeSpec> {
    let mtime_s = match args.mtime.as_str() {
        "mount" => Some(now_s()?),
        _ => None,
    };
    Ok(ServeSpec {
        repo: absolute(&args.repo)?,
        commit: args.commit.clone(),
        point: absolute(&args.dir)?,
        make_point: args.mkdir,
        state_dir: context.state_path()?,
        owner: args.owner.unwrap_or_else(effective_ids),
        allow_other: args.allow_other,
        no_exec: args.noexec,
        xattrs: args.xattrs,
        threads: args.threads.unwrap_or_else(default_threads),
        cache_bytes_max: args.cache_bytes,
        mtime_s,
        log_bytes_max: args.log_max_bytes,
        log_level: context.env.log.clone(),
        strict: args.strict,
    })
}

/// Says what was mounted, and what `doctor` has to note about it.
fn tell(context: &Context, record: &MountRecord) -> Result<()> {
    for note in &record.notes {
        context.out.note(note);
    }
    let short = record.commit.get(..12).unwrap_or(&record.commit);
    let (point, pid) = (record.mountpoint.escape_debug(), record.pid);
    let text = format!("mounted {short} at {point} (pid {pid})");
    context.out.data(record, &text)
}

/// Makes a path independent of the working directory, links and `..` left as they are.
fn absolute(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        let message = "an empty path names nothing; give a directory";
        return Err(Error::new(ErrorKind::Usage, "empty-path", message));
    }
    std::path::absolute(path).doing(|| String::from("cannot read the working directory"))
}

fn now_s() -> Result<i64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .ok_or_else(|| {
            let message = "the host's clock is before 1970; set it, or leave out --mtime mount";
            Error::new(ErrorKind::Host, "bad-clock", message)
        })
}

/// As many threads as processors, at least 2, so that one slow read stops nobody, at most 8.
fn default_threads() -> u16 {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    u16::try_from(processors.clamp(2, 8)).unwrap_or(2)
}

fn parse_log_bytes(text: &str) -> std::result::Result<u64, String> {
    match quantity::parse_bytes(text)? {
        bytes if bytes >= LOG_BYTES_MIN => Ok(bytes),
        _ => Err(format!("a log needs at least {LOG_BYTES_MIN} bytes")),
    }
}
