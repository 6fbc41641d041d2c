//! Which forgefs mounts there are, alive or not, and whose (R42). Reads the kernel's list and our
//! records and asks no mount anything that a hung daemon could leave unanswered.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, IoContext, Result};
use crate::state::record;
use crate::sys::mountinfo::{MountEntry, read_mounts};
use crate::sys::mounts::{FUSE_TYPE, waiting_requests};
use crate::sys::{DirFd, os_name, stat_cached};

use super::record::{MOUNT_SCHEMA, MountRecord};

/// How it stands with a mount or a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountState {
    /// Mounted, and the daemon of its record is running.
    Live,
    /// Mounted, but its daemon is gone: every access answers ENOTCONN until it is unmounted.
    Dead,
    /// Mounted, without a record under this state root.
    Foreign,
    /// Not mounted here, but the daemon is running: detached while in use, or mounted in another
    /// mount namespace.
    Detached,
    /// A record alone: neither mount nor daemon.
    Ended,
    /// A record that cannot be trusted.
    CorruptRecord,
}

impl MountState {
    /// Returns the word that `ls` prints.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Dead => "dead",
            Self::Foreign => "foreign",
            Self::Detached => "detached",
            Self::Ended => "ended",
            Self::CorruptRecord => "corrupt-record",
        }
    }
}

/// One mount, one record, or both.
#[derive(Debug)]
pub struct FoundMount {
    /// How it stands.
    pub state: MountState,
    /// The line of the kernel's list, where it is mounted here.
    pub entry: Option<MountEntry>,
    /// What was recorded.
    pub record: Option<MountRecord>,
    /// The file name of the record, where there is one.
    pub record_name: Option<String>,
    /// Why the record cannot be trusted.
    pub problem: Option<Error>,
}

impl FoundMount {
    /// Returns where it is mounted, or was.
    #[must_use]
    pub fn mount_point(&self) -> Option<PathBuf> {
        match (&self.entry, &self.record) {
            (Some(entry), _) => Some(entry.mount_point.clone()),
            (None, Some(record)) => Some(PathBuf::from(&record.mountpoint)),
            (None, None) => None,
        }
    }
}

/// A record file: its name, and what it says or why it cannot be trusted.
struct RecordFile {
    name: String,
    content: Result<MountRecord>,
}

/// Finds every forgefs mount of this namespace and every record of `records` (the directory
/// `mounts` of the state root, where it exists).
///
/// # Errors
/// Those of reading the kernel's list or the directory; a broken record is a row, not an error.
pub fn find_mounts(records: Option<&DirFd>) -> Result<Vec<FoundMount>> {
    let entries = read_mounts().doing(|| String::from("cannot read the list of mounts"))?;
    let mut files = match records {
        Some(dir) => read_records(dir)?,
        None => Vec::new(),
    };
    let mut found = Vec::new();
    for entry in entries.into_iter().filter(|e| e.is_type(FUSE_TYPE)) {
        let file = take_record_of(&mut files, &entry);
        found.push(classify(entry, file));
    }
    found.extend(files.into_iter().map(without_mount));
    Ok(found)
}

