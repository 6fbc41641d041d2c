//! Recomputes the tree id of a directory from what the kernel shows of it, and says which paths are
//! not what the commit says (R27..R36).
//!
//! The room imports neither `snapshot` nor `mount`: a bug that serves wrong bytes cannot also bless
//! them (R28). Expectation comes from objects that this process hashed itself, observation from
//! `openat2`, `statx`, `getdents64`, `read` and `readlink`; a daemon is never asked.

mod content;
mod difference;
mod expect;
mod explain;
mod manifest;
mod queue;
mod rebuild;
mod record;
mod root;
mod totals;
mod walk;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub use difference::{Difference, DifferenceKind};
pub use explain::explain;
pub use manifest::{Manifest, ManifestReading, write_manifest};
pub use record::{Circumstances, ProofRecord, shown_path};
pub use root::{Root, RootIdentity};
pub use totals::{Progress, Totals};

use crate::budget::Limits;
use crate::error::{Error, ErrorKind, Result};
use crate::git::{HashKind, ObjectSource, Oid, load_commit};
use expect::Plan;
use root::{Opened, check_unchanged};
use walk::{Ended, Walk};

/// What to prove, against what, and at what cost.
pub struct ProveRequest {
    /// The directory.
    pub root: Root,
    /// Where the commit and its trees are read from; blobs are never asked for.
    pub objects: Arc<dyn ObjectSource>,
    /// The commit that the directory must equal.
    pub commit_id: Oid,
    /// Caps; a commit or directory over them is refused, never sampled (R35). The timeout makes the
    /// verdict "not proven" (R36).
    pub limits: Limits,
    /// How many threads read and hash; at least one.
    pub threads: u16,
    /// Whether a file with more than one name is a difference: for staged copies (R29).
    pub judges_hard_links: bool,
    /// Counters to watch meanwhile.
    pub progress: Arc<Progress>,
}

impl std::fmt::Debug for ProveRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProveRequest({:?}, {})", self.root, self.commit_id)
    }
}

/// What a proof says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// What the kernel shows hashes to the commit's tree.
    Proven,
    /// Paths differ.
    Differs,
    /// The server of the mount is gone (`ENOTCONN`).
    DaemonDead,
    /// The directory did not answer in time.
    TimedOut,
}

impl Verdict {
    /// Returns the stable word for a verdict that is not [`Self::Proven`].
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Proven => None,
            Self::Differs => Some("differs"),
            Self::DaemonDead => Some("daemon-dead"),
            Self::TimedOut => Some("timed-out"),
        }
    }
}

/// A verdict and all that a record says about it.
#[derive(Debug, Clone)]
pub struct Proof {
    /// The verdict.
    pub verdict: Verdict,
    /// The commit.
    pub commit_id: Oid,
    /// The tree that the commit names, where it was read in time.
    pub tree_id: Option<Oid>,
    /// The tree that was rebuilt from what the kernel showed; `None` where a part was not shown.
    pub rebuilt_tree_id: Option<Oid>,
    /// The hash of the ids.
    pub hash_kind: HashKind,
    /// What was walked.
    pub totals: Totals,
    /// What differs, in tree order: the first 10,000.
    pub differences: Vec<Difference>,
    /// How many more differ.
    pub differences_omitted: u64,
    /// What tells the directory from others; `None` where it did not answer.
    pub root: Option<RootIdentity>,
    /// The caps.
    pub limits: Limits,
}

/// What the waiting thread can still say when the deadline comes.
#[derive(Debug, Default)]
struct Seen {
    walk: OnceLock<Arc<Walk>>,
    root: OnceLock<RootIdentity>,
}

/// Proves, and returns by the deadline of the limits even where the directory hangs: threads that
/// the kernel does not give back are left behind.
///
/// # Errors
/// Where the proof could not be tried: the directory is not there or unsafe (`no-such-directory`,
/// `unsafe-directory`, `substituted`), the commit or its root tree is not readable or breaks the
/// rules of R10 (`bad-tree`), a cap is reached (`budget-entries`, `budget-bytes`,
/// `budget-depth`). That a path differs or is unreadable is no error but the verdict.
pub fn prove(request: ProveRequest) -> Result<Proof> {
    let deadline = request
        .limits
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let seen = Arc::new(Seen::default());
    let unanswered = Proof::unanswered(&request);
    let (send, receive) = crossbeam_channel::bounded(1);
    let shared = Arc::clone(&seen);
    std::thread::Builder::new()
        .name(String::from("prove"))
        .spawn(move || {
            // Nobody listens after the deadline.
            let _ = send.send(run(request, &shared));
        })
        .map_err(|error| Error::io("cannot start a thread", error))?;
    let answer = match deadline {
        Some(at) => receive.recv_deadline(at),
        None => receive
            .recv()
            .map_err(|_| crossbeam_channel::RecvTimeoutError::Disconnected),
    };
    match answer {
        Ok(proof) => proof,
        Err(crossbeam_channel::RecvTimeoutError::Timeout) => Ok(unanswered.timed_out(&seen)),
        Err(crossbeam_channel::RecvTimeoutError::Disconnected) => Err(ended_early()),
    }
}

