//! What the numbers were measured on; without it they mean little.

use std::path::Path;

use serde::Serialize;

use crate::args::RunArgs;
use crate::run::{command, text};

/// The machine of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// Its name in the report.
    pub(crate) name: String,
    /// The day of the run, in UTC.
    pub(crate) date: String,
    /// Label and value, in the order of the report.
    pub(crate) facts: Vec<(&'static str, String)>,
}

/// Returns the first value of `key` in a file of `key : value` lines.
fn field(file: &str, key: &str) -> String {
    let content = std::fs::read_to_string(file).unwrap_or_default();
    content
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map_or_else(
            || "unknown".to_owned(),
            |(_, value)| value.trim().to_owned(),
        )
}

/// Returns the first line of what a program prints, or `unknown`; mkfs.erofs 1.5 says its version
/// and then fails.
fn said(program: &str, args: &[&str]) -> String {
    let printed = command(program).args(args).output().map(|o| o.stdout);
    let printed = String::from_utf8_lossy(&printed.unwrap_or_default()).into_owned();
    let first = printed.lines().next().unwrap_or_default().trim();
    if first.is_empty() {
        "unknown".to_owned()
    } else {
        first.to_owned()
    }
}

/// Describes this machine and the file system of `work`.
pub(crate) fn describe(work: &Path, args: &RunArgs) -> Machine {
    let work = work.to_string_lossy();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let repo = env!("CARGO_MANIFEST_DIR");
    let disk = said("df", &["--output=source,fstype,size", "-h", &work]);
    let disk_row = text(command("df").args(["--output=source,fstype,size", "-h", &work]))
        .ok()
        .and_then(|table| table.lines().nth(1).map(str::to_owned))
        .unwrap_or(disk);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Machine {
        name: args
            .machine
            .clone()
            .unwrap_or_else(|| format!("{}-{processors}cpu", said("uname", &["-n"]))),
        date: said("date", &["-u", "+%F"]),
        facts: vec![
            ("CPU", field("/proc/cpuinfo", "model name")),
            ("processors", processors.to_string()),
            ("memory", field("/proc/meminfo", "MemTotal")),
            ("kernel", said("uname", &["-sr"])),
            ("disk of the work directory", disk_row),
            ("git", said("git", &["--version"])),
            ("mkfs.erofs", said("mkfs.erofs", &["--version"])),
            ("mksquashfs", said("mksquashfs", &["-version"])),
            (
                "forgefs",
                said(&args.forgefs.to_string_lossy(), &["--version"]),
            ),
            (
                "forgefs commit",
                said("git", &["-C", repo, "describe", "--always", "--dirty"]),
            ),
            ("load at the end", load.trim().to_owned()),
            ("rounds", args.rounds().to_string()),
        ],
    }
}
