//! Pack layers in the seed cache below the state root: for each commit and history one read-only
//! directory with `.git/objects/pack` and nothing else, written and verified once and shared by all
//! overlay workspaces of it, each of which holds a lease.
//!
//! ```text
//! cache/<commit>-<history>/layer/.git/objects/pack/pack-<name>.{pack,idx,rev}   0444
//!                          index shallow layer.json                             beside the layer
//!                          leases/<n>                                           who uses it
//! ```

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::git::sha256_hex;
use crate::state::{DirLock, StateRoot, record};
use crate::sys::{DirFd, FileKind, make_and_open_dir, os_name, process};

const SCHEMA: &str = "forgefs.layer/1";
const LEASE_SCHEMA: &str = "forgefs.lease/1";
const RECORD: &str = "layer.json";
const PACK_DIR: &[u8] = b"layer/.git/objects/pack";
const TEMPORARY: &[u8] = b"tmp-";

/// A lease this young counts although its workspace is not there yet: it is being made.
const GRACE_S: i64 = 3600;

/// What is known of a layer; kept as `layer.json` beside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LayerRecord {
    /// `forgefs.layer/1`.
    pub(super) schema: String,
    /// The commit.
    pub(super) commit: String,
    /// Its tree.
    pub(super) tree: String,
    /// The time that the index has for every file, seconds since 1970.
    pub(super) mtime_s: i64,
    /// `base`, `full` or a number of levels.
    pub(super) history: String,
    /// Whether the source had less than that.
    pub(super) history_truncated: bool,
    /// Files, links and submodules of the commit.
    pub(super) files: u64,
    /// Objects in the pack.
    pub(super) objects: u32,
    /// The pack's name, without `pack-`.
    pub(super) pack: String,
    /// Size and SHA-256 of each file, the pack first.
    pub(super) contents: Vec<LayerFile>,
    /// The boot in which the files were last hashed: after a crash of the host they are again.
    pub(super) boot: String,
    /// What `doctor` says of the commit.
    pub(super) features: serde_json::Value,
    /// One line for each noted feature.
    pub(super) notes: Vec<String>,
}

/// One file of a layer, or beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayerFile {
    /// Path below the layer's directory in the cache.
    pub(super) path: String,
    /// Size in bytes.
    pub(super) bytes: u64,
    /// SHA-256 in hex.
    pub(super) sha256: String,
}

/// Who uses a layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Lease {
    schema: String,
    workspace: String,
    dev: (u32, u32),
    ino: u64,
}

/// The cache.
#[derive(Debug)]
pub struct SeedCache {
    dir: DirFd,
    path: PathBuf,
}

/// A layer that is whole and may be used.
#[derive(Debug)]
pub(super) struct Layer {
    dir: DirFd,
    path: PathBuf,
    /// What is known of it.
    pub(super) record: LayerRecord,
}

/// A layer as a list shows it.
#[derive(Debug, Clone, Serialize)]
pub struct ListedLayer {
    /// The commit.
    pub commit: String,
    /// How much history.
    pub history: String,
    /// Size of its files in bytes.
    pub bytes: u64,
    /// The workspaces that use it.
    pub workspaces: Vec<String>,
}

impl Layer {
    /// Returns the directory that overlayfs puts between the mount and the upper layer.
    #[must_use]
    pub(super) fn lower_dir(&self) -> PathBuf {
        self.path.join("layer")
    }

    /// Opens a file beside the layer.
    ///
    /// # Errors
    /// What opening says.
    pub(super) fn open(&self, name: &str) -> Result<std::fs::File> {
        self.dir
            .open_file(name.as_bytes())
            .doing(|| format!("cannot open {name} of the pack layer"))
    }

