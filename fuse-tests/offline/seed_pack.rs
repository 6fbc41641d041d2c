//! The seed as a pack or a tar, and back.

use std::path::Path;

use crate::seed::{file_hashes, git, seed, small};
use crate::support::plants::flip_bit;
use crate::support::{Host, Run};

#[test]
fn r88_a_seed_pack_makes_the_same_repository_elsewhere() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    repo.pack();
    let direct = seed(&host, &repo, &commit_id, "direct", &["--history", "full"]);
    let packed = seed(
        &host,
        &repo,
        &commit_id,
        "packed",
        &["--history", "full", "--format", "pack"],
    );
    std::fs::rename(repo.path(), host.path("away")).unwrap();
    let unpacked = host.path("unpacked");
    let unpack = |dir: &Path| {
        host.forgefs(["seed", "--from"])
            .arg(packed.join("seed.pack"))
            .arg(dir)
            .run()
    };
    unpack(&unpacked).exits(0);
    assert_eq!(file_hashes(&direct), file_hashes(&unpacked));
    assert_eq!(git(&unpacked, &["status", "--porcelain"]).ok(), "");
    git(&unpacked, &["fsck", "--full", "--strict"]).ok();
    let pack = packed.join("seed.pack");
    for at in [5, 40, std::fs::metadata(&pack).unwrap().len() - 3] {
        flip_bit(&pack, at, 0);
        unpack(&host.path("flipped")).exits(1);
        assert!(!host.path("flipped").exists());
        flip_bit(&pack, at, 0);
    }
}

#[test]
fn r88_streams_need_no_directory_on_the_way() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let stream = |format: &str| {
        let args = ["seed", "--format", format, "--history", "2", "--owner=7:8"];
        let args = &args[..if format == "tar" { 6 } else { 5 }];
        let run = host.forgefs(args).arg(repo.path()).args([&commit_id, "-"]);
        let finished = run.run();
        finished.exits(0);
        finished.stdout
    };
    let pack = stream("pack");
    let unpacked = host.path("unpacked");
    let unpack = host.forgefs(["seed", "--from", "-"]).arg(&unpacked);
    unpack.stdin(&pack).ok();
    git(&unpacked, &["fsck", "--full", "--strict"]).ok();
    assert_eq!(git(&unpacked, &["status", "--porcelain"]).ok(), "");
    let tar = stream("tar");
    assert!(tar == stream("tar"), "two runs write the same tar");
    let untarred = host.dir("untarred");
    let extract = Run::new("tar").args(["-x", "--no-same-owner", "-C"]);
    extract.arg(&untarred).stdin(&tar).ok();
    git(&untarred, &["fsck", "--full", "--strict"]).ok();
    assert_eq!(git(&untarred, &["status", "--porcelain"]).ok(), "");
    assert_eq!(git(&untarred, &["rev-parse", "HEAD"]).ok(), commit_id);
    let owners = Run::shell("tar -tv --numeric-owner | awk '{print $2}' | sort -u");
    assert_eq!(owners.stdin(&tar).ok(), "7/8");
}
