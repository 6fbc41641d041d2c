//! Objects that are not to be held in memory (R46): streamed through the hash to whoever asked,
//! with the bases of deltas in unlinked temporary files.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use super::super::{Kind, ObjectHasher, Oid};
use super::Store;
use super::copies::Copy;
use super::delta::{self, SIZES_BYTES_MAX};
use super::fault::Fault;
use super::files::read_exact_at;
use super::inflate::Scratch;
use super::loose::{Loose, pump};
use super::pack::{Extent, Pack};
use super::resolve::{Root, Step, WORK_BYTES_MAX};
use crate::error::Error;

/// Bases up to this many bytes stay in memory.
const MEMORY_BYTES_MAX: u64 = 4 << 20;

/// Bytes copied from a spooled base at a time.
const COPY_BYTES: usize = 64 << 10;

/// Returns the fault for an asker who cannot take the bytes: no other copy helps.
pub(super) fn output_failed(error: io::Error) -> Fault {
    Fault::Final(Error::io("cannot write the object out", error))
}

/// A base, in memory or in an unlinked file.
enum Spooled {
    Memory(Vec<u8>),
    File(File, u64),
}

impl Spooled {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, len) => *len,
        }
    }
}

/// Where the pieces of an object go as it is built.
struct Sink<'a> {
    hasher: Option<ObjectHasher>,
    out: &'a mut dyn Write,
    len: u64,
}

impl Sink<'_> {
    fn put(&mut self, piece: &[u8]) -> Result<(), Fault> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
        self.len += piece.len() as u64;
        self.out.write_all(piece).map_err(output_failed)
    }
}

impl Store {
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

/// A delta that is inflated while it is applied: deltas of huge objects may be huge themselves.
struct DeltaReader<'a> {
    stream: BufReader<io::Take<super::inflate::Inflater<'a>>>,
    sizes: delta::Sizes,
    step: &'a Step,
}

impl<'a> DeltaReader<'a> {
    fn new(step: &'a Step, file: &'a File, scratch: &'a mut Scratch) -> Result<Self, Fault> {
        let inflater = scratch.stream(file, step.entry.data.clone());
        let mut stream =
            BufReader::with_capacity(COPY_BYTES, inflater.take(step.entry.header.size));
        let mut head = Vec::new();
        let sizes = loop {
            let mut byte = [0];
            stream
                .read_exact(&mut byte)
                .map_err(|error| step.reading(error))?;
            head.extend_from_slice(&byte);
            match delta::sizes(&head) {
                Ok(sizes) => break sizes,
                Err(_) if head.len() < SIZES_BYTES_MAX => {}
                Err(why) => return Err(step.damage(why)),
            }
        };
        Ok(Self {
            stream,
            sizes,
            step,
        })
    }

    /// Applies it to `base`, piece by piece.
    fn apply(&mut self, base: &Spooled, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let mut code = [0];
        let mut buf = vec![0; COPY_BYTES];
        let start = sink.len;
        while self.read(&mut code)? > 0 {
            let [code] = code;
            let mut instruction = [0; 8];
            let args = if code & 0x80 != 0 {
                (code & 0x7f).count_ones() as usize
            } else {
                0
            };
            if let Some((first, rest)) = instruction.split_first_mut() {
                *first = code;
                let rest = rest.get_mut(..args).unwrap_or_default();
                if self.read(rest)? < args {
                    return Err(self
                        .step
                        .damage("is a delta that ends within an instruction"));
                }
            }
            if code & 0x80 == 0 {
                self.insert(usize::from(code), &mut buf, sink)?;
            } else {
                let mut bytes = instruction.get(..=args).unwrap_or_default();
                let parsed = delta::next_instruction(&mut bytes);
                if let Ok(Some(delta::Instruction::Copy { from, len })) = parsed {
                    self.copy(base, from, len, &mut buf, sink)?;
                }
            }
            if sink.len - start > self.sizes.result {
                break;
            }
        }
        if sink.len - start != self.sizes.result {
            return Err(self
                .step
                .damage("is a delta that does not produce the size it says"));
        }
        Ok(())
    }

    fn insert(&mut self, len: usize, buf: &mut [u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
        if len == 0 {
            return Err(self
                .step
                .damage("is a delta with the reserved instruction 0"));
        }
        let bytes = buf.get_mut(..len).unwrap_or_default();
        if self.read(bytes)? < len {
            return Err(self
                .step
                .damage("is a delta that ends within an instruction"));
        }
        sink.put(bytes)
    }

    fn copy(
        &self,
        base: &Spooled,
        from: usize,
        len: usize,
        buf: &mut [u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        if from
            .checked_add(len)
            .is_none_or(|end| end as u64 > base.len())
        {
            return Err(self
                .step
                .damage("is a delta that copies from beyond its base"));
        }
        match base {
            Spooled::Memory(bytes) => sink.put(bytes.get(from..from + len).unwrap_or_default()),
            Spooled::File(file, _) => {
                let mut at = from as u64;
                let mut left = len;
                while left > 0 {
                    let piece = left.min(buf.len());
                    let space = buf.get_mut(..piece).unwrap_or_default();
                    read_exact_at(file, space, at).map_err(|error| {
                        Fault::Final(Error::io("cannot read a spooled delta base", error))
                    })?;
                    sink.put(space)?;
                    at += piece as u64;
                    left -= piece;
                }
                Ok(())
            }
        }
    }

    /// Reads until `buf` is full or the delta ends.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Fault> {
        let mut done = 0;
        while done < buf.len() {
            let rest = buf.get_mut(done..).unwrap_or_default();
            match self.stream.read(rest) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) => return Err(self.step.reading(error)),
            }
        }
        Ok(done)
    }
}

impl Step {
    fn damage(&self, why: &str) -> Fault {
        self.pack.damage(self.offset, why)
    }

    fn reading(&self, error: io::Error) -> Fault {
        let what = format!("{} at offset {}", self.pack.name(), self.offset);
        Fault::reading(what, error)
    }
}
