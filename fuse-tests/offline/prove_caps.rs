//! What the prover refuses, and what it bears: bad trees, tree bombs, caps, depth.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use forgefs::budget::Limits;
use forgefs::git::{Kind, Oid};
use forgefs::prove::{Verdict, prove};
use forgefs::sys::{DirFd, make_and_open_dir};

use crate::prove::{found, objects, plain, request};
use crate::support::bad_trees::bad_trees;
use crate::support::{Entry, Host, Run};

#[test]
fn r10_a_bad_tree_is_refused_wherever_it_is() {
    let host = Host::new();
    let repo = host.repo("repo");
    let dir = host.dir("empty");
    let place = host.dir("place");
    for name in ["f", "deep/good/f"] {
        std::fs::create_dir_all(host.dir("place/deep/bad").join("../good")).expect("made");
        std::fs::write(place.join(name), "fine\n").expect("written");
    }
    for bad in bad_trees(&repo) {
        let error = prove(request(objects(&repo), &bad.root_id, &dir)).expect_err(bad.what);
        assert_eq!(error.slug(), "bad-tree", "{}", bad.what);
        assert_eq!(error.path(), Some(Path::new(".")), "{}", bad.what);
        assert_eq!(error.object_id(), Some(bad.tree_id.as_str()));
        let proof = prove(request(objects(&repo), &bad.deep_id, &place)).expect(bad.what);
        assert_eq!(found(&proof), ["unreadable deep/bad"], "{}", bad.what);
        let difference = &proof.differences[0];
        let id = difference.object_id.map(|id| id.to_string());
        assert_eq!(id.as_ref(), Some(&bad.tree_id));
        let detail = difference.detail.as_deref().unwrap_or_default();
        assert!(detail.starts_with("bad-tree: "), "{}: {detail}", bad.what);
    }
}

#[test]
fn r35_a_tree_bomb_is_refused_at_once_with_a_path() {
    let host = Host::new();
    let repo = host.repo("repo");
    let boom = repo.blob("boom\n");
    let names: Vec<String> = (0..10).map(|n| format!("d{n}")).collect();
    let files: Vec<_> = names.iter().map(|n| Entry::file(n, &boom)).collect();
    let mut tree = repo.tree(&files);
    for _ in 0..30 {
        let dirs: Vec<_> = names.iter().map(|n| Entry::dir(n, &tree)).collect();
        tree = repo.tree(&dirs);
    }
    let commit = repo.commit_tree(&tree, &[]);
    let started = std::time::Instant::now();
    let error = prove(request(objects(&repo), &commit, &host.dir("empty"))).expect_err("refused");
    assert_eq!(error.slug(), "budget-entries");
    let path = error.path().expect("a path").to_string_lossy().into_owned();
    assert!(path.starts_with("d0/d0/d0"), "{path}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn r35_each_cap_refuses_one_more_than_it_says() {
    let host = Host::new();
    let (repo, commit, dir) = plain(&host);
    let at = |limits: Limits| {
        let mut request = request(objects(&repo), &commit, &dir);
        request.limits = limits;
        prove(request)
            .map(|proof| proof.verdict)
            .map_err(|error| error.slug())
    };
    let all = Limits::default();
    for (limits, want) in [
        (
            Limits {
                entries_max: 11,
                ..all
            },
            Ok(Verdict::Proven),
        ),
        (
            Limits {
                entries_max: 10,
                ..all
            },
            Err("budget-entries"),
        ),
        (
            Limits {
                depth_max: 1,
                ..all
            },
            Ok(Verdict::Proven),
        ),
        (
            Limits {
                depth_max: 0,
                ..all
            },
            Err("budget-depth"),
        ),
        (
            Limits {
                bytes_max: 54,
                ..all
            },
            Ok(Verdict::Proven),
        ),
        (
            Limits {
                bytes_max: 53,
                ..all
            },
            Err("budget-bytes"),
        ),
    ] {
        assert_eq!(at(limits), want, "{limits:?}");
    }
}

#[test]
fn r21_two_thousand_levels_prove_with_few_descriptors() {
    let host = Host::new();
    let repo = host.repo("repo");
    let blob = repo.blob("deep\n");
    let mut objects = objects(&repo);
    let hex = |id: Oid| id.to_string();
    let mut tree = Entry::file("f", &blob).raw();
    for _ in 0..2000 {
        let id = hex(objects.insert(Kind::Tree, tree).expect("no collision"));
        tree = [Entry::dir("dd", &id).raw(), Entry::file("f", &blob).raw()].concat();
    }
    let id = hex(objects.insert(Kind::Tree, tree).expect("no collision"));
    let text = format!("tree {id}\ncommitter A <a@b> 1 +0000\n\n");
    let commit = objects.insert(Kind::Commit, text).expect("no collision");
    let dir = host.dir("deep");
    let mut at = DirFd::open(&dir).expect("open");
    for level in 0..=2000 {
        let mut file = at.create_beneath(b"f", 0o644).expect("a file");
        file.write_all(b"deep\n").expect("written");
        if level < 2000 {
            at = make_and_open_dir(&at, b"dd", 0o755).expect("a directory");
        }
    }
    let proof = prove(request(objects, &hex(commit), &dir)).expect("tried");
    Run::new("rm").arg("-rf").arg(&dir).ok();
    assert_eq!((found(&proof), proof.totals.entries), (Vec::new(), 4001));
}
