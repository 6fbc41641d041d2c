//! What stock `git fsck --strict` calls an error in a tree (R10), and what it only remarks on (R11).
//!
//! Rules and names are those of git's `fsck.c`; the test beside the zoo asks real git about each.

use super::tree::{compare_names, entries};
use super::{EntryKind, HashKind};
use crate::error::{Error, ErrorKind, Result};
use std::cmp::Ordering;

/// Which rules a tree is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// What the kernel can show without lying: the rules of R10.
    Serve,
    /// Additionally what `fsck --strict` says of links named like git's own files; for import.
    Admit,
}

/// Remarks on a tree that is served all the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeNotes {
    /// Entries whose mode is not written as git writes it (R11).
    pub noncanonical_modes: u32,
    /// Entries whose name is longer than the kernel's 255 bytes (R22).
    pub long_names: u32,
    /// Number of entries.
    pub entries: u32,
}

/// Checks the content of a tree and returns what is remarkable about it.
///
/// # Errors
/// `bad-tree` where it does not parse or breaks a rule; the message carries git's own name for it.
pub fn check_tree(bytes: &[u8], hash_kind: HashKind, strictness: Strictness) -> Result<TreeNotes> {
    let mut notes = TreeNotes::default();
    let mut files: Vec<&[u8]> = Vec::new();
    let mut previous: Option<(&[u8], bool)> = None;
    for entry in entries(bytes, hash_kind) {
        let entry = entry?;
        let is_tree = entry.kind() == EntryKind::Directory;
        check_name(entry.name)?;
        if entry.id.is_null() {
            return Err(bad(entry.name, "refers to the null id", "nullSha1"));
        }
        if let Some((name, was_tree)) = previous {
            match compare_names(name, was_tree, entry.name, is_tree) {
                Ordering::Less => {}
                Ordering::Equal => return Err(bad(entry.name, "stands twice", "duplicateEntries")),
                Ordering::Greater if name == entry.name => {
                    return Err(bad(entry.name, "stands twice", "duplicateEntries"));
                }
                Ordering::Greater => {
                    return Err(bad(entry.name, "is out of order", "treeNotSorted"));
                }
            }
        }
        // A file `foo` and a directory `foo` need not be neighbours: `foo`, `foo.c`, `foo/`. Only
        // names that the current one extends can still meet their twin.
        while files
            .last()
            .is_some_and(|file| !entry.name.starts_with(file))
        {
            files.pop();
        }
        if is_tree {
            if files.contains(&entry.name) {
                return Err(bad(entry.name, "stands twice", "duplicateEntries"));
            }
        } else {
            files.push(entry.name);
        }
        if strictness == Strictness::Admit
            && entry.kind() == EntryKind::Symlink
            && is_dot_name(entry.name, "gitmodules")
        {
            return Err(bad(entry.name, "is a symbolic link", "gitmodulesSymlink"));
        }
        notes.entries = notes.entries.saturating_add(1);
        notes.noncanonical_modes += u32::from(!entry.has_canonical_mode());
        notes.long_names += u32::from(entry.name.len() > 255);
        previous = Some((entry.name, is_tree));
    }
    Ok(notes)
}

fn check_name(name: &[u8]) -> Result<()> {
    let verdict = match name {
        b"" => Some(("is empty", "emptyName")),
        b"." => Some(("is the directory itself", "hasDot")),
        b".." => Some(("is the parent directory", "hasDotdot")),
        _ if name.contains(&b'/') => Some(("contains a slash", "fullPathname")),
        _ if is_dot_name(name, "git") => Some(("is git's own directory in disguise", "hasDotgit")),
        _ if name.len() > 4096 => Some(("is longer than 4096 bytes", "largePathname")),
        _ => None,
    };
    verdict.map_or(Ok(()), |(why, rule)| Err(bad(name, why, rule)))
}

fn bad(name: &[u8], why: &str, rule: &str) -> Error {
    let shown = name[..name.len().min(64)].escape_ascii();
    Error::new(
        ErrorKind::Corrupt,
        "bad-tree",
        format!("the tree entry \"{shown}\" {why} [{rule}]"),
    )
}

/// Returns whether `name` reads as `.<word>` on HFS+ or NTFS, or behind a backslash.
fn is_dot_name(name: &[u8], word: &str) -> bool {
    hfs_reads_as(name, word)
        || name
            .split(|b| *b == b'\\')
            .any(|part| ntfs_reads_as(part, word))
}

