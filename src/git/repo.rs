//! Opening a repository root (R2, R8).
use super::HashKind;
use crate::error::Result;
use std::path::{Path, PathBuf};

/// How a repository keeps its refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefStorage {
    /// Loose files and `packed-refs`.
    Files,
    /// The reftable format.
    Reftable,
}

/// An opened repository root; nothing of its configuration steers reading.
#[derive(Debug)]
pub struct Repository {
    /// The git directory of this work tree.
    pub git_dir: PathBuf,
    /// The directory that holds `objects`, equal to `git_dir` but for linked worktrees.
    pub common_dir: PathBuf,
    /// The work tree, where there is one.
    pub work_tree: Option<PathBuf>,
    /// The hash of its ids.
    pub hash_kind: HashKind,
    /// How refs are kept.
    pub ref_storage: RefStorage,
}

impl Repository {
    /// Opens the repository whose root is `path`.
    ///
    /// # Errors
    /// `not-a-repository-root`, `unsupported-extension`.
    pub fn open(path: &Path) -> Result<Self> {
        let _ = path;
        Err(crate::error::Error::new(
            crate::error::ErrorKind::Internal,
            "internal",
            "not built yet",
        ))
    }
}
