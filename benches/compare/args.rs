//! The command line of the comparison.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Compares forgefs with what a user would pick instead.
#[derive(Debug, Parser)]
#[command(name = "scripts/bench")]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    /// Given by `cargo bench`; means nothing here.
    #[arg(long, hide = true, global = true)]
    pub(crate) bench: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Measure everything and write the report
    Run(RunArgs),
    /// Unmount and remove what a broken run left
    Sweep(SweepArgs),
    /// Read every blob of a list in this process (started by `run`)
    #[command(hide = true)]
    Objects(ObjectsArgs),
}

/// Options of a run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArgs {
    /// Three rounds instead of five, and no 500k-file tree creation for rivals
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds [default: 5, or 3 with --quick]
    #[arg(long)]
    pub(crate) rounds: Option<usize>,
    /// Run these scenarios alone: inputs, correct, first-byte, create, walk, read, cached, warm,
    /// grep, prove, objects, verify, memory
    #[arg(long, num_args = 1.., value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// A directory with a ready repository named `linux`; it is only read
    #[arg(long, value_name = "DIR")]
    pub(crate) inputs: Option<PathBuf>,
    /// Where inputs, rivals and mounts are made
    #[arg(long, value_name = "DIR", default_value = "/var/tmp/forgefs-bench")]
    pub(crate) work: PathBuf,
    /// Where the report goes [default: docs/benchmarks/DATE-MACHINE]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The name of this machine in the report [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
    /// Small generated trees in place of Linux and of the 10k..500k trees: tests the harness itself
    #[arg(long)]
    pub(crate) tiny: bool,
    /// The forgefs binary [default: the one cargo built]
    #[arg(long, value_name = "FILE", default_value = env!("CARGO_BIN_EXE_forgefs"))]
    pub(crate) forgefs: PathBuf,
    /// A binary built with `--cfg forgefs_bench_unverified`, to measure what verification costs
    #[arg(long, value_name = "FILE")]
    pub(crate) unverified: Option<PathBuf>,
    /// Exit 0 even where a ratio is missed
    #[arg(long)]
    pub(crate) no_fail: bool,
    /// Keep the rivals' trees and images for the next run
    #[arg(long)]
    pub(crate) keep: bool,
}

impl RunArgs {
    /// Returns how often each thing is measured.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 5 }).max(1)
    }

    /// Returns whether the scenario `name` is asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// Options of a sweep.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SweepArgs {
    /// The work directory of the run
    #[arg(long, value_name = "DIR", default_value = "/var/tmp/forgefs-bench")]
    pub(crate) work: PathBuf,
}

/// Options of the object reader's child process.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ObjectsArgs {
    /// forgefs, gix-default, gix-96m or hash
    #[arg(long)]
    pub(crate) reader: String,
    /// The repository
    #[arg(long)]
    pub(crate) repo: PathBuf,
    /// A file with one blob id a line
    #[arg(long)]
    pub(crate) list: PathBuf,
}
