//! One objects directory, held open: its packs and its loose objects, and how changes to the list
//! of packs are noticed (R12).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use super::super::Oid;
use super::fault::Fault;
use super::midx::Midx;
use super::pack::{Pack, Shared};
use crate::sys::{DirFd, FileKind};

/// Packs that git has deleted and that are still open: how many are kept.
const GONE_PACKS_MAX: usize = 4;

/// A directory whose time stamp is younger than this may change again without a new time stamp.
const RACY: Duration = Duration::from_secs(2);

/// An objects directory.
#[derive(Debug)]
pub(super) struct ObjectsDir {
    /// For messages.
    pub(super) path: PathBuf,
    fd: DirFd,
    shared: Arc<Shared>,
    packs: RwLock<Arc<PackList>>,
    scanned: Mutex<Option<Scanned>>,
    last_hit: AtomicUsize,
}

/// The packs of a directory at one time.
#[derive(Debug, Default)]
struct PackList {
    packs: Vec<Arc<Pack>>,
    midx: Option<Midx>,
    /// Whether there is a `.promisor` file.
    is_promised: bool,
}

/// What the directory was at the last scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scanned {
    dev: u64,
    ino: u64,
    modified: SystemTime,
    /// Whether it may have changed since without a trace.
    is_racy: bool,
}

/// Which indexes a search asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// The multi-pack-index, and the indexes of packs that it does not cover.
    Fast,
    /// The index of each pack, as if there were no multi-pack-index: it may lie.
    Thorough,
}

impl ObjectsDir {
    /// Takes the directory and lists its packs.
    ///
    /// # Errors
    /// What the disk says of the `pack` directory; that there is none is fine.
    pub(super) fn open(fd: DirFd, path: &Path, shared: &Arc<Shared>) -> io::Result<Self> {
        let dir = Self {
            path: path.to_path_buf(),
            fd,
            shared: Arc::clone(shared),
            packs: RwLock::default(),
            scanned: Mutex::new(None),
            last_hit: AtomicUsize::new(0),
        };
        dir.rescan()?;
        Ok(dir)
    }

    /// Returns the directory held open.
    pub(super) fn fd(&self) -> &DirFd {
        &self.fd
    }

    /// Returns whether a pack in here came from a remote that promises what is missing.
    pub(super) fn is_promised(&self) -> bool {
        self.list().is_promised
    }

    /// Returns whether a multi-pack-index stands between the asker and the packs.
    pub(super) fn has_midx(&self) -> bool {
        self.list().midx.is_some()
    }

    /// Returns whether the directory was deleted while it was open.
    pub(super) fn is_gone(&self) -> bool {
        self.fd.stat_self().is_ok_and(|stat| stat.nlink == 0)
    }