    /// Checks owner, mode and size of every file, and the content where `by_hash`.
    fn check(&self, by_hash: bool) -> Result<()> {
        let bad = |file: &LayerFile, what: &str| {
            Error::new(
                ErrorKind::Corrupt,
                "corrupt-layer",
                format!(
                    "the pack layer's {} {what}; it is not used again",
                    file.path
                ),
            )
            .at(self.path.join(&file.path))
        };
        let (uid, _) = process::effective_ids();
        for file in &self.record.contents {
            let stat = self
                .dir
                .open_dir(
                    file.path
                        .rsplit_once('/')
                        .map_or(".", |(dir, _)| dir)
                        .as_bytes(),
                )
                .and_then(|dir| dir.stat(file.path.rsplit('/').next().unwrap_or("").as_bytes()))
                .map_err(|e| bad(file, "cannot be found").caused_by(e))?;
            let is_right = stat.kind == FileKind::File
                && stat.uid == uid
                && stat.mode & 0o222 == 0
                && stat.nlink == 1
                && stat.size == file.bytes;
            if !is_right {
                return Err(bad(
                    file,
                    "has another size, owner, mode or number of names",
                ));
            }
            if by_hash && sha256_hex(&mut self.open(&file.path)?)? != file.sha256 {
                return Err(bad(file, "has another content"));
            }
        }
        let listed = self
            .dir
            .open_dir(PACK_DIR)
            .and_then(|dir| dir.list())
            .doing(|| String::from("cannot list the pack layer"))?;
        if listed.len() != 3 {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "corrupt-layer",
                "the pack layer does not hold three files",
            )
            .at(&self.path));
        }
        Ok(())
    }
}

impl SeedCache {
    /// Opens the cache of a state root.
    ///
    /// # Errors
    /// Those of the state root.
    pub fn open(root: &StateRoot) -> Result<Self> {
        Ok(Self {
            dir: root.subdir("cache")?,
            path: root.path().join("cache"),
        })
    }

    /// Opens the cache where it exists; makes nothing.
    ///
    /// # Errors
    /// Those of the state root.
    pub fn open_existing(root: &StateRoot) -> Result<Option<Self>> {
        let dir = root.existing_subdir("cache")?;
        Ok(dir.map(|dir| Self {
            dir,
            path: root.path().join("cache"),
        }))
    }

    /// Takes the lock of the cache, for moments: others who hold it do so for moments too.
    fn lock(&self) -> Result<DirLock> {
        let mut tries = 0;
        loop {
            match DirLock::acquire(&self.dir, &self.path) {
                Err(error) if error.slug() == "locked" && tries < 1000 => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => return other,
            }
        }
    }

