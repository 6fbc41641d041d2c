//! The proof through the kernel (R27-R30, R34-R36): what is proven, what is not, and why.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::mount::daemons_of;
use crate::support::{Entry, Finished, Host, Repo, Run, need, zoo};

fn prove(host: &Host, dir: &Path, repo: &Repo, commit_id: &str) -> Finished {
    let run = host.forgefs(["prove", "--json"]).arg(dir);
    run.arg("--repo")
        .arg(repo.path())
        .args(["--sha", commit_id])
        .run()
}

fn first(finished: &Finished) -> (String, String) {
    finished.exits(1);
    let record = finished.json();
    assert_eq!(record["verdict"], "not-proven", "{record}");
    let difference = &record["differences"][0];
    let text = |key: &str| difference[key].as_str().unwrap_or("none").to_owned();
    (text("path"), text("kind"))
}

#[test]
fn r27_r30_the_mounted_zoo_proves_with_a_canonical_record() {
    need!(Fuse);
    let host = Host::new();
    let zoo = zoo::zoo(&host.path("zoo"), "sha1");
    let mounted = host.mount(&zoo.repo, &zoo.commit_id);
    let (a, b) = (
        prove(&host, mounted.point(), &zoo.repo, &zoo.commit_id),
        prove(&host, mounted.point(), &zoo.repo, &zoo.commit_id),
    );
    a.exits(0);
    let (mut a, mut b) = (a.json(), b.json());
    assert_eq!(a["schema"], "forgefs.proof/1");
    assert_eq!(a["verdict"], "proven");
    assert_eq!(a["commit"], zoo.commit_id);
    assert_eq!(a["tree"], zoo.repo.tree_of(&zoo.commit_id));
    assert_eq!(a["object_format"], "sha1");
    assert_eq!(a["dir"]["fstype"], "fuse.forgefs");
    assert_eq!(a["gitlinks"]["count"], 2);
    let listed = zoo.repo.listing(&zoo.commit_id);
    assert_eq!(a["entries"].as_u64(), Some(listed.len() as u64));
    for mode in ["100644", "100755", "120000", "160000"] {
        let count = listed.iter().filter(|l| l.mode == mode).count() as u64;
        assert_eq!(
            a["modes"][mode].as_u64(),
            Some(count),
            "{mode} in {}",
            a["modes"]
        );
    }
    for record in [&mut a, &mut b] {
        for key in ["started", "finished"] {
            assert!(
                record.as_object_mut().unwrap().remove(key).is_some(),
                "{key}"
            );
        }
    }
    assert_eq!(a, b);
}

#[test]
fn r30_the_record_is_written_private_and_whole() {
    use std::os::unix::fs::PermissionsExt;
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"x\n")]);
    let mounted = host.mount(&repo, &commit_id);
    let file = host.path("proof.json");
    std::fs::write(&file, "old").unwrap();
    let run = host
        .forgefs(["prove"])
        .arg(mounted.point())
        .arg("-o")
        .arg(&file);
    run.arg("--repo")
        .arg(repo.path())
        .args(["--sha", &commit_id])
        .ok();
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(record["verdict"], "proven");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn r27_another_commit_is_not_proven_with_the_first_path() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let one = repo.commit_files(&[("a", b"same\n"), ("b/c", b"one\n"), ("d", b"x\n")]);
    let two = repo.commit_files(&[("b/c", b"two\n"), ("d", b"y\n")]);
    let mounted = host.mount(&repo, &one);
    let found = first(&prove(&host, mounted.point(), &repo, &two));
    assert_eq!(found, ("b/c".into(), "content".into()));
}

