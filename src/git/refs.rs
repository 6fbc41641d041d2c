//! Names of branches and the few small files of a new repository that hold ids: HEAD, one branch,
//! `shallow`.

use std::collections::HashSet;

use super::Oid;
use crate::error::{Error, ErrorKind, Result};

/// Checks that `name` can be a branch, by the rules of `git check-ref-format --branch`, and that
/// git's own commands would not take it for something else.
///
/// # Errors
/// `bad-branch-name` (usage).
pub fn check_branch_name(name: &str) -> Result<()> {
    let part_is_good = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.ends_with(".lock")
    };
    let bad_byte = |b: u8| b <= b' ' || b == 0x7f || b"~^:?*[\\".contains(&b);
    let good = !name.starts_with('-')
        && name.len() <= 200
        && name != "@"
        && name != "HEAD"
        && name.split('/').all(part_is_good)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.bytes().any(bad_byte);
    if good {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Usage,
        "bad-branch-name",
        format!("{name:?} cannot be the name of a branch; see git-check-ref-format(1)"),
    ))
}

/// Returns the content of HEAD on a branch, or detached at `commit_id`.
#[must_use]
pub fn head_bytes(branch: Option<&str>, commit_id: &Oid) -> Vec<u8> {
    match branch {
        Some(branch) => format!("ref: refs/heads/{branch}\n").into_bytes(),
        None => id_line(commit_id),
    }
}

/// Returns an id as a ref file holds it.
#[must_use]
pub fn id_line(id: &Oid) -> Vec<u8> {
    format!("{id}\n").into_bytes()
}

/// Returns the content of the file `shallow`.
#[must_use]
pub fn shallow_bytes(boundary: &[Oid]) -> Vec<u8> {
    boundary.iter().flat_map(id_line).collect()
}

/// Reads the content of a file `shallow`; lines that are no id are not there, as for git.
#[must_use]
pub fn parse_shallow(bytes: &[u8]) -> HashSet<Oid> {
    bytes
        .split(|b| *b == b'\n')
        .filter_map(|line| Oid::from_hex(line.trim_ascii()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "git is the oracle of this test")]
    fn git_accepts(name: &str) -> bool {
        std::process::Command::new("git")
            .args(["check-ref-format", "--branch", name])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
            .success()
    }

    #[test]
    fn branch_names_are_those_that_git_accepts() {
        for name in [
            "work",
            "a/b",
            "a.b",
            "x@y",
            "\u{e9}",
            "-x",
            "",
            "a..b",
            "a/",
            "/a",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "a b",
            "a~",
            "a^",
            "a:",
            "a?",
            "a*",
            "a[",
            "a\\",
            "a@{b",
            "HEAD",
            "a\x7f",
            "a\tb",
            "refs/heads/x",
            "a]",
            "{",
            "a;b",
            "$(x)",
        ] {
            assert_eq!(
                check_branch_name(name).is_ok(),
                git_accepts(name),
                "{name:?}"
            );
        }
        // Git would read it as the commit that HEAD names.
        assert!(check_branch_name("@").is_err());
    }

    #[test]
    fn shallow_files_survive_a_round_trip() {
        let a = Oid::empty_blob(super::super::HashKind::Sha1);
        let b = Oid::empty_tree(super::super::HashKind::Sha1);
        let bytes = shallow_bytes(&[a, b]);
        assert_eq!(parse_shallow(&bytes), HashSet::from([a, b]));
        assert!(parse_shallow(b"nonsense\n\n").is_empty());
    }
}
