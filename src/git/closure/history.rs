//! The commits of a history, as deep as was asked for.

use std::collections::{HashSet, VecDeque};

use super::super::{Commit, Kind, ObjectSource, Oid};
use crate::error::{Error, ErrorKind, Result};

/// How many commits of the history go along (R82).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// The one commit.
    Base,
    /// Commits less than this many steps away from it, as `git clone --depth` counts.
    Depth(u32),
    /// All ancestors that the source has.
    Full,
}

/// The commits that were found.
pub(super) struct Commits {
    /// All of them, the base first.
    pub(super) ids: Vec<Oid>,
    /// Their trees.
    pub(super) roots: Vec<Oid>,
    /// Those whose parents are left out.
    pub(super) shallow: Vec<Oid>,
    /// Whether the source had less than was asked for.
    pub(super) truncated: bool,
}

/// Breadth first, so that a commit's level is its least distance from the base.
pub(super) fn walk_commits(
    objects: &dyn ObjectSource,
    base: &Commit,
    history: History,
    source_shallow: &HashSet<Oid>,
) -> Result<Commits> {
    let levels_max = match history {
        History::Base => 1,
        History::Depth(0) => {
            return Err(Error::new(
                ErrorKind::Usage,
                "usage",
                "a history of 0 commits holds nothing; give 1 or more",
            ));
        }
        History::Depth(levels) => levels,
        History::Full => u32::MAX,
    };
    let mut out = Commits {
        ids: Vec::new(),
        roots: Vec::new(),
        shallow: Vec::new(),
        truncated: false,
    };
    let mut seen = HashSet::from([base.id]);
    let mut ends = Vec::new();
    let mut queue = VecDeque::from([(base.id, 1_u32)]);
    while let Some((id, level)) = queue.pop_front() {
        let commit = if id == base.id {
            base.clone()
        } else {
            let bytes = objects.read(&id, Kind::Commit)?;
            Commit::parse(id, &bytes, objects.hash_kind())?
        };
        out.ids.push(id);
        out.roots.push(commit.tree_id);
        let is_cut_in_source = source_shallow.contains(&id) && !commit.parent_ids.is_empty();
        if level >= levels_max || is_cut_in_source {
            out.truncated |= is_cut_in_source && level < levels_max;
            if !commit.parent_ids.is_empty() {
                ends.push((id, commit.parent_ids));
            }
            continue;
        }
        for parent in commit.parent_ids {
            if seen.insert(parent) {
                queue.push_back((parent, level + 1));
            }
        }
    }
    let included: HashSet<Oid> = out.ids.iter().copied().collect();
    out.shallow = ends
        .into_iter()
        .filter(|(_, parents)| parents.iter().any(|parent| !included.contains(parent)))
        .map(|(id, _)| id)
        .collect();
    out.shallow.sort_unstable();
    Ok(out)
}
