//! From a place in a pack to an object: the chain of deltas walked down to its base, then rebuilt
//! upwards, in loops and within bounds (a chain may be hostile: cycles, bombs, lies).

use std::collections::HashSet;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use super::super::Kind;
use super::Store;
use super::cache::Base;
use super::delta;
use super::entry::EntryType;
use super::fault::Fault;
use super::inflate::{Scratch, WHOLE_BYTES_MAX};
use super::pack::{Entry, Extent, Pack};

/// The longest chain of deltas that is followed; git itself writes at most 4,095.
const CHAIN_MAX: usize = 100_000;

/// The most bytes that are rebuilt for one object, bases and deltas counted: bounds the work that a
/// chain of small deltas with huge results can ask for.
pub(super) const WORK_BYTES_MAX: u64 = 64 << 30;

/// Compressed bytes of a chain that are kept from the way down for the way up.
const ARENA_BYTES_MAX: usize = 4 << 20;

/// An entry on the way from an object to its base.
pub(super) struct Step {
    pub(super) pack: Arc<Pack>,
    pub(super) offset: u64,
    pub(super) entry: Entry,
    /// Whether [`Entry::input`] is still in the arena.
    is_kept: bool,
}

/// What a chain of deltas stands on.
pub(super) enum Root {
    /// Rebuilt before.
    Cached(Base),
    /// A whole entry.
    Packed(Step, Kind),
}

/// A chain: deltas from the object that was asked for down to the last, and the root.
pub(super) struct Chain {
    pub(super) deltas: Vec<Step>,
    pub(super) root: Root,
}

/// An object as its chain gives it; not verified.
pub(super) struct Rebuilt {
    pub(super) kind: Kind,
    pub(super) content: Vec<u8>,
    /// Whether a base came from the cache.
    pub(super) used_cache: bool,
}

impl Store {
    /// Walks from an entry to the root of its chain.
    pub(super) fn walk(
        &self,
        pack: &Arc<Pack>,
        offset: u64,
        extent: Extent,
        use_cache: bool,
        scratch: &mut Scratch,
    ) -> Result<Chain, Fault> {
        let mut deltas = Vec::new();
        let mut visited = HashSet::new();
        let mut offset = offset;
        loop {
            if use_cache && let Some(base) = self.cache.get((pack.ordinal, offset)) {
                let root = Root::Cached(base);
                return Ok(Chain { deltas, root });
            }
            let kept = scratch.input.used();
            let entry = pack.entry(offset, extent, &mut scratch.input)?;
            let is_kept = scratch.input.used() <= ARENA_BYTES_MAX || kept == 0;
            if !is_kept {
                scratch.input.truncate(kept);
            }
            let entry_type = entry.header.entry_type;
            let step = Step {
                pack: Arc::clone(pack),
                offset,
                entry,
                is_kept,
            };
            match entry_type {
                EntryType::Whole(kind) => {
                    let root = Root::Packed(step, kind);
                    return Ok(Chain { deltas, root });
                }
                EntryType::OffsetDelta(distance) => {
                    offset = offset
                        .checked_sub(distance)
                        .filter(|_| distance > 0)
                        .ok_or_else(|| pack.damage(offset, "is a delta on no entry before it"))?;
                    deltas.push(step);
                }
                EntryType::RefDelta(base) => {
                    // Offsets only go back, so every cycle passes a delta by id twice.
                    if !visited.insert(offset) {
                        return Err(pack.damage(offset, "is a delta that depends on itself"));
                    }
                    // A base outside the pack is not a base: git says the same of thin packs at
                    // rest.
                    offset = pack
                        .find(&base)?
                        .ok_or_else(|| Fault::MissingBase(pack.name(), base))?;
                    deltas.push(step);
                }
            }
            if deltas.len() > CHAIN_MAX {
                return Err(pack.damage(offset, "is a delta in a chain that is too long"));
            }
        }
    }

