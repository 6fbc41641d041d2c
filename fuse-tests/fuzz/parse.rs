//! One parser, chosen by the name of the target, fed with whatever libFuzzer makes.
//!
//! Invariants: no panic, no endless loop, no allocation far beyond the input.

#![no_main]

use forgefs::git::parse::Target;

/// The parser that this target is named after.
fn target() -> Target {
    match env!("CARGO_BIN_NAME") {
        "pack-entry" => Target::PackEntry,
        "delta" => Target::Delta,
        "idx" => Target::Idx,
        "midx" => Target::Midx,
        "loose-header" => Target::LooseHeader,
        "tree" => Target::Tree,
        "commit" => Target::Commit,
        "alternates" => Target::Alternates,
        "config" => Target::Config,
        other => unreachable!("no parser is called {other}"),
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target().feed(bytes));
