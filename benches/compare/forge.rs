//! forgefs as a user starts it: the binary, its mounts, and its daemon seen from outside.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::inputs::Input;
use crate::run::{Res, command, cpu_fields, output};
use crate::sweep::minor_of;

/// A live mount.
#[derive(Debug)]
pub(crate) struct Mounted {
    /// The mount point.
    pub(crate) point: PathBuf,
    /// The processes that serve it.
    pub(crate) pids: Vec<u32>,
    /// The kernel's name of the connection.
    pub(crate) minor: u32,
}

/// The binary and where it keeps its records.
#[derive(Debug, Clone)]
pub(crate) struct Forgefs {
    /// The program.
    pub(crate) program: PathBuf,
    /// Its state directory, of this run alone.
    pub(crate) state: PathBuf,
}

impl Forgefs {
    /// Returns a command with the state directory of this run.
    pub(crate) fn command(&self) -> Command {
        let mut command = command(&self.program);
        command.env("FORGEFS_STATE_DIR", &self.state);
        command
    }

    /// Mounts `input` on `point`.
    pub(crate) fn mount(&self, input: &Input, point: &Path) -> Res<Mounted> {
        self.mount_with(input, point, &[])
    }

    /// Mounts `input` on `point` with more options.
    pub(crate) fn mount_with(&self, input: &Input, point: &Path, options: &[&str]) -> Res<Mounted> {
        std::fs::create_dir_all(point)?;
        let mut mount = self.command();
        mount.arg("--json").arg(&input.repo).arg(&input.commit);
        let printed = output(mount.arg(point).args(options))?;
        let record: serde_json::Value = serde_json::from_slice(&printed)
            .map_err(|e| format!("mount did not print its record: {e}"))?;
        let mut pids: Vec<u32> = ["pid", "worker_pid"]
            .iter()
            .filter_map(|key| record[*key].as_u64())
            .filter_map(|pid| u32::try_from(pid).ok())
            .collect();
        let children: Vec<u32> = pids.iter().flat_map(|pid| children_of(*pid)).collect();
        pids.extend(children);
        pids.sort_unstable();
        pids.dedup();
        if pids.is_empty() {
            return Err("the mount's record names no daemon".into());
        }
        Ok(Mounted {
            point: point.to_owned(),
            pids,
            minor: minor_of(point)?,
        })
    }

    /// Ends a mount and waits until its daemon is gone.
    pub(crate) fn unmount(&self, mounted: &Mounted) -> Res<()> {
        output(self.command().arg("umount").arg(&mounted.point))?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while mounted.pids.iter().any(|pid| is_running(*pid)) {
            if Instant::now() > deadline {
                return Err("the daemon lives on 10 s after umount".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Starts the command, reads one byte of `file` and returns the seconds from the start.
    pub(crate) fn first_byte(&self, input: &Input, point: &Path, file: &str) -> Res<f64> {
        std::fs::create_dir_all(point)?;
        let mut mount = self.command();
        mount.arg(&input.repo).arg(&input.commit).arg(point);
        mount.stdout(std::process::Stdio::null());
        let start = Instant::now();
        let status = mount.status()?;
        if !status.success() {
            return Err(format!("{mount:?}: {status}").into());
        }
        let mut byte = [0; 1];
        File::open(point.join(file))?.read_exact(&mut byte)?;
        Ok(start.elapsed().as_secs_f64())
    }
}

impl Mounted {
    /// Returns user and system time of the daemon so far, in seconds.
    pub(crate) fn cpu_s(&self) -> Res<f64> {
        let mut total = 0.0;
        for pid in &self.pids {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
            let [user, system, _, _] = cpu_fields(&stat)?;
            total += user + system;
        }
        Ok(total)
    }

    /// Returns the daemon's anonymous memory now, in bytes, all its processes together.
    pub(crate) fn anonymous_bytes(&self) -> Res<u64> {
        self.status("RssAnon:")
    }

    /// Returns the most memory that the daemon ever had resident, file pages with it, in bytes.
    pub(crate) fn peak_bytes(&self) -> Res<u64> {
        self.status("VmHWM:")
    }

    fn status(&self, key: &str) -> Res<u64> {
        let mut total = 0;
        for pid in &self.pids {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
            let kib = status
                .lines()
                .find_map(|line| line.strip_prefix(key))
                .and_then(|value| value.trim().strip_suffix(" kB"))
                .ok_or("no such line in a status file")?;
            total += kib.trim().parse::<u64>()? * 1024;
        }
        Ok(total)
    }

    /// Returns the bytes on disk of files that the daemon holds open without a name (spool files).
    pub(crate) fn spooled_bytes(&self) -> u64 {
        let open = |pid: &u32| std::fs::read_dir(format!("/proc/{pid}/fd")).ok();
        self.pids
            .iter()
            .filter_map(open)
            .flatten()
            .flatten()
            .filter_map(|fd| std::fs::metadata(fd.path()).ok())
            .filter(|meta| meta.is_file() && meta.nlink() == 0)
            .map(|meta| meta.blocks() * 512)
            .sum()
    }
}

/// Reads the packs of `input` into the page cache.
pub(crate) fn cache_packs(input: &Input) -> Res<()> {
    let mut buffer = vec![0; 1 << 20];
    for entry in std::fs::read_dir(input.repo.join("objects/pack"))? {
        let file = File::open(entry?.path())?;
        let mut at = 0;
        loop {
            let count = file.read_at(&mut buffer, at)?;
            if count == 0 {
                break;
            }
            at += count as u64;
        }
    }
    Ok(())
}

fn children_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Returns whether `pid` is a process that has not ended (a zombie has).
fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()))
        .is_some_and(|rest| !rest.starts_with('Z'))
}
