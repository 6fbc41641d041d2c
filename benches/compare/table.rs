//! Tables for people, in Markdown.

use std::fmt::Write;

use crate::checks::{Check, Verdict};
use crate::results::{Results, Spread, spread};

/// Returns a number with as many digits as it deserves.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || size >= 1000.0 {
        format!("{value:.0}")
    } else if size >= 100.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else if size >= 0.01 {
        format!("{value:.3}")
    } else {
        format!("{value:.5}")
    }
}

/// Returns the unit that people read `value` in, and the factor to it.
fn shown_in(value: f64, unit: &'static str) -> (&'static str, f64) {
    match unit {
        "bytes" => ("MiB", 1.0 / 1024.0 / 1024.0),
        "s" | "CPU s" if value.abs() < 0.1 => ("ms", 1000.0),
        "s" | "CPU s" => ("s", 1.0),
        "requests" => ("", 1.0),
        other => (other, 1.0),
    }
}

/// Returns the table of all checks.
pub(crate) fn checks(checks: &[Check]) -> String {
    let mut out = String::from(
        "| what | beside | must be | median | lowest | highest | verdict |\n|---|---|---|---|---|---|---|\n",
    );
    for check in checks {
        let word = if check.at_least {
            "at least"
        } else {
            "at most"
        };
        let (median, min, max) = match check.value {
            Some(Spread { min, median, max }) => (number(median), number(min), number(max)),
            None => Default::default(),
        };
        let verdict = match check.verdict {
            Verdict::Pass => "pass",
            Verdict::Miss => "**missed**",
            Verdict::NotMeasured => "not measured",
        };
        let (what, beside, limit, unit) =
            (&check.what, &check.beside, number(check.limit), check.unit);
        let _ = writeln!(
            out,
            "| {what} | {beside} | {word} {limit} {unit} | {median} | {min} | {max} | {verdict} |"
        );
    }
    out
}

/// The subjects that stand beside one another in the table of roots.
const ROOTS: [&str; 4] = ["forgefs", "checkout", "erofs", "squashfs"];
/// What the daemon did meanwhile, by the end of the group's name.
const DAEMON: [&str; 3] = [": requests", ": READ requests", ": CPU of the daemon"];

/// Returns median and spread of a series as people read them.
fn cell(results: &Results, group: &str, subject: &str) -> String {
    let series = results
        .series
        .iter()
        .find(|s| s.group == group && s.subject == subject);
    series
        .and_then(|series| {
            let Spread { min, median, max } = spread(&series.values)?;
            let (unit, factor) = shown_in(median, series.unit);
            let shown = |value: f64| number(value * factor);
            let range = if min == max {
                String::new()
            } else {
                format!(" ({} to {})", shown(min), shown(max))
            };
            Some(format!("{} {unit}{range}", shown(median)))
        })
        .unwrap_or_default()
}

/// Returns the groups that were measured on more roots than forgefs, in their order.
fn root_groups(results: &Results) -> Vec<&str> {
    let checkouts = results.series.iter().filter(|s| s.subject == "checkout");
    checkouts.map(|series| series.group.as_str()).collect()
}

/// Returns the table of walks and reads: a column for each root.
pub(crate) fn roots(results: &Results) -> String {
    let mut out = String::from(
        "| median (lowest to highest) | forgefs | checkout | erofs | squashfs | forgefs / checkout |\n\
         |---|---|---|---|---|---|\n",
    );
    for group in root_groups(results) {
        let _ = write!(out, "| {group} |");
        for root in ROOTS {
            let _ = write!(out, " {} |", cell(results, group, root));
        }
        let ratio = results.ratio((group, "forgefs"), (group, "checkout"));
        let ratio = ratio.map_or_else(String::new, |ratio| number(ratio.median));
        let _ = writeln!(out, " {ratio} |");
    }
    out
}

/// Returns the table of what the daemon was asked and spent, a row for each group.
pub(crate) fn daemon(results: &Results) -> String {
    let mut out = String::from(
        "| meanwhile, at the daemon | requests | READ requests | CPU |\n|---|---|---|---|\n",
    );
    for series in &results.series {
        let Some(group) = series.group.strip_suffix(DAEMON[2]) else {
            continue;
        };
        if series.subject != "forgefs" {
            continue;
        }
        let _ = write!(out, "| {group} |");
        for end in DAEMON {
            let cell = cell(results, &format!("{group}{end}"), "forgefs");
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
    }
    out
}

/// Returns the table of everything else, with forgefs' ratio to each other subject.
pub(crate) fn others(results: &Results) -> String {
    let mut out = String::from(
        "| what | of | median (lowest to highest) | rounds | forgefs / this |\n|---|---|---|---|---|\n",
    );
    let roots = root_groups(results);
    for series in &results.series {
        let (group, subject) = (series.group.as_str(), series.subject.as_str());
        let is_daemon = subject == "forgefs" && DAEMON.iter().any(|end| group.ends_with(end));
        if is_daemon || roots.contains(&group) {
            continue;
        }
        let ratio = if subject.starts_with("forgefs") {
            None
        } else {
            results.ratio((group, "forgefs"), (group, subject))
        };
        let ratio = ratio.map_or_else(String::new, |ratio| number(ratio.median));
        let (cell, rounds) = (cell(results, group, subject), series.values.len());
        let subject = subject.replace('|', "\\|");
        let _ = writeln!(out, "| {group} | {subject} | {cell} | {rounds} | {ratio} |");
    }
    out
}
