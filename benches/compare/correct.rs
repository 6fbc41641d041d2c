//! Agreement before speed: every tool sees in the mount what `git archive | tar x` gives, and both
//! the proof and stock git name the commit's tree id.

use std::path::Path;

use crate::bench::{Bench, point};
use crate::prove::proven_tree;
use crate::run::{Res, output, remove_tree, script, text};

/// Name of the agreement and the command whose output must be equal in both roots.
const SAME_OUTPUT: [(&str, &str); 4] = [
    (
        "find: every path, type, x bit, link target",
        "find . -mindepth 1 \\( -type d -printf '%P d\\n' -o -type l -printf '%P l %l\\n' \
         -o -perm /100 -printf '%P x\\n' -o -printf '%P %y\\n' \\) | LC_ALL=C sort | sha256sum",
    ),
    (
        "find: every size of files and links",
        "find . \\( -type f -o -type l \\) -printf '%P %s\\n' | LC_ALL=C sort | sha256sum",
    ),
    (
        "tar: the same archive",
        "tar cf - --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner . | sha256sum",
    ),
    (
        "grep -r: the same lines in every file",
        "{ grep -rc e . || true; } | LC_ALL=C sort | sha256sum",
    ),
];

/// Compares the mount with the reference tree.
pub(crate) fn correct(bench: &mut Bench) -> Res<()> {
    bench.rivals.build_archive(&bench.inputs.main)?;
    let reference = bench.rivals.archive_root();
    let root = point(&bench.args.work, "forgefs-correct");
    let mounted = bench.forgefs.mount(&bench.inputs.main, &root)?;
    for (name, command) in SAME_OUTPUT {
        let of = |dir: &Path| text(&mut script(dir, command));
        let agrees = of(&root)? == of(&reference)?;
        note(bench, name, agrees);
    }
    let diff = "diff -r --no-dereference \"$1\" .";
    let agrees = agrees(script(&reference, diff).arg(&root))?;
    note(bench, "diff -r: no difference", agrees);
    let copy = bench.rivals.scratch("copy");
    remove_tree(&copy)?;
    let copied = "cp -a . \"$1\" && diff -r --no-dereference \"$2\" \"$1\"";
    let agrees = self::agrees(script(&root, copied).arg(&copy).arg(&reference))?;
    note(bench, "cp -a, then diff -r: no difference", agrees);
    // Directories copied with `cp -a` are writable, so rm can end them.
    remove_tree(&copy)?;
    let tree = bench.inputs.main.tree.clone();
    let proven = proven_tree(bench, &root);
    note_result(bench, "forgefs prove: the commit's tree id", proven, &tree);
    let oracle = stock_git_tree(bench, &root);
    note_result(
        bench,
        "scripts/oracle.sh: the commit's tree id",
        oracle,
        &tree,
    );
    bench.forgefs.unmount(&mounted)?;
    match bench
        .results
        .agreements
        .iter()
        .find(|(_, agrees)| !**agrees)
    {
        Some((name, _)) => Err(format!("the mount disagrees: {name}").into()),
        None => Ok(()),
    }
}

/// Runs a comparison: exit 0 agrees, 1 does not, anything else is an error.
fn agrees(command: &mut std::process::Command) -> Res<bool> {
    let done = command.output()?;
    match done.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!(
            "{command:?}: {}\n{}",
            done.status,
            String::from_utf8_lossy(&done.stderr)
        )
        .into()),
    }
}

fn note(bench: &mut Bench, name: &str, agrees: bool) {
    bench.results.agreements.insert(name.to_owned(), agrees);
}

fn note_result(bench: &mut Bench, name: &str, found: Res<String>, wanted: &str) {
    match found {
        Ok(found) => note(bench, name, found == wanted),
        Err(error) => {
            note(bench, name, false);
            bench.results.failures.push(format!("{name}: {error}"));
        }
    }
}

/// Asks `scripts/oracle.sh`, which knows git alone, for the tree id of `root`.
fn stock_git_tree(bench: &Bench, root: &Path) -> Res<String> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/oracle.sh");
    let mut run = script(&bench.args.work, "\"$@\"");
    run.arg(oracle).arg(&bench.inputs.main.repo);
    let printed = output(run.arg(&bench.inputs.main.commit).arg(root))?;
    let printed = String::from_utf8_lossy(&printed);
    Ok(printed
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned())
}
