//! `forgefs doctor` as scripts see it: rows, exit codes, and nothing started (R89..R96, R10, R13).

use crate::support::Entry;
use crate::support::bad_trees::bad_trees;
use crate::support::plants::plant_substitutions;
use crate::support::{Host, Repo, need};

/// The features of R89.
const FEATURES: [&str; 15] = [
    "submodules",
    "lfs",
    "filters",
    "eol-encoding",
    "ident-export",
    "sparse",
    "partial",
    "shallow",
    "substitution",
    "alternates",
    "object-format",
    "ref-storage",
    "noncanonical-modes",
    "bad-trees",
    "long-names",
];

#[test]
fn r89_every_row_has_a_value_in_text_and_in_json() {
    let host = Host::new();
    for format in ["sha1", "sha256"] {
        let repo = Repo::init(&host.path(format), format);
        let commit_id = repo.commit_files(&[("f", b"hello\n")]);
        let run = host.forgefs(["doctor"]).arg(repo.path()).arg(&commit_id);
        let finished = run.run();
        finished.exits(0);
        let record = run.arg("--json").run();
        record.exits(0);
        let record = record.json();
        assert_eq!(record["schema"], "forgefs.doctor/1");
        assert_eq!(record["object_format"], format);
        assert_eq!(record["verdict"], "supported");
        for name in FEATURES {
            let row = &record["features"][name];
            assert!(row["present"].is_boolean(), "{name}: {row}");
            assert!(row["paths"].is_array(), "{name}: {row}");
            assert!(row["detail"].is_string(), "{name}: {row}");
            for column in ["snapshot", "seed"] {
                assert_eq!(row[column], "supported", "{name}: {row}");
            }
            assert!(finished.out().contains(name), "{}", finished.report());
        }
    }
}

#[test]
fn r10_each_bad_tree_is_refused_with_its_path() {
    let host = Host::new();
    let repo = host.repo("repo");
    for bad in bad_trees(&repo) {
        for (commit_id, path) in [(&bad.deep_id, "deep/bad"), (&bad.root_id, ".")] {
            let run = host.forgefs(["doctor", "--json"]);
            let finished = run.arg(repo.path()).arg(commit_id).run();
            finished.exits(6);
            let error = finished.json_error();
            assert_eq!(error["code"], "bad-tree", "{}", bad.what);
            assert_eq!(error["path"], path, "{}", bad.what);
            let row = &finished.json()["features"]["bad-trees"];
            assert_eq!(row["paths"][0]["id"], bad.tree_id, "{}", bad.what);
            let said = row["paths"][0]["what"].as_str().unwrap_or_default();
            assert!(said.contains(bad.fsck), "{}: {said}", bad.what);
        }
    }
}

#[test]
fn r25_a_submodule_is_listed_with_path_and_id_and_strict_refuses_it() {
    let host = Host::new();
    let repo = host.repo("repo");
    let gone = "cd".repeat(20);
    let tree_id = repo.tree(&[Entry::gitlink("sub", &gone)]);
    let commit_id = repo.commit_tree(&tree_id, &[]);
    let run = host.forgefs(["doctor", "--json"]);
    let run = run.arg(repo.path()).arg(&commit_id);
    let finished = run.run();
    finished.exits(0);
    let place = &finished.json()["features"]["submodules"]["paths"][0];
    assert_eq!(place["path"], "sub");
    assert_eq!(place["id"], gone.as_str());
    let strict = run.arg("--strict").run();
    strict.exits(6);
    assert_eq!(strict.json_error()["code"], "noted-feature");
    assert_eq!(strict.json()["verdict"], "noted");
}

#[test]
fn r7_planted_substitutions_are_named() {
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"hello\n")]);
    plant_substitutions(&repo, &commit_id);
    let run = host.forgefs(["doctor", "--json"]);
    let finished = run.arg(repo.path()).arg(&commit_id).run();
    finished.exits(0);
    let features = &finished.json()["features"];
    assert_eq!(features["substitution"]["snapshot"], "noted", "{features}");
}

#[test]
fn r13_nothing_is_started_and_nothing_connected() {
    need!(Strace);
    let host = Host::new();
    let repo = host.repo("repo");
    let attributes = b"* filter=e diff=e merge=e\n";
    let commit_id = repo.commit_files(&[("f", b"x\n"), (".gitattributes", attributes)]);
    let canary = host.path("CANARY");
    let touch = format!("touch {}", canary.display());
    for key in [
        "filter.e.smudge",
        "filter.e.clean",
        "filter.e.process",
        "core.fsmonitor",
        "core.sshCommand",
        "credential.helper",
        "gpg.program",
        "diff.e.textconv",
        "uploadpack.packObjectsHook",
    ] {
        repo.git(["config", key, &touch]);
    }
    let trace = host.path("trace");
    let words = ["strace", "-f", "-e", "trace=execve,connect,socket", "-o"];
    let run = host
        .forgefs(["doctor", "--runtime", "docker"])
        .arg(repo.path())
        .arg(&commit_id)
        .under(
            words
                .map(std::ffi::OsString::from)
                .into_iter()
                .chain([trace.clone().into()]),
        );
    run.run().exits(0);
    let trace = std::fs::read_to_string(trace).unwrap();
    let calls = |name: &str| trace.lines().filter(|line| line.contains(name)).count();
    assert_eq!(
        (calls("execve("), calls("connect("), calls("socket(")),
        (1, 0, 0),
        "{trace}"
    );
    assert!(!canary.exists());
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"x")]);
    host.forgefs(["doctor"]).arg(repo.path()).run().exits(2);
    host.forgefs(["doctor", "--user", "7"]).run().exits(2);
    let run = host.forgefs(["--json", "doctor", "--runtime", "docker", "--user", "root"]);
    run.run().fails(2, "bad-user");
    let run = host.forgefs(["--json", "doctor"]).arg(host.path("none"));
    run.arg(&commit_id).run().fails(3, "not-a-repository-root");
}
