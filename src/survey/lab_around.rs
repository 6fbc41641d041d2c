//! Surveys of what lies around a repository's objects (R93..R96, R7, R9, R12).

use super::lab::{Lab, assert_rows, make_fifo, noted};
use super::*;
use crate::budget::Limits;
use crate::git::{HashKind, Oid, RefStorage, load_commit};
use crate::sys::DirFd;

use Verdict::{Noted, Supported, Unsupported};

#[test]
fn r93_settings_and_info_attributes_of_the_repository_are_noted() {
    let lab = Lab::new(&[]);
    let commit = lab.file("f", b"x").commit();
    lab.git(&["config", "core.autocrlf", "input"]);
    lab.git(&["config", "filter.shout.process", "touch CANARY"]);
    lab.file(".git/info/attributes", b"f ident\n");
    let survey = lab.survey(&commit, Depth::Full);
    assert_rows(
        &survey,
        &[
            noted("filters"),
            noted("eol-encoding"),
            noted("ident-export"),
        ],
    );
    let row = survey.feature("eol-encoding").unwrap();
    assert!(row.detail.contains("core.autocrlf=input"), "{}", row.detail);
}

#[test]
fn r94_sparse_checkout_and_sparse_index_are_noted() {
    let lab = Lab::new(&[]);
    let commit = lab
        .file("a/f", b"x")
        .file("b/g", b"x")
        .file("h", b"x")
        .commit();
    lab.git(&["sparse-checkout", "set", "a"]);
    assert!(!lab.facts().sparse_index);
    assert_rows(&lab.survey(&commit, Depth::Full), &[noted("sparse")]);
    lab.git(&["sparse-checkout", "set", "--sparse-index", "a"]);
    assert!(lab.facts().sparse_index && lab.facts().sparse_checkout);
    lab.git(&["config", "index.threads", "4"]);
    lab.git(&["config", "index.recordEndOfIndexEntries", "true"]);
    lab.git(&["update-index", "--force-write-index"]);
    assert!(lab.facts().sparse_index);
    lab.git(&["sparse-checkout", "disable"]);
    assert_rows(&lab.survey(&commit, Depth::Full), &[]);
}

