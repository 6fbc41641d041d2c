//! What a broken store may do to whoever reads it: an error for the objects it concerns, never a
//! wrong byte, never a panic, and nothing that lasts once it is whole again (R6).

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::super::{Kind, ObjectSource, Oid};
use super::against_git::{Told, all_objects, git, git_with_input, make, open};
use super::files::faults;
use super::{Store, StoreOptions};

/// Reads every object with each of its reads failing in turn.
fn fail_every_read(repo: &Path, options: &StoreOptions, sample: usize) {
    let told = all_objects(repo);
    for Told { id, kind, content } in told.iter().step_by(sample) {
        let mut failed = 0;
        for reads in 0.. {
            // A new store has nothing cached, so that the read in question happens.
            let store = open(repo, options);
            faults::fail_after(Some(reads));
            let whole = store.read(id, *kind);
            let mut streamed = Vec::new();
            let size = store.size(id);
            let stream = store.read_to(id, *kind, &mut streamed);
            let has_struck = !faults::is_armed();
            faults::fail_after(None);
            for (result, what) in [
                (whole.as_ref().map(|read| read == content), "read"),
                (
                    size.as_ref().map(|size| *size == content.len() as u64),
                    "size",
                ),
                (stream.as_ref().map(|_| streamed == *content), "read_to"),
            ] {
                match result {
                    Ok(is_right) => assert!(is_right, "{what} {id} after {reads}"),
                    Err(_) => failed += 1,
                }
            }
            assert_eq!(&store.read(id, *kind).unwrap(), content, "{id} later");
            if !has_struck {
                break;
            }
        }
        // Through a multi-pack-index the pack's own index is a second way to the same bytes.
        let has_second_way = repo.join(".git/objects/pack/multi-pack-index").exists();
        assert!(failed > 0 || has_second_way, "no read of {id} ever failed");
    }
}

#[test]
fn r6_a_failing_read_is_an_error_and_later_reads_succeed() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    fail_every_read(&repo, &StoreOptions::default(), 9);
    git(&repo, &["repack", "-adfq", "--depth=50"]);
    fail_every_read(&repo, &StoreOptions::default(), 9);
    let small = StoreOptions {
        base_cache_bytes: 0,
        ..StoreOptions::default()
    };
    git(&repo, &["multi-pack-index", "write"]);
    fail_every_read(&repo, &small, 20);
}

/// Reads everything; returns how many objects were errors, after checking that all else is right.
fn count_errors(store: &Store, told: &[Told]) -> usize {
    let is_error = |told: &&Told| {
        let Told { id, kind, content } = told;
        let whole = store.read(id, *kind);
        if let Ok(read) = &whole {
            assert_eq!(read, content, "{id}");
        }
        let mut streamed = Vec::new();
        if store.read_to(id, *kind, &mut streamed).is_ok() {
            assert_eq!(&streamed, content, "{id}");
        }
        let _ = (store.size(id), store.header(id), store.place(id));
        whole.is_err()
    };
    told.iter().filter(is_error).count()
}

/// Lists the pack directory.
fn pack_files(repo: &Path, suffix: &str) -> Vec<PathBuf> {
    std::fs::read_dir(repo.join(".git/objects/pack"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect()
}

/// Makes read-only files of git writable.
fn open_rw(path: &Path) -> std::fs::File {
    let mut permissions = std::fs::metadata(path).unwrap().permissions();
    #[expect(clippy::permissions_set_readonly_false, reason = "a temporary file")]
    permissions.set_readonly(false);
    std::fs::set_permissions(path, permissions).unwrap();
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

#[test]
fn r6_two_hundred_flipped_bytes_give_right_bytes_or_errors() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    git(&repo, &["repack", "-adfq", "--depth=50"]);
    std::fs::write(repo.join("late"), "late").unwrap();
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "late"]);
    git(&repo, &["repack", "-dq"]);
    git(&repo, &["multi-pack-index", "write"]);
    let told = all_objects(&repo);
    let mut files = pack_files(&repo, ".idx");
    files.extend(pack_files(&repo, ".pack"));
    files.extend(pack_files(&repo, "multi-pack-index"));
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut errors = 0;
    for round in 0..200 {
        let path = &files[round % files.len()];
        let file = open_rw(path);
        let len = file.metadata().unwrap().len();
        // Half of the flips hit the head, where the structure is.
        let at = next() % if round % 2 == 0 { len } else { len.min(2000) };
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        let flip = (next() % 255) as u8 + 1;
        file.write_all_at(&[byte[0] ^ flip], at).unwrap();
        errors += count_errors(&open(&repo, &StoreOptions::default()), &told);
        file.write_all_at(&byte, at).unwrap();
    }
    assert!(errors > 0, "no flip ever mattered");
    assert_eq!(
        count_errors(&open(&repo, &StoreOptions::default()), &told),
        0
    );
}

