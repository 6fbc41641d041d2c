//! Git's index, version 2, written once for a tree that was just laid out: entries with stat data
//! that match, so that the first `git status` reads no file (R84), and the TREE extension, so that
//! it compares no directory either. Format: git's `gitformat-index(5)`.

use std::collections::HashMap;

use super::closure::Layout;
use super::{EntryKind, HashKind, Oid};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::WrittenStat;

/// Returns the bytes of the index for `layout`.
///
/// `stat_of` gives the stat data of the file with that number in `layout.files`; with
/// `core.checkStat=minimal` git compares the time's seconds and the size, and only those need be
/// true. Submodules are not asked for: git ignores what is recorded of them.
///
/// # Errors
/// `internal` where there are more entries than the format can count.
pub fn index_bytes(
    layout: &Layout,
    hash_kind: HashKind,
    mut stat_of: impl FnMut(usize) -> WrittenStat,
) -> Result<Vec<u8>> {
    let mut order: Vec<usize> = (0..layout.files.len()).collect();
    order.sort_unstable_by(|a, b| layout.files[*a].path.cmp(&layout.files[*b].path));
    let count = u32::try_from(order.len()).map_err(|_| too_many())?;
    let mut out = Vec::with_capacity(order.len() * 112 + 4096);
    out.extend_from_slice(b"DIRC");
    out.extend_from_slice(&2_u32.to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    for at in &order {
        let file = &layout.files[*at];
        let stat = match file.kind {
            EntryKind::Submodule => WrittenStat::default(),
            _ => stat_of(*at),
        };
        write_entry(&mut out, &file.path, file.kind, &file.id, &stat);
    }
    let tree = tree_extension(layout, &order)?;
    out.extend_from_slice(b"TREE");
    let len = u32::try_from(tree.len()).map_err(|_| too_many())?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&tree);
    let mut hasher = gix::hash::hasher(hash_kind);
    hasher.update(&out);
    let sum = hasher.try_finalize().map_err(|_| {
        Error::new(
            ErrorKind::Corrupt,
            "collision",
            "the index carries a SHA-1 collision attack in its names",
        )
    })?;
    out.extend_from_slice(sum.as_slice());
    Ok(out)
}

fn too_many() -> Error {
    Error::new(
        ErrorKind::Budget,
        "budget-entries",
        "more entries than git's index can count",
    )
}

/// Stat fields are 32 bits wide, and git compares what it truncated in the same way.
fn low(value: u64) -> [u8; 4] {
    let [.., a, b, c, d] = value.to_be_bytes();
    [a, b, c, d]
}

fn write_entry(out: &mut Vec<u8>, path: &[u8], kind: EntryKind, id: &Oid, stat: &WrittenStat) {
    let start = out.len();
    for (seconds, nanoseconds) in [stat.ctime, stat.mtime] {
        out.extend_from_slice(&low(seconds.cast_unsigned()));
        out.extend_from_slice(&nanoseconds.to_be_bytes());
    }
    out.extend_from_slice(&low(stat.dev));
    out.extend_from_slice(&low(stat.ino));
    out.extend_from_slice(&kind.canonical_mode().to_be_bytes());
    out.extend_from_slice(&stat.uid.to_be_bytes());
    out.extend_from_slice(&stat.gid.to_be_bytes());
    out.extend_from_slice(&low(stat.size));
    out.extend_from_slice(id.as_slice());
    let name_len = u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xFFF);
    out.extend_from_slice(&name_len.to_be_bytes());
    out.extend_from_slice(path);
    // One to eight NULs, to a multiple of eight from the entry's start.
    let len = out.len() - start;
    out.resize(start + (len / 8 + 1) * 8, 0);
}

