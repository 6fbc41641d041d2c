//! The mount point: what may be one (R39), resolved once and held.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::state::DirLock;
use crate::sys::mountinfo::{MountEntry, mount_of, read_mounts, top_mount_at};
use crate::sys::mounts::FUSE_TYPE;
use crate::sys::{DirFd, FileKind};

/// An empty directory on which a mount may be made, held open and locked against another forgefs.
/// One that was made for the purpose is removed again on drop, unless [`MountPoint::keep`] was
/// called.
#[derive(Debug)]
pub struct MountPoint {
    dir: DirFd,
    path: PathBuf,
    parent: DirFd,
    leaf: Vec<u8>,
    made: bool,
    lock: Option<DirLock>,
}

impl MountPoint {
    /// Checks that `path` (absolute) may be mounted on: an existing empty directory, no link, no
    /// mount, neither under nor above a directory of `repository` (absolute, without links), not
    /// inside another forgefs mount. With `make`, a missing last component is made.
    ///
    /// # Errors
    /// Kind `Unsafe` or `Conflict`, one slug for each rule; nothing was changed then.
    pub fn check(path: &Path, repository: &[PathBuf], make: bool) -> Result<Self> {
        let (parent_path, leaf) = split(path)?;
        let mounts = read_mounts().doing(|| String::from("cannot read the list of mounts"))?;
        let real_parent = std::fs::canonicalize(parent_path).map_err(|e| {
            let what = "has a parent that cannot be reached; make the parent first";
            refused("mount-point-missing", path, what).caused_by(e)
        })?;
        let real = real_parent.join(std::ffi::OsStr::from_bytes(&leaf));
        check_mounts(&mounts, &real)?;
        check_repository(&real, repository)?;
        let parent = open_parent(&real_parent)?;
        let made = match parent.stat(&leaf) {
            Ok(stat) => check_kind(stat.kind, path).map(|()| false)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound && make => {
                parent
                    .make_dir(&leaf, 0o700)
                    .doing(|| format!("cannot make the mount point {}", path.display()))?;
                true
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let what = "does not exist; make it, or give --mkdir";
                return Err(refused("mount-point-missing", path, what));
            }
            Err(e) => {
                let what = "cannot be looked at";
                return Err(refused("mount-point-missing", path, what).caused_by(e));
            }
        };
        let dir = parent.open_dir(&leaf).map_err(|e| {
            if made {
                let _ = parent.remove_dir(&leaf);
            }
            Error::io(format!("cannot open the mount point {}", path.display()), e).at(path)
        })?;
        let mut point = Self {
            dir,
            path: real,
            parent,
            leaf,
            made,
            lock: None,
        };
        point.lock = Some(DirLock::acquire(&point.dir, path)?);
        point.check_still_free()?;
        Ok(point)
    }

    /// Looks again, now that no other forgefs can be mounting here: nothing may be mounted on the
    /// directory that is held, and nothing may be in it.
    fn check_still_free(&self) -> Result<()> {
        let doing = || format!("cannot look into {}", self.path.display());
        let through_name = self.parent.stat(&self.leaf).doing(doing)?.identity;
        if through_name != self.dir.stat_self().doing(doing)?.identity {
            let what = "was mounted on or replaced meanwhile";
            return Err(conflict("mount-point-is-a-mount", &self.path, what));
        }
        if !self.dir.list().doing(doing)?.is_empty() {
            let what = "is not empty; mounting would hide what is in it";
            return Err(conflict("mount-point-not-empty", &self.path, what));
        }
        Ok(())
    }

    /// Returns where it is: absolute, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path that means the held directory itself, in this process alone.
    #[must_use]
    pub fn held_path(&self) -> PathBuf {
        use std::os::fd::{AsFd, AsRawFd};
        PathBuf::from(format!("/proc/self/fd/{}", self.dir.as_fd().as_raw_fd()))
    }

