//! The workspace as one tar, byte for byte the same for the same inputs: `.git` first, then the
//! files in the order of their paths. No disk is written; the pack is held in memory, since a tar
//! says the size of a file before its content.
//!
//! The format is GNU's (long names in entries of their own), which GNU tar, bsdtar, busybox and the
//! container engines all read.

use std::io::{Seek, SeekFrom, Write};

use super::seed::{Branch, Plan, small_files};
use super::{SeedPhase, SeedProgress, SeedRequest};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::git::{EntryKind, Kind, ObjectSource, PackRecord, WHOLE_BYTES_MAX, write_pack_to};
use crate::materialise::check_layout;
use crate::sys::memory_file;

/// Tar's unit, bytes.
const BLOCK: usize = 512;

/// Writes entries of a tar.
struct Tar<'a> {
    out: &'a mut dyn Write,
    owner: (u32, u32),
    mtime_s: i64,
    at: u64,
}

fn doing() -> String {
    String::from("cannot write the tar")
}

impl Tar<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes).doing(doing)
    }

    fn pad(&mut self) -> Result<()> {
        let over = usize::try_from(self.at % BLOCK as u64).unwrap_or(0);
        if over > 0 {
            self.put(&[0; BLOCK][over..])?;
        }
        Ok(())
    }

    /// Writes the header of an entry of `size` bytes; its content and padding follow.
    fn head(&mut self, name: &[u8], kind: u8, mode: u32, size: u64, target: &[u8]) -> Result<()> {
        for (text, long_kind) in [(name, b'L'), (target, b'K')] {
            if text.len() >= 100 {
                let len = text.len() as u64 + 1;
                self.block(b"././@LongLink", long_kind, 0o644, len, b"", 0)?;
                self.put(text)?;
                self.put(&[0])?;
                self.pad()?;
            }
        }
        self.block(name, kind, mode, size, target, self.mtime_s)
    }

    fn block(
        &mut self,
        name: &[u8],
        kind: u8,
        mode: u32,
        size: u64,
        target: &[u8],
        mtime_s: i64,
    ) -> Result<()> {
        let mut block = [0_u8; BLOCK];
        let (uid, gid) = self.owner;
        set(
            &mut block,
            0,
            name.get(..name.len().min(100)).unwrap_or_default(),
        );
        number(&mut block, 100, 8, u64::from(mode));
        number(&mut block, 108, 8, u64::from(uid));
        number(&mut block, 116, 8, u64::from(gid));
        number(&mut block, 124, 12, size);
        number(&mut block, 136, 12, u64::try_from(mtime_s).unwrap_or(0));
        set(&mut block, 148, b"        ");
        set(&mut block, 156, &[kind]);
        set(
            &mut block,
            157,
            target.get(..target.len().min(100)).unwrap_or_default(),
        );
        set(&mut block, 257, b"ustar  \0");
        let sum: u64 = block.iter().map(|b| u64::from(*b)).sum();
        set(&mut block, 148, format!("{sum:06o}\0 ").as_bytes());
        self.put(&block)
    }

    fn file(&mut self, name: &[u8], mode: u32, content: &[u8]) -> Result<()> {
        self.head(name, b'0', mode, content.len() as u64, b"")?;
        self.put(content)?;
        self.pad()
    }

    fn directory(&mut self, name: &[u8]) -> Result<()> {
        let name = [name, b"/"].concat();
        self.head(&name, b'5', 0o755, 0, b"")
    }
}

