//! The life of a mount after it was made: ending it, its daemon's death, others beside it
//! (R40-R42, R48, R49).

use std::time::Duration;

use rustix::process::Signal;

use crate::mount::daemons_of;
use crate::support::mounted::lives;
use crate::support::mounts::mounts_at;
use crate::support::oracle::assert_exact;
use crate::support::{Host, Repo, Run, need, wait_for};

fn small(host: &Host) -> (Repo, String) {
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"hello\n"), ("d/g", b"deep\n")]);
    (repo, commit_id)
}

/// Returns the errno of looking at a path.
fn errno_of(path: &std::path::Path) -> Option<i32> {
    std::fs::metadata(path).err().and_then(|e| e.raw_os_error())
}

const ENOTCONN: i32 = 107;

#[test]
fn r40_umount_ends_mount_and_daemon_once() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let mounted = host.mount(&repo, &commit_id);
    mounted.umount();
    assert!(daemons_of(&host).is_empty());
    let again = host
        .forgefs(["umount", "--json"])
        .arg(mounted.point())
        .run();
    again.exits(3);
    assert!(std::fs::read_dir(mounted.point()).unwrap().next().is_none());
}

#[test]
fn r40_only_forgefs_mounts_are_touched() {
    need!(Fuse);
    let host = Host::new();
    let point = host.dir("tmpfs");
    Run::new("mount")
        .args(["-t", "tmpfs", "none"])
        .arg(&point)
        .ok();
    for options in [
        &["umount"][..],
        &["umount", "--lazy"],
        &["umount", "--abort"],
    ] {
        host.forgefs(options).arg(&point).run().exits(4);
    }
    assert_eq!(mounts_at(&point).len(), 1);
    host.forgefs(["umount"])
        .arg(host.dir("plain"))
        .run()
        .exits(3);
}

#[test]
fn r40_a_busy_mount_stays_unless_lazy() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let mounted = host.mount(&repo, &commit_id);
    let held = std::fs::File::open(mounted.path("f")).unwrap();
    host.forgefs(["umount"]).arg(mounted.point()).run().exits(5);
    assert_eq!(std::fs::read(mounted.path("d/g")).unwrap(), b"deep\n");
    host.forgefs(["umount", "--lazy"])
        .arg(mounted.point())
        .run()
        .exits(0);
    assert!(mounts_at(mounted.point()).is_empty());
    let mut byte = [0; 6];
    rustix::io::pread(&held, &mut byte, 0).expect("what is open stays readable");
    assert_eq!(&byte, b"hello\n");
    drop(held);
    mounted.wait_until_gone(Duration::from_secs(5));
}

#[test]
fn r40_a_signal_to_the_daemon_unmounts() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    for signal in [Signal::TERM, Signal::INT] {
        let mounted = host.mount(&repo, &commit_id);
        mounted.signal(signal);
        mounted.wait_until_gone(Duration::from_secs(5));
        assert!(mounts_at(mounted.point()).is_empty(), "{signal:?}");
        assert_eq!(mounted.state(), "absent");
    }
}

#[test]
fn r41_r42_a_dead_daemon_leaves_enotconn_until_umount() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let mounted = host.mount(&repo, &commit_id);
    assert_eq!(mounted.state(), "live");
    for pid in daemons_of(&host) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    mounted.wait_until_gone(Duration::from_secs(5));
    assert_eq!(errno_of(mounted.point()), Some(ENOTCONN));
    assert_eq!(errno_of(&mounted.path("f")), Some(ENOTCONN));
    assert_eq!(
        mounts_at(mounted.point()).len(),
        1,
        "it is no empty directory"
    );
    assert_eq!(mounted.state(), "dead");
    let proof = host.forgefs(["prove", "--json"]).arg(mounted.point());
    let proof = proof
        .arg("--repo")
        .arg(repo.path())
        .args(["--sha", &commit_id])
        .run();
    proof.exits(1);
    assert!(proof.out().contains("daemon-dead"), "{}", proof.report());
    let taken = host.forgefs(["mount"]).arg(repo.path()).arg(&commit_id);
    taken.arg(mounted.point()).run().exits(5);
    host.forgefs(["umount"]).arg(mounted.point()).run().exits(0);
    assert!(mounts_at(mounted.point()).is_empty());
    assert_eq!(mounted.state(), "absent");
}

