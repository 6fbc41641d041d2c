//! One commit as inodes, attributes and bytes, without a kernel, against a model of random trees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forgefs::ErrorKind;
use forgefs::git::{HashKind, MemorySource, empty_tree_id};
use forgefs::snapshot::{DIRECTORY_SIZE, EntryKind, Ino, Snapshot, SnapshotOptions, child_ino};

use crate::support::model::{Node, commit, dir, file, ino, lookup, open, open_with};
use crate::support::rng::Rng;

fn random_name(rng: &mut Rng) -> Vec<u8> {
    // Few letters make neighbours such as `a`, `a.b`, `a/`, where git's order differs from bytes.
    let letters = [b'a', b'b', b'.', b'-', b'0', 0xff, b'\n'];
    loop {
        let len = 1 + rng.index(4);
        let name: Vec<u8> = (0..len).map(|_| letters[rng.index(7)]).collect();
        if !matches!(&name[..], b"." | b"..") {
            return name;
        }
    }
}

fn random_node(rng: &mut Rng, depth: u64) -> Node {
    match rng.below(8) {
        0 => Node::Link(vec![b'x'; 1 + rng.index(40)]),
        1 => Node::Submodule,
        2 | 3 if depth > 0 => random_dir(rng, depth - 1),
        _ => {
            let len = rng.index(300);
            Node::File(rng.bytes(len), rng.below(2) == 0)
        }
    }
}

fn random_dir(rng: &mut Rng, depth: u64) -> Node {
    let count = rng.index(12);
    let entry = |_| (random_name(rng), random_node(rng, depth));
    Node::Dir((0..count).map(entry).collect())
}

/// Reads everything back as a model.
fn read_back(snapshot: &Snapshot, at: Ino) -> Node {
    let directory = snapshot.list(at).expect("a sound commit");
    let mut entries = BTreeMap::new();
    for index in 0..directory.len() {
        let entry = directory.entry(index).expect("a sound commit");
        let attr = snapshot.attr_of(&directory, index).expect("a sound commit");
        assert_eq!(
            snapshot.lookup(at, entry.name).expect("a sound commit"),
            Some(attr)
        );
        assert_eq!(snapshot.attr(entry.ino).expect("a sound commit"), attr);
        assert_eq!(entry.ino, child_ino(at, entry.name));
        assert_eq!(attr.blocks, attr.size.div_ceil(512));
        assert_eq!(attr.mtime_s, 1_700_000_000);
        let node = match entry.kind {
            EntryKind::Directory => read_back(snapshot, entry.ino),
            EntryKind::Submodule => {
                assert!(snapshot.list(entry.ino).expect("a sound commit").is_empty());
                assert_eq!(
                    snapshot
                        .list(entry.ino)
                        .expect("a sound commit")
                        .parent_ino(),
                    at
                );
                Node::Submodule
            }
            EntryKind::Symlink => {
                Node::Link(snapshot.target(entry.ino).expect("a sound commit").to_vec())
            }
            EntryKind::File { executable } => {
                let bytes = snapshot
                    .read(entry.ino, 0, u32::MAX)
                    .expect("a sound commit")
                    .to_vec();
                let size = u64::try_from(bytes.len()).expect("a sound commit");
                assert_eq!(size, attr.size);
                let middle = snapshot
                    .read(entry.ino, size / 2, 7)
                    .expect("a sound commit");
                let start = bytes.len() / 2;
                assert_eq!(&middle[..], &bytes[start..bytes.len().min(start + 7)]);
                assert!(
                    snapshot
                        .read(entry.ino, size + 9, 5)
                        .expect("a sound commit")
                        .is_empty()
                );
                Node::File(bytes, executable)
            }
        };
        if entry.kind.is_directory() {
            assert_eq!(attr.size, DIRECTORY_SIZE);
        }
        entries.insert(entry.name.to_vec(), node);
    }
    assert_eq!(entries.len(), directory.len());
    Node::Dir(entries)
}

#[test]
fn r15_whatever_tree_a_commit_has_is_what_the_snapshot_shows() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let root = random_dir(&mut rng, 4);
        let (_, snapshot) = open(&root);
        assert_eq!(read_back(&snapshot, Ino::ROOT), root, "seed {seed}");
        for _ in 0..50 {
            let name = random_name(&mut rng);
            let Node::Dir(entries) = &root else { panic!() };
            let found = snapshot.lookup(Ino::ROOT, &name).unwrap();
            assert_eq!(found.is_some(), entries.contains_key(&name), "seed {seed}");
        }
    }
}

#[test]
fn r20_numbers_depend_on_the_path_alone_and_unknown_ones_are_found() {
    for seed in 0..50 {
        let root = random_dir(&mut Rng::new(seed), 5);
        let (_, first) = open(&root);
        read_back(&first, Ino::ROOT);
        let (_, second) = open(&root);
        let mut dirs = vec![Ino::ROOT];
        let mut all = Vec::new();
        while let Some(at) = dirs.pop() {
            let directory = first.list(at).unwrap();
            for entry in (0..directory.len()).map(|index| directory.entry(index).unwrap()) {
                all.push(entry.ino);
                dirs.extend((entry.kind == EntryKind::Directory).then_some(entry.ino));
            }
        }
        // A worker that took over a live mount is asked for what it never gave out.
        for ino in all.iter().rev() {
            assert_eq!(second.attr(*ino).unwrap(), first.attr(*ino).unwrap());
        }
        let error = second.attr(Ino(1 << 61)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stale);
    }
}

