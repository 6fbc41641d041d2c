//! `forgefs prove`: recomputes a directory's tree id through the kernel and gives a verdict (R27).

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;

use super::values::{parse_bytes, parse_duration, shown_bytes};
use super::{Context, Outcome, clock, exit_code};
use crate::budget::Limits;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::git::{ObjectSource, Oid, Repository, StoreOptions, parse_full_id};
use crate::prove::{
    Circumstances, Difference, Manifest, ManifestReading, Progress, Proof, ProofRecord,
    ProveRequest, Root, Verdict, explain, prove, shown_path, write_manifest,
};
use crate::sys::in_child;

/// Differences printed as text; the record has more.
const LINES_MAX: usize = 1000;

/// Proves that a directory holds exactly one commit's tree.
///
/// Reads DIR through the kernel, hashes every byte, rebuilds git's tree ids and compares them with
/// the commit's. Exit 0: proven. Exit 1: not proven, with every path that differs.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("expectation").required(true).args(["repo", "manifest"]),
    after_help = "Example:\n  forgefs prove /tmp/source --repo . --sha \"$(git rev-parse HEAD)\""
)]
pub struct ProveArgs {
    /// The directory to prove
    pub dir: PathBuf,
    /// The repository that knows the commit
    #[arg(long, requires = "sha", conflicts_with = "manifest")]
    pub repo: Option<PathBuf>,
    /// The full id of the commit that DIR must equal; with --manifest, the one it must be for
    #[arg(long, value_name = "COMMIT")]
    pub sha: Option<String>,
    /// Prove against a manifest instead of a repository
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Write the manifest of the commit, for proofs without the repository
    #[arg(long, value_name = "FILE", requires = "repo")]
    pub write_manifest: Option<PathBuf>,
    /// Write the proof record
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Refuse more entries than this
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub max_entries: u64,
    /// Refuse more content than this, for instance 10G
    #[arg(long, value_name = "BYTES", default_value = "1T", value_parser = parse_bytes)]
    pub max_bytes: u64,
    /// Refuse deeper directories than this
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub max_depth: u32,
    /// Give up (not proven) after this long, for instance 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub timeout: Duration,
    /// How many threads read and hash [default: the number of processors, 1 to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
}

/// What DIR must equal, and where that is known from.
struct Expectation {
    objects: Arc<dyn ObjectSource>,
    commit_id: Oid,
    source: &'static str,
}

/// Runs the verb in a child, so that this process ends by the timeout whatever the mount does: a
/// thread that waits for a hung server inside the kernel keeps its own process from ending (R36).
pub(super) fn run(context: &Context, args: &ProveArgs) -> Result<Outcome> {
    let told = in_child(|| match run_here(context, args) {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Negative) => 1,
        Ok(Outcome::Told(code)) => code,
        Err(error) => {
            let _ = context.out.report(&error);
            exit_code(error.kind())
        }
    });
    told.map(Outcome::Told)
        .doing(|| String::from("cannot start a process for the proof"))
}

fn run_here(context: &Context, args: &ProveArgs) -> Result<Outcome> {
    let limits = Limits {
        entries_max: args.max_entries,
        bytes_max: args.max_bytes,
        depth_max: args.max_depth,
        timeout: Some(args.timeout),
    };
    let threads = args.threads.unwrap_or_else(default_threads);
    let expectation = match expectation(args)? {
        Ok(expectation) => expectation,
        Err(forgery) => return forged(context, args, &forgery),
    };
    if let Some(path) = &args.write_manifest {
        save(path, 0o666, |out| {
            let objects = &*expectation.objects;
            write_manifest(objects, &expectation.commit_id, &limits, threads, out)
        })?;
    }
    let started = clock::now();
    let clock = Instant::now();
    let progress = Arc::new(Progress::default());
    let objects = Arc::clone(&expectation.objects);
    let request = ProveRequest {
        root: Root::At(args.dir.clone()),
        objects: expectation.objects,
        commit_id: expectation.commit_id,
        limits,
        threads,
        judges_hard_links: false,
        progress: Arc::clone(&progress),
    };
    let mut proof = if context.out.shows_progress() {
        watch(&progress, || prove(request))?
    } else {
        prove(request)?
    };
    let took = clock.elapsed();
    if expectation.source == "repository" {
        explain(&mut proof, &*objects);
    }
    let record = ProofRecord::new(
        &proof,
        Circumstances {
            started,
            finished: clock::now(),
            tool: format!("forgefs {}", env!("CARGO_PKG_VERSION")),
            expectation: expectation.source,
        },
    );
    if let Some(path) = &args.output {
        save(path, 0o600, |out| write_record(&record, out))?;
    }
    context.out.data(&record, &text(&args.dir, &proof, took))?;
    Ok(match proof.verdict {
        Verdict::Proven => Outcome::Done,
        Verdict::Differs | Verdict::DaemonDead | Verdict::TimedOut => Outcome::Negative,
    })
}

/// One thread for each processor, up to eight: past that one waits for the disk or the daemon.
fn default_threads() -> u16 {
    std::thread::available_parallelism().map_or(1, |n| u16::try_from(n.get().min(8)).unwrap_or(8))
}