#[test]
fn r6_a_pack_cut_short_while_open_is_an_error_for_what_was_cut_off() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    git(&repo, &["repack", "-adfq", "--depth=50"]);
    let told = all_objects(&repo);
    let no_cache = StoreOptions {
        base_cache_bytes: 0,
        ..StoreOptions::default()
    };
    let store = open(&repo, &no_cache);
    assert_eq!(count_errors(&store, &told), 0);
    let pack = pack_files(&repo, ".pack").remove(0);
    let whole = std::fs::read(&pack).unwrap();
    let file = open_rw(&pack);
    file.set_len(whole.len() as u64 / 2).unwrap();
    let errors = count_errors(&store, &told);
    assert!(errors > 0 && errors < told.len(), "{errors}");
    // A store opened now takes the last bytes for the pack's check sum: one object more at most.
    assert!(count_errors(&open(&repo, &no_cache), &told).abs_diff(errors) <= 1);
    file.set_len(100).unwrap();
    assert!(count_errors(&store, &told) >= told.len() - 2);
    file.write_all_at(&whole, 0).unwrap();
    assert_eq!(count_errors(&store, &told), 0);
}

#[test]
fn r5_of_several_copies_any_good_one_will_do() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    git(&repo, &["repack", "-aq"]);
    let told = all_objects(&repo);
    // All loose objects are there as well as the pack.
    let pack = pack_files(&repo, ".pack").remove(0);
    open_rw(&pack).write_all_at(&[0xff; 4000], 2000).unwrap();
    let store = open(&repo, &StoreOptions::default());
    for Told { id, kind, content } in &told {
        assert_eq!(&store.read(id, *kind).unwrap(), content, "{id}");
    }
    // What is streamed cannot be taken back, so a wrong copy costs one attempt and no more.
    for Told { id, kind, content } in &told {
        let mut streamed = Vec::new();
        let mut attempts = (0..2).filter_map(|_| {
            streamed.clear();
            store.read_to(id, *kind, &mut streamed).ok()
        });
        assert_eq!(attempts.next(), Some(content.len() as u64), "{id}");
        assert_eq!(&streamed, content, "{id}");
    }
    git(&repo, &["prune-packed"]);
    assert!(count_errors(&store, &told) > 0);
}

#[test]
fn r12_what_git_does_to_packs_meanwhile_is_not_seen() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    let told = all_objects(&repo);
    let stores = [1, 7, 1000].map(|sample| {
        let store = open(&repo, &StoreOptions::default());
        for Told { id, kind, .. } in told.iter().step_by(sample) {
            store.read(id, *kind).unwrap();
        }
        store
    });
    for args in [
        &["repack", "-adfq"][..],
        &["repack", "-adfq", "--depth=5"],
        &["gc", "-q", "--prune=now"],
        &["repack", "-adfq", "--max-pack-size=1m"],
        &["multi-pack-index", "write"],
        &["repack", "-adq"],
    ] {
        git(&repo, args);
        for store in &stores {
            assert_eq!(count_errors(store, &told), 0, "{args:?}");
        }
    }
    let unpacked = git_with_input(&repo, &["hash-object", "-w", "--stdin"], b"new");
    let id = Oid::from_hex(unpacked.trim_ascii()).unwrap();
    assert_eq!(stores[0].read(&id, Kind::Blob).unwrap(), b"new");
    top.close().unwrap();
    for store in &stores {
        let errors = count_errors(store, &told);
        assert!(errors == 0 || errors == told.len(), "{errors}");
    }
    let nowhere = Oid::from_hex(&[b'1'; 40]).unwrap();
    let error = stores[0].read(&nowhere, Kind::Blob).unwrap_err();
    assert_eq!(error.slug(), "object-store-gone", "{error}");
}

