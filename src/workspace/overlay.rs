//! The overlay workspace: no file is written and no object copied. Below lies a forgefs mount of
//! the commit, above it a pack layer of the cache, on top a private upper layer with the rest of
//! `.git`. Nothing shared can be written, since overlayfs copies up.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use super::cache::{self, Layer, LayerRecord, SeedCache};
use super::profile::Profile;
use super::seed::{
    Plan, history_word, make_git_dir, read_source, settle_index, small_files, write_new,
};
use super::selfcheck::{self, Expected};
use super::target::Target;
use super::{SeedPhase, SeedProgress, SeedRecord, SeedRequest, WorkTreeKind};
use crate::error::{Context, ErrorKind, IoContext, Result};
use crate::fault;
use crate::git::{History, Kind, hash_object, index_bytes, parse_shallow, write_pack};
use crate::sys::{DirFd, WrittenStat, copy_file, make_and_open_dir};

/// The most bytes that layers take together, those in use not counted against anybody.
const CACHE_BYTES_MAX: u64 = 16 << 30;

/// What the caller finds out of a commit by itself: the rows of `doctor`, and a line for each note.
pub type Features = (serde_json::Value, Vec<String>);

/// What an overlay workspace is mounted from.
#[derive(Debug, Clone, Serialize)]
pub struct OverlayRecord {
    /// The forgefs mount below.
    pub source: String,
    /// The pack layer.
    pub layer: String,
    /// The private layer: the one to chown, and to remove.
    pub upper: String,
    /// Overlayfs's own directory.
    pub work: String,
    /// Where the workspace appears.
    pub merged: String,
    /// What `mount -t overlay -o` takes.
    pub options: String,
    /// The arguments that make a volume of it, for `docker volume create` and Podman's.
    pub volume: Vec<String>,
    /// Whether `merged` is mounted.
    pub mounted: bool,
}

/// An overlay workspace as it was made; nothing of it is mounted yet.
#[derive(Debug)]
pub struct OverlaySeed {
    /// What was made.
    pub record: SeedRecord,
    /// What to mount.
    pub overlay: OverlayRecord,
    /// The rows of `doctor`.
    pub features: serde_json::Value,
    /// One line for each noted feature.
    pub feature_notes: Vec<String>,
}

/// Makes an overlay workspace at `target`: `upper`, `work`, `merged`, and `source` unless one is
/// given.
///
/// `survey` is asked where no layer of the commit is there yet, or `request.strict`. `source` is a
/// mount of the same commit that shows `mtime_s` for every file; without one the caller mounts one
/// at `<target>/source` afterwards. `extra_options` are added to overlayfs's own.
///
/// # Errors
/// As `seed`, and `corrupt-layer`.
pub fn seed_overlay(
    request: &SeedRequest<'_>,
    target: &Target,
    cache: &SeedCache,
    source: Option<(&Path, i64)>,
    extra_options: &str,
    survey: impl FnOnce() -> Result<Features>,
    progress: &SeedProgress,
) -> Result<OverlaySeed> {
    let key = layer_key(request)?;
    let layer = match cache.find(&key, request.verify)? {
        Some(layer) if request.strict => {
            survey()?;
            layer
        }
        Some(layer) => layer,
        None => {
            let features = survey()?;
            cache.evict(CACHE_BYTES_MAX)?;
            cache.insert(&key, |staging| {
                build_layer(request, staging, features, progress)
            })?
        }
    };
    progress.enter(SeedPhase::Finishing);
    let origin = Plan::origin(request)?;
    let notes: Vec<String> = origin.note().into_iter().collect();
    let mtime_s = source.map_or(layer.record.mtime_s, |(_, mtime_s)| mtime_s);
    let building = target.claim()?;
    let doing = || String::from("cannot make the workspace");
    let upper = make_and_open_dir(building.root(), b"upper", 0o755).doing(doing)?;
    let mut parts = vec![&b"work"[..], b"merged"];
    if source.is_none() {
        parts.push(b"source");
    }
    for name in parts {
        building.root().make_dir(name, 0o755).doing(doing)?;
    }
    let git_dir = make_git_dir(&upper, true)?;
    fault::point("skeleton")?;
    let mut shallow = Vec::new();
    layer
        .open("shallow")?
        .read_to_end(&mut shallow)
        .doing(doing)?;
    let mut shallow: Vec<_> = parse_shallow(&shallow).into_iter().collect();
    shallow.sort_unstable();
    let hash_kind = request.objects.hash_kind();
    let files = small_files(hash_kind, &request.head(), &origin, &shallow, true)?;
    for (name, content) in &files {
        write_new(&git_dir, name, content)?;
        fault::point("small-files-in-part")?;
    }
    write_index(request, &layer, &git_dir, mtime_s)?;
    let expected = Expected {
        files: &files,
        index_only_named: true,
        pack: None,
    };
    selfcheck::check(&git_dir, &expected)?;
    cache.lease(&layer, target.path(), &upper)?;
    building.publish(request.top_mode)?;
    let overlay = overlay_record(target.path(), &layer, source.map(|s| s.0), extra_options)?;
    let LayerRecord {
        features,
        notes: feature_notes,
        ..
    } = layer.record.clone();
    Ok(OverlaySeed {
        record: record(request, target, &layer.record, origin.record, notes),
        overlay,
        features,
        feature_notes,
    })
}

