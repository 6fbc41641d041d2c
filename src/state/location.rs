//! Which directory is the state root (R99).

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// Everything that can name the state root, strongest first.
#[derive(Debug, Clone, Copy, Default)]
pub struct StateSources<'a> {
    /// `--state-dir`.
    pub option: Option<&'a Path>,
    /// `FORGEFS_STATE_DIR`.
    pub forgefs_state_dir: Option<&'a Path>,
    /// `ACQ_STATE_DIR`.
    pub acq_state_dir: Option<&'a Path>,
    /// `XDG_STATE_HOME`; the root is `forgefs` below it.
    pub xdg_state_home: Option<&'a Path>,
    /// `HOME`; the root is `.local/state/forgefs` below it.
    pub home: Option<&'a Path>,
}

/// Returns the state root that the strongest source names. A set but unusable source is refused,
/// never passed over; an empty `XDG_STATE_HOME` or `HOME` counts as not set (XDG base directories).
///
/// # Errors
/// `state-dir-not-absolute` for a relative or empty value, `no-state-dir` where nothing names one.
pub fn locate(sources: &StateSources<'_>) -> Result<PathBuf> {
    let direct = [
        ("--state-dir", sources.option),
        ("FORGEFS_STATE_DIR", sources.forgefs_state_dir),
        ("ACQ_STATE_DIR", sources.acq_state_dir),
    ];
    for (name, value) in direct {
        if let Some(path) = value {
            return absolute(name, path);
        }
    }
    let is_set = |path: &&Path| !path.as_os_str().is_empty();
    if let Some(path) = sources.xdg_state_home.filter(is_set) {
        return Ok(absolute("XDG_STATE_HOME", path)?.join("forgefs"));
    }
    if let Some(path) = sources.home.filter(is_set) {
        return Ok(absolute("HOME", path)?.join(".local/state/forgefs"));
    }
    Err(Error::new(
        ErrorKind::Usage,
        "no-state-dir",
        "nothing says where to keep records; set HOME or give --state-dir",
    ))
}

fn absolute(name: &str, path: &Path) -> Result<PathBuf> {
    if path.is_absolute() {
        return Ok(path.to_path_buf());
    }
    let found = if path.as_os_str().is_empty() {
        String::from("empty")
    } else {
        format!("'{}'", path.display().to_string().escape_debug())
    };
    Err(Error::new(
        ErrorKind::Usage,
        "state-dir-not-absolute",
        format!("{name} is {found}; give an absolute path"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r99_the_strongest_source_names_the_root() {
        let path = |text: &'static str| Some(Path::new(text));
        let mut sources = StateSources {
            option: path("/o"),
            forgefs_state_dir: path("/f"),
            acq_state_dir: path("/a"),
            xdg_state_home: path("/x"),
            home: path("/h"),
        };
        assert_eq!(locate(&sources).unwrap(), Path::new("/o"));
        sources.option = None;
        assert_eq!(locate(&sources).unwrap(), Path::new("/f"));
        sources.forgefs_state_dir = None;
        assert_eq!(locate(&sources).unwrap(), Path::new("/a"));
        sources.acq_state_dir = None;
        assert_eq!(locate(&sources).unwrap(), Path::new("/x/forgefs"));
        sources.xdg_state_home = path("");
        assert_eq!(
            locate(&sources).unwrap(),
            Path::new("/h/.local/state/forgefs")
        );
        sources.home = path("");
        assert_eq!(locate(&sources).unwrap_err().slug(), "no-state-dir");
    }

    #[test]
    fn r99_relative_and_empty_values_are_refused_and_not_passed_over() {
        for value in ["", "state", "./state", "~/state", "../x"] {
            let value = Some(Path::new(value));
            let home = Some(Path::new("/h"));
            for sources in [
                StateSources {
                    option: value,
                    home,
                    ..Default::default()
                },
                StateSources {
                    forgefs_state_dir: value,
                    home,
                    ..Default::default()
                },
                StateSources {
                    acq_state_dir: value,
                    home,
                    ..Default::default()
                },
            ] {
                let error = locate(&sources).unwrap_err();
                assert_eq!(error.slug(), "state-dir-not-absolute", "{sources:?}");
                assert_eq!(error.kind(), ErrorKind::Usage);
            }
        }
        let relative = StateSources {
            xdg_state_home: Some(Path::new("x")),
            home: Some(Path::new("/h")),
            ..Default::default()
        };
        assert_eq!(
            locate(&relative).unwrap_err().slug(),
            "state-dir-not-absolute"
        );
    }
}
