//! Leaves nothing behind: unmounts all that is mounted below the work directory.

use std::path::{Path, PathBuf};

use crate::run::{Res, command, output, remove_tree};

/// One mount below the work directory.
#[derive(Debug)]
struct Mount {
    point: PathBuf,
    kind: String,
}

/// Returns the mounts below `work`, the newest first.
fn mounts_below(work: &Path) -> Res<Vec<Mount>> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    let mut found: Vec<Mount> = table.lines().filter_map(parse).collect();
    found.retain(|mount| mount.point.starts_with(work));
    found.reverse();
    Ok(found)
}

/// Reads mount point and type of one line of mountinfo (proc(5)); the program names its own mount
/// points without characters that the kernel escapes.
fn parse(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    Some(Mount {
        point: PathBuf::from(left.split(' ').nth(4)?),
        kind: right.split(' ').next()?.to_owned(),
    })
}

/// Returns the minor device number of the mount on `point`, which is how the kernel names a FUSE
/// connection.
pub(crate) fn minor_of(point: &Path) -> Res<u32> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    let line = table
        .lines()
        .rfind(|line| parse(line).is_some_and(|mount| mount.point == point))
        .ok_or_else(|| format!("nothing is mounted on {}", point.display()))?;
    let device = line.split(' ').nth(2).ok_or("no device in mountinfo")?;
    let (_, minor) = device.split_once(':').ok_or("no minor number")?;
    Ok(minor.parse()?)
}

/// Unmounts everything below `work` and removes trace instances of earlier runs.
pub(crate) fn sweep(work: &Path) -> Res<()> {
    let Ok(work) = work.canonicalize() else {
        return Ok(());
    };
    for mount in mounts_below(&work)? {
        if mount.kind == "tracefs" {
            crate::requests::remove_instances(&mount.point);
        }
        let gentle = command("umount").arg(&mount.point).output()?;
        if !gentle.status.success() {
            // Frees the readers that wait for a FUSE daemon; other file systems refuse it.
            let _ = command("umount").arg("-f").arg(&mount.point).output()?;
        }
        if minor_of(&mount.point).is_ok() {
            output(command("umount").arg("-l").arg(&mount.point))?;
        }
    }
    Ok(())
}

/// Removes what the rivals made, where nothing is mounted any more.
pub(crate) fn remove_rivals(work: &Path) -> Res<()> {
    sweep(work)?;
    for name in ["rivals", "mnt", "state"] {
        remove_tree(&work.join(name))?;
    }
    Ok(())
}
