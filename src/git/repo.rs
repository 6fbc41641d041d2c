//! Opening a repository root (R2, R8): which directory is meant, held by descriptor, and whether
//! its format is one that we read. Nothing else of its configuration is looked at.

use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::format::{Format, RefStorage};
use super::{HashKind, Store, StoreOptions};
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::sys::{DirFd, FileKind, Identity, stat_fd};

/// The longest `.git`, `commondir` or `gitdir` file that is read, in bytes; git stops at 1 MiB.
const POINTER_BYTES_MAX: u64 = 64 << 10;

/// The longest `config` that is read, in bytes.
const CONFIG_BYTES_MAX: u64 = 16 << 20;

/// An opened repository root; nothing of its configuration steers reading.
///
/// Its directories are held open: what happens to the path afterwards (renamed, replaced) changes
/// nothing for whoever reads through it.
#[derive(Debug)]
pub struct Repository {
    /// The git directory of this work tree, for messages: read through [`Self::git_dir_fd`].
    pub git_dir: PathBuf,
    /// The directory that holds `objects`, equal to `git_dir` but for linked worktrees; for
    /// messages: read through [`Self::common_dir_fd`].
    pub common_dir: PathBuf,
    /// The work tree, where there is one. `core.worktree` is not followed.
    pub work_tree: Option<PathBuf>,
    /// The hash of its ids.
    pub hash_kind: HashKind,
    /// How refs are kept.
    pub ref_storage: RefStorage,
    /// What the configuration says of the repository's format.
    pub format: Format,
    git: DirFd,
    common: DirFd,
    objects: DirFd,
}

/// A directory that looks like git's own: `HEAD` in it, `objects` and `refs` in its common one.
struct GitDir {
    git: DirFd,
    common: DirFd,
    objects: DirFd,
    git_dir: PathBuf,
    common_dir: PathBuf,
}

impl Repository {
    /// Opens the repository whose root is `path`: a work tree's root, a bare repository, a `.git`
    /// directory, or a root whose `.git` file names a git directory (R2). Directories above are not
    /// searched, and the owner does not matter: nothing in there is run or obeyed.
    ///
    /// # Errors
    /// `not-a-repository-root`; `unsupported-extension`, `unsupported-version`,
    /// `unsupported-object-format`; `bad-config`; what the disk says.
    pub fn open(path: &Path) -> Result<Self> {
        let root = DirFd::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => not_a_root(path, "does not exist"),
            std::io::ErrorKind::NotADirectory => not_a_root(path, "is not a directory"),
            _ => Error::io(format!("cannot open {}", path.display()), error).at(path),
        })?;
        let shown = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let (found, work_tree) = find(&root, path, &shown)?;
        let config = read_file(&found.common, b"config", CONFIG_BYTES_MAX)
            .doing(|| format!("cannot read {}/config", found.common_dir.display()))?
            .unwrap_or_default();
        let format = Format::read(&config).map_err(|error| error.at(path))?;
        Ok(Self {
            git_dir: found.git_dir,
            common_dir: found.common_dir,
            work_tree,
            hash_kind: format.hash_kind,
            ref_storage: format.ref_storage,
            format,
            git: found.git,
            common: found.common,
            objects: found.objects,
        })
    }

    /// Opens the objects of this repository and of its alternates.
    ///
    /// # Errors
    /// `not-a-repository-root` where the objects directory cannot be listed; `too-many-open-files`.
    pub fn store(&self, options: &StoreOptions) -> Result<Store> {
        let objects = self
            .objects
            .try_clone()
            .doing(|| String::from("cannot keep the objects directory open"))?;
        Store::open(
            objects,
            &self.common_dir.join("objects"),
            self.hash_kind,
            self.format.partial_clone.is_some(),
            options,
        )
    }

    /// Returns the git directory of this work tree, held open.
    #[must_use]
    pub fn git_dir_fd(&self) -> &DirFd {
        &self.git
    }

    /// Returns the common directory (`config`, `objects`, `info`), held open.
    #[must_use]
    pub fn common_dir_fd(&self) -> &DirFd {
        &self.common
    }

    /// Returns what tells this repository from others while it exists: device and inode of its
    /// common directory, so that all work trees of a repository are one.
    ///
    /// # Errors
    /// What `statx` says.
    pub fn identity(&self) -> Result<Identity> {
        let stat = self
            .common
            .stat_self()
            .doing(|| format!("cannot look at {}", self.common_dir.display()))?;
        Ok(stat.identity)
    }
}

