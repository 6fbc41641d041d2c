//! Object ids recomputed from bytes: SHA-1 with collision detection, or SHA-256 (R5, R9).

use super::{HashKind, Kind, Oid};
use crate::error::{Error, ErrorKind, Result};

/// Computes the id of one object from its content, piece by piece.
pub struct ObjectHasher(gix::hash::Hasher);

impl std::fmt::Debug for ObjectHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ObjectHasher")
    }
}

impl ObjectHasher {
    /// Starts an object of `kind` with `size` bytes of content.
    #[must_use]
    pub fn new(hash_kind: HashKind, kind: Kind, size: u64) -> Self {
        let mut hasher = gix::hash::hasher(hash_kind);
        hasher.update(&gix::objs::encode::loose_header(kind, size));
        Self(hasher)
    }

    /// Adds content.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the id of what was added.
    ///
    /// # Errors
    /// `collision` where the bytes carry a known SHA-1 collision attack.
    pub fn finish(self) -> Result<Oid> {
        self.0.try_finalize().map_err(|_| {
            Error::new(
                ErrorKind::Corrupt,
                "collision",
                "content carries a SHA-1 collision attack; it is never served",
            )
        })
    }
}

/// Returns the id of an object held in memory.
///
/// # Errors
/// `collision` where the bytes carry a known SHA-1 collision attack.
pub fn hash_object(hash_kind: HashKind, kind: Kind, content: &[u8]) -> Result<Oid> {
    let mut hasher = ObjectHasher::new(hash_kind, kind, content.len() as u64);
    hasher.update(content);
    hasher.finish()
}

/// Returns the SHA-256, in hex, of all that `input` gives: for files of ours, not for objects.
///
/// # Errors
/// What reading says.
pub fn sha256_hex(input: &mut dyn std::io::Read) -> Result<String> {
    let mut hasher = gix::hash::hasher(HashKind::Sha256);
    let mut buf = vec![0; 256 << 10];
    loop {
        match input.read(&mut buf) {
            Ok(0) => break,
            Ok(count) => hasher.update(buf.get(..count).unwrap_or_default()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("cannot read a file to hash it", e)),
        }
    }
    let sum = hasher
        .try_finalize()
        .map_err(|_| Error::new(ErrorKind::Internal, "internal", "SHA-256 has no collisions"))?;
    Ok(sum.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_equal_those_git_gives() {
        // printf 'hello\n' | git hash-object --stdin, and with --object-format=sha256.
        let sha1 = hash_object(HashKind::Sha1, Kind::Blob, b"hello\n").unwrap();
        assert_eq!(sha1.to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
        let sha256 = hash_object(HashKind::Sha256, Kind::Blob, b"hello\n").unwrap();
        assert_eq!(
            sha256.to_string(),
            "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4"
        );
    }
}
