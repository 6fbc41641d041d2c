//! The house rules as checks on the sources (docs/architecture.md): each runs on the project as it
//! is, and each is shown to fail on a planted violation.

mod documents;
mod generated;
mod imports;
mod lexer;
mod planted;
mod shape;
mod slugs;

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::Run;
use crate::support::oracle::project;

/// The project's text files by their path; a copy can be changed without touching the disk.
#[derive(Debug, Clone)]
struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads every file that git tracks or would track.
    fn load() -> Self {
        let run = Run::new("git").env("GIT_CONFIG_GLOBAL", "/dev/null").args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let finished = run.dir(project()).run();
        finished.exits(0);
        let names = finished.out();
        let files = names
            .split('\0')
            .filter(|name| !name.is_empty())
            .filter_map(|name| {
                let bytes = std::fs::read(project().join(name)).ok()?;
                Some((
                    name.to_owned(),
                    String::from_utf8_lossy(&bytes).into_owned(),
                ))
            })
            .collect();
        Self { files }
    }

    /// Returns the files below one of these folders with this ending.
    fn under<'t>(
        &'t self,
        folders: &'t [&str],
        ending: &'t str,
    ) -> impl Iterator<Item = (&'t str, &'t str)> {
        self.files
            .iter()
            .filter(move |(name, _)| {
                name.ends_with(ending) && folders.iter().any(|folder| name.starts_with(folder))
            })
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Returns the Rust files of the project.
    fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.under(&["src/", "fuse-tests/", "benches/"], ".rs")
    }

    /// Returns whether a path is a file or a folder of the project.
    fn has(&self, path: &Path) -> bool {
        let path = path.to_string_lossy();
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(&*path) || self.files.keys().any(|name| name.starts_with(&folder))
    }
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    file: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

/// Every check on the sources.
const CHECKS: &[Check] = &[
    imports::rooms_import_downwards,
    imports::exclusive_names,
    shape::at_most_400_lines,
    shape::opens_with_a_sentence,
    shape::ascii_and_100_columns,
    shape::every_file_is_a_module,
    shape::no_silenced_rules,
    shape::no_large_files,
    slugs::slugs_and_documents_agree,
    documents::requirements_exist,
    documents::links_resolve,
    documents::named_tests_exist,
];

fn all_findings(tree: &Tree) -> Vec<Finding> {
    CHECKS.iter().flat_map(|check| check(tree)).collect()
}

#[test]
fn the_project_keeps_its_house_rules() {
    let findings = all_findings(&Tree::load());
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}
