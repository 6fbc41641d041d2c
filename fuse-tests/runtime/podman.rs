//! Podman binds a mount, as root and as an ordinary user (R44).

use crate::checks;
use crate::engine::{podman, rootless_podman, turn};
use crate::support::mounts::mounts_at;
use crate::support::{Host, Run, forgefs_program, need};

#[test]
fn r44_r34_r41_podman_reads_proves_and_cannot_write() {
    need!(Fuse, Podman);
    let _turn = turn();
    let host = Host::new();
    let (repo, commit_id) = checks::small(&host);
    let engine = podman(&host);
    let mounted = host.mount(&repo, &commit_id);
    checks::reads_and_cannot_write(&engine, &host, &mounted);
    checks::nothing_of_the_host_is_reachable(&engine, &host, &mounted);
    mounted.umount();
    checks::other_users_need_allow_other(&engine, &host, &repo, &commit_id);
    checks::proves_from_inside(&engine, &host, &repo, &commit_id);
    checks::a_dead_mount_stays_dead(&engine, &host, &repo, &commit_id);
}

#[test]
fn r44_rootless_podman_reads_a_mount_of_its_own_user() {
    need!(Fuse, Podman, NonRoot, Rootless);
    let _turn = turn();
    let host = Host::new();
    let (repo, commit_id) = checks::small(&host);
    let program = host.path("forgefs");
    std::fs::copy(forgefs_program(), &program).unwrap();
    let point = host.dir("m");
    host.run("chown")
        .args(["-R", "1000:1000"])
        .arg(repo.path())
        .arg(&point)
        .ok();
    host.run("chown").arg("1000:1000").arg(host.path("")).ok();
    let forgefs = |args: &[&str]| -> Run {
        host.run("setpriv")
            .args(["--reuid=1000", "--regid=1000", "--clear-groups"])
            .arg(&program)
            .args(args)
    };
    forgefs(&["mount"])
        .arg(repo.path())
        .arg(&commit_id)
        .arg(&point)
        .ok();
    // The namespace that podman makes at its first use must already see the mount.
    let engine = rootless_podman(&host);
    let script = "id -u; cat /source/f; touch /source/x";
    let finished = engine.container(&point, &[], script).run();
    finished.exits(1).says("Read-only file system");
    assert_eq!(finished.out(), "0\nhello", "{}", finished.report());
    engine
        .run(["unshare", "rm", "-rf"])
        .arg(host.path("rootless/data"))
        .run();
    // Podman's pause process holds a copy of every mount that existed when it started.
    let script = "find \"$1\" -name pause.pid -exec cat {} + | xargs -r kill -9";
    host.run("sh")
        .args(["-euc", script, "sh"])
        .arg(host.path("rootless"))
        .ok();
    forgefs(&["umount"]).arg(&point).ok();
    assert!(mounts_at(&point).is_empty());
}