    /// Rebuilds the object at a place in a pack.
    pub(super) fn rebuild(
        &self,
        pack: &Arc<Pack>,
        offset: u64,
        use_cache: bool,
        scratch: &mut Scratch,
    ) -> Result<Rebuilt, Fault> {
        let chain = self.walk(pack, offset, Extent::Whole, use_cache, scratch)?;
        let used_cache = matches!(chain.root, Root::Cached(_));
        let mut work = 0_u64;
        let (kind, mut base) = match chain.root {
            Root::Cached((kind, bytes)) => {
                if chain.deltas.is_empty() {
                    return Ok(Rebuilt {
                        kind,
                        content: bytes.to_vec(),
                        used_cache,
                    });
                }
                (kind, bytes)
            }
            Root::Packed(step, kind) => {
                let content = self.inflate_entry(&step, scratch)?;
                if chain.deltas.is_empty() {
                    self.keep_final(&step, kind, &content);
                    return Ok(Rebuilt {
                        kind,
                        content,
                        used_cache,
                    });
                }
                let content = Arc::new(content);
                self.cache
                    .put((step.pack.ordinal, step.offset), kind, &content);
                (kind, content)
            }
        };
        let mut deltas = chain.deltas.into_iter().rev().peekable();
        while let Some(step) = deltas.next() {
            let content = self.apply_step(&step, &base, scratch)?;
            work = work.saturating_add(content.len() as u64 + step.entry.header.size);
            if work > WORK_BYTES_MAX {
                return Err(step
                    .pack
                    .damage(step.offset, "is a delta in a chain that produces too much"));
            }
            if deltas.peek().is_none() {
                self.keep_final(&step, kind, &content);
                return Ok(Rebuilt {
                    kind,
                    content,
                    used_cache,
                });
            }
            base = Arc::new(content);
            self.cache
                .put((step.pack.ordinal, step.offset), kind, &base);
        }
        Err(Fault::Corrupt(String::from("has a chain without an end")))
    }

    /// Keeps a copy of what goes out where the next entry stands on it.
    fn keep_final(&self, step: &Step, kind: Kind, content: &[u8]) {
        if step.entry.is_base_of_next && self.cache.takes(content.len()) {
            let content = Arc::new(content.to_vec());
            self.cache
                .put((step.pack.ordinal, step.offset), kind, &content);
        }
    }

    /// Inflates a whole entry into memory.
    fn inflate_entry(&self, step: &Step, scratch: &mut Scratch) -> Result<Vec<u8>, Fault> {
        let size = self.fits(step.entry.header.size)?;
        let mut content = vec![0; size];
        if step.entry.header.size > WHOLE_BYTES_MAX || !step.inflate_kept(scratch, &mut content)? {
            step.inflate_streamed(scratch, &mut content)?;
        }
        Ok(content)
    }

    /// Applies the delta of one step to its base.
    fn apply_step(
        &self,
        step: &Step,
        base: &[u8],
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, Fault> {
        let size = self.fits(step.entry.header.size)?;
        let damage = |why| step.pack.damage(step.offset, why);
        let input = step.input(scratch)?;
        let streamed;
        let delta = match input.and_then(|input| scratch.inflate_delta(input, size)) {
            Some(delta) => delta,
            None => {
                let mut bytes = vec![0; size];
                step.inflate_streamed(scratch, &mut bytes)?;
                streamed = bytes;
                &streamed
            }
        };
        let sizes = delta::sizes(delta).map_err(damage)?;
        self.fits(sizes.result)?;
        let mut content = Vec::new();
        delta::apply(base, delta, &mut content).map_err(damage)?;
        Ok(content)
    }

    /// Returns a size that may be held in memory.
    fn fits(&self, size: u64) -> Result<usize, Fault> {
        usize::try_from(size)
            .ok()
            .filter(|_| size <= self.options.object_bytes_max)
            .ok_or(Fault::TooLarge(size))
    }
}

impl Step {
    /// Returns where the compressed bytes are in the arena, read again if they were let go; `None`
    /// for entries that are streamed.
    fn input(&self, scratch: &mut Scratch) -> Result<Option<Range<usize>>, Fault> {
        if self.entry.header.size > WHOLE_BYTES_MAX {
            return Ok(None);
        }
        if self.is_kept {
            return Ok(Some(self.entry.input.clone()));
        }
        let kept = scratch.input.used();
        let entry = self
            .pack
            .entry(self.offset, Extent::Whole, &mut scratch.input)?;
        // The bytes stay where they are until the arena is read into again.
        scratch.input.truncate(kept);
        Ok(Some(entry.input))
    }

    /// Inflates from the arena; false where that does not work, for whatever reason.
    fn inflate_kept(&self, scratch: &mut Scratch, out: &mut [u8]) -> Result<bool, Fault> {
        let input = self.input(scratch)?;
        Ok(input.is_some_and(|input| scratch.inflate_whole(input, out)))
    }

    /// Inflates piece by piece from the file: long entries, and those that the fast way refused, so
    /// that a wrong guess of their length does no harm and a true fault gets its name.
    fn inflate_streamed(&self, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Fault> {
        let file = self.pack.open()?;
        let reading = |error| {
            let what = format!("{} at offset {}", self.pack.name(), self.offset);
            Fault::reading(what, error)
        };
        let mut inflater = scratch.stream(&file, self.entry.data.clone());
        inflater.read_exact(out).map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                self.pack.damage(
                    self.offset,
                    "is cut short or inflates to less than its size",
                )
            } else {
                reading(error)
            }
        })?;
        inflater.expect_end().map_err(reading)
    }
}
