//! What this host offers to a mount, a row each, with the line that mends what is missing.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::Surroundings;
use crate::error::{Error, Result};
use crate::mount::preflight::{FuseDevice, HostFacts, Wish, check_host};
use crate::state::{StateRoot, locate};
use crate::sys::host::{free_bytes, is_writable, kernel_release, open_files_max};
use crate::sys::{DirFd, mountinfo};

/// The oldest kernel that is tested.
const KERNEL_MIN: (u32, u32) = (5, 15);
/// Descriptors that a daemon with many packs and threads is comfortable with.
const OPEN_FILES_WANTED: u64 = 4096;
/// Space for records and logs below which a remark is made, in bytes.
const FREE_BYTES_WANTED: u64 = 64 << 20;

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowState {
    /// As wanted.
    Ok,
    /// It works without, or with a limit that the sentence names.
    Noted,
    /// Nothing can be mounted without it.
    Missing,
}

/// One row on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostRow {
    /// Its name, the key in the record.
    #[serde(skip)]
    pub name: &'static str,
    /// How it stands.
    pub state: RowState,
    /// One sentence for people.
    pub detail: String,
    /// The exact line that mends it, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

fn ok(name: &'static str, detail: impl Into<String>) -> HostRow {
    HostRow {
        name,
        state: RowState::Ok,
        detail: detail.into(),
        fix: None,
    }
}

fn noted(name: &'static str, detail: impl Into<String>) -> HostRow {
    HostRow {
        state: RowState::Noted,
        ..ok(name, detail)
    }
}

impl HostRow {
    fn mended_by(mut self, line: impl Into<String>) -> Self {
        self.fix = Some(line.into());
        self
    }
}

/// Writes the rows as one object, keyed by name.
pub(super) fn as_map<S: Serializer>(rows: &[HostRow], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(rows.len()))?;
    for row in rows {
        map.serialize_entry(row.name, row)?;
    }
    map.end()
}

/// Returns all rows; starts nothing, makes nothing.
#[must_use]
pub fn host_rows(facts: &HostFacts, surroundings: &Surroundings<'_>) -> Vec<HostRow> {
    let root = Path::new("/");
    let mut rows = vec![kernel(&kernel_release()), fuse_device(facts)];
    rows.push(fusermount3(facts));
    rows.push(user_allow_other(facts));
    rows.push(user(facts.uid));
    rows.push(mount_ids(root));
    rows.push(fuse_control());
    rows.push(apparmor(facts.uid, root));
    rows.push(selinux(root));
    rows.push(open_files(open_files_max()));
    rows.push(overlayfs(root));
    rows.push(user_namespaces(facts.uid, root));
    rows.extend(state_dir(surroundings));
    rows
}

fn kernel(release: &str) -> HostRow {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|text| text.parse().ok());
    let (wanted_major, wanted_minor) = KERNEL_MIN;
    match (next(), next()) {
        (Some(major), Some(minor)) if (major, minor) >= KERNEL_MIN => {
            ok("kernel", format!("Linux {release}"))
        }
        _ => noted(
            "kernel",
            format!("Linux {release}; older than {wanted_major}.{wanted_minor} is not tested"),
        )
        .mended_by(format!(
            "boot a kernel of {wanted_major}.{wanted_minor} or later"
        )),
    }
}

/// Splits a refusal of the preflight in its sentence and the line that mends it.
fn refused(name: &'static str, error: &Error) -> HostRow {
    let message = error.message();
    let (detail, fix) = match message.split_once("; run as root: ") {
        Some((detail, fix)) => (detail, Some(fix.to_owned())),
        None => (message, None),
    };
    HostRow {
        state: RowState::Missing,
        fix,
        ..ok(name, detail)
    }
}

fn fuse_device(facts: &HostFacts) -> HostRow {
    let as_root = HostFacts {
        uid: 0,
        ..facts.clone()
    };
    match (
        facts.fuse_device,
        check_host(&as_root, Wish { allow_other: false }),
    ) {
        (FuseDevice::Usable, _) | (_, Ok(_)) => ok("fuse-device", "/dev/fuse can be opened"),
        (_, Err(error)) => refused("fuse-device", &error),
    }
}

