//! Who may import whom, and which names belong to one room alone, as data.

use super::lexer::{code_of, without_tests, words};
use super::{Finding, Tree};

/// A room, what it may import, and why not the rest.
struct Room {
    name: &'static str,
    may: &'static [&'static str],
    why: &'static str,
}

const ROOMS: &[Room] = &[
    Room {
        name: "error",
        may: &[],
        why: "every room stands on it",
    },
    Room {
        name: "fault",
        may: &["error"],
        why: "fault points know nothing of what fails",
    },
    Room {
        name: "budget",
        may: &["error"],
        why: "caps know nothing of what they cap",
    },
    Room {
        name: "sys",
        may: &["error"],
        why: "system calls know nothing of git or of mounts",
    },
    Room {
        name: "git",
        may: &["error", "budget", "fault", "sys"],
        why: "git's formats know nothing of who reads them",
    },
    Room {
        name: "state",
        may: &["error", "fault", "sys"],
        why: "records know nothing of git",
    },
    Room {
        name: "snapshot",
        may: &["error", "budget", "git", "sys"],
        why: "a snapshot knows no kernel and no path on disk",
    },
    Room {
        name: "mount",
        may: &["error", "fault", "sys", "state", "snapshot"],
        why: "the kernel side is given a snapshot and opens no repository",
    },
    Room {
        name: "prove",
        may: &["error", "budget", "git", "sys"],
        why: "the prover never takes the daemon's word (R28): no snapshot, mount or state",
    },
    Room {
        name: "materialise",
        may: &["error", "budget", "fault", "git", "sys"],
        why: "files are written from verified objects, not from a mount",
    },
    Room {
        name: "workspace",
        may: &[
            "error",
            "budget",
            "fault",
            "git",
            "sys",
            "state",
            "materialise",
        ],
        why: "a private repository knows no mount, no snapshot and no proof",
    },
    Room {
        name: "survey",
        may: &["error", "budget", "git", "sys"],
        why: "a survey reads objects and nothing that is mounted",
    },
    Room {
        name: "doctor",
        may: &[
            "error", "budget", "git", "sys", "state", "survey", "mount", "prove",
        ],
        why: "doctor reports and does not talk to people",
    },
    Room {
        name: "cli",
        may: &[
            "error",
            "budget",
            "fault",
            "git",
            "sys",
            "state",
            "snapshot",
            "mount",
            "prove",
            "survey",
            "doctor",
            "materialise",
            "workspace",
        ],
        why: "cli imports what it likes",
    },
];

/// A crate or path that only some rooms may name.
struct Exclusive {
    path: &'static str,
    rooms: &'static [&'static str],
    why: &'static str,
}

const EXCLUSIVES: &[Exclusive] = &[
    alone("gix", &["git"], "only git knows git's formats"),
    alone("gix_hash", &["git"], "only git knows git's formats"),
    alone("libdeflater", &["git"], "only git inflates"),
    alone("flate2", &["git"], "only git inflates"),
    alone("fuser", &["mount"], "only mount speaks FUSE"),
    alone(
        "rustix",
        &["sys", "error"],
        "only sys makes system calls; error converts Errno",
    ),
    alone("libc", &["sys"], "only sys makes system calls"),
    alone(
        "lru",
        &["git", "snapshot"],
        "caches live where their bytes are made",
    ),
    alone("clap", &["cli"], "only cli talks to people"),
    alone("clap_complete", &["cli"], "only cli talks to people"),
    alone("clap_mangen", &["cli"], "only cli talks to people"),
    alone("indicatif", &["cli"], "only cli talks to people"),
    alone(
        "tracing_subscriber",
        &["cli"],
        "the library never installs a subscriber",
    ),
    alone(
        "std::env",
        &["cli", "sys"],
        "only cli reads the environment; sys knows our own program",
    ),
    alone(
        "std::process::Command",
        &["sys"],
        "programs are started by sys::process alone (R13)",
    ),
    alone(
        "process::Command",
        &["sys"],
        "programs are started by sys::process alone (R13)",
    ),
];

