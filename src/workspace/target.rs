//! Where a workspace goes: what is refused before any effect, the hidden place it is built in, and
//! the rename that publishes it (R77, R86).
//!
//! A missing target is built beside it and renamed once. An empty directory (which may be a mount
//! point, or held by somebody) is filled in place: built inside it, then moved up name by name,
//! `.git` last. Whatever a killed run left is swept by the next run for the same target.

use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fault;
use crate::git::Repository;
use crate::sys::{DirFd, FileKind, FreeSpace, make_and_open_dir, os_name, process};

/// What temporary names begin with, inside a target and (after its name) beside one.
const HIDDEN: &[u8] = b".forgefs-seed-";

/// The list of names that are being moved up, in the temporary directory; NUL after each.
const MOVING: &[u8] = b"moving";

/// The most bytes of that list that are read back.
const MOVING_BYTES_MAX: u64 = 64 << 20;

/// A target that may be written.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Nothing stands there; the directory above, and the name in it.
    Missing(DirFd, Vec<u8>),
    /// An empty directory, left-overs of ours aside.
    Empty(DirFd),
}

impl Target {
    /// Judges `path`; nothing is changed.
    ///
    /// # Errors
    /// `target-is-a-link`, `target-in-repository` (unsafe); `target-exists`, `target-not-empty`
    /// (conflict); `target-parent-missing` (usage).
    pub fn check(path: &Path, repository: Option<&Repository>) -> Result<Self> {
        let given = path;
        // Without a slash at the end, which would make the kernel follow a link.
        let mut path: PathBuf = path.components().collect();
        if path.file_name().is_none() {
            path = std::fs::canonicalize(given)
                .doing(|| format!("cannot resolve {}", given.display()))?;
        }
        let Some(name) = path.file_name().map(|n| n.as_bytes().to_vec()) else {
            return Err(conflict(given, "target-exists", "is the root of the host"));
        };
        let parent_path = match path.parent() {
            Some(parent) if parent != Path::new("") => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let parent = DirFd::open(&parent_path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Error::new(
                ErrorKind::Usage,
                "target-parent-missing",
                format!("{} is not there; make it first", parent_path.display()),
            )
            .at(given),
            _ => Error::io(format!("cannot open {}", parent_path.display()), error).at(given),
        })?;
        let shown = parent
            .real_path()
            .doing(|| format!("cannot resolve {}", parent_path.display()))?
            .join(os_name(&name));
        if let Some(repository) = repository {
            refuse_inside(&shown, repository)?;
        }
        let place = match parent.stat(&name) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Place::Missing(parent, name),
            Err(e) => return Err(Error::io(format!("cannot stat {}", given.display()), e)),
            Ok(stat) if stat.kind == FileKind::Symlink => {
                return Err(Error::new(
                    ErrorKind::Unsafe,
                    "target-is-a-link",
                    format!(
                        "{} is a symbolic link; name the directory itself",
                        given.display()
                    ),
                )
                .at(given));
            }
            Ok(stat) if stat.kind == FileKind::Directory => {
                let dir = parent
                    .open_dir_crossing(&name)
                    .and_then(|dir| dir.reopen())
                    .doing(|| format!("cannot open {}", given.display()))?;
                let left = dir
                    .list()
                    .doing(|| format!("cannot list {}", given.display()))?;
                let ours = moved_by_left_over(&dir, &left);
                let foreign = left
                    .iter()
                    .any(|e| !e.name.starts_with(HIDDEN) && !ours.contains(&e.name));
                if foreign {
                    return Err(conflict(given, "target-not-empty", "is not empty"));
                }
                Place::Empty(dir)
            }
            Ok(_) => {
                return Err(conflict(
                    given,
                    "target-exists",
                    "exists and is no directory",
                ));
            }
        };
        Ok(Self { path: shown, place })
    }

    /// Returns where it is: absolute, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what the file system that it goes to has left.
    ///
    /// # Errors
    /// What `fstatvfs` says.
    pub fn free_space(&self) -> Result<FreeSpace> {
        let dir = match &self.place {
            Place::Missing(parent, _) => parent,
            Place::Empty(dir) => dir,
        };
        dir.free_space()
            .doing(|| format!("cannot ask for the free space of {}", self.path.display()))
    }

    /// Sweeps what killed runs left for this target, and makes the hidden directory to build in.
    pub(super) fn claim(&self) -> Result<Building<'_>> {
        let (above, prefix) = match &self.place {
            Place::Missing(parent, name) => {
                let name = name.get(..name.len().min(180)).unwrap_or_default();
                (parent, [b".", name, HIDDEN].concat())
            }
            Place::Empty(dir) => (dir, HIDDEN.to_vec()),
        };
        sweep(above, &prefix, matches!(self.place, Place::Empty(_)));
        let doing = || format!("cannot make a directory for {}", self.path.display());
        for number in 0..1000 {
            let hidden = format!("{}-{number}", std::process::id());
            let hidden = [&prefix[..], hidden.as_bytes()].concat();
            let own = match make_and_open_dir(above, &hidden, 0o700) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                other => other.doing(doing)?,
            };
            let mut building = Building {
                target: self,
                above,
                hidden,
                lock: own,
                root: None,
                is_published: false,
            };
            building.lock.try_lock().doing(doing)?;
            // Another run may have swept it in the moment before it was locked.
            if building.lock.stat_self().doing(doing)?.nlink == 0 {
                continue;
            }
            building.root = match self.place {
                Place::Missing(..) => None,
                Place::Empty(_) => {
                    Some(make_and_open_dir(&building.lock, b"root", 0o700).doing(doing)?)
                }
            };
            return Ok(building);
        }
        Err(conflict(&self.path, "locked", "is being made by others"))
    }
}

