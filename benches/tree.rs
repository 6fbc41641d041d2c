//! Trees of a thousand entries: parsing, checking and encoding, with gix beside them.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use forgefs::git::{HashKind, Kind, Strictness, check_tree, encode_tree, entries};
use gix::objs::TreeRefIter;

use crate::fixture::{Fixture, WIDE};

pub(crate) fn benches(criterion: &mut Criterion, fixture: &Fixture) {
    let source = fixture.source(0);
    let bytes = source.read(&fixture.wide_tree, Kind::Tree).unwrap();
    let mut group = criterion.benchmark_group("tree parse");
    group.throughput(Throughput::Elements(u64::from(WIDE)));
    group.bench_function("forgefs", |b| {
        b.iter(|| {
            let names = entries(&bytes, HashKind::Sha1).map(|e| e.unwrap().name.len());
            black_box(names.sum::<usize>())
        });
    });
    group.bench_function("gix", |b| {
        b.iter(|| {
            let names = TreeRefIter::from_bytes(&bytes, HashKind::Sha1);
            black_box(names.map(|e| e.unwrap().filename.len()).sum::<usize>())
        });
    });
    group.bench_function("forgefs, all rules checked", |b| {
        b.iter(|| check_tree(black_box(&bytes), HashKind::Sha1, Strictness::Serve).unwrap());
    });
    let parsed: Vec<_> = entries(&bytes, HashKind::Sha1)
        .map(Result::unwrap)
        .collect();
    group.bench_function("forgefs, encode", |b| {
        b.iter(|| {
            let rows = parsed.iter().map(|e| (e.raw_mode, e.name, &e.id));
            black_box(encode_tree(rows).len())
        });
    });
    group.finish();
}
