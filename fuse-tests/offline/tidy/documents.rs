//! What documents and test names promise: requirement numbers, links, named tests.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::lexer::{code_of, words};
use super::{Finding, Tree};

/// The requirements are R1 to R134.
const REQUIREMENT_MAX: u32 = 134;

/// A requirement that a test or a comment names exists.
pub(super) fn requirements_exist(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sources = tree
        .rust()
        .filter(|(file, _)| !file.ends_with("tidy/planted.rs"));
    for (file, text) in sources.chain(tree.under(&["docs/"], ".md")) {
        for (index, line) in text.lines().enumerate() {
            for word in words(line) {
                let number = word
                    .strip_prefix('R')
                    .or_else(|| word.strip_prefix('r').filter(|rest| rest.contains('_')))
                    .and_then(|rest| rest.split('_').next())
                    .filter(|digits| !digits.starts_with('0'))
                    .and_then(|digits| digits.parse::<u32>().ok());
                if number.is_some_and(|n| n == 0 || n > REQUIREMENT_MAX) {
                    findings.push(Finding::new(
                        file,
                        index + 1,
                        format!("no requirement {word}"),
                    ));
                }
            }
        }
    }
    findings
}

/// Returns the Markdown files of the project.
fn pages(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.files
        .iter()
        .filter(|(name, _)| name.ends_with(".md"))
        .map(|(name, text)| (name.as_str(), text.as_str()))
}

/// Returns the lines of a page outside fenced code, numbered.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// Returns the anchor that a heading gets.
fn anchor(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Resolves `link` as seen from the page `from`, without the disk.
fn resolve(from: &str, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    let folder = Path::new(from).parent().expect("a folder");
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// Every relative link leads to a file, and to a heading where it names one.
pub(super) fn links_resolve(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in pages(tree) {
        for (line_number, line) in prose(text) {
            for (at, _) in line.match_indices("](") {
                let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, heading) = target.split_once('#').unwrap_or((target, ""));
                let page = if path.is_empty() {
                    PathBuf::from(file)
                } else {
                    resolve(file, path)
                };
                if !tree.has(&page) {
                    findings.push(Finding::new(file, line_number, format!("no file {target}")));
                } else if !heading.is_empty() {
                    let text = tree.files.get(&*page.to_string_lossy());
                    let known = text.is_some_and(|text| {
                        prose(text).any(|(_, l)| l.starts_with('#') && anchor(l) == heading)
                    });
                    if !known {
                        let what = format!("no heading {target}");
                        findings.push(Finding::new(file, line_number, what));
                    }
                }
            }
        }
    }
    findings
}

/// Every test that a document names exists: a word in backquotes that looks like one, that is with
/// at least three underscores, or `room::name` after "proved by" or in a table of tests.
pub(super) fn named_tests_exist(tree: &Tree) -> Vec<Finding> {
    let functions: BTreeSet<String> = tree
        .rust()
        .flat_map(|(_, text)| {
            let code = code_of(text);
            let mut names = Vec::new();
            for line in code.lines() {
                let mut words = words(line).skip_while(|word| *word != "fn").skip(1);
                names.extend(words.next().map(str::to_owned));
            }
            names
        })
        .collect();
    let mut findings = Vec::new();
    for (file, text) in pages(tree) {
        for (line_number, line) in prose(text) {
            for quoted in line.split('`').skip(1).step_by(2) {
                let name = quoted.rsplit("::").next().unwrap_or_default();
                let is_test = name.matches('_').count() >= 3
                    && name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                if is_test && !functions.contains(name) {
                    findings.push(Finding::new(file, line_number, format!("no test {quoted}")));
                }
            }
        }
    }
    findings
}
