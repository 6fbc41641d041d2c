//! The state root, opened and judged before anything is kept in it (R55, R127).

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::sys::{DirFd, FileStat, process};

/// What a user namespace shows for owners that it does not map, such as the host's root.
const OVERFLOW_ID: u32 = 65534;

/// The directory below which forgefs keeps what it must remember: owned by the caller, closed to
/// everybody else, reached by no path that another user could redirect.
#[derive(Debug)]
pub struct StateRoot {
    dir: DirFd,
    path: PathBuf,
}

impl StateRoot {
    /// Opens the state root at `path`, making it and its missing parents with mode 0700. It may not
    /// be `home`, since everything of the user lies there, nor lie inside one of `outside_of`
    /// (absolute, without links), since nothing is written in a repository.
    ///
    /// # Errors
    /// `unsafe-state-root` where a rule of R55 is broken; nothing has been made then.
    pub fn open(path: &Path, home: Option<&Path>, outside_of: &[PathBuf]) -> Result<Self> {
        Self::walk(path, home, outside_of, true)?.ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "internal",
                "the state root was not made",
            )
            .at(path)
        })
    }

    /// Opens the state root where it exists; makes nothing.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_existing(path: &Path, home: Option<&Path>) -> Result<Option<Self>> {
        Self::walk(path, home, &[], false)
    }

    /// Returns where it is: absolute, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory `name` below the root, making it with mode 0700.
    ///
    /// # Errors
    /// `unsafe-state-root` where it is not this user's own directory of that mode.
    pub fn subdir(&self, name: &str) -> Result<DirFd> {
        let path = self.path.join(name);
        match self.dir.make_dir(name.as_bytes(), 0o700) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::io(format!("cannot make {}", path.display()), e).at(&path))
            }
            _ => self.open_subdir(&path, name),
        }
    }

    /// Opens the directory `name` below the root where it exists.
    ///
    /// # Errors
    /// As [`Self::subdir`].
    pub fn existing_subdir(&self, name: &str) -> Result<Option<DirFd>> {
        match self.dir.stat(name.as_bytes()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => self.open_subdir(&self.path.join(name), name).map(Some),
        }
    }

    fn open_subdir(&self, path: &Path, name: &str) -> Result<DirFd> {
        let dir = self
            .dir
            .open_dir(name.as_bytes())
            .map_err(|e| broken(path, "is not a directory of its own").caused_by(e))?;
        check_own(path, &stat_of(&dir, path)?)?;
        Ok(dir)
    }

    fn walk(
        path: &Path,
        home: Option<&Path>,
        outside_of: &[PathBuf],
        make: bool,
    ) -> Result<Option<Self>> {
        let Some((real, missing)) = resolve(path)? else {
            return Err(broken(path, "has no parent that exists"));
        };
        let root = missing.iter().fold(real.clone(), |at, name| at.join(name));
        let is_home =
            home.is_some_and(|h| h == path || std::fs::canonicalize(h).ok() == Some(root.clone()));
        if root == Path::new("/") || is_home {
            return Err(broken(&root, "must not be / or the home directory"));
        }
        if let Some(above) = outside_of.iter().find(|dir| root.starts_with(dir)) {
            let above = above.display().to_string();
            let what = format!("is inside the repository {}", above.escape_debug());
            return Err(broken(&root, &what));
        }
        let mut dir = open_checked(&real, missing.is_empty())?;
        if !missing.is_empty() && !make {
            return Ok(None);
        }
        let mut at = real;
        for name in missing {
            at.push(&name);
            let doing = || format!("cannot make the state root {}", at.display());
            match dir.make_dir(name.as_bytes(), 0o700) {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(broken(&at, "may not be made by this user").caused_by(e));
                }
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io(doing(), e).at(&at));
                }
                _ => {}
            }
            dir = dir.open_dir(name.as_bytes()).doing(doing)?;
        }
        check_own(&root, &stat_of(&dir, &root)?)?;
        let dir = dir
            .reopen()
            .doing(|| format!("cannot open the state root {}", root.display()))?;
        Ok(Some(Self { dir, path: root }))
    }
}

