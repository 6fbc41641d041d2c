//! Counts the requests that the kernel sends to the daemon, by the kernel's own tracepoint
//! `fuse:fuse_request_send` (Linux 6.11), so that the daemon is not asked about itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::run::{Res, command, output};

/// Kernel memory for each processor's events; a request takes about 40 bytes of it.
const BUFFER_KIB: &str = "32768";

/// Where instances of this program begin with.
const PREFIX: &str = "forgefs-bench";

/// A trace instance of our own.
#[derive(Debug)]
pub(crate) struct Counter {
    instance: PathBuf,
}

/// Requests by operation, for instance `READ`.
pub(crate) type Counts = BTreeMap<String, u64>;

impl Counter {
    /// Mounts tracefs below `work` and makes an instance; `Err` says why requests stay uncounted.
    pub(crate) fn open(work: &Path) -> Res<Self> {
        let root = work.join("mnt").join("trace");
        std::fs::create_dir_all(&root)?;
        output(command("mount").args(["-t", "tracefs", PREFIX]).arg(&root))?;
        if !root.join("events/fuse/fuse_request_send").is_dir() {
            return Err("this kernel has no tracepoint fuse:fuse_request_send (Linux 6.11)".into());
        }
        let instance = root
            .join("instances")
            .join(format!("{PREFIX}-{}", std::process::id()));
        std::fs::create_dir(&instance)?;
        std::fs::write(instance.join("buffer_size_kb"), BUFFER_KIB)?;
        Ok(Self { instance })
    }

    /// Starts to count the requests of the connection `minor`.
    pub(crate) fn start(&self, minor: u32) -> Res<()> {
        let event = self.instance.join("events/fuse/fuse_request_send");
        std::fs::write(self.instance.join("trace"), "")?;
        std::fs::write(event.join("filter"), format!("connection == {minor}"))?;
        std::fs::write(event.join("enable"), "1")?;
        Ok(())
    }

    /// Stops and returns the counts.
    ///
    /// # Errors
    /// Where the kernel's buffer was too small, since the counts would be too low.
    pub(crate) fn stop(&self) -> Res<Counts> {
        std::fs::write(
            self.instance.join("events/fuse/fuse_request_send/enable"),
            "0",
        )?;
        for processor in std::fs::read_dir(self.instance.join("per_cpu"))? {
            let stats = std::fs::read_to_string(processor?.path().join("stats"))?;
            let lost = ["overrun: ", "dropped events: "].iter().any(|key| {
                stats
                    .lines()
                    .filter_map(|line| line.strip_prefix(key))
                    .any(|count| count.trim() != "0")
            });
            if lost {
                return Err("the trace buffer overflowed; requests were not counted".into());
            }
        }
        let mut counts = Counts::new();
        let trace = std::fs::read_to_string(self.instance.join("trace"))?;
        for line in trace.lines().filter(|line| !line.starts_with('#')) {
            let operation = line
                .split_once("(FUSE_")
                .and_then(|(_, rest)| rest.split_once(')'))
                .map_or("OTHER", |(name, _)| name);
            *counts.entry(operation.to_owned()).or_default() += 1;
        }
        Ok(counts)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.instance);
    }
}

/// Removes the instances that a killed run left in the tracefs mounted on `root`.
pub(crate) fn remove_instances(root: &Path) {
    let Ok(entries) = std::fs::read_dir(root.join("instances")) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}
