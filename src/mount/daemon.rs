//! One mount from its making to its end, whether in the background or not (R38, R40, R41, R47).

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, select};

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::snapshot::Snapshot;
use crate::state::record::{self, Durability};
use crate::sys::mountinfo::{MountEntry, read_mounts, top_mount_at};
use crate::sys::mounts::{
    FUSE_TYPE, FuseMountOptions, mount_fuse, mount_fuse_with_helper, open_fuse_device, unmount,
};
use crate::sys::process::{ProcessId, effective_ids};
use crate::sys::signals::StopSignal;
use crate::sys::{DirFd, FileKind, FileStat};

use super::find::within;
use super::handshake::ServeSpec;
use super::point::MountPoint;
use super::preflight::MountWay;
use super::record::{MOUNT_SCHEMA, MountRecord, shown};
use super::{ServeOptions, Server, raise_readahead};

/// How long the daemon's own root may take to answer; it is there already, so this is for hosts
/// that are short of everything.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// How long readers of a mount that was told to end are still served.
const GRACE: Duration = Duration::from_secs(2);

/// Everything that one mount is made from.
#[derive(Debug)]
pub struct Daemon<'a> {
    /// What is asked for.
    pub spec: &'a ServeSpec,
    /// What is shown.
    pub snapshot: Arc<Snapshot>,
    /// How this process can mount.
    pub way: MountWay,
    /// The directory `mounts` of the state root.
    pub records: &'a DirFd,
    /// The log's name in `records`, where there is one.
    pub log_name: Option<String>,
    /// What the survey found, for the record.
    pub features: serde_json::Value,
    /// What people are told of it, a line each.
    pub notes: Vec<String>,
    /// Requests to end.
    pub signals: Receiver<StopSignal>,
}

impl Daemon<'_> {
    /// Mounts on `point`, calls `ready` once the root of the mount answers, and serves until the
    /// mount ends: by `umount`, or by a signal, upon which it unmounts.
    ///
    /// # Errors
    /// Anything that fails before `ready` returned, and the error of `ready` itself, leaves neither
    /// mount nor record. An error while serving leaves the mount, dead: it answers ENOTCONN until
    /// it is unmounted, so that nobody takes an empty directory for the commit (R41).
    pub fn run(
        self,
        point: MountPoint,
        ready: &mut dyn FnMut(&MountRecord) -> Result<()>,
    ) -> Result<()> {
        let path = point.path().to_path_buf();
        let mut guard = MountGuard {
            path: path.clone(),
            armed: false,
        };
        let server = self.start_server(&point, &mut guard)?;
        let (sender, ended) = crossbeam_channel::bounded(1);
        std::thread::Builder::new()
            .name(String::from("serve"))
            .spawn(move || {
                let _ = sender.send(server.run());
            })
            .doing(|| String::from("cannot start the serving thread"))?;
        let stat = ask_root(&path)?;
        let entry = own_mount(&path, stat.identity.dev.1)?;
        if let Err(error) = raise_readahead(entry.device) {
            tracing::debug!(%error, "the mount keeps the kernel's default readahead");
        }
        let record = self.record(&entry, &stat)?;
        let name = record_name(&record);
        record::write(self.records, &name, &record, Durability::WhileHostRuns)?;
        if let Err(error) = ready(&record) {
            let _ = record::remove(self.records, &name);
            return Err(error);
        }
        guard.armed = false;
        point.keep();
        let (commit, mnt, pid) = (&record.commit, &record.mountpoint, record.pid);
        tracing::info!(commit, mnt, pid, "mounted");
        let result = self.wait(&ended, &entry);
        if result.is_ok() {
            record::remove(self.records, &name)?;
        }
        result
    }

    fn start_server(&self, point: &MountPoint, guard: &mut MountGuard) -> Result<Server> {
        let (uid, gid) = effective_ids();
        let options = FuseMountOptions {
            source: source_name(&self.spec.commit),
            no_exec: self.spec.no_exec,
            allow_other: self.spec.allow_other,
            uid,
            gid,
        };
        let device = match &self.way {
            MountWay::MountSyscall => {
                let device = open_fuse_device().doing(|| String::from("cannot open /dev/fuse"))?;
                // Through the descriptor: the checked directory, whatever its name means now.
                mount_fuse(device.as_fd(), &point.held_path(), &options)
                    .map(|()| device)
                    .map_err(|e| not_permitted(point.path(), e))?
            }
            MountWay::Fusermount(program) => {
                mount_fuse_with_helper(program, point.path(), &options).map_err(|e| {
                    let what = format!("fusermount3 does not mount on {}", shown(point.path()));
                    Error::new(ErrorKind::Host, "fusermount3-refused", what)
                        .caused_by(e)
                        .at(point.path())
                })?
            }
        };
        guard.armed = true;
        let serve = ServeOptions {
            threads: self.spec.threads,
            owner: self.spec.owner,
            xattrs: self.spec.xattrs,
            ..ServeOptions::default()
        };
        Server::start(Arc::clone(&self.snapshot), device, &serve)
    }

    fn record(&self, entry: &MountEntry, stat: &FileStat) -> Result<MountRecord> {
        let process =
            ProcessId::current().doing(|| String::from("cannot read this process's start time"))?;
        let commit = self.snapshot.commit();
        let identity = stat.identity;
        let (uid, gid) = self.spec.owner;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Ok(MountRecord {
            schema: String::from(MOUNT_SCHEMA),
            mountpoint: shown(&entry.mount_point),
            repo: shown(&self.spec.repo),
            commit: commit.id.to_string(),
            tree: commit.tree_id.to_string(),
            pid: process.pid,
            start_ticks: process.start_ticks,
            mnt_id: entry.id,
            mnt_id_unique: identity.mount_id_unique.then_some(identity.mount_id),
            connection: entry.device.1,
            source: entry.source.to_string_lossy().into_owned(),
            owner: format!("{uid}:{gid}"),
            allow_other: self.spec.allow_other,
            noexec: self.spec.no_exec,
            xattrs: self.spec.xattrs,
            created_s: now.map_or(0, |since| since.as_secs()),
            log: self.log_name.as_ref().map(|name| format!("mounts/{name}")),
            features: self.features.clone(),
            notes: self.notes.clone(),
        })
    }

    /// Serves until the mount has ended, or until a signal and then the grace of its readers.
    fn wait(&self, ended: &Receiver<Result<()>>, entry: &MountEntry) -> Result<()> {
        let died = || {
            let what = "a serving thread ended without a result";
            Err(Error::new(ErrorKind::Internal, "internal", what))
        };
        let signal = select! {
            recv(ended) -> result => {
                let result = result.unwrap_or_else(|_| died());
                match &result {
                    Ok(()) => tracing::info!("unmounted"),
                    Err(error) => tracing::error!(%error, "serving ended, the mount is dead"),
                }
                return result;
            }
            recv(self.signals) -> signal => signal.map_or("a closed channel", StopSignal::name),
        };
        tracing::info!(signal, "unmounting");
        end_own_mount(entry)?;
        match ended.recv_timeout(GRACE) {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!("ended while the mount was still in use somewhere");
                Ok(())
            }
        }
    }
}