/// Resolves the part of `path` that exists, links and all, and returns it with the missing names.
/// The last component, where it exists, must not be a link.
fn resolve(path: &Path) -> Result<Option<(PathBuf, Vec<std::ffi::OsString>)>> {
    if path.components().any(|c| c == Component::ParentDir) {
        return Err(broken(path, "must not be written with '..'"));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink()) {
        return Err(broken(
            path,
            "is a symbolic link; name the directory itself",
        ));
    }
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        match std::fs::canonicalize(ancestor) {
            Ok(real) => {
                missing.reverse();
                return Ok(Some((real, missing)));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if std::fs::symlink_metadata(ancestor).is_ok() {
                    return Err(broken(ancestor, "is a dangling symbolic link"));
                }
                missing.extend(ancestor.file_name().map(std::ffi::OsStr::to_os_string));
            }
            Err(e) => return Err(broken(ancestor, "cannot be reached").caused_by(e)),
        }
    }
    Ok(None)
}

/// Opens `real` (absolute, without links) one component at a time and judges each directory on the
/// way; the last one is judged by [`check_own`] instead where it `is_root`.
fn open_checked(real: &Path, is_root: bool) -> Result<DirFd> {
    let mut at = PathBuf::from("/");
    let mut dir = DirFd::open(&at).doing(|| String::from("cannot open /"))?;
    let names: Vec<_> = real.iter().skip(1).collect();
    for (index, name) in names.iter().enumerate() {
        check_parent(&at, &stat_of(&dir, &at)?)?;
        at.push(name);
        dir = dir
            .open_dir_crossing(name.as_bytes())
            .map_err(|e| broken(&at, "cannot be opened").caused_by(e))?;
        if index + 1 == names.len() && !is_root {
            check_parent(&at, &stat_of(&dir, &at)?)?;
        }
    }
    Ok(dir)
}

fn stat_of(dir: &DirFd, path: &Path) -> Result<FileStat> {
    dir.stat_self()
        .doing(|| format!("cannot stat {}", path.display()))
}

fn check_own(path: &Path, stat: &FileStat) -> Result<()> {
    let (uid, _) = process::effective_ids();
    if stat.uid != uid {
        let owner = stat.uid;
        return Err(broken(
            path,
            &format!("belongs to user {owner}, not to the caller ({uid})"),
        ));
    }
    if stat.mode != 0o700 {
        return Err(broken(
            path,
            &format!("has mode {:04o}; run: chmod 0700 on it", stat.mode),
        ));
    }
    Ok(())
}

/// Refuses a directory in which another user could put something else in the root's place.
fn check_parent(path: &Path, stat: &FileStat) -> Result<()> {
    let (uid, gid) = process::effective_ids();
    if ![0, uid, OVERFLOW_ID].contains(&stat.uid) {
        let owner = stat.uid;
        return Err(broken(
            path,
            &format!("is above the state root and belongs to user {owner}"),
        ));
    }
    let sticky = stat.mode & 0o1000 != 0;
    if stat.mode & 0o002 != 0 && !sticky {
        return Err(broken(
            path,
            "is above the state root and everybody may write in it",
        ));
    }
    let group_may_write = stat.mode & 0o020 != 0 && !sticky;
    if group_may_write && !(stat.gid == gid && group_is_private(uid, gid)) {
        let group = stat.gid;
        return Err(broken(
            path,
            &format!("is above the state root and group {group} may write in it"),
        ));
    }
    Ok(())
}

/// Returns whether group `gid` has no member but user `uid`, as /etc says; unreadable means no.
fn group_is_private(uid: u32, gid: u32) -> bool {
    let read = |path: &str| {
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(16 << 20).read_to_end(&mut bytes))
            .map(|_| bytes)
    };
    match (read("/etc/passwd"), read("/etc/group")) {
        (Ok(passwd), Ok(group)) => is_private(&passwd, &group, uid, gid),
        _ => false,
    }
}

/// passwd(5): `name:x:uid:gid:..`, group(5): `name:x:gid:member,member`.
fn is_private(passwd: &[u8], group: &[u8], uid: u32, gid: u32) -> bool {
    let number =
        |field: Option<&&[u8]>| -> Option<u32> { std::str::from_utf8(field?).ok()?.parse().ok() };
    let mut own_names = Vec::new();
    for line in passwd.split(|b| *b == b'\n') {
        let fields: Vec<&[u8]> = line.split(|b| *b == b':').collect();
        let (user, primary) = (number(fields.get(2)), number(fields.get(3)));
        if user == Some(uid) {
            own_names.extend(fields.first().copied());
        } else if user.is_some() && primary == Some(gid) {
            return false;
        }
    }
    let is_own = |member: &[u8]| member.is_empty() || own_names.contains(&member);
    group
        .split(|b| *b == b'\n')
        .map(|line| line.split(|b| *b == b':').collect::<Vec<_>>())
        .filter(|fields| number(fields.get(2)) == Some(gid))
        .all(|fields| {
            let members = fields.get(3).copied().unwrap_or_default();
            members.split(|b| *b == b',').all(is_own)
        })
}

