//! Many readers at once, readers that are killed, reads that are interrupted (R45), and the bounds
//! of memory (R46).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::mount::daemons_of;
use crate::support::need::long;
use crate::support::rng::Rng;
use crate::support::{Host, Run, need, zoo};

#[test]
fn r45_parallel_killed_and_interrupted_readers_see_right_bytes_and_no_deadlock() {
    need!(Fuse);
    let host = Host::new();
    let zoo = zoo::zoo(&host.path("zoo"), "sha1");
    let mounted = host.mount_with(&zoo.repo, &zoo.commit_id, &["--cache-bytes", "1M"]);
    let files: Vec<_> = zoo
        .repo
        .listing(&zoo.commit_id)
        .into_iter()
        .filter(|listed| listed.mode.starts_with("100"))
        .map(|listed| (zoo.repo.cat(&listed.id), mounted.path(&listed.name)))
        .collect();
    let end = Instant::now() + Duration::from_secs(if long() { 60 } else { 10 });
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..64 {
            let (files, reads) = (&files, &reads);
            let mounted = &mounted;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                while Instant::now() < end {
                    let (want, path) = &files[rng.index(files.len())];
                    let got = std::fs::read(path).unwrap();
                    assert!(&got == want, "wrong bytes in {}", path.display());
                    if rng.below(20) == 0 {
                        let dir = path.parent().unwrap();
                        std::fs::read_dir(dir)
                            .unwrap()
                            .for_each(|e| drop(e.unwrap()));
                        assert!(!mounted.path(format!("absent-{}", rng.next())).exists());
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Readers that are killed in the middle, and reads that a timer interrupts.
        scope.spawn(|| {
            let mut rng = Rng::new(99);
            while Instant::now() < end {
                let script = "while :; do cat \"$0\"/sizes/* \"$0\"/many/*/* >/dev/null; done";
                let reader = Run::new("sh").args(["-c", script]).arg(mounted.point());
                let mut reader = reader.spawn();
                std::thread::sleep(Duration::from_millis(rng.below(50)));
                let group = rustix::process::Pid::from_child(&reader);
                let kill = rustix::process::Signal::KILL;
                rustix::process::kill_process_group(group, kill).unwrap();
                reader.wait().unwrap();
            }
        });
        scope.spawn(|| {
            let script = r"
import os, signal, sys, time
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
end = time.time() + float(sys.argv[2])
while time.time() < end:
    with open(sys.argv[1] + '/sizes/3000000', 'rb') as file:
        assert len(file.read()) == 3000000
signal.setitimer(signal.ITIMER_REAL, 0)
";
            let seconds = if long() { "55" } else { "8" };
            let run = Run::new("python3")
                .args(["-c", script])
                .arg(mounted.point());
            run.arg(seconds).ok();
        });
        // Keep the page cache empty, so that the daemon is asked.
        scope.spawn(|| {
            while Instant::now() < end {
                let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
                std::thread::sleep(Duration::from_millis(100));
            }
        });
    });
    assert!(reads.load(Ordering::Relaxed) > 500, "{reads:?} reads");
    let began = Instant::now();
    mounted.umount();
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "umount took {:?}",
        began.elapsed()
    );
    assert!(daemons_of(&host).is_empty(), "no process is left");
}

/// Returns the resident memory of a process in KiB that is its own (not file pages).
fn resident_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

#[test]
fn r46_memory_is_bounded_by_the_cache_and_large_blobs_are_spooled() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let mut rng = Rng::new(46);
    let noise = rng.bytes(1 << 20);
    // A blob far over the cache, which compresses to little: repeats of one noisy MiB.
    let count = if long() { 5 * 1024 } else { 192 };
    let large = host.path("large");
    {
        use std::io::Write;
        let mut file = std::fs::File::create(&large).unwrap();
        for _ in 0..count {
            file.write_all(&noise).unwrap();
        }
    }
    let id = repo.git([
        "hash-object",
        "-w",
        "--no-filters",
        &large.to_string_lossy(),
    ]);
    let small: Vec<_> = (0..200)
        .map(|n| crate::support::Entry::file(format!("f{n:03}"), &repo.blob(rng.bytes(200_000))))
        .collect();
    let mut entries = small;
    entries.push(crate::support::Entry::file("large", &id));
    let commit_id = repo.commit_tree(&repo.tree(&entries), &[]);
    let mounted = host.mount_with(&repo, &commit_id, &["--cache-bytes", "8M"]);
    let compare = host.run("cmp").arg(&large).arg(mounted.path("large"));
    compare.deadline(Duration::from_secs(600)).ok();
    for n in 0..200 {
        std::fs::read(mounted.path(format!("f{n:03}"))).unwrap();
    }
    let resident = resident_kib(mounted.pid());
    assert!(
        resident < (8 + 64) * 1024,
        "{resident} KiB with a cache of 8 MiB"
    );
    assert_eq!(
        std::fs::read_dir(host.path("tmp")).unwrap().count(),
        0,
        "the spool has no name"
    );
}

#[test]
fn r45_a_reader_in_a_directory_keeps_the_mount_busy_only_while_it_is_there() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("d/f", b"x\n")]);
    let mounted = host.mount(&repo, &commit_id);
    let mut inside = Run::new("sleep").arg("60").dir(mounted.path("d")).spawn();
    host.forgefs(["umount"]).arg(mounted.point()).run().exits(5);
    inside.kill().unwrap();
    inside.wait().unwrap();
    mounted.umount();
}