    /// Ends the check's hold after the mount succeeded: a directory that was made stays, and the
    /// descriptors are closed, so that the daemon keeps nothing of the covered file system.
    pub fn keep(mut self) {
        self.made = false;
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if self.made {
            let _ = self.parent.remove_dir(&self.leaf);
        }
    }
}

fn open_parent(real_parent: &Path) -> Result<DirFd> {
    // Walked from / without following anything: the path was just resolved, so a link on the way
    // was put there since.
    let doing = || format!("cannot open {}", real_parent.display());
    let mut dir = DirFd::open(Path::new("/")).doing(doing)?;
    for name in real_parent.iter().skip(1) {
        dir = dir.open_dir_crossing(name.as_bytes()).map_err(|e| {
            let what = "has a parent that cannot be reached; make the parent first";
            refused("mount-point-missing", real_parent, what).caused_by(e)
        })?;
    }
    Ok(dir)
}

fn split(path: &Path) -> Result<(&Path, Vec<u8>)> {
    let last = path.components().next_back();
    match (path.parent(), last) {
        (Some(parent), Some(Component::Normal(name))) => Ok((parent, name.as_bytes().to_vec())),
        (_, Some(Component::RootDir)) => {
            let what = "is the root of the host, which is a mount";
            Err(conflict("mount-point-is-a-mount", path, what))
        }
        _ => {
            let what = "must end in the directory's own name, not in '..'";
            Err(refused("mount-point-missing", path, what))
        }
    }
}

fn check_mounts(mounts: &[MountEntry], real: &Path) -> Result<()> {
    if let Some(there) = top_mount_at(mounts, real) {
        let what = if there.is_type(FUSE_TYPE) {
            String::from("is a forgefs mount already; end it with: forgefs umount")
        } else {
            let fs_type = there.fs_type.to_string_lossy();
            format!("is a mount already ({})", fs_type.escape_debug())
        };
        return Err(conflict("mount-point-is-a-mount", real, &what));
    }
    if mount_of(mounts, real).is_some_and(|m| m.is_type(FUSE_TYPE)) {
        let what = "is inside a forgefs mount; choose a directory outside of it";
        return Err(refused("mount-point-in-forgefs-mount", real, what));
    }
    Ok(())
}

fn check_repository(real: &Path, repository: &[PathBuf]) -> Result<()> {
    for dir in repository {
        let shown = dir.display().to_string();
        let shown = shown.escape_debug();
        if real.starts_with(dir) {
            let what = format!("is inside the repository {shown}; choose a directory outside");
            return Err(refused("mount-point-in-repository", real, &what));
        }
        if dir.starts_with(real) {
            let what = format!("is above the repository {shown}, which the mount would hide");
            return Err(refused("mount-point-above-repository", real, &what));
        }
    }
    Ok(())
}

fn check_kind(kind: FileKind, path: &Path) -> Result<()> {
    match kind {
        FileKind::Directory => Ok(()),
        FileKind::Symlink => {
            let what = "is a symbolic link; name the directory itself";
            Err(refused("mount-point-is-a-link", path, what))
        }
        FileKind::File | FileKind::Special | FileKind::Unknown => {
            let what = "is not a directory";
            Err(refused("mount-point-not-a-directory", path, what))
        }
    }
}

fn refused(slug: &'static str, path: &Path, what: &str) -> Error {
    about_point(ErrorKind::Unsafe, slug, path, what)
}

fn conflict(slug: &'static str, path: &Path, what: &str) -> Error {
    about_point(ErrorKind::Conflict, slug, path, what)
}

