//! What the kernel shows beside the bytes: a pure function of commit and path (R20), also where
//! trees are unusual (R21, R22).

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;

use crate::support::listing::listing;
use crate::support::rng::Rng;
use crate::support::{Entry, Host, need, zoo};

#[test]
fn r20_two_mounts_of_one_commit_show_the_same() {
    need!(Fuse);
    let host = Host::new();
    let zoo = zoo::zoo(&host.path("zoo"), "sha1");
    let a = host.mount(&zoo.repo, &zoo.commit_id);
    let b = host.mount(&zoo.repo, &zoo.commit_id);
    // The second is walked in another order first: nothing may depend on it.
    host.run("find")
        .arg(b.path("many"))
        .args(["-depth", "-name", "*7"])
        .ok();
    let (seen_a, seen_b) = (listing(a.point()), listing(b.point()));
    assert_eq!(seen_a, seen_b);
    let tar = |dir: &std::path::Path| {
        let script = "tar c --sort=none -C \"$1\" . | sha256sum";
        host.run("sh").args(["-euc", script, "sh"]).arg(dir).ok()
    };
    assert_eq!(tar(a.point()), tar(b.point()));
    let mut inodes = HashSet::new();
    for seen in &seen_a {
        let mode = matches!(
            (seen.kind.as_str(), seen.mode.as_str()),
            ("d", "755") | ("l", "777") | ("f", "644" | "755")
        );
        assert!(mode, "{seen:?}");
        assert_eq!(seen.mtime, "1700000000.0000000000", "{seen:?}");
        assert!(seen.kind == "d" || seen.nlink == 1, "{seen:?}");
        assert!(
            inodes.insert(seen.ino),
            "one inode number for each path: {seen:?}"
        );
        assert!(
            seen.kind == "d" || seen.blocks == seen.size.div_ceil(512),
            "{seen:?}"
        );
    }
    let find = host
        .run("find")
        .arg(a.point())
        .args(["-links", "+1", "-type", "f"]);
    assert_eq!(find.ok(), "");
    let ino = |name: &str| a.path(name).metadata().unwrap().ino();
    assert_ne!(ino("README.md"), ino("copy-of-readme"));
}

#[test]
fn r20_inode_numbers_depend_on_the_path_alone() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let first = repo.commit_files(&[("d/f", b"one\n"), ("g", b"two\n")]);
    let second = repo.commit_files(&[("d/f", b"changed\n"), ("h", b"three\n")]);
    let (a, b) = (host.mount(&repo, &first), host.mount(&repo, &second));
    for name in ["", "d", "d/f", "g"] {
        let ino = |path: std::path::PathBuf| path.metadata().unwrap().ino();
        assert_eq!(ino(a.path(name)), ino(b.path(name)), "{name}");
    }
}

#[test]
fn r20_a_time_that_no_clock_shows_is_one() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let blob_id = repo.blob("x\n");
    let tree_id = repo.tree(&[Entry::file("f", &blob_id)]);
    for (time, want) in [
        ("1700000000 +0100", 1_700_000_000),
        ("1 +0000", 1),
        ("0 +0000", 1),
        ("8589934591 +0000", 8_589_934_591),
        ("8589934592 +0000", 1),
        ("99999999999999999999 +0000", 1),
        ("-5 +0000", 1),
        ("soon +0000", 1),
        ("", 1),
    ] {
        let text = format!("tree {tree_id}\nauthor A <a> 5 +0000\ncommitter A <a> {time}\n\nx\n");
        let commit_id = repo.raw_object("commit", text.as_bytes());
        let mounted = host.mount(&repo, &commit_id);
        assert_eq!(
            mounted.path("f").metadata().unwrap().mtime(),
            want,
            "{time:?}"
        );
        assert_eq!(
            mounted.point().metadata().unwrap().mtime(),
            want,
            "{time:?}"
        );
        mounted.umount();
    }
}

#[test]
fn r20_the_time_of_the_mount_is_shown_on_request() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"x\n")]);
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let before = now();
    let mounted = host.mount_with(&repo, &commit_id, &["--mtime", "mount"]);
    let shown = u64::try_from(mounted.path("f").metadata().unwrap().mtime()).unwrap();
    assert!((before..=now()).contains(&shown), "{shown}");
    assert_eq!(
        mounted.point().metadata().unwrap().mtime().unsigned_abs(),
        shown
    );
}