fn broken(path: &Path, what: &str) -> Error {
    let shown = path.display().to_string();
    let shown = shown.escape_debug();
    Error::new(
        ErrorKind::Unsafe,
        "unsafe-state-root",
        format!("{shown} {what}; the state root must be the caller's alone, see --state-dir"),
    )
    .at(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    fn chmod(path: &Path, mode: u32) {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn r127_a_missing_root_is_made_closed_to_others() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        assert!(StateRoot::open_existing(&path, None).unwrap().is_none());
        assert!(!temp.path().join("a").exists());
        let root = StateRoot::open(&path, None, &[]).unwrap();
        root.subdir("mounts").unwrap();
        root.subdir("mounts").unwrap();
        for dir in ["a", "a/b", "a/b/mounts"] {
            let mode = temp
                .path()
                .join(dir)
                .metadata()
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o7777, 0o700, "{dir}");
        }
        assert!(StateRoot::open_existing(&path, None).unwrap().is_some());
        assert!(root.existing_subdir("tmp").unwrap().is_none());
    }

    #[test]
    fn r55_each_broken_rule_is_refused_before_anything_is_made() {
        type Make = fn(&Path);
        let table: [(&str, Make); 9] = [
            ("group may read", |p| {
                create_dir(p).unwrap();
                chmod(p, 0o750);
            }),
            ("group may write", |p| {
                create_dir(p).unwrap();
                chmod(p, 0o770);
            }),
            ("too few rights", |p| {
                create_dir(p).unwrap();
                chmod(p, 0o500);
            }),
            ("a link", |p| std::os::unix::fs::symlink("/tmp", p).unwrap()),
            ("a dangling link", |p| {
                std::os::unix::fs::symlink("gone", p).unwrap();
            }),
            ("a file", |p| std::fs::write(p, "").unwrap()),
            ("open parent", |p| chmod(p.parent().unwrap(), 0o777)),
            ("parent is a file", |p| {
                std::fs::remove_dir(p.parent().unwrap()).unwrap();
                std::fs::write(p.parent().unwrap(), "").unwrap();
            }),
            ("parent is a dangling link", |p| {
                std::fs::remove_dir(p.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink("gone", p.parent().unwrap()).unwrap();
            }),
        ];
        for (what, make) in table {
            let temp = tempfile::tempdir().unwrap();
            let parent = temp.path().join("parent");
            create_dir(&parent).unwrap();
            let path = parent.join("state");
            make(&path);
            let error = StateRoot::open(&path, None, &[]).unwrap_err();
            assert_eq!(
                (error.kind(), error.slug()),
                (ErrorKind::Unsafe, "unsafe-state-root"),
                "{what}"
            );
            assert!(!path.join("mounts").exists(), "{what}");
        }
    }

    #[test]
    fn r55_neither_the_root_of_the_host_nor_home_is_a_state_root() {
        let temp = tempfile::tempdir().unwrap();
        for path in [Path::new("/"), temp.path()] {
            let error = StateRoot::open(path, Some(temp.path()), &[]).unwrap_err();
            assert_eq!(error.slug(), "unsafe-state-root");
        }
        let inside = temp.path().join("repo/state");
        let repository = temp.path().canonicalize().unwrap().join("repo");
        let error = StateRoot::open(&inside, None, &[repository]).unwrap_err();
        assert_eq!(error.slug(), "unsafe-state-root");
        assert!(!inside.exists());
        let dotted = temp.path().join("x/..");
        assert!(StateRoot::open(&dotted, None, &[]).is_err());
    }

    #[test]
    fn r55_a_group_is_private_when_nobody_else_is_in_it() {
        let passwd = b"root:x:0:0::/:/x\nann:x:5:5::/:/x\nbob:x:6:6::/:/x\ncy:x:7:6::/:/x\n";
        let group = b"root:x:0:\nann:x:5:\nteam:x:8:ann,bob\nmine:x:9:ann\n";
        for (uid, gid, want) in [
            (5, 5, true),
            (6, 6, false),
            (5, 8, false),
            (5, 9, true),
            (6, 9, false),
        ] {
            assert_eq!(is_private(passwd, group, uid, gid), want, "{uid} {gid}");
        }
    }
}