    fn list(&self) -> Arc<PackList> {
        Arc::clone(&self.packs.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands out each place in a pack where `id` may be until `visit` returns true; returns whether
    /// it did. Indexes that cannot be used are told to `damaged`.
    pub(super) fn visit_packed(
        &self,
        id: &Oid,
        search: Search,
        damaged: &mut dyn FnMut(Fault),
        visit: &mut dyn FnMut(&Arc<Pack>, u64) -> bool,
    ) -> bool {
        let list = self.list();
        let midx = list.midx.as_ref().filter(|_| search == Search::Fast);
        if let Some(midx) = midx {
            match midx.find(id) {
                Ok(Some((number, offset))) => {
                    if let Some(pack) = list.packs.get(number)
                        && visit(pack, offset)
                    {
                        return true;
                    }
                }
                Ok(None) => {}
                Err(fault) => damaged(fault),
            }
        }
        // The pack that had the last object likely has this one.
        let last = self.last_hit.load(Ordering::Relaxed);
        let rest = (0..list.packs.len()).filter(|number| *number != last);
        for number in std::iter::once(last).chain(rest) {
            let Some(pack) = list.packs.get(number) else {
                continue;
            };
            if midx.is_some_and(|midx| midx.covers(number)) {
                continue;
            }
            match pack.find(id) {
                Ok(Some(offset)) => {
                    if visit(pack, offset) {
                        self.last_hit.store(number, Ordering::Relaxed);
                        return true;
                    }
                }
                Ok(None) => {}
                Err(fault) => damaged(fault),
            }
        }
        false
    }

    /// Lists the packs again if the directory may have changed; returns whether the list did.
    ///
    /// # Errors
    /// What the disk says; the old list stays.
    pub(super) fn rescan(&self) -> io::Result<bool> {
        let mut scanned = self.scanned.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = match self.fd.open_dir_following(b"pack") {
            Ok(dir) => Arc::new(dir),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *scanned = None;
                return Ok(self.replace(None, &[]));
            }
            Err(error) => return Err(error),
        };
        let before = Scanned::of(&dir)?;
        let old = *scanned;
        let is_same = old
            == Some(Scanned {
                is_racy: false,
                ..before
            });
        if is_same && !self.list().packs.iter().any(|pack| pack.is_suspect()) {
            return Ok(false);
        }
        let names = dir.list()?;
        *scanned = Some(before);
        Ok(self.replace(Some(&dir), &names))
    }

    /// Makes the list of packs from the names in the directory, keeping the packs it knows.
    fn replace(&self, dir: Option<&Arc<DirFd>>, names: &[crate::sys::ListedEntry]) -> bool {
        let old = self.list();
        let files: BTreeSet<&[u8]> = names
            .iter()
            .filter(|entry| entry.kind != FileKind::Directory)
            .map(|entry| entry.name.as_slice())
            .collect();
        let mut known: BTreeMap<&[u8], &Arc<Pack>> = old
            .packs
            .iter()
            .filter(|pack| !(pack.is_suspect() && pack.is_replaced()))
            .map(|pack| (pack.stem.as_slice(), pack))
            .collect();
        let mut packs = Vec::new();
        for name in &files {
            let Some(stem) = name.strip_suffix(b".idx") else {
                continue;
            };
            if !files.contains([stem, b".pack"].concat().as_slice()) {
                continue;
            }
            if let Some(pack) = known.remove(stem) {
                pack.set_suspect(false);
                packs.push(Arc::clone(pack));
            } else if let Some(dir) = dir {
                packs.push(Arc::new(Pack::new(&self.shared, dir, stem)));
            }
        }
        // Open packs that git has deleted still hold what nobody may have any more; they come last.
        let gone = known.into_values().filter(|pack| pack.is_open());
        packs.extend(gone.take(GONE_PACKS_MAX).map(Arc::clone));
        let has_midx = files.contains(b"multi-pack-index".as_slice());
        let midx = dir
            .filter(|_| has_midx)
            .and_then(|dir| Midx::open(&self.shared, dir, &packs, old.midx.as_ref()));
        let is_changed = !packs
            .iter()
            .map(|pack| pack.ordinal)
            .eq(old.packs.iter().map(|pack| pack.ordinal))
            || midx.as_ref().map(Midx::stamp) != old.midx.as_ref().map(Midx::stamp);
        let is_promised = files.iter().any(|name| name.ends_with(b".promisor"));
        let list = PackList {
            packs,
            midx,
            is_promised,
        };
        *self.packs.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(list);
        is_changed
    }
}

impl Scanned {
    fn of(dir: &DirFd) -> io::Result<Self> {
        use std::os::fd::AsFd;
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::File::from(dir.as_fd().try_clone_to_owned()?).metadata()?;
        let modified = meta.modified()?;
        let age = SystemTime::now().duration_since(modified);
        Ok(Self {
            dev: meta.dev(),
            ino: meta.ino(),
            modified,
            is_racy: age.map_or(true, |age| age < RACY),
        })
    }
}
