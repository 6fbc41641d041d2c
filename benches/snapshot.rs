//! What the kernel asks a snapshot: names, whole directories with attributes, cached bytes.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput};
use forgefs::git::{HashKind, ObjectSource};
use forgefs::snapshot::{Ino, Snapshot, SnapshotOptions};
use gix::objs::TreeRef;

use crate::fixture::{Asked, Fixture, WIDE};

/// A name in the middle of the wide directory, and one that is not there.
const NAMES: [(&str, &str); 2] = [("found", "file-0500.c"), ("absent", "file-0500.h")];

fn open(objects: &Arc<dyn ObjectSource>, fixture: &Fixture) -> Snapshot {
    Snapshot::open(
        Arc::clone(objects),
        &fixture.commit,
        SnapshotOptions::default(),
    )
    .unwrap()
}

/// Returns the number of the wide directory, which makes it known.
fn wide(snapshot: &Snapshot) -> Ino {
    snapshot.lookup(Ino::ROOT, b"wide").unwrap().unwrap().ino
}

/// Lists the wide directory with the attributes of every entry, as READDIRPLUS needs them.
fn fill(snapshot: &Snapshot) -> u64 {
    let directory = snapshot.list(wide(snapshot)).unwrap();
    (0..directory.len())
        .map(|index| snapshot.attr_of(&directory, index).unwrap().size)
        .sum()
}

pub(crate) fn benches(criterion: &mut Criterion, fixture: &Fixture) {
    let objects = fixture.source(32 << 20);
    lookups(criterion, fixture, &objects);
    readdirplus(criterion, fixture, &objects);
    cached_reads(criterion, fixture, &objects);
}

fn lookups(criterion: &mut Criterion, fixture: &Fixture, objects: &Arc<dyn ObjectSource>) {
    let snapshot = open(objects, fixture);
    let parent = wide(&snapshot);
    let gix = fixture.gix(true);
    let mut check = Asked::start(&fixture.repo, &["cat-file", "--batch-check"]);
    let tree = gix.find_tree(fixture.wide_tree).unwrap().detach().data;
    for (kind, name) in NAMES {
        let mut group = criterion.benchmark_group(format!("lookup/{kind}"));
        group.bench_function("forgefs, with attributes", |b| {
            b.iter(|| black_box(snapshot.lookup(parent, name.as_bytes()).unwrap()));
        });
        group.bench_function("gix, in a tree already read", |b| {
            b.iter(|| {
                let tree = TreeRef::from_bytes(&tree, HashKind::Sha1).unwrap();
                black_box(
                    tree.bisect_entry(name.into(), false)
                        .map(|e| e.oid.to_owned()),
                )
            });
        });
        group.bench_function("git cat-file --batch-check", |b| {
            let line = format!("{}:{name}", fixture.wide_tree);
            b.iter(|| black_box(check.ask(&line).len()));
        });
        group.finish();
    }
}

fn readdirplus(criterion: &mut Criterion, fixture: &Fixture, objects: &Arc<dyn ObjectSource>) {
    let gix = fixture.gix(true);
    let mut check = Asked::start(&fixture.repo, &["cat-file", "--batch-check"]);
    let mut group = criterion.benchmark_group("readdirplus fill");
    group.throughput(Throughput::Elements(u64::from(WIDE)));
    group.bench_function("forgefs, first time", |b| {
        b.iter_batched(
            || open(objects, fixture),
            |snapshot| black_box(fill(&snapshot)),
            BatchSize::SmallInput,
        );
    });
    let snapshot = open(objects, fixture);
    group.bench_function("forgefs, again", |b| {
        b.iter(|| black_box(fill(&snapshot)));
    });
    group.bench_function("gix, tree and header of each blob", |b| {
        b.iter(|| {
            let tree = gix.find_tree(fixture.wide_tree).unwrap();
            let sizes = tree.iter().map(|entry| {
                let id = entry.unwrap().oid().to_owned();
                gix.find_header(id).unwrap().size()
            });
            black_box(sizes.sum::<u64>())
        });
    });
    let tree = gix.find_tree(fixture.wide_tree).unwrap();
    let lines: Vec<String> = tree
        .iter()
        .map(|entry| entry.unwrap().oid().to_string())
        .collect();
    group.bench_function("git cat-file --batch-check of each blob", |b| {
        b.iter(|| {
            for line in &lines {
                black_box(check.ask(line).len());
            }
        });
    });
    group.finish();
}

fn cached_reads(criterion: &mut Criterion, fixture: &Fixture, objects: &Arc<dyn ObjectSource>) {
    let snapshot = open(objects, fixture);
    let directory = snapshot.list(wide(&snapshot)).unwrap();
    let inos: Vec<Ino> = (0..directory.len())
        .map(|index| snapshot.attr_of(&directory, index).unwrap().ino)
        .collect();
    let read_all = |from: usize| {
        for at in 0..inos.len() {
            let ino = inos[(from + at) % inos.len()];
            black_box(snapshot.read(ino, 0, 128 << 10).unwrap().len());
        }
    };
    read_all(0);
    let mut group = criterion.benchmark_group("cached read of 1000 files");
    for threads in [1_usize, 4, 16] {
        group.throughput(Throughput::Elements(u64::from(WIDE) * threads as u64));
        group.bench_function(format!("forgefs, {threads} threads"), |b| {
            b.iter_custom(|rounds| {
                (0..rounds)
                    .map(|_| {
                        let start = Instant::now();
                        std::thread::scope(|scope| {
                            for thread in 0..threads {
                                scope.spawn(move || read_all(thread * 61));
                            }
                        });
                        start.elapsed()
                    })
                    .sum::<Duration>()
            });
        });
    }
    group.finish();
}