/// Decides what `root` is, in git's own order: `.git` inside it comes before a bare repository.
fn find(root: &DirFd, path: &Path, shown: &Path) -> Result<(GitDir, Option<PathBuf>)> {
    match root.stat(b".git").map(|stat| stat.kind) {
        Ok(FileKind::File) => {
            let found = follow_gitfile(root, path, shown)?;
            return Ok((found, Some(shown.to_path_buf())));
        }
        Ok(_) => {
            if let Ok(dir) = root.open_dir_following(b".git")
                && let Some(found) = as_git_dir(dir, &shown.join(".git"))?
            {
                return Ok((found, Some(shown.to_path_buf())));
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(Error::io(
                format!("cannot look for .git in {}", path.display()),
                error,
            ));
        }
    }
    let itself = root
        .try_clone()
        .doing(|| format!("cannot keep {} open", path.display()))?;
    let found = as_git_dir(itself, shown)?.ok_or_else(|| {
        not_a_root(
            path,
            "is not the root of a git repository (no .git, and no HEAD, objects and refs, in it)",
        )
    })?;
    let is_dot_git = shown.file_name().is_some_and(|name| name == ".git");
    let work_tree = shown.parent().filter(|_| is_dot_git).map(Path::to_path_buf);
    Ok((found, work_tree))
}

/// Follows a `.git` file: submodules, separate git directories, linked worktrees.
fn follow_gitfile(root: &DirFd, path: &Path, shown: &Path) -> Result<GitDir> {
    let text = read_file(root, b".git", POINTER_BYTES_MAX)
        .doing(|| format!("cannot read {}/.git", path.display()))?
        .unwrap_or_default();
    let target = text
        .strip_prefix(b"gitdir: ")
        .map(trim_line)
        .filter(|target| !target.is_empty())
        .ok_or_else(|| not_a_root(path, "holds a .git file that names no git directory"))?;
    let unusable = || {
        not_a_root(
            path,
            &format!(
                "holds a .git file whose target {:?} is not a git directory",
                target.escape_ascii().to_string()
            ),
        )
    };
    let dir = root.open_dir_following(target).map_err(|_| unusable())?;
    let found = as_git_dir(dir, &join(shown, target))?.ok_or_else(unusable)?;
    let is_linked = found.git.stat(b"commondir").is_ok();
    if is_linked && !points_back(&found.git, root)? {
        return Err(not_a_root(
            path,
            &format!(
                "is not the worktree that {}/gitdir names; `git worktree repair` in it mends that",
                found.git_dir.display()
            ),
        ));
    }
    Ok(found)
}

/// Returns whether `gitdir` in a linked worktree's git directory names the `.git` file of `root`.
fn points_back(git: &DirFd, root: &DirFd) -> Result<bool> {
    let text = read_file(git, b"gitdir", POINTER_BYTES_MAX)
        .doing(|| String::from("cannot read the gitdir file of a linked worktree"))?
        .unwrap_or_default();
    let named = git
        .open_file_following(trim_line(&text))
        .and_then(|file| stat_fd(std::os::fd::AsFd::as_fd(&file)));
    let ours = root.stat(b".git");
    Ok(match (named, ours) {
        (Ok(a), Ok(b)) => (a.identity.dev, a.identity.ino) == (b.identity.dev, b.identity.ino),
        _ => false,
    })
}

/// Returns the directory as a git directory if it looks like one, by the rule of git's
/// `is_git_directory` without a look into `HEAD`: no ref is needed to read by id.
fn as_git_dir(git: DirFd, shown: &Path) -> Result<Option<GitDir>> {
    if git.stat(b"HEAD").is_err() {
        return Ok(None);
    }
    let pointer = read_file(&git, b"commondir", POINTER_BYTES_MAX)
        .doing(|| format!("cannot read {}/commondir", shown.display()))?;
    let common = match &pointer {
        Some(text) => git.open_dir_following(trim_line(text)),
        None => git.try_clone(),
    };
    let Ok(common) = common else {
        return Ok(None);
    };
    let common_dir = match &pointer {
        Some(text) => join(shown, trim_line(text)),
        None => shown.to_path_buf(),
    };
    let objects = match common.open_dir_following(b"objects") {
        Ok(objects) => objects,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Error::io(
                format!("cannot open {}/objects", common_dir.display()),
                error,
            ));
        }
        Err(_) => return Ok(None),
    };
    if common.open_dir_following(b"refs").is_err() {
        return Ok(None);
    }
    let canonical = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
    Ok(Some(GitDir {
        git,
        common,
        objects,
        git_dir: canonical(shown.to_path_buf()),
        common_dir: canonical(common_dir),
    }))
}

