//! Pack layers in the seed cache below the state root: for each commit and history one read-only
//! directory with `.git/objects/pack` and nothing else, written and verified once and shared by all
//! overlay workspaces of it, each of which holds a lease.
//!
//! ```text
//! cache/<commit>-<history>/layer/.git/objects/pack/pack-<name>.{pack,idx,rev}   0444
//!                          index shallow layer.json                             beside the layer
//!                          leases/<n>                                           who uses it
//! ```

mod layer;
mod lease;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use self::layer::{RECORD, SCHEMA, boot_id};
use self::lease::holders;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::state::{DirLock, StateRoot, record};
use crate::sys::DirFd;

pub(super) use self::layer::{
    Layer, LayerRecord, contents, make_pack_dir, new_record, write_beside,
};

/// What the names of layers that are being made begin with.
const TEMPORARY: &[u8] = b"tmp-";

/// The cache.
#[derive(Debug)]
pub struct SeedCache {
    dir: DirFd,
    path: PathBuf,
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
