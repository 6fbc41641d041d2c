//! What this host offers to a mount, a row each, with the line that mends what is missing.

use std::path::Path;

use super::Surroundings;
use super::records::state_rows;
use super::row::{HostRow, RowState, noted, ok, read_text};
use crate::error::Error;
use crate::mount::preflight::{FuseDevice, HostFacts, Wish, check_host};
use crate::sys::host::{kernel_release, open_files_max};
use crate::sys::{DirFd, mountinfo};

/// The oldest kernel that is tested.
const KERNEL_MIN: (u32, u32) = (5, 15);
/// Descriptors that a daemon with many packs and threads is comfortable with.
const OPEN_FILES_WANTED: u64 = 4096;

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
    rows.extend(state_rows(surroundings));
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn facts(uid: u32) -> HostFacts {
        HostFacts {
            uid,
            fuse_device: FuseDevice::Usable,
            fusermount3: Some(PathBuf::from("/usr/bin/fusermount3")),
            fusermount3_privileged: true,
            user_allow_other: false,
        }
    }

    fn state_and_fix(row: HostRow) -> (RowState, String) {
        (row.state, row.fix.unwrap_or_default())
    }

    #[test]
    fn old_and_odd_kernels_are_noted() {
        for (release, want) in [
            ("5.15.0", RowState::Ok),
            ("6.18.44-fc", RowState::Ok),
            ("10.0", RowState::Ok),
            ("5.14.99", RowState::Noted),
            ("4.19.0-26-amd64", RowState::Noted),
            ("", RowState::Noted),
            ("99999999999999999999.1", RowState::Noted),
        ] {
            assert_eq!(kernel(release).state, want, "{release}");
        }
    }

    #[test]
    fn r43_r127_each_lack_has_the_line_that_mends_it() {
        let with = |uid, change: fn(&mut HostFacts)| {
            let mut facts = facts(uid);
            change(&mut facts);
            facts
        };
        let none = String::new();
        for (row, state, fix) in [
            (fuse_device(&facts(7)), RowState::Ok, &*none),
            (
                fuse_device(&with(7, |f| f.fuse_device = FuseDevice::Forbidden)),
                RowState::Missing,
                "chmod 0666 /dev/fuse",
            ),
            (fusermount3(&facts(7)), RowState::Ok, ""),
            (
                fusermount3(&with(7, |f| f.fusermount3 = None)),
                RowState::Missing,
                "apt-get install fuse3",
            ),
            (
                fusermount3(&with(0, |f| f.fusermount3 = None)),
                RowState::Noted,
                "apt-get install fuse3",
            ),
            (
                user_allow_other(&facts(7)),
                RowState::Noted,
                "echo user_allow_other >> /etc/fuse.conf",
            ),
            (user_allow_other(&facts(0)), RowState::Ok, ""),
            (user(0), RowState::Noted, ""),
            (user(7), RowState::Ok, ""),
            (
                open_files((Some(1024), Some(1024))),
                RowState::Noted,
                "ulimit -n 4096",
            ),
            (open_files((Some(1024), None)), RowState::Ok, ""),
            (open_files((None, None)), RowState::Ok, ""),
        ] {
            assert_eq!(state_and_fix(row), (state, fix.to_owned()));
        }
        let forbidden = fuse_device(&with(7, |f| f.fuse_device = FuseDevice::Missing));
        assert!(forbidden.fix.unwrap().starts_with("modprobe fuse"));
    }

    #[test]
    fn files_below_the_root_decide_what_confines_and_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(apparmor(7, root).state, RowState::Ok);
        assert_eq!(selinux(root).state, RowState::Ok);
        assert_eq!(overlayfs(root).state, RowState::Noted);
        assert_eq!(user_namespaces(7, root).state, RowState::Ok);
        write("sys/module/apparmor/parameters/enabled", "Y\n");
        write("etc/apparmor.d/fusermount3", "");
        write("sys/fs/selinux/enforce", "1");
        write("proc/filesystems", "nodev\tsysfs\nnodev\toverlay\n");
        write(
            "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1\n",
        );
        assert_eq!(apparmor(7, root).state, RowState::Noted);
        assert_eq!(apparmor(0, root).state, RowState::Ok);
        assert_eq!(selinux(root).state, RowState::Noted);
        assert_eq!(overlayfs(root).state, RowState::Ok);
        let (state, fix) = state_and_fix(user_namespaces(7, root));
        assert_eq!(state, RowState::Noted);
        assert!(
            fix.contains("apparmor_restrict_unprivileged_userns=0"),
            "{fix}"
        );
    }
}