/// A file of size 0 is never read, so nobody would notice that its blob is another.
#[test]
fn r5_an_object_that_claims_to_be_empty_is_believed_only_by_its_name() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    let full = git_with_input(&repo, &["hash-object", "-w", "--stdin"], b"not empty\n");
    let full = Oid::from_hex(full.trim_ascii()).unwrap();
    let empty = git_with_input(&repo, &["hash-object", "-w", "--stdin"], b"");
    let empty = Oid::from_hex(empty.trim_ascii()).unwrap();
    let loose = |id: &Oid| {
        let hex = id.to_string();
        repo.join(".git/objects").join(&hex[..2]).join(&hex[2..])
    };
    std::fs::remove_file(loose(&full)).unwrap();
    std::fs::copy(loose(&empty), loose(&full)).unwrap();
    let store = open(&repo, &StoreOptions::default());
    assert_eq!(store.size(&empty).unwrap(), 0);
    assert_eq!(store.size(&full).unwrap_err().slug(), "corrupt-object");
    assert!(store.read(&full, Kind::Blob).is_err());
}

/// Thin packs are for the wire: at rest a delta's base lies in the same pack (gitformat-pack).
#[test]
fn a_delta_whose_base_is_in_another_pack_is_an_error_that_names_the_base() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    let text = "a line that is long enough to make a delta worth while\n".repeat(200);
    let base = git_with_input(&repo, &["hash-object", "-w", "--stdin"], text.as_bytes());
    let base = Oid::from_hex(base.trim_ascii()).unwrap();
    let target = Oid::from_hex(b"6793a547ca68a9b1e0b4b0d5a3e5f4c3b2a19087").unwrap();
    // One REF_DELTA entry whose base is loose: header, base id, deflated delta.
    let delta = [0xf0, 0x57, 0x0a, 0x90, 0x0a];
    let mut pack = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
    pack.push(0x70 | u8::try_from(delta.len()).unwrap());
    pack.extend_from_slice(base.as_slice());
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut zlib, &delta).unwrap();
    pack.extend_from_slice(&zlib.finish().unwrap());
    pack.extend_from_slice(&[0; 20]);
    let mut idx = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..=255_u8 {
        idx.extend_from_slice(&u32::from(first >= target.as_slice()[0]).to_be_bytes());
    }
    idx.extend_from_slice(target.as_slice());
    idx.extend_from_slice(&[0; 4]);
    idx.extend_from_slice(&12_u32.to_be_bytes());
    idx.extend_from_slice(&[0; 40]);
    let dir = repo.join(".git/objects/pack");
    std::fs::write(dir.join("pack-thin.pack"), pack).unwrap();
    std::fs::write(dir.join("pack-thin.idx"), idx).unwrap();
    let error = open(&repo, &StoreOptions::default())
        .read(&target, Kind::Blob)
        .unwrap_err();
    assert_eq!(error.slug(), "corrupt-object");
    assert!(error.to_string().contains(&base.to_string()), "{error}");
}

