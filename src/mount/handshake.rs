//! The words between `mount` and the daemon that it starts: what to serve goes down one pipe as
//! JSON, how it went comes back up another, one JSON line for each step (R38). Nothing of it stands
//! on a command line, where every user of the host could read it.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, ErrorKind, IoContext, Result};
use crate::state::StateRoot;
use crate::sys::mountinfo::{read_mounts, top_mount_at};
use crate::sys::mounts::{FUSE_TYPE, unmount};
use crate::sys::process::{Background, wait_readable};

use super::record::MountRecord;

/// The verb under which the daemon is started.
pub const SERVE_VERB: &str = "__serve";

/// The longest message of either side; host paths are at most 4 KiB each.
const MESSAGE_BYTES_MAX: u64 = 4 << 20;

/// How long the daemon may take to be ready: a healthy one takes milliseconds, but a repository may
/// lie on a slow disk or network.
const READY_PATIENCE: Duration = Duration::from_secs(120);

/// What to serve, where and how; every path is absolute.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServeSpec {
    /// The repository root, as it was named.
    #[serde(with = "path_bytes")]
    pub repo: PathBuf,
    /// The full id of the commit.
    pub commit: String,
    /// Where to mount.
    #[serde(with = "path_bytes")]
    pub point: PathBuf,
    /// Whether to make the last component of `point`.
    pub make_point: bool,
    /// The state root.
    #[serde(with = "path_bytes")]
    pub state_dir: PathBuf,
    /// Who is shown as owner: user and group.
    pub owner: (u32, u32),
    /// Whether other users may enter.
    pub allow_other: bool,
    /// Whether programs may not be run from the mount.
    pub no_exec: bool,
    /// Whether `user.forgefs.*` attributes are answered.
    pub xattrs: bool,
    /// How many requests are served at once.
    pub threads: u16,
    /// Bytes of content that are kept in memory.
    pub cache_bytes_max: u64,
    /// The time that every entry shows, where it is not the committer's; seconds since 1970.
    pub mtime_s: Option<i64>,
    /// Bytes that the log may hold.
    pub log_bytes_max: u64,
    /// The least level that is logged, where it was chosen.
    pub log_level: Option<String>,
    /// Whether to refuse where the repository has something noted.
    pub strict: bool,
}

mod path_bytes {
    use super::{OsStr, OsStrExt, Path, PathBuf};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, s: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<PathBuf, D::Error> {
        Vec::<u8>::deserialize(d).map(|bytes| PathBuf::from(OsStr::from_bytes(&bytes)))
    }
}

impl ServeSpec {
    /// Reads what the starter wrote.
    ///
    /// # Errors
    /// `bad-handshake` where it is no specification.
    pub fn read(input: impl Read) -> Result<Self> {
        let mut bytes = Vec::new();
        input
            .take(MESSAGE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .doing(|| String::from("cannot read what to serve"))?;
        serde_json::from_slice(&bytes).context(ErrorKind::Usage, "bad-handshake", || {
            String::from("__serve is started by `forgefs mount` alone")
        })
    }
}

/// One step of the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Step {
    /// It holds the mount point and is about to mount.
    Holding {
        #[serde(with = "path_bytes")]
        point: PathBuf,
    },
    /// The root of the mount answers.
    Ready(Box<MountRecord>),
    /// It failed and left nothing behind.
    Failed(Failure),
}

/// An [`Error`] on its way between processes.
#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    kind: String,
    slug: String,
    message: String,
    path: Option<Vec<u8>>,
    object_id: Option<String>,
}

const KINDS: [ErrorKind; 14] = [
    ErrorKind::Usage,
    ErrorKind::NotFound,
    ErrorKind::Corrupt,
    ErrorKind::Unsafe,
    ErrorKind::Conflict,
    ErrorKind::Unsupported,
    ErrorKind::Budget,
    ErrorKind::Host,
    ErrorKind::Io,
    ErrorKind::Stale,
    ErrorKind::WrongType,
    ErrorKind::TooLong,
    ErrorKind::Interrupted,
    ErrorKind::Internal,
];

impl Failure {
    fn of(error: &Error) -> Self {
        Self {
            kind: format!("{:?}", error.kind()),
            slug: String::from(error.slug()),
            message: error.to_string(),
            path: error.path().map(|p| p.as_os_str().as_bytes().to_vec()),
            object_id: error.object_id().map(String::from),
        }
    }