fn read_records(dir: &DirFd) -> Result<Vec<RecordFile>> {
    let mut files = Vec::new();
    let listed = dir
        .list()
        .doing(|| String::from("cannot list the records of mounts"))?;
    for entry in listed {
        let Ok(name) = String::from_utf8(entry.name) else {
            continue;
        };
        if name.starts_with('.') || !name.ends_with(".json") {
            continue;
        }
        // One that is gone by now belongs to a mount that ended meanwhile.
        match record::read(dir, &name, MOUNT_SCHEMA) {
            Ok(None) => {}
            Ok(Some(content)) => files.push(RecordFile {
                name,
                content: Ok(content),
            }),
            Err(error) => files.push(RecordFile {
                name,
                content: Err(error),
            }),
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Takes the record that was written for this mount out of `files`. Ids are reused after a mount
/// ends, so of several that name the same ones that of a running daemon is the right one.
fn take_record_of(
    files: &mut Vec<RecordFile>,
    entry: &MountEntry,
) -> Option<(String, MountRecord)> {
    let is_of = |file: &&RecordFile| {
        file.content.as_ref().is_ok_and(|r| {
            r.mnt_id == entry.id
                && r.connection == entry.device.1
                && entry.source == r.source.as_str()
        })
    };
    let is_running = |file: &&RecordFile| {
        file.content
            .as_ref()
            .is_ok_and(|r| r.process().is_running())
    };
    let name = files
        .iter()
        .filter(is_of)
        .find(is_running)
        .or_else(|| files.iter().find(is_of))?
        .name
        .clone();
    let index = files.iter().position(|file| file.name == name)?;
    let file = files.remove(index);
    file.content.ok().map(|content| (file.name, content))
}

fn classify(entry: MountEntry, file: Option<(String, MountRecord)>) -> FoundMount {
    let (state, file) = match file {
        Some(file) if file.1.process().is_running() => (MountState::Live, Some(file)),
        // Its daemon is gone: is this its mount, or a later one that got the same ids?
        Some(file) if is_another_mount(&entry, &file.1) => (MountState::Foreign, None),
        Some(file) => (MountState::Dead, Some(file)),
        None if answers_not_connected(&entry) => (MountState::Dead, None),
        None => (MountState::Foreign, None),
    };
    let (record_name, record) = file.unzip();
    FoundMount {
        state,
        entry: Some(entry),
        record,
        record_name,
        problem: None,
    }
}

fn without_mount(file: RecordFile) -> FoundMount {
    let (state, record, problem) = match file.content {
        Ok(record) if record.process().is_running() => (MountState::Detached, Some(record), None),
        Ok(record) => (MountState::Ended, Some(record), None),
        Err(error) => (MountState::CorruptRecord, None, Some(error)),
    };
    FoundMount {
        state,
        entry: None,
        record,
        record_name: Some(file.name),
        problem,
    }
}

/// Compares ids that are never reused, where the kernel has them. Asks the kernel alone.
fn is_another_mount(entry: &MountEntry, record: &MountRecord) -> bool {
    let (Some(recorded), Ok(stat)) = (record.mnt_id_unique, stat_cached(&entry.mount_point)) else {
        return false;
    };
    stat.identity.mount_id_unique && stat.identity.mount_id != recorded
}

/// Asks a mount without a record whether its daemon is gone; only where no request of anybody is
/// waiting for it, since a process that joins such a queue could not even be killed.
fn answers_not_connected(entry: &MountEntry) -> bool {
    if waiting_requests(entry.device.1).ok() != Some(0) {
        return false;
    }
    let point = entry.mount_point.clone();
    let answer = within(Duration::from_secs(1), move || {
        std::fs::symlink_metadata(point)
    });
    // ENOTCONN has no ErrorKind of its own but NotConnected.
    matches!(answer, Some(Err(e)) if e.kind() == std::io::ErrorKind::NotConnected)
}

/// Runs `work` in a thread and waits at most `timeout` for it; a thread that never comes back ends
/// with the process.
pub(super) fn within<T: Send + 'static>(
    timeout: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    std::thread::Builder::new()
        .name(String::from("deadline"))
        .spawn(move || {
            let _ = sender.send(work());
        })
        .ok()?;
    receiver.recv_timeout(timeout).ok()
}

/// Returns the record's file name as a path, for messages.
#[must_use]
pub fn record_path(state_root: &Path, name: &str) -> PathBuf {
    state_root.join("mounts").join(os_name(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::mountinfo::parse_mounts;
    use crate::sys::process::ProcessId;

    fn entry() -> MountEntry {
        parse_mounts(b"70 1 0:99 / /nonexistent/m ro - fuse.forgefs forgefs:0123456789ab ro\n")
            .unwrap()
            .remove(0)
    }

    fn record(process: ProcessId) -> MountRecord {
        MountRecord {
            schema: String::from(MOUNT_SCHEMA),
            mountpoint: String::from("/nonexistent/m"),
            repo: String::from("/r"),
            commit: "01".repeat(20),
            tree: "02".repeat(20),
            pid: process.pid,
            start_ticks: process.start_ticks,
            mnt_id: 70,
            mnt_id_unique: None,
            connection: 99,
            source: String::from("forgefs:0123456789ab"),
            owner: String::from("0:0"),
            allow_other: false,
            noexec: false,
            xattrs: false,
            created_s: 1,
            log: None,
            features: serde_json::Value::Null,
            notes: Vec::new(),
        }
    }

    fn file(name: &str, record: MountRecord) -> RecordFile {
        RecordFile {
            name: String::from(name),
            content: Ok(record),
        }
    }

    #[test]
    fn r42_a_mount_is_live_dead_or_foreign_by_its_record_and_its_daemon() {
        let me = ProcessId::current().unwrap();
        let recycled = ProcessId {
            start_ticks: me.start_ticks + 1,
            ..me
        };
        let other_mount = MountRecord {
            mnt_id: 71,
            ..record(me)
        };
        for (records, want, left) in [
            (vec![record(me)], MountState::Live, 0),
            (vec![record(recycled)], MountState::Dead, 0),
            (vec![record(recycled), record(me)], MountState::Live, 1),
            (vec![other_mount], MountState::Foreign, 1),
            (vec![], MountState::Foreign, 0),
        ] {
            let mut files: Vec<_> = records
                .into_iter()
                .enumerate()
                .map(|(i, r)| file(&i.to_string(), r))
                .collect();
            let taken = take_record_of(&mut files, &entry());
            assert_eq!(classify(entry(), taken).state, want);
            assert_eq!(files.len(), left);
        }
    }

    #[test]
    fn r42_a_record_without_a_mount_is_detached_or_ended_and_a_broken_one_is_a_row() {
        let me = ProcessId::current().unwrap();
        assert_eq!(
            without_mount(file("a", record(me))).state,
            MountState::Detached
        );
        let gone = ProcessId {
            start_ticks: me.start_ticks + 1,
            ..me
        };
        assert_eq!(
            without_mount(file("a", record(gone))).state,
            MountState::Ended
        );
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("b.json"), "{").unwrap();
        std::fs::write(temp.path().join("b.log"), "").unwrap();
        std::fs::write(temp.path().join(".c.json.1"), "").unwrap();
        let dir = DirFd::open(temp.path()).unwrap();
        let found: Vec<_> = find_mounts(Some(&dir))
            .unwrap()
            .into_iter()
            .filter(|m| m.record_name.is_some())
            .collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found.first().unwrap().state, MountState::CorruptRecord);
        assert!(found.first().unwrap().problem.is_some());
    }

    #[test]
    fn work_that_takes_too_long_is_left_behind() {
        assert_eq!(within(Duration::from_secs(5), || 7), Some(7));
        let slow = || std::thread::sleep(Duration::from_secs(2));
        assert_eq!(within(Duration::from_millis(10), slow), None);
    }
}
