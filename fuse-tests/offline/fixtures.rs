//! The fixtures and the oracle themselves: what other tests rely on is shown here to be true.

use std::os::unix::fs::PermissionsExt;

use crate::support::bad_trees::bad_trees;
use crate::support::oracle::{Way, oracle};
use crate::support::{Host, Repo, Run, zoo};

/// A plain copy of a commit: raw bytes, no filter, submodules as empty directories.
pub(crate) fn copy(repo: &Repo, commit_id: &str, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for listed in repo.listing(commit_id) {
        let path = to.join(&listed.name);
        let mode = match listed.mode.as_str() {
            "040000" | "160000" => {
                std::fs::create_dir(&path).expect("a directory");
                continue;
            }
            "120000" => {
                use std::os::unix::ffi::OsStringExt;
                let target = std::ffi::OsString::from_vec(repo.cat(&listed.id));
                std::os::unix::fs::symlink(target, &path).expect("a link");
                continue;
            }
            "100755" => 0o755,
            _ => 0o644,
        };
        std::fs::write(&path, repo.cat(&listed.id)).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }
}

#[test]
fn stock_git_agrees_with_a_plain_copy_of_the_zoo_in_both_ways_and_formats() {
    for format in ["sha1", "sha256"] {
        let host = Host::new();
        let zoo = zoo::zoo(&host.path("zoo"), format);
        let dir = host.path("copy");
        copy(&zoo.repo, &zoo.commit_id, &dir);
        let want = zoo.repo.tree_of(&zoo.commit_id);
        for way in [Way::Add, Way::Mktree] {
            let finished = oracle(&zoo.repo, &zoo.commit_id, &dir, way);
            assert_eq!(finished.out(), want, "{way:?} {}", finished.report());
        }
        let hollow = host.path("hollow");
        copy(&zoo.repo, &zoo.empty_tree_id, &hollow);
        let finished = oracle(&zoo.repo, &zoo.empty_tree_id, &hollow, Way::Mktree);
        assert_eq!(finished.out(), zoo.repo.tree_of(&zoo.empty_tree_id));
    }
}

#[test]
fn the_oracle_sees_each_kind_of_change() {
    let host = Host::new();
    let repo = host.repo("repo");
    let sub = "1234".repeat(10);
    repo.commit_files(&[("d/f", b"hello\n"), ("run", b"#!/bin/sh\n")]);
    repo.git([
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{sub},sub"),
    ]);
    repo.git(["update-index", "--chmod=+x", "run"]);
    repo.git(["commit", "-qm", "submodule"]);
    let commit_id = repo.head();
    let want = repo.tree_of(&commit_id);
    for change in [
        "true", // the check of the check: no change, no difference
        "printf x >>d/f",
        "chmod -x run",
        "chmod +x d/f",
        "touch extra",
        "mkdir extra",
        "rm d/f",
        "ln -sf f d/f",
        "mkdir d/.git",
        "mkdir d/.GiT",
        "touch sub/f",
        "rmdir sub",
        "mkfifo d/pipe",
    ] {
        for way in [Way::Add, Way::Mktree] {
            let dir = host.path("copy");
            copy(&repo, &commit_id, &dir);
            Run::shell(change).dir(&dir).ok();
            let finished = oracle(&repo, &commit_id, &dir, way);
            let same = finished.code() == Some(0) && finished.out() == want;
            assert_eq!(same, change == "true", "{change}: {}", finished.report());
            host.run("rm").arg("-rf").arg(&dir).ok();
        }
    }
}

#[test]
fn the_zoo_has_a_store_of_every_kind_and_fixed_ids() {
    let host = Host::new();
    let zoo = zoo::zoo(&host.path("zoo"), "sha1");
    let again = zoo::zoo(&host.path("again"), "sha1");
    assert_eq!(zoo.commit_id, again.commit_id);
    assert!(zoo.repo.pack_files(".pack").len() >= 2);
    assert!(zoo.repo.join(".git/objects/pack/multi-pack-index").exists());
    assert!(zoo.repo.loose_path(&zoo.commit_id).exists());
    assert!(zoo.repo.join(".git/packed-refs").exists());
    zoo.repo.git(["fsck", "--full"]);
    let packs = zoo.repo.pack_files(".idx");
    let deltas = packs.iter().any(|idx| {
        let run = zoo.repo.git_run(["verify-pack", "-v"]).arg(idx);
        run.ok().contains("chain length")
    });
    assert!(deltas, "a pack with deltas");
}

#[test]
fn git_itself_calls_each_bad_tree_what_the_fixture_says() {
    let host = Host::new();
    let repo = host.repo("repo");
    for bad in bad_trees(&repo) {
        let run = repo.git_run(["fsck", "--strict", "--no-dangling", &bad.root_id]);
        let said = run.run();
        assert!(
            said.code() != Some(0)
                && said
                    .err()
                    .contains(&format!("{}: {}", bad.tree_id, bad.fsck)),
            "{}: {}",
            bad.what,
            said.report()
        );
    }
}
