//! A damaged store gives the right bytes or EIO on the damaged path alone, never wrong bytes, and
//! the daemon lives (R4-R6, R10).

use std::path::Path;

use crate::support::bad_trees::bad_trees;
use crate::support::need::long;
use crate::support::plants::{deflate, flip_bit, overwrite, rewritten};
use crate::support::repo::Listed;
use crate::support::rng::Rng;
use crate::support::{Entry, Host, Mounted, Repo, need};

const EIO: i32 = 5;

#[track_caller]
fn assert_eio<T: std::fmt::Debug>(result: std::io::Result<T>, what: &str) {
    match result {
        Err(e) if e.raw_os_error() == Some(EIO) => {}
        other => panic!("{what}: expected EIO, got {other:?}"),
    }
}

/// Returns what `forgefs prove` said.
fn prove(host: &Host, mounted: &Mounted<'_>, repo: &Repo, commit_id: &str) -> serde_json::Value {
    let run = host.forgefs(["prove", "--json"]).arg(mounted.point());
    let finished = run
        .arg("--repo")
        .arg(repo.path())
        .args(["--sha", commit_id])
        .run();
    finished.exits(1);
    finished.json()
}

#[test]
fn r5_a_rewritten_loose_object_is_eio_on_its_path_alone() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("d/f", b"hello\n"), ("g", b"fine\n")]);
    let blob_id = repo.git(["rev-parse", "HEAD:d/f"]);
    let good = std::fs::read(repo.loose_path(&blob_id)).unwrap();
    for (what, bytes) in rewritten(b"hello\n") {
        overwrite(&repo.loose_path(&blob_id), &bytes);
        let mounted = host.mount(&repo, &commit_id);
        assert_eio(std::fs::read(mounted.path("d/f")), what);
        assert_eio(std::fs::read(mounted.path("d/f")), what);
        assert_eq!(
            std::fs::read(mounted.path("g")).unwrap(),
            b"fine\n",
            "{what}"
        );
        let record = prove(&host, &mounted, &repo, &commit_id).to_string();
        assert!(
            record.contains("unreadable") && record.contains("d/f"),
            "{what}: {record}"
        );
        assert_eq!(mounted.state(), "live", "{what}");
        // EIO is not remembered: a store that was repaired reads again, unless the size that the
        // kernel keeps for ever was the lie.
        overwrite(&repo.loose_path(&blob_id), &good);
        let repaired = std::fs::read(mounted.path("d/f"));
        let size_lied = what.contains("size") || what == "another content";
        match repaired {
            Ok(bytes) => assert_eq!(bytes, b"hello\n", "{what}"),
            Err(e) => assert!(size_lied && e.raw_os_error() == Some(EIO), "{what}: {e}"),
        }
        mounted.umount();
    }
}

#[test]
fn r5_the_log_names_path_and_object() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("d/f", b"hello\n")]);
    let blob_id = repo.git(["rev-parse", "HEAD:d/f"]);
    overwrite(&repo.loose_path(&blob_id), &deflate(b"blob 5\0evil\n"));
    let mounted = host.mount(&repo, &commit_id);
    assert_eio(std::fs::read(mounted.path("d/f")), "evil");
    let log = host.logs();
    assert!(log.contains(&blob_id) && log.contains("d/f"), "log: {log}");
}

#[test]
fn r5_a_corrupt_commit_or_root_tree_is_refused_before_the_mount() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("d/f", b"hello\n")]);
    let tree_id = repo.tree_of(&commit_id);
    for id in [&commit_id, &tree_id] {
        let path = repo.loose_path(id);
        let good = std::fs::read(&path).unwrap();
        let kind = repo.git(["cat-file", "-t", id]);
        let evil = deflate(format!("{kind} 5\0evil\n").as_bytes());
        for bytes in [evil, good[..good.len() / 2].to_vec()] {
            overwrite(&path, &bytes);
            let run = host
                .forgefs(["mount", "--json", "--mkdir"])
                .arg(repo.path());
            let finished = run.arg(&commit_id).arg(host.path("m")).run();
            finished.fails(3, "corrupt-object").says(id);
            assert!(!host.path("m").exists());
        }
        std::fs::remove_file(&path).unwrap();
        let run = host
            .forgefs(["mount", "--json", "--mkdir"])
            .arg(repo.path());
        let finished = run.arg(&commit_id).arg(host.path("m")).run();
        finished.fails(3, "missing-object").says(id);
        overwrite(&path, &good);
    }
}

#[test]
fn r4_a_missing_object_is_eio_and_never_enoent() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("d/f", b"hello\n"), ("e/g", b"deep\n"), ("h", b"fine\n")]);
    let mounted = host.mount(&repo, &commit_id);
    for name in ["HEAD:d", "HEAD:e/g"] {
        let id = repo.git(["rev-parse", name]);
        std::fs::remove_file(repo.loose_path(&id)).unwrap();
    }
    assert_eio(
        std::fs::read_dir(mounted.path("d")).and_then(Iterator::collect::<Result<Vec<_>, _>>),
        "d",
    );
    assert_eio(std::fs::metadata(mounted.path("d/f")), "d/f");
    assert_eio(
        std::fs::metadata(mounted.path("d/no-such-name")),
        "d/no-such-name",
    );
    assert_eio(std::fs::read(mounted.path("e/g")), "e/g");
    assert_eq!(std::fs::read(mounted.path("h")).unwrap(), b"fine\n");
    let record = prove(&host, &mounted, &repo, &commit_id).to_string();
    assert!(record.contains("unreadable"), "{record}");
    assert_eq!(mounted.state(), "live");
}

