//! Criterion's benches of single operations, each with gix or git beside it.
//!
//! `cargo bench --bench forgefs` runs all, `cargo bench --bench forgefs -- read --quick` a part of
//! them. Whole runs beside a checkout and kernel images are `scripts/bench` (benches/compare).
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a program for developers: it starts git to compare with, and may die of any surprise"
)]

mod fixture;
mod prove;
mod snapshot;
mod store;
mod tree;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let fixture = fixture::Fixture::make();
    store::benches(&mut criterion, &fixture);
    tree::benches(&mut criterion, &fixture);
    snapshot::benches(&mut criterion, &fixture);
    prove::benches(&mut criterion, &fixture);
    criterion.final_summary();
}
