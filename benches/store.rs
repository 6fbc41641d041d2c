//! Object reads by kind and sizes: our verified reader, gix, and `git cat-file`, none with a cache
//! of delta bases, so that a depth of 50 is 50 deltas each time.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use forgefs::git::Kind;
use gix::objs::FindExt as _;

use crate::fixture::{Asked, Fixture};

pub(crate) fn benches(criterion: &mut Criterion, fixture: &Fixture) {
    let mut blobs: Vec<(String, _)> = fixture
        .by_depth
        .iter()
        .map(|(depth, id)| match depth {
            0 => ("base".to_owned(), *id),
            depth => (format!("delta depth {depth}"), *id),
        })
        .collect();
    blobs.push(("loose".to_owned(), fixture.loose));
    let ours = fixture.source(0);
    let gix = fixture.gix(false);
    let no_cache = ["-c", "core.deltaBaseCacheLimit=0", "cat-file"];
    let mut cat = Asked::start(&fixture.repo, &[&no_cache[..], &["--batch"]].concat());
    let mut check = Asked::start(&fixture.repo, &[&no_cache[..], &["--batch-check"]].concat());

    for (name, id) in &blobs {
        let mut group = criterion.benchmark_group(format!("read/{name}"));
        let size = ours.size(id).unwrap();
        group.throughput(Throughput::Bytes(size));
        group.bench_function("forgefs, verified", |b| {
            b.iter(|| black_box(ours.read(id, Kind::Blob).unwrap().len()));
        });
        let mut buffer = Vec::new();
        group.bench_function("gix, unverified", |b| {
            b.iter(|| black_box(gix.objects.find_blob(id, &mut buffer).unwrap().data.len()));
        });
        group.bench_function("git cat-file --batch", |b| {
            b.iter(|| black_box(cat.read(id, &mut buffer)));
        });
        group.finish();
    }
    for (name, id) in &blobs {
        let mut group = criterion.benchmark_group(format!("size/{name}"));
        group.bench_function("forgefs", |b| {
            b.iter(|| black_box(ours.size(id).unwrap()));
        });
        group.bench_function("gix", |b| {
            b.iter(|| black_box(gix.find_header(*id).unwrap().size()));
        });
        group.bench_function("git cat-file --batch-check", |b| {
            let line = id.to_string();
            b.iter(|| black_box(check.ask(&line).len()));
        });
        group.finish();
    }
}
