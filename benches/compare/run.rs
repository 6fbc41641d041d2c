//! Starting programs and timing them.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Any error, said to people.
pub(crate) type Res<T> = Result<T, Box<dyn Error>>;

/// The longest a single measured command may take before it counts as hung.
const TIMEOUT_S: u32 = 1800;

/// How long something took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Wall clock, seconds.
    pub(crate) wall_s: f64,
    /// User and system time of the processes that were waited for, seconds.
    pub(crate) cpu_s: f64,
}

/// Returns `program` with git cut off from the configuration of the user and the system.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .stdin(Stdio::null());
    command
}

/// Returns a bash script to be run in `dir`; a failing part of a pipe fails it, and so does a hang.
pub(crate) fn script(dir: &Path, text: &str) -> Command {
    let mut command = command("timeout");
    command
        .args(["-k", "10", &TIMEOUT_S.to_string(), "bash", "-o", "pipefail"])
        .args(["-e", "-c", text, "bash"])
        .current_dir(dir);
    command
}

/// Returns `git -C repo`.
pub(crate) fn git(repo: &Path, args: &[&str]) -> Command {
    let mut command = command("git");
    command.arg("-C").arg(repo).args(args);
    command
}

/// Runs `command` to its end and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Res<Vec<u8>> {
    let done = command
        .output()
        .map_err(|e| format!("cannot start {command:?}: {e}"))?;
    if !done.status.success() {
        return Err(format!(
            "{command:?}: {}\n{}",
            done.status,
            String::from_utf8_lossy(&done.stderr).trim_end()
        )
        .into());
    }
    Ok(done.stdout)
}

/// As [`output`], as text without the last line end.
pub(crate) fn text(command: &mut Command) -> Res<String> {
    Ok(String::from_utf8_lossy(&output(command)?)
        .trim_end()
        .to_owned())
}

/// Runs `command` with its output thrown away and returns how long it took.
pub(crate) fn time(command: &mut Command) -> Res<Timing> {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let cpu_before = children_cpu_s()?;
    let start = Instant::now();
    let child = command
        .spawn()
        .map_err(|e| format!("cannot start {command:?}: {e}"))?;
    let done = child.wait_with_output()?;
    let wall_s = start.elapsed().as_secs_f64();
    if !done.status.success() {
        return Err(format!(
            "{command:?}: {}\n{}",
            done.status,
            String::from_utf8_lossy(&done.stderr).trim_end()
        )
        .into());
    }
    Ok(Timing {
        wall_s,
        cpu_s: children_cpu_s()? - cpu_before,
    })
}

/// Clock ticks a second in `/proc`; the same on every Linux that forgefs runs on.
const TICKS_PER_S: f64 = 100.0;

/// Returns the fields of a `/proc/PID/stat` that count CPU time: own user, own system, the
/// children's user, the children's system, in seconds (proc(5), fields 14 to 17).
pub(crate) fn cpu_fields(stat: &str) -> Res<[f64; 4]> {
    let after_name = stat.rsplit_once(") ").ok_or("no name in a stat line")?.1;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let mut seconds = [0.0; 4];
    for (index, value) in seconds.iter_mut().enumerate() {
        let field = fields.get(11 + index).ok_or("a stat line is too short")?;
        *value = field.parse::<f64>()? / TICKS_PER_S;
    }
    Ok(seconds)
}

fn children_cpu_s() -> Res<f64> {
    let [_, _, user, system] = cpu_fields(&std::fs::read_to_string("/proc/self/stat")?)?;
    Ok(user + system)
}

/// How often this program dropped the caches.
static OWN_DROPS: AtomicU64 = AtomicU64::new(0);

/// Writes dirty pages back, then drops the page cache, dentries and inodes.
pub(crate) fn drop_caches() -> Res<()> {
    output(&mut command("sync"))?;
    OWN_DROPS.fetch_add(1, Ordering::Relaxed);
    std::fs::write("/proc/sys/vm/drop_caches", "3")
        .map_err(|e| format!("cannot drop the caches (root needed): {e}").into())
}

/// Returns how often anybody else dropped the page cache since the machine's start; a warm
/// measurement is worth nothing when that happens.
pub(crate) fn foreign_drops() -> Res<u64> {
    let counters = std::fs::read_to_string("/proc/vmstat")?;
    let total: u64 = counters
        .lines()
        .find_map(|line| line.strip_prefix("drop_pagecache "))
        .ok_or("no drop_pagecache in /proc/vmstat")?
        .parse()?;
    Ok(total.saturating_sub(OWN_DROPS.load(Ordering::Relaxed)))
}

/// Removes a tree with `rm -rf`.
pub(crate) fn remove_tree(path: &Path) -> Res<()> {
    output(command("rm").arg("-rf").arg("--one-file-system").arg(path)).map(drop)
}
