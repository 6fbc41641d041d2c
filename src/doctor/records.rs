//! Whether records can be kept: the state directory and the space in it (R55, R127).

use std::path::{Path, PathBuf};

use super::Surroundings;
use super::row::{HostRow, RowState, noted, ok};
use crate::error::Error;
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
        assert_eq!(states, [RowState::Ok, RowState::Ok]);
        assert!(!real.join("a").exists());
        for bad in [Path::new("relative"), Path::new("/")] {
            let row = rows(bad).swap_remove(0);
            assert_eq!(row.state, RowState::Missing, "{row:?}");
        }
    }
}
