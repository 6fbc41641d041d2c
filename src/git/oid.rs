//! Full object ids as people and scripts give them: nothing is abbreviated, resolved or peeled
//! (R1).

use super::{HashKind, Oid};
use crate::error::{Error, ErrorKind, Result};

/// Reads a full, lower-case object id: 40 hex digits (sha1) or 64 (sha256).
///
/// # Errors
/// `not-a-full-id` (usage) for anything else, with the way to get one.
pub fn parse_full_id(text: &str) -> Result<Oid> {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if matches!(text.len(), 40 | 64)
        && text.bytes().all(hex)
        && let Ok(id) = Oid::from_hex(text.as_bytes())
    {
        return Ok(id);
    }
    Err(Error::new(
        ErrorKind::Usage,
        "not-a-full-id",
        format!(
            "{text:?} is not a full object id; it must be 40 (sha1) or 64 (sha256) lower-case hex digits, \
             as `git rev-parse HEAD` prints them"
        ),
    ))
}

/// Returns the id of the tree without entries, which git never stores but always knows (R4).
#[must_use]
pub fn empty_tree_id(hash_kind: HashKind) -> Oid {
    Oid::empty_tree(hash_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r1_only_full_lower_case_ids_pass() {
        let full = "3fce3b5b0123456789abcdef0123456789abcdef";
        assert!(parse_full_id(full).is_ok());
        assert!(parse_full_id(&"a".repeat(64)).is_ok());
        let upper = full.to_uppercase();
        let long = format!("{full}0");
        let spaced = format!(" {full}");
        let parent = format!("{full}^");
        for bad in [
            "",
            "HEAD",
            "main",
            &full[..12],
            &upper,
            &spaced,
            &parent,
            &long,
            "--help-me",
        ] {
            let error = parse_full_id(bad).expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("git rev-parse"), "{error}");
        }
    }
}
