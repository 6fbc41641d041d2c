//! What lies around a repository's objects: boundaries, substitutions, promises, settings.
//!
//! Bounded reads of a few small files (R94..R96); nothing is followed, included, started or locked,
//! and nothing here changes how an object is read. What cannot be read is named, never taken for
//! absent.

use std::collections::HashSet;
use std::io::{self, Read, Seek, SeekFrom};

use super::packed_refs::refs_below;
use super::{HashKind, RefStorage, Repository};
use crate::sys::DirFd;

/// Bytes of one settings file that are read at most.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;
/// Bytes of one list (`shallow`, `packed-refs`) that are read at most.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// Names that are kept of a list; its count is exact all the same.
const NAMES_MAX: usize = 20;

/// A list of which only the first names are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// How many there are.
    pub count: u64,
    /// The first of them, raw bytes.
    pub first: Vec<Vec<u8>>,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        self.count = self.count.saturating_add(1);
        if self.first.len() < NAMES_MAX {
            self.first.push(name.to_vec());
        }
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// What was found around the objects of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryFacts {
    /// The hash of its ids.
    pub hash_kind: HashKind,
    /// How refs are kept.
    pub ref_storage: RefStorage,
    /// The git directory belongs to a linked worktree.
    pub linked_worktree: bool,
    /// Who owns the git directory.
    pub owner_uid: Option<u32>,
    /// Commits whose parents are left out, from `shallow`.
    pub shallow_commits: u64,
    /// Lines of `info/grafts`.
    pub grafts: u64,
    /// Ids that a ref below `refs/replace` would replace; not looked for in a reftable.
    pub replacements: Names,
    /// The repository has a commit-graph.
    pub commit_graph: bool,
    /// Object stores that this one borrows from, as `objects/info/alternates` lists them.
    pub alternates: Names,
    /// The remote that promised what is missing, from `extensions.partialClone` or
    /// `remote.NAME.promisor`.
    pub promisor_remote: Option<String>,
    /// Packs marked as coming from such a remote.
    pub promisor_packs: u64,
    /// The work tree leaves files out.
    pub sparse_checkout: bool,
    /// This work tree has settings of its own, in `config.worktree`.
    pub worktree_settings: bool,
    /// The index holds directories in place of their files.
    pub sparse_index: bool,
    /// The content of `info/attributes`.
    pub info_attributes: Option<Vec<u8>>,
    /// Names of `filter.NAME` settings that hold a command.
    pub filter_drivers: Vec<String>,
    /// Settings that change line ends on checkout, as `core.autocrlf=true`.
    pub line_end_settings: Vec<String>,
    /// Files that exist and could not be read, each with the reason.
    pub unread: Vec<String>,
}

impl Repository {
    /// Looks around the repository's objects.
    ///
    /// Guarantees: no program, no network, no lock, no waiting on a FIFO; at most some dozen
    /// megabytes of lists are read.
    #[must_use]
    pub fn facts(&self) -> RepositoryFacts {
        RepositoryFacts::gather(
            self.git_dir_fd(),
            self.common_dir_fd(),
            self.hash_kind,
            self.ref_storage,
        )
    }
}

impl RepositoryFacts {
    /// Looks around the objects of the repository with these directories.
    pub(crate) fn gather(
        git: &DirFd,
        common: &DirFd,
        hash_kind: HashKind,
        ref_storage: RefStorage,
    ) -> Self {
        let identity = |dir: &DirFd| dir.stat_self().ok().map(|stat| stat.identity);
        let mut facts = Self {
            hash_kind,
            ref_storage,
            linked_worktree: identity(git) != identity(common),
            owner_uid: git.stat_self().ok().map(|stat| stat.uid),
            shallow_commits: 0,
            grafts: 0,
            replacements: Names::default(),
            commit_graph: false,
            alternates: Names::default(),
            promisor_remote: None,
            promisor_packs: 0,
            sparse_checkout: false,
            worktree_settings: false,
            sparse_index: false,
            info_attributes: None,
            filter_drivers: Vec::new(),
            line_end_settings: Vec::new(),
            unread: Vec::new(),
        };
        facts.read_lists(common);
        if ref_storage == RefStorage::Files {
            facts.read_replacements(common);
        }
        facts.read_store(common);
        facts.read_settings(common, "config");
        if facts.worktree_settings {
            facts.read_settings(git, "config.worktree");
        }
        facts.sparse_index = facts
            .try_read("index", has_sparse_index(git, hash_kind))
            .unwrap_or_default();
        facts
    }

    fn read_lists(&mut self, common: &DirFd) {
        if let Some(bytes) = self.read(common, "shallow", LIST_BYTES_MAX) {
            self.shallow_commits = count_lines(&bytes);
        }
        if let Some(bytes) = self.read(common, "info/grafts", LIST_BYTES_MAX) {
            self.grafts = count_lines(&bytes);
        }
        self.info_attributes = self.read(common, "info/attributes", SETTINGS_BYTES_MAX);
    }

    fn read_replacements(&mut self, common: &DirFd) {
        let mut names = Names::default();
        for name in self.list(common, "refs/replace") {
            names.push(&name);
        }
        let read = open_regular(common, "packed-refs")
            .and_then(|file| refs_below(&file, b"refs/replace/", |id| names.push(id)));
        self.try_read("packed-refs", read);
        self.replacements = names;
    }

