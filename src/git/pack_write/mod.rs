//! Writing one pack of given objects (R60, R85, R86): compressed bytes and deltas of the source's
//! packs are used again where base and delta are both in the set, every object is rebuilt from
//! exactly the bytes that are written and hashed, and two runs with the same inputs write the same
//! bytes.
//!
//! Workers prepare runs of objects in pack order; the caller's thread writes the runs in order, so
//! that neither the number of threads nor their timing shows in the result.

#[cfg(test)]
mod against_git;
mod large;
mod output;
mod prepare;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use self::large::write_large;
use self::output::PackOutput;
use self::prepare::{Batch, Prepared, Preparer};
use super::{ObjectSource, Oid, PackItem};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fault;
use crate::sys::{DirFd, set_file_mode};

pub use self::output::{PackIndexes, PackRecord};
pub(super) use self::output::{Written, indexes_of};

/// Objects up to this size are held in memory while they are packed; larger ones are streamed, and
/// visitors are not shown them, bytes.
pub const WHOLE_BYTES_MAX: u64 = 16 << 20;

/// The most objects, and about the most bytes of content, that a worker takes at a time.
const BATCH_OBJECTS_MAX: usize = 256;
const BATCH_BYTES_MAX: u64 = 8 << 20;

/// Is shown the content of every blob that is packed, verified, on any thread and in any order.
pub trait PackVisitor: Sync {
    /// Sees one blob of at most [`WHOLE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// Any error ends the packing.
    fn blob(&self, id: &Oid, content: &[u8]) -> Result<()>;
}

/// How far a pack is; read from another thread to show it.
#[derive(Debug, Default)]
pub struct PackProgress {
    /// Objects written.
    pub objects: AtomicU64,
    /// Bytes of the pack written.
    pub bytes: AtomicU64,
}

/// The pack while it is being written: a name that git calls garbage.
const PACK_TEMP: &[u8] = b"tmp_pack_forgefs";

/// Writes a pack of `order` (each id once, see `Closure::pack_order`) with its indexes into `dir`.
///
/// # Errors
/// `missing-object`, `corrupt-object`, `collision`; errors of `visitor` and of writing. Files that
/// were begun stay in `dir`: the caller throws the directory away.
pub fn write_pack(
    objects: &dyn ObjectSource,
    order: &[PackItem],
    dir: &DirFd,
    threads: usize,
    visitor: Option<&dyn PackVisitor>,
    progress: &PackProgress,
) -> Result<PackRecord> {
    let doing = || String::from("cannot make the pack");
    let file = dir.create_beneath(PACK_TEMP, 0o644).doing(doing)?;
    let kept = file.try_clone().doing(doing)?;
    let (record, indexes) = write_pack_to(objects, order, file, threads, visitor, progress)?;
    set_file_mode(&kept, 0o444).doing(doing)?;
    publish_pack(dir, PACK_TEMP, &record, &indexes)?;
    Ok(record)
}

/// Writes the indexes of a pack into `dir`, then gives the pack, `temporary` until now, its name.
///
/// # Errors
/// Errors of writing.
pub fn publish_pack(
    dir: &DirFd,
    temporary: &[u8],
    record: &PackRecord,
    indexes: &PackIndexes,
) -> Result<()> {
    for (suffix, bytes) in [("rev", &indexes.rev), ("idx", &indexes.idx)] {
        let name = record.file_name(suffix);
        let doing = || format!("cannot write {name}");
        dir.create_beneath(name.as_bytes(), 0o444)
            .and_then(|mut file| file.write_all(bytes))
            .doing(doing)?;
    }
    dir.rename_new(temporary, dir, record.file_name("pack").as_bytes())
        .doing(|| String::from("cannot name the pack"))
}

