//! Inflating: whole buffers with libdeflate, prefixes and long streams piece by piece; and the
//! buffers that are used again from one object to the next.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use flate2::{Decompress, FlushDecompress, Status};

use super::files::read_at;

/// The most that deflate can expand, and room for what no length explains.
const EXPANSION_MAX: u64 = 1032;

/// Objects up to this size are inflated from one buffer; longer ones are streamed, bytes.
pub(super) const WHOLE_BYTES_MAX: u64 = 16 << 20;

/// Bytes read from a file at a time while streaming.
const CHUNK_BYTES: usize = 64 << 10;

/// Bytes of buffers that are kept for the next object; larger ones are freed.
const KEPT_BYTES: usize = 1 << 20;

/// Returns whether `compressed` bytes can inflate to `size` at all: asked before allocating.
pub(super) fn is_plausible(size: u64, compressed: u64) -> bool {
    size <= compressed.saturating_mul(EXPANSION_MAX).saturating_add(64)
}

/// Returns how many bytes a zlib stream of `size` bytes takes at most, as any sane writer writes
/// it.
pub(super) fn compressed_bound(size: u64) -> u64 {
    size.saturating_add(size / 64).saturating_add(64)
}

/// Bytes read for one object and its bases, in one buffer that is never cleared, only reused.
#[derive(Debug, Default)]
pub(super) struct Arena {
    bytes: Vec<u8>,
    used: usize,
}

impl Arena {
    /// Forgets all that was read.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        if self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Returns how many bytes are in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Gives back what lies behind `end`.
    pub(super) fn truncate(&mut self, end: usize) {
        self.used = self.used.min(end);
    }

    /// Reads up to `len` bytes at `offset` of `file` behind what is in use; returns where they are.
    pub(super) fn read(
        &mut self,
        file: &File,
        offset: u64,
        len: usize,
    ) -> io::Result<Range<usize>> {
        let start = self.used;
        if self.bytes.len() < start + len {
            self.bytes.resize((start + len).next_power_of_two(), 0);
        }
        let buf = self.bytes.get_mut(start..start + len).unwrap_or_default();
        let count = read_at(file, buf, offset)?;
        self.used = start + count;
        Ok(start..self.used)
    }

    /// Returns bytes read before.
    pub(super) fn get(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }
}

/// What reading one object needs, used again for the next.
pub(super) struct Scratch {
    /// Compressed bytes.
    pub(super) input: Arena,
    /// The inflated delta at hand.
    pub(super) delta: Vec<u8>,
    whole: libdeflater::Decompressor,
    stream: Decompress,
}

impl Scratch {
    fn new() -> Self {
        Self {
            input: Arena::default(),
            delta: Vec::new(),
            whole: libdeflater::Decompressor::new(),
            stream: Decompress::new(true),
        }
    }

    /// Inflates the zlib stream at `input` to exactly `out.len()` bytes; bytes behind the stream do
    /// not matter. Returns whether that worked.
    pub(super) fn inflate_whole(&mut self, input: Range<usize>, out: &mut [u8]) -> bool {
        inflate_whole(&mut self.whole, self.input.get(input), out)
    }

    /// Inflates the delta at `input` into [`Self::delta`] and returns its bytes, or `None`.
    pub(super) fn inflate_delta(&mut self, input: Range<usize>, size: usize) -> Option<&[u8]> {
        if self.delta.len() < size {
            self.delta.resize(size.next_power_of_two(), 0);
        }
        let out = self.delta.get_mut(..size)?;
        inflate_whole(&mut self.whole, self.input.get(input), out).then_some(&*out)
    }

    /// Inflates the first bytes of the stream at `input` and returns how many there are.
    ///
    /// # Errors
    /// Where the bytes are no zlib stream.
    pub(super) fn inflate_prefix(
        &mut self,
        input: Range<usize>,
        out: &mut [u8],
    ) -> Result<usize, &'static str> {
        self.stream.reset(true);
        self.stream
            .decompress(self.input.get(input), out, FlushDecompress::None)
            .map_err(|_| "does not inflate")?;
        Ok(usize::try_from(self.stream.total_out()).unwrap_or(out.len()))
    }

    /// Starts streaming the zlib stream that lies in `range` of `file`.
    pub(super) fn stream<'a>(&'a mut self, file: &'a File, range: Range<u64>) -> Inflater<'a> {
        self.stream.reset(true);
        Inflater {
            file,
            range,
            stream: &mut self.stream,
            chunk: vec![0; CHUNK_BYTES].into_boxed_slice(),
            ready: 0..0,
            is_done: false,
        }
    }
}

fn inflate_whole(whole: &mut libdeflater::Decompressor, input: &[u8], out: &mut [u8]) -> bool {
    matches!(whole.zlib_decompress(input, out), Ok(len) if len == out.len())
}

/// A zlib stream in a file, inflated as it is read. It fails where the stream is broken, its check
/// sum is wrong, or the range ends before the stream does.
pub(super) struct Inflater<'a> {
    file: &'a File,
    range: Range<u64>,
    stream: &'a mut Decompress,
    chunk: Box<[u8]>,
    ready: Range<usize>,
    is_done: bool,
}

impl Inflater<'_> {
    /// Checks that the stream ends here, with nothing more to come.
    pub(super) fn expect_end(&mut self) -> io::Result<()> {
        match self.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(broken("it inflates to more than its size")),
        }
    }

    /// Returns where the stream ended in the file; only meaningful after [`Self::expect_end`].
    pub(super) fn end(&self) -> u64 {
        self.range.start - self.ready.len() as u64
    }

    fn refill(&mut self) -> io::Result<()> {
        let left = self.range.end.saturating_sub(self.range.start);
        let len = self
            .chunk
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let buf = self.chunk.get_mut(..len).unwrap_or_default();
        let count = read_at(self.file, buf, self.range.start)?;
        if count == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        self.range.start += count as u64;
        self.ready = 0..count;
        Ok(())
    }
}

impl Read for Inflater<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.is_done && !out.is_empty() {
            if self.ready.is_empty() {
                self.refill()?;
            }
            let (in_before, out_before) = (self.stream.total_in(), self.stream.total_out());
            let input = self.chunk.get(self.ready.clone()).unwrap_or_default();
            let status = self
                .stream
                .decompress(input, out, FlushDecompress::None)
                .map_err(|_| broken("it does not inflate"))?;
            let taken = usize::try_from(self.stream.total_in() - in_before).unwrap_or(0);
            self.ready.start += taken;
            self.is_done = status == Status::StreamEnd;
            let made = usize::try_from(self.stream.total_out() - out_before).unwrap_or(0);
            if made > 0 {
                return Ok(made);
            }
            if taken == 0 && !self.is_done && !self.ready.is_empty() {
                return Err(broken("it does not inflate"));
            }
        }
        Ok(0)
    }
}

fn broken(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Scratch space for as many objects as are being read at once.
#[derive(Default)]
pub(super) struct ScratchPool(Mutex<Vec<Scratch>>);

impl std::fmt::Debug for ScratchPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScratchPool")
    }
}

impl ScratchPool {
    /// Runs `work` with scratch space of its own.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = lock().pop().unwrap_or_else(Scratch::new);
        scratch.input.clear();
        let result = work(&mut scratch);
        if scratch.delta.len() > KEPT_BYTES {
            scratch.delta = Vec::new();
        }
        scratch.input.clear();
        let mut pool = lock();
        if pool.len() < 16 {
            pool.push(scratch);
        }
        result
    }
}
