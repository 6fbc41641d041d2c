//! Whether records can be kept, and how the mounts that they tell of stand (R42, R55, R127).

use std::path::{Path, PathBuf};

use super::Surroundings;
use super::row::{HostRow, RowState, noted, ok};
use crate::error::Error;
use crate::mount::find::{MountState, find_mounts};
use crate::state::{StateRoot, locate};
use crate::sys::host::{free_bytes, is_writable};

/// Space for records and logs below which a remark is made, in bytes.
const FREE_BYTES_WANTED: u64 = 64 << 20;

/// Returns the rows on the state directory; makes nothing.
pub(super) fn state_rows(surroundings: &Surroundings<'_>) -> Vec<HostRow> {
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
        Ok(root) => root,
        Err(error) => return vec![trouble(&error).mended_by("forgefs --state-dir DIR ...")],
    };
    let mounts = mounts(existing.as_ref());
    let existing = existing.map(|root| root.path().to_path_buf());
    let home = existing.clone().or_else(|| first_existing(&path));
    let Some(home) = home.filter(|dir| is_writable(dir)) else {
        let row = HostRow {
            state: RowState::Missing,
            ..ok(NAME, format!("{shown} cannot be written"))
        };
        return vec![row.mended_by("forgefs --state-dir DIR ..."), mounts];
    };
    let row = match existing {
        Some(_) => ok(NAME, shown),
        None => ok(NAME, format!("{shown}; it is made when first needed")),
    };
    vec![row, free_space(&home), mounts]
}

/// Returns how many forgefs mounts live; a dead one is named with the line that ends it.
fn mounts(root: Option<&StateRoot>) -> HostRow {
    const NAME: &str = "mounts";
    let records = root.map(|root| root.existing_subdir("mounts")).transpose();
    let found = match records.and_then(|records| find_mounts(records.flatten().as_ref())) {
        Ok(found) => found,
        Err(error) => return noted(NAME, error.to_string()),
    };
    let is = |state| found.iter().filter(move |mount| mount.state == state);
    let live = is(MountState::Live).count();
    let Some(dead) = is(MountState::Dead).next() else {
        return ok(NAME, format!("{live} live"));
    };
    let point = dead.mount_point().unwrap_or_default();
    let point = point.display().to_string().escape_debug().to_string();
    let count = is(MountState::Dead).count();
    noted(
        NAME,
        format!("{live} live, {count} dead; a container that has one must be made anew"),
    )
    .mended_by(format!("forgefs umount '{point}'"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r55_an_unsafe_state_directory_is_said_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap();
        let rows = |path: &Path| {
            state_rows(&Surroundings {
                state: crate::state::StateSources {
                    option: Some(path),
                    ..Default::default()
                },
                ..Surroundings::default()
            })
        };
        let fresh = real.join("a/b");
        let states: Vec<_> = rows(&fresh).iter().map(|row| row.state).collect();
        assert_eq!(states[..2], [RowState::Ok; 2]);
        assert!(!real.join("a").exists());
        for bad in [Path::new("relative"), Path::new("/")] {
            let row = rows(bad).swap_remove(0);
            assert_eq!(row.state, RowState::Missing, "{row:?}");
        }
    }
}
