//! Bases of huge deltas in unlinked temporary files, and the application of a delta to one piece by
//! piece, so that neither base, delta nor result is ever held whole (R46).

use std::fs::File;
use std::io::{self, BufReader, Read, Write};

use super::super::ObjectHasher;
use super::delta::{self, SIZES_BYTES_MAX};
use super::fault::Fault;
use super::files::read_exact_at;
use super::inflate::{Inflater, Scratch};
use super::resolve::Step;
use crate::error::Error;

/// Bytes copied from a spooled base at a time.
const COPY_BYTES: usize = 64 << 10;

/// Returns the fault for an asker who cannot take the bytes: no other copy helps.
fn output_failed(error: io::Error) -> Fault {
    Fault::Final(Error::io("cannot write the object out", error))
}

/// A base, in memory or in an unlinked file.
pub(super) enum Spooled {
    /// Its bytes.
    Memory(Vec<u8>),
    /// The file and its length.
    File(File, u64),
}

impl Spooled {
    /// Returns the number of bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, len) => *len,
        }
    }
}

/// Where the pieces of an object go as it is built.
pub(super) struct Sink<'a> {
    /// Set for what goes out.
    pub(super) hasher: Option<ObjectHasher>,
    /// Whoever takes the pieces.
    pub(super) out: &'a mut dyn Write,
    /// Bytes so far.
    pub(super) len: u64,
}

impl Sink<'_> {
    /// Hashes and hands on one piece.
    pub(super) fn put(&mut self, piece: &[u8]) -> Result<(), Fault> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
        self.len += piece.len() as u64;
        self.out.write_all(piece).map_err(output_failed)
    }
}

/// A delta that is inflated while it is applied: deltas of huge objects may be huge themselves.
pub(super) struct DeltaReader<'a> {
    stream: BufReader<io::Take<Inflater<'a>>>,
    /// What it begins with.
    pub(super) sizes: delta::Sizes,
    step: &'a Step,
}

impl<'a> DeltaReader<'a> {
    /// Begins to inflate the delta of a step.
    pub(super) fn new(
        step: &'a Step,
        file: &'a File,
        scratch: &'a mut Scratch,
    ) -> Result<Self, Fault> {
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
    pub(super) fn apply(&mut self, base: &Spooled, sink: &mut Sink<'_>) -> Result<(), Fault> {
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
    /// The fault for an entry that is wrong.
    pub(super) fn damage(&self, why: &str) -> Fault {
        self.pack.damage(self.offset, why)
    }

    fn reading(&self, error: io::Error) -> Fault {
        let what = format!("{} at offset {}", self.pack.name(), self.offset);
        Fault::reading(what, error)
    }
}