    fn into_error(self) -> Error {
        let kind = KINDS
            .into_iter()
            .find(|kind| format!("{kind:?}") == self.kind)
            .unwrap_or(ErrorKind::Internal);
        // Once in the life of a process that is about to report it and end.
        let slug: &'static str = Box::leak(self.slug.into_boxed_str());
        let mut error = Error::new(kind, slug, self.message);
        if let Some(path) = self.path {
            error = error.at(Path::new(OsStr::from_bytes(&path)));
        }
        if let Some(id) = self.object_id {
            error = error.about(id);
        }
        error
    }
}

/// The daemon's end: says each step to whoever started it.
#[derive(Debug)]
pub struct Reporter<W>(W);

impl<W: Write> Reporter<W> {
    /// Reports to `output`.
    pub fn new(output: W) -> Self {
        Self(output)
    }

    /// Says that the mount point is held, so that the starter can clean it should the daemon die.
    ///
    /// # Errors
    /// `starter-gone` where nobody listens any more.
    pub fn holding(&mut self, point: &Path) -> Result<()> {
        let point = point.to_path_buf();
        self.say(&Step::Holding { point })
    }

    /// Says that the mount answers.
    ///
    /// # Errors
    /// `starter-gone` where nobody listens any more: a mount that nobody knows of must not stay.
    pub fn ready(&mut self, record: &MountRecord) -> Result<()> {
        self.say(&Step::Ready(Box::new(record.clone())))
    }

    /// Says why there is no mount.
    ///
    /// # Errors
    /// `starter-gone` where nobody listens any more.
    pub fn failed(&mut self, error: &Error) -> Result<()> {
        self.say(&Step::Failed(Failure::of(error)))
    }

    fn say(&mut self, step: &Step) -> Result<()> {
        let gone = || String::from("whoever asked for the mount is gone");
        let mut line = serde_json::to_vec(step).context(ErrorKind::Internal, "internal", gone)?;
        line.push(b'\n');
        let written = self.0.write_all(&line).and_then(|()| self.0.flush());
        written.context(ErrorKind::Interrupted, "starter-gone", gone)
    }
}

/// Starts the daemon and returns when the root of its mount answers. On any error nothing is left:
/// no process, no mount, no directory that was made.
///
/// # Errors
/// What the daemon reports; `daemon-died` where it ended without a word, `daemon-silent` where it
/// said nothing for two minutes.
pub fn start_daemon(spec: &ServeSpec) -> Result<MountRecord> {
    let doing = || String::from("cannot start the daemon");
    let made = spec.make_point && std::fs::symlink_metadata(&spec.point).is_err();
    let (spec_read, spec_write) = io::pipe().doing(doing)?;
    let (step_read, step_write) = io::pipe().doing(doing)?;
    let message = serde_json::to_vec(spec).context(ErrorKind::Internal, "internal", doing)?;
    let verb = OsStr::new(SERVE_VERB);
    let daemon = Background::start(verb, OwnedFd::from(spec_read), OwnedFd::from(step_write));
    let mut daemon = daemon.context(ErrorKind::Host, "daemon-start", doing)?;
    let mut spec_write = spec_write;
    // A daemon that died already is found out below.
    let _ = spec_write.write_all(&message);
    drop(spec_write);
    let mut held = None;
    match listen(step_read, Instant::now() + READY_PATIENCE, &mut held) {
        Ok(record) => Ok(record),
        Err(end) => {
            let ended = daemon.wait(Duration::from_secs(1));
            let _ = daemon.kill();
            Err(match end {
                End::Failed(error) => error,
                End::Silent(slug) => {
                    clean(held.as_deref(), spec, daemon.pid());
                    if made {
                        let _ = std::fs::remove_dir(&spec.point);
                    }
                    let how = match ended {
                        Ok(Some(status)) => status,
                        _ => String::from("it was killed"),
                    };
                    let what = format!("the daemon ended without a word ({how})");
                    Error::new(ErrorKind::Internal, slug, what)
                }
            })
        }
    }
}