/// A workspace that is being built; removed again unless it is published.
#[derive(Debug)]
pub(super) struct Building<'t> {
    target: &'t Target,
    above: &'t DirFd,
    hidden: Vec<u8>,
    lock: DirFd,
    root: Option<DirFd>,
    is_published: bool,
}

impl Building<'_> {
    /// Returns the directory that becomes the workspace.
    pub(super) fn root(&self) -> &DirFd {
        self.root.as_ref().unwrap_or(&self.lock)
    }

    /// Gives the workspace its name.
    pub(super) fn publish(mut self, top_mode: u32) -> Result<()> {
        let path = &self.target.path;
        let doing = || format!("cannot give {} its name", path.display());
        fault::point("before-publish")?;
        match &self.target.place {
            Place::Missing(parent, name) => {
                self.lock.set_mode(top_mode).doing(doing)?;
                match self.above.rename_new(&self.hidden, parent, name) {
                    Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                        return Err(conflict(path, "target-exists", "was made meanwhile"));
                    }
                    other => other.doing(doing)?,
                }
                self.is_published = true;
            }
            Place::Empty(dir) => {
                let root = self.root();
                let mut names: Vec<Vec<u8>> = root
                    .list()
                    .doing(doing)?
                    .into_iter()
                    .map(|entry| entry.name)
                    .filter(|name| name != b".git")
                    .collect();
                names.sort_unstable();
                names.push(b".git".to_vec());
                let taken = dir
                    .list()
                    .doing(doing)?
                    .iter()
                    .any(|e| !e.name.starts_with(HIDDEN));
                if taken {
                    return Err(conflict(path, "target-not-empty", "was filled meanwhile"));
                }
                let mut list = self.lock.create_beneath(MOVING, 0o600).doing(doing)?;
                list.write_all(&names.join(&0)).doing(doing)?;
                for name in &names {
                    fault::point("publish-in-part")?;
                    root.rename_new(name, dir, name).doing(doing)?;
                }
            }
        }
        fault::point("after-publish")
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        if matches!(self.target.place, Place::Empty(_)) {
            undo_moves(self.above, &self.lock);
        }
        if let Err(error) = self.above.remove_tree(&self.hidden) {
            tracing::warn!(%error, path = %self.target.path.display(), "cannot remove what was begun");
        }
    }
}

