//! The report of a run: README.md, results.json and plot.svg in one directory.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::RunArgs;
use crate::bench::Bench;
use crate::checks::{Check, Verdict};
use crate::machine::Machine;
use crate::run::Res;
use crate::{svg, table};

/// Writes the report and returns its directory.
pub(crate) fn write(
    args: &RunArgs,
    machine: &Machine,
    bench: &Bench,
    checks: &[Check],
) -> Res<PathBuf> {
    let dir = args.out.clone().unwrap_or_else(|| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("docs/benchmarks")
            .join(format!("{}-{}", machine.date, machine.name))
    });
    std::fs::create_dir_all(&dir)?;
    let record = json!({
        "schema": "forgefs.bench/1",
        "machine": machine,
        "command": command_line(args),
        "checks": checks,
        "results": bench.results,
    });
    let text = serde_json::to_string_pretty(&record)? + "\n";
    std::fs::write(dir.join("results.json"), text)?;
    std::fs::write(dir.join("plot.svg"), svg::plot(&bench.results))?;
    std::fs::write(dir.join("README.md"), readme(args, machine, bench, checks))?;
    if args.out.is_none() {
        index(dir.parent().ok_or("no directory for all reports")?)?;
    }
    Ok(dir)
}

/// The line of `docs/benchmarks/README.md` that the list of runs follows.
const RUNS: &str = "## Runs\n";

/// Lists every run in the page above them; what stands before the list is written by people.
fn index(all: &Path) -> Res<()> {
    let page = all.join("README.md");
    let old = std::fs::read_to_string(&page).unwrap_or_default();
    let kept = old.split(RUNS).next().unwrap_or_default();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(all)? {
        let entry = entry?;
        if entry.path().join("README.md").exists() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    let mut new = format!("{kept}{RUNS}\n");
    for name in names {
        let _ = writeln!(new, "- [{name}]({name}/README.md)");
    }
    Ok(std::fs::write(page, new)?)
}

fn command_line(args: &RunArgs) -> String {
    let mut line = "scripts/bench".to_owned();
    if args.quick {
        line += " --quick";
    }
    if args.tiny {
        line += " --tiny";
    }
    if !args.only.is_empty() {
        line += " --only ";
        line += &args.only.join(" ");
    }
    line
}

fn readme(args: &RunArgs, machine: &Machine, bench: &Bench, checks: &[Check]) -> String {
    let results = &bench.results;
    let mut out = String::new();
    let w = &mut out;
    let _ = writeln!(w, "# Benchmark of {}, {}\n", machine.date, machine.name);
    let _ = writeln!(
        w,
        "Written by `{}`. Numbers are not edited.\n",
        command_line(args)
    );
    if args.tiny {
        let _ = writeln!(
            w,
            "**A test of the harness on small trees: no figure here counts.**\n"
        );
    }
    for (label, value) in &machine.facts {
        let _ = writeln!(w, "- {label}: {value}");
    }
    let count = |verdict| checks.iter().filter(|c| c.verdict == verdict).count();
    let _ = writeln!(
        w,
        "\n## Demands: {} met, {} missed, {} not measured\n",
        count(Verdict::Pass),
        count(Verdict::Miss),
        count(Verdict::NotMeasured)
    );
    let _ = writeln!(
        w,
        "Ratios are of medians; lowest and highest are of the rounds' own ratios.\n\n{}",
        table::checks(checks)
    );
    section(w, "Failures", &results.failures);
    section(w, "Disturbances", &results.disturbances);
    section(w, "Not measured", &results.skipped);
    if !results.agreements.is_empty() {
        let _ = writeln!(w, "## Agreement with `git archive | tar x` and stock git\n");
        for (name, agrees) in &results.agreements {
            let word = if *agrees { "agrees" } else { "**DISAGREES**" };
            let _ = writeln!(w, "- {name}: {word}");
        }
        let _ = writeln!(w);
    }
    let _ = writeln!(w, "## Everything measured\n\n![plot](plot.svg)\n");
    let _ = writeln!(w, "{}", table::roots(results));
    let _ = writeln!(w, "{}", table::daemon(results));
    let _ = writeln!(w, "{}", table::others(results));
    let _ = writeln!(w, "`results.json` has every single value.\n");
    let _ = writeln!(w, "{METHOD}");
    out
}

fn section(out: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "## {title}\n");
    for line in lines {
        let _ = writeln!(out, "- {}", line.replace('\n', " "));
    }
    let _ = writeln!(out);
}

/// How things are measured; a part of every report, so that a figure can be judged by itself.
const METHOD: &str = "## Method

- Subjects take turns in every round, and every second round runs backwards.
- **cold**: `sync`, `drop_caches` 3, forgefs mounted anew. **cached**: the same, then the packs are
  read into the page cache. **warm**: every root was walked, read and archived before.
- checkout is `git worktree add` with two workers; its `.git` is left out of every command. EROFS
  (plain) and squashfs (lz4) are loop mounts of images of `git archive | tar x`.
- walk is `find -printf %s`; read is `find -type f -print0 | xargs -0 -n 500 -P 1|2 cat`: each root
  lists itself, and the scenario `correct` compares names and sizes.
- first byte runs from the start of the command to one byte read of a file, another file each time;
  `ready to read` does the same for every way of having the files, one after the other.
- requests are counted by the kernel's tracepoint `fuse:fuse_request_send` on this connection alone.
  FORGET, which has no answer, is not among them.
- memory is RssAnon of all the daemon's processes. disk used for content is what it holds open
  without a name; its records and log are a row of their own.
- object reads: a process for each reader, CPU time by the scheduler, blobs in git's order.
  `hash alone` computes the ids of the same blobs from memory.
- the proof is compared with plain `git hash-object`; the row with --no-filters is leaner.";
