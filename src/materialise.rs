//! Writes a tree into an empty directory: raw blob bytes, exec bits and links, descriptor-relative,
//! never through a link, no filter, no hook (R19, R26, R67, R87).
//!
//! Directories come first, then files in whatever order their blobs come: while a pack is written
//! (every blob is verified there anyway), or by a sweep over the store for what is left.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::fault;
use crate::git::{
    EntryKind, Kind, Layout, LayoutFile, ObjectSource, Oid, PackVisitor, WHOLE_BYTES_MAX,
};
use crate::sys::{DirFd, WrittenStat, copy_file, finish_file, os_name};

/// The kernel resolves paths of less than 4,096 bytes; longer ones are walked in pieces.
const PATH_BYTES_MAX: usize = 4000;

/// The longest target that the kernel keeps in a link, and the longest name.
const TARGET_BYTES_MAX: u64 = 4095;
const NAME_BYTES_MAX: usize = 255;

/// A work tree that is being written.
///
/// Modes are exact only where the process's mask is clear (`sys::clear_umask`).
#[derive(Debug)]
pub struct WorkTree<'a> {
    root: &'a DirFd,
    layout: &'a Layout,
    mtime_s: i64,
    files_of: HashMap<Oid, Vec<usize>>,
    stats: Vec<OnceLock<WrittenStat>>,
}

/// Refuses what no work tree on this kernel can hold, before anything is written.
///
/// # Errors
/// `name-too-long`, `link-target` (unsupported), naming the path.
pub fn check_layout(layout: &Layout) -> Result<()> {
    let too_long = |path: &[u8]| {
        Error::new(
            ErrorKind::Unsupported,
            "name-too-long",
            "a name in the commit has more than 255 bytes, which no Linux file system can hold",
        )
        .at(Path::new(os_name(path)))
    };
    let name_len = |path: &[u8]| path.rsplit(|b| *b == b'/').next().map_or(0, <[u8]>::len);
    for file in &layout.files {
        if name_len(&file.path) > NAME_BYTES_MAX {
            return Err(too_long(&file.path));
        }
        if file.kind == EntryKind::Symlink && !(1..=TARGET_BYTES_MAX).contains(&file.size) {
            return Err(bad_target(file, "is empty or longer than 4095 bytes"));
        }
    }
    match layout
        .directories
        .iter()
        .find(|dir| name_len(&dir.path) > NAME_BYTES_MAX)
    {
        Some(dir) => Err(too_long(&dir.path)),
        None => Ok(()),
    }
}

fn bad_target(file: &LayoutFile, why: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "link-target",
        format!("the target of a symbolic link in the commit {why}; no kernel can hold it"),
    )
    .about(file.id)
    .at(Path::new(os_name(&file.path)))
}

impl<'a> WorkTree<'a> {
    /// Makes all directories below `root`, which holds nothing of the tree yet.
    ///
    /// # Errors
    /// Those of [`check_layout`]; errors of writing.
    pub fn begin(root: &'a DirFd, layout: &'a Layout, mtime_s: i64) -> Result<Self> {
        check_layout(layout)?;
        let mut files_of: HashMap<Oid, Vec<usize>> = HashMap::new();
        let mut tree = Self {
            root,
            layout,
            mtime_s,
            files_of: HashMap::new(),
            stats: vec![OnceLock::new(); layout.files.len()],
        };
        for dir in layout.directories.iter().filter(|d| !d.path.is_empty()) {
            tree.make_dir(&dir.path)?;
        }
        for (number, file) in layout.files.iter().enumerate() {
            if file.kind == EntryKind::Submodule {
                tree.make_dir(&file.path)?;
            } else {
                files_of.entry(file.id).or_default().push(number);
            }
        }
        tree.files_of = files_of;
        Ok(tree)
    }

