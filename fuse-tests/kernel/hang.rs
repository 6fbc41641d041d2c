//! A server that takes requests and never answers: what waits for it hangs inside the kernel and
//! cannot be killed, and the prover ends in time all the same (R36).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use forgefs::sys::mounts::{FuseMountOptions, mount_fuse, open_fuse_device};

use crate::support::{Host, need};

/// Answers FUSE_INIT (opcode 26) with protocol 7.31 and nothing else.
fn serve_nothing(mut device: File) {
    let mut request = vec![0; 1 << 17];
    while let Ok(count) = device.read(&mut request) {
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().expect("four"));
        if count < 40 || word(4) != 26 {
            continue;
        }
        let mut answer = Vec::new();
        answer.extend_from_slice(&80_u32.to_ne_bytes());
        answer.extend_from_slice(&0_i32.to_ne_bytes());
        answer.extend_from_slice(&request[8..16]);
        for word in [7_u32, 31, 0, 0, 0, 4096] {
            answer.extend_from_slice(&word.to_ne_bytes());
        }
        answer.resize(80, 0);
        device.write_all(&answer).expect("the kernel takes it");
    }
}

#[test]
fn r36_a_server_that_never_answers_cannot_keep_the_prover() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"x")]);
    let point = host.dir("hung");
    let device = open_fuse_device().expect("a device");
    let options = FuseMountOptions {
        source: String::from("hung"),
        no_exec: false,
        allow_other: false,
        uid: 0,
        gid: 0,
    };
    mount_fuse(device.as_fd(), &point, &options).expect("mounted");
    std::thread::spawn(move || serve_nothing(File::from(device)));
    let run = host.forgefs(["prove", "--json", "--timeout", "1s"]);
    let run = run.arg(&point).arg("--repo").arg(repo.path());
    let run = run.args(["--sha", &commit_id]);
    let finished = run.deadline(Duration::from_secs(20)).run();
    // By force, or the child that hangs would outlive the test.
    let flags = rustix::mount::UnmountFlags::FORCE | rustix::mount::UnmountFlags::DETACH;
    rustix::mount::unmount(&point, flags).expect("unmounted");
    finished.exits(1);
    assert_eq!(finished.json()["reason"], "timed-out");
    assert!(
        finished.took < Duration::from_secs(5),
        "{}",
        finished.report()
    );
}
