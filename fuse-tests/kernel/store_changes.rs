//! Reading tolerates what git itself does to the store meanwhile (R12), and every kind of
//! substitution state (R7, R8).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::need::long;
use crate::support::oracle::assert_exact;
use crate::support::plants::plant_substitutions;
use crate::support::rng::Rng;
use crate::support::{Entry, Host, need, zoo};

#[test]
fn r12_gc_repack_and_fetch_meanwhile_disturb_nobody() {
    need!(Fuse);
    let host = Host::new();
    let upstream = host.repo("upstream");
    upstream.commit_files(&[("upstream", b"0\n")]);
    let repo = host.repo("repo");
    let mut rng = Rng::new(12);
    let mut commit_id = String::new();
    for n in 0..40 {
        let name = format!("d{}/f{n}", n % 7);
        commit_id = repo.commit_files(&[(&name, &rng.bytes(3000)), ("text", &rng.bytes(9000))]);
    }
    repo.git(["remote", "add", "upstream", "../upstream"]);
    let files: Vec<_> = repo
        .listing(&commit_id)
        .into_iter()
        .filter(|listed| listed.mode != "040000")
        .map(|listed| (repo.cat(&listed.id), listed))
        .collect();
    let done = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) {
                upstream.commit_files(&[("upstream", format!("{rounds}\n").as_bytes())]);
                repo.git(["fetch", "-q", "upstream"]);
                repo.git(["repack", "-q", "-adf"]);
                repo.git(["pack-refs", "--all"]);
                repo.git(["gc", "-q", "--prune=now"]);
                repo.git(["multi-pack-index", "write"]);
                repo.commit_files(&[("later", format!("{rounds}\n").as_bytes())]);
                rounds += 1;
            }
            rounds
        });
        let end = Instant::now() + Duration::from_secs(if long() { 60 } else { 10 });
        while Instant::now() < end {
            let mounted = host.mount_with(&repo, &commit_id, &["--cache-bytes", "1"]);
            for _ in 0..3 {
                for (want, listed) in &files {
                    let got = std::fs::read(mounted.path(&listed.name));
                    let name = listed.name.display();
                    assert!(
                        &got.unwrap_or_else(|e| panic!("{name}: {e}")) == want,
                        "{name}"
                    );
                }
                host.run("sh")
                    .args(["-c", "echo 3 >/proc/sys/vm/drop_caches"])
                    .run();
            }
            assert_eq!(mounted.state(), "live");
            mounted.umount();
        }
        done.store(true, Ordering::Relaxed);
        churn.join().unwrap()
    });
    assert!(rounds > 2, "the store changed {rounds} times");
}

#[test]
fn r12_what_is_pruned_is_eio_and_not_proven() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    repo.commit_files(&[("f", b"kept\n")]);
    let loose = repo.blob("only here\n");
    let tree_id = repo.tree(&[Entry::file("f", &loose)]);
    let commit_id = repo.commit_tree(&tree_id, &[]);
    let mounted = host.mount(&repo, &commit_id);
    repo.git(["gc", "-q", "--prune=now"]);
    let error = std::fs::read(mounted.path("f")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    let proof = host.forgefs(["prove", "--json"]).arg(mounted.point());
    let proof = proof
        .arg("--repo")
        .arg(repo.path())
        .args(["--sha", &commit_id])
        .run();
    assert!(matches!(proof.code(), Some(1 | 3)), "{}", proof.report());
}

#[test]
fn r12_objects_that_arrive_later_are_found() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"hello\n"), ("g", b"late\n")]);
    let id = repo.git(["rev-parse", "HEAD:g"]);
    let aside = host.path("aside");
    std::fs::rename(repo.loose_path(&id), &aside).unwrap();
    let mounted = host.mount(&repo, &commit_id);
    assert!(std::fs::read(mounted.path("g")).is_err());
    let other = host.repo("other");
    assert_eq!(other.blob("late\n"), id);
    other.commit_files(&[("g", b"late\n")]);
    other.pack();
    for suffix in [".pack", ".idx"] {
        for path in other.pack_files(suffix) {
            let dir = repo.join(".git/objects/pack");
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap();
        }
    }
    assert_eq!(std::fs::read(mounted.path("g")).unwrap(), b"late\n");
}

