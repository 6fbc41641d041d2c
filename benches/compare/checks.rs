//! The acceptance table of issue 3, row by row, as named checks.

use serde::Serialize;

use crate::bench::count_f64;
use crate::charge::{AFTER_WALK, DISK_USED, DURING_READ, VERIFY};
use crate::create::{CREATE, first_byte_group};
use crate::objects::{CPU, FORGEFS, GIX_96M, GIX_DEFAULT};
use crate::prove::{HASH_OBJECT, PROVE};
use crate::reads::CAT_FILE;
use crate::results::{Results, Spread, spread};

/// Whether a demand was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The median is within the limit.
    Pass,
    /// It is not.
    Miss,
    /// There is nothing to judge.
    NotMeasured,
}

/// One demand and what was measured.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Check {
    /// What, in the words of the table.
    pub(crate) what: String,
    /// Compared with what.
    pub(crate) beside: String,
    /// `at most` or `at least`.
    pub(crate) at_least: bool,
    /// The limit.
    pub(crate) limit: f64,
    /// The unit of limit and value: `x`, `ms`, `%`, `MiB`, `requests`.
    pub(crate) unit: &'static str,
    /// The median, with the lowest and highest of the rounds.
    pub(crate) value: Option<Spread>,
    /// The judgement.
    pub(crate) verdict: Verdict,
}

impl Check {
    /// Returns whether the demand was measured and not met.
    pub(crate) fn is_missed(&self) -> bool {
        self.verdict == Verdict::Miss
    }
}

/// Collects checks.
struct Judge<'a> {
    results: &'a Results,
    checks: Vec<Check>,
}

impl Judge<'_> {
    fn add(&mut self, what: &str, beside: &str, limit: f64, unit: &'static str, v: Option<Spread>) {
        self.push(what, beside, (false, limit), unit, v);
    }

    fn push(
        &mut self,
        what: &str,
        beside: &str,
        (at_least, limit): (bool, f64),
        unit: &'static str,
        value: Option<Spread>,
    ) {
        let verdict = match value {
            None => Verdict::NotMeasured,
            Some(v) if (v.median >= limit) == at_least || v.median == limit => Verdict::Pass,
            Some(_) => Verdict::Miss,
        };
        self.checks.push(Check {
            what: what.to_owned(),
            beside: beside.to_owned(),
            at_least,
            limit,
            unit,
            value,
            verdict,
        });
    }

    /// A ratio of two series that must be at most `limit`.
    fn ratio(&mut self, what: &str, top: (&str, &str), bottom: (&str, &str), limit: f64) {
        let value = self.results.ratio(top, bottom);
        self.add(what, bottom.1, limit, "x", value);
    }

    /// The same group of forgefs and a rival.
    fn beside(&mut self, group: &str, rival: &str, limit: f64) {
        self.ratio(group, (group, "forgefs"), (group, rival), limit);
    }

    fn scaled(&self, group: &str, subject: &str, factor: f64) -> Option<Spread> {
        let values = self.results.values(group, subject)?;
        let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
        spread(&scaled)
    }
}

const MIB: f64 = 1024.0 * 1024.0;
/// What `--cache-bytes` is unless given.
const CACHE_MIB: f64 = 64.0;

/// Facts that the memory limits are computed from.
pub(crate) const ENTRIES: &str = "entries of the main input, directories with them";
/// Bytes of all names.
pub(crate) const NAME_BYTES: &str = "bytes of all names of the main input";
/// The files that a full read reads.
pub(crate) const FILES: &str = "files of the main input";

/// Judges every row that was measured.
pub(crate) fn judge(results: &Results) -> Vec<Check> {
    let mut judge = Judge {
        results,
        checks: Vec::new(),
    };
    latency(&mut judge);
    cold(&mut judge);
    warm(&mut judge);
    objects(&mut judge);
    daemon(&mut judge);
    judge.checks
}

fn fact(results: &Results, name: &str) -> f64 {
    results.facts.get(name).copied().unwrap_or(0.0)
}

/// Returns the group of the first byte of the generated tree of so many thousand files, packed.
fn generated(results: &Results, thousands: u32) -> String {
    let plain = first_byte_group(&format!("{thousands}k-packed"));
    let tiny = first_byte_group(&format!("tiny-{thousands}k-packed"));
    if results.values(&tiny, "forgefs").is_some() {
        tiny
    } else {
        plain
    }
}

