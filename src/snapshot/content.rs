//! What lies in files and links, and by which ids.

use super::blobs::{BlobBytes, Wanted};
use super::{Directory, Entry, EntryKind, Ino, Snapshot};
use crate::error::{Error, ErrorKind, Result};

/// The longest link target that the kernel carries over FUSE: a page without its last byte (R22).
pub const TARGET_BYTES_MAX: u64 = 4095;

impl Snapshot {
    /// Returns up to `len` bytes of a file from `offset` on, fewer only at its end.
    ///
    /// # Errors
    /// `stale-inode`, `not-a-file`; what the object store says; those of spooling.
    pub fn read(&self, ino: Ino, offset: u64, len: u32) -> Result<BlobBytes> {
        self.read_entry(&self.entry(ino)?, offset, len)
    }

    /// As [`Self::read`], for an entry at hand.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_entry(&self, entry: &Entry, offset: u64, len: u32) -> Result<BlobBytes> {
        let (directory, index) = (&entry.directory, entry.index);
        let kind = directory.entry(index).map(|entry| entry.kind);
        if !matches!(kind, Some(EntryKind::File { .. })) {
            return Err(Error::new(
                ErrorKind::WrongType,
                "not-a-file",
                "only a file has content",
            ));
        }
        self.read_blob(directory, index, offset, len)
    }

    /// Returns a whole file, without keeping it: for one who gives it to the kernel.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_file(&self, directory: &Directory, index: usize) -> Result<BlobBytes> {
        self.read_blob(directory, index, 0, u32::MAX)
    }

    /// Returns the size up to which a file is held in memory; larger ones are spooled (R46).
    #[must_use]
    pub fn whole_bytes_max(&self) -> u64 {
        self.blobs.whole_bytes_max()
    }

    fn read_blob(
        &self,
        directory: &Directory,
        index: usize,
        offset: u64,
        len: u32,
    ) -> Result<BlobBytes> {
        let wanted = Wanted {
            id: self.id_of(directory, index)?,
            size: self.size_of(directory, index)?,
        };
        self.blobs
            .read(&*self.objects, &self.stats, wanted, offset, len)
            .map_err(|error| self.failed(directory, index, error))
    }

    /// Returns the target of a symbolic link, raw bytes.
    ///
    /// # Errors
    /// `not-a-link`; `target-too-long` over 4095 bytes, decided without reading it; `bad-target`
    /// where it is empty or holds a NUL, which the kernel would cut (R22); what the store says.
    pub fn target(&self, ino: Ino) -> Result<BlobBytes> {
        let Entry {
            directory, index, ..
        } = self.entry(ino)?;
        let kind = directory.entry(index).map(|entry| entry.kind);
        if kind != Some(EntryKind::Symlink) {
            return Err(Error::new(
                ErrorKind::WrongType,
                "not-a-link",
                "only a symbolic link has a target",
            ));
        }
        let size = self.size_of(&directory, index)?;
        let bad = |kind, slug, why: String| {
            let error = Error::new(kind, slug, format!("the link target {why}"));
            self.failed(&directory, index, error)
        };
        if size > TARGET_BYTES_MAX {
            let why = format!("has {size} bytes, over {TARGET_BYTES_MAX}");
            return Err(bad(ErrorKind::TooLong, "target-too-long", why));
        }
        let target = self.read_blob(&directory, index, 0, u32::MAX)?;
        if target.is_empty() || target.contains(&0) {
            let why = String::from("is empty or holds a NUL, which Linux cannot carry");
            return Err(bad(ErrorKind::Corrupt, "bad-target", why));
        }
        Ok(target)
    }

    /// Returns the id of the object behind an inode, in hex: blob, tree, or a submodule's commit.
    ///
    /// # Errors
    /// `stale-inode`.
    pub fn oid_text(&self, ino: Ino) -> Result<String> {
        if ino == Ino::ROOT {
            return Ok(self.commit.tree_id.to_string());
        }
        let entry = self.entry(ino)?;
        Ok(self.id_of(&entry.directory, entry.index)?.to_string())
    }

    /// Returns where the content of a file lies in the object store, for reading in that order.
    #[must_use]
    pub fn place_of(&self, directory: &Directory, index: usize) -> Option<u64> {
        directory.id(index).and_then(|id| self.objects.place(&id))
    }
}