fn ended_early() -> Error {
    Error::new(
        ErrorKind::Internal,
        "internal",
        "a thread of the proof ended early",
    )
}

fn run(request: ProveRequest, seen: &Seen) -> Result<Proof> {
    let mut proof = Proof::unanswered(&request);
    let path = match &request.root {
        Root::At(path) => Some(path.clone()),
        Root::Held(_) => None,
    };
    let objects = request.objects;
    let (root, identity) = match request.root.open()? {
        Opened::Open(root, identity) => (root, identity),
        Opened::ServerGone => {
            let commit = load_commit(&*objects, &request.commit_id)?;
            return Ok(proof.server_gone(commit.tree_id));
        }
    };
    let identity = seen.root.get_or_init(|| identity);
    proof.root = Some(identity.clone());
    let plan = Plan::load(
        &*objects,
        &request.commit_id,
        &request.limits,
        request.threads,
    )?;
    let walk = seen.walk.get_or_init(|| {
        Arc::new(Walk::new(
            root,
            plan,
            request.limits,
            request.judges_hard_links,
            request.threads,
            request.progress,
        ))
    });
    walk.run();
    proof.conclude(walk, path, identity)
}

impl Proof {
    /// A proof of which nothing is known yet.
    fn unanswered(request: &ProveRequest) -> Self {
        Self {
            verdict: Verdict::Differs,
            commit_id: request.commit_id,
            tree_id: None,
            rebuilt_tree_id: None,
            hash_kind: request.objects.hash_kind(),
            totals: Totals::default(),
            differences: Vec::new(),
            differences_omitted: 0,
            root: None,
            limits: request.limits,
        }
    }

    /// The root did not answer at all.
    fn server_gone(mut self, tree_id: Oid) -> Self {
        self.verdict = Verdict::DaemonDead;
        self.tree_id = Some(tree_id);
        let root = Difference::new(Vec::new(), DifferenceKind::Unreadable, Some(tree_id));
        self.differences = vec![root.directory(true)];
        self
    }

    /// The deadline came first.
    fn timed_out(mut self, seen: &Seen) -> Self {
        self.verdict = Verdict::TimedOut;
        self.root = seen.root.get().cloned();
        let waited = |path, id| {
            Difference::new(path, DifferenceKind::Unreadable, id)
                .because("no answer before the timeout")
        };
        if let Some(walk) = seen.walk.get() {
            walk.stop();
            match walk.waiting_at() {
                Some((path, id)) => walk.add(waited(path, Some(id))),
                None => walk.add(waited(Vec::new(), Some(walk.plan().commit.tree_id))),
            }
            self.take_from(walk);
        } else {
            self.differences = vec![waited(Vec::new(), None)];
        }
        self
    }

    fn take_from(&mut self, walk: &Walk) {
        self.tree_id = Some(walk.plan().commit.tree_id);
        self.rebuilt_tree_id = walk.rebuilt();
        self.totals = walk.totals();
        (self.differences, self.differences_omitted) = walk.findings().into_sorted();
    }

    /// The walk is over: says what came of it.
    fn conclude(mut self, walk: &Walk, path: Option<PathBuf>, root: &RootIdentity) -> Result<Self> {
        match walk.take_ended() {
            Some(Ended::Failed(error)) => return Err(error),
            Some(Ended::ServerGone) => self.verdict = Verdict::DaemonDead,
            None if walk.is_stopped() => return Err(ended_early()),
            None => self.verdict = Verdict::Differs,
        }
        self.take_from(walk);
        if self.differences.is_empty() {
            if self.rebuilt_tree_id != self.tree_id {
                let message = "nothing differs, but the rebuilt tree has another id";
                return Err(Error::new(ErrorKind::Internal, "internal", message));
            }
            let answers = path.map_or(Ok(true), |path| check_unchanged(&path, root))?;
            if !answers {
                return Ok(self.server_gone(walk.plan().commit.tree_id));
            }
            self.verdict = Verdict::Proven;
        }
        Ok(self)
    }
}
