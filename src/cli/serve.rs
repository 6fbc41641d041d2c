//! The hidden verb `__serve`: the daemon, re-executed by `mount` with a ready pipe (R38, R47), and
//! what it shares with `mount --foreground`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::{Context, Outcome, logging};
use crate::budget::{Budget, Limits};
use crate::error::{Context as _, ErrorKind, IoContext, Result};
use crate::git::{ObjectSource, Repository, StoreOptions, parse_full_id};
use crate::mount::MountPoint;
use crate::mount::daemon::Daemon;
use crate::mount::handshake::{Reporter, ServeSpec};
use crate::mount::preflight::{MountWay, Wish, check_host, host_facts};
use crate::mount::record::MountRecord;
use crate::snapshot::{Snapshot, SnapshotOptions};
use crate::state::StateRoot;
use crate::survey::{Depth, Purpose, Survey, survey};
use crate::sys::process::{ProcessId, detach_stdio, harden, leave_caller, send_stderr_to};
use crate::sys::signals::{BlockedSignals, block_stop_signals};
use crate::sys::{DirFd, give_freed_memory_back};

/// What the daemon is told on its command line: nothing; see [`ServeSpec`].
#[derive(Debug, Args)]
pub struct ServeArgs {}

/// Runs the daemon: standard input says what to serve, standard output hears how it went.
pub(super) fn run(context: &Context, _: &ServeArgs) -> Result<Outcome> {
    // Before anything is opened and any thread started.
    leave_caller().doing(|| String::from("cannot leave the caller's session"))?;
    let mut reporter = Reporter::new(std::io::stdout());
    match serve(context, &mut reporter) {
        Ok(()) => Ok(Outcome::Done),
        Err(error) => {
            // After the mount was ready nobody listens here; the log has it then.
            let _ = reporter.failed(&error);
            Ok(Outcome::Negative)
        }
    }
}

fn serve(context: &Context, reporter: &mut Reporter<std::io::Stdout>) -> Result<()> {
    let signals = block_signals()?;
    let spec = ServeSpec::read(std::io::stdin())?;
    let opened = Opened::new(context, &spec)?;
    let state = opened.state(context, &spec)?;
    let records = state.subdir("mounts")?;
    let point = MountPoint::check(&spec.point, &opened.repository_dirs, spec.make_point)?;
    reporter.holding(point.path())?;
    let log = Log::create(&records, &spec)?;
    let mut was_ready = false;
    let mut ready = |record: &MountRecord| {
        reporter.ready(record)?;
        was_ready = true;
        // Closes the pipes; from here on the log alone hears of anything.
        detach_stdio()
            .and_then(|()| send_stderr_to(&log.file))
            .doing(|| String::from("cannot leave the caller's streams"))
    };
    let result = harden_for(&opened.way)
        .and_then(|()| opened.daemon(&spec, &records, Some(log.name.clone()), signals))
        .and_then(|daemon| daemon.run(point, &mut ready));
    if !was_ready || (result.is_ok() && !logging::warned()) {
        log.remove(&records);
    }
    result
}

/// Serves in this process until the mount ends; `ready` is called once it answers.
pub(super) fn serve_in_foreground(
    context: &Context,
    spec: &ServeSpec,
    ready: &mut dyn FnMut(&MountRecord) -> Result<()>,
) -> Result<()> {
    let signals = block_signals()?;
    let opened = Opened::new(context, spec)?;
    let state = opened.state(context, spec)?;
    let records = state.subdir("mounts")?;
    let point = MountPoint::check(&spec.point, &opened.repository_dirs, spec.make_point)?;
    harden_for(&opened.way)?;
    let daemon = opened.daemon(spec, &records, None, signals)?;
    daemon.run(point, ready)
}

fn block_signals() -> Result<BlockedSignals> {
    block_stop_signals().doing(|| String::from("cannot block signals"))
}

/// The set-uid `fusermount3` ends a user's mount, and no_new_privs would make it powerless; root
/// unmounts by itself.
fn harden_for(way: &MountWay) -> Result<()> {
    harden(*way == MountWay::MountSyscall).doing(|| String::from("cannot harden this process"))
}