/// Mutations of a copy (R29), each with the kind that it must give and the path.
const MUTATIONS: &[(&str, &str, &str)] = &[
    ("printf x >>d/f", "content", "d/f"),
    (
        "touch -r d/f t; printf HELLO >d/f; touch -r t d/f; rm t",
        "content",
        "d/f",
    ),
    ("chmod +x d/f", "mode", "d/f"),
    ("chmod -x run", "mode", "run"),
    ("cp d/f ../outside; ln -sf ../../outside d/f", "type", "d/f"),
    ("mv d ../d; ln -s ../d d", "type", "d"),
    ("rm d/f", "missing", "d/f"),
    ("rm -r d", "missing", "d"),
    ("touch d/new", "extra", "d/new"),
    ("mkdir d/new", "extra", "d/new"),
    ("mkdir .git", "extra", ".git"),
    ("ln -sfn elsewhere link", "symlink-target", "link"),
    ("rm link; cp run link", "type", "link"),
    ("rm d/f; mkfifo d/f", "special-file", "d/f"),
    ("mkfifo d/fifo", "extra|special-file", "d/fifo"),
    ("touch sub/f", "gitlink-not-empty", "sub"),
    ("rmdir sub", "missing", "sub"),
    ("mount -t tmpfs none d", "nested-mount", "d"),
    ("mount --bind ../d2 d", "nested-mount", "d"),
    ("chmod 000 d/f", "ok", ""),
    ("chmod 000 run", "mode", "run"),
    ("chmod g+w,o-r d/f run", "ok", ""),
    ("true", "ok", ""),
];

#[test]
fn r29_every_mutation_is_found_with_its_kind() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    std::os::unix::fs::symlink("d/f", repo.join("link")).unwrap();
    repo.commit_files(&[
        ("d/f", b"hello"),
        ("d/g", b"deep\n"),
        ("run", b"#!/bin/sh\n"),
    ]);
    let gitlink = format!("160000,{},sub", "1234".repeat(10));
    repo.git([
        "update-index",
        "--add",
        "--cacheinfo",
        &gitlink,
        "--chmod=+x",
        "run",
    ]);
    repo.git(["commit", "-qm", "x"]);
    let commit_id = repo.head();
    let mounted = host.mount(&repo, &commit_id);
    for (mutation, kinds, path) in MUTATIONS {
        let place = host.dir("place");
        host.run("cp")
            .arg("-a")
            .arg(mounted.path("d"))
            .arg(place.join("d2"))
            .ok();
        let copy = place.join("copy");
        host.run("cp")
            .arg("-a")
            .arg(mounted.point())
            .arg(&copy)
            .ok();
        Run::shell(mutation).dir(&copy).ok();
        let finished = prove(&host, &copy, &repo, &commit_id);
        if *kinds == "ok" {
            assert_eq!(
                finished.code(),
                Some(0),
                "{mutation}: {}",
                finished.report()
            );
        } else {
            let (at, kind) = first(&finished);
            let told = kinds.split('|').any(|k| k == kind) && at == *path;
            assert!(told, "{mutation}: {kind} at {at}, not {kinds} at {path}");
        }
        let _ = Run::shell("umount d").dir(&copy).run();
        host.run("rm")
            .args(["-rf", "--one-file-system"])
            .arg(&place)
            .ok();
    }
}

#[test]
fn r28_a_file_system_that_lies_about_one_byte_is_caught() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("d/f", b"hello\n"), ("g", b"fine\n")]);
    let mounted = host.mount_with(&repo, &commit_id, &["--xattrs"]);
    // A bind over one file leaves everything else of the mount as it is, its answers included.
    let lie = host.path("lie");
    std::fs::write(&lie, "hellO\n").unwrap();
    host.run("mount")
        .arg("--bind")
        .arg(&lie)
        .arg(mounted.path("d/f"))
        .ok();
    let (path, kind) = first(&prove(&host, mounted.point(), &repo, &commit_id));
    assert!(
        path == "d/f" && matches!(kind.as_str(), "nested-mount" | "content"),
        "{kind} {path}"
    );
    host.run("umount").arg(mounted.path("d/f")).ok();
    // An overlay says one thing in its attributes and another in its bytes.
    let (upper, work, over) = (
        host.dir("over/upper"),
        host.dir("over/work"),
        host.dir("lying"),
    );
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        mounted.point().display(),
        upper.display(),
        work.display()
    );
    let overlay = host
        .run("mount")
        .args(["-t", "overlay", "overlay", "-o", &options]);
    overlay.arg(&over).ok();
    assert_eq!(prove(&host, &over, &repo, &commit_id).code(), Some(0));
    host.run("cp")
        .arg("-p")
        .arg(&lie)
        .arg(over.join("d/f"))
        .ok();
    let found = first(&prove(&host, &over, &repo, &commit_id));
    assert_eq!(found, ("d/f".into(), "content".into()));
}

