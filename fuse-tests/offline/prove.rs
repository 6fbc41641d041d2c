//! The prover on plain directories: every kind of difference, odd modes, other commits.
//! Expected trees come from real git; what the prover rebuilds is held against what git computes.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forgefs::budget::Limits;
use forgefs::git::{Kind, MemorySource, Oid};
use forgefs::prove::{Progress, Proof, ProveRequest, Root, Verdict, prove};
use rustix::process::geteuid;

use crate::fixtures::copy;
use crate::support::{Entry, Host, Repo, Run, zoo};

/// All objects of a repository, as git gives them, each hashed again on the way in.
pub(crate) fn objects(repo: &Repo) -> MemorySource {
    let all = repo.git_run(["cat-file", "--batch-all-objects", "--batch", "--unordered"]);
    let out = all.run();
    out.exits(0);
    let mut rest = out.stdout.as_slice();
    let mut objects: Option<MemorySource> = None;
    while let Some(end) = rest.iter().position(|b| *b == b'\n') {
        let head = String::from_utf8_lossy(&rest[..end]).into_owned();
        let words: Vec<_> = head.split(' ').collect();
        let [id, kind, size] = words[..] else {
            panic!("git says {head}");
        };
        let size: usize = size.parse().expect("a size");
        let content = &rest[end + 1..end + 1 + size];
        let kind = match kind {
            "commit" => Kind::Commit,
            "tree" => Kind::Tree,
            "blob" => Kind::Blob,
            _ => Kind::Tag,
        };
        let id = Oid::from_hex(id.as_bytes()).expect("an id");
        let objects = objects.get_or_insert_with(|| MemorySource::new(id.kind()));
        assert_eq!(objects.insert(kind, content).expect("no collision"), id);
        rest = &rest[end + 1 + size + 1..];
    }
    objects.expect("a repository with objects")
}

pub(crate) fn request(objects: MemorySource, commit_id: &str, dir: &Path) -> ProveRequest {
    ProveRequest {
        root: Root::At(dir.to_owned()),
        objects: Arc::new(objects),
        commit_id: Oid::from_hex(commit_id.as_bytes()).expect("an id"),
        limits: Limits {
            timeout: Some(Duration::from_secs(60)),
            ..Limits::default()
        },
        threads: 3,
        judges_hard_links: false,
        progress: Arc::new(Progress::default()),
    }
}

fn prove_dir(repo: &Repo, commit_id: &str, dir: &Path) -> Proof {
    prove(request(objects(repo), commit_id, dir)).expect("it can be tried")
}

pub(crate) fn found(proof: &Proof) -> Vec<String> {
    let found = proof.differences.iter();
    found
        .map(|d| format!("{} {}", d.kind.as_str(), String::from_utf8_lossy(&d.path)))
        .collect()
}

/// A commit with a thing of each kind, and a plain copy of it.
pub(crate) fn plain(host: &Host) -> (Repo, String, std::path::PathBuf) {
    let repo = host.repo("repo");
    let f = repo.blob("hello\n");
    let run = repo.blob("#!/bin/sh\n");
    let target = repo.blob("d/f");
    let inner = repo.tree(&[Entry::file("f", &f), Entry::file("g", &run)]);
    let tree = repo.tree(&[
        Entry::file("a.b", &f),
        Entry::dir("a", &inner),
        Entry::dir("d", &inner),
        Entry::file("f", &f),
        Entry::link("ln", &target),
        Entry::program("run", &run),
        Entry::gitlink("sub", &"1234".repeat(10)),
    ]);
    let commit = repo.commit_tree(&tree, &[]);
    let dir = host.path("copy");
    copy(&repo, &commit, &dir);
    (repo, commit, dir)
}

#[test]
fn r27_a_plain_copy_of_the_zoo_proves_in_both_formats() {
    for format in ["sha1", "sha256"] {
        let host = Host::new();
        let zoo = zoo::zoo(&host.path("zoo"), format);
        let dir = host.path("copy");
        copy(&zoo.repo, &zoo.commit_id, &dir);
        let proof = prove_dir(&zoo.repo, &zoo.commit_id, &dir);
        assert_eq!(found(&proof), Vec::<String>::new());
        assert_eq!(proof.verdict, Verdict::Proven);
        let tree_id = proof.rebuilt_tree_id.expect("rebuilt").to_string();
        assert_eq!(tree_id, zoo.repo.tree_of(&zoo.commit_id));
        let listed = zoo.repo.listing(&zoo.commit_id);
        assert_eq!(proof.totals.entries, listed.len() as u64);
        let links = listed.iter().filter(|l| l.mode == "160000").count();
        assert_eq!(proof.totals.gitlinks_listed.len(), links);
    }
}