const fn alone(path: &'static str, rooms: &'static [&'static str], why: &'static str) -> Exclusive {
    Exclusive { path, rooms, why }
}

/// Macros and words with a home of their own.
const WORDS: &[(&str, &[&str], &str)] = &[
    ("unsafe", &["sys"], "unsafe code lives in sys"),
    ("println", &["cli"], "only cli prints"),
    ("print", &["cli"], "only cli prints"),
    ("eprintln", &["cli"], "only cli prints"),
    ("eprint", &["cli"], "only cli prints"),
];

/// Returns the room of a file of `src/`; the crate's two roots have none.
fn room_of(file: &str) -> Option<&str> {
    let rest = file.strip_prefix("src/")?;
    let room = rest.split(['/', '.']).next()?;
    (room != "main" && room != "lib").then_some(room)
}

/// Returns whether a file is a module of tests: the file that names it says `#[cfg(test)]` first.
pub(super) fn is_test_file(tree: &Tree, file: &str) -> bool {
    let path = std::path::Path::new(file);
    let name = path
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default();
    let owner = path.with_file_name("mod.rs");
    let declaration = format!("#[cfg(test)]\nmod {name};");
    tree.files
        .get(&*owner.to_string_lossy())
        .is_some_and(|text| text.contains(&declaration))
}

/// Returns the rooms that a file of this crate names, with the line of each.
fn imported(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            found.extend(heads_of_group(group).into_iter().map(|name| (line, name)));
        } else if let Some(name) = words(rest).next() {
            found.push((line, name.to_owned()));
        }
    }
    found
}

/// Returns the first word of each item of `{a::b, c, d::{e, f}}`, after the opening brace.
fn heads_of_group(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let (mut depth, mut item) = (0_usize, String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.push(std::mem::take(&mut item)),
            _ => item.push(c),
        }
    }
    heads.push(item);
    heads
        .iter()
        .filter_map(|item| words(item).next().map(str::to_owned))
        .collect()
}

/// A room imports only rooms that stand below it.
pub(super) fn rooms_import_downwards(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.under(&["src/"], ".rs") {
        let Some(name) = room_of(file) else { continue };
        let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
            findings.push(Finding::new(
                file,
                1,
                format!("`{name}` is no room of the table"),
            ));
            continue;
        };
        for (line, other) in imported(&code_of(text)) {
            let known = ROOMS.iter().any(|room| room.name == other);
            if known && other != name && !room.may.contains(&other.as_str()) {
                let what = format!("{name} must not import {other}: {}", room.why);
                findings.push(Finding::new(file, line, what));
            }
        }
        if code_of(text).contains("super::super::super::super") {
            findings.push(Finding::new(
                file,
                1,
                "name rooms from `crate::`, not upwards",
            ));
        }
    }
    findings
}

/// Some crates and words belong to one room.
pub(super) fn exclusive_names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.under(&["src/"], ".rs") {
        let Some(room) = room_of(file).filter(|_| !is_test_file(tree, file)) else {
            continue;
        };
        for (index, line) in code_of(without_tests(text)).lines().enumerate() {
            for name in EXCLUSIVES.iter().filter(|e| !e.rooms.contains(&room)) {
                if names_path(line, name.path) {
                    let what = format!("{room} must not name {}: {}", name.path, name.why);
                    findings.push(Finding::new(file, index + 1, what));
                }
            }
            for (word, rooms, why) in WORDS.iter().filter(|(_, rooms, _)| !rooms.contains(&room)) {
                if words(line).any(|w| w == *word) {
                    let what = format!("{room} must not say {word} ({}): {why}", rooms.join(", "));
                    findings.push(Finding::new(file, index + 1, what));
                }
            }
        }
    }
    findings
}

/// Returns whether a line has the path `path`, as the start of a path or the whole of an import.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = &line[at + path.len()..];
        let starts = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
        let local = path.contains("::") && before == Some(':') && !line[..at].ends_with("crate::");
        let ends = match after.chars().next() {
            Some(':') => after.starts_with("::"),
            Some(';') => line.trim_start().starts_with("use "),
            Some('(' | ' ' | '{' | '}' | ',') | None => path.contains("::"),
            _ => false,
        };
        (starts || local) && ends
    })
}
