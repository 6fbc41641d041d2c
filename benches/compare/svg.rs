//! The plot: groups of bars, written by hand, so that no program and no network is needed.

use std::fmt::Write;

use crate::results::{Results, spread};
use crate::table::number;

/// What the plot shows, in its order.
const GROUPS: [&str; 7] = [
    "ready to read",
    "cold walk",
    "cold read, 1 reader",
    "cold read, 2 readers",
    "warm read, 1 reader",
    "warm tar",
    "proof, warm, 2 threads",
];

const WIDTH: u32 = 860;
const LABELS: u32 = 300;
const BAR: u32 = 16;
const GAP: u32 = 6;
const TITLE: u32 = 30;

/// Returns the plot as SVG: in each group the longest bar fills the width, and every bar says its
/// median in seconds; the thin line goes from the lowest to the highest.
pub(crate) fn plot(results: &Results) -> String {
    let mut body = String::new();
    let mut y = 10;
    for group in GROUPS {
        let bars: Vec<_> = results
            .series
            .iter()
            .filter(|s| s.group == group && s.unit == "s")
            .filter_map(|s| Some((s.subject.as_str(), spread(&s.values)?)))
            .collect();
        let longest = bars.iter().map(|(_, s)| s.max).fold(0.0, f64::max);
        if longest <= 0.0 {
            continue;
        }
        y += TITLE;
        let _ = writeln!(
            body,
            "<text x=\"10\" y=\"{}\" class=\"t\">{}</text>",
            y - 10,
            escape(group)
        );
        for (subject, s) in bars {
            let room = f64::from(WIDTH - LABELS - 90);
            let x = |value: f64| f64::from(LABELS) + room * value / longest;
            let class = if subject == "forgefs" { "f" } else { "r" };
            let middle = y + BAR / 2;
            let _ = writeln!(
                body,
                "<text x=\"{}\" y=\"{}\" class=\"l\">{}</text>\
                 <rect x=\"{LABELS}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\" \
                 class=\"{class}\"/>\
                 <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\" class=\"s\"/>\
                 <text x=\"{:.1}\" y=\"{}\">{}</text>",
                LABELS - 8,
                y + 13,
                escape(subject),
                (x(s.median) - f64::from(LABELS)).max(1.0),
                x(s.min),
                x(s.max),
                x(s.max) + 6.0,
                y + 13,
                seconds(s.median),
            );
            y += BAR + GAP;
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <style>.t{{font-weight:bold}}.l{{text-anchor:end}}.f{{fill:#1b7f5c}}.r{{fill:#9aa5b1}}\
         .s{{stroke:#333}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n",
        height = y + 10
    )
}

fn seconds(value: f64) -> String {
    if value < 0.1 {
        format!("{} ms", number(value * 1000.0))
    } else {
        format!("{} s", number(value))
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
