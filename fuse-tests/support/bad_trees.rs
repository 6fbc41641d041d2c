//! Trees that `git fsck --strict` calls an error (requirements 0.4, fixture 3).

use super::repo::{Entry, Repo};

/// One bad tree, in two places.
#[derive(Debug)]
pub(crate) struct BadTree {
    /// What is wrong, for messages.
    pub(crate) what: &'static str,
    /// git fsck's own name for it.
    pub(crate) fsck: &'static str,
    /// A commit whose root is the bad tree.
    pub(crate) root_id: String,
    /// A commit that holds it as `deep/bad`, with `deep/good/f` and `f` beside it.
    pub(crate) deep_id: String,
    /// The bad tree.
    pub(crate) tree_id: String,
}

/// Builds every bad tree.
pub(crate) fn bad_trees(repo: &Repo) -> Vec<BadTree> {
    let f = repo.blob("fine\n");
    let inner = repo.tree(&[Entry::file("f", &f)]);
    let file = |name: &str| Entry::file(name, &f);
    let dir = |name: &str| Entry::dir(name, &inner);
    let table: Vec<(&'static str, &'static str, Vec<Entry>)> = vec![
        (".git as a directory", "hasDotgit", vec![dir(".git")]),
        (".git as a file", "hasDotgit", vec![file(".git")]),
        (".GIT", "hasDotgit", vec![dir(".GIT")]),
        ("git~1 (NTFS)", "hasDotgit", vec![dir("git~1")]),
        (
            "zero-width joiner (HFS+)",
            "hasDotgit",
            vec![dir(".g\u{200c}it")],
        ),
        ("..", "hasDotdot", vec![dir("..")]),
        (".", "hasDot", vec![dir(".")]),
        ("a/b", "fullPathname", vec![file("a/b")]),
        ("empty name", "badTree", vec![file("")]),
        (
            "one name twice",
            "duplicateEntries",
            vec![file("a"), file("a")],
        ),
        (
            "file and directory of one name",
            "duplicateEntries",
            vec![file("a"), dir("a")],
        ),
        ("unsorted", "treeNotSorted", vec![file("b"), file("a")]),
    ];
    table
        .into_iter()
        .map(|(what, fsck, entries)| {
            let tree_id = repo.raw_tree(&entries);
            let deep = repo.raw_tree(&[Entry::dir("bad", &tree_id), Entry::dir("good", &inner)]);
            let root = repo.raw_tree(&[Entry::dir("deep", &deep), Entry::file("f", &f)]);
            BadTree {
                what,
                fsck,
                root_id: repo.commit_tree(&tree_id, &[]),
                deep_id: repo.commit_tree(&root, &[]),
                tree_id,
            }
        })
        .collect()
}