/// Everything that is read and checked before the mount point is touched.
struct Opened {
    snapshot: Arc<Snapshot>,
    /// The directories of the repository: absolute, without links.
    repository_dirs: Vec<PathBuf>,
    way: MountWay,
    features: serde_json::Value,
    notes: Vec<String>,
}

impl Opened {
    fn new(context: &Context, spec: &ServeSpec) -> Result<Self> {
        give_freed_memory_back();
        let commit_id = parse_full_id(&spec.commit)?;
        let repository = Repository::open(&spec.repo)?;
        // One budget for both caches; large files and deep delta chains share it (R46).
        let defaults = StoreOptions::default();
        let base_cache_bytes = defaults.base_cache_bytes.min(spec.cache_bytes_max / 2);
        let store = repository.store(&StoreOptions {
            spool_dir: Some(spec.state_dir.join("tmp")),
            base_cache_bytes,
            ..defaults
        })?;
        let objects: Arc<dyn ObjectSource> = Arc::new(store);
        let options = SnapshotOptions {
            cache_bytes_max: spec.cache_bytes_max.saturating_sub(base_cache_bytes),
            spool_dir: Some(spec.state_dir.join("tmp")),
            mtime_s: spec.mtime_s,
        };
        let snapshot = Arc::new(Snapshot::open(Arc::clone(&objects), &commit_id, options)?);
        let mut budget = Budget::new(Limits::default());
        let commit = snapshot.commit();
        let found = survey(
            &repository,
            &*objects,
            commit,
            Depth::Repository,
            &mut budget,
        )?;
        let notes = found.check(Purpose::Snapshot, spec.strict)?;
        let facts = host_facts(context.env.path.as_deref());
        let wish = Wish {
            allow_other: spec.allow_other,
        };
        Ok(Self {
            repository_dirs: real_directories(&repository)?,
            way: check_host(&facts, wish)?,
            features: features_of(&found)?,
            notes,
            snapshot,
        })
    }

    fn state(&self, context: &Context, spec: &ServeSpec) -> Result<StateRoot> {
        let home = context.env.home.as_deref();
        let state = StateRoot::open(&spec.state_dir, home, &self.repository_dirs)?;
        state.subdir("tmp")?; // where the snapshot spools
        Ok(state)
    }

    fn daemon<'a>(
        self,
        spec: &'a ServeSpec,
        records: &'a DirFd,
        log_name: Option<String>,
        signals: BlockedSignals,
    ) -> Result<Daemon<'a>> {
        Ok(Daemon {
            spec,
            snapshot: self.snapshot,
            way: self.way,
            records,
            log_name,
            features: self.features,
            notes: self.notes,
            signals: signals
                .watch()
                .doing(|| String::from("cannot start the signal thread"))?,
        })
    }
}

fn features_of(found: &Survey) -> Result<serde_json::Value> {
    let mut value = serde_json::to_value(found).context(ErrorKind::Internal, "internal", || {
        String::from("cannot write the survey as JSON")
    })?;
    Ok(value["features"].take())
}

fn real_directories(repository: &Repository) -> Result<Vec<PathBuf>> {
    let real = |path: &Path| {
        std::fs::canonicalize(path).doing(|| format!("cannot resolve {}", path.display()))
    };
    let mut dirs = vec![real(&repository.git_dir)?, real(&repository.common_dir)?];
    if let Some(work_tree) = &repository.work_tree {
        dirs.push(real(work_tree)?);
    }
    dirs.sort();
    dirs.dedup();
    Ok(dirs)
}

/// The daemon's log file.
struct Log {
    name: String,
    file: std::fs::File,
}

impl Log {
    fn create(records: &DirFd, spec: &ServeSpec) -> Result<Self> {
        let doing = || String::from("cannot make the daemon's log");
        let process = ProcessId::current().doing(doing)?;
        let name = format!("{}.log", MountRecord::id(&spec.commit, process));
        let file = records.create_file(name.as_bytes(), true).doing(doing)?;
        let copy = file.try_clone().doing(doing)?;
        logging::install_daemon_log(copy, spec.log_bytes_max, spec.log_level.as_deref())?;
        Ok(Self { name, file })
    }

    /// Removes the log: of a mount that never was, whose error the caller heard, and of one that
    /// ended well and had no warning to tell. Others stay for a week.
    fn remove(&self, records: &DirFd) {
        let _ = records.remove_file(self.name.as_bytes());
    }
}