    /// Writes what has not been written yet, reading from `objects`, and returns the stat data of
    /// `layout.files`, in their order.
    ///
    /// # Errors
    /// `missing-object`, `corrupt-object`; errors of writing.
    pub fn finish(self, objects: &dyn ObjectSource, threads: usize) -> Result<Vec<WrittenStat>> {
        let is_left = |number: &usize| self.stats.get(*number).is_some_and(|s| s.get().is_none());
        let mut left: Vec<(u64, Oid)> = self
            .files_of
            .iter()
            .filter(|(_, numbers)| numbers.iter().any(is_left))
            .map(|(id, _)| (objects.place(id).unwrap_or(u64::MAX), *id))
            .collect();
        left.sort_unstable();
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            while let Some((_, id)) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.write_from(objects, id).inspect_err(|_| {
                    next.store(left.len(), Ordering::Relaxed);
                })?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(work)).collect();
            let mut result = work();
            for other in others {
                let ended = other.join().unwrap_or_else(|_| {
                    Err(Error::new(
                        ErrorKind::Internal,
                        "internal",
                        "a writer of the work tree ended early",
                    ))
                });
                result = result.and(ended);
            }
            result
        })?;
        for dir in self.layout.directories.iter().rev() {
            if !dir.path.is_empty() {
                self.set_mtime(&dir.path)?;
            }
        }
        for file in &self.layout.files {
            if file.kind == EntryKind::Submodule {
                self.set_mtime(&file.path)?;
            }
        }
        Ok(self
            .stats
            .into_iter()
            .map(|stat| stat.into_inner().unwrap_or_default())
            .collect())
    }

    fn write_from(&self, objects: &dyn ObjectSource, id: &Oid) -> Result<()> {
        if objects.size(id)? <= WHOLE_BYTES_MAX {
            return self.blob(id, &objects.read(id, Kind::Blob)?);
        }
        // Streamed into the first file, copied (shared, where the file system can) to the others.
        let mut first: Option<File> = None;
        for number in self.files_of.get(id).into_iter().flatten() {
            let Some(file) = self.layout.files.get(*number) else {
                continue;
            };
            let mut out = self.create(file)?;
            match &first {
                None => {
                    objects.read_to(id, Kind::Blob, &mut out)?;
                }
                Some(first) => {
                    copy_file(first, &out).map_err(|e| failed(&file.path, e))?;
                }
            }
            self.note(*number, &out)?;
            first.get_or_insert(out);
        }
        Ok(())
    }

    fn create(&self, file: &LayoutFile) -> Result<File> {
        let mode = match file.kind {
            EntryKind::File { executable: true } => 0o755,
            _ => 0o644,
        };
        let (below, path) = self.reach(&file.path)?;
        below
            .as_ref()
            .unwrap_or(self.root)
            .create_beneath(path, mode)
            .map_err(|e| failed(&file.path, e))
    }

    fn note(&self, number: usize, file: &File) -> Result<()> {
        let path = || self.layout.files.get(number).map_or(&[][..], |f| &f.path);
        let stat = finish_file(file, self.mtime_s).map_err(|e| failed(path(), e))?;
        self.count(number, stat)
    }

    fn count(&self, number: usize, stat: WrittenStat) -> Result<()> {
        if let Some(slot) = self.stats.get(number) {
            let _ = slot.set(stat);
        }
        fault::point("worktree-in-part")
    }

    fn link(&self, number: usize, file: &LayoutFile, target: &[u8]) -> Result<()> {
        if target.contains(&0) {
            return Err(bad_target(file, "holds a NUL"));
        }
        let (parent, name) = self.parent(&file.path)?;
        let parent = parent.as_ref().unwrap_or(self.root);
        let stat = parent
            .make_symlink(target, name)
            .and_then(|()| parent.set_mtime(name, self.mtime_s))
            .and_then(|()| parent.written_stat(name))
            .map_err(|e| failed(&file.path, e))?;
        self.count(number, stat)
    }

    fn make_dir(&self, path: &[u8]) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        parent
            .as_ref()
            .unwrap_or(self.root)
            .make_dir(name, 0o755)
            .map_err(|e| failed(path, e))
    }

    fn set_mtime(&self, path: &[u8]) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        parent
            .as_ref()
            .unwrap_or(self.root)
            .set_mtime(name, self.mtime_s)
            .map_err(|e| failed(path, e))
    }

    /// Returns the directory that holds `path` (`None` for the root) and its last component.
    fn parent<'p>(&self, path: &'p [u8]) -> Result<(Option<DirFd>, &'p [u8])> {
        let Some(slash) = path.iter().rposition(|b| *b == b'/') else {
            return Ok((None, path));
        };
        let (head, name) = (&path[..slash], &path[slash + 1..]);
        let (below, rest) = self.reach(head)?;
        let parent = below
            .as_ref()
            .unwrap_or(self.root)
            .open_dir(rest)
            .map_err(|e| failed(path, e))?;
        Ok((Some(parent), name))
    }

    /// Walks down until the rest of `path` is short enough for one call of the kernel.
    fn reach<'p>(&self, mut path: &'p [u8]) -> Result<(Option<DirFd>, &'p [u8])> {
        let mut below: Option<DirFd> = None;
        while path.len() > PATH_BYTES_MAX {
            let Some(slash) = path[..PATH_BYTES_MAX].iter().rposition(|b| *b == b'/') else {
                break;
            };
            let next = below
                .as_ref()
                .unwrap_or(self.root)
                .open_dir(&path[..slash])
                .map_err(|e| failed(path, e))?;
            below = Some(next);
            path = &path[slash + 1..];
        }
        Ok((below, path))
    }
}