fn set(block: &mut [u8; BLOCK], at: usize, bytes: &[u8]) {
    if let Some(field) = block.get_mut(at..at + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}

/// Octal digits while they fit, else GNU's base 256.
fn number(block: &mut [u8; BLOCK], at: usize, len: usize, value: u64) {
    let octal = format!("{value:0width$o}\0", width = len - 1);
    if octal.len() == len {
        set(block, at, octal.as_bytes());
        return;
    }
    let mut bytes = vec![0_u8; len - 8];
    bytes.extend_from_slice(&value.to_be_bytes());
    if let Some(first) = bytes.first_mut() {
        *first |= 0x80;
    }
    set(block, at, &bytes);
}

/// Writes the workspace that `request` describes, all of it owned by `owner`, to `out`.
///
/// An error after the first byte leaves a tar that is cut short, which every reader refuses.
///
/// # Errors
/// As `seed`.
pub fn write_tar(
    request: &SeedRequest<'_>,
    owner: (u32, u32),
    out: &mut dyn Write,
    progress: &SeedProgress,
) -> Result<PackRecord> {
    progress.enter(SeedPhase::Counting);
    let plan = Plan::make(request)?;
    check_layout(&plan.layout)?;
    progress.count(&plan.closure);
    progress.enter(SeedPhase::Packing);
    let mut pack_file = memory_file("forgefs-seed").doing(doing)?;
    let kept = pack_file.try_clone().doing(doing)?;
    let order = plan.closure.pack_order(request.objects)?;
    let threads = request.threads;
    let (pack, indexes) =
        write_pack_to(request.objects, &order, kept, threads, None, &progress.pack)?;
    progress.enter(SeedPhase::Finishing);
    let mut tar = Tar {
        out,
        owner,
        mtime_s: plan.mtime_s,
        at: 0,
    };
    for dir in [
        "",
        "/objects",
        "/objects/info",
        "/objects/pack",
        "/refs",
        "/refs/heads",
        "/refs/tags",
    ] {
        tar.directory(format!(".git{dir}").as_bytes())?;
    }
    let branch: Branch<'_> = request.head();
    let hash_kind = request.objects.hash_kind();
    let shallow = &plan.closure.shallow;
    for (name, content) in small_files(hash_kind, &branch, &plan.origin, shallow, false)? {
        tar.file(&[b".git/", &name[..]].concat(), 0o644, &content)?;
    }
    let pack_name = |suffix| format!(".git/objects/pack/{}", pack.file_name(suffix)).into_bytes();
    pack_file.seek(SeekFrom::Start(0)).doing(doing)?;
    tar.head(&pack_name("pack"), b'0', 0o444, pack.bytes, b"")?;
    tar.at += std::io::copy(&mut pack_file, tar.out).doing(doing)?;
    tar.pad()?;
    tar.file(&pack_name("idx"), 0o444, &indexes.idx)?;
    tar.file(&pack_name("rev"), 0o444, &indexes.rev)?;
    if request.work_tree == super::WorkTreeKind::Files {
        write_files(request, &plan, &mut tar)?;
    }
    // Last, and a second younger than the files: git reads again what is not older than its index.
    let index = plan.index(request, plan.mtime_s)?;
    tar.mtime_s = plan.mtime_s.saturating_add(1);
    tar.file(b".git/index", 0o644, &index)?;
    let end = [0; 2 * BLOCK];
    tar.put(&end)?;
    tar.out.flush().doing(doing)?;
    Ok(pack)
}

fn write_files(request: &SeedRequest<'_>, plan: &Plan, tar: &mut Tar<'_>) -> Result<()> {
    let objects: &dyn ObjectSource = request.objects;
    let mut directories: Vec<&[u8]> = plan
        .layout
        .directories
        .iter()
        .map(|dir| dir.path.as_slice())
        .filter(|path| !path.is_empty())
        .collect();
    directories.sort_unstable();
    for path in directories {
        tar.directory(path)?;
    }
    let mut files: Vec<_> = plan.layout.files.iter().collect();
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    for file in files {
        match file.kind {
            EntryKind::Submodule => tar.directory(&file.path)?,
            EntryKind::Symlink => {
                let target = objects.read(&file.id, Kind::Blob)?;
                if target.contains(&0) {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        "link-target",
                        "the target of a symbolic link in the commit holds a NUL",
                    )
                    .about(file.id));
                }
                tar.head(&file.path, b'2', 0o777, 0, &target)?;
            }
            EntryKind::File { executable } => {
                let mode = if executable { 0o755 } else { 0o644 };
                if file.size <= WHOLE_BYTES_MAX {
                    let content = objects.read(&file.id, Kind::Blob)?;
                    tar.file(&file.path, mode, &content)?;
                } else {
                    tar.head(&file.path, b'0', mode, file.size, b"")?;
                    tar.at += objects.read_to(&file.id, Kind::Blob, tar.out)?;
                    tar.pad()?;
                }
            }
            EntryKind::Directory => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_while_they_fit_and_base_256_beyond() {
        let mut block = [0; BLOCK];
        number(&mut block, 0, 8, 0o755);
        assert_eq!(&block[..8], b"0000755\0");
        number(&mut block, 0, 12, 8 << 30);
        assert_eq!(&block[..12], b"\x80\0\0\0\0\0\0\x02\0\0\0\0");
        number(&mut block, 0, 8, 0o7777777);
        assert_eq!(&block[..8], b"7777777\0");
    }
}