    /// Returns the layer `key` if it is there and whole. One that is not is removed where nobody
    /// uses it, and is an error where somebody does.
    ///
    /// # Errors
    /// `corrupt-layer`; what reading says.
    pub(super) fn find(&self, key: &str, by_hash: bool) -> Result<Option<Layer>> {
        let _lock = self.lock()?;
        let dir = match self.dir.open_dir(key.as_bytes()) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.doing(|| format!("cannot open the pack layer {key}"))?,
        };
        let checked = record::read::<LayerRecord>(&dir, RECORD, SCHEMA).and_then(|found| {
            let Some(record) = found else {
                return Ok(None);
            };
            let boot = boot_id();
            let mut layer = Layer {
                dir: dir.reopen().doing(|| format!("cannot open {key}"))?,
                path: self.path.join(key),
                record,
            };
            let after_crash = layer.record.boot != boot;
            layer.check(by_hash || after_crash)?;
            if after_crash {
                layer.record.boot = boot;
                let durability = record::Durability::WhileHostRuns;
                record::write(&layer.dir, RECORD, &layer.record, durability)?;
            }
            Ok(Some(layer))
        });
        match checked {
            Ok(Some(layer)) => Ok(Some(layer)),
            Ok(None) => self.drop_broken(&dir, key, None),
            Err(error) => self.drop_broken(&dir, key, Some(error)),
        }
    }

    fn drop_broken(&self, dir: &DirFd, key: &str, error: Option<Error>) -> Result<Option<Layer>> {
        if let Some(error) = error.filter(|_| !holders(dir).is_empty()) {
            return Err(error);
        }
        self.dir
            .remove_tree(key.as_bytes())
            .doing(|| format!("cannot remove the broken pack layer {key}"))?;
        Ok(None)
    }

    /// Makes the layer `key`: `build` writes into a directory of its own, which then gets its name.
    /// Where somebody else was faster, theirs is returned.
    ///
    /// # Errors
    /// Those of `build`; errors of writing.
    pub(super) fn insert(
        &self,
        key: &str,
        build: impl FnOnce(&DirFd) -> Result<LayerRecord>,
    ) -> Result<Layer> {
        let doing = || String::from("cannot make a pack layer");
        let name = {
            let _lock = self.lock()?;
            self.sweep();
            let mut number = 0;
            loop {
                let name = format!("tmp-{}-{number}", std::process::id());
                match self.dir.make_dir(name.as_bytes(), 0o700) {
                    Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                    other => {
                        other.doing(doing)?;
                        break name;
                    }
                }
            }
        };
        let staging = self.dir.open_dir(name.as_bytes()).doing(doing)?;
        let held = staging.try_lock().doing(doing);
        let result = held.and_then(|_| build(&staging)).and_then(|layer| {
            let durability = record::Durability::WhileHostRuns;
            record::write(&staging, RECORD, &layer, durability)?;
            staging.make_dir(b"leases", 0o700).doing(doing)?;
            let _lock = self.lock()?;
            match self
                .dir
                .rename_new(name.as_bytes(), &self.dir, key.as_bytes())
            {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                    let _ = self.dir.remove_tree(name.as_bytes());
                }
                other => other.doing(doing)?,
            }
            Ok(())
        });
        if let Err(error) = result {
            let _ = self.dir.remove_tree(name.as_bytes());
            return Err(error);
        }
        self.find(key, false)?.ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "internal",
                "a pack layer vanished as it was made",
            )
        })
    }

    /// Removes what killed runs left.
    fn sweep(&self) {
        let Ok(listed) = self.dir.list() else { return };
        for entry in listed.iter().filter(|e| e.name.starts_with(TEMPORARY)) {
            let is_free = self
                .dir
                .open_dir(&entry.name)
                .and_then(|dir| dir.try_lock())
                .unwrap_or(false);
            if is_free {
                let _ = self.dir.remove_tree(&entry.name);
            }
        }
    }

    /// Notes that the workspace whose upper layer is `upper`, at `path` now or soon, uses `layer`.
    ///
    /// # Errors
    /// Errors of writing; the layer may have been dropped meanwhile.
    pub(super) fn lease(&self, layer: &Layer, path: &Path, upper: &DirFd) -> Result<()> {
        let doing = || String::from("cannot lease the pack layer");
        let _lock = self.lock()?;
        let leases = layer.dir.open_dir(b"leases").doing(doing)?;
        let identity = upper.stat_self().doing(doing)?.identity;
        let (major, minor) = identity.dev;
        let name = format!("{major}-{minor}-{}", identity.ino);
        let lease = Lease {
            schema: LEASE_SCHEMA.to_owned(),
            workspace: path.to_string_lossy().into_owned(),
            dev: identity.dev,
            ino: identity.ino,
        };
        record::write(&leases, &name, &lease, record::Durability::WhileHostRuns)
    }

    /// Drops layers that nobody uses, least recently leased first, until all have at most
    /// `bytes_max` bytes together.
    ///
    /// # Errors
    /// What listing says.
    pub(super) fn evict(&self, bytes_max: u64) -> Result<()> {
        let _lock = self.lock()?;
        let mut total = 0_u64;
        let mut free = Vec::new();
        for (name, dir, record) in self.layers()? {
            let bytes: u64 = record.contents.iter().map(|file| file.bytes).sum();
            total = total.saturating_add(bytes);
            let used = dir
                .open_dir(b"leases")
                .and_then(|leases| leases.written_stat(b"."))
                .map_or(0, |stat| stat.mtime.0);
            if holders(&dir).is_empty() {
                free.push((used, bytes, name));
            }
        }
        free.sort_unstable();
        for (_, bytes, name) in free {
            if total <= bytes_max {
                break;
            }
            if self.dir.remove_tree(&name).is_ok() {
                total = total.saturating_sub(bytes);
            }
        }
        Ok(())
    }

    /// Returns all layers, and who holds them.
    ///
    /// # Errors
    /// What listing says.
    pub fn list(&self) -> Result<Vec<ListedLayer>> {
        let layers = self.layers()?;
        Ok(layers
            .into_iter()
            .map(|(_, dir, record)| ListedLayer {
                commit: record.commit,
                history: record.history,
                bytes: record.contents.iter().map(|file| file.bytes).sum(),
                workspaces: holders(&dir),
            })
            .collect())
    }

    fn layers(&self) -> Result<Vec<(Vec<u8>, DirFd, LayerRecord)>> {
        let mut out = Vec::new();
        let mut listed = self
            .dir
            .list()
            .doing(|| format!("cannot list {}", self.path.display()))?;
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in listed {
            if entry.name.starts_with(TEMPORARY) {
                continue;
            }
            let Ok(dir) = self.dir.open_dir(&entry.name) else {
                continue;
            };
            if let Ok(Some(record)) = record::read::<LayerRecord>(&dir, RECORD, SCHEMA) {
                out.push((entry.name, dir, record));
            }
        }
        Ok(out)
    }
}

