//! One row of the report on the host, and how the files that it rests on are read.

use std::io::Read;
use std::path::Path;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowState {
    /// As wanted.
    Ok,
    /// It works without, or with a limit that the sentence names.
    Noted,
    /// Nothing can be mounted without it.
    Missing,
}

/// One row on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostRow {
    /// Its name, the key in the record.
    #[serde(skip)]
    pub name: &'static str,
    /// How it stands.
    pub state: RowState,
    /// One sentence for people.
    pub detail: String,
    /// The exact line that mends it, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A row of something that is as wanted.
pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> HostRow {
    HostRow {
        name,
        state: RowState::Ok,
        detail: detail.into(),
        fix: None,
    }
}

/// A row with a remark.
pub(super) fn noted(name: &'static str, detail: impl Into<String>) -> HostRow {
    HostRow {
        state: RowState::Noted,
        ..ok(name, detail)
    }
}

impl HostRow {
    /// Adds the line that mends it.
    pub(super) fn mended_by(mut self, line: impl Into<String>) -> Self {
        self.fix = Some(line.into());
        self
    }
}

/// Writes the rows as one object, keyed by name.
pub(super) fn as_map<S: Serializer>(rows: &[HostRow], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(rows.len()))?;
    for row in rows {
        map.serialize_entry(row.name, row)?;
    }
    map.end()
}

/// Returns the start of a small file, nothing where it cannot be read.
pub(super) fn read_text(root: &Path, path: &str) -> String {
    let mut text = Vec::new();
    let read = std::fs::File::open(root.join(path))
        .and_then(|file| file.take(1 << 20).read_to_end(&mut text));
    match read {
        Ok(_) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => String::new(),
    }
}
