//! The seam between those who want objects and where objects come from: [`ObjectSource`], and the
//! in-memory source that tests, benches and examples use.

use std::collections::HashMap;
use std::io::Write;

use super::{HashKind, Kind, Oid, hash_object};
use crate::error::{Error, ErrorKind, Result};

/// What an object's header claims; not verified until the object is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind.
    pub kind: Kind,
    /// The size of the content in bytes.
    pub size: u64,
}

/// An entry of a pack as it lies there: what it inflates to, and on what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawEntry {
    /// Bytes that the stream inflates to: of the content, or of the delta.
    pub size: u64,
    /// The base, where the entry is a delta.
    pub base: Option<RawBase>,
}

/// Where the base of a delta is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawBase {
    /// At this place, in the numbers of [`ObjectSource::place`].
    Place(u64),
    /// Wherever the object with this id is.
    Id(Oid),
}

/// A place that objects come from, by id.
///
/// Guarantee of every implementation (R5): bytes given out as the object `id` hash to `id`. A
/// source never says "absent" when it means "unreadable".
pub trait ObjectSource: Send + Sync {
    /// Returns the hash that ids of this source are made with.
    fn hash_kind(&self) -> HashKind;

    /// Returns kind and size without reading the content. Neither is verified.
    ///
    /// # Errors
    /// `missing-object`, `corrupt-object`.
    fn header(&self, id: &Oid) -> Result<Header>;

    /// Returns the size in bytes without inflating the content: what `stat` needs, and the cheapest
    /// question. Not verified; a lie becomes an error at the first read.
    ///
    /// # Errors
    /// `missing-object`, `corrupt-object`.
    fn size(&self, id: &Oid) -> Result<u64> {
        self.header(id).map(|header| header.size)
    }

    /// Returns the whole content of `id`, verified.
    ///
    /// # Errors
    /// `missing-object`; `corrupt-object` if it does not inflate, does not hash to `id`, or is of
    /// another kind; `object-too-large` over the limit for objects held in memory.
    fn read(&self, id: &Oid, kind: Kind) -> Result<Vec<u8>>;

    /// Writes the content of `id` to `out` in pieces and returns its size, for blobs too big to
    /// hold. The content is verified only when this returns `Ok`: on an error the caller must throw
    /// away what was written.
    ///
    /// # Errors
    /// As [`Self::read`], and errors of `out`.
    fn read_to(&self, id: &Oid, kind: Kind, out: &mut dyn Write) -> Result<u64> {
        let bytes = self.read(id, kind)?;
        out.write_all(&bytes)
            .map_err(|e| Error::io("cannot write the object out", e))?;
        Ok(bytes.len() as u64)
    }

    /// Returns a number that grows with the place of `id` on disk, so that many objects can be read
    /// in the order they lie there; `None` where it is not known cheaply.
    fn place(&self, id: &Oid) -> Option<u64> {
        let _ = id;
        None
    }

    /// Puts the compressed bytes of `id` into `stream` as its pack holds them (a zlib stream and
    /// nothing else), so that another pack can hold the same. `None` where it is in no pack or its
    /// entry cannot be read whole. Nothing is verified: whoever uses the bytes inflates and hashes
    /// them first.
    fn raw_entry(&self, id: &Oid, stream: &mut Vec<u8>) -> Option<RawEntry> {
        let _ = (id, stream);
        None
    }
}

/// Objects in a map; each is hashed when it is put in.
#[derive(Debug)]
pub struct MemorySource {
    hash_kind: HashKind,
    objects: HashMap<Oid, (Kind, Vec<u8>)>,
}

impl MemorySource {
    /// Makes an empty source.
    #[must_use]
    pub fn new(hash_kind: HashKind) -> Self {
        Self {
            hash_kind,
            objects: HashMap::new(),
        }
    }

    /// Adds an object and returns its id.
    ///
    /// # Errors
    /// `collision` where the content carries a SHA-1 collision attack.
    pub fn insert(&mut self, kind: Kind, content: impl Into<Vec<u8>>) -> Result<Oid> {
        let content = content.into();
        let id = hash_object(self.hash_kind, kind, &content)?;
        self.objects.insert(id, (kind, content));
        Ok(id)
    }

    fn get(&self, id: &Oid) -> Result<&(Kind, Vec<u8>)> {
        self.objects.get(id).ok_or_else(|| missing(id))
    }
}

impl ObjectSource for MemorySource {
    fn hash_kind(&self) -> HashKind {
        self.hash_kind
    }

    fn header(&self, id: &Oid) -> Result<Header> {
        self.get(id).map(|(kind, content)| Header {
            kind: *kind,
            size: content.len() as u64,
        })
    }

    fn read(&self, id: &Oid, kind: Kind) -> Result<Vec<u8>> {
        let (found, content) = self.get(id)?;
        if *found != kind {
            return Err(wrong_kind(id, *found, kind));
        }
        Ok(content.clone())
    }
}

/// The error for an object that is in no pack, no loose file and no alternate.
pub(super) fn missing(id: &Oid) -> Error {
    Error::new(
        ErrorKind::NotFound,
        "missing-object",
        format!("object {id} is missing from the object store"),
    )
    .about(id)
}

/// The error for an object of another kind than the one that refers to it says.
pub(super) fn wrong_kind(id: &Oid, found: Kind, wanted: Kind) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "corrupt-object",
        format!("object {id} is a {found}, not a {wanted}"),
    )
    .about(id)
}

/// The error for bytes that are not what their id says; `why` is a clause such as "does not
/// inflate".
pub(super) fn corrupt(id: &Oid, why: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "corrupt-object",
        format!("object {id} {why}"),
    )
    .about(id)
}
