//! The shape of a file: its length, its first line, its characters, its place in the module tree.

use super::lexer::{code_of, words};
use super::{Finding, Tree};

/// A file that a person reads in one go.
pub(super) fn at_most_400_lines(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|(_, text)| text.lines().count() > 400)
        .map(|(file, text)| {
            let what = format!("{} lines; at most 400", text.lines().count());
            Finding::new(file, 401, what)
        })
        .collect()
}

/// Every file opens with what it owns.
pub(super) fn opens_with_a_sentence(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(file, _)| Finding::new(file, 1, "opens with no `//!` sentence"))
        .collect()
}

/// Code is ASCII, lines are at most 100 columns.
pub(super) fn ascii_and_100_columns(tree: &Tree) -> Vec<Finding> {
    let scripts = tree.under(&["scripts/", ".ci/"], "");
    let mut findings = Vec::new();
    for (file, text) in tree.rust().chain(scripts) {
        for (index, line) in text.lines().enumerate() {
            if !line.is_ascii() {
                findings.push(Finding::new(file, index + 1, "not ASCII"));
            }
            let columns_max = if file.ends_with(".rs") { 100 } else { 120 };
            let columns = line.chars().count();
            if columns > columns_max && !is_unbreakable(line) {
                let what = format!("{columns} columns; at most {columns_max}");
                findings.push(Finding::new(file, index + 1, what));
            }
        }
    }
    findings
}

/// Long strings, links and rows of tables cannot be broken.
fn is_unbreakable(line: &str) -> bool {
    let is_row = line.trim_start().starts_with("//! |");
    line.contains('"') || line.contains("https://") || is_row
}

/// A file that no `mod` line names is never compiled, so its tests never run.
pub(super) fn every_file_is_a_module(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        let path = std::path::Path::new(file);
        let stem = path
            .file_stem()
            .and_then(|s| s.to_str())
            .unwrap_or_default();
        if matches!(stem, "main" | "lib") {
            continue;
        }
        let mut folder = path.parent().expect("a folder");
        let mut name = stem;
        if stem == "mod" {
            name = folder
                .file_name()
                .and_then(|s| s.to_str())
                .unwrap_or_default();
            folder = folder.parent().expect("a folder");
        }
        let is_named = ["mod.rs", "main.rs", "lib.rs"].iter().any(|owner| {
            let owner = folder.join(owner);
            tree.files
                .get(&*owner.to_string_lossy())
                .is_some_and(|text| declares(text, name))
        });
        let is_support = file == "fuse-tests/support/mod.rs" || file.contains("/fuzz/");
        if !is_named && !is_support {
            findings.push(Finding::new(file, 1, "no `mod` line names this file"));
        }
    }
    findings
}

fn declares(text: &str, name: &str) -> bool {
    code_of(text).lines().any(|line| {
        let mut words = words(line).skip_while(|word| *word != "mod").skip(1);
        words.next() == Some(name)
    })
}

/// An exception is `expect` with a reason; a test that cannot run says so (support/need.rs).
pub(super) fn no_silenced_rules(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.rust().filter(|(file, _)| !file.contains("/support/")) {
        for (index, line) in code_of(text).lines().enumerate() {
            let line = line.trim_start();
            for (start, what) in [
                ("#[allow(", "use #[expect(.., reason = ..)]"),
                ("#![allow(", "use #![expect(.., reason = ..)]"),
                ("#[ignore", "no ignored test: use need!"),
                ("#[should_panic", "no should_panic: look at the result"),
            ] {
                if line.starts_with(start) {
                    findings.push(Finding::new(file, index + 1, what));
                }
            }
        }
    }
    findings
}

/// A repository is not for binaries.
pub(super) fn no_large_files(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter(|(_, text)| text.len() > 256 * 1024)
        .map(|(file, _)| Finding::new(file, 1, "over 256 KiB"))
        .collect()
}