#[test]
fn r5_a_loose_object_that_is_not_what_its_name_says_is_corrupt_in_every_way_of_asking() {
    let top = tempfile::tempdir().unwrap();
    git(top.path(), &["init", "-q", "repo"]);
    let repo = top.path().join("repo");
    let written = git_with_input(&repo, &["hash-object", "-w", "--stdin"], b"hello\n");
    let hex = String::from_utf8(written).unwrap();
    let (fan, rest) = hex.trim().split_at(2);
    let path = repo.join(".git/objects").join(fan).join(rest);
    let id = Oid::from_hex(hex.trim().as_bytes()).unwrap();
    let deflate = |bytes: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let good = deflate(b"blob 6\0hello\n");
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let store = open(&repo, &StoreOptions::default());
    let _ = open_rw(&path);
    for (what, bytes, has_size) in [
        ("evil", deflate(b"blob 5\0evil\n"), true),
        ("empty", deflate(b"blob 0\0"), false),
        ("shorter than it says", deflate(b"blob 7\0hello\n"), true),
        ("longer than it says", deflate(b"blob 5\0hello\n"), true),
        ("another kind", deflate(b"tree 6\0hello\n"), true),
        ("no kind", deflate(b"blub 6\0hello\n"), false),
        (
            "no header",
            deflate(b"hello, all of you out there, and in here\n"),
            false,
        ),
        ("no size", deflate(b"blob \0hello\n"), false),
        ("a size with a sign", deflate(b"blob +6\0hello\n"), false),
        (
            "a bomb's size",
            deflate(b"blob 99999999999\0hello\n"),
            false,
        ),
        (
            "a size over 64 bits",
            deflate(b"blob 99999999999999999999\0hello\n"),
            false,
        ),
        ("garbage behind it", [&good[..], b"x"].concat(), true),
        ("a flipped check sum", flipped, false),
        ("cut short", good[..good.len() - 6].to_vec(), true),
        ("no zlib", b"blob 6\0hello\n".to_vec(), false),
        ("no bytes", Vec::new(), false),
        ("NUL bytes", vec![0; 100], false),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        let error = store.read(&id, Kind::Blob).expect_err(what);
        assert_eq!(error.slug(), "corrupt-object", "{what}: {error}");
        assert_eq!(error.object_id(), Some(hex.trim()), "{what}");
        let error = store
            .read_to(&id, Kind::Blob, &mut std::io::sink())
            .expect_err(what);
        assert_eq!(error.slug(), "corrupt-object", "{what}: {error}");
        assert_eq!(store.size(&id).is_ok(), has_size, "{what}");
        assert_eq!(store.header(&id).is_ok(), has_size, "{what}");
    }
    std::fs::write(&path, &good).unwrap();
    assert_eq!(store.read(&id, Kind::Blob).unwrap(), b"hello\n");
}

#[test]
fn r4_missing_objects_say_so_and_the_empty_tree_is_never_missing() {
    let top = tempfile::tempdir().unwrap();
    git(top.path(), &["init", "-q", "repo"]);
    let repo = top.path().join("repo");
    let store = open(&repo, &StoreOptions::default());
    let hash_kind = store.hash_kind();
    let empty_tree = Oid::empty_tree(hash_kind);
    assert_eq!(store.read(&empty_tree, Kind::Tree).unwrap(), b"");
    assert_eq!(store.size(&empty_tree).unwrap(), 0);
    assert_eq!(store.header(&empty_tree).unwrap().kind, Kind::Tree);
    let id = Oid::empty_blob(hash_kind);
    let slug = |store: &Store| store.read(&id, Kind::Blob).unwrap_err().slug();
    assert_eq!(slug(&store), "missing-object");
    assert_eq!(store.size(&id).unwrap_err().slug(), "missing-object");
    std::fs::write(repo.join(".git/objects/pack/pack-1.promisor"), "").unwrap();
    assert_eq!(slug(&store), "promised-object");
    std::fs::remove_file(repo.join(".git/objects/pack/pack-1.promisor")).unwrap();
    git(&repo, &["config", "core.repositoryFormatVersion", "1"]);
    git(&repo, &["config", "extensions.partialClone", "origin"]);
    let error = open(&repo, &StoreOptions::default())
        .read(&id, Kind::Blob)
        .unwrap_err();
    assert!(error.to_string().contains("promisor"), "{error}");
}