/// The name of a layer: the commit and how much history; where the source is shallow itself, also
/// where it ends.
fn layer_key(request: &SeedRequest<'_>) -> Result<String> {
    let mut key = format!("{}-{}", request.commit.id, history_word(request.history));
    if request.history != History::Base {
        let common = request.repository.common_dir_fd();
        let shallow = read_source(common, b"shallow", super::seed::SHALLOW_BYTES_MAX)?;
        if !shallow.is_empty() {
            let id = hash_object(request.objects.hash_kind(), Kind::Blob, &shallow)?;
            key.push('-');
            key.push_str(&id.to_string()[..16]);
        }
    }
    Ok(key)
}

fn build_layer(
    request: &SeedRequest<'_>,
    staging: &DirFd,
    (features, notes): Features,
    progress: &SeedProgress,
) -> Result<LayerRecord> {
    progress.enter(SeedPhase::Counting);
    let plan = Plan::make(request)?;
    progress.count(&plan.closure);
    let pack_dir = cache::make_pack_dir(staging)?;
    fault::point("layer-skeleton")?;
    progress.enter(SeedPhase::Packing);
    let pack = write_pack(
        request.objects,
        &plan.closure.pack_order(request.objects)?,
        &pack_dir,
        request.threads,
        None,
        &progress.pack,
    )?;
    fault::point("layer-pack-written")?;
    let index = plan.index(request, plan.mtime_s)?;
    cache::write_beside(staging, "index", &index)?;
    let shallow = crate::git::shallow_bytes(&plan.closure.shallow);
    cache::write_beside(staging, "shallow", &shallow)?;
    selfcheck::check_pack(&pack_dir, &pack)?;
    let mut record = cache::new_record(
        request.commit.id.to_string(),
        request.commit.tree_id.to_string(),
        &pack,
    );
    record.mtime_s = plan.mtime_s;
    record.history = history_word(request.history);
    record.history_truncated = plan.closure.truncated;
    record.files = plan.closure.totals.files;
    record.contents = cache::contents(staging, &pack, &["index", "shallow"])?;
    record.features = features;
    record.notes = notes;
    record.notes.extend(plan.notes);
    Ok(record)
}

impl Plan {
    /// Returns an index whose stat data are the attributes that a mount shows: the sizes of the
    /// blobs and one time for all; the rest git does not compare (`core.checkStat=minimal`).
    pub(super) fn index(&self, request: &SeedRequest<'_>, mtime_s: i64) -> Result<Vec<u8>> {
        index_bytes(&self.layout, request.objects.hash_kind(), |number| {
            let size = self.layout.files.get(number).map_or(0, |file| file.size);
            WrittenStat {
                mtime: (mtime_s, 0),
                size,
                ..WrittenStat::default()
            }
        })
    }
}

