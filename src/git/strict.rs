//! What stock `git fsck --strict` calls an error in a tree (R10), and what it remarks on (R11).
//!
//! Rules and names are those of git's `fsck.c`; `strict_oracle.rs` asks real git about each.

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
            // The longest name on the stack is the only one that can be as long as this one.
            if files.last() == Some(&entry.name) {
                return Err(bad(entry.name, "stands twice", "duplicateEntries"));
            }
        } else {
            files.push(entry.name);
        }
        if strictness == Strictness::Admit
            && entry.kind() == EntryKind::Symlink
            && is_dot_gitmodules(entry.name)
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
        b"" => Some(("is empty", "badTree")),
        b"." => Some((
            "is the directory itself, as \"..\" is its parent; neither is a name",
            "hasDot",
        )),
        b".." => Some(("is the parent directory", "hasDotdot")),
        _ if name.contains(&b'/') => Some(("contains a slash", "fullPathname")),
        _ if is_dot_git(name) => Some(("is git's own directory in disguise", "hasDotgit")),
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

/// Returns whether some file system would take `name` for `.git`: HFS+, or NTFS, for which a
/// backslash is a separator.
fn is_dot_git(name: &[u8]) -> bool {
    hfs_reads_as(name, "git") || backslash_tails(name).any(ntfs_reads_as_git)
}

/// Returns whether some file system would take `name` for `.gitmodules`.
fn is_dot_gitmodules(name: &[u8]) -> bool {
    hfs_reads_as(name, "gitmodules") || backslash_tails(name).any(ntfs_reads_as_gitmodules)
}

/// Returns `name`, then what follows each backslash in it.
fn backslash_tails(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let after = name.iter().enumerate().filter(|(_, byte)| **byte == b'\\');
    std::iter::once(name).chain(after.map(|(at, _)| &name[at + 1..]))
}

/// HFS+ folds case and ignores some code points. To git malformed UTF-8 and the non-characters
/// U+FFFE and U+FFFF are the end of a name.
fn hfs_reads_as(name: &[u8], word: &str) -> bool {
    let valid = match std::str::from_utf8(name) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default(),
    };
    let ignored = |c: &char| {
        matches!(*c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(*c, '\u{206a}'..='\u{206f}' | '\u{feff}')
    };
    let mut seen = valid
        .chars()
        .take_while(|c| !matches!(*c, '\u{fffe}' | '\u{ffff}'))
        .filter(|c| !ignored(c))
        .map(|c| c.to_ascii_lowercase());
    seen.next() == Some('.')
        && word.chars().all(|c| seen.next() == Some(c))
        && seen.next().is_none()
}

/// NTFS folds case, drops dots and spaces at the end, starts a stream at `:`, has short names.
fn ntfs_reads_as_git(name: &[u8]) -> bool {
    [&b".git"[..], b"git~1"]
        .iter()
        .filter_map(|stem| strip_prefix_any_case(name, stem))
        .any(|rest| ends_for_ntfs(rest, b":\\"))
}

/// The same for `.gitmodules`, whose short names are `gitmod~1` to `~4` and, once those are taken,
/// letters of a hash with a longer number: `gi7eba~1`, `gi7eb~12` and so on.
fn ntfs_reads_as_gitmodules(name: &[u8]) -> bool {
    let plain = strip_prefix_any_case(name, b".gitmodules");
    let short = strip_prefix_any_case(name, b"gitmod~")
        .and_then(|rest| rest.split_first())
        .and_then(|(digit, rest)| (b'1'..=b'4').contains(digit).then_some(rest));
    let hashed = name.split_at_checked(8).and_then(|(stem, rest)| {
        let tilde = stem.iter().position(|byte| *byte == b'~')?;
        let letters = b"gi7eba".get(..tilde)?;
        let digits = &stem[tilde + 1..];
        let is_number = digits.first() != Some(&b'0') && digits.iter().all(u8::is_ascii_digit);
        (stem[..tilde].eq_ignore_ascii_case(letters) && is_number).then_some(rest)
    });
    [plain, short, hashed]
        .into_iter()
        .flatten()
        .any(|rest| ends_for_ntfs(rest, b":"))
}

fn strip_prefix_any_case<'a>(name: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = name.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns whether NTFS sees nothing in `rest`: dots and spaces up to the end or one of `ends`.
fn ends_for_ntfs(rest: &[u8], ends: &[u8]) -> bool {
    rest.iter()
        .find(|byte| !matches!(byte, b'.' | b' '))
        .is_none_or(|byte| ends.contains(byte))
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
