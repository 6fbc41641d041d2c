//! The slugs of errors: those in the code are those in `docs/errors.md`.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::is_test_file;
use super::lexer::without_tests;
use super::{Finding, Tree};

const PAGE: &str = "docs/errors.md";

/// Returns whether a text is a slug: kebab case, lower case.
fn is_slug(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Returns every slug of the sources with the place of its first use: a string literal that follows
/// an `ErrorKind`, or that is given to a function or field called `slug`.
fn slugs_in_code(tree: &Tree) -> BTreeMap<String, (String, usize)> {
    let mut slugs = BTreeMap::new();
    let sources = tree.under(&["src/"], ".rs");
    for (file, text) in sources.filter(|(file, _)| !is_test_file(tree, file)) {
        // What tests make up is no slug of the program.
        let text = without_tests(text);
        for (at, _) in text.match_indices("ErrorKind::") {
            let rest = &text[at + "ErrorKind::".len()..];
            let rest = rest.trim_start_matches(|c: char| c.is_alphanumeric());
            let Some(rest) = rest.strip_prefix(',') else {
                continue;
            };
            if let Some(slug) = literal(rest.trim_start()) {
                let line = text[..at].matches('\n').count() + 1;
                slugs
                    .entry(slug.to_owned())
                    .or_insert((file.to_owned(), line));
            }
        }
    }
    slugs
}

fn literal(text: &str) -> Option<&str> {
    let (slug, _) = text.strip_prefix('"')?.split_once('"')?;
    is_slug(slug).then_some(slug)
}

/// Returns the slugs of the page: the first cells of the tables whose first column is `slug`.
fn slugs_in_page(page: &str) -> BTreeMap<String, usize> {
    let mut slugs = BTreeMap::new();
    let mut in_table = false;
    for (index, line) in page.lines().enumerate() {
        let first = line
            .strip_prefix('|')
            .and_then(|rest| rest.split('|').next())
            .map(str::trim);
        match first {
            None => in_table = false,
            Some("slug") => in_table = true,
            Some(cell) if in_table => {
                let cell = cell.trim_matches('`');
                if is_slug(cell) {
                    slugs.insert(cell.to_owned(), index + 1);
                }
            }
            Some(_) => {}
        }
    }
    slugs
}

/// Every slug is documented, and no document names a slug that does not exist.
pub(super) fn slugs_and_documents_agree(tree: &Tree) -> Vec<Finding> {
    let page = tree.files.get(PAGE).map_or("", String::as_str);
    let documented = slugs_in_page(page);
    let used = slugs_in_code(tree);
    let mut findings = Vec::new();
    for (slug, (file, line)) in &used {
        if !documented.contains_key(slug) {
            findings.push(Finding::new(
                file,
                *line,
                format!("`{slug}` is not in {PAGE}"),
            ));
        }
    }
    let literals: BTreeSet<&str> = tree
        .under(&["src/"], ".rs")
        .flat_map(|(_, text)| text.split('"'))
        .collect();
    for (slug, line) in &documented {
        if !literals.contains(slug.as_str()) {
            findings.push(Finding::new(PAGE, *line, format!("no code says `{slug}`")));
        }
    }
    findings
}
