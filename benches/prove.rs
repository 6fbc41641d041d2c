//! What a proof spends its time on: hashing, and the walk of a whole directory.

use std::hint::black_box;
use std::io::Write;

use std::sync::Arc;

use criterion::{Criterion, Throughput};
use forgefs::budget::Limits;
use forgefs::git::{HashKind, Kind, hash_object};
use forgefs::prove::{ProveRequest, Root, Verdict, prove};

use crate::fixture::{Asked, Fixture};

/// Sizes of what is hashed: a source file, and a big one.
const SIZES: [(&str, usize); 2] = [("16 KiB", 16 << 10), ("4 MiB", 4 << 20)];

pub(crate) fn benches(criterion: &mut Criterion, fixture: &Fixture) {
    hashing(criterion, fixture);
    directory(criterion, fixture);
}

fn hashing(criterion: &mut Criterion, fixture: &Fixture) {
    let mut asked = Asked::start(
        &fixture.repo,
        &["hash-object", "--no-filters", "--stdin-paths"],
    );
    for (name, size) in SIZES {
        let content: Vec<u8> = (0..size)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&content).unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let mut group = criterion.benchmark_group(format!("proof hashing/{name}"));
        group.throughput(Throughput::Bytes(size as u64));
        for (hash, kind) in [
            ("sha1, collisions detected", HashKind::Sha1),
            ("sha256", HashKind::Sha256),
        ] {
            group.bench_function(format!("forgefs, {hash}"), |b| {
                b.iter(|| black_box(hash_object(kind, Kind::Blob, &content).unwrap()));
            });
        }
        group.bench_function("forgefs, read and sha1", |b| {
            b.iter(|| {
                let content = std::fs::read(&path).unwrap();
                black_box(hash_object(HashKind::Sha1, Kind::Blob, &content).unwrap())
            });
        });
        group.bench_function("git hash-object --stdin-paths", |b| {
            b.iter(|| black_box(asked.ask(&path).len()));
        });
        group.finish();
    }
}

/// The proof of a directory of about a thousand files beside git hashing the same files.
fn directory(criterion: &mut Criterion, fixture: &Fixture) {
    let objects = fixture.source(32 << 20);
    let paths = fixture.files();
    let mut group = criterion.benchmark_group("proof of a directory");
    group.throughput(Throughput::Elements(paths.len() as u64));
    for threads in [1, 2] {
        group.bench_function(format!("forgefs, {threads} threads"), |b| {
            b.iter(|| {
                let proof = prove(ProveRequest {
                    root: Root::At(fixture.checkout.clone()),
                    objects: Arc::clone(&objects),
                    commit_id: fixture.commit,
                    limits: Limits::default(),
                    threads,
                    judges_hard_links: false,
                    progress: Arc::default(),
                });
                assert_eq!(proof.unwrap().verdict, Verdict::Proven);
            });
        });
    }
    let mut asked = Asked::start(
        &fixture.repo,
        &["hash-object", "--no-filters", "--stdin-paths"],
    );
    group.bench_function("git hash-object --stdin-paths", |b| {
        b.iter(|| {
            for path in &paths {
                black_box(asked.ask(path).len());
            }
        });
    });
    group.finish();
}