/// HFS+ folds case and ignores these code points; git stops at malformed UTF-8 as at an end.
fn hfs_reads_as(name: &[u8], word: &str) -> bool {
    let valid = match std::str::from_utf8(name) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default(),
    };
    let ignored = |c: &char| matches!(*c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let mut seen = valid
        .chars()
        .filter(|c| !ignored(c))
        .map(|c| c.to_ascii_lowercase());
    seen.next() == Some('.')
        && word.chars().all(|c| seen.next() == Some(c))
        && seen.next().is_none()
}

/// NTFS folds case, drops trailing dots and spaces, ends a name at `:`, and knows short names.
fn ntfs_reads_as(name: &[u8], word: &str) -> bool {
    let stem_end = name.iter().position(|b| *b == b':').unwrap_or(name.len());
    let stem = &name[..stem_end];
    let end = stem
        .iter()
        .rposition(|b| !matches!(b, b'.' | b' '))
        .map_or(0, |last| last + 1);
    let stem = &stem[..end];
    let dotted = stem
        .strip_prefix(b".")
        .is_some_and(|rest| rest.eq_ignore_ascii_case(word.as_bytes()));
    dotted || ntfs_short_name(stem, word)
}

fn ntfs_short_name(stem: &[u8], word: &str) -> bool {
    match word {
        "git" => stem.eq_ignore_ascii_case(b"git~1"),
        "gitmodules" => {
            let is = |name: &str| stem.eq_ignore_ascii_case(name.as_bytes());
            (1..=4).any(|n| is(&format!("gitmod~{n}")))
                || (stem.len() == 8
                    && stem[..2].eq_ignore_ascii_case(b"gi")
                    && stem
                        .get(2..6)
                        .is_some_and(|h| h.eq_ignore_ascii_case(b"7eba")))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Oid, encode_tree};
    use super::*;

    fn check(list: &[(&str, impl AsRef<[u8]>)]) -> Result<TreeNotes> {
        let id = Oid::empty_blob(HashKind::Sha1);
        let bytes = encode_tree(
            list.iter()
                .map(|(mode, name)| (mode.as_bytes(), name.as_ref(), &id)),
        );
        check_tree(&bytes, HashKind::Sha1, Strictness::Serve)
    }

    #[test]
    fn r10_names_that_git_calls_an_error_are_refused() {
        let refused: [&[u8]; 16] = [
            b".git",
            b".GIT",
            b".Git",
            b"git~1",
            b"GIT~1",
            b".git.",
            b".git ",
            b".git:x",
            b".git\\x",
            b"a\\.git",
            ".g\u{200c}it".as_bytes(),
            "\u{feff}.git".as_bytes(),
            b"..",
            b".",
            b"a/b",
            b"",
        ];
        for name in refused {
            assert!(
                check(&[("100644", name)]).is_err(),
                "{}",
                name.escape_ascii()
            );
        }
        let passed: [&[u8]; 8] = [
            b".gitignore",
            b".gita",
            b"git",
            b"git~2",
            b".git~1",
            b"...",
            b".g it",
            b"\xff\xfe",
        ];
        for name in passed {
            assert!(
                check(&[("100644", name)]).is_ok(),
                "{}",
                name.escape_ascii()
            );
        }
    }

    #[test]
    fn r10_order_and_duplicates_follow_gits_rule() {
        let (f, d) = ("100644", "40000");
        for (list, rule) in [
            (&[(f, "b"), (f, "a")][..], Some("treeNotSorted")),
            (&[(f, "a"), (f, "a")][..], Some("duplicateEntries")),
            (&[(f, "a"), (d, "a")][..], Some("duplicateEntries")),
            (
                &[(f, "a"), (f, "a.b"), (d, "a")][..],
                Some("duplicateEntries"),
            ),
            (
                &[(f, "a"), (f, "a.b"), (f, "a.b.c"), (d, "a.b"), (d, "a")][..],
                Some("duplicateEntries"),
            ),
            (&[(d, "a"), (f, "a.b")][..], Some("treeNotSorted")),
            (&[(f, "a.b"), (d, "a"), (f, "a0")][..], None),
        ] {
            let got = check(list).err().map(|e| e.to_string());
            match rule {
                Some(rule) => assert!(
                    got.as_deref().is_some_and(|g| g.contains(rule)),
                    "{got:?} {rule}"
                ),
                None => assert_eq!(got, None),
            }
        }
    }

    #[test]
    fn r11_odd_modes_are_noted_not_refused() {
        let notes = check(&[("100664", b"a"), ("0100644", b"b"), ("100644", b"c")]).unwrap();
        assert_eq!((notes.noncanonical_modes, notes.entries), (2, 3));
    }
}