/// Writes a pack as [`write_pack`] does, into the empty `file`, and returns its indexes as bytes.
///
/// # Errors
/// As [`write_pack`].
pub fn write_pack_to(
    objects: &dyn ObjectSource,
    order: &[PackItem],
    file: std::fs::File,
    threads: usize,
    visitor: Option<&dyn PackVisitor>,
    progress: &PackProgress,
) -> Result<(PackRecord, PackIndexes)> {
    let count = u32::try_from(order.len()).map_err(|_| {
        Error::new(
            ErrorKind::Budget,
            "budget-objects",
            "more objects than one pack can hold",
        )
    })?;
    let mut output = PackOutput::create(file, objects.hash_kind(), count)?;
    let preparer = Preparer::new(objects, order, visitor);
    let threads = threads.max(1);
    let claims = Mutex::new(Claims::default());
    let (permits, permitted) = crossbeam_channel::bounded(threads * 2);
    let (done, batches) = crossbeam_channel::bounded(threads * 2);
    for _ in 0..threads * 2 {
        let _ = permits.send(());
    }
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (permitted, done) = (permitted.clone(), done.clone());
            let (claims, preparer) = (&claims, &preparer);
            scope.spawn(move || {
                let mut scratch = prepare::Scratch::new();
                // A permit comes before a claim, so that the first batch not yet written always
                // belongs to somebody who can finish it.
                while permitted.recv().is_ok() {
                    let (number, batch) = match claim(claims, order) {
                        Some((number, range)) => (number, preparer.batch(range, &mut scratch)),
                        None => break,
                    };
                    if done.send((number, batch)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        // Dropping these at the end of this block, on an error too, ends the workers.
        let (batches, permits) = (batches, permits);
        let mut early: BTreeMap<u64, Result<Batch>> = BTreeMap::new();
        let mut next = 0_u64;
        while let Ok((number, batch)) = batches.recv() {
            early.insert(number, batch);
            while let Some(batch) = early.remove(&next) {
                write_batch(objects, order, &mut output, &batch?, progress)?;
                next += 1;
                let _ = permits.try_send(());
            }
        }
        Ok::<_, Error>(())
    })?;
    if progress.objects.load(Ordering::Relaxed) != u64::from(count) {
        return Err(Error::new(
            ErrorKind::Internal,
            "internal",
            "a worker of the pack ended early",
        ));
    }
    output.finish()
}

/// Which objects have been given out.
#[derive(Debug, Default)]
struct Claims {
    next: usize,
    batches: u64,
}

/// Gives out the next run of objects, bounded in number and in bytes.
fn claim(claims: &Mutex<Claims>, order: &[PackItem]) -> Option<(u64, std::ops::Range<usize>)> {
    let mut claims = claims
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let start = claims.next;
    let number = claims.batches;
    let rest = order.get(start..).unwrap_or_default();
    if rest.is_empty() {
        return None;
    }
    claims.batches += 1;
    let mut bytes = 0_u64;
    let mut count = 0;
    for item in rest.iter().take(BATCH_OBJECTS_MAX) {
        let size = item.size;
        count += 1;
        bytes = bytes.saturating_add(size.min(WHOLE_BYTES_MAX));
        if bytes > BATCH_BYTES_MAX {
            break;
        }
    }
    claims.next = start + count;
    Some((number, start..start + count))
}

fn write_batch(
    objects: &dyn ObjectSource,
    order: &[PackItem],
    output: &mut PackOutput,
    batch: &Batch,
    progress: &PackProgress,
) -> Result<()> {
    let start = batch.range.start;
    for (at, prepared) in batch.entries.iter().enumerate() {
        let Some(item) = order.get(start + at) else {
            continue;
        };
        match prepared {
            Prepared::Stream { head, size, stream } => {
                let stream = batch.bytes.get(stream.clone()).unwrap_or_default();
                output.entry(&item.id, *head, *size, stream)?;
            }
            Prepared::Large => write_large(objects, output, item)?,
        }
    }
    let count = batch.entries.len() as u64;
    progress.objects.fetch_add(count, Ordering::Relaxed);
    progress
        .bytes
        .fetch_add(batch.bytes.len() as u64, Ordering::Relaxed);
    fault::point("pack-written-in-part")
}

#[cfg(test)]
mod tests {
    use super::super::{HashKind, Kind, MemorySource};
    use super::*;
    use std::path::Path;

    #[expect(clippy::disallowed_methods, reason = "git is the oracle of this test")]
    fn git(dir: &Path, args: &[&str]) -> String {
        let out = std::process::Command::new("git")
            .arg("-C")
            .arg(dir)
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(out.status.success(), "{args:?}: {out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    struct Count(AtomicU64);

    impl PackVisitor for Count {
        fn blob(&self, _: &Oid, content: &[u8]) -> Result<()> {
            self.0.fetch_add(content.len() as u64, Ordering::Relaxed);
            Ok(())
        }
    }

    fn item(kind: Kind, id: Oid, size: usize) -> PackItem {
        PackItem {
            kind,
            id,
            place: None,
            size: size as u64,
        }
    }

    fn many(hash_kind: HashKind) -> (MemorySource, Vec<PackItem>) {
        let mut objects = MemorySource::new(hash_kind);
        let mut order = Vec::new();
        let mut add = |kind, content: Vec<u8>| {
            let size = content.len();
            let id = objects.insert(kind, content).unwrap();
            order.push(item(kind, id, size));
        };
        add(Kind::Blob, Vec::new());
        for n in 0_u32..1500 {
            add(
                Kind::Blob,
                n.to_string().repeat(1 + n as usize % 900).into_bytes(),
            );
        }
        add(
            Kind::Blob,
            vec![b'z'; usize::try_from(WHOLE_BYTES_MAX).unwrap() + 1],
        );
        (objects, order)
    }

    #[test]
    fn git_verifies_the_pack_and_writes_the_same_indexes() {
        for (hash_kind, format) in [(HashKind::Sha1, "sha1"), (HashKind::Sha256, "sha256")] {
            let (objects, order) = many(hash_kind);
            let dir = tempfile::tempdir().unwrap();
            let format = format!("--object-format={format}");
            git(dir.path(), &["init", "-q", "--bare", &format]);
            let pack_dir = dir.path().join("objects/pack");
            let held = DirFd::open(&pack_dir).unwrap();
            let progress = PackProgress::default();
            let count = Count(AtomicU64::new(0));
            let record = write_pack(&objects, &order, &held, 3, Some(&count), &progress).unwrap();
            assert_eq!(record.objects as usize, order.len());
            let pack = pack_dir.join(record.file_name("pack"));
            git(dir.path(), &["verify-pack", pack.to_str().unwrap()]);
            git(dir.path(), &["fsck", "--full"]);
            let copy = dir.path().join("copy.pack");
            std::fs::copy(&pack, &copy).unwrap();
            git(
                dir.path(),
                &["index-pack", "--rev-index", copy.to_str().unwrap()],
            );
            for suffix in ["idx", "rev"] {
                let ours = std::fs::read(pack_dir.join(record.file_name(suffix))).unwrap();
                assert!(
                    ours == std::fs::read(copy.with_extension(suffix)).unwrap(),
                    "{suffix}"
                );
            }
            assert!(count.0.load(Ordering::Relaxed) > 1_000_000);
        }
    }

    #[test]
    fn r86_the_number_of_threads_does_not_show() {
        let (objects, order) = many(HashKind::Sha1);
        let names: Vec<Oid> = [1, 4]
            .into_iter()
            .map(|threads| {
                let dir = tempfile::tempdir().unwrap();
                let held = DirFd::open(dir.path()).unwrap();
                let progress = PackProgress::default();
                write_pack(&objects, &order, &held, threads, None, &progress)
                    .unwrap()
                    .name
            })
            .collect();
        assert_eq!(names[0], names[1]);
    }

    #[test]
    fn r85_a_missing_object_ends_the_packing_with_its_name() {
        let (objects, mut order) = many(HashKind::Sha1);
        let absent = Oid::empty_tree(HashKind::Sha1);
        order.insert(700, item(Kind::Tree, absent, 0));
        let dir = tempfile::tempdir().unwrap();
        let held = DirFd::open(dir.path()).unwrap();
        let progress = PackProgress::default();
        let error = write_pack(&objects, &order, &held, 2, None, &progress).unwrap_err();
        assert_eq!(error.slug(), "missing-object");
        assert!(error.to_string().contains(&absent.to_string()));
    }
}
