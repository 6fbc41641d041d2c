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
    } else {
        format!("{value:.4}")
    }
}

/// Returns value and unit as people read them.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "bytes" => format!("{} MiB", number(value / 1024.0 / 1024.0)),
        "s" | "CPU s" if value.abs() < 0.1 => format!("{} ms", number(value * 1000.0)),
        "s" | "CPU s" => format!("{} s", number(value)),
        "requests" => number(value),
        other => format!("{} {other}", number(value)),
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

/// Returns the table of everything that was measured, with forgefs' ratio to each other subject.
pub(crate) fn series(results: &Results) -> String {
    let mut out = String::from(
        "| what | of | median | lowest | highest | rounds | forgefs is |\n|---|---|---|---|---|---|---|\n",
    );
    for series in &results.series {
        let Some(Spread { min, median, max }) = spread(&series.values) else {
            continue;
        };
        let (group, subject) = (&series.group, series.subject.replace('|', "\\|"));
        let ratio = if series.subject.starts_with("forgefs") {
            String::new()
        } else {
            results
                .ratio((group, "forgefs"), (group, &series.subject))
                .map_or_else(String::new, |ratio| format!("{} x", number(ratio.median)))
        };
        let _ = writeln!(
            out,
            "| {group} | {subject} | {} | {} | {} | {} | {ratio} |",
            quantity(median, series.unit),
            quantity(min, series.unit),
            quantity(max, series.unit),
            series.values.len()
        );
    }
    out
}