/// Copies the layer's index, or makes another where the mount below shows another time.
fn write_index(
    request: &SeedRequest<'_>,
    layer: &Layer,
    git_dir: &DirFd,
    mtime_s: i64,
) -> Result<()> {
    let doing = || String::from("cannot write the index");
    let file = if mtime_s == layer.record.mtime_s {
        let file = git_dir.create_beneath(b"index", 0o644).doing(doing)?;
        copy_file(&layer.open("index")?, &file).doing(doing)?;
        file
    } else {
        let index = Plan::make(request)?.index(request, mtime_s)?;
        write_new(git_dir, b"index", &index)?
    };
    settle_index(&file, mtime_s).map(|_| ())
}

fn record(
    request: &SeedRequest<'_>,
    target: &Target,
    layer: &LayerRecord,
    origin: super::OriginRecord,
    notes: Vec<String>,
) -> SeedRecord {
    let pack = layer.contents.first();
    SeedRecord {
        schema: "forgefs.seed/1",
        dir: target.path().to_string_lossy().into_owned(),
        profile: Profile::Sealed,
        base: layer.commit.clone(),
        tree: layer.tree.clone(),
        history: layer.history.clone(),
        history_truncated: layer.history_truncated,
        branch: request.branch.map(str::to_owned),
        origin,
        worktree: WorkTreeKind::Overlay,
        files: layer.files,
        objects: layer.objects,
        pack: layer.pack.clone(),
        pack_sha256: pack.map(|file| file.sha256.clone()).unwrap_or_default(),
        pack_bytes: pack.map_or(0, |file| file.bytes),
        notes,
    }
}

fn overlay_record(
    dir: &Path,
    layer: &Layer,
    source: Option<&Path>,
    extra_options: &str,
) -> Result<OverlayRecord> {
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let own_source = dir.join("source");
    let source = source.unwrap_or(&own_source);
    let (upper, work, merged) = (dir.join("upper"), dir.join("work"), dir.join("merged"));
    let lower = layer.lower_dir();
    let lowers = format!("{}:{}", escaped(&lower, true)?, escaped(source, true)?);
    let options = format!(
        "lowerdir={lowers},upperdir={},workdir={}{extra_options}",
        escaped(&upper, false)?,
        escaped(&work, false)?
    );
    let volume = [
        "--driver",
        "local",
        "--opt",
        "type=overlay",
        "--opt",
        "device=overlay",
        "--opt",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([format!("o={options}")])
    .collect();
    Ok(OverlayRecord {
        source: shown(source),
        layer: shown(&lower),
        upper: shown(&upper),
        work: shown(&work),
        merged: shown(&merged),
        options,
        volume,
        mounted: false,
    })
}

/// Writes a path as overlayfs reads it back: commas and backslashes escaped, and colons where they
/// would end one of several lower directories.
fn escaped(path: &Path, is_lower: bool) -> Result<String> {
    let text = std::str::from_utf8(path.as_os_str().as_bytes()).context(
        ErrorKind::Unsupported,
        "path-not-utf8",
        || {
            String::from(
                "an overlay workspace needs paths that are UTF-8; choose another directory",
            )
        },
    )?;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | ',') || (is_lower && c == ':') {
            out.push('\\');
        }
        out.push(c);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_as_overlayfs_reads_them() {
        for (path, lower, upper) in [
            ("/a/b", "/a/b", "/a/b"),
            ("/a:b", "/a\\:b", "/a:b"),
            ("/a,b\\c", "/a\\,b\\\\c", "/a\\,b\\\\c"),
        ] {
            assert_eq!(escaped(Path::new(path), true).unwrap(), lower);
            assert_eq!(escaped(Path::new(path), false).unwrap(), upper);
        }
    }
}
