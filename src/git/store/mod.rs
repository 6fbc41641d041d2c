//! The verified reader of real object stores: packs, loose objects, alternates.
//!
//! Rules (R5, R6, R8, R12): files are read with `pread`, never mapped; no number in a file is
//! believed before something is allocated or read by it; of several copies of an object any good
//! one will do; and no content leaves this module that does not hash to the id it was asked by.

#[cfg(test)]
mod against_git;
mod alternates;
#[cfg(test)]
mod broken;
mod cache;
mod copies;
mod delta;
mod entry;
mod fault;
mod files;
mod idx;
mod inflate;
mod loose;
mod midx;
mod objects_dir;
mod pack;
pub(super) mod parsers;
mod raw;
mod resolve;
mod spooled;
mod stream;
mod table;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use self::cache::BaseCache;
use self::copies::Copy;
use self::entry::EntryType;
use self::fault::Fault;
use self::files::Descriptors;
use self::inflate::{Scratch, ScratchPool};
use self::loose::Loose;
use self::objects_dir::ObjectsDir;
use self::pack::{Extent, Pack, Shared};
pub(super) use self::raw::{RawForm, RawHead, apply_delta, parse_raw_head};
use self::resolve::Root;
use super::source::{RawEntry, wrong_kind};
use super::{HashKind, Header, Kind, ObjectSource, Oid, empty_tree_id, hash_object};
use crate::error::{IoContext, Result};
use crate::sys::DirFd;

/// Index tables are held in memory up to this many bytes together, and read from disk beyond.
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// How a store reads.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Bytes that the delta-base cache may hold, all threads together.
    pub base_cache_bytes: u64,
    /// The largest object given out whole; larger ones only through `read_to`.
    pub object_bytes_max: u64,
    /// Where bases of deltas too large for memory are spooled; the system's place if `None`.
    pub spool_dir: Option<PathBuf>,
}

impl Default for StoreOptions {
    /// 32 MiB of delta bases, objects up to 64 MiB whole.
    fn default() -> Self {
        Self {
            base_cache_bytes: 32 << 20,
            object_bytes_max: 64 << 20,
            spool_dir: None,
        }
    }
}

/// The objects of a repository and its alternates, each verified as it is read.
#[derive(Debug)]
pub struct Store {
    dirs: Vec<Arc<ObjectsDir>>,
    shared: Arc<Shared>,
    cache: BaseCache,
    scratches: ScratchPool,
    options: StoreOptions,
    absent_alternates: Vec<String>,
    is_partial: bool,
    known_bad: stream::KnownBad,
}

impl Store {
    /// Opens the objects directory `objects` and its alternates; `is_partial` says that the
    /// repository's configuration speaks of a partial clone.
    ///
    /// # Errors
    /// What the disk says of the directory itself. An alternate that cannot be opened is noted, and
    /// told where an object is missing.
    pub(super) fn open(
        objects: DirFd,
        path: &Path,
        hash_kind: HashKind,
        is_partial: bool,
        options: &StoreOptions,
    ) -> Result<Self> {
        let open_max = usize::try_from(crate::sys::descriptors_max() / 4).unwrap_or(usize::MAX);
        let open_max = NonZeroUsize::new(open_max.clamp(8, 1024)).unwrap_or(NonZeroUsize::MIN);
        let shared = Arc::new(Shared {
            hash_kind,
            descriptors: Arc::new(Descriptors::new(open_max)),
            table_bytes: AtomicU64::new(0),
            table_bytes_max: TABLE_BYTES_MAX,
            next_ordinal: AtomicU32::new(0),
        });
        let found = alternates::follow(objects, path);
        let mut absent_alternates = found.absent;
        let mut dirs = Vec::new();
        for (number, (fd, path)) in found.dirs.into_iter().enumerate() {
            match ObjectsDir::open(fd, &path, &shared) {
                Ok(dir) => dirs.push(Arc::new(dir)),
                Err(error) if number == 0 => {
                    return Err(error).doing(|| format!("cannot list {}/pack", path.display()));
                }
                Err(_) => absent_alternates.push(path.display().to_string()),
            }
        }
        Ok(Self {
            dirs,
            shared,
            cache: BaseCache::new(options.base_cache_bytes),
            scratches: ScratchPool::default(),
            options: options.clone(),
            absent_alternates,
            is_partial,
            known_bad: stream::KnownBad::default(),
        })
    }

