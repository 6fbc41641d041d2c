//! What a repository and a commit contain: one row for each feature that a snapshot or a seed may
//! treat otherwise than a checkout, with a verdict (R89..R96). Nothing is started or fetched.

mod attributes;
mod feature;
mod rows;
mod surroundings;
mod walk;

#[cfg(test)]
mod lab;
#[cfg(test)]
mod lab_around;
#[cfg(test)]
mod lab_tree;

use serde::Serialize;

pub use feature::{Feature, Place, Verdict, printable};

use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::git::{Commit, ObjectSource, Repository, RepositoryFacts};

/// How far a survey looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// The files around the objects, and the root directory: what `mount` has time for.
    Repository,
    /// Every directory of the commit, and the presence of every blob.
    Full,
}

/// What the verdicts are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Showing the commit read-only.
    Snapshot,
    /// Making a private repository of it.
    Seed,
}

/// The report on a repository and one commit of it.
#[derive(Debug, Clone, Serialize)]
pub struct Survey {
    /// How far it looked.
    pub depth: Depth,
    /// The commit's id.
    pub commit: String,
    /// The id of its tree.
    pub tree: String,
    /// The hash that the ids are made with.
    pub object_format: String,
    /// Entries below the root, each counted at every place; `None` where only the root was read.
    pub entries: Option<u64>,
    /// Bytes of all files and links, counted at every place; `None` where only the root was read.
    pub bytes: Option<u64>,
    /// A row for each feature, always all of them, in the order of R89.
    #[serde(serialize_with = "feature::as_map")]
    pub features: Vec<Feature>,
}

/// Surveys one commit.
///
/// With [`Depth::Full`] every distinct directory is read once, whatever number of places it stands
/// at, so that a tree bomb ends; what is missing or broken becomes a row, not an error.
///
/// # Errors
/// `budget-entries`, `budget-depth`, `budget-bytes` past the caps, and input or output errors. With
/// [`Depth::Repository`] also `missing-object` and `corrupt-object` for the root directory.
pub fn survey(
    repository: &Repository,
    objects: &dyn ObjectSource,
    commit: &Commit,
    depth: Depth,
    budget: &mut Budget,
) -> Result<Survey> {
    survey_with(&repository.facts(), objects, commit, depth, budget)
}

fn survey_with(
    facts: &RepositoryFacts,
    objects: &dyn ObjectSource,
    commit: &Commit,
    depth: Depth,
    budget: &mut Budget,
) -> Result<Survey> {
    let mut findings = match depth {
        Depth::Repository => walk::look_at_root(objects, &commit.tree_id)?,
        Depth::Full => walk::walk(objects, &commit.tree_id, budget)?,
    };
    if let Some(bytes) = &facts.info_attributes {
        findings.add_attributes(bytes, b"info/attributes");
    }
    let full = depth == Depth::Full;
    Ok(Survey {
        depth,
        commit: commit.id.to_string(),
        tree: commit.tree_id.to_string(),
        object_format: facts.hash_kind.to_string(),
        entries: full.then_some(findings.totals.entries),
        bytes: full.then_some(findings.totals.bytes),
        features: rows::rows(facts, &findings, commit, depth),
    })
}

impl Survey {
    /// Returns the row of a feature.
    #[must_use]
    pub fn feature(&self, name: &str) -> Option<&Feature> {
        self.features.iter().find(|feature| feature.name == name)
    }

    /// Returns the worst verdict of all rows.
    #[must_use]
    pub fn verdict(&self, purpose: Purpose) -> Verdict {
        self.features
            .iter()
            .map(|feature| feature.verdict(purpose))
            .max()
            .unwrap_or(Verdict::Supported)
    }

    /// Returns one line for each noted feature, or refuses (R90).
    ///
    /// # Errors
    /// Exit 6 where something is unsupported, or noted and `strict`; the slug is that of the first
    /// such row (`bad-tree`, `missing-objects`, ...), its path is the first one of that row.
    pub fn check(&self, purpose: Purpose, strict: bool) -> Result<Vec<String>> {
        let limit = if strict {
            Verdict::Noted
        } else {
            Verdict::Unsupported
        };
        let judged = |least: Verdict| {
            self.features
                .iter()
                .filter(move |feature| feature.verdict(purpose) >= least)
        };
        // The worst comes first: what is only noted must not hide what cannot work at all.
        let worst = judged(limit).max_by_key(|f| (f.verdict(purpose), std::cmp::Reverse(f.rank)));
        let Some(first) = worst else {
            return Ok(judged(Verdict::Noted).map(Feature::line).collect());
        };
        let others: Vec<&str> = judged(limit)
            .map(|feature| feature.name)
            .filter(|name| *name != first.name)
            .collect();
        let also = match others.is_empty() {
            true => String::new(),
            false => format!("; also {}", others.join(", ")),
        };
        let why = match first.verdict(purpose) {
            Verdict::Unsupported => "",
            _ => "--strict refuses what is noted: ",
        };
        let slug = match first.verdict(purpose) {
            Verdict::Unsupported => first.slug(),
            _ => "noted-feature",
        };
        let message = format!("{why}{}{also}", first.line());
        let mut error = Error::new(ErrorKind::Unsupported, slug, message);
        if let Some(place) = first.paths.first() {
            error = error.at(&place.path);
            if let Some(id) = &place.id {
                error = error.about(id);
            }
        }
        Err(error)
    }
}
