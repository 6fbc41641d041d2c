//! Snapshots of an object store that lacks, lies and fails, and of blobs too big for memory: right
//! bytes or an error that names path and object, and never a smaller tree.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forgefs::ErrorKind;
use forgefs::git::{HashKind, Kind, MemorySource, Oid, encode_tree};
use forgefs::snapshot::{Count, Ino, Snapshot, SnapshotOptions, child_ino};

use crate::support::model::{Faulty, blob_id, commit, dir, file, ino, lookup, open, open_with};
use crate::support::rng::Rng;

#[test]
fn a_number_behind_an_unreadable_directory_is_an_error_of_reading_not_stale() {
    let lost = dir([("f", file("x"))]);
    let (objects, snapshot) = open(&dir([("lost", lost.clone()), ("ok", dir([]))]));
    let tree_id = lost.store(&mut MemorySource::new(HashKind::Sha1));
    let wanted = child_ino(child_ino(Ino::ROOT, b"lost"), b"f");
    objects.lose(tree_id);
    assert_eq!(
        snapshot.attr(wanted).unwrap_err().slug(),
        "search-incomplete"
    );
    objects.give_back(&tree_id);
    assert_eq!(snapshot.attr(wanted).unwrap().size, 1);
}

#[test]
fn r6_a_missing_blob_is_an_error_of_its_path_alone_and_never_an_absence() {
    let root = dir([
        ("gone", file("gone")),
        ("ok", file("ok")),
        ("again", dir([("gone-too", file("gone"))])),
    ]);
    let (objects, snapshot) = open(&root);
    let id = blob_id(b"gone");
    objects.lose(id);
    for path in ["gone", "again/gone-too"] {
        let error = lookup(&snapshot, path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.path().unwrap().to_str(), Some(path));
        assert_eq!(error.object_id(), Some(&id.to_string()[..]));
    }
    assert_eq!(lookup(&snapshot, "ok").unwrap().unwrap().size, 2);
    let names = snapshot.list(Ino::ROOT).unwrap();
    assert_eq!(names.len(), 3, "the names are listed all the same");
    objects.give_back(&id);
    assert_eq!(lookup(&snapshot, "gone").unwrap().unwrap().size, 4);
}

#[test]
fn r10_a_bad_or_missing_subtree_is_an_error_whole_each_time_and_harms_no_sibling() {
    let mut objects = MemorySource::new(HashKind::Sha1);
    let blob = objects.insert(Kind::Blob, "x").unwrap();
    let entries: [(&[u8], &[u8], &Oid); 2] =
        [(b"100644", b".git", &blob), (b"100644", b"a", &blob)];
    let bad = objects.insert(Kind::Tree, encode_tree(entries)).unwrap();
    let absent = Oid::from_hex(&[b'2'; 40]).unwrap();
    let entries: [(&[u8], &[u8], &Oid); 4] = [
        (b"40000", b"absent", &absent),
        (b"40000", b"bad", &bad),
        (b"40000", b"blob", &blob),
        (b"100644", b"ok", &blob),
    ];
    let root = objects.insert(Kind::Tree, encode_tree(entries)).unwrap();
    let commit_id = commit(&mut objects, &root);
    let of_bad = commit(&mut objects, &bad);
    let objects = Arc::new(objects);
    let snapshot = Snapshot::open(objects.clone(), &commit_id, SnapshotOptions::default()).unwrap();
    for (name, slug) in [
        ("bad", "bad-tree"),
        ("absent", "missing-object"),
        ("blob", "corrupt-object"),
    ] {
        let at = ino(&snapshot, name);
        for _ in 0..2 {
            let error = snapshot.list(at).unwrap_err();
            assert_eq!(error.slug(), slug);
            assert_eq!(error.path().unwrap().to_str(), Some(name));
            assert!(error.object_id().is_some(), "{error}");
            assert!(snapshot.lookup(at, b"a").is_err());
        }
    }
    assert_eq!(
        &snapshot.read(ino(&snapshot, "ok"), 0, 9).unwrap()[..],
        b"x"
    );
    assert!(Snapshot::open(objects, &of_bad, SnapshotOptions::default()).is_err());
}

