//! The judge that is not ours: stock git, through `scripts/oracle.sh` (requirements 0.4).

use std::path::{Path, PathBuf};

use super::command::{Finished, Run};
use super::repo::Repo;

/// Returns the project's folder.
pub(crate) fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The two ways in which the script can ask git.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// `git add` with the attributes of an empty tree (git 2.41 and later).
    Add,
    /// `git hash-object --no-filters` and `git mktree`; knows empty trees.
    Mktree,
}

/// Runs the oracle on a directory.
pub(crate) fn oracle(repo: &Repo, commit_id: &str, dir: &Path, way: Way) -> Finished {
    let script: PathBuf = project().join("scripts/oracle.sh");
    let way = match way {
        Way::Add => "add",
        Way::Mktree => "mktree",
    };
    Run::new(script)
        .env("FORGEFS_ORACLE", way)
        .arg(repo.path())
        .arg(commit_id)
        .arg(dir)
        .run()
}

/// Expects that stock git computes the commit's tree id from what the kernel shows in `dir`.
#[track_caller]
pub(crate) fn assert_exact(repo: &Repo, commit_id: &str, dir: &Path) {
    let finished = oracle(repo, commit_id, dir, Way::Add);
    let report = finished.report();
    assert_eq!(finished.ok(), repo.tree_of(commit_id), "{report}");
}

/// The same for a commit with empty trees, which git's index cannot hold.
#[track_caller]
pub(crate) fn assert_exact_with_empty_trees(repo: &Repo, commit_id: &str, dir: &Path) {
    let finished = oracle(repo, commit_id, dir, Way::Mktree);
    let report = finished.report();
    assert_eq!(finished.ok(), repo.tree_of(commit_id), "{report}");
}