#[test]
fn r7_substitution_state_changes_nothing() {
    need!(Fuse);
    for format in ["sha1", "sha256"] {
        let host = Host::new();
        let repo = crate::support::Repo::init(&host.path("repo"), format);
        repo.commit_files(&[("f", b"first\n")]);
        let commit_id = repo.commit_files(&[("f", b"hello\n"), ("d/g", b"deep\n")]);
        plant_substitutions(&repo, &commit_id);
        let fooled = repo.git(["cat-file", "-p", &format!("{commit_id}:evil")]);
        assert_eq!(fooled, "evil", "plain git is fooled, so the plant is live");
        let mounted = host.mount(&repo, &commit_id);
        assert_eq!(mounted.record["tree"], repo.tree_of(&commit_id));
        assert_exact(&repo, &commit_id, mounted.point());
        let proof = host.forgefs(["prove"]).arg(mounted.point());
        proof
            .arg("--repo")
            .arg(repo.path())
            .args(["--sha", &commit_id])
            .ok();
        mounted.umount();
        // A commit that is missing stays missing, whatever replaces it.
        repo.git(["repack", "-q", "-adf"]);
        let lost = repo.commit_tree(&repo.tree_of(&commit_id), &[]);
        let evil = repo.git(["rev-parse", &format!("refs/replace/{commit_id}")]);
        repo.git(["replace", "-f", &lost, &evil]);
        std::fs::remove_file(repo.loose_path(&lost)).unwrap();
        let run = host
            .forgefs(["mount", "--json", "--mkdir"])
            .arg(repo.path());
        run.arg(&lost)
            .arg(host.path("m"))
            .run()
            .fails(3, "missing-object");
    }
}

#[test]
fn r8_r14_environment_and_configuration_steer_nothing() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[
        ("f", b"hello\n"),
        (".forgefs.toml", b"allow_other = true\n"),
        ("autoforge.yaml", b"mounts: [/etc]\n"),
        (".sbx/config", b"bind /etc\n"),
    ]);
    let plain = host.mount(&repo, &commit_id);
    let evil = host.repo("evil");
    evil.commit_files(&[("f", b"evil\n")]);
    std::fs::write(host.path("included"), "[core]\n\tbare = true\n").unwrap();
    for (key, value) in [
        ("core.worktree", "/etc"),
        ("include.path", "../../included"),
        ("core.sshCommand", "touch PWNED"),
        ("core.useReplaceRefs", "true"),
        (
            "remote.origin.url",
            "https://forgefs-planted-TOKEN@example.invalid/",
        ),
        ("core.alternateRefsCommand", "touch PWNED"),
    ] {
        repo.git(["config", key, value]);
    }
    let point = host.dir("steered");
    let evil_objects = evil.join(".git/objects");
    let steer = |run: crate::support::Run| {
        run.env("GIT_DIR", evil.join(".git"))
            .env("GIT_COMMON_DIR", evil.join(".git"))
            .env("GIT_WORK_TREE", evil.path())
            .env("GIT_OBJECT_DIRECTORY", &evil_objects)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &evil_objects)
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "core.useReplaceRefs")
            .env("GIT_CONFIG_VALUE_0", "true")
            .env("GIT_CONFIG_GLOBAL", host.path("included"))
            .env("GIT_NAMESPACE", "n")
            .env("GIT_REPLACE_REF_BASE", "refs/x")
            .env("GIT_CEILING_DIRECTORIES", "/")
            .env("GIT_DEFAULT_HASH", "sha256")
    };
    let run = host
        .forgefs(["mount", "--json"])
        .arg(repo.path())
        .arg(&commit_id);
    let finished = steer(run.arg(&point)).run();
    finished.exits(0);
    assert_exact(&repo, &commit_id, &point);
    let prove = |dir: &std::path::Path, steered: bool| {
        let run = host.forgefs(["prove", "--json"]).arg(dir);
        let run = run
            .arg("--repo")
            .arg(repo.path())
            .args(["--sha", &commit_id]);
        let finished = if steered { steer(run) } else { run }.run();
        finished.exits(0);
        let mut record = finished.json();
        let record_map = record.as_object_mut().unwrap();
        for key in ["started", "finished", "dir"] {
            record_map.remove(key);
        }
        record
    };
    assert_eq!(prove(plain.point(), false), prove(&point, true));
    assert!(!host.path("PWNED").exists() && !repo.join("PWNED").exists());
    assert!(!finished.report().contains("planted-TOKEN"));
}

#[test]
fn r9_the_zoo_in_sha256_and_its_alternates_read_whole_while_packed_anew() {
    need!(Fuse);
    let host = Host::new();
    let zoo = zoo::zoo(&host.path("zoo"), "sha256");
    let mounted = host.mount(&zoo.repo, &zoo.commit_id);
    zoo.repo.git(["repack", "-q", "-a", "-d"]);
    zoo.repo.git(["prune-packed", "-q"]);
    assert_exact(&zoo.repo, &zoo.commit_id, mounted.point());
}
