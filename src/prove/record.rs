//! The record of a proof, `forgefs.proof/1` (R30): always the same fields in the same order, so
//! that two proofs of the same thing differ in times and identity only.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Difference, Proof, Verdict};
use crate::git::Oid;

/// What a record says beside the proof, from those who know it.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// When the proof started, RFC 3339 in UTC.
    pub started: String,
    /// When it ended.
    pub finished: String,
    /// Name and version of this program.
    pub tool: String,
    /// Where the expectation came from: `repository` or `manifest`.
    pub expectation: &'static str,
}

/// The JSON form of a [`Proof`].
#[derive(Debug, Clone, Serialize)]
pub struct ProofRecord {
    schema: &'static str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    commit: String,
    tree: Option<String>,
    expected_tree: Option<String>,
    object_format: String,
    expectation: &'static str,
    entries: u64,
    bytes: u64,
    modes: BTreeMap<&'static str, u64>,
    gitlinks: Gitlinks,
    notes: Vec<&'static str>,
    differences: Vec<DifferenceRecord>,
    differences_omitted: u64,
    limits: LimitsRecord,
    dir: Option<DirRecord>,
    tool: String,
    started: String,
    finished: String,
}

#[derive(Debug, Clone, Serialize)]
struct Gitlinks {
    count: u64,
    listed: Vec<GitlinkRecord>,
}

#[derive(Debug, Clone, Serialize)]
struct GitlinkRecord {
    #[serde(flatten)]
    path: PathRecord,
    commit: String,
}

#[derive(Debug, Clone, Serialize)]
struct DifferenceRecord {
    #[serde(flatten)]
    path: PathRecord,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
struct LimitsRecord {
    entries_max: u64,
    bytes_max: u64,
    depth_max: u32,
    timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
struct DirRecord {
    dev: String,
    ino: u64,
    mnt_id: u64,
    mnt_id_unique: bool,
    fstype: String,
}

/// A path as JSON: text where it is UTF-8, else escaped text and the bytes in hex.
#[derive(Debug, Clone, Serialize)]
struct PathRecord {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl PathRecord {
    fn new(path: &[u8]) -> Self {
        match std::str::from_utf8(path) {
            Ok("") => Self {
                path: String::from("."),
                path_hex: None,
            },
            Ok(text) => Self {
                path: text.to_owned(),
                path_hex: None,
            },
            Err(_) => Self {
                path: path.escape_ascii().to_string(),
                path_hex: Some(to_hex(path)),
            },
        }
    }
}

impl ProofRecord {
    /// Makes the record of `proof`.
    #[must_use]
    pub fn new(proof: &Proof, around: Circumstances) -> Self {
        let hex = |id: &Option<Oid>| id.map(|id| id.to_string());
        let totals = &proof.totals;
        let limits = &proof.limits;
        Self {
            schema: "forgefs.proof/1",
            verdict: match proof.verdict {
                Verdict::Proven => "proven",
                Verdict::Differs | Verdict::DaemonDead | Verdict::TimedOut => "not-proven",
            },
            reason: proof.verdict.reason(),
            commit: proof.commit_id.to_string(),
            tree: hex(&proof.rebuilt_tree_id),
            expected_tree: hex(&proof.tree_id),
            object_format: proof.hash_kind.to_string(),
            expectation: around.expectation,
            entries: totals.entries,
            bytes: totals.bytes,
            modes: BTreeMap::from([
                ("040000", totals.directories),
                ("100644", totals.files),
                ("100755", totals.executables),
                ("120000", totals.symlinks),
                ("160000", totals.gitlinks),
            ]),
            gitlinks: Gitlinks {
                count: totals.gitlinks,
                listed: totals.gitlinks_listed.iter().map(gitlink).collect(),
            },
            notes: (totals.noncanonical_modes > 0)
                .then_some("noncanonical-mode")
                .into_iter()
                .collect(),
            differences: proof.differences.iter().map(difference).collect(),
            differences_omitted: proof.differences_omitted,
            limits: LimitsRecord {
                entries_max: limits.entries_max,
                bytes_max: limits.bytes_max,
                depth_max: limits.depth_max,
                timeout_ms: limits
                    .timeout
                    .map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
            },
            dir: proof.root.as_ref().map(|root| DirRecord {
                dev: format!("{}:{}", root.identity.dev.0, root.identity.dev.1),
                ino: root.identity.ino,
                mnt_id: root.identity.mount_id,
                mnt_id_unique: root.identity.mount_id_unique,
                fstype: root.filesystem.clone(),
            }),
            tool: around.tool,
            started: around.started,
            finished: around.finished,
        }
    }
}

fn gitlink((path, commit_id): &(Vec<u8>, Oid)) -> GitlinkRecord {
    GitlinkRecord {
        path: PathRecord::new(path),
        commit: commit_id.to_string(),
    }
}

fn difference(difference: &Difference) -> DifferenceRecord {
    let hex = |id: Option<Oid>| id.map(|id| id.to_string());
    DifferenceRecord {
        path: PathRecord::new(&difference.path),
        kind: difference.kind.as_str(),
        object: hex(difference.object_id),
        found: hex(difference.found_id),
        detail: difference.detail.clone(),
    }
}

/// Returns bytes as lower-case hex.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Returns a path below the root for people: as it is where it is printable, else quoted with
/// escapes.
#[must_use]
pub fn shown_path(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok("") => String::from("."),
        Ok(text) if !text.contains(|c: char| c.is_control()) => text.to_owned(),
        _ => format!("\"{}\"", path.escape_ascii()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_keep_every_byte() {
        for (path, shown, text, hex) in [
            (&b"a b"[..], "a b", "a b", None),
            (b"", ".", ".", None),
            (b"a\nb", "\"a\\nb\"", "a\nb", None),
            (b"\xff", "\"\\xff\"", "\\xff", Some("ff")),
            ("\u{e9}".as_bytes(), "\u{e9}", "\u{e9}", None),
        ] {
            let record = PathRecord::new(path);
            assert_eq!(shown_path(path), shown);
            assert_eq!(
                (record.path.as_str(), record.path_hex.as_deref()),
                (text, hex)
            );
        }
    }
}
