//! `scripts/bench`: forgefs beside a checkout, a clone, an archive and kernel images, in one run.
//!
//! The program makes its inputs, builds the rivals, measures everything alternately and writes a
//! table, JSON and a plot into `docs/benchmarks/`. Every row of the acceptance table of issue 3 is
//! a named check in `checks.rs`. It needs root (mounts, `drop_caches`). Criterion's small benches
//! are in `benches/main.rs`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for developers: it starts the rivals and talks to people"
)]

mod args;
mod bench;
mod charge;
mod checks;
mod correct;
mod create;
mod forge;
mod generate;
mod inputs;
mod machine;
mod objects;
mod prove;
mod reads;
mod report;
mod requests;
mod results;
mod rivals;
mod run;
mod svg;
mod sweep;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Verb};
use run::Res;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.verb {
        None => {
            println!("the comparison runs through scripts/bench (`-- run`); nothing to do here");
            Ok(true)
        }
        Some(Verb::Run(run)) => compare(run),
        Some(Verb::Sweep(sweep)) => sweep::sweep(&sweep.work).map(|()| true),
        Some(Verb::Objects(objects)) => objects::child(objects).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the whole comparison; `false` where a ratio was missed or a scenario failed.
fn compare(args: &args::RunArgs) -> Res<bool> {
    let mut bench = bench::Bench::open(args)?;
    let ran = bench.run_all();
    let swept = sweep::sweep(&args.work);
    let machine = machine::describe(&args.work, args);
    let checks = checks::judge(&bench.results);
    let dir = report::write(args, &machine, &bench, &checks)?;
    println!("{}", table::checks(&checks));
    for failure in &bench.results.failures {
        println!("FAILED {failure}");
    }
    println!("written: {}", dir.display());
    ran?;
    swept?;
    let good = bench.results.failures.is_empty() && checks.iter().all(|c| !c.is_missed());
    Ok(good || args.no_fail)
}
