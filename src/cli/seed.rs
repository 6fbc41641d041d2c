//! `forgefs seed`: the private, writable, self-contained repository at exactly one commit (R77).

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::values::shown_bytes;
use super::{Context, Outcome};
use crate::budget::{Budget, Limits};
use crate::error::{Context as _, Error, ErrorKind, Result};
use crate::git::{History, Repository, StoreOptions, load_commit, parse_full_id};
use crate::survey::{Depth, Purpose, Survey, survey};
use crate::sys;
use crate::workspace::{
    OriginPolicy, SeedPhase, SeedProgress, SeedRecord, SeedRequest, Target, WorkTreeKind, seed,
};

/// Makes a private, writable, self-contained git repository at exactly one commit.
///
/// Every object is hashed on the way, nothing is shared with REPO, no program is run, and the first
/// `git status` in DIR is clean and reads no file. DIR must be missing or empty.
#[derive(Debug, Args)]
#[command(
    override_usage = "forgefs seed [OPTIONS] <REPO> <COMMIT> <DIR>\n       \
                      forgefs seed --from <FILE> <DIR>",
    after_help = "Examples:\n  forgefs seed . \"$(git rev-parse HEAD)\" /tmp/workspace\n  \
                  git -C /tmp/workspace status\n  \
                  forgefs seed . \"$(git rev-parse HEAD)\" --format tar - | docker cp - box:/workspace\n  \
                  forgefs seed . \"$(git rev-parse HEAD)\" --format pack - | \
                  docker run -i -v vol:/workspace IMAGE forgefs seed --from - /workspace"
)]
pub struct SeedArgs {
    /// A repository root: work tree, bare repository, .git directory, or linked worktree
    pub repo: PathBuf,
    /// The full id of a commit, as `git rev-parse HEAD` prints it
    #[arg(required_unless_present = "from")]
    pub commit: Option<String>,
    /// Where the workspace goes; missing or empty. `-` is standard output, for --format
    #[arg(required_unless_present = "from")]
    pub dir: Option<PathBuf>,
    /// Unpack a seed that --format pack wrote (`-` is standard input) into DIR
    #[arg(long, value_name = "FILE", conflicts_with_all = ["commit", "dir", "history", "branch", "detach", "origin", "format"])]
    pub from: Option<PathBuf>,
    /// What is written: a workspace, seed.pack with seed.json, or one tar
    #[arg(long, value_enum, default_value = "repo")]
    pub format: Format,
    /// Hash the pack layer of an overlay workspace even where it was checked before
    #[arg(long)]
    pub verify: bool,
    /// Do without the seed cache; an overlay workspace cannot
    #[arg(long)]
    pub no_cache: bool,
    /// How many commits go along: the one, N levels of parents, or all
    #[arg(long, value_name = "base|N|full", default_value = "base", value_parser = parse_history)]
    pub history: History,
    /// The branch that the workspace is on
    #[arg(
        long,
        value_name = "NAME",
        default_value = "work",
        conflicts_with = "detach"
    )]
    pub branch: String,
    /// Be on no branch
    #[arg(long)]
    pub detach: bool,
    /// What becomes of the remote origin; its URL is kept only without a credential
    #[arg(long, value_enum, default_value = "none")]
    pub origin: Origin,
    /// What stands beside .git: all files, layers for overlayfs above a mount, or nothing
    #[arg(long, value_enum, default_value = "files")]
    pub worktree: WorkTree,
    /// Mount the merged view of an overlay workspace at DIR/merged
    #[arg(long)]
    pub mount: bool,
    /// The mount of the commit below an overlay workspace [default: a new one at DIR/source]
    #[arg(long, value_name = "MNT")]
    pub source: Option<PathBuf>,
    /// Show entries of a mount below, or write those of a tar, as owned by UID:GID [default: the
    /// caller]
    #[arg(long, value_name = "UID:GID", value_parser = super::quantity::parse_owner)]
    pub owner: Option<(u32, u32)>,
    /// Let other users read the mount below
    #[arg(long)]
    pub allow_other: bool,
    /// Refuse where `doctor` has something to note about the repository or commit
    #[arg(long)]
    pub strict: bool,
    /// Refuse a commit with more files and directories than this
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub max_entries: u64,
    /// How many threads work [default: the number of processors, 1 to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A workspace.
    Repo,
    /// `seed.pack` and `seed.json`.
    Pack,
    /// A tar of the workspace.
    Tar,
}