#[test]
fn r41_a_dead_mount_answers_nothing_from_the_kernels_cache() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let mounted = host.mount(&repo, &commit_id);
    // Everything is in the kernel's caches when the daemon dies.
    for _ in 0..2 {
        host.run("grep").args(["-r", "."]).arg(mounted.point()).ok();
        host.run("ls").arg("-lR").arg(mounted.point()).ok();
    }
    mounted.kill();
    // The kernel believes the root's attributes for one second.
    std::thread::sleep(Duration::from_millis(1100));
    for name in ["", "f", "d", "d/g"] {
        assert_eq!(errno_of(&mounted.path(name)), Some(ENOTCONN), "{name}");
        let read = std::fs::read_dir(mounted.path(name)).err();
        assert_eq!(
            read.and_then(|e| e.raw_os_error()),
            Some(ENOTCONN),
            "{name}"
        );
    }
}

#[test]
fn r42_a_recycled_pid_is_never_signalled() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let mounted = host.mount(&repo, &commit_id);
    mounted.kill();
    let mut bystander = Run::new("sleep").arg("600").spawn();
    let records: Vec<_> = std::fs::read_dir(host.state().join("mounts"))
        .expect("a folder of mount records")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    assert_eq!(records.len(), 1, "{records:?}");
    let old = mounted.pid().to_string();
    let record = std::fs::read_to_string(&records[0]).unwrap();
    assert!(record.contains(&old), "{record}");
    let record = record.replace(&old, &bystander.id().to_string());
    std::fs::write(&records[0], record).unwrap();
    assert_eq!(mounted.state(), "dead");
    let ended = host
        .forgefs(["umount", "--abort"])
        .arg(mounted.point())
        .run();
    assert!(
        bystander.try_wait().unwrap().is_none(),
        "{}",
        ended.report()
    );
    ended.exits(0);
    assert!(mounts_at(mounted.point()).is_empty());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn r40_a_daemon_that_hangs_is_aborted() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let mounted = host.mount(&repo, &commit_id);
    for pid in daemons_of(&host) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
    }
    let mut reader = Run::new("cat").arg(mounted.path("f")).spawn();
    std::thread::sleep(Duration::from_millis(200));
    assert!(reader.try_wait().unwrap().is_none(), "the reader waits");
    let run = host.forgefs(["umount", "--abort"]).arg(mounted.point());
    run.deadline(Duration::from_secs(20)).run().exits(0);
    wait_for(Duration::from_secs(5), "the reader to end", || {
        reader.try_wait().unwrap().is_some()
    });
    assert!(mounts_at(mounted.point()).is_empty());
    for pid in daemons_of(&host) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

#[test]
fn r48_mounts_of_one_commit_are_independent() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let (a, b) = (host.mount(&repo, &commit_id), host.mount(&repo, &commit_id));
    let other = repo.commit_files(&[("f", b"changed\n")]);
    let c = host.mount(&repo, &other);
    a.kill();
    assert_exact(&repo, &commit_id, b.point());
    let proof = host.forgefs(["prove"]).arg(b.point());
    proof
        .arg("--repo")
        .arg(repo.path())
        .args(["--sha", &commit_id])
        .ok();
    assert_eq!(std::fs::read(c.path("f")).unwrap(), b"changed\n");
    assert_eq!(
        (a.state(), b.state(), c.state()),
        ("dead".into(), "live".into(), "live".into())
    );
}

#[test]
fn r49_ls_tells_every_process_that_outlives_a_command() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let mounted = host.mount(&repo, &commit_id);
    let listed = host.forgefs(["ls", "--json"]).run().json();
    assert_eq!(listed["schema"], "forgefs.ls/1");
    let mount = mounted.listed().expect("a line of ls");
    assert_eq!(mount["commit"], commit_id);
    let told: Vec<i64> = ["pid", "worker_pid"]
        .iter()
        .filter_map(|key| mount[*key].as_i64())
        .collect();
    for pid in daemons_of(&host) {
        assert!(told.contains(&i64::from(pid)), "{pid} in {mount}");
        assert!(lives(pid));
    }
    assert!(
        host.forgefs(["ls"])
            .ok()
            .contains(&*mounted.point().to_string_lossy())
    );
    mounted.umount();
    assert!(mounted.listed().is_none());
}

#[test]
fn r127_records_are_private() {
    use std::os::unix::fs::PermissionsExt;
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let mounted = host.mount(&repo, &commit_id);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let found = host.run("find").arg(host.state()).arg("-print0").run();
    for path in found.out().split('\0').filter(|path| !path.is_empty()) {
        let path = std::path::Path::new(path);
        let want = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(path), want, "{}", path.display());
    }
    mounted.umount();
}