#[test]
fn r4_the_empty_tree_need_not_be_stored() {
    let mut objects = MemorySource::new(HashKind::Sha1);
    let commit_id = commit(&mut objects, &empty_tree_id(HashKind::Sha1));
    let snapshot = Snapshot::open(Arc::new(objects), &commit_id, SnapshotOptions::default());
    let snapshot = snapshot.unwrap();
    assert!(snapshot.list(Ino::ROOT).unwrap().is_empty());
    assert_eq!(snapshot.lookup(Ino::ROOT, b"x").unwrap(), None);
}

#[test]
fn r20_the_time_is_the_committers_unless_another_is_given() {
    let root = dir([("f", file("x"))]);
    let (_, snapshot) = open(&root);
    assert_eq!(snapshot.attr(Ino::ROOT).unwrap().mtime_s, 1_700_000_000);
    let options = SnapshotOptions {
        mtime_s: Some(42),
        ..SnapshotOptions::default()
    };
    let (_, snapshot) = open_with(&root, options);
    assert_eq!(lookup(&snapshot, "f").unwrap().unwrap().mtime_s, 42);
}

#[test]
fn what_is_asked_of_the_wrong_kind_is_refused() {
    let root = dir([
        ("d", dir([])),
        ("f", file("x")),
        ("l", Node::Link(b"f".into())),
    ]);
    let (_, snapshot) = open(&root);
    let of = |name| ino(&snapshot, name);
    assert_eq!(
        snapshot.list(of("f")).unwrap_err().slug(),
        "not-a-directory"
    );
    assert_eq!(
        snapshot.lookup(of("l"), b"x").unwrap_err().slug(),
        "not-a-directory"
    );
    assert_eq!(
        snapshot.read(of("d"), 0, 1).unwrap_err().slug(),
        "not-a-file"
    );
    assert_eq!(
        snapshot.read(of("l"), 0, 1).unwrap_err().slug(),
        "not-a-file"
    );
    assert_eq!(snapshot.target(of("f")).unwrap_err().slug(), "not-a-link");
}

#[test]
fn r22_targets_that_linux_cannot_carry_are_errors_decided_without_reading_long_ones() {
    let root = dir([
        ("empty", Node::Link(vec![])),
        ("fits", Node::Link(vec![b'x'; 4095])),
        ("long", Node::Link(vec![b'y'; 4096])),
        ("nul", Node::Link(b"a\0b".to_vec())),
    ]);
    let (objects, snapshot) = open(&root);
    assert_eq!(snapshot.target(ino(&snapshot, "fits")).unwrap().len(), 4095);
    for (name, slug) in [("empty", "bad-target"), ("nul", "bad-target")] {
        let error = snapshot.target(ino(&snapshot, name)).unwrap_err();
        assert_eq!(error.slug(), slug);
    }
    let reads = objects.reads.load(Ordering::SeqCst);
    let error = snapshot.target(ino(&snapshot, "long")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLong);
    assert_eq!(objects.reads.load(Ordering::SeqCst), reads);
}

#[test]
fn r22_names_over_255_bytes_are_listed_but_not_entered() {
    let (fits, long) = ("n".repeat(255), "n".repeat(256));
    let (_, snapshot) = open(&dir([(&fits, file("1")), (&long, file("2"))]));
    assert_eq!(snapshot.list(Ino::ROOT).unwrap().len(), 2);
    assert!(lookup(&snapshot, &fits).unwrap().is_some());
    assert_eq!(
        lookup(&snapshot, &long).unwrap_err().kind(),
        ErrorKind::TooLong
    );
}

#[test]
fn r21_a_hundred_thousand_entries_and_three_hundred_levels_are_ordinary() {
    let wide = (0..100_000_u32).map(|n| (format!("{n:08x}").into_bytes(), file("x")));
    let mut deep = dir([("end", file("x"))]);
    for _ in 0..300 {
        deep = dir([("d", deep)]);
    }
    let root = dir([("wide", Node::Dir(wide.collect())), ("deep", deep)]);
    let (_, snapshot) = open(&root);
    let wide = ino(&snapshot, "wide");
    for n in [0, 1, 50_000, 99_999_u32] {
        let name = format!("{n:08x}");
        assert!(snapshot.lookup(wide, name.as_bytes()).unwrap().is_some());
    }
    assert_eq!(snapshot.lookup(wide, b"0001000g").unwrap(), None);
    let path = format!("deep{}/end", "/d".repeat(300));
    let end = ino(&snapshot, &path);
    let entry = snapshot.entry(end).unwrap();
    let found = snapshot.path_of(&entry.directory, entry.index);
    assert_eq!(found, path.as_bytes());
}