/// Removes what a publication that did not come to its end had moved up already. Once `.git` is up
/// the workspace is somebody's and nothing is touched.
fn undo_moves(dir: &DirFd, hidden: &DirFd) {
    let moved = match hidden.stat(b"root/.git") {
        Ok(_) => read_moving(hidden),
        Err(_) => Vec::new(),
    };
    for name in moved {
        let _ = dir.remove_tree(&name);
    }
}

fn read_moving(hidden: &DirFd) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = hidden
        .open_file(MOVING)
        .and_then(|file| file.take(MOVING_BYTES_MAX).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    bytes
        .split(|b| *b == 0)
        .filter(|name| !name.is_empty() && !name.contains(&b'/') && *name != b"." && *name != b"..")
        .map(<[u8]>::to_vec)
        .collect()
}

/// Returns the names in `dir` that a killed run of ours had moved up before `.git`.
fn moved_by_left_over(dir: &DirFd, listed: &[crate::sys::ListedEntry]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for entry in listed.iter().filter(|e| e.name.starts_with(HIDDEN)) {
        if let Some(hidden) = own_left_over(dir, &entry.name)
            && hidden.stat(b"root/.git").is_ok()
        {
            out.extend(read_moving(&hidden));
        }
    }
    out
}

/// Opens a left-over directory if it is this user's and nobody is at work in it.
fn own_left_over(above: &DirFd, name: &[u8]) -> Option<DirFd> {
    let stat = above.stat(name).ok()?;
    if stat.kind != FileKind::Directory || stat.uid != process::effective_ids().0 {
        return None;
    }
    let dir = above.open_dir(name).ok()?;
    dir.try_lock().ok()?.then_some(dir)
}

fn sweep(above: &DirFd, prefix: &[u8], in_place: bool) {
    let Ok(listed) = above.list() else { return };
    for entry in listed.iter().filter(|e| e.name.starts_with(prefix)) {
        let Some(hidden) = own_left_over(above, &entry.name) else {
            continue;
        };
        if in_place {
            undo_moves(above, &hidden);
        }
        if let Err(error) = above.remove_tree(&entry.name) {
            let name = entry.name.escape_ascii().to_string();
            tracing::warn!(%error, name, "cannot remove what a killed run left");
        }
    }
}

/// Refuses a target inside the repository, by what directories are and not by what they are called.
fn refuse_inside(path: &Path, repository: &Repository) -> Result<()> {
    let identity = |dir: &DirFd| dir.stat_self().ok().map(|stat| stat.identity);
    let mut forbidden = vec![
        identity(repository.git_dir_fd()),
        identity(repository.common_dir_fd()),
    ];
    if let Some(work_tree) = &repository.work_tree {
        forbidden.push(DirFd::open(work_tree).ok().as_ref().and_then(identity));
    }
    let forbidden: Vec<_> = forbidden
        .into_iter()
        .flatten()
        .map(|id| (id.dev, id.ino))
        .collect();
    let mut at = path;
    loop {
        let is_inside = DirFd::open_no_follow(at)
            .ok()
            .as_ref()
            .and_then(identity)
            .is_some_and(|id| forbidden.contains(&(id.dev, id.ino)));
        if is_inside {
            return Err(Error::new(
                ErrorKind::Unsafe,
                "target-in-repository",
                format!(
                    "{} is inside the repository, which is never written; choose another place",
                    path.display()
                ),
            )
            .at(path));
        }
        match at.parent() {
            Some(parent) if at.components().next_back() != Some(Component::RootDir) => at = parent,
            _ => return Ok(()),
        }
    }
}

fn conflict(path: &Path, slug: &'static str, what: &str) -> Error {
    let message = format!(
        "{} {what}; a workspace needs a new or an empty directory",
        path.display()
    );
    Error::new(ErrorKind::Conflict, slug, message).at(path)
}