#[test]
fn r36_a_dead_daemon_is_not_proven_at_once() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"x\n")]);
    let mounted = host.mount(&repo, &commit_id);
    mounted.kill();
    let finished = prove(&host, mounted.point(), &repo, &commit_id);
    finished.exits(1);
    assert_eq!(
        finished.json()["reason"],
        "daemon-dead",
        "{}",
        finished.report()
    );
    assert!(
        finished.took < Duration::from_secs(5),
        "{}",
        finished.report()
    );
}

#[test]
fn r36_a_stopped_daemon_meets_the_deadline() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"x\n"), ("d/g", b"y\n")]);
    let mounted = host.mount(&repo, &commit_id);
    let signal = |signal| {
        for pid in daemons_of(&host) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
        }
    };
    signal(Signal::STOP);
    let run = host
        .forgefs(["prove", "--json", "--timeout", "2s"])
        .arg(mounted.point());
    let run = run
        .arg("--repo")
        .arg(repo.path())
        .args(["--sha", &commit_id]);
    let finished = run.deadline(Duration::from_secs(30)).run();
    signal(Signal::CONT);
    finished.exits(1);
    assert!(
        finished.took < Duration::from_secs(10),
        "{}",
        finished.report()
    );
    assert!(finished.out().contains("timed-out") || finished.out().contains("timeout"));
    assert_eq!(
        prove(&host, mounted.point(), &repo, &commit_id).code(),
        Some(0)
    );
}

#[test]
fn r34_a_manifest_proves_without_the_repository() {
    need!(Fuse);
    for format in ["sha1", "sha256"] {
        let host = Host::new();
        let zoo = zoo::zoo(&host.path("zoo"), format);
        let mounted = host.mount(&zoo.repo, &zoo.commit_id);
        let manifest = host.path("m.json");
        let run = host
            .forgefs(["prove"])
            .arg(mounted.point())
            .arg("--write-manifest");
        let run = run.arg(&manifest).arg("--repo").arg(zoo.repo.path());
        run.args(["--sha", &zoo.commit_id]).ok();
        std::fs::rename(zoo.repo.path(), host.path("away")).unwrap();
        let by_manifest = |manifest: &Path| {
            let run = host.forgefs(["prove", "--json"]).arg(mounted.point());
            run.arg("--manifest").arg(manifest).run()
        };
        let finished = by_manifest(&manifest);
        if finished.code() != Some(0) {
            // The daemon still reads the repository that was moved away: bytes it cannot get now.
            std::fs::rename(host.path("away"), zoo.repo.path()).unwrap();
            by_manifest(&manifest).exits(0);
        }
        let text = std::fs::read_to_string(&manifest).unwrap();
        let blob = zoo
            .repo
            .git_run(["hash-object", "--stdin"])
            .stdin("# The zoo\n");
        let blob = blob.dir(host.path("zoo.alternate")).ok();
        assert!(text.contains(&blob), "the manifest names its objects");
        let edited = host.path("edited.json");
        std::fs::write(&edited, text.replace(&blob, &"0".repeat(blob.len()))).unwrap();
        let refused = by_manifest(&edited);
        assert!(
            matches!(refused.code(), Some(1 | 3)),
            "{}",
            refused.report()
        );
    }
}

#[test]
fn r35_a_tree_bomb_meets_the_budget_and_names_the_path() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let blob_id = repo.blob("boom\n");
    let mut tree_id = repo.tree(&[Entry::file("f", &blob_id)]);
    for _ in 0..10 {
        let entries: Vec<Entry> = (0..10)
            .map(|n| Entry::dir(format!("d{n}"), &tree_id))
            .collect();
        tree_id = repo.tree(&entries);
    }
    let commit_id = repo.commit_tree(&tree_id, &[]);
    let mounted = host.mount(&repo, &commit_id);
    for (option, value) in [("--max-entries", "20000"), ("--max-depth", "5")] {
        let run = host
            .forgefs(["prove", "--json", option, value])
            .arg(mounted.point());
        let run = run
            .arg("--repo")
            .arg(repo.path())
            .args(["--sha", &commit_id]);
        // A hundredth of what the whole bomb would need.
        let run = run.under(["sh", "-c", "ulimit -v 4000000; exec \"$0\" \"$@\""]);
        let finished = run.deadline(Duration::from_secs(60)).run();
        finished.exits(7);
        let error = finished.json_error();
        assert!(
            error["path"].as_str().is_some_and(|p| p.contains("d0")),
            "{error}"
        );
    }
}