/// What becomes of the remote `origin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Origin {
    /// No remote.
    None,
    /// Without credentials.
    Strip,
    /// As it is; refused where it carries a credential.
    Carry,
}

/// What stands beside `.git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkTree {
    /// All files.
    Files,
    /// Layers for overlayfs.
    Overlay,
    /// Nothing.
    None,
}

fn parse_history(text: &str) -> std::result::Result<History, String> {
    match text {
        "base" => Ok(History::Base),
        "full" => Ok(History::Full),
        _ => match text.parse() {
            Ok(levels) if levels > 0 && !text.starts_with('+') => Ok(History::Depth(levels)),
            _ => Err(String::from("give base, full or a number from 1")),
        },
    }
}

/// The record with the rows of `doctor` (R89).
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    record: SeedRecord,
    features: serde_json::Value,
}

/// Runs the verb.
pub(super) fn run(context: &Context, args: &SeedArgs) -> Result<Outcome> {
    if let Some(from) = &args.from {
        return super::seed_stream::unpack(context, args, from);
    }
    let (Some(commit), Some(dir)) = (&args.commit, &args.dir) else {
        return Err(usage("give REPO, COMMIT and DIR"));
    };
    let commit_id = parse_full_id(commit)?;
    refuse_combinations(args, dir)?;
    let repository = Repository::open(&args.repo)?;
    let objects = repository.store(&StoreOptions::default())?;
    let commit = load_commit(&objects, &commit_id)?;
    let is_stream = dir == Path::new("-");
    let target = match is_stream {
        true => None,
        false => Some(Target::check(dir, Some(&repository))?),
    };
    let limits = Limits {
        entries_max: args.max_entries,
        ..Limits::default()
    };
    // Modes are the commit's; the mask decides who may enter the new directory.
    let mask = sys::clear_umask();
    let request = SeedRequest {
        repository: &repository,
        objects: &objects,
        commit: &commit,
        history: args.history,
        branch: (!args.detach).then_some(args.branch.as_str()),
        origin: match args.origin {
            Origin::None => OriginPolicy::None,
            Origin::Strip => OriginPolicy::Strip,
            Origin::Carry => OriginPolicy::Carry,
        },
        work_tree: match args.worktree {
            WorkTree::Files => WorkTreeKind::Files,
            WorkTree::Overlay => WorkTreeKind::Overlay,
            WorkTree::None => WorkTreeKind::None,
        },
        verify: args.verify,
        strict: args.strict,
        limits,
        threads: args.threads.map_or_else(threads, usize::from),
        top_mode: 0o777 & !mask,
    };
    if let (WorkTree::Overlay, Some(target)) = (args.worktree, &target) {
        return super::seed_overlay::run(context, args, &request, target);
    }
    let survey = survey_of(&request)?;
    for line in survey.check(Purpose::Seed, args.strict)? {
        context.out.note(&line);
    }
    let features = features_of(&survey)?;
    let target = match (args.format, &target) {
        (Format::Repo, Some(target)) => target,
        (Format::Repo, None) => return Err(usage("a workspace needs a directory")),
        (format, target) => {
            return super::seed_stream::write(context, args, format, &request, target.as_ref());
        }
    };
    let progress = SeedProgress::default();
    let record = with_progress(context, &progress, || seed(&request, target, &progress))?;
    for note in &record.notes {
        context.out.note(note);
    }
    let text = format!(
        "{} is at {} with {} objects ({})",
        record.dir,
        record.base,
        record.objects,
        shown_bytes(record.pack_bytes)
    );
    context.out.data(&Report { record, features }, &text)?;
    Ok(Outcome::Done)
}