type Change = fn(&Path);

#[test]
fn r29_every_difference_is_found_with_its_path_and_kind() {
    let table: [(&str, &[&str], Change); 15] = [
        ("one byte", &["content d/f"], |d| {
            std::fs::write(d.join("d/f"), "hellO\n").expect("written");
        }),
        ("longer", &["content f"], |d| {
            std::fs::write(d.join("f"), "hello\nmore").expect("written");
        }),
        ("x gained", &["mode a/f"], |d| {
            std::fs::set_permissions(d.join("a/f"), PermissionsExt::from_mode(0o755)).expect("set");
        }),
        ("x lost", &["mode run"], |d| {
            std::fs::set_permissions(d.join("run"), PermissionsExt::from_mode(0o655)).expect("set");
        }),
        ("file for a link", &["type ln"], |d| {
            std::fs::remove_file(d.join("ln")).expect("removed");
            std::fs::write(d.join("ln"), "d/f").expect("written");
        }),
        ("link for a directory", &["type d"], |d| {
            std::fs::rename(d.join("d"), d.with_extension("moved")).expect("moved");
            symlink(d.with_extension("moved"), d.join("d")).expect("linked");
        }),
        ("directory for a file", &["type f"], |d| {
            std::fs::remove_file(d.join("f")).expect("removed");
            std::fs::create_dir(d.join("f")).expect("made");
        }),
        ("link to an equal file", &["type f"], |d| {
            std::fs::remove_file(d.join("f")).expect("removed");
            symlink("d/f", d.join("f")).expect("linked");
        }),
        ("another target", &["symlink-target ln"], |d| {
            std::fs::remove_file(d.join("ln")).expect("removed");
            symlink("d/g", d.join("ln")).expect("linked");
        }),
        ("a file gone", &["missing a.b"], |d| {
            std::fs::remove_file(d.join("a.b")).expect("removed");
        }),
        ("a directory gone", &["missing d"], |d| {
            std::fs::remove_dir_all(d.join("d")).expect("removed");
        }),
        ("files more", &["extra .git", "extra a/new"], |d| {
            std::fs::create_dir(d.join(".git")).expect("made");
            std::fs::write(d.join("a/new"), "").expect("written");
        }),
        ("a submodule's file", &["gitlink-not-empty sub"], |d| {
            std::fs::write(d.join("sub/f"), "").expect("written");
        }),
        ("a FIFO", &["special-file f"], |d| {
            std::fs::remove_file(d.join("f")).expect("removed");
            Run::new("mkfifo").arg(d.join("f")).ok();
        }),
        (
            "several",
            &["content a.b", "missing a/f", "extra d/z", "mode f"],
            |d| {
                std::fs::set_permissions(d.join("f"), PermissionsExt::from_mode(0o744))
                    .expect("set");
                std::fs::remove_file(d.join("a/f")).expect("removed");
                std::fs::write(d.join("a.b"), "").expect("written");
                std::fs::write(d.join("d/z"), "").expect("written");
            },
        ),
    ];
    for (what, want, change) in table {
        let host = Host::new();
        let (repo, commit, dir) = plain(&host);
        assert_eq!(prove_dir(&repo, &commit, &dir).verdict, Verdict::Proven);
        change(&dir);
        let proof = prove_dir(&repo, &commit, &dir);
        assert_eq!(found(&proof), want, "{what}");
        assert_eq!(proof.verdict, Verdict::Differs, "{what}");
    }
}

#[test]
fn r29_a_hard_link_counts_where_it_is_judged_and_a_nested_mount_always() {
    let host = Host::new();
    let (repo, commit, dir) = plain(&host);
    std::fs::hard_link(dir.join("d/f"), host.path("second-name")).expect("linked");
    assert_eq!(prove_dir(&repo, &commit, &dir).verdict, Verdict::Proven);
    let mut judged = request(objects(&repo), &commit, &dir);
    judged.judges_hard_links = true;
    assert_eq!(found(&prove(judged).expect("tried")), ["hard-link d/f"]);
    if !geteuid().is_root() {
        return;
    }
    let mounted = dir.join("d");
    Run::new("mount")
        .args([
            "--bind".as_ref(),
            host.dir("tmp").as_os_str(),
            mounted.as_os_str(),
        ])
        .ok();
    let proof = prove_dir(&repo, &commit, &dir);
    Run::new("umount").arg(&mounted).ok();
    assert_eq!(found(&proof), ["nested-mount d"]);
}

