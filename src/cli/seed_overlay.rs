//! `forgefs seed --worktree overlay`: the layers, the mount below, and the merged view.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::seed::{SeedArgs, features_of, with_progress};
use super::{Context, Outcome};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::mount::control::{UmountMode, umount};
use crate::mount::find::{MountState, find_mounts};
use crate::mount::handshake::{ServeSpec, start_daemon};
use crate::state::StateRoot;
use crate::survey::Purpose;
use crate::sys::mounts::{in_first_user_namespace, mount_overlay};
use crate::sys::{DirFd, process};
use crate::workspace::{
    OverlayRecord, SeedCache, SeedProgress, SeedRecord, SeedRequest, Target, seed_overlay,
};

/// Caps of the mount below; `forgefs mount` has options for them.
const CACHE_BYTES_MAX: u64 = 64 << 20;
const LOG_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    record: SeedRecord,
    overlay: OverlayRecord,
    features: serde_json::Value,
}

/// Makes the layers, mounts what is to be mounted, and says what it is.
pub(super) fn run(
    context: &Context,
    args: &SeedArgs,
    request: &SeedRequest<'_>,
    target: &Target,
) -> Result<Outcome> {
    let repository = request.repository;
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let outside_of: Vec<PathBuf> = [Some(&repository.common_dir), repository.work_tree.as_ref()]
        .into_iter()
        .flatten()
        .filter_map(|path| real(path))
        .collect();
    let state_dir = context.state_path()?;
    let state = StateRoot::open(&state_dir, context.env.home.as_deref(), &outside_of)?;
    let cache = SeedCache::open(&state)?;
    let source = match &args.source {
        Some(path) => Some(given_source(context, path, &request.commit.id.to_string())?),
        None => None,
    };
    // Renames of directories need an attribute that the kernel refuses in other user namespaces.
    let extra = if in_first_user_namespace() {
        ",redirect_dir=on"
    } else {
        ",userxattr"
    };
    let progress = SeedProgress::default();
    let survey = || {
        let survey = super::seed::survey_of(request)?;
        let notes = survey.check(Purpose::Seed, request.strict)?;
        Ok((features_of(&survey)?, notes))
    };
    let below = source
        .as_ref()
        .map(|(path, mtime_s)| (path.as_path(), *mtime_s));
    let mut made = with_progress(context, &progress, || {
        seed_overlay(request, target, &cache, below, extra, survey, &progress)
    })?;
    let mounted = mount_all(context, args, target, source.is_none(), &mut made.overlay);
    if let Err(error) = mounted {
        // Just made, and nobody's yet.
        remove(target.path());
        return Err(error);
    }
    for note in made.feature_notes.iter().chain(&made.record.notes) {
        context.out.note(note);
    }
    let text = text_of(&made.record, &made.overlay);
    let report = Report {
        record: made.record,
        overlay: made.overlay,
        features: made.features,
    };
    context.out.data(&report, &text)?;
    Ok(Outcome::Done)
}

fn text_of(record: &SeedRecord, overlay: &OverlayRecord) -> String {
    if overlay.mounted {
        return format!("{} is at {}", overlay.merged, record.base);
    }
    format!(
        "{} is ready at {}; mount it:\n  mount -t overlay overlay -o '{}' '{}'",
        record.dir, record.base, overlay.options, overlay.merged
    )
}

/// Checks that a mount given as `--source` is one of ours, alive and of this commit, and returns
/// its real path and the time that it shows.
fn given_source(context: &Context, path: &Path, commit: &str) -> Result<(PathBuf, i64)> {
    let refuse = |what: &str| {
        Error::new(
            ErrorKind::Unsafe,
            "source-not-usable",
            format!(
                "{} {what}; mount the commit with forgefs mount",
                path.display()
            ),
        )
        .at(path)
    };
    let real =
        std::fs::canonicalize(path).map_err(|e| refuse("cannot be resolved").caused_by(e))?;
    let records = context.mount_records()?;
    let found = find_mounts(records.as_ref())?;
    let mount = found
        .iter()
        .find(|m| m.entry.is_some() && m.mount_point().as_deref() == Some(&*real))
        .ok_or_else(|| refuse("is no forgefs mount"))?;
    if mount.state != MountState::Live {
        return Err(refuse("is not served by a daemon that this user recorded"));
    }
    if mount.record.as_ref().map(|r| r.commit.as_str()) != Some(commit) {
        return Err(refuse("shows another commit"));
    }
    let meta = real
        .symlink_metadata()
        .doing(|| format!("cannot stat {}", real.display()))?;
    Ok((real, meta.mtime()))
}

fn mount_all(
    context: &Context,
    args: &SeedArgs,
    target: &Target,
    mount_source: bool,
    overlay: &mut OverlayRecord,
) -> Result<()> {
    if mount_source {
        start_daemon(&spec(context, args, &target.path().join("source"))?)?;
    }
    if !args.mount {
        return Ok(());
    }
    let merged = target.path().join("merged");
    let result = mount_overlay(&overlay.options, &merged);
    if result.is_err() && mount_source {
        let records = context.mount_records().ok().flatten();
        let source = target.path().join("source");
        let _ = umount(records.as_ref(), &source, UmountMode::Lazy);
    }
    result.map_err(|error| {
        Error::new(
            ErrorKind::Host,
            "overlay-mount-failed",
            format!(
                "the kernel does not mount the overlay at {}; as an ordinary user run forgefs in \
                 unshare -Urm",
                merged.display()
            ),
        )
        .caused_by(error)
        .at(&merged)
    })?;
    overlay.mounted = true;
    Ok(())
}

fn spec(context: &Context, args: &SeedArgs, point: &Path) -> Result<ServeSpec> {
    Ok(ServeSpec {
        repo: std::path::absolute(&args.repo)
            .doing(|| String::from("cannot read the working directory"))?,
        commit: args.commit.clone().unwrap_or_default(),
        point: point.to_path_buf(),
        make_point: false,
        state_dir: context.state_path()?,
        owner: args.owner.unwrap_or_else(process::effective_ids),
        allow_other: args.allow_other,
        no_exec: false,
        xattrs: false,
        threads: 2,
        cache_bytes_max: CACHE_BYTES_MAX,
        mtime_s: None,
        log_bytes_max: LOG_BYTES_MAX,
        log_level: context.env.log.clone(),
        strict: false,
    })
}

fn remove(dir: &Path) {
    use std::os::unix::ffi::OsStrExt;
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return;
    };
    let removed = DirFd::open_no_follow(parent).and_then(|parent| {
        // An empty directory that was filled in place stays, as it was given.
        parent.remove_tree(name.as_bytes())
    });
    if let Err(error) = removed {
        tracing::warn!(%error, dir = %dir.display(), "cannot remove what was begun");
    }
}