fn usage(message: &str) -> Error {
    Error::new(ErrorKind::Usage, "usage", message)
}

/// Refuses options that do not go together, before anything is looked at.
fn refuse_combinations(args: &SeedArgs, dir: &Path) -> Result<()> {
    let is_overlay = args.worktree == WorkTree::Overlay;
    if !is_overlay && (args.mount || args.source.is_some() || args.allow_other) {
        return Err(usage(
            "--mount, --source and --allow-other go with --worktree overlay",
        ));
    }
    if is_overlay && args.no_cache {
        return Err(usage("an overlay workspace lives on the seed cache"));
    }
    if is_overlay && args.format != Format::Repo {
        return Err(usage(
            "an overlay workspace cannot be packed; leave --worktree out",
        ));
    }
    if !is_overlay && args.format != Format::Tar && args.owner.is_some() {
        return Err(usage(
            "--owner goes with --format tar and --worktree overlay; elsewhere the caller changes owners",
        ));
    }
    let is_stream = dir == Path::new("-");
    match args.format {
        Format::Repo if is_stream => Err(usage("- goes with --format pack or tar")),
        Format::Tar if !is_stream => Err(usage("a tar goes to standard output; give - as DIR")),
        _ => Ok(()),
    }
}

/// Surveys the whole commit.
pub(super) fn survey_of(request: &SeedRequest<'_>) -> Result<Survey> {
    let mut budget = Budget::new(request.limits);
    survey(
        request.repository,
        request.objects,
        request.commit,
        Depth::Full,
        &mut budget,
    )
}

/// Returns the rows of a survey as JSON.
pub(super) fn features_of(survey: &Survey) -> Result<serde_json::Value> {
    let doing = || String::from("cannot write the features as JSON");
    let value = serde_json::to_value(survey).context(ErrorKind::Internal, "internal", doing)?;
    Ok(value.get("features").cloned().unwrap_or_default())
}

pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().min(8))
}

/// Runs `work`; on a terminal, and after a second, a bar with rate and remaining time is drawn.
pub(super) fn with_progress<T>(
    context: &Context,
    progress: &SeedProgress,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if !context.out.shows_progress() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        scope.spawn(move || draw(progress, &wait));
        let result = work();
        drop(done);
        result
    })
}

fn draw(progress: &SeedProgress, wait: &mpsc::Receiver<()>) {
    use std::sync::atomic::Ordering::Relaxed;
    let goes_on = |after| wait.recv_timeout(after) == Err(mpsc::RecvTimeoutError::Timeout);
    if !goes_on(Duration::from_secs(1)) {
        return;
    }
    let bar = indicatif::ProgressBar::new(0);
    let style = "{msg} {wide_bar} {pos}/{len} objects, {per_sec}, {eta} left";
    if let Ok(style) = indicatif::ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    loop {
        bar.set_length(progress.objects_total.load(Relaxed));
        bar.set_position(progress.pack.objects.load(Relaxed));
        bar.set_message(match progress.phase() {
            SeedPhase::Counting => "counting",
            SeedPhase::Packing => "packing",
            SeedPhase::Finishing => "finishing",
        });
        if !goes_on(Duration::from_millis(100)) {
            break;
        }
    }
    bar.finish_and_clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r82_a_history_is_base_full_or_a_number_from_one() {
        assert_eq!(parse_history("base"), Ok(History::Base));
        assert_eq!(parse_history("full"), Ok(History::Full));
        assert_eq!(parse_history("17"), Ok(History::Depth(17)));
        for bad in ["0", "-1", "x", "99999999999", "", "+3", "1.5"] {
            assert!(parse_history(bad).is_err(), "{bad}");
        }
    }
}