#[test]
fn r29_modes_are_read_as_git_reads_them_under_any_umask() {
    let host = Host::new();
    let (repo, commit, dir) = plain(&host);
    for (file, program, inner) in [
        (0o664, 0o775, 0o775),
        (0o600, 0o700, 0o700),
        (0o444, 0o555, 0o555),
    ] {
        for (path, mode) in [("f", file), ("run", program), ("d", inner)] {
            let mode = PermissionsExt::from_mode(mode);
            std::fs::set_permissions(dir.join(path), mode).expect("set");
        }
        assert_eq!(
            prove_dir(&repo, &commit, &dir).verdict,
            Verdict::Proven,
            "{file:o}"
        );
    }
}

#[test]
fn what_differs_is_rebuilt_to_the_id_that_git_gives_it() {
    let host = Host::new();
    let (repo, commit, dir) = plain(&host);
    std::fs::write(dir.join("d/f"), "other\n").expect("written");
    std::fs::set_permissions(dir.join("run"), PermissionsExt::from_mode(0o644)).expect("set");
    let proof = prove_dir(&repo, &commit, &dir);
    let oracle =
        crate::support::oracle::oracle(&repo, &commit, &dir, crate::support::oracle::Way::Mktree);
    let rebuilt = proof.rebuilt_tree_id.map(|id| id.to_string());
    assert_eq!(rebuilt, Some(oracle.ok()));
    assert_eq!(found(&proof), ["content d/f", "mode run"]);
}

#[test]
fn r11_odd_modes_prove_from_the_authenticated_tree_and_are_noted() {
    let host = Host::new();
    let repo = host.repo("repo");
    let f = repo.blob("x");
    let inner = repo.tree(&[Entry::file("f", &f)]);
    let tree = repo.raw_tree(&[
        Entry::file("a", &f).with_mode("100664"),
        Entry::file("b", &f).with_mode("0100755"),
        Entry::file("c", &f).with_mode("104755"),
        Entry::dir("d", &inner).with_mode("040000"),
        Entry::dir("e", &inner).with_mode("40755"),
    ]);
    let commit = repo.commit_tree(&tree, &[]);
    let dir = host.path("copy");
    std::fs::create_dir(&dir).expect("made");
    for (name, mode) in [
        ("a", 0o644),
        ("b", 0o755),
        ("c", 0o755),
        ("d/f", 0o644),
        ("e/f", 0o644),
    ] {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, "x").expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("set");
    }
    let proof = prove_dir(&repo, &commit, &dir);
    assert_eq!(found(&proof), Vec::<String>::new());
    assert_eq!(proof.rebuilt_tree_id.map(|id| id.to_string()), Some(tree));
    assert_eq!(proof.totals.noncanonical_modes, 5);
}

#[test]
fn r27_another_commit_s_id_gives_the_first_path_that_differs() {
    let host = Host::new();
    let repo = host.repo("repo");
    let first = repo.commit_files(&[("a", b"1"), ("b/c", b"2"), ("z", b"3")]);
    let second = repo.commit_files(&[("b/c", b"4"), ("y", b"5")]);
    let dir = host.path("copy");
    copy(&repo, &first, &dir);
    let proof = prove_dir(&repo, &second, &dir);
    assert_eq!(found(&proof), ["content b/c", "missing y"]);
}

#[test]
fn r36_a_tree_that_the_store_lacks_is_unreadable_with_path_and_id() {
    let host = Host::new();
    let (repo, commit, dir) = plain(&host);
    let lost = repo.git(["rev-parse", &format!("{commit}:d")]);
    std::fs::remove_file(repo.loose_path(&lost)).expect("removed");
    let proof = prove_dir(&repo, &commit, &dir);
    assert_eq!(found(&proof), ["unreadable a", "unreadable d"]);
    assert_eq!(
        proof.differences[0].object_id.map(|id| id.to_string()),
        Some(lost)
    );
}