fn fusermount3(facts: &HostFacts) -> HostRow {
    const NAME: &str = "fusermount3";
    let with_device = HostFacts {
        fuse_device: FuseDevice::Usable,
        ..facts.clone()
    };
    match (
        check_host(&with_device, Wish { allow_other: false }),
        &facts.fusermount3,
    ) {
        (Ok(_), Some(program)) => ok(NAME, program.display().to_string()),
        (Ok(_), None) => noted(
            NAME,
            "not on PATH; root mounts without it, other users cannot",
        )
        .mended_by("apt-get install fuse3"),
        (Err(error), _) => refused(NAME, &error),
    }
}

fn user_allow_other(facts: &HostFacts) -> HostRow {
    const NAME: &str = "user-allow-other";
    match (facts.user_allow_other, facts.uid) {
        (true, _) => ok(NAME, "/etc/fuse.conf lets every user give --allow-other"),
        (false, 0) => ok(NAME, "root may give --allow-other; other users may not"),
        (false, _) => noted(
            NAME,
            "you may not give --allow-other, so nobody else reads your mounts",
        )
        .mended_by("echo user_allow_other >> /etc/fuse.conf"),
    }
}

fn user(uid: u32) -> HostRow {
    match uid {
        0 => noted(
            "user",
            "you are root: it works, and no operation needs it; a user of its own is safer",
        ),
        _ => ok(
            "user",
            format!("uid {uid}; nothing needs root but fusermount3"),
        ),
    }
}

fn mount_ids(root: &Path) -> HostRow {
    const NAME: &str = "mount-ids";
    match DirFd::open(root).and_then(|dir| dir.stat_self()) {
        Ok(stat) if stat.identity.mount_id_unique => ok(NAME, "mount ids are never used again"),
        _ => noted(
            NAME,
            "mount ids may be used again (kernel before 6.8): a mount is told by device and id",
        ),
    }
}

fn fuse_control() -> HostRow {
    const NAME: &str = "fuse-control";
    let mounts = mountinfo::read_mounts().unwrap_or_default();
    if mounts.iter().any(|mount| mount.is_type("fusectl")) {
        return ok(NAME, "a stuck mount can be aborted");
    }
    noted(NAME, "a stuck mount cannot be aborted, only detached")
        .mended_by("mount -t fusectl fusectl /sys/fs/fuse/connections")
}

fn apparmor(uid: u32, root: &Path) -> HostRow {
    const NAME: &str = "apparmor";
    let enabled = read_text(root, "sys/module/apparmor/parameters/enabled");
    let profile = root.join("etc/apparmor.d/fusermount3");
    if enabled.trim() != "Y" || !profile.exists() {
        return ok(NAME, "no profile confines fusermount3");
    }
    if uid == 0 {
        return ok(
            NAME,
            "a profile confines fusermount3, which root does not use",
        );
    }
    noted(
        NAME,
        "a profile confines fusermount3 to mount points below your home, /tmp, /mnt, /media and \
         /run/user",
    )
    .mended_by("mount below one of these, or allow more in /etc/apparmor.d/local/fusermount3")
}

fn selinux(root: &Path) -> HostRow {
    const NAME: &str = "selinux";
    if read_text(root, "sys/fs/selinux/enforce").trim() != "1" {
        return ok(NAME, "not enforcing");
    }
    noted(
        NAME,
        "enforcing: a mount cannot be relabelled, so containers need labels off",
    )
    .mended_by("docker run --security-opt label=disable ... (not :z)")
}

