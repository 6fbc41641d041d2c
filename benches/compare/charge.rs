//! What forgefs charges: memory of the daemon, disk, and the price of verification.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::bench::{Before, Bench, count_f64, point};
use crate::create::state_bytes;
use crate::forge::{Forgefs, Mounted};
use crate::rivals::Subject;
use crate::run::{Res, script, time};

const WALK: &str = "find . -printf %s";
const READ_2: &str = "find . -type f -print0 | xargs -0 -n 500 -P 2 cat > /dev/null";
const READ_1: &str = "find . -type f -print0 | xargs -0 -n 500 -P 1 cat > /dev/null";

/// The group of the daemon's anonymous memory after a full walk.
pub(crate) const AFTER_WALK: &str = "anonymous memory after a full walk";
/// The group of its highest anonymous memory during a full read with two readers.
pub(crate) const DURING_READ: &str = "anonymous memory during a full read, highest";
/// The group of what it spooled and recorded on disk after a full read.
pub(crate) const DISK_USED: &str = "disk used after a full read";
/// The group of cold reads with and without verification.
pub(crate) const VERIFY: &str = "cold read, pack cached, for the price of verification";

/// Walks and reads everything in a fresh mount and looks at the daemon.
pub(crate) fn memory(bench: &mut Bench) -> Res<()> {
    bench.alternate("memory", &[()], |bench, ()| {
        let root = point(&bench.args.work, "forgefs-memory");
        let disk_before = state_bytes(bench)?;
        let mounted = bench.forgefs.mount(&bench.inputs.main, &root)?;
        let mut note = |group: &str, value: u64| {
            let value = count_f64(value);
            bench.results.add(group, "forgefs", "bytes", value);
        };
        note(
            "anonymous memory after the mount",
            mounted.anonymous_bytes()?,
        );
        time(&mut script(&root, WALK))?;
        note(AFTER_WALK, mounted.anonymous_bytes()?);
        let highest = highest_during(&mounted, || time(&mut script(&root, READ_2)).map(drop))?;
        note(DURING_READ, highest);
        note(
            "anonymous memory after a full read",
            mounted.anonymous_bytes()?,
        );
        note(
            "resident memory of the daemon, highest",
            mounted.peak_bytes()?,
        );
        let records = state_bytes(bench)? - disk_before;
        let spooled = count_f64(mounted.spooled_bytes());
        let results = &mut bench.results;
        results.add(DISK_USED, "forgefs: content", "bytes", spooled);
        results.add(
            DISK_USED,
            "forgefs: records and log",
            "bytes",
            records.max(0.0),
        );
        bench.forgefs.unmount(&mounted)
    })
}

/// Runs `work` and returns the highest anonymous memory seen meanwhile, looked at every 20 ms.
fn highest_during(mounted: &Mounted, work: impl FnOnce() -> Res<()>) -> Res<u64> {
    let (done, highest) = (AtomicBool::new(false), AtomicU64::new(0));
    let worked = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if let Ok(bytes) = mounted.anonymous_bytes() {
                    highest.fetch_max(bytes, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        // The error is made a string, because it must not hold the scope's thread up.
        let worked = work().map_err(|e| e.to_string());
        done.store(true, Ordering::Relaxed);
        worked
    });
    worked?;
    Ok(highest.into_inner())
}

/// Reads everything with the shipped binary and with one that does not hash, in turns.
pub(crate) fn verify(bench: &mut Bench) -> Res<()> {
    let Some(program) = bench.args.unverified.clone() else {
        let why = "verify: no binary that does not verify was given (--unverified)";
        bench.results.skipped.push(why.to_owned());
        return Ok(());
    };
    let unverified = Forgefs {
        program,
        state: bench.forgefs.state.clone(),
    };
    let both = [("verified", false), ("unverified", true)];
    bench.alternate(VERIFY, &both, |bench, (name, skips)| {
        bench.prepare(Before::PackCached)?;
        let forgefs = if skips { &unverified } else { &bench.forgefs };
        let root = bench.rivals.root(Subject::Forgefs);
        let mounted = forgefs.mount(&bench.inputs.main, &root)?;
        let took = time(&mut script(&root, READ_1))?;
        let cpu_s = mounted.cpu_s()?;
        forgefs.unmount(&mounted)?;
        bench.results.add(VERIFY, name, "s", took.wall_s);
        let group = format!("{VERIFY}: CPU of the daemon");
        bench.results.add(&group, name, "CPU s", cpu_s);
        Ok(())
    })
}