fn latency(judge: &mut Judge<'_>) {
    let main = ["linux", "tiny"].map(first_byte_group);
    let value = main
        .iter()
        .find_map(|group| judge.scaled(group, "forgefs", 1000.0));
    judge.add("command start to first byte", "", 10.0, "ms", value);
    let small = generated(judge.results, 10);
    let big = generated(judge.results, 500);
    judge.ratio(
        "command start to first byte, 500k files",
        (&big, "forgefs"),
        (&small, "forgefs"),
        1.5,
    );
    if let Some(check) = judge.checks.last_mut() {
        check.beside = "10k files".to_owned();
    }
    let rival = "git worktree add, 2 workers";
    let value = judge.results.ratio((CREATE, rival), (CREATE, "forgefs"));
    judge.push("sooner to the first byte", rival, (true, 500.0), "x", value);
}

fn cold(judge: &mut Judge<'_>) {
    judge.beside("cold walk", "checkout", 1.0);
    judge.beside("cold read, 1 reader", "checkout", 0.65);
    judge.beside("cold read, 1 reader", "erofs", 1.0);
    let files = fact(judge.results, FILES);
    for (group, limit, reads_limit) in [
        ("cached read, 1 reader", 1.5, 0.25),
        ("cached read, 2 readers", 1.25, 0.4),
    ] {
        judge.ratio(group, (group, "forgefs"), (CAT_FILE, "git"), limit);
        if let Some(check) = judge.checks.last_mut() {
            check.beside = "git cat-file --batch".to_owned();
        }
        let reads = format!("{group}: READ requests");
        let value = judge.scaled(&reads, "forgefs", 1.0 / files);
        judge.add(&reads, "files", reads_limit, "a file", value);
    }
    let slower = judge
        .results
        .ratio((VERIFY, "unverified"), (VERIFY, "verified"));
    // Of a ratio u/v of both walls, verification's share of the verified read is 1 - u/v.
    let share = slower.map(|ratio| Spread {
        min: (1.0 - ratio.max) * 100.0,
        median: (1.0 - ratio.median) * 100.0,
        max: (1.0 - ratio.min) * 100.0,
    });
    judge.add("verification's share of a cold read", "", 18.0, "%", share);
}

fn warm(judge: &mut Judge<'_>) {
    for group in ["warm walk", "warm read, 1 reader", "warm tar"] {
        judge.beside(group, "checkout", 1.05);
        let requests = format!("{group}: requests");
        let value = judge.scaled(&requests, "forgefs", 1.0);
        judge.add(&requests, "", 0.0, "requests", value);
    }
    judge.ratio(PROVE, (PROVE, "forgefs"), (PROVE, HASH_OBJECT), 0.6);
}

fn objects(judge: &mut Judge<'_>) {
    judge.ratio(CPU, (CPU, FORGEFS), (CPU, GIX_DEFAULT), 1.0);
    judge.ratio(CPU, (CPU, FORGEFS), (CPU, GIX_96M), 1.2);
}

fn daemon(judge: &mut Judge<'_>) {
    let entries = fact(judge.results, ENTRIES);
    let names = fact(judge.results, NAME_BYTES);
    let limit = 16.0 + (64.0 * entries + names) / MIB;
    let walked = judge.scaled(AFTER_WALK, "forgefs", 1.0 / MIB);
    judge.add(
        AFTER_WALK,
        "16 MiB + 64 B an entry + names",
        limit,
        "MiB",
        walked,
    );
    let read = judge.scaled(DURING_READ, "forgefs", 1.0 / MIB);
    let limit = limit + CACHE_MIB;
    judge.add(DURING_READ, "the same + --cache-bytes", limit, "MiB", read);
    let disk = judge.scaled(DISK_USED, "forgefs: content", 1.0 / MIB);
    judge.add("disk used for content", "", 0.0, "MiB", disk);
}

/// Notes the facts that [`judge`] needs.
pub(crate) fn note_facts(results: &mut Results, input: &crate::inputs::Input) {
    let mut note = |name: &str, value: u64| {
        results.facts.insert(name.to_owned(), count_f64(value));
    };
    note(ENTRIES, input.entries_total);
    note(NAME_BYTES, input.name_bytes);
    note(FILES, input.files().count() as u64);
}
