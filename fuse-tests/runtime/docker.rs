//! Rootful Docker binds a mount (R44).

use crate::checks;
use crate::engine::{docker, turn};
use crate::support::{Host, need};

#[test]
fn r44_r18_r128_docker_reads_the_mount_and_cannot_write() {
    need!(Fuse, Docker);
    let _turn = turn();
    let host = Host::new();
    let (repo, commit_id) = checks::small(&host);
    let mounted = host.mount(&repo, &commit_id);
    checks::reads_and_cannot_write(docker(), &host, &mounted);
    checks::nothing_of_the_host_is_reachable(docker(), &host, &mounted);
    mounted.umount();
}

#[test]
fn r44_another_user_in_docker_needs_allow_other() {
    need!(Fuse, Docker);
    let _turn = turn();
    let host = Host::new();
    let (repo, commit_id) = checks::small(&host);
    checks::other_users_need_allow_other(docker(), &host, &repo, &commit_id);
}

#[test]
fn r34_forgefs_proves_from_inside_docker() {
    need!(Fuse, Docker);
    let _turn = turn();
    let host = Host::new();
    let (repo, commit_id) = checks::small(&host);
    checks::proves_from_inside(docker(), &host, &repo, &commit_id);
}

#[test]
fn r41_a_dead_mount_stays_dead_for_docker() {
    need!(Fuse, Docker);
    let _turn = turn();
    let host = Host::new();
    let (repo, commit_id) = checks::small(&host);
    checks::a_dead_mount_stays_dead(docker(), &host, &repo, &commit_id);
}
