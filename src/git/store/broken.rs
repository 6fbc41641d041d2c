//! What a broken store may do to whoever reads it: an error for the objects it concerns, never a
//! wrong byte, never a panic, and nothing that lasts once it is whole again (R6).

use std::path::Path;

use super::super::ObjectSource;
use super::StoreOptions;
use super::against_git::{Told, all_objects, git, make, open};
use super::files::faults;

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
    fail_every_read(&repo, &StoreOptions::default(), 10);
    git(&repo, &["repack", "-adfq", "--depth=50"]);
    fail_every_read(&repo, &StoreOptions::default(), 10);
    let small = StoreOptions {
        base_cache_bytes: 0,
        ..StoreOptions::default()
    };
    git(&repo, &["multi-pack-index", "write"]);
    fail_every_read(&repo, &small, 20);
}
