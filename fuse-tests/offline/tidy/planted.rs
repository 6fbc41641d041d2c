//! Each check of the house rules is itself shown to fail: violations planted in a copy.

use super::{Tree, all_findings};

/// Where a violation is planted, what it is, and what must be said about it.
const PLANTED: &[(&str, &str, &str)] = &[
    (
        "src/prove/planted.rs",
        "use crate::snapshot::Snapshot;\n",
        "prove must not import snapshot",
    ),
    (
        "src/prove/planted.rs",
        "use crate::{error::Error, mount};\n",
        "prove must not import mount",
    ),
    (
        "src/prove/planted.rs",
        "fn f() { crate::state::f() }\n",
        "prove must not import state",
    ),
    (
        "src/mount/planted.rs",
        "use crate::git::Oid;\n",
        "mount must not import git",
    ),
    (
        "src/git/planted.rs",
        "use crate::snapshot::Ino;\n",
        "git must not import snapshot",
    ),
    (
        "src/sys/planted.rs",
        "use crate::cli::Env;\n",
        "sys must not import cli",
    ),
    (
        "src/parlour/mod.rs",
        "//! A room.\n",
        "`parlour` is no room",
    ),
    (
        "src/prove/planted.rs",
        "use gix::ObjectId;\n",
        "prove must not name gix",
    ),
    (
        "src/snapshot/planted.rs",
        "fn f() -> gix::Oid {}\n",
        "snapshot must not name gix",
    ),
    (
        "src/snapshot/planted.rs",
        "use fuser;\n",
        "snapshot must not name fuser",
    ),
    (
        "src/git/planted.rs",
        "use rustix::fs::openat;\n",
        "git must not name rustix",
    ),
    (
        "src/git/planted.rs",
        "fn f() { unsafe { g() } }\n",
        "git must not say unsafe",
    ),
    (
        "src/git/planted.rs",
        "fn f() { println!(\"x\") }\n",
        "git must not say println",
    ),
    (
        "src/git/planted.rs",
        "use std::env;\n",
        "git must not name std::env",
    ),
    (
        "src/git/planted.rs",
        "fn f() { std::env::var(\"X\") }\n",
        "git must not name std::env",
    ),
    (
        "src/mount/planted.rs",
        "use std::process::Command;\n",
        "mount must not name process::Command",
    ),
    (
        "src/git/planted.rs",
        "fn f() {}\n",
        "no `mod` line names this file",
    ),
    (
        "fuse-tests/offline/planted.rs",
        "fn f() {}\n",
        "no `mod` line names this file",
    ),
    (
        "src/git/planted.rs",
        "#[allow(dead_code)]\nfn f() {}\n",
        "use #[expect",
    ),
    (
        "fuse-tests/kernel/planted.rs",
        "#[ignore]\nfn f() {}\n",
        "no ignored test",
    ),
    ("src/git/planted.rs", "// na\u{ef}ve\n", "not ASCII"),
    (
        "src/git/planted.rs",
        "fn r999_is_not_there() {}\n",
        "no requirement r999",
    ),
    ("docs/planted.md", "see R135\n", "no requirement R135"),
    (
        "docs/planted.md",
        "[gone](no-such.md)\n",
        "no file no-such.md",
    ),
    (
        "docs/planted.md",
        "# Here\n[gone](#there)\n",
        "no heading #there",
    ),
    (
        "docs/planted.md",
        "proved by `no_test_has_this_name`\n",
        "no test no_test_has_this_name",
    ),
    (
        "src/git/planted.rs",
        "fn f() { Error::new(ErrorKind::Io, \"planted-slug\", \"x\") }\n",
        "`planted-slug` is not in docs/errors.md",
    ),
    (
        "docs/errors.md",
        "\n| slug | means |\n|---|---|\n| `planted-slug` | x |\n",
        "no code says",
    ),
];

/// Returns the project without most of its files: enough for every check, and quick to look at.
fn outline() -> Tree {
    let mut tree = Tree::load();
    tree.files.retain(|name, _| {
        let is_root = ["mod.rs", "main.rs", "lib.rs"]
            .iter()
            .any(|root| name.ends_with(root));
        is_root && !name.starts_with("benches/") || name == "docs/errors.md"
    });
    tree
}

#[test]
fn every_check_fails_on_a_planted_violation() {
    let clean = outline();
    let before = all_findings(&clean);
    let mut plants: Vec<(String, String, String)> = PLANTED
        .iter()
        .map(|(file, text, said)| {
            let head = if file.ends_with(".rs") {
                "//! Planted.\n"
            } else {
                ""
            };
            (
                (*file).to_owned(),
                format!("{head}{text}"),
                (*said).to_owned(),
            )
        })
        .collect();
    let file = String::from("src/git/planted.rs");
    let long = format!("//! Planted.\n{}", "\n".repeat(400));
    plants.push((file.clone(), long, "at most 400".into()));
    let wide = format!("//! Planted.\nfn f() {{ {} }}\n", "g(); ".repeat(20));
    plants.push((file.clone(), wide, "at most 100".into()));
    let large = format!("//! Planted.\n{}", "// x\n".repeat(60_000));
    plants.push((file.clone(), large, "over 256 KiB".into()));
    plants.push((file, "fn f() {}\n".into(), "opens with no".into()));
    for (file, text, said) in plants {
        let mut tree = clean.clone();
        tree.files.entry(file.clone()).or_default().push_str(&text);
        let mut found = all_findings(&tree);
        found.retain(|finding| !before.contains(finding) && finding.file == file);
        assert!(
            found.iter().any(|finding| finding.what.contains(&said)),
            "planted in {file}:\n{text}\nexpected {said:?}, found {found:?}"
        );
    }
}

#[test]
fn what_is_allowed_is_not_found() {
    let clean = outline();
    let before = all_findings(&clean);
    for (file, text) in [
        ("src/mount/mod.rs", "use crate::snapshot::Snapshot;\n"),
        (
            "src/git/mod.rs",
            "// use crate::snapshot; unsafe println fuser::x\n",
        ),
        (
            "src/git/mod.rs",
            "const X: &str = \"crate::snapshot unsafe fuser::x\";\n",
        ),
        ("src/git/mod.rs", "use gix::ObjectId as PlantedId;\n"),
        ("src/sys/mod.rs", "fn planted() { rustix::fs::sync() }\n"),
    ] {
        let mut tree = clean.clone();
        let old = tree.files.get(file).cloned().unwrap_or_default();
        tree.files.insert(file.to_owned(), format!("{old}{text}"));
        let mut found = all_findings(&tree);
        found.retain(|finding| !before.contains(finding));
        found.retain(|finding| !finding.what.contains("at most 400"));
        assert!(found.is_empty(), "{text}: {found:?}");
    }
}
