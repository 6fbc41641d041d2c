//! Packs written from real stores, with stock git as the judge: deltas are taken over, the result
//! is complete, and damage in the source never gets in.

use std::collections::HashSet;
use std::path::Path;

use super::super::{
    Closure, History, ObjectSource, Oid, Repository, StoreOptions, index_pack, load_commit,
};
use super::{PackProgress, write_pack};
use crate::budget::{Budget, Limits};
use crate::error::Result;
use crate::sys::DirFd;

#[expect(clippy::disallowed_methods, reason = "git is the oracle of this test")]
fn git(dir: &Path, args: &[&str]) -> String {
    let out = std::process::Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "A")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@b")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_DATE"), "1700000000 +0000")))
        .output()
        .unwrap();
    assert!(out.status.success(), "{args:?}: {out:?}");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// Forty commits of files that change a little, packed with deltas.
fn history(dir: &Path) -> Oid {
    git(dir, &["init", "-q"]);
    let mut text: Vec<String> = (0..400).map(|n| format!("line {n} {}\n", n * n)).collect();
    for n in 0..40_usize {
        text[n * 7] = format!("changed in {n}\n");
        for name in ["a", "b", "d/c"] {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text.concat() + name).unwrap();
        }
        git(dir, &["add", "."]);
        git(dir, &["commit", "-qm", "m"]);
    }
    git(dir, &["repack", "-adfq", "--depth=50", "--window=20"]);
    Oid::from_hex(git(dir, &["rev-parse", "HEAD"]).as_bytes()).unwrap()
}

fn packed(from: &Path, tip: &Oid, history: History, into: &Path) -> Result<(u32, Vec<Oid>)> {
    let objects = Repository::open(from)?.store(&StoreOptions::default())?;
    let commit = load_commit(&objects, tip)?;
    let mut budget = Budget::new(Limits::default());
    let closure = Closure::walk(&objects, &commit, history, &HashSet::new(), &mut budget)?;
    let order = closure.pack_order(&objects)?;
    git(into, &["init", "-q", "--bare"]);
    let held = DirFd::open(&into.join("objects/pack")).unwrap();
    let progress = PackProgress::default();
    let record = write_pack(&objects, &order, &held, 2, None, &progress)?;
    // What the indexer finds in the pack must be what was known while it was written.
    let packs = into.join("objects/pack");
    let file = std::fs::File::open(packs.join(record.file_name("pack"))).unwrap();
    let (name, indexes) = index_pack(&file, record.bytes, objects.hash_kind()).unwrap();
    assert_eq!(name, record.name);
    assert!(indexes.idx == std::fs::read(packs.join(record.file_name("idx"))).unwrap());
    assert!(indexes.rev == std::fs::read(packs.join(record.file_name("rev"))).unwrap());
    Ok((record.objects, closure.shallow))
}

#[test]
fn deltas_are_taken_over_and_git_finds_the_pack_whole() {
    let from = tempfile::tempdir().unwrap();
    let tip = history(from.path());
    for (history, least_deltas) in [
        (History::Full, 80),
        (History::Depth(5), 5),
        (History::Base, 0),
    ] {
        let into = tempfile::tempdir().unwrap();
        let (count, shallow) = packed(from.path(), &tip, history, into.path()).unwrap();
        let lines: String = shallow.iter().map(|id| format!("{id}\n")).collect();
        if !lines.is_empty() {
            std::fs::write(into.path().join("shallow"), lines).unwrap();
        }
        std::fs::write(into.path().join("HEAD"), format!("{tip}\n")).unwrap();
        git(into.path(), &["fsck", "--full", "--strict"]);
        let reachable = git(into.path(), &["rev-list", "--objects", "HEAD"]);
        assert_eq!(reachable.lines().count(), count as usize, "{history:?}");
        let packs = into.path().join("objects/pack");
        let idx = std::fs::read_dir(packs)
            .unwrap()
            .map(|e| e.unwrap().path())
            .find(|p| p.extension().is_some_and(|e| e == "idx"))
            .unwrap();
        let listing = git(into.path(), &["verify-pack", "-v", idx.to_str().unwrap()]);
        let deltas = listing
            .lines()
            .filter(|l| l.split_whitespace().count() == 7)
            .count();
        assert!(deltas >= least_deltas, "{deltas} deltas for {history:?}");
        git(into.path(), &["gc", "-q"]);
        git(into.path(), &["fsck", "--full", "--strict"]);
    }
}

#[test]
fn r85_a_flipped_byte_anywhere_in_the_source_never_gets_in() {
    let from = tempfile::tempdir().unwrap();
    let tip = history(from.path());
    let packs = from.path().join(".git/objects/pack");
    let pack = std::fs::read_dir(packs)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.extension().is_some_and(|e| e == "pack"))
        .unwrap();
    let bytes = std::fs::read(&pack).unwrap();
    let writable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&pack, writable).unwrap();
    let mut refused = 0;
    for at in (12..bytes.len() - 20).step_by(bytes.len() / 60) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        std::fs::write(&pack, &bad).unwrap();
        let into = tempfile::tempdir().unwrap();
        match packed(from.path(), &tip, History::Full, into.path()) {
            Ok(_) => {
                // The flip is in a byte that decides nothing, such as a zlib header's level.
                std::fs::write(into.path().join("HEAD"), format!("{tip}\n")).unwrap();
                git(into.path(), &["fsck", "--full"]);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 30, "{refused}");
}

#[test]
fn loose_objects_are_packed_as_well() {
    let from = tempfile::tempdir().unwrap();
    git(from.path(), &["init", "-q"]);
    std::fs::write(from.path().join("f"), "x".repeat(5000)).unwrap();
    git(from.path(), &["add", "."]);
    git(from.path(), &["commit", "-qm", "m"]);
    let tip = Oid::from_hex(git(from.path(), &["rev-parse", "HEAD"]).as_bytes()).unwrap();
    let into = tempfile::tempdir().unwrap();
    assert_eq!(
        packed(from.path(), &tip, History::Full, into.path())
            .unwrap()
            .0,
        3
    );
    let objects = Repository::open(into.path()).unwrap();
    let objects = objects.store(&StoreOptions::default()).unwrap();
    assert!(objects.header(&tip).is_ok());
}
