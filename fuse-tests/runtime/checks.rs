//! What must hold in every engine's container (R18, R34, R41, R44, R128).

use std::time::Duration;

use crate::engine::Engine;
use crate::support::{Host, Mounted, Repo};

/// A host with a repository of a few files.
pub(crate) fn small(host: &Host) -> (Repo, String) {
    let repo = host.repo("repo");
    std::os::unix::fs::symlink("d/g", repo.join("link")).unwrap();
    let commit_id = repo.commit_files(&[
        ("f", b"hello\n"),
        ("d/g", b"deep\r\n"),
        ("run.sh", b"#!/bin/sh\necho ran\n"),
    ]);
    repo.git(["update-index", "--chmod=+x", "run.sh"]);
    repo.git(["commit", "-q", "--amend", "-m", "x"]);
    let _ = commit_id;
    let commit_id = repo.head();
    (repo, commit_id)
}

/// R44, R18: right bytes, no write, nothing of the host in sight.
pub(crate) fn reads_and_cannot_write(engine: &Engine, host: &Host, mounted: &Mounted<'_>) {
    let script = "cat /source/f /source/d/g /source/link; /source/run.sh; ls -A /source; \
                  grep /source /proc/self/mountinfo >&2; touch /source/x";
    let finished = engine.container(mounted.point(), &[], script).run();
    finished.exits(1).says("Read-only file system");
    let want = "hello\ndeep\r\ndeep\r\nran\nd\nf\nlink\nrun.sh";
    assert_eq!(finished.out(), want, "{}", finished.report());
    let line = finished.err();
    let line = line
        .lines()
        .find(|line| line.contains(" /source "))
        .unwrap();
    for secret in [host.path("repo"), host.path("home"), host.state()] {
        assert!(!line.contains(&*secret.to_string_lossy()), "{line}");
    }
    assert!(line.contains("forgefs:"), "{line}");
}

/// R44: another user in the container needs `--allow-other`.
pub(crate) fn other_users_need_allow_other(engine: &Engine, host: &Host, repo: &Repo, id: &str) {
    let closed = host.mount(repo, id);
    let user = ["--user", "1000"];
    let tried = engine
        .container(closed.point(), &user, "cat /source/f")
        .run();
    assert_ne!(tried.code(), Some(0), "{}", tried.report());
    tried.says("ermission denied");
    closed.umount();
    let open = host.mount_with(repo, id, &["--allow-other"]);
    let run = engine.container(open.point(), &user, "id -u; cat /source/f; touch /source/f");
    let finished = run.run();
    finished.exits(1);
    assert_eq!(finished.out(), "1000\nhello", "{}", finished.report());
    open.umount();
}

/// R34: the same binary proves /source against a manifest, with no repository in reach.
pub(crate) fn proves_from_inside(engine: &Engine, host: &Host, repo: &Repo, id: &str) {
    let mounted = host.mount(repo, id);
    let manifest = host.path("m.json");
    let run = host
        .forgefs(["prove"])
        .arg(mounted.point())
        .arg("--write-manifest");
    let run = run.arg(&manifest).arg("--repo").arg(repo.path());
    run.args(["--sha", id]).ok();
    let mut text = std::fs::read_to_string(&manifest).unwrap();
    host.run("chmod").arg("a+r").arg(&manifest).ok();
    let bind = format!("type=bind,src={},dst=/m.json,readonly", manifest.display());
    let script = "forgefs prove /source --manifest /m.json --json --state-dir /tmp/state";
    let prove = || {
        let options = ["--mount", bind.as_str()];
        engine.container(mounted.point(), &options, script).run()
    };
    let finished = prove();
    finished.exits(0);
    assert_eq!(finished.json()["verdict"], "proven");
    assert_eq!(finished.json()["tree"], repo.tree_of(id));
    // An edited manifest no longer gives the commit's tree.
    let blob_id = repo.git(["rev-parse", &format!("{id}:f")]);
    assert!(text.contains(&blob_id));
    text = text.replace(&blob_id, &blob_id.chars().rev().collect::<String>());
    std::fs::write(&manifest, text).unwrap();
    let refused = prove();
    assert!(
        matches!(refused.code(), Some(1 | 3)),
        "{}",
        refused.report()
    );
    mounted.umount();
}

/// R41: a dead daemon stays dead for the container, a remount does not heal it, and no container
/// starts on it.
pub(crate) fn a_dead_mount_stays_dead(engine: &Engine, host: &Host, repo: &Repo, id: &str) {
    let mounted = host.mount(repo, id);
    let name = format!("forgefs-{}", std::process::id());
    let script = "cat /source/f; sleep 300";
    let run = engine.container(mounted.point(), &["-d", "--name", &name], script);
    run.ok();
    let exec = |script: &str| engine.run(["exec", &name, "sh", "-c", script]).run();
    assert_eq!(exec("cat /source/f").ok(), "hello");
    mounted.kill();
    // The kernel believes the root's attributes for one second.
    let forget = || std::thread::sleep(Duration::from_millis(1100));
    forget();
    let dead = exec("ls /source");
    assert!(
        dead.code() != Some(0) && dead.err().contains("not connected"),
        "{}",
        dead.report()
    );
    host.forgefs(["umount", "--lazy"])
        .arg(mounted.point())
        .run()
        .exits(0);
    let again = host.mount_at(repo, id, mounted.point(), &[]);
    let still = exec("ls /source");
    assert!(
        still.code() != Some(0) && still.err().contains("not connected"),
        "{}",
        still.report()
    );
    engine.run(["rm", "-f", "-t", "0", &name]).run();
    again.kill();
    forget();
    let run = engine.container(again.point(), &[], "ls /source");
    let refused = run.deadline(Duration::from_secs(60)).run();
    assert_ne!(refused.code(), Some(0), "{}", refused.report());
    host.forgefs(["umount", "--lazy"])
        .arg(again.point())
        .run()
        .exits(0);
}

/// R128: from a container with nothing but the mount, no path of the host is there.
pub(crate) fn nothing_of_the_host_is_reachable(
    engine: &Engine,
    host: &Host,
    mounted: &Mounted<'_>,
) {
    let mut paths = vec![
        host.path("home"),
        host.path("repo"),
        host.state(),
        mounted.point().to_owned(),
        "/var/run/docker.sock".into(),
        "/source/.git".into(),
        "/root/.git-credentials".into(),
    ];
    paths.push(crate::support::oracle::project().to_owned());
    let list: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let script = format!(
        "for p in {}; do if ls -d \"$p\" 2>/dev/null; then exit 9; fi; done",
        list.join(" ")
    );
    engine.container(mounted.point(), &[], &script).ok();
}