/// Expects of every file that it is the right bytes or EIO; returns how many were EIO.
#[track_caller]
fn read_all(mounted: &Mounted<'_>, files: &[(Listed, Vec<u8>)], what: &str) -> usize {
    let mut errors = 0;
    for (listed, want) in files {
        let path = mounted.path(&listed.name);
        let got = if listed.mode == "120000" {
            std::fs::read_link(&path).map(|target| target.into_os_string().into_encoded_bytes())
        } else {
            std::fs::read(&path)
        };
        match got {
            Ok(bytes) => assert!(&bytes == want, "{what}: wrong bytes in {}", path.display()),
            Err(e) if e.raw_os_error() == Some(EIO) => errors += 1,
            Err(e) => panic!("{what}: {} is {e}", path.display()),
        }
    }
    errors
}

/// A repository whose objects are all in packs joined by a multi-pack-index, deltas among them.
fn packed(host: &Host) -> (Repo, String, Vec<(Listed, Vec<u8>)>) {
    let repo = host.repo("repo");
    let mut rng = Rng::new(5);
    let mut text: Vec<u8> = (0..800)
        .flat_map(|line| format!("line {line} {:x}\n", rng.next()).into_bytes())
        .collect();
    for round in 0..2_usize {
        for n in 0..12_usize {
            text[n * 40] = b'#';
            let name = format!("d{round}/{n}/text");
            repo.commit_files(&[
                (name.as_str(), &text),
                (format!("d{round}/{n}/noise").as_str(), &rng.bytes(n * 300)),
            ]);
        }
        repo.git(["repack", "-q", "-d", "-f"]);
    }
    let commit_id = repo.head();
    repo.git(["multi-pack-index", "write"]);
    let files = repo
        .listing(&commit_id)
        .into_iter()
        .filter(|listed| listed.mode != "040000")
        .map(|listed| (listed.clone(), repo.cat(&listed.id)))
        .collect();
    (repo, commit_id, files)
}

#[test]
fn r6_after_a_random_flip_each_file_is_right_or_eio() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id, files) = packed(&host);
    let good = repo.path().to_owned();
    let flips: u64 = if long() { 2000 } else { 200 };
    let (mut mounts, mut refusals, mut errors) = (0, 0, 0);
    for seed in 0..flips {
        let mut rng = Rng::new(seed);
        let copy = host.path("copy");
        host.run("cp").args(["-a"]).arg(&good).arg(&copy).ok();
        let copy = Repo::at(&copy);
        let mut victims = copy.pack_files(".pack");
        victims.extend(copy.pack_files(".idx"));
        victims.push(copy.join(".git/objects/pack/multi-pack-index"));
        let victim = &victims[rng.index(victims.len())];
        let at = rng.below(victim.metadata().unwrap().len());
        let bit = u8::try_from(rng.below(8)).unwrap();
        flip_bit(victim, at, bit);
        let name = victim.file_name().unwrap().to_string_lossy().into_owned();
        let what = format!("seed {seed}: bit {bit} of byte {at} of {name}");
        let point = host.dir("m");
        let run = host
            .forgefs(["mount", "--json"])
            .arg(copy.path())
            .arg(&commit_id);
        let finished = run.arg(&point).run();
        if finished.code() == Some(0) {
            mounts += 1;
            let mounted = Mounted::adopt(&host, &point, finished.json());
            errors += read_all(&mounted, &files, &what);
            assert_eq!(mounted.state(), "live", "{what}");
            mounted.umount();
        } else {
            // The commit or the root tree was hit: a clear no.
            let (report, logs) = (finished.report(), host.logs());
            assert_eq!(finished.code(), Some(3), "{what}: {report}\n{logs}");
            refusals += 1;
        }
        host.run("rm").arg("-rf").arg(copy.path()).ok();
    }
    assert!(mounts > refusals, "{mounts} mounts, {refusals} refusals");
    assert!(
        errors > 0,
        "no flip was noticed: does the test flip anything?"
    );
}