#[test]
fn r20_one_owner_is_presented() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("d/f", b"x\n")]);
    let own = host.mount(&repo, &commit_id);
    let other = host.mount_with(&repo, &commit_id, &["--owner", "1234:4321"]);
    for name in ["", "d", "d/f"] {
        let owner = |path: std::path::PathBuf| {
            let meta = path.metadata().unwrap();
            (meta.uid(), meta.gid())
        };
        assert_eq!(owner(own.path(name)), (0, 0), "{name}");
        assert_eq!(owner(other.path(name)), (1234, 4321), "{name}");
    }
}

#[test]
fn r21_a_directory_of_100_000_entries_has_stable_positions() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let count = 100_000;
    let commit_id = zoo::wide(&repo, count);
    let mounted = host.mount(&repo, &commit_id);
    let wide = mounted.path("wide");
    let names = |dir: &mut rustix::fs::Dir| -> Vec<(Vec<u8>, i64)> {
        std::iter::from_fn(|| dir.read())
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name().to_bytes().to_vec(), entry.offset())
            })
            .collect()
    };
    let file = std::fs::File::open(&wide).unwrap();
    let mut dir = rustix::fs::Dir::read_from(&file).unwrap();
    let all = names(&mut dir);
    let unique: HashSet<&[u8]> = all.iter().map(|(name, _)| name.as_slice()).collect();
    assert_eq!(all.len(), usize::try_from(count).unwrap() + 2);
    assert_eq!(unique.len(), all.len());
    dir.rewind();
    assert_eq!(names(&mut dir), all, "rewinddir");
    let mut rng = Rng::new(3);
    for _ in 0..20 {
        let at = rng.index(all.len() - 1);
        dir.seek(all[at].1).unwrap();
        let next = dir.read().unwrap().unwrap();
        assert_eq!(
            next.file_name().to_bytes(),
            all[at + 1].0,
            "seekdir to {at}"
        );
    }
    assert_eq!(
        host.run("sh")
            .args(["-c", "ls -f \"$0\" | wc -l"])
            .arg(&wide)
            .ok(),
        "100002"
    );
    let name = wide.join("entry-099999");
    assert_eq!(std::fs::read(name).unwrap(), b"one of many\n");
    assert!(!wide.join("entry-100000").exists());
}

#[test]
fn r22_names_and_targets_that_no_kernel_carries_are_errors_of_their_own() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let blob_id = repo.blob("x\n");
    let target = repo.blob("t".repeat(4096));
    let inner = repo.raw_tree(&[
        Entry::file([b'n'; 255], &blob_id),
        Entry::file([b'n'; 256], &blob_id),
    ]);
    let tree_id = repo.raw_tree(&[
        Entry::file("good", &blob_id),
        Entry::link("link", &target),
        Entry::dir("names", &inner),
    ]);
    let commit_id = repo.commit_tree(&tree_id, &[]);
    let mounted = host.mount(&repo, &commit_id);
    assert_eq!(std::fs::read(mounted.path("good")).unwrap(), b"x\n");
    let sibling = mounted.path("names").join("n".repeat(255));
    assert_eq!(std::fs::read(sibling).unwrap(), b"x\n");
    let long = mounted.path("names").join("n".repeat(256));
    let errno = std::fs::metadata(long).unwrap_err().raw_os_error();
    assert_eq!(errno, Some(36), "ENAMETOOLONG");
    let errno = std::fs::read_link(mounted.path("link"))
        .unwrap_err()
        .raw_os_error();
    assert!(
        matches!(errno, Some(36 | 5)),
        "ENAMETOOLONG or EIO, not {errno:?}"
    );
    let proof = host.forgefs(["prove", "--json"]).arg(mounted.point());
    let proof = proof
        .arg("--repo")
        .arg(repo.path())
        .args(["--sha", &commit_id])
        .run();
    proof.exits(1);
    let kinds: Vec<String> = proof.json()["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|difference| difference["kind"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        kinds.contains(&String::from("unreadable")),
        "{}",
        proof.report()
    );
    let doctor = host
        .forgefs(["doctor", "--json"])
        .arg(repo.path())
        .arg(&commit_id)
        .run();
    assert!(doctor.out().contains("long_names") || doctor.out().contains("long-names"));
}
