//! `forgefs ls`: what exists, live or dead, and whose (R42, R49).

use std::time::SystemTime;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{Context, Outcome};
use crate::error::Result;
use crate::mount::find::{FoundMount, MountState, find_mounts};
use crate::mount::record::{MountRecord, shown};
use crate::state::StateRoot;
use crate::workspace::{ListedLayer, SeedCache};

/// Lists forgefs mounts: live, dead, foreign, with commit, daemon and age.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  forgefs ls --json | jq '.mounts[] | select(.state == \"dead\")'"
)]
pub struct LsArgs {
    /// List mounts alone
    #[arg(long)]
    pub mounts: bool,
}

/// One mount, or one record without a mount.
#[derive(Debug, Serialize)]
struct Row {
    mountpoint: Option<String>,
    state: MountState,
    commit: Option<String>,
    tree: Option<String>,
    repo: Option<String>,
    pid: Option<u32>,
    age_s: Option<u64>,
    mnt_id: Option<u64>,
    connection: Option<u32>,
    source: Option<String>,
    owner: Option<String>,
    log: Option<String>,
    record: Option<String>,
    problem: Option<String>,
}

impl Row {
    fn new(found: FoundMount, now_s: u64) -> Self {
        let point = found.mount_point();
        let (entry, record) = (found.entry, found.record);
        let of_record = |field: fn(&MountRecord) -> &String| record.as_ref().map(field).cloned();
        Self {
            mountpoint: point.as_deref().map(shown),
            state: found.state,
            commit: of_record(|r| &r.commit),
            tree: of_record(|r| &r.tree),
            repo: of_record(|r| &r.repo),
            pid: record.as_ref().map(|r| r.pid),
            age_s: record.as_ref().map(|r| now_s.saturating_sub(r.created_s)),
            mnt_id: entry.as_ref().map(|e| e.id),
            connection: entry.as_ref().map(|e| e.device.1),
            source: entry
                .as_ref()
                .map(|e| e.source.to_string_lossy().into_owned()),
            owner: of_record(|r| &r.owner),
            log: record.as_ref().and_then(|r| r.log.clone()),
            record: found.record_name,
            problem: found.problem.map(|error| error.to_string()),
        }
    }

    fn line(&self) -> [String; 5] {
        let dash = || String::from("-");
        let escaped = |text: &String| text.escape_debug().to_string();
        let short = |id: &String| id.get(..12).unwrap_or(id).to_owned();
        let source = || {
            self.source
                .as_ref()?
                .strip_prefix("forgefs:")
                .map(String::from)
        };
        [
            self.state.word().to_owned(),
            self.commit
                .as_ref()
                .map(short)
                .or_else(source)
                .unwrap_or_else(dash),
            self.pid.map_or_else(dash, |pid| pid.to_string()),
            self.age_s.map_or_else(dash, age),
            self.mountpoint
                .as_ref()
                .or(self.record.as_ref())
                .map_or_else(dash, escaped),
        ]
    }
}

/// Runs the verb.
pub(super) fn run(context: &Context, _: &LsArgs) -> Result<Outcome> {
    let records = context.mount_records()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now_s = now.map_or(0, |since| since.as_secs());
    let rows: Vec<Row> = find_mounts(records.as_ref())?
        .into_iter()
        .map(|found| Row::new(found, now_s))
        .collect();
    for problem in rows.iter().filter_map(|row| row.problem.as_ref()) {
        context.out.note(problem);
    }
    let layers = layers(context)?;
    let mut text = match rows.is_empty() {
        true => String::new(),
        false => table(rows.iter().map(Row::line)),
    };
    for layer in layers.iter().filter(|layer| !layer.workspaces.is_empty()) {
        let short = layer.commit.get(..12).unwrap_or(&layer.commit);
        for workspace in &layer.workspaces {
            let workspace = workspace.escape_debug();
            text.push_str(&format!(
                "\nlayer of {short} ({}) held by {workspace}",
                layer.history
            ));
        }
    }
    let text = text.trim_start_matches('\n').to_owned();
    let record = json!({ "schema": "forgefs.ls/1", "mounts": rows, "layers": layers });
    context.out.data(&record, &text)?;
    Ok(Outcome::Done)
}

/// Returns the pack layers of the seed cache; `--mounts` leaves them out.
fn layers(context: &Context) -> Result<Vec<ListedLayer>> {
    let path = context.state_path()?;
    let Some(root) = StateRoot::open_existing(&path, context.env.home.as_deref())? else {
        return Ok(Vec::new());
    };
    match SeedCache::open_existing(&root)? {
        Some(cache) => cache.list(),
        None => Ok(Vec::new()),
    }
}

/// Lays rows out below a heading, each column as wide as its widest word, the last one free.
fn table(rows: impl Iterator<Item = [String; 5]>) -> String {
    let heading = ["STATE", "COMMIT", "PID", "AGE", "MOUNTPOINT"].map(String::from);
    let lines: Vec<[String; 5]> = std::iter::once(heading).chain(rows).collect();
    let mut widths = [0; 5];
    for line in &lines {
        for (width, word) in widths.iter_mut().zip(line) {
            *width = word.chars().count().max(*width);
        }
    }
    let laid_out = |line: &[String; 5]| {
        let padded: Vec<String> = widths
            .iter()
            .zip(line)
            .map(|(width, word)| format!("{word:<width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    lines.iter().map(laid_out).collect::<Vec<_>>().join("\n")
}

/// Says an age in its largest whole unit.
fn age(seconds: u64) -> String {
    [(86_400, 'd'), (3600, 'h'), (60, 'm')]
        .into_iter()
        .find(|(unit, _)| seconds >= *unit)
        .map_or_else(
            || format!("{seconds}s"),
            |(unit, letter)| format!("{}{letter}", seconds / unit),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_said_in_their_largest_whole_unit() {
        for (seconds, want) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (7199, "1h"),
            (200_000, "2d"),
        ] {
            assert_eq!(age(seconds), want);
        }
    }

    #[test]
    fn columns_line_up_and_the_last_is_free() {
        let row = |words: [&str; 5]| words.map(String::from);
        let rows = [
            row(["live", "0123456789ab", "7", "1s", "/a"]),
            row(["corrupt-record", "-", "-", "-", "/long/path"]),
        ];
        assert_eq!(
            table(rows.into_iter()),
            "STATE           COMMIT        PID  AGE  MOUNTPOINT\n\
             live            0123456789ab  7    1s   /a\n\
             corrupt-record  -             -    -    /long/path"
        );
    }
}