/// Reads a small file; `None` where there is none, an error where it is longer than `bytes_max`.
fn read_file(dir: &DirFd, name: &[u8], bytes_max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let file = match dir.open_file_following(name) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::from(std::io::ErrorKind::InvalidData));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(std::io::Error::from(std::io::ErrorKind::FileTooLarge));
    }
    Ok(Some(bytes))
}

fn trim_line(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|b| !matches!(b, b'\n' | b'\r'))
        .map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

fn join(base: &Path, name: &[u8]) -> PathBuf {
    base.join(std::ffi::OsString::from_vec(name.to_vec()))
}

fn not_a_root(path: &Path, why: &str) -> Error {
    let shown = path.as_os_str().as_bytes().escape_ascii();
    Error::new(
        ErrorKind::NotFound,
        "not-a-repository-root",
        format!(
            "{shown} {why}; give a work tree's root (git rev-parse --show-toplevel), \
             its .git directory or a bare repository"
        ),
    )
    .at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "real git makes what is tested")]
    fn git(dir: &Path, args: &[&str]) {
        let status = std::process::Command::new("git")
            .current_dir(dir)
            .args([
                "-c",
                "user.name=a",
                "-c",
                "user.email=b",
                "-c",
                "protocol.file.allow=always",
            ])
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .status();
        assert!(status.unwrap().success(), "git {args:?}");
    }

    fn slug(path: &Path) -> &'static str {
        Repository::open(path).map_or_else(|error| error.slug(), |_| "ok")
    }

    #[test]
    fn r2_every_form_of_a_root_opens_and_nothing_else_does() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path();
        git(top, &["init", "-q", "main"]);
        let main = top.join("main");
        git(&main, &["commit", "-q", "--allow-empty", "-m", "1"]);
        git(top, &["clone", "-q", "--bare", "main", "bare"]);
        git(
            top,
            &[
                "clone",
                "-q",
                "--separate-git-dir=apart",
                "main",
                "separate",
            ],
        );
        git(&main, &["worktree", "add", "-q", "../linked"]);
        git(&main, &["submodule", "--quiet", "add", "../bare", "sub"]);
        std::os::unix::fs::symlink("main", top.join("link")).unwrap();
        std::fs::create_dir_all(main.join("src/deep")).unwrap();
        std::fs::write(top.join("file"), "").unwrap();
        let moved = top.join("moved");
        for (path, work_tree) in [
            ("main", Some("main")),
            ("link", Some("main")),
            ("main/", Some("main")),
            ("main/.git", Some("main")),
            ("bare", None),
            ("apart", None),
            ("separate", Some("separate")),
            ("linked", Some("linked")),
            ("main/sub", Some("main/sub")),
            ("main/.git/worktrees/linked", None),
        ] {
            let opened = Repository::open(&top.join(path)).expect(path);
            let canonical = |path| std::fs::canonicalize(top.join(path)).unwrap();
            assert_eq!(opened.work_tree, work_tree.map(canonical), "{path}");
            let head = std::fs::read_to_string(opened.common_dir.join("HEAD"));
            assert!(head.is_ok(), "{path}");
        }
        let identity = |path| {
            Repository::open(&top.join(path))
                .unwrap()
                .identity()
                .unwrap()
        };
        assert_eq!(identity("main"), identity("linked"));
        assert_ne!(identity("main"), identity("bare"));
        for path in [
            "main/src",
            "main/src/deep",
            "file",
            "nowhere",
            ".",
            "main/.git/refs",
        ] {
            assert_eq!(slug(&top.join(path)), "not-a-repository-root", "{path}");
        }
        // A worktree that its repository does not know, and a .git file that leads nowhere.
        git(top, &["clone", "-q", "main", "other"]);
        std::fs::create_dir(&moved).unwrap();
        std::fs::copy(top.join("linked/.git"), moved.join(".git")).unwrap();
        assert_eq!(slug(&moved), "not-a-repository-root");
        for text in ["gitdir: ../src\n", "gitdir: \n", "nonsense", ""] {
            std::fs::write(moved.join(".git"), text).unwrap();
            assert_eq!(slug(&moved), "not-a-repository-root", "{text:?}");
        }
    }
}