fn about_point(kind: ErrorKind, slug: &'static str, path: &Path, what: &str) -> Error {
    let shown = path.display().to_string();
    Error::new(
        kind,
        slug,
        format!("mount point {} {what}", shown.escape_debug()),
    )
    .at(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, create_dir_all, write};
    use std::os::unix::fs::symlink;

    /// A directory for one test, with a repository's work tree `repo` in it.
    fn place() -> (tempfile::TempDir, PathBuf, Vec<PathBuf>) {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        create_dir_all(top.join("repo/sub")).unwrap();
        create_dir(top.join("empty")).unwrap();
        let repository = vec![top.join("repo"), top.join("repo/.git")];
        (temp, top, repository)
    }

    #[test]
    fn r39_each_bad_mount_point_is_refused_with_its_reason() {
        let (_temp, top, repository) = place();
        write(top.join("file"), "").unwrap();
        symlink("empty", top.join("link")).unwrap();
        create_dir_all(top.join("full/x")).unwrap();
        symlink("repo", top.join("way")).unwrap();
        for (name, slug) in [
            ("gone", "mount-point-missing"),
            ("gone/leaf", "mount-point-missing"),
            ("empty/..", "mount-point-missing"),
            ("file", "mount-point-not-a-directory"),
            ("file/leaf", "mount-point-missing"),
            ("link", "mount-point-is-a-link"),
            ("full", "mount-point-not-empty"),
            ("repo", "mount-point-in-repository"),
            ("repo/sub", "mount-point-in-repository"),
            ("repo/.git", "mount-point-in-repository"),
            ("way/sub", "mount-point-in-repository"),
            ("", "mount-point-above-repository"),
            ("/", "mount-point-is-a-mount"),
            ("/proc", "mount-point-is-a-mount"),
        ] {
            let error = MountPoint::check(&top.join(name), &repository, false).unwrap_err();
            assert_eq!(error.slug(), slug, "{name}: {error}");
            assert!(matches!(
                error.kind(),
                ErrorKind::Unsafe | ErrorKind::Conflict
            ));
        }
    }

    #[test]
    fn r39_nothing_is_mounted_inside_another_forgefs_mount() {
        let line = b"1 1 0:1 / / rw - ext4 d rw\n2 1 0:2 / /m ro - fuse.forgefs forgefs:0 ro\n";
        let mounts = crate::sys::mountinfo::parse_mounts(line).unwrap();
        let slug = |path: &str| check_mounts(&mounts, Path::new(path)).unwrap_err().slug();
        assert_eq!(slug("/m/a/b"), "mount-point-in-forgefs-mount");
        assert_eq!(slug("/m"), "mount-point-is-a-mount");
        assert!(check_mounts(&mounts, Path::new("/n")).is_ok());
    }

    #[test]
    fn r39_an_empty_directory_is_held_and_locked() {
        let (_temp, top, repository) = place();
        symlink("..", top.join("empty.up")).unwrap();
        let point = MountPoint::check(&top.join("empty/"), &repository, false).unwrap();
        assert_eq!(point.path(), top.join("empty"));
        let second = MountPoint::check(&top.join("empty"), &repository, false).unwrap_err();
        assert_eq!(second.slug(), "locked");
        drop(point);
        assert!(top.join("empty").is_dir());
        assert!(MountPoint::check(&top.join("empty"), &repository, true).is_ok());
    }

    #[test]
    fn r39_mkdir_makes_a_missing_leaf_only_and_takes_it_back() {
        let (_temp, top, repository) = place();
        let leaf = top.join("new");
        let point = MountPoint::check(&leaf, &repository, true).unwrap();
        assert!(leaf.is_dir());
        drop(point);
        assert!(!leaf.exists());
        MountPoint::check(&leaf, &repository, true).unwrap().keep();
        assert!(leaf.is_dir());
        let deep = MountPoint::check(&top.join("x/y"), &repository, true).unwrap_err();
        assert_eq!(deep.slug(), "mount-point-missing");
        assert!(!top.join("x").exists());
        let inside = MountPoint::check(&top.join("repo/new"), &repository, true).unwrap_err();
        assert_eq!(inside.slug(), "mount-point-in-repository");
        assert!(!top.join("repo/new").exists());
    }
}
