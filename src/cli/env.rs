//! The environment, read once; no other file of the library looks at it.

use std::ffi::OsString;
use std::path::PathBuf;

/// The variables that mean something to forgefs. Git's own (`GIT_DIR` and the like) are not among
/// them: they steer nothing (R8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Env {
    /// `FORGEFS_STATE_DIR` (R99); empty is set, and refused.
    pub forgefs_state_dir: Option<PathBuf>,
    /// `ACQ_STATE_DIR`; empty is set, and refused.
    pub acq_state_dir: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub xdg_state_home: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `FORGEFS_LOG`: a level for the log on standard error.
    pub log: Option<String>,
    /// `NO_COLOR` is set to something.
    pub no_color: bool,
    /// `PATH`, where `fusermount3` is looked for.
    pub path: Option<OsString>,
    /// `FORGEFS_FAULT`, for tests: a point to fail or die at.
    #[cfg(feature = "faults")]
    pub fault: Option<String>,
    /// `DOCKER_HOST`, for `doctor`.
    pub docker_host: Option<OsString>,
}

impl Env {
    /// Reads this process's environment.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    pub fn read() -> Self {
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = |name: &str| var(name).map(PathBuf::from);
        Self {
            forgefs_state_dir: std::env::var_os("FORGEFS_STATE_DIR").map(PathBuf::from),
            acq_state_dir: std::env::var_os("ACQ_STATE_DIR").map(PathBuf::from),
            xdg_state_home: path("XDG_STATE_HOME"),
            home: path("HOME"),
            log: var("FORGEFS_LOG").and_then(|value| value.into_string().ok()),
            no_color: var("NO_COLOR").is_some(),
            path: var("PATH"),
            #[cfg(feature = "faults")]
            fault: var("FORGEFS_FAULT").and_then(|value| value.into_string().ok()),
            docker_host: var("DOCKER_HOST"),
        }
    }
}