/// The cache tree: for each directory its name, number of entries below, number of subdirectories
/// and tree id, depth first.
fn tree_extension(layout: &Layout, order: &[usize]) -> Result<Vec<u8>> {
    let at_of: HashMap<&[u8], usize> = layout
        .directories
        .iter()
        .enumerate()
        .map(|(at, dir)| (dir.path.as_slice(), at))
        .collect();
    let mut entry_counts = vec![0_u64; layout.directories.len()];
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); layout.directories.len()];
    let lost = || Error::new(ErrorKind::Internal, "internal", "a directory has no parent");
    for at in order {
        let parent = parent_of(&layout.files[*at].path);
        entry_counts[*at_of.get(parent).ok_or_else(lost)?] += 1;
    }
    // Directories stand after their parents, so that going backwards sums children first.
    for (at, dir) in layout.directories.iter().enumerate().rev() {
        if !dir.path.is_empty() {
            let parent = *at_of.get(parent_of(&dir.path)).ok_or_else(lost)?;
            entry_counts[parent] += entry_counts[at];
            children[parent].push(at);
        }
    }
    let name = |at: usize| name_of(&layout.directories[at].path);
    for list in &mut children {
        // Git keeps subtrees by length, then bytes. Reversed, for the stack below.
        list.sort_unstable_by(|a, b| {
            let (a, b) = (name(*a), name(*b));
            b.len().cmp(&a.len()).then_with(|| b.cmp(a))
        });
    }
    let mut out = Vec::with_capacity(layout.directories.len() * 40);
    let mut stack = vec![0_usize];
    while let Some(at) = stack.pop() {
        let Some(dir) = layout.directories.get(at) else {
            break;
        };
        out.extend_from_slice(name_of(&dir.path));
        out.push(0);
        let line = format!("{} {}\n", entry_counts[at], children[at].len());
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(dir.tree_id.as_slice());
        stack.extend_from_slice(&children[at]);
    }
    Ok(out)
}

fn parent_of(path: &[u8]) -> &[u8] {
    path.iter()
        .rposition(|b| *b == b'/')
        .map_or(&[], |slash| &path[..slash])
}

fn name_of(path: &[u8]) -> &[u8] {
    path.iter()
        .rposition(|b| *b == b'/')
        .map_or(path, |slash| &path[slash + 1..])
}

#[cfg(test)]
mod tests {
    use super::super::closure::{LayoutDirectory, LayoutFile};
    use super::*;
    use std::path::Path;

    #[expect(clippy::disallowed_methods, reason = "git is the oracle of this test")]
    fn git(dir: &Path, args: &[&str]) -> String {
        let out = std::process::Command::new("git")
            .arg("-C")
            .arg(dir)
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(out.status.success(), "{args:?}: {out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    #[test]
    fn git_reads_back_every_entry_and_the_trees() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q"]);
        let names = ["a", "a.b", "a-c/x", "dir/sub/deep", "dir/other"];
        for name in names {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        git(dir.path(), &["add", "."]);
        let tree = git(dir.path(), &["write-tree"]);
        let listing = git(dir.path(), &["ls-files", "-s"]);
        let trees = git(dir.path(), &["ls-tree", "-rtd", tree.trim()]);
        let id = |hex: &str| Oid::from_hex(hex.trim().as_bytes()).unwrap();
        let mut layout = Layout::default();
        layout.directories.push(LayoutDirectory {
            path: Vec::new(),
            tree_id: id(&tree),
        });
        for line in trees.lines() {
            let (head, path) = line.split_once('\t').unwrap();
            layout.directories.push(LayoutDirectory {
                path: path.into(),
                tree_id: id(head.rsplit(' ').next().unwrap()),
            });
        }
        for line in listing.lines().rev() {
            let (head, path) = line.split_once('\t').unwrap();
            layout.files.push(LayoutFile {
                path: path.into(),
                kind: EntryKind::File { executable: false },
                id: id(head.split(' ').nth(1).unwrap()),
                size: path.len() as u64,
            });
        }
        let bytes = index_bytes(&layout, HashKind::Sha1, |_| WrittenStat::default()).unwrap();
        std::fs::write(dir.path().join(".git/index"), bytes).unwrap();
        assert_eq!(git(dir.path(), &["ls-files", "-s"]), listing);
        assert_eq!(git(dir.path(), &["write-tree"]), tree);
        git(dir.path(), &["fsck", "--strict"]);
        git(
            dir.path(),
            &["diff", "--cached", "--exit-code", tree.trim()],
        );
    }
}