#[test]
fn a_size_that_lies_is_an_error_at_the_first_read() {
    for lie in [1, 9] {
        let (objects, snapshot) = open(&dir([("f", file("hello"))]));
        objects.lies.lock().unwrap().insert(blob_id(b"hello"), lie);
        let f = ino(&snapshot, "f");
        assert_eq!(snapshot.attr(f).unwrap().size, lie);
        assert_eq!(snapshot.read(f, 0, 99).unwrap_err().slug(), "size-differs");
    }
}

#[test]
fn r5_a_header_that_calls_a_blob_empty_is_an_error_since_nobody_would_read_it() {
    let (objects, snapshot) = open(&dir([("f", file("hello")), ("e", file(""))]));
    objects.lies.lock().unwrap().insert(blob_id(b"hello"), 0);
    assert_eq!(lookup(&snapshot, "f").unwrap_err().slug(), "size-differs");
    assert_eq!(lookup(&snapshot, "e").unwrap().unwrap().size, 0);
}

#[test]
fn r46_blobs_bigger_than_the_cache_are_spooled_once_and_read_at_any_offset() {
    let spool = tempfile::tempdir().unwrap();
    let options = SnapshotOptions {
        cache_bytes_max: 1 << 18,
        spool_dir: Some(spool.path().to_path_buf()),
        mtime_s: None,
    };
    let big = Rng::new(1).bytes(300_001);
    let (objects, snapshot) = open_with(&dir([("big", file(&big))]), options);
    let at = ino(&snapshot, "big");
    objects.lose(blob_id(&big));
    assert!(
        snapshot.read(at, 0, 10).is_err(),
        "nothing unverified is served"
    );
    objects.give_back(&blob_id(&big));
    let mut rng = Rng::new(2);
    for _ in 0..200 {
        let offset = rng.index(big.len() + 50);
        let len = rng.index(40_000);
        let want = &big[offset.min(big.len())..big.len().min(offset + len)];
        let len = u32::try_from(len).unwrap();
        let got = snapshot.read(at, offset as u64, len).unwrap();
        assert!(&got[..] == want, "{offset} {len}");
    }
    assert_eq!(snapshot.stats().get(Count::Loads), 2);
    assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 0);
}

#[test]
fn r46_a_spool_that_cannot_be_written_is_an_error_of_that_file() {
    let options = SnapshotOptions {
        cache_bytes_max: 0,
        spool_dir: Some("/nonexistent".into()),
        mtime_s: None,
    };
    let (_, snapshot) = open_with(
        &dir([("big", file(vec![1; 1 << 20])), ("s", file("s"))]),
        options,
    );
    assert!(snapshot.read(ino(&snapshot, "big"), 0, 10).is_err());
    assert_eq!(snapshot.read(ino(&snapshot, "s"), 0, 10).unwrap().len(), 1);
}

#[test]
fn r45_a_blob_that_many_ask_for_at_once_is_loaded_once() {
    let bytes = Rng::new(3).bytes(100_000);
    let mut objects = MemorySource::new(HashKind::Sha1);
    let tree_id = dir([("a", file(&bytes)), ("b", file(&bytes))]).store(&mut objects);
    let commit_id = commit(&mut objects, &tree_id);
    let mut objects = Faulty::new(objects);
    objects.delay = Duration::from_millis(150);
    let objects = Arc::new(objects);
    let snapshot = Snapshot::open(objects.clone(), &commit_id, SnapshotOptions::default()).unwrap();
    let inos = [ino(&snapshot, "a"), ino(&snapshot, "b")];
    let before = objects.reads.load(Ordering::SeqCst);
    let read_all = || {
        std::thread::scope(|scope| {
            for n in 0..16_usize {
                let (snapshot, bytes) = (&snapshot, &bytes);
                scope.spawn(move || match snapshot.read(inos[n % 2], 50, 1000) {
                    Ok(got) => assert_eq!(&got[..], &bytes[50..1050]),
                    Err(error) => assert_eq!(error.slug(), "missing-object"),
                });
            }
        });
    };
    objects.lose(blob_id(&bytes));
    read_all();
    let failed = objects.reads.load(Ordering::SeqCst) - before;
    assert!(failed <= 2, "{failed} loads failed");
    objects.give_back(&blob_id(&bytes));
    read_all();
    let loads = objects.reads.load(Ordering::SeqCst) - before - failed;
    assert_eq!(loads, 1);
}