/// Unmounts the mount `entry`, detached if it is in use; a mount that somebody put on top stays.
fn end_own_mount(entry: &MountEntry) -> Result<()> {
    let doing = || String::from("cannot read the list of mounts");
    let mounts = read_mounts().doing(doing)?;
    let Some(own) = mounts
        .iter()
        .find(|m| m.id == entry.id && m.device == entry.device)
    else {
        return Ok(());
    };
    if top_mount_at(&mounts, &own.mount_point) != Some(own) {
        let message = "another mount lies on top of this one; unmount that first";
        return Err(Error::new(ErrorKind::Conflict, "mount-covered", message).at(&own.mount_point));
    }
    unmount(&own.mount_point, false)
        .or_else(|_| unmount(&own.mount_point, true))
        .doing(|| format!("cannot unmount {}", shown(&own.mount_point)))
}

/// Asks the mount's root as any other process would; only its answer makes the mount ready.
fn ask_root(path: &Path) -> Result<FileStat> {
    let asked = path.to_path_buf();
    let answer = within(ANSWER_PATIENCE, move || {
        DirFd::open_no_follow(&asked).and_then(|dir| dir.stat_self())
    });
    let refused = |what: &str| Error::new(ErrorKind::Internal, "mount-unanswered", what).at(path);
    match answer {
        Some(Ok(stat)) if stat.kind == FileKind::Directory => Ok(stat),
        Some(Ok(_)) => Err(refused("the root of the new mount is not a directory")),
        Some(Err(e)) => Err(refused("the root of the new mount cannot be read").caused_by(e)),
        None => Err(refused("the root of the new mount does not answer")),
    }
}

/// Finds the line of the mount that was just made.
fn own_mount(path: &Path, connection: u32) -> Result<MountEntry> {
    let mounts = read_mounts().doing(|| String::from("cannot read the list of mounts"))?;
    top_mount_at(&mounts, path)
        .filter(|m| m.is_type(FUSE_TYPE) && m.device.1 == connection)
        .cloned()
        .ok_or_else(|| {
            let what = "the new mount is not in the kernel's list, or was covered at once";
            Error::new(ErrorKind::Conflict, "mount-covered", what).at(path)
        })
}

fn not_permitted(path: &Path, error: io::Error) -> Error {
    let (slug, what) = match error.raw_os_error() {
        Some(1) => (
            "mount-forbidden",
            "root may not mount here; it needs CAP_SYS_ADMIN (docker: --cap-add SYS_ADMIN --device /dev/fuse)",
        ),
        Some(19) => (
            "fuse-missing",
            "the kernel has no FUSE; run as root: modprobe fuse",
        ),
        _ => ("mount-failed", "the kernel does not mount"),
    };
    Error::new(ErrorKind::Host, slug, what)
        .caused_by(error)
        .at(path)
}

/// The source that everybody sees in the list of mounts: no path of the host in it (R18).
fn source_name(commit_id: &str) -> String {
    format!("forgefs:{}", commit_id.get(..12).unwrap_or(commit_id))
}

fn record_name(record: &MountRecord) -> String {
    format!("{}.json", MountRecord::id(&record.commit, record.process()))
}

/// Takes a mount back that never became ready.
struct MountGuard {
    path: PathBuf,
    armed: bool,
}

impl Drop for MountGuard {
    fn drop(&mut self) {
        if self.armed {
            let _ = unmount(&self.path, true);
        }
    }
}