/// Returns the workspaces that use a layer; leases of those that are gone are dropped.
fn holders(layer: &DirFd) -> Vec<String> {
    let Ok(leases) = layer.open_dir(b"leases") else {
        return Vec::new();
    };
    let now_s = now_on(layer);
    let mut out = Vec::new();
    for entry in leases.list().unwrap_or_default() {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let Ok(Some(lease)) = record::read::<Lease>(&leases, &name, LEASE_SCHEMA) else {
            continue;
        };
        let upper = Path::new(&lease.workspace).join("upper");
        let is_there = DirFd::open_no_follow(&upper)
            .and_then(|dir| dir.stat_self())
            .is_ok_and(|stat| stat.identity.dev == lease.dev && stat.identity.ino == lease.ino);
        let age_s = leases
            .written_stat(&entry.name)
            .map_or(0, |stat| now_s.saturating_sub(stat.mtime.0));
        if is_there || age_s < GRACE_S {
            out.push(lease.workspace);
        } else {
            let _ = leases.remove_file(&entry.name);
        }
    }
    out.sort_unstable();
    out
}

/// Returns the time as the file system of `dir` tells it, from a file made for the question.
fn now_on(dir: &DirFd) -> i64 {
    let name = b".now";
    let _ = dir.remove_file(name);
    let now = dir
        .create_beneath(name, 0o600)
        .and_then(|file| file.metadata())
        .map_or(i64::MIN, |meta| meta.mtime());
    let _ = dir.remove_file(name);
    now
}

fn boot_id() -> String {
    let mut text = String::new();
    let read = std::fs::File::open("/proc/sys/kernel/random/boot_id")
        .and_then(|file| file.take(64).read_to_string(&mut text));
    match read {
        Ok(_) => text.trim().to_owned(),
        Err(_) => String::new(),
    }
}

/// Makes the directories of a layer in `staging` and returns the one for the pack.
pub(super) fn make_pack_dir(staging: &DirFd) -> Result<DirFd> {
    let doing = || String::from("cannot make a pack layer");
    let mut dir = make_and_open_dir(staging, b"layer", 0o755).doing(doing)?;
    for name in [&b".git"[..], b"objects", b"pack"] {
        dir = make_and_open_dir(&dir, name, 0o755).doing(doing)?;
    }
    Ok(dir)
}

/// Writes a file beside the layer.
pub(super) fn write_beside(staging: &DirFd, name: &str, content: &[u8]) -> Result<()> {
    let doing = || format!("cannot write {name} of a pack layer");
    let mut file = staging
        .create_beneath(name.as_bytes(), 0o444)
        .doing(doing)?;
    file.write_all(content).doing(doing)
}

/// Returns size and hash of the files of a new layer: of the pack (whose hash is known) and of what
/// else was written.
pub(super) fn contents(
    staging: &DirFd,
    pack: &crate::git::PackRecord,
    beside: &[&str],
) -> Result<Vec<LayerFile>> {
    let mut out = vec![LayerFile {
        path: format!(
            "{}/{}",
            os_name(PACK_DIR).to_string_lossy(),
            pack.file_name("pack")
        ),
        bytes: pack.bytes,
        sha256: pack.sha256.clone(),
    }];
    let others = ["idx", "rev"].map(|suffix| {
        format!(
            "{}/{}",
            os_name(PACK_DIR).to_string_lossy(),
            pack.file_name(suffix)
        )
    });
    for path in others
        .into_iter()
        .chain(beside.iter().map(ToString::to_string))
    {
        let doing = || format!("cannot read {path} back");
        let mut file = staging.open_file(path.as_bytes()).doing(doing)?;
        let bytes = file.metadata().doing(doing)?.len();
        let sha256 = sha256_hex(&mut file)?;
        out.push(LayerFile {
            path,
            bytes,
            sha256,
        });
    }
    Ok(out)
}

/// Returns the record of a new layer, without what the caller knows of the commit.
pub(super) fn new_record(
    commit: String,
    tree: String,
    pack: &crate::git::PackRecord,
) -> LayerRecord {
    LayerRecord {
        schema: SCHEMA.to_owned(),
        commit,
        tree,
        mtime_s: 0,
        history: String::new(),
        history_truncated: false,
        files: 0,
        objects: pack.objects,
        pack: pack.name.to_string(),
        contents: Vec::new(),
        boot: boot_id(),
        features: serde_json::Value::Null,
        notes: Vec::new(),
    }
}