/// Why no daemon is ready.
enum End {
    /// It said so.
    Failed(Error),
    /// It said nothing: the slug for that.
    Silent(&'static str),
}

fn listen(
    pipe: io::PipeReader,
    deadline: Instant,
    held: &mut Option<PathBuf>,
) -> std::result::Result<MountRecord, End> {
    let mut lines = BufReader::new(pipe.take(MESSAGE_BYTES_MAX));
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let readable = !lines.buffer().is_empty()
            || wait_readable(lines.get_ref().get_ref().as_fd(), left).unwrap_or(false);
        if !readable {
            return Err(End::Silent("daemon-silent"));
        }
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line).is_err() {
            return Err(End::Silent("daemon-died"));
        }
        match serde_json::from_slice(&line) {
            Ok(Step::Holding { point }) => *held = Some(point),
            Ok(Step::Ready(record)) => return Ok(*record),
            Ok(Step::Failed(failure)) => return Err(End::Failed(failure.into_error())),
            Err(_) => return Err(End::Silent("daemon-died")),
        }
    }
}

/// Takes back what a daemon that was killed had begun. It held the mount point alone, so a forgefs
/// mount there is its own.
fn clean(held: Option<&Path>, spec: &ServeSpec, pid: u32) {
    let Some(point) = held else {
        return;
    };
    let state = StateRoot::open_existing(&spec.state_dir, None);
    if let Ok(Some(records)) =
        state.and_then(|s| s.map_or(Ok(None), |s| s.existing_subdir("mounts")))
    {
        let prefix = MountRecord::id_prefix(&spec.commit, pid);
        for entry in records.list().unwrap_or_default() {
            let name = entry.name.strip_prefix(b".").unwrap_or(&entry.name);
            if name.starts_with(prefix.as_bytes()) {
                let _ = records.remove_file(&entry.name);
            }
        }
    }
    let mounted = read_mounts().is_ok_and(|mounts| {
        top_mount_at(&mounts, point).is_some_and(|mount| mount.is_type(FUSE_TYPE))
    });
    if mounted {
        let _ = unmount(point, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ServeSpec {
        ServeSpec {
            repo: PathBuf::from(OsStr::from_bytes(b"/r\xff\n")),
            commit: "0".repeat(40),
            point: PathBuf::from("/m"),
            make_point: true,
            state_dir: PathBuf::from("/s"),
            owner: (1, 2),
            allow_other: false,
            no_exec: true,
            xattrs: false,
            threads: 3,
            cache_bytes_max: 4,
            mtime_s: Some(-5),
            log_bytes_max: 6,
            log_level: None,
            strict: false,
        }
    }

    #[test]
    fn a_specification_arrives_as_it_was_sent_whatever_the_bytes_of_its_paths() {
        let bytes = serde_json::to_vec(&spec()).unwrap();
        let got = ServeSpec::read(&bytes[..]).unwrap();
        assert_eq!(format!("{got:?}"), format!("{:?}", spec()));
        assert_eq!(
            ServeSpec::read(&b"{}"[..]).unwrap_err().slug(),
            "bad-handshake"
        );
    }

    fn hear(
        says: impl FnOnce(&mut Reporter<io::PipeWriter>),
    ) -> std::result::Result<MountRecord, End> {
        let (reader, writer) = io::pipe().unwrap();
        says(&mut Reporter::new(writer));
        listen(reader, Instant::now() + Duration::from_secs(5), &mut None)
    }

    #[test]
    fn r38_an_error_of_the_daemon_arrives_with_kind_slug_path_and_object() {
        for kind in KINDS {
            let sent = Error::new(kind, "some-slug", "it broke")
                .at(OsStr::from_bytes(b"/p\xff"))
                .about("abc1");
            let Err(End::Failed(got)) = hear(|r| r.failed(&sent).unwrap()) else {
                panic!("not a failure");
            };
            assert_eq!((got.kind(), got.slug()), (kind, "some-slug"));
            assert_eq!(got.path(), sent.path());
            assert_eq!(got.object_id(), Some("abc1"));
            assert!(got.to_string().contains("it broke"));
        }
    }

    #[test]
    fn r38_a_daemon_that_dies_or_hangs_is_noticed() {
        assert!(matches!(hear(|_| ()), Err(End::Silent("daemon-died"))));
        let half = hear(|r| r.holding(Path::new("/m")).unwrap());
        assert!(matches!(half, Err(End::Silent("daemon-died"))));
        let (reader, _writer) = io::pipe().unwrap();
        let hung = listen(
            reader,
            Instant::now() + Duration::from_millis(20),
            &mut None,
        );
        assert!(matches!(hung, Err(End::Silent("daemon-silent"))));
    }

    #[test]
    fn a_daemon_whose_starter_is_gone_is_told() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let error = Reporter::new(writer).holding(Path::new("/m")).unwrap_err();
        assert_eq!(error.slug(), "starter-gone");
    }
}
