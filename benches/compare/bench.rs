//! A run: its inputs, its rivals, its results, and how things are measured alternately.

use std::path::{Path, PathBuf};

use crate::args::RunArgs;
use crate::forge::{Forgefs, Mounted};
use crate::inputs::{Inputs, prepare};
use crate::requests::{Counter, Counts};
use crate::results::Results;
use crate::rivals::{Rivals, Subject};
use crate::run::{Res, drop_caches, foreign_drops, script, time};
use crate::{charge, checks, correct, create, objects, prove, reads, sweep};

/// What is in memory when a measurement begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Caches dropped, a fresh mount.
    Cold,
    /// Caches dropped, then the packs read into the page cache; a fresh mount.
    PackCached,
}

/// A run under way.
#[derive(Debug)]
pub(crate) struct Bench {
    /// What was asked for.
    pub(crate) args: RunArgs,
    /// The repositories.
    pub(crate) inputs: Inputs,
    /// The rivals' places.
    pub(crate) rivals: Rivals,
    /// The binary under test.
    pub(crate) forgefs: Forgefs,
    /// Counts requests, where the kernel can.
    pub(crate) counter: Option<Counter>,
    /// What was found out so far.
    pub(crate) results: Results,
}

type Scenario = (&'static str, fn(&mut Bench) -> Res<()>);

/// Every scenario, in the order of a run: agreement first, because a fast wrong answer is none.
const SCENARIOS: [Scenario; 12] = [
    ("correct", correct::correct),
    ("first-byte", create::first_byte),
    ("create", create::create),
    ("objects", objects::objects),
    ("walk", reads::walk),
    ("read", reads::read),
    ("cached", reads::cached),
    ("grep", reads::grep),
    ("warm", reads::warm),
    ("prove", prove::prove),
    ("verify", charge::verify),
    ("memory", charge::memory),
];

impl Bench {
    /// Sweeps what an earlier run left and makes the inputs.
    pub(crate) fn open(args: &RunArgs) -> Res<Self> {
        std::fs::create_dir_all(&args.work)?;
        let mut args = args.clone();
        args.work = args.work.canonicalize()?;
        let known = |name: &String| name == "inputs" || SCENARIOS.iter().any(|s| s.0 == name);
        if let Some(unknown) = args.only.iter().find(|name| !known(name)) {
            return Err(format!("there is no scenario {unknown:?}; see --help").into());
        }
        sweep::sweep(&args.work)?;
        let inputs = prepare(&args)?;
        let mut results = Results::default();
        for input in std::iter::once(&inputs.main).chain(&inputs.generated) {
            let count = input.files().count();
            let fact = format!("files of {}", input.name);
            results.facts.insert(fact, count_f64(count as u64));
        }
        checks::note_facts(&mut results, &inputs.main);
        let counter = Counter::open(&args.work)
            .map_err(|e| results.skipped.push(format!("requests: {e}")))
            .ok();
        Ok(Self {
            rivals: Rivals::new(&args.work),
            forgefs: Forgefs {
                program: args.forgefs.clone(),
                state: args.work.join("state"),
            },
            args,
            inputs,
            counter,
            results,
        })
    }

    /// Runs every chosen scenario; one that breaks is noted and the others go on.
    pub(crate) fn run_all(&mut self) -> Res<()> {
        for (name, scenario) in SCENARIOS {
            if !self.args.wants(name) {
                continue;
            }
            eprintln!("bench: {name}");
            if let Err(error) = scenario(self) {
                eprintln!("bench: {name} FAILED: {error}");
                self.results.failures.push(format!("{name}: {error}"));
            }
            self.unmount_leftovers()?;
        }
        self.counter = None;
        if !self.args.keep {
            sweep::remove_rivals(&self.args.work)?;
        }
        Ok(())
    }

    /// Unmounts forgefs mounts that a broken scenario left.
    fn unmount_leftovers(&self) -> Res<()> {
        for point in self.points()? {
            sweep::sweep(&point)?;
        }
        Ok(())
    }

    /// Returns the directories that forgefs may be mounted on.
    fn points(&self) -> Res<Vec<PathBuf>> {
        let Ok(entries) = std::fs::read_dir(self.args.work.join("mnt")) else {
            return Ok(Vec::new());
        };
        let mut points = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("forgefs") {
                points.push(entry.path());
            }
        }
        Ok(points)
    }

    /// Measures `subjects` in turns, `rounds` times; every second round runs backwards, so that
    /// none always follows the same other one. A subject that breaks is noted in `failures` and
    /// left out of later rounds; the others go on.
    pub(crate) fn alternate<T: Copy + std::fmt::Debug>(
        &mut self,
        what: &str,
        subjects: &[T],
        mut measure: impl FnMut(&mut Self, T) -> Res<()>,
    ) -> Res<()> {
        let mut sound = vec![true; subjects.len()];
        for round in 0..self.args.rounds() {
            let mut turn: Vec<(&T, &mut bool)> = subjects.iter().zip(&mut sound).collect();
            if round % 2 == 1 {
                turn.reverse();
            }
            for (subject, is_sound) in turn {
                if !*is_sound {
                    continue;
                }
                let drops_before = foreign_drops()?;
                let measured = measure(self, *subject);
                if foreign_drops()? != drops_before {
                    let round = round + 1;
                    self.results.disturbances.push(format!(
                        "{what}, {subject:?}, round {round}: somebody else dropped the caches"
                    ));
                }
                if let Err(error) = measured {
                    let failure = format!("{what}, {subject:?}, round {}: {error}", round + 1);
                    eprintln!("bench: FAILED {failure}");
                    self.results.failures.push(failure);
                    *is_sound = false;
                    self.unmount_leftovers()?;
                }
            }
        }
        Ok(())
    }

    /// Brings memory into the state `before`.
    pub(crate) fn prepare(&self, before: Before) -> Res<()> {
        drop_caches()?;
        if before == Before::PackCached {
            crate::forge::cache_packs(&self.inputs.main)?;
            // Loading the tools from disk is no part of a read from memory, for nobody.
            let tools =
                "find . -maxdepth 0 -print0 | xargs -0 stat | cat; git --version; tar --version";
            time(&mut script(&self.args.work, tools))?;
            time(self.forgefs.command().arg("--version"))?;
        }
        Ok(())
    }

    /// Runs `text` in the root of `subject` after bringing memory into the state `before`, and
    /// notes wall clock, the daemon's CPU time and requests, and the reader's CPU time.
    pub(crate) fn measure_cold(
        &mut self,
        group: &str,
        subject: Subject,
        before: Before,
        text: &str,
    ) -> Res<()> {
        self.prepare(before)?;
        let root = self.rivals.root(subject);
        if subject != Subject::Forgefs {
            let took = time(&mut script(&root, text))?;
            self.results.add(group, subject.name(), "s", took.wall_s);
            return Ok(());
        }
        let mounted = self.forgefs.mount(&self.inputs.main, &root)?;
        let measured = self.measure_mounted(group, &mounted, text);
        self.forgefs.unmount(&mounted)?;
        measured
    }

    /// Runs `text` in a forgefs mount and notes all that can be seen of it from outside.
    pub(crate) fn measure_mounted(
        &mut self,
        group: &str,
        mounted: &Mounted,
        text: &str,
    ) -> Res<()> {
        let name = Subject::Forgefs.name();
        if let Some(counter) = &self.counter {
            counter.start(mounted.minor)?;
        }
        let cpu_before = mounted.cpu_s()?;
        let took = time(&mut script(&mounted.point, text))?;
        let cpu_s = mounted.cpu_s()? - cpu_before;
        self.results.add(group, name, "s", took.wall_s);
        let cpu_group = format!("{group}: CPU of the daemon");
        self.results.add(&cpu_group, name, "CPU s", cpu_s);
        if let Some(counts) = self.stop_counting()? {
            let total: u64 = counts.values().sum();
            let rounds = self.results.requests.entry(group.to_owned());
            rounds.or_default().push(counts.clone());
            let reads = counts.get("READ").copied().unwrap_or(0);
            let group_all = format!("{group}: requests");
            self.results
                .add(&group_all, name, "requests", count_f64(total));
            let group_reads = format!("{group}: READ requests");
            self.results
                .add(&group_reads, name, "requests", count_f64(reads));
        }
        Ok(())
    }

    /// Ends counting, where it was possible at all.
    pub(crate) fn stop_counting(&mut self) -> Res<Option<Counts>> {
        let Some(counter) = &self.counter else {
            return Ok(None);
        };
        counter.stop().map(Some)
    }

    /// Returns a file of the main input to read a byte of: another one each round.
    pub(crate) fn some_file(input: &crate::inputs::Input, round: usize) -> Res<String> {
        let files: Vec<_> = input.files().collect();
        let at = files.len() / 2 + round * 31;
        let file = files.get(at % files.len().max(1)).ok_or("no files")?;
        Ok(file.path.clone())
    }
}

/// Returns a count as a number of the report; counts stay far below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and bytes of a benchmark stay below 2^53"
)]
pub(crate) fn count_f64(count: u64) -> f64 {
    count as f64
}

/// Returns a path below the work directory's `mnt`.
pub(crate) fn point(work: &Path, name: &str) -> PathBuf {
    work.join("mnt").join(name)
}
