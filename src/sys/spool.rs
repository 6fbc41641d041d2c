//! Files without a name, for bytes too many to hold in memory (R46).

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file that no directory lists and that is gone when this is dropped.
#[derive(Debug)]
pub struct SpoolFile(File);

impl SpoolFile {
    /// Makes an empty one on the file system of `dir`.
    ///
    /// # Errors
    /// What the kernel says of making a file in `dir`.
    pub fn create_in(dir: &Path) -> io::Result<Self> {
        tempfile::tempfile_in(dir).map(Self)
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file is shorter.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

impl Write for SpoolFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_file_leaves_no_name_and_reads_back_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = SpoolFile::create_in(dir.path()).unwrap();
        spool.write_all(b"0123456789").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let mut buffer = [0; 4];
        spool.read_exact_at(&mut buffer, 3).unwrap();
        assert_eq!(&buffer, b"3456");
        assert!(spool.read_exact_at(&mut buffer, 7).is_err());
    }
}
