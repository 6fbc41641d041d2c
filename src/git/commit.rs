//! Commits, read as far as forgefs needs them: tree, parents, the committer's time.
//!
//! Real histories hold commits that strict parsers choke on (no committer, odd time zones, CR line
//! ends), so only the lines asked for are looked at, and a time that does not parse is a note, not
//! an error (R20).

use super::source::corrupt;
use super::{HashKind, Kind, ObjectSource, Oid};
use crate::error::{Error, ErrorKind, Result};

/// What forgefs reads of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The commit's id.
    pub id: Oid,
    /// The id of its root tree.
    pub tree_id: Oid,
    /// The ids of its parents, in order.
    pub parent_ids: Vec<Oid>,
    /// The committer's time in seconds since 1970, where it is readable and within 1..2^33-1.
    pub committed_at_s: Option<i64>,
}

/// Times that are shown as they are; others become 1 with the note `commit-time` (R20).
const TIME_RANGE_S: std::ops::RangeInclusive<i64> = 1..=(1 << 33) - 1;

impl Commit {
    /// Reads the content of the commit `id`.
    ///
    /// # Errors
    /// `corrupt-object` where there is no tree line or a parent line does not parse.
    pub fn parse(id: Oid, content: &[u8], hash_kind: HashKind) -> Result<Self> {
        let hex_len = hash_kind.len_in_hex();
        let header_id = |line: &[u8], key: &[u8]| -> Option<Option<Oid>> {
            let rest = line.strip_prefix(key)?;
            Some(
                (rest.len() == hex_len)
                    .then(|| Oid::from_hex(rest).ok())
                    .flatten(),
            )
        };
        let mut lines = content.split(|b| *b == b'\n');
        let tree_id = lines
            .next()
            .and_then(|line| header_id(line, b"tree "))
            .flatten()
            .ok_or_else(|| corrupt(&id, "is a commit without a tree line"))?;
        let mut parent_ids = Vec::new();
        let mut committed_at_s = None;
        for line in lines.take_while(|line| !line.is_empty()) {
            if let Some(parent) = header_id(line, b"parent ") {
                parent_ids.push(
                    parent
                        .ok_or_else(|| corrupt(&id, "is a commit with a malformed parent line"))?,
                );
            } else if let Some(person) = line.strip_prefix(b"committer ") {
                committed_at_s = committed_at_s.or_else(|| parse_time(person));
            }
        }
        Ok(Self {
            id,
            tree_id,
            parent_ids,
            committed_at_s,
        })
    }

    /// Returns the time that every entry of the snapshot carries: the committer's, or 1.
    #[must_use]
    pub fn mtime_s(&self) -> i64 {
        self.committed_at_s.unwrap_or(1)
    }
}

/// Reads the seconds of `Name <mail> 1700000000 +0000`.
fn parse_time(person: &[u8]) -> Option<i64> {
    let mail_end = person.iter().rposition(|b| *b == b'>')?;
    let text = std::str::from_utf8(&person[mail_end + 1..]).ok()?;
    let seconds = text.split_ascii_whitespace().next()?.parse().ok()?;
    TIME_RANGE_S.contains(&seconds).then_some(seconds)
}

/// Reads and verifies the commit `id` (R3).
///
/// # Errors
/// `missing-object`, `corrupt-object`, or `not-a-commit` naming the kind that was found.
pub fn load_commit(objects: &dyn ObjectSource, id: &Oid) -> Result<Commit> {
    let hash_kind = objects.hash_kind();
    if id.kind() != hash_kind {
        return Err(Error::new(
            ErrorKind::Usage,
            "not-a-full-id",
            format!(
                "{id} has {} digits, but ids of this {hash_kind} repository have {}",
                id.kind().len_in_hex(),
                hash_kind.len_in_hex()
            ),
        ));
    }
    let found = objects.header(id)?.kind;
    if found != Kind::Commit {
        let hint = match found {
            Kind::Tag => format!("; give the commit it names: git rev-parse '{id}^{{commit}}'"),
            _ => String::from("; give a full commit id"),
        };
        return Err(Error::new(
            ErrorKind::NotFound,
            "not-a-commit",
            format!("object {id} is a {found}, not a commit{hint}"),
        )
        .about(id));
    }
    Commit::parse(*id, &objects.read(id, Kind::Commit)?, hash_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Commit> {
        Commit::parse(
            Oid::empty_blob(HashKind::Sha1),
            text.as_bytes(),
            HashKind::Sha1,
        )
    }

    #[test]
    fn r20_times_out_of_range_or_unreadable_are_none() {
        let tree = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n";
        for (committer, want) in [
            ("committer A <a@b> 1700000000 +0000", Some(1_700_000_000)),
            ("committer A <a@b> 1700000000", Some(1_700_000_000)),
            ("committer A <a@b> 1700000000 --700", Some(1_700_000_000)),
            ("committer A <a> <b> 5 +0000", Some(5)),
            ("committer A <a@b> -5 +0000", None),
            ("committer A <a@b> 0 +0000", None),
            ("committer A <a@b> 8589934592 +0000", None),
            ("committer A <a@b> 99999999999999999999 +0000", None),
            ("committer A", None),
            ("author A <a@b> 7 +0000", None),
        ] {
            assert_eq!(
                parse(&format!("{tree}{committer}\n\nmsg"))
                    .unwrap()
                    .committed_at_s,
                want,
                "{committer}"
            );
        }
    }

    #[test]
    fn only_the_tree_line_is_needed() {
        assert!(parse("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n").is_ok());
        assert!(parse("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904").is_ok());
        for bad in [
            "",
            "tree",
            "tree 4b825dc6\n",
            "parent 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