#[test]
fn r6_a_pack_truncated_under_a_live_mount_is_eio_and_no_signal() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id, files) = packed(&host);
    for keep in [100, 0, 5000] {
        let copy = host.path("copy");
        host.run("cp").args(["-a"]).arg(repo.path()).arg(&copy).ok();
        let copy = Repo::at(&copy);
        // A cache of one byte: nothing may be served from memory.
        let mounted = host.mount_with(&copy, &commit_id, &["--cache-bytes", "1"]);
        assert_eq!(read_all(&mounted, &files[..files.len() / 2], "whole"), 0);
        for pack in copy.pack_files(".pack") {
            host.run("chmod").arg("u+w").arg(&pack).ok();
            host.run("truncate")
                .args(["-s", &keep.to_string()])
                .arg(&pack)
                .ok();
        }
        host.run("sh")
            .args(["-c", "echo 3 >/proc/sys/vm/drop_caches"])
            .run();
        let errors = read_all(&mounted, &files, "truncated");
        assert!(errors > 0, "nothing was noticed at {keep} bytes");
        assert_eq!(mounted.state(), "live");
        mounted.umount();
        host.run("rm").arg("-rf").arg(copy.path()).ok();
    }
}

#[test]
fn r6_indexes_that_vanish_or_lie_never_give_wrong_bytes() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id, files) = packed(&host);
    type Damage = fn(&Repo);
    let swap_indexes: Damage = |repo| {
        let idx = repo.pack_files(".idx");
        let bytes = std::fs::read(&idx[0]).unwrap();
        overwrite(&idx[1], &bytes);
    };
    let remove_indexes: Damage = |repo| {
        std::fs::remove_file(&repo.pack_files(".idx")[0]).unwrap();
    };
    let stale_midx: Damage = |repo| {
        let pack = repo.pack_files(".pack").remove(0);
        let bytes = std::fs::read(&repo.pack_files(".pack")[1]).unwrap();
        overwrite(&pack, &bytes);
    };
    for (what, damage) in [
        ("indexes swapped", swap_indexes),
        ("an index gone", remove_indexes),
        ("another pack under the name", stale_midx),
    ] {
        let copy = host.path("copy");
        host.run("cp").args(["-a"]).arg(repo.path()).arg(&copy).ok();
        let copy = Repo::at(&copy);
        damage(&copy);
        let point = host.dir("m");
        let run = host
            .forgefs(["mount", "--json"])
            .arg(copy.path())
            .arg(&commit_id);
        let finished = run.arg(&point).run();
        if finished.code() == Some(0) {
            let mounted = Mounted::adopt(&host, &point, finished.json());
            read_all(&mounted, &files, what);
            assert_eq!(mounted.state(), "live", "{what}");
            mounted.umount();
        } else {
            finished.exits(3);
        }
        host.run("rm").arg("-rf").arg(copy.path()).ok();
    }
}

#[test]
fn r10_a_bad_tree_is_refused_at_the_root_and_eio_below() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    for bad in bad_trees(&repo) {
        let what = bad.what;
        let run = host
            .forgefs(["mount", "--json", "--mkdir"])
            .arg(repo.path());
        let finished = run.arg(&bad.root_id).arg(host.path("m")).run();
        assert!(
            matches!(finished.code(), Some(3 | 6)),
            "{what}: {}",
            finished.report()
        );
        assert_eq!(finished.json_error()["code"], "bad-tree", "{what}");
        assert!(!host.path("m").exists(), "{what}");
        let mounted = host.mount(&repo, &bad.deep_id);
        let list = |path: &Path| -> std::io::Result<usize> {
            Ok(std::fs::read_dir(path)?
                .collect::<Result<Vec<_>, _>>()?
                .len())
        };
        assert_eio(list(&mounted.path("deep/bad")), what);
        for name in ["a", ".git", "b", "f"] {
            assert_eio(
                std::fs::symlink_metadata(mounted.path("deep/bad").join(name)),
                what,
            );
        }
        assert_eq!(
            std::fs::read(mounted.path("deep/good/f")).unwrap(),
            b"fine\n",
            "{what}"
        );
        let run = host.forgefs(["prove", "--json"]).arg(mounted.point());
        let run = run.arg("--repo").arg(repo.path());
        let proof = run.args(["--sha", &bad.deep_id]).run();
        let record = proof.exits(1).json().to_string();
        let told = record.contains("bad-tree") && record.contains("deep/bad");
        assert!(told, "{what}: {record}");
        let doctor = host.forgefs(["doctor", "--json"]).arg(repo.path());
        let doctor = doctor.arg(&bad.deep_id).run();
        doctor.exits(6).says("bad-tree").says("deep/bad");
        mounted.umount();
    }
}

#[test]
fn a_tree_entry_of_another_kind_is_eio() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let blob_id = repo.blob("x\n");
    let inner = repo.tree(&[Entry::file("f", &blob_id)]);
    let tree_id = repo.raw_tree(&[
        Entry::dir("a-blob-as-directory", &blob_id),
        Entry::file("a-tree-as-file", &inner),
        Entry::file("fine", &blob_id),
    ]);
    let commit_id = repo.commit_tree(&tree_id, &[]);
    let mounted = host.mount(&repo, &commit_id);
    assert_eio(
        std::fs::metadata(mounted.path("a-blob-as-directory/f")),
        "blob as directory",
    );
    assert_eio(
        std::fs::read(mounted.path("a-tree-as-file")),
        "tree as file",
    );
    assert_eq!(std::fs::read(mounted.path("fine")).unwrap(), b"x\n");
    prove(&host, &mounted, &repo, &commit_id);
}