/// Opens the repository or reads the manifest; the inner error says how a manifest is forged.
fn expectation(args: &ProveArgs) -> Result<Result<Expectation, String>> {
    let sha = args.sha.as_deref().map(parse_full_id).transpose()?;
    if let Some(path) = &args.manifest {
        let doing = || format!("cannot open the manifest {}", path.display());
        let file = File::open(path).doing(doing)?;
        let manifest = match Manifest::read(BufReader::with_capacity(1 << 18, file))? {
            ManifestReading::Sound(manifest) => manifest,
            ManifestReading::Forged(why) => return Ok(Err(why)),
        };
        if let Some(sha) = sha.filter(|sha| *sha != manifest.commit_id) {
            let why = format!("it is for commit {}, not {sha}", manifest.commit_id);
            return Ok(Err(why));
        }
        return Ok(Ok(Expectation {
            commit_id: manifest.commit_id,
            objects: manifest.objects,
            source: "manifest",
        }));
    }
    let (Some(repo), Some(commit_id)) = (&args.repo, sha) else {
        let message = "--repo needs --sha with a full commit id";
        return Err(Error::new(ErrorKind::Usage, "usage", message));
    };
    let store = Repository::open(repo)?.store(&StoreOptions::default())?;
    Ok(Ok(Expectation {
        objects: Arc::new(store),
        commit_id,
        source: "repository",
    }))
}

/// A manifest that does not hash to what it says proves nothing (R34).
fn forged(context: &Context, args: &ProveArgs, why: &str) -> Result<Outcome> {
    let record = serde_json::json!({
        "schema": "forgefs.proof/1",
        "verdict": "not-proven",
        "reason": "manifest-forged",
        "detail": why,
    });
    if let Some(path) = &args.output {
        save(path, 0o600, |out| write_record(&record, out))?;
    }
    let text = format!("not proven: manifest-forged: {why}");
    context.out.data(&record, &text)?;
    Ok(Outcome::Negative)
}

fn write_record(record: &impl serde::Serialize, out: &mut dyn Write) -> Result<()> {
    serde_json::to_writer(&mut *out, record)
        .map_err(std::io::Error::from)
        .and_then(|()| out.write_all(b"\n"))
        .doing(|| String::from("cannot write the record"))
}

/// Writes a file all or nothing (R30), with the mode that is left of `mode` by the umask.
fn save(path: &Path, mode: u32, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let doing = || format!("cannot write {}", path.display());
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(mode))
        .tempfile_in(parent)
        .doing(doing)?;
    let mut out = BufWriter::with_capacity(1 << 18, file.as_file_mut());
    write(&mut out)?;
    out.flush().doing(doing)?;
    drop(out);
    file.as_file().sync_all().doing(doing)?;
    file.persist(path)
        .map_err(|error| error.error)
        .doing(doing)?;
    Ok(())
}

fn text(dir: &Path, proof: &Proof, took: Duration) -> String {
    let totals = &proof.totals;
    let size = shown_bytes(totals.bytes);
    let (commit_id, entries) = (proof.commit_id, totals.entries);
    let seconds = took.as_secs_f64();
    let dir = dir.display().to_string();
    let dir = dir.escape_debug();
    if let (Verdict::Proven, Some(tree_id)) = (proof.verdict, proof.rebuilt_tree_id) {
        return format!(
            "proven: {dir} is commit {commit_id}\n  tree {tree_id}, rebuilt from {entries} entries \
             and {size} in {seconds:.2} s"
        );
    }
    let why = match proof.verdict {
        Verdict::DaemonDead => {
            "daemon-dead: what served this mount has ended; unmount with `forgefs umount`"
        }
        Verdict::TimedOut => "timed-out: the directory did not answer in time",
        Verdict::Proven | Verdict::Differs => "it differs",
    };
    let mut lines = vec![format!(
        "not proven: {dir} is not commit {commit_id}: {why}"
    )];
    lines.extend(proof.differences.iter().take(LINES_MAX).map(line));
    let unsaid = proof.differences.len().saturating_sub(LINES_MAX) as u64;
    let unsaid = unsaid.saturating_add(proof.differences_omitted);
    if unsaid > 0 {
        lines.push(format!("  and {unsaid} more"));
    }
    lines.join("\n")
}

fn line(difference: &Difference) -> String {
    let mut line = format!(
        "  {} {}",
        difference.kind.as_str(),
        shown_path(&difference.path)
    );
    if let Some(id) = difference.object_id {
        line.push_str(&format!(", should be {id}"));
    }
    if let Some(id) = difference.found_id {
        line.push_str(&format!(", is {id}"));
    }
    if let Some(detail) = &difference.detail {
        line.push_str(&format!(": {detail}"));
    }
    line
}

/// Draws progress on the terminal while `work` runs, from its second second on.
fn watch<T: Send>(progress: &Progress, work: impl FnOnce() -> T + Send) -> T {
    let (send, receive) = crossbeam_channel::bounded::<()>(0);
    std::thread::scope(|scope| {
        scope.spawn(move || draw(progress, &receive));
        let result = work();
        drop(send);
        result
    })
}

fn draw(progress: &Progress, done: &crossbeam_channel::Receiver<()>) {
    use crossbeam_channel::RecvTimeoutError::Timeout;
    if done.recv_timeout(Duration::from_secs(1)) != Err(Timeout) {
        return;
    }
    let bar = indicatif::ProgressBar::new(0);
    if let Ok(style) = indicatif::ProgressStyle::with_template(
        "proving {wide_bar} {human_pos}/{human_len} entries, {msg}, {eta} left",
    ) {
        bar.set_style(style);
    }
    while done.recv_timeout(Duration::from_millis(100)) == Err(Timeout) {
        bar.set_length(progress.entries_expected.load(Ordering::Relaxed));
        bar.set_position(progress.entries_done.load(Ordering::Relaxed));
        bar.set_message(shown_bytes(progress.bytes_done.load(Ordering::Relaxed)));
    }
    bar.finish_and_clear();
}