#[test]
fn r95_a_partial_clone_is_noted_when_whole_and_refused_with_the_count_when_not() {
    let origin = Lab::new(&[]);
    let commit = origin
        .file("f1", b"1")
        .file("d/f2", b"22")
        .file("f3", b"333")
        .commit();
    let clone = origin.clone(&["--filter=blob:none", "--no-checkout"]);
    let survey = clone.survey(&commit, Depth::Full);
    let refused = (Unsupported, Unsupported);
    assert_rows(
        &survey,
        &[
            ("partial", refused.0, refused.1),
            ("missing-objects", refused.0, refused.1),
        ],
    );
    let error = survey.check(Purpose::Snapshot, false).unwrap_err();
    assert_eq!(
        (error.slug(), error.kind()),
        ("promised-objects", ErrorKind::Unsupported)
    );
    for part in ["3 objects", "promisor origin"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let mount = clone.survey(&commit, Depth::Repository);
    assert_rows(&mount, &[noted("partial")]);
    let lines = mount.check(Purpose::Snapshot, false).unwrap();
    assert!(
        lines.len() == 1 && lines[0].contains("promisor origin"),
        "{lines:?}"
    );
    let commit = origin.file(".gitattributes", b"* ident\n").commit();
    clone.git(&["fetch", "-q", "origin"]);
    let rows = [noted("partial"), noted("unread-attributes")];
    assert_rows(&clone.survey(&commit, Depth::Repository), &rows);
    // The way out that the message names is a way out.
    assert!(
        error
            .to_string()
            .contains("git fetch --refetch --no-filter origin")
    );
    clone.git(&["fetch", "-q", "--refetch", "--no-filter", "origin"]);
    let rows = [noted("ident-export"), noted("partial")];
    assert_rows(&clone.survey(&commit, Depth::Full), &rows);
}

#[test]
fn r96_a_shallow_source_is_noted() {
    let origin = Lab::new(&[]);
    origin.file("f", b"1").commit();
    let commit = origin.file("f", b"2").commit();
    let clone = origin.clone(&["--depth=1"]);
    let survey = clone.survey(&commit, Depth::Full);
    assert_rows(&survey, &[noted("shallow")]);
    let error = survey.check(Purpose::Snapshot, true).unwrap_err();
    assert_eq!(
        (error.slug(), error.kind()),
        ("noted-feature", ErrorKind::Unsupported)
    );
}

#[test]
fn r7_substitution_is_named_and_a_commit_graph_is_of_no_consequence() {
    let lab = Lab::new(&[]);
    let first = lab.file("f", b"1").commit();
    let second = lab.file("f", b"2").commit();
    lab.git(&["commit-graph", "write", "--reachable"]);
    assert_rows(
        &lab.survey(&second, Depth::Full),
        &[("substitution", Supported, Supported)],
    );
    lab.git(&["replace", &second, &first]);
    lab.file(".git/info/grafts", format!("{second}\n").as_bytes());
    for pack in [false, true] {
        if pack {
            lab.git(&["pack-refs", "--all"]);
        }
        let survey = lab.survey(&second, Depth::Full);
        assert_rows(&survey, &[noted("substitution")]);
        let row = survey.feature("substitution").unwrap();
        let paths: Vec<_> = row.paths.iter().map(|place| place.path.as_str()).collect();
        let replace = format!("refs/replace/{second}");
        assert_eq!(
            paths,
            [&replace, "info/grafts", "objects/info/commit-graph"]
        );
    }
}

#[test]
fn r12_alternates_are_noted_and_a_linked_worktree_is_said() {
    let lab = Lab::new(&[]);
    let commit = lab.file("f", b"x").commit();
    let shared = lab.clone(&["--reference", lab.repo.to_str().unwrap()]);
    let survey = shared.survey(&commit, Depth::Full);
    assert_rows(&survey, &[("alternates", Noted, Supported)]);
    assert!(
        survey.feature("alternates").unwrap().paths[0]
            .path
            .ends_with("/objects")
    );

    lab.git(&["worktree", "add", "-q", "--detach", "../linked"]);
    let linked = Lab {
        dir: tempfile::tempdir().unwrap(),
        repo: lab.dir.path().join("linked"),
    };
    assert_rows(
        &linked.survey(&commit, Depth::Full),
        &[("linked-worktree", Supported, Supported)],
    );
}

#[test]
fn r9_sha256_and_reftable_are_supported_and_said() {
    let lab = Lab::new(&["--object-format=sha256"]);
    let commit = lab.file("d/f", b"x").commit();
    assert_rows(
        &lab.survey(&commit, Depth::Full),
        &[("object-format", Supported, Supported)],
    );
    if lab.git(&["version"]).as_str() < "git version 2.45" {
        return;
    }
    let lab = Lab::new(&["--ref-format=reftable"]);
    let commit = lab.file("d/f", b"x").commit();
    assert_rows(
        &lab.survey(&commit, Depth::Full),
        &[("ref-storage", Supported, Supported)],
    );
}

#[test]
fn a_fifo_a_loop_or_garbage_as_a_setting_is_named_and_not_waited_for() {
    let lab = Lab::new(&[]);
    let commit = lab.file("f", b"x").commit();
    let objects = lab.objects(HashKind::Sha1);
    let git = lab.repo.join(".git");
    let _ = std::fs::create_dir(git.join("info"));
    for (name, make) in [
        ("shallow", "mkfifo"),
        ("info/attributes", "ln"),
        ("objects/info/alternates", "mkdir"),
    ] {
        let path = git.join(name);
        match make {
            "mkfifo" => assert!(make_fifo(&path)),
            "ln" => std::os::unix::fs::symlink(&path, &path).unwrap(),
            _ => std::fs::create_dir(&path).unwrap(),
        }
    }
    std::fs::write(git.join("config"), b"[core\n\xff\0").unwrap();
    let dir = DirFd::open(&git).unwrap();
    let facts = RepositoryFacts::gather(&dir, &dir, HashKind::Sha1, RefStorage::Files);
    assert_eq!(facts.unread.len(), 4, "{:?}", facts.unread);
    let id = Oid::from_hex(commit.as_bytes()).unwrap();
    let commit = load_commit(&objects, &id).unwrap();
    let mut budget = Budget::new(Limits::default());
    let survey = survey_with(&facts, &objects, &commit, Depth::Full, &mut budget).unwrap();
    assert_rows(&survey, &[noted("unread-settings")]);
}