impl PackVisitor for WorkTree<'_> {
    fn blob(&self, id: &Oid, content: &[u8]) -> Result<()> {
        for number in self.files_of.get(id).into_iter().flatten() {
            let Some(file) = self.layout.files.get(*number) else {
                continue;
            };
            if file.kind == EntryKind::Symlink {
                self.link(*number, file, content)?;
            } else {
                let mut out = self.create(file)?;
                out.write_all(content).map_err(|e| failed(&file.path, e))?;
                self.note(*number, &out)?;
            }
        }
        Ok(())
    }
}

fn failed(path: &[u8], error: std::io::Error) -> Error {
    let error = match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::new(
            ErrorKind::Conflict,
            "name-collides",
            "two names of the commit are one on this file system, which folds case or normalises",
        ),
        std::io::ErrorKind::InvalidFilename => Error::new(
            ErrorKind::Unsupported,
            "name-too-long",
            "the file system cannot hold a name of the commit",
        )
        .caused_by(error),
        _ => Error::io("cannot write the work tree", error),
    };
    error.at(Path::new(os_name(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, Limits};
    use crate::git::{Closure, HashKind, History, MemorySource, encode_tree, load_commit};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn laid_out(objects: &mut MemorySource, root: &Oid) -> Layout {
        let text = format!("tree {root}\ncommitter A <a@b> 7 +0000\n\nm\n");
        let id = objects.insert(Kind::Commit, text).unwrap();
        let commit = load_commit(objects, &id).unwrap();
        let mut budget = Budget::new(Limits::default());
        let none = std::collections::HashSet::new();
        Closure::walk(objects, &commit, History::Base, &none, &mut budget)
            .unwrap()
            .layout(objects)
            .unwrap()
    }

    #[test]
    fn r67_files_links_modes_and_times_are_those_of_the_commit() {
        let mut objects = MemorySource::new(HashKind::Sha1);
        let blob = objects.insert(Kind::Blob, "run me\r\n").unwrap();
        let large = vec![1; usize::try_from(WHOLE_BYTES_MAX).unwrap() + 1];
        let large = objects.insert(Kind::Blob, large).unwrap();
        let sub = encode_tree([(&b"100644"[..], &b"f\xff"[..], &blob)]);
        let mut tree = objects.insert(Kind::Tree, sub).unwrap();
        let name = [b'd'; 200];
        for _ in 0..40 {
            let nest = encode_tree([(&b"40000"[..], &name[..], &tree)]);
            tree = objects.insert(Kind::Tree, nest).unwrap();
        }
        let list = [
            (&b"100755"[..], &b"a"[..], &blob),
            (b"100644", b"big", &large),
            (b"100644", b"big2", &large),
            (b"40000", b"deep", &tree),
            (b"120000", b"l", &blob),
            (b"160000", b"m", &blob),
        ];
        let root = objects.insert(Kind::Tree, encode_tree(list)).unwrap();
        let layout = laid_out(&mut objects, &root);
        let dir = tempfile::tempdir().unwrap();
        let held = DirFd::open(dir.path()).unwrap();
        let tree = WorkTree::begin(&held, &layout, 7).unwrap();
        let stats = tree.finish(&objects, 2).unwrap();
        assert_eq!(stats.len(), layout.files.len());
        let meta = |name: &str| dir.path().join(name).symlink_metadata().unwrap();
        assert_eq!(meta("a").permissions().mode() & 0o7777, 0o755);
        for name in ["big", "big2"] {
            assert_eq!(meta(name).len(), WHOLE_BYTES_MAX + 1);
        }
        assert!(meta("l").is_symlink() && meta("m").is_dir());
        for name in ["a", "big", "deep", "l", "m"] {
            assert_eq!(meta(name).mtime(), 7, "{name}");
        }
        assert!(stats.iter().all(|s| s.size > 0 || s.ino == 0));
        held.remove_tree(b"deep").unwrap();
    }

    #[test]
    fn links_that_no_kernel_can_hold_are_refused() {
        for target in [&b""[..], b"a\0b", &[b'x'; 4096]] {
            let mut objects = MemorySource::new(HashKind::Sha1);
            let blob = objects.insert(Kind::Blob, target).unwrap();
            let list = [(&b"120000"[..], &b"l"[..], &blob)];
            let root = objects.insert(Kind::Tree, encode_tree(list)).unwrap();
            let layout = laid_out(&mut objects, &root);
            let dir = tempfile::tempdir().unwrap();
            let held = DirFd::open(dir.path()).unwrap();
            let error = WorkTree::begin(&held, &layout, 7)
                .and_then(|tree| tree.finish(&objects, 1))
                .unwrap_err();
            assert_eq!(error.slug(), "link-target");
        }
    }
}
