//! `forgefs prove` as scripts see it: exit codes, slugs, the record and the manifest on disk.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::fixtures::copy;
use crate::prove::plain;
use crate::support::{Finished, Host, Repo};

fn prove(host: &Host, dir: &Path, repo: &Repo, commit_id: &str, more: &[&str]) -> Finished {
    let run = host.forgefs(["prove", "--json"]).arg(dir).arg("--repo");
    let run = run.arg(repo.path()).args(["--sha", commit_id]).args(more);
    run.run()
}

#[test]
fn r27_a_directory_that_is_none_is_refused_before_anything_is_read() {
    let host = Host::new();
    let (repo, commit, dir) = plain(&host);
    symlink(&dir, host.path("link")).expect("linked");
    for (path, code, slug) in [
        (dir.join("f"), 4, "unsafe-directory"),
        (host.path("link"), 4, "unsafe-directory"),
        (host.path("link/"), 4, "unsafe-directory"),
        ("/".into(), 4, "unsafe-directory"),
        (host.path("none"), 3, "no-such-directory"),
    ] {
        prove(&host, &path, &repo, &commit, &[]).fails(code, slug);
    }
    let gone = "1234".repeat(10);
    prove(&host, &dir, &repo, &gone, &[]).fails(3, "missing-object");
    prove(&host, &dir, &repo, "HEAD", &[]).fails(2, "not-a-full-id");
    for words in [
        &[][..],
        &["--repo", "."],
        &["--manifest", "m", "--repo", "."],
    ] {
        let run = host.forgefs(["prove"]).arg(&dir).args(words).run();
        assert_eq!(run.code(), Some(2), "{}", run.report());
    }
}

#[test]
fn r30_two_records_differ_in_times_only_and_a_negative_one_is_written_too() {
    let host = Host::new();
    let (repo, commit, dir) = plain(&host);
    let mut records = Vec::new();
    for _ in 0..2 {
        let run = prove(&host, &dir, &repo, &commit, &["-o", "proof.json"]);
        run.exits(0);
        let mut record = run.json();
        let written = std::fs::read(host.path("proof.json")).expect("written");
        assert_eq!(
            record,
            serde_json::from_slice::<serde_json::Value>(&written).expect("JSON")
        );
        let mode = host
            .path("proof.json")
            .metadata()
            .expect("stat")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        for key in ["started", "finished"] {
            let time = record[key].take();
            let time = time.as_str().expect("a time");
            assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
        }
        records.push(record);
    }
    assert_eq!(records[0], records[1]);
    assert_eq!(records[0]["gitlinks"]["listed"][0]["path"], "sub");
    assert_eq!(records[0]["limits"]["entries_max"], 10_000_000);
    std::fs::write(dir.join("a/f"), "other").expect("written");
    let run = prove(&host, &dir, &repo, &commit, &["-o", "proof.json"]);
    run.exits(1);
    let written = std::fs::read(host.path("proof.json")).expect("written");
    let record: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(record["verdict"], "not-proven");
    assert_eq!(record["reason"], "differs");
    assert_eq!(record["differences"][0]["path"], "a/f");
}

#[test]
fn r34_the_program_proves_by_manifest_and_refuses_an_edited_one() {
    let host = Host::new();
    let (repo, commit, dir) = plain(&host);
    let run = prove(&host, &dir, &repo, &commit, &["--write-manifest", "m.json"]);
    run.exits(0);
    std::fs::remove_dir_all(repo.path()).expect("removed");
    let by = |manifest: &str, more: &[&str]| {
        let run = host.forgefs(["prove", "--json"]).arg(&dir);
        run.args(["--manifest", manifest]).args(more).run()
    };
    by("m.json", &[]).exits(0);
    by("m.json", &["--sha", &commit]).exits(0);
    let other = by("m.json", &["--sha", &"1234".repeat(10)]);
    other.exits(1);
    assert_eq!(other.json()["reason"], "manifest-forged");
    let text = std::fs::read_to_string(host.path("m.json")).expect("written");
    std::fs::write(host.path("e.json"), text.replacen("100755", "100644", 1)).expect("written");
    let edited = by("e.json", &["-o", "proof.json"]);
    edited.exits(1);
    assert_eq!(edited.json()["reason"], "manifest-forged");
    assert!(host.path("proof.json").exists());
    std::fs::write(host.path("e.json"), "{}").expect("written");
    by("e.json", &[]).fails(3, "bad-manifest");
    by("none.json", &[]).fails(3, "not-found");
}

#[test]
fn r6_every_path_of_a_lost_blob_is_told_with_its_id() {
    let host = Host::new();
    let repo = host.repo("repo");
    let commit = repo.commit_files(&[("a", b"1"), ("d/same", b"1"), ("z", b"2")]);
    let dir = host.path("copy");
    copy(&repo, &commit, &dir);
    std::fs::remove_file(dir.join("a")).expect("removed");
    std::fs::remove_file(dir.join("d/same")).expect("removed");
    let id = repo.git(["rev-parse", &format!("{commit}:a")]);
    let run = host
        .forgefs(["prove"])
        .arg(&dir)
        .arg("--repo")
        .arg(repo.path());
    let run = run.args(["--sha", &commit]).run();
    run.exits(1);
    let want = format!("  missing a, should be {id}\n  missing d/same, should be {id}\n");
    assert!(run.out().contains(want.trim_end()), "{}", run.report());
}
