//! Criterion benches; see `docs/benchmarks`.
fn main() {}