    /// Returns the alternates that are named but could not be opened.
    #[must_use]
    pub fn absent_alternates(&self) -> &[String] {
        &self.absent_alternates
    }

    /// Returns whether a remote promises what is missing: the configuration or a pack says so.
    #[must_use]
    pub fn is_partial_clone(&self) -> bool {
        self.is_partial || self.dirs.iter().any(|dir| dir.is_promised())
    }

    /// Reads one copy into memory, verified.
    fn read_copy(
        &self,
        copy: &Copy,
        id: &Oid,
        kind: Kind,
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, Fault> {
        let (pack, offset) = match copy {
            Copy::Loose(dir) => {
                let bytes_max = self.options.object_bytes_max;
                let (found, content) = Loose::open(dir.fd(), id)?.read(scratch, bytes_max)?;
                self.verify(copy, id, found, &content)?;
                return of_kind(id, found, kind, content);
            }
            Copy::Packed(pack, offset) => (pack, *offset),
        };
        for use_cache in [true, false] {
            let rebuilt = match self.rebuild(pack, offset, use_cache, scratch) {
                Err(Fault::TooLarge(_)) => {
                    scratch.input.clear();
                    return self.read_large(copy, id, kind, scratch);
                }
                other => other?,
            };
            match self.verify(copy, id, rebuilt.kind, &rebuilt.content) {
                Ok(()) => return of_kind(id, rebuilt.kind, kind, rebuilt.content),
                // A base in the cache may have been misread once: the disk is asked again.
                Err(Fault::Corrupt(_)) if rebuilt.used_cache => scratch.input.clear(),
                Err(fault) => return Err(fault),
            }
        }
        Err(copy.mismatch())
    }

    /// Reads an object that fits although a base of it does not.
    fn read_large(
        &self,
        copy: &Copy,
        id: &Oid,
        kind: Kind,
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, Fault> {
        let size = self.copy_size(copy, id, scratch)?;
        if size > self.options.object_bytes_max {
            return Err(Fault::TooLarge(size));
        }
        let mut content = Vec::new();
        let (found, _) = self.stream_copy(copy, id, scratch, &mut content)?;
        of_kind(id, found, kind, content)
    }

    /// Compares the id of what was read with the id that was asked for (R5).
    fn verify(&self, copy: &Copy, id: &Oid, kind: Kind, content: &[u8]) -> Result<(), Fault> {
        // Set by scripts/bench alone, in a build of its own, to measure what verification costs.
        if cfg!(forgefs_bench_unverified) {
            return Ok(());
        }
        match hash_object(self.shared.hash_kind, kind, content) {
            Ok(found) if found == *id => Ok(()),
            Ok(_) => Err(copy.mismatch()),
            Err(error) => Err(Fault::Final(error.about(id))),
        }
    }

    /// Returns the size that one copy claims.
    fn copy_size(&self, copy: &Copy, id: &Oid, scratch: &mut Scratch) -> Result<u64, Fault> {
        let size = match copy {
            Copy::Loose(dir) => Loose::open(dir.fd(), id)?.header(scratch)?.size,
            Copy::Packed(pack, offset) => self.packed_size(pack, *offset, scratch)?,
        };
        self.check_claim(copy, id, size)
    }

    /// Refuses a claim to be empty that the id denies: nobody reads an empty file, so nobody would
    /// notice. Other lies come out at the first read.
    fn check_claim(&self, copy: &Copy, id: &Oid, size: u64) -> Result<u64, Fault> {
        let empty = |kind| hash_object(self.shared.hash_kind, kind, b"").ok().as_ref() == Some(id);
        let kinds = [Kind::Blob, Kind::Tree, Kind::Commit, Kind::Tag];
        if size > 0 || kinds.into_iter().any(empty) {
            return Ok(size);
        }
        Err(copy.mismatch())
    }

    /// Returns the size of an entry: its header's, or for a delta the one at its start.
    fn packed_size(&self, pack: &Pack, offset: u64, scratch: &mut Scratch) -> Result<u64, Fault> {
        let mut fault = Fault::Absent;
        // A hundred bytes hold the code table of a stream and its first symbols, nearly always.
        for extra in [128, 4096] {
            let kept = scratch.input.used();
            let entry = pack.entry(offset, Extent::Header(extra), &mut scratch.input)?;
            scratch.input.truncate(kept);
            if let EntryType::Whole(_) = entry.header.entry_type {
                return Ok(entry.header.size);
            }
            let mut prefix = [0; 32];
            let len = scratch
                .inflate_prefix(entry.input, &mut prefix)
                .map_err(|why| pack.damage(offset, why))?;
            match delta::sizes(prefix.get(..len).unwrap_or_default()) {
                Ok(sizes) => return Ok(sizes.result),
                Err(why) => fault = pack.damage(offset, why),
            }
        }
        Err(fault)
    }

    /// Returns kind and size that one copy claims.
    fn copy_header(&self, copy: &Copy, id: &Oid, scratch: &mut Scratch) -> Result<Header, Fault> {
        let (kind, size) = match copy {
            Copy::Loose(dir) => {
                let header = Loose::open(dir.fd(), id)?.header(scratch)?;
                (header.kind, header.size)
            }
            Copy::Packed(pack, offset) => {
                let size = self.packed_size(pack, *offset, scratch)?;
                let chain = self.walk(pack, *offset, Extent::Header(0), true, scratch)?;
                let (Root::Cached((kind, _)) | Root::Packed(_, kind)) = chain.root;
                (kind, size)
            }
        };
        self.check_claim(copy, id, size)?;
        Ok(Header { kind, size })
    }

    fn is_empty_tree(&self, id: &Oid) -> bool {
        *id == empty_tree_id(self.shared.hash_kind)
    }
}

impl ObjectSource for Store {
    fn hash_kind(&self) -> HashKind {
        self.shared.hash_kind
    }

    fn header(&self, id: &Oid) -> Result<Header> {
        if self.is_empty_tree(id) {
            return Ok(Header {
                kind: Kind::Tree,
                size: 0,
            });
        }
        self.each_copy(id, &mut |copy, scratch| self.copy_header(copy, id, scratch))
    }

    fn size(&self, id: &Oid) -> Result<u64> {
        if self.is_empty_tree(id) {
            return Ok(0);
        }
        self.each_copy(id, &mut |copy, scratch| self.copy_size(copy, id, scratch))
    }

    fn read(&self, id: &Oid, kind: Kind) -> Result<Vec<u8>> {
        if kind == Kind::Tree && self.is_empty_tree(id) {
            return Ok(Vec::new());
        }
        self.each_copy(id, &mut |copy, scratch| {
            self.read_copy(copy, id, kind, scratch)
        })
    }

    fn read_to(&self, id: &Oid, kind: Kind, out: &mut dyn Write) -> Result<u64> {
        if kind == Kind::Tree && self.is_empty_tree(id) {
            return Ok(0);
        }
        self.stream_any(id, kind, out)
    }

    fn place(&self, id: &Oid) -> Option<u64> {
        self.first_packed(id)
            .map(|(pack, offset)| raw::place_of(&pack, offset))
    }

    fn raw_entry(&self, id: &Oid, stream: &mut Vec<u8>) -> Option<RawEntry> {
        self.raw(id, stream)
    }
}

/// Gives a result out only for an object of the kind that was asked for.
fn of_kind<T>(id: &Oid, found: Kind, wanted: Kind, result: T) -> Result<T, Fault> {
    if found == wanted {
        return Ok(result);
    }
    Err(Fault::Final(wrong_kind(id, found, wanted)))
}
