//! One row of the survey: a feature, whether it is there, what becomes of it, and where.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::Purpose;
use crate::git::Oid;

/// What becomes of a feature (R90).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As a checkout by git would have it, or of no consequence.
    Supported,
    /// It works, and differs from what some may expect: one line, refused with `--strict`.
    Noted,
    /// It cannot be right: refused.
    Unsupported,
}

/// Where a feature was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// A path in the commit, or the name of a file or setting of the repository. A path that is not
    /// UTF-8 is written with `\xNN` for each byte that is not ASCII.
    pub path: String,
    /// The id of the object there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What is remarkable about it, for instance the mode or the broken rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}

/// How many places a row lists; it counts all.
pub(super) const PLACES_MAX: usize = 20;

/// Places that are counted, and of which the first are kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub(super) count: u64,
    pub(super) first: Vec<Place>,
}

impl Places {
    /// Adds a place; `what` is asked for only where it is kept.
    pub(super) fn add(&mut self, path: &[u8], id: Option<&Oid>, what: Option<String>) {
        self.count = self.count.saturating_add(1);
        if self.first.len() < PLACES_MAX {
            self.first.push(Place {
                path: shown(path),
                id: id.map(ToString::to_string),
                what,
            });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Returns bytes as text, `.` for the root: as they are where they are UTF-8, else with `\xNN`.
fn shown(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok("") => ".".into(),
        Ok(text) => text.to_owned(),
        Err(_) => path.escape_ascii().to_string(),
    }
}

/// Returns text that changes nothing on a terminal: control and invisible characters are escaped.
#[must_use]
pub fn printable(text: &str) -> String {
    let plain = |c: char| matches!(c, '"' | '\'' | '\\');
    text.chars()
        .flat_map(|c| {
            let escaped = (!plain(c)).then(|| c.escape_debug());
            escaped.into_iter().flatten().chain(plain(c).then_some(c))
        })
        .collect()
}

/// One row.
#[derive(Debug, Clone, Serialize)]
pub struct Feature {
    /// Its name, the key in the record.
    #[serde(skip)]
    pub name: &'static str,
    /// Its place in the table.
    #[serde(skip)]
    pub(super) rank: usize,
    /// Whether it was found.
    pub present: bool,
    /// What becomes of it in a snapshot.
    pub snapshot: Verdict,
    /// What becomes of it in a seed.
    pub seed: Verdict,
    /// How many places were found; a directory that stands at several places is counted once.
    pub count: u64,
    /// The first 20 places.
    pub paths: Vec<Place>,
    /// One sentence for people.
    pub detail: String,
}

impl Feature {
    /// Returns the verdict for a purpose.
    #[must_use]
    pub fn verdict(&self, purpose: Purpose) -> Verdict {
        match purpose {
            Purpose::Snapshot => self.snapshot,
            Purpose::Seed => self.seed,
        }
    }

    /// Returns the row as one line: name, sentence, first path.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("{}: {}", self.name, self.detail);
        if let Some(place) = self.paths.first() {
            let more = match self.count.saturating_sub(1) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let what = match &place.what {
                Some(what) => format!(", {}", printable(what)),
                None => String::new(),
            };
            line.push_str(&format!(" ({}{what}{more})", printable(&place.path)));
        }
        line
    }

    /// Returns the stable identifier of the refusal of this row.
    pub(super) fn slug(&self) -> &'static str {
        match self.name {
            "bad-trees" => "bad-tree",
            "missing-objects" => "missing-objects",
            "corrupt-objects" => "corrupt-objects",
            "partial" => "promised-objects",
            _ => "unsupported-feature",
        }
    }
}

/// Writes the rows as one object, keyed by name, so that `jq .features.submodules` finds one (R25).
pub(super) fn as_map<S: Serializer>(rows: &[Feature], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(rows.len()))?;
    for row in rows {
        map.serialize_entry(row.name, row)?;
    }
    map.end()
}