fn open_files((soft, hard): (Option<u64>, Option<u64>)) -> HostRow {
    const NAME: &str = "open-files";
    let shown = |limit: Option<u64>| limit.map_or_else(|| "no limit".into(), |n| n.to_string());
    let detail = format!("{} open files, at most {}", shown(soft), shown(hard));
    let enough = |limit: Option<u64>| limit.is_none_or(|n| n >= OPEN_FILES_WANTED);
    match (enough(soft), enough(hard)) {
        (true, _) => ok(NAME, detail),
        (false, true) => ok(NAME, format!("{detail}; enough but for hundreds of packs")),
        (false, false) => noted(NAME, format!("{detail}; few for a store of many packs"))
            .mended_by(format!("ulimit -n {OPEN_FILES_WANTED}")),
    }
}

fn overlayfs(root: &Path) -> HostRow {
    const NAME: &str = "overlayfs";
    let types = read_text(root, "proc/filesystems");
    if types.lines().any(|line| line.trim().ends_with("overlay")) {
        return ok(NAME, "a mount can be the lower layer of an overlay");
    }
    noted(
        NAME,
        "the kernel does not list overlay: no overlay on a mount",
    )
    .mended_by("modprobe overlay")
}

fn user_namespaces(uid: u32, root: &Path) -> HostRow {
    const NAME: &str = "user-namespaces";
    let number = |path: &str| read_text(root, path).trim().parse::<u64>().ok();
    let closed_by = [
        (
            "proc/sys/user/max_user_namespaces",
            0,
            "sysctl user.max_user_namespaces=10000",
        ),
        (
            "proc/sys/kernel/unprivileged_userns_clone",
            0,
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            1,
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ]
    .into_iter()
    .find(|(path, closed, _)| number(path) == Some(*closed));
    match closed_by {
        Some((_, _, line)) if uid != 0 => noted(
            NAME,
            "closed to users: rootless podman and bwrap may not work",
        )
        .mended_by(line),
        Some(_) => ok(NAME, "closed to users, open to root"),
        None => ok(NAME, "open to users"),
    }
}

fn state_dir(surroundings: &Surroundings<'_>) -> Vec<HostRow> {
    const NAME: &str = "state-dir";
    let trouble = |error: &Error| HostRow {
        state: RowState::Missing,
        ..ok(NAME, error.to_string())
    };
    let path = match locate(&surroundings.state) {
        Ok(path) => path,
        Err(error) => return vec![trouble(&error).mended_by("forgefs --state-dir DIR ...")],
    };
    let shown = path.display().to_string().escape_debug().to_string();
    let existing = match StateRoot::open_existing(&path, surroundings.home) {
        Ok(root) => root.map(|root| root.path().to_path_buf()),
        Err(error) => return vec![trouble(&error).mended_by("forgefs --state-dir DIR ...")],
    };
    let home = existing.clone().or_else(|| first_existing(&path));
    let Some(home) = home.filter(|dir| is_writable(dir)) else {
        let row = HostRow {
            state: RowState::Missing,
            ..ok(NAME, format!("{shown} cannot be written"))
        };
        return vec![row.mended_by("forgefs --state-dir DIR ...")];
    };
    let row = match existing {
        Some(_) => ok(NAME, shown),
        None => ok(NAME, format!("{shown}; it is made when first needed")),
    };
    vec![row, free_space(&home)]
}

fn first_existing(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .find(|dir| dir.exists())
        .map(Path::to_path_buf)
}

fn free_space(dir: &Path) -> HostRow {
    const NAME: &str = "free-space";
    match free_bytes(dir) {
        Ok(bytes) if bytes >= FREE_BYTES_WANTED => {
            ok(NAME, format!("{} MiB for records", bytes >> 20))
        }
        Ok(bytes) => noted(NAME, format!("only {bytes} bytes are left for records")),
        Err(error) => noted(NAME, format!("cannot be asked: {error}")),
    }
}

/// Returns the start of a small file, nothing where it cannot be read.
pub(super) fn read_text(root: &Path, path: &str) -> String {
    let mut text = Vec::new();
    let read = std::fs::File::open(root.join(path))
        .and_then(|file| file.take(1 << 20).read_to_end(&mut text));
    match read {
        Ok(_) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => String::new(),
    }
}
