//! Sorted tables of object ids on disk, as pack indexes and multi-pack-indexes hold them: the bytes
//! in memory or behind `pread`, the fan-out, and the search.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::files::{StoreFile, read_exact_at};

/// How many bytes one probe of a table on disk reads.
const PROBE_BYTES: u64 = 8 << 10;

/// The bytes of an index file.
#[derive(Debug)]
pub(super) enum Table {
    /// Read whole.
    Memory(Box<[u8]>),
    /// Read whole once it is searched often: the first byte of a mount needs a handful of searches,
    /// and reading 14 MB for them would make it wait as long as the repository is large.
    Later(Box<Later>),
    /// Too large to hold: read piece by piece.
    File(StoreFile),
}

/// Tables up to this size are read whole at once: no dearer than a few probes. Small in tests, so
/// that their repositories have tables of both sorts.
const AT_ONCE_BYTES_MAX: u64 = if cfg!(test) { 2 << 10 } else { 256 << 10 };
/// Searches of a larger table before it is read whole.
const SEARCHES_BEFORE_LOADING: u32 = 64;

/// A table that is not in memory yet.
#[derive(Debug)]
pub(super) struct Later {
    file: StoreFile,
    len: usize,
    searches: AtomicU32,
    /// `None` inside where reading it whole failed: then it is probed, and each probe tells why.
    bytes: OnceLock<Option<Box<[u8]>>>,
}

impl Table {
    /// Makes the table of a file of `len` bytes that may be held in memory.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn in_memory(file: StoreFile, len: usize) -> io::Result<Self> {
        if len as u64 <= AT_ONCE_BYTES_MAX {
            return read_whole(&file, len).map(Self::Memory);
        }
        Ok(Self::Later(Box::new(Later {
            file,
            len,
            searches: AtomicU32::new(0),
            bytes: OnceLock::new(),
        })))
    }

    /// Returns the bytes, read now if they were not; `None` where they are not to be held or cannot
    /// be read.
    pub(super) fn load(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(bytes) => Some(bytes),
            Self::Later(later) => {
                let read = || read_whole(&later.file, later.len).ok();
                later.bytes.get_or_init(read).as_deref()
            }
            Self::File(_) => None,
        }
    }

    /// Returns the bytes where they are in memory already.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(bytes) => Some(bytes),
            Self::Later(later) => later.bytes.get()?.as_deref(),
            Self::File(_) => None,
        }
    }

    /// Returns the bytes for a search, which is counted.
    fn bytes_for_search(&self) -> Option<&[u8]> {
        if let Self::Later(later) = self
            && later.bytes.get().is_none()
            && later.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES_BEFORE_LOADING
        {
            return None;
        }
        self.load()
    }

    /// Returns how many bytes of memory are set aside for it.
    pub(super) fn memory_bytes(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Later(later) => later.len as u64,
            Self::File(_) => 0,
        }
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> io::Result<u64> {
        match self {
            Self::Memory(bytes) => Ok(bytes.len() as u64),
            Self::Later(later) => Ok(later.len as u64),
            Self::File(file) => file.len(),
        }
    }

    /// Fills `buf` from `offset`.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if let Some(bytes) = self.bytes() {
            let part = usize::try_from(offset)
                .ok()
                .and_then(|at| bytes.get(at..at.checked_add(buf.len())?))
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            buf.copy_from_slice(part);
            return Ok(());
        }
        let file = match self {
            Self::Memory(_) => return Ok(()),
            Self::Later(later) => &later.file,
            Self::File(file) => file,
        };
        read_exact_at(&*file.open()?, buf, offset)
    }

    /// Reads a big-endian number of 4 bytes.
    pub(super) fn read_u32(&self, offset: u64) -> io::Result<u32> {
        let mut buf = [0; 4];
        self.read(offset, &mut buf)?;
        Ok(u32::from_be_bytes(buf))
    }

    /// Reads a big-endian number of 8 bytes.
    pub(super) fn read_u64(&self, offset: u64) -> io::Result<u64> {
        let mut buf = [0; 8];
        self.read(offset, &mut buf)?;
        Ok(u64::from_be_bytes(buf))
    }

    /// Reads the 256 counts at `offset` and checks that they never fall.
    pub(super) fn read_fanout(&self, offset: u64) -> io::Result<Option<Fanout>> {
        let mut bytes = [0; 1024];
        self.read(offset, &mut bytes)?;
        let mut fanout = Box::new([0; 256]);
        for (count, chunk) in fanout.iter_mut().zip(bytes.chunks_exact(4)) {
            *count = chunk.iter().fold(0, |n, b| (n << 8) | u32::from(*b));
        }
        Ok(fanout.is_sorted().then_some(Fanout(fanout)))
    }
}

