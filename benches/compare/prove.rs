//! The proof of a warm mount beside hashing a warm checkout with git.

use crate::bench::Bench;
use crate::rivals::Subject;
use crate::run::{Res, Timing, output, script, time};

/// The group of all ways to hash every file.
pub(crate) const PROVE: &str = "proof, warm, 2 threads";
/// The subject that the acceptance table names.
pub(crate) const HASH_OBJECT: &str = "xargs -P2 git hash-object on the checkout";
const NO_FILTERS: &str = "xargs -P2 git hash-object --no-filters on the checkout";
const OF_MOUNT: &str = "xargs -P2 git hash-object on the mount";

const FILES: &str = "find . -path ./.git -prune -o -type f -print0 | xargs -0 -n 500 -P 2";

#[derive(Debug, Clone, Copy)]
enum How {
    Prove,
    Git(&'static str, Subject, &'static str),
}

/// Proves the mount and hashes the checkout, in turns, both warm.
pub(crate) fn prove(bench: &mut Bench) -> Res<()> {
    let subjects = [Subject::Forgefs, Subject::Checkout];
    bench.rivals.build(&bench.inputs.main, &subjects)?;
    let root = bench.rivals.root(Subject::Forgefs);
    let mounted = bench.forgefs.mount(&bench.inputs.main, &root)?;
    for subject in subjects {
        let warm = format!("{FILES} cat > /dev/null");
        time(&mut script(&bench.rivals.root(subject), &warm))?;
    }
    let ways = [
        How::Prove,
        How::Git(HASH_OBJECT, Subject::Checkout, "git hash-object"),
        How::Git(
            NO_FILTERS,
            Subject::Checkout,
            "git hash-object --no-filters",
        ),
        How::Git(OF_MOUNT, Subject::Forgefs, "git hash-object --no-filters"),
    ];
    bench.alternate(PROVE, &ways, |bench, how| {
        let (name, took) = match how {
            How::Prove => ("forgefs", run_prove(bench, &root)?),
            How::Git(name, subject, command) => {
                let text = format!("{FILES} {command}");
                (name, time(&mut script(&bench.rivals.root(subject), &text))?)
            }
        };
        bench.results.add(PROVE, name, "s", took.wall_s);
        let group = format!("{PROVE}: CPU of the client");
        bench.results.add(&group, name, "CPU s", took.cpu_s);
        Ok(())
    })?;
    bench.forgefs.unmount(&mounted)
}

fn prove_command(bench: &Bench, root: &std::path::Path) -> std::process::Command {
    let input = &bench.inputs.main;
    let mut prove = bench.forgefs.command();
    prove.args(["--json", "prove", "--threads", "2"]).arg(root);
    prove.arg("--repo").arg(&input.repo);
    prove.args(["--sha", &input.commit]);
    prove
}

fn run_prove(bench: &Bench, root: &std::path::Path) -> Res<Timing> {
    time(&mut prove_command(bench, root))
}

/// Proves `root` and returns the tree id that the proof record names.
pub(crate) fn proven_tree(bench: &Bench, root: &std::path::Path) -> Res<String> {
    let printed = output(&mut prove_command(bench, root))?;
    let record: serde_json::Value = serde_json::from_slice(&printed)?;
    let tree = record["tree"].as_str().map(str::to_owned);
    tree.ok_or_else(|| "the proof record names no tree".into())
}
