//! Objects that are not to be held in memory (R46): streamed through the hash to whoever asked,
//! with the bases of deltas in unlinked temporary files.

use std::collections::HashSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::{Kind, ObjectHasher, Oid};
use super::cache::Place;
use super::copies::Copy;
use super::fault::Fault;
use super::inflate::Scratch;
use super::loose::{Loose, pump};
use super::pack::{Extent, Pack};
use super::resolve::{Root, Step, WORK_BYTES_MAX};
use super::spooled::{DeltaReader, Sink, Spooled};
use super::{Store, of_kind};
use crate::error::{Error, Result as StoreResult};

/// Wrong copies that are remembered at most.
const KNOWN_BAD_MAX: usize = 1024;

/// Bases up to this many bytes stay in memory.
const MEMORY_BYTES_MAX: u64 = 4 << 20;

/// Packed copies that turned out to be wrong when part of them had gone out already, so that the
/// next attempt begins with another copy.
#[derive(Debug, Default)]
pub(super) struct KnownBad(Mutex<HashSet<Place>>);

impl KnownBad {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Streams the first good copy of `id` to `out` and returns its size.
    pub(super) fn stream_any(&self, id: &Oid, kind: Kind, out: &mut dyn Write) -> StoreResult<u64> {
        let mut out = Counting { out, count: 0 };
        let mut skipped = Vec::new();
        let result = self.each_copy(id, &mut |copy, scratch| {
            let place = match copy {
                Copy::Packed(pack, offset) => Some((pack.ordinal, *offset)),
                Copy::Loose(_) => None,
            };
            if let Some(place) = place.filter(|place| self.known_bad.lock().contains(place)) {
                skipped.push(place);
                return Err(copy.mismatch());
            }
            let streamed = self.stream_copy(copy, id, scratch, &mut out);
            let (found, size) = streamed.map_err(|fault| match fault {
                // What went out cannot be taken back: another copy is for the next time.
                Fault::Corrupt(_) | Fault::Io(..) if out.count > 0 => {
                    let mut known_bad = self.known_bad.lock();
                    if known_bad.len() >= KNOWN_BAD_MAX {
                        known_bad.clear();
                    }
                    known_bad.extend(place);
                    Fault::Final(fault.about(id, self.options.object_bytes_max))
                }
                fault => fault,
            })?;
            of_kind(id, found, kind, size)
        });
        if result.is_err() {
            // No other copy was good either: they are looked at again the next time.
            let mut known_bad = self.known_bad.lock();
            for place in skipped {
                known_bad.remove(&place);
            }
        }
        result
    }

    /// Streams one copy of `id` to `out` and returns kind and size; verified when it returns `Ok`.
    pub(super) fn stream_copy(
        &self,
        copy: &Copy,
        id: &Oid,
        scratch: &mut Scratch,
        out: &mut dyn Write,
    ) -> Result<(Kind, u64), Fault> {
        let (kind, sink) = match copy {
            Copy::Loose(dir) => {
                let loose = Loose::open(dir.fd(), id)?;
                let header = loose.header(scratch)?;
                let mut sink = self.hashing(header.kind, header.size, out);
                loose.stream(scratch, header, &mut |piece| sink.put(piece))?;
                (header.kind, sink)
            }
            Copy::Packed(pack, offset) => self.stream_packed(pack, *offset, scratch, out)?,
        };
        let found = sink
            .hasher
            .map(ObjectHasher::finish)
            .transpose()
            .map_err(|error| Fault::Final(error.about(id)))?;
        if found.as_ref() != Some(id) {
            return Err(copy.mismatch());
        }
        Ok((kind, sink.len))
    }

    fn hashing<'a>(&self, kind: Kind, size: u64, out: &'a mut dyn Write) -> Sink<'a> {
        Sink {
            hasher: Some(ObjectHasher::new(self.shared.hash_kind, kind, size)),
            out,
            len: 0,
        }
    }

    fn stream_packed<'a>(
        &self,
        pack: &Arc<Pack>,
        offset: u64,
        scratch: &mut Scratch,
        out: &'a mut dyn Write,
    ) -> Result<(Kind, Sink<'a>), Fault> {
        let chain = self.walk(pack, offset, Extent::Header(0), false, scratch)?;
        let mut work = 0;
        let (kind, mut base) = match chain.root {
            Root::Packed(step, kind) if chain.deltas.is_empty() => {
                let mut sink = self.hashing(kind, step.entry.header.size, out);
                stream_entry(&step, scratch, &mut |piece| sink.put(piece))?;
                return Ok((kind, sink));
            }
            Root::Packed(step, kind) => {
                let size = step.entry.header.size;
                let base = self.spool(size, &mut work, &mut |sink| {
                    stream_entry(&step, scratch, &mut |piece| sink.put(piece))
                })?;
                (kind, base)
            }
            Root::Cached((kind, bytes)) => (kind, Spooled::Memory(bytes.to_vec())),
        };
        let mut deltas = chain.deltas;
        // The first in the list is the object itself: it alone goes out.
        while let Some(step) = deltas.pop() {
            let file = step.pack.open()?;
            let mut delta = DeltaReader::new(&step, &file, scratch)?;
            if delta.sizes.base != base.len() {
                return Err(step.damage("is a delta for a base of another size"));
            }
            let size = delta.sizes.result;
            if deltas.is_empty() {
                let mut sink = self.hashing(kind, size, out);
                delta.apply(&base, &mut sink)?;
                return Ok((kind, sink));
            }
            base = self.spool(size, &mut work, &mut |sink| delta.apply(&base, sink))?;
        }
        Err(Fault::Corrupt(String::from("has a chain without an end")))
    }

    /// Keeps what `write` makes, in memory or in a file; it must make `size` bytes.
    fn spool(
        &self,
        size: u64,
        work: &mut u64,
        write: &mut dyn FnMut(&mut Sink<'_>) -> Result<(), Fault>,
    ) -> Result<Spooled, Fault> {
        *work = work.saturating_add(size);
        if *work > WORK_BYTES_MAX {
            return Err(Fault::Corrupt(String::from(
                "is a delta in a chain that produces too much",
            )));
        }
        if size <= MEMORY_BYTES_MAX {
            let mut bytes = Vec::new();
            write(&mut Sink {
                hasher: None,
                out: &mut bytes,
                len: 0,
            })?;
            return Ok(Spooled::Memory(bytes));
        }
        let failed = |error| Fault::Final(Error::io("cannot spool a delta base", error));
        let file = match &self.options.spool_dir {
            Some(dir) => tempfile::tempfile_in(dir),
            None => tempfile::tempfile(),
        };
        let mut file = file.map_err(failed)?;
        write(&mut Sink {
            hasher: None,
            out: &mut file,
            len: 0,
        })?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(Spooled::File(file, size))
    }
}

/// Streams the whole entry of a step.
fn stream_entry(
    step: &Step,
    scratch: &mut Scratch,
    piece: &mut dyn FnMut(&[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let file = step.pack.open()?;
    let what = format!("{} at offset {}", step.pack.name(), step.offset);
    let mut inflater = scratch.stream(&file, step.entry.data.clone());
    pump(&mut inflater, step.entry.header.size, &what, piece)
}

/// Counts what went out.
struct Counting<'a> {
    out: &'a mut dyn Write,
    count: u64,
}

impl Write for Counting<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let count = self.out.write(buf)?;
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