fn read_whole(file: &StoreFile, len: usize) -> io::Result<Box<[u8]>> {
    let mut bytes = vec![0; len].into_boxed_slice();
    read_exact_at(&*file.open()?, &mut bytes, 0)?;
    Ok(bytes)
}

/// For each first byte of an id, how many ids are not above it.
#[derive(Debug)]
pub(super) struct Fanout(Box<[u32; 256]>);

impl Fanout {
    /// Returns the number of ids in the table.
    pub(super) fn total(&self) -> u32 {
        self.0[255]
    }

    fn range(&self, first: u8) -> (u32, u32) {
        let low = first
            .checked_sub(1)
            .map_or(0, |before| self.0[usize::from(before)]);
        (low, self.0[usize::from(first)])
    }
}

/// Where the ids of a table lie: record `n` begins at `at + n * stride`, its id `id_at` bytes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdColumn {
    /// Offset of the first record.
    pub(super) at: u64,
    /// Bytes of one record.
    pub(super) stride: u64,
    /// Where in a record the id stands.
    pub(super) id_at: usize,
}

/// Returns the number of the record that holds `id`.
pub(super) fn find(
    table: &Table,
    fanout: &Fanout,
    column: IdColumn,
    id: &[u8],
) -> io::Result<Option<u32>> {
    let Some(first) = id.first() else {
        return Ok(None);
    };
    let (mut low, mut high) = fanout.range(*first);
    if let Some(bytes) = table.bytes_for_search() {
        let start = usize::try_from(column.at).unwrap_or(usize::MAX);
        let records = bytes.get(start..).unwrap_or_default();
        let guess = guess(fanout, id);
        // A step beyond the error to be expected of the guess, then twice as far, until the id lies
        // between: most searches end within the same few cache lines.
        let mut step = 8;
        while low < high {
            let (from, to) = (guess.saturating_sub(step), guess.saturating_add(step));
            if from > low && from < high && id < id_of(records, from, column, id.len()) {
                high = from;
            } else if to < high && to >= low && id > id_of(records, to, column, id.len()) {
                low = to + 1;
            } else {
                (low, high) = (low.max(from), high.min(to.saturating_add(1)));
                break;
            }
            step = step.saturating_mul(4);
        }
        return Ok(search(records, 0, low, high, column, id));
    }
    let per_probe = u32::try_from(PROBE_BYTES / column.stride)
        .unwrap_or(1)
        .max(1);
    let mut buf = vec![0; per_probe as usize * usize::try_from(column.stride).unwrap_or(0)];
    let mut probes = 0_u32;
    while low < high {
        // Ids are spread evenly, so the place within the fan-out range can be computed; a table
        // that lies about that is halved instead.
        let span = high - low;
        let guess = if probes < 4 {
            guess(fanout, id)
        } else {
            low + span / 2
        };
        let start = guess
            .saturating_sub(per_probe / 2)
            .clamp(low, high.saturating_sub(per_probe).max(low));
        let end = start.saturating_add(per_probe).min(high);
        let wanted = (end - start) as usize * usize::try_from(column.stride).unwrap_or(0);
        let block = buf.get_mut(..wanted).unwrap_or_default();
        table.read(column.at + u64::from(start) * column.stride, block)?;
        if id < id_of(block, 0, column, id.len()) {
            high = start;
        } else if id > id_of(block, end - start - 1, column, id.len()) {
            low = end;
        } else {
            return Ok(search(block, start, start, end, column, id));
        }
        probes += 1;
    }
    Ok(None)
}

/// Returns where `id` should be if ids are spread evenly, which hashes are.
fn guess(fanout: &Fanout, id: &[u8]) -> u32 {
    let (from, to) = fanout.range(id.first().copied().unwrap_or(0));
    let fraction = id.get(1..5).map_or(0, |part| {
        part.iter().fold(0_u64, |n, b| (n << 8) | u64::from(*b))
    });
    let place = (u64::from(to - from) * fraction) >> 32;
    u32::try_from(place).unwrap_or(0).saturating_add(from)
}

fn id_of(records: &[u8], number: u32, column: IdColumn, id_len: usize) -> &[u8] {
    let at = number as usize * usize::try_from(column.stride).unwrap_or(0) + column.id_at;
    records.get(at..at + id_len).unwrap_or_default()
}

/// Halves `low..high`; `records` begins with record `first`.
fn search(
    records: &[u8],
    first: u32,
    mut low: u32,
    mut high: u32,
    column: IdColumn,
    id: &[u8],
) -> Option<u32> {
    while low < high {
        let middle = low + (high - low) / 2;
        match id_of(records, middle - first, column, id.len()).cmp(id) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return Some(middle),
        }
    }
    None
}