    fn read_store(&mut self, common: &DirFd) {
        if let Some(bytes) = self.read(common, "objects/info/alternates", SETTINGS_BYTES_MAX) {
            for line in lines(&bytes) {
                self.alternates.push(line);
            }
        }
        self.commit_graph = ["commit-graph", "commit-graphs"].iter().any(|name| {
            common
                .stat(format!("objects/info/{name}").as_bytes())
                .is_ok()
        });
        // The mark alone, without its pack, means nothing to git.
        let names = self.list(common, "objects/pack");
        let packs: HashSet<&[u8]> = names
            .iter()
            .filter_map(|name| name.strip_suffix(b".pack"))
            .collect();
        let promised = names
            .iter()
            .filter_map(|name| name.strip_suffix(b".promisor"))
            .filter(|stem| packs.contains(stem));
        self.promisor_packs = promised.count() as u64;
    }

    fn read_settings(&mut self, dir: &DirFd, name: &str) {
        let Some(bytes) = self.read(dir, name, SETTINGS_BYTES_MAX) else {
            return;
        };
        let meta = gix::config::file::Metadata::api();
        let options = gix::config::file::init::Options::default();
        match gix::config::File::from_bytes_no_includes(&bytes, meta, options) {
            Ok(config) => self.take_settings(&config),
            Err(_) => self
                .unread
                .push(format!("{name}: it is not in git's format")),
        }
    }

    fn take_settings(&mut self, config: &gix::config::File) {
        let text = |key: &str| {
            let value = config.string(key)?;
            Some(String::from_utf8_lossy(&value).into_owned())
        };
        let is_on = |key: &str| {
            config
                .boolean(key)
                .is_ok_and(|value| value.unwrap_or(false))
        };
        self.sparse_checkout |= is_on("core.sparseCheckout");
        self.worktree_settings |= is_on("extensions.worktreeConfig");
        if let Some(remote) = text("extensions.partialClone") {
            self.promisor_remote = Some(remote);
        }
        for key in ["core.autocrlf", "core.eol"] {
            if let Some(value) =
                text(key).filter(|value| !matches!(value.as_str(), "false" | "native"))
            {
                self.line_end_settings.push(format!("{key}={value}"));
            }
        }
        for section in config.sections() {
            let Some(subject) = section.header().subsection_name() else {
                continue;
            };
            let subject = String::from_utf8_lossy(subject).into_owned();
            let name = section.header().name().to_ascii_lowercase();
            let holds = |key: &str| section.body().contains_value_name(key);
            if name == b"filter" && ["clean", "smudge", "process"].into_iter().any(holds) {
                self.filter_drivers.push(subject);
            } else if name == b"remote" && holds("promisor") {
                self.promisor_remote.get_or_insert(subject);
            }
        }
    }

    /// Returns the content of a file; `None` where it is absent or, with a remark, unreadable.
    fn read(&mut self, dir: &DirFd, name: &str, bytes_max: u64) -> Option<Vec<u8>> {
        self.try_read(name, read_bounded(dir, name, bytes_max))
    }

    fn list(&mut self, dir: &DirFd, name: &str) -> Vec<Vec<u8>> {
        let listed = dir
            .open_dir_following(name.as_bytes())
            .and_then(|dir| dir.list());
        let entries = self.try_read(name, listed).unwrap_or_default();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    fn try_read<T>(&mut self, name: &str, read: io::Result<T>) -> Option<T> {
        use io::ErrorKind::{NotADirectory, NotFound};
        match read {
            Ok(value) => Some(value),
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => None,
            Err(error) => {
                self.unread.push(format!("{name}: {error}"));
                None
            }
        }
    }
}

/// Opens a regular file without waiting on anything else that may stand there.
fn open_regular(dir: &DirFd, name: &str) -> io::Result<std::fs::File> {
    let file = dir.open_file_following(name.as_bytes())?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}

fn read_bounded(dir: &DirFd, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open_regular(dir, name)?;
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!(
            "it is longer than {bytes_max} bytes"
        )));
    }
    Ok(bytes)
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
}

fn count_lines(bytes: &[u8]) -> u64 {
    lines(bytes).count() as u64
}

/// Returns whether the index says that it holds directories: its last extension is an empty `sdir`,
/// or the last before `EOIE` (an offset and one hash); a hash of the whole file follows.
fn has_sparse_index(git: &DirFd, hash_kind: HashKind) -> io::Result<bool> {
    const SIGN: &[u8] = b"sdir\0\0\0\0";
    let hash_len = hash_kind.len_in_bytes();
    let mut file = open_regular(git, "index")?;
    let len = file.metadata()?.len();
    let tail_len = len.min(256);
    file.seek(SeekFrom::Start(len - tail_len))?;
    let mut tail = Vec::new();
    file.take(256).read_to_end(&mut tail)?;
    let Some(end) = tail
        .len()
        .checked_sub(hash_len)
        .and_then(|end| tail.get(..end))
    else {
        return Ok(false);
    };
    let before_end_mark = end
        .len()
        .checked_sub(12 + hash_len)
        .map(|at| end.split_at(at))
        .filter(|(_, mark)| mark.starts_with(b"EOIE"))
        .map_or(end, |(before, _)| before);
    Ok(before_end_mark.ends_with(SIGN))
}
