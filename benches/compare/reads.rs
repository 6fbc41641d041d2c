//! Walks, full reads, greps and tars: the same commands in every root.

use crate::bench::{Before, Bench};
use crate::rivals::Subject;
use crate::run::{Res, foreign_drops, script, time};

/// Every root but that of a work tree has no `.git`; it is left out everywhere.
const WALK: &str = "find . -path ./.git -prune -o -printf %s";
const READ_1: &str =
    "find . -path ./.git -prune -o -type f -print0 | xargs -0 -n 500 -P 1 cat > /dev/null";
const READ_2: &str =
    "find . -path ./.git -prune -o -type f -print0 | xargs -0 -n 500 -P 2 cat > /dev/null";
const TAR: &str = "tar cf - --exclude=./.git . | cat > /dev/null";
/// A word that no file contains, so that everything is read; finding it would be an error.
const GREP: &str = "! grep -rF --exclude=.git qzxjv-no-such-word .";
const RG: &str = "! rg -uuu -j2 -F -g '!.git' qzxjv-no-such-word .";

const ALL: [Subject; 4] = [
    Subject::Forgefs,
    Subject::Checkout,
    Subject::Erofs,
    Subject::Squashfs,
];
const PAIR: [Subject; 2] = [Subject::Forgefs, Subject::Checkout];

/// `find -printf %s` after dropping the caches.
pub(crate) fn walk(bench: &mut Bench) -> Res<()> {
    cold(bench, &ALL, &[("cold walk", WALK)])
}

/// Reads every file after dropping the caches, with one reader and with two.
pub(crate) fn read(bench: &mut Bench) -> Res<()> {
    cold(
        bench,
        &ALL,
        &[
            ("cold read, 1 reader", READ_1),
            ("cold read, 2 readers", READ_2),
        ],
    )
}

/// `grep -r` and ripgrep after dropping the caches.
pub(crate) fn grep(bench: &mut Bench) -> Res<()> {
    cold(
        bench,
        &PAIR,
        &[("cold grep -r", GREP), ("cold ripgrep", RG)],
    )
}

fn cold(bench: &mut Bench, subjects: &[Subject], commands: &[(&str, &str)]) -> Res<()> {
    bench.rivals.build(&bench.inputs.main, subjects)?;
    for (group, text) in commands {
        bench.alternate(group, subjects, |bench, subject| {
            bench.measure_cold(group, subject, Before::Cold, text)
        })?;
    }
    Ok(())
}

/// What is measured with the pack in the page cache.
#[derive(Debug, Clone, Copy)]
enum Cached {
    Mount(&'static str, &'static str),
    CatFile,
}

/// The group of `git cat-file --batch` with the pack in the page cache.
pub(crate) const CAT_FILE: &str = "cat-file --batch, pack in the page cache";

/// Full reads of a fresh mount with the pack in the page cache, beside `git cat-file --batch` of
/// the same blobs, which crosses no file system.
pub(crate) fn cached(bench: &mut Bench) -> Res<()> {
    let list = bench.args.work.join("blobs");
    let ids: Vec<&str> = bench.inputs.main.files().map(|f| f.id.as_str()).collect();
    std::fs::write(&list, ids.join("\n") + "\n")?;
    let variants = [
        Cached::Mount("cached read, 1 reader", READ_1),
        Cached::Mount("cached read, 2 readers", READ_2),
        Cached::CatFile,
    ];
    bench.alternate("cached", &variants, |bench, variant| match variant {
        Cached::Mount(group, text) => {
            bench.measure_cold(group, Subject::Forgefs, Before::PackCached, text)
        }
        Cached::CatFile => {
            bench.prepare(Before::PackCached)?;
            let text = "git -C \"$1\" cat-file --batch < \"$2\"";
            let mut cat = script(&bench.args.work, text);
            let took = time(cat.arg(&bench.inputs.main.repo).arg(&list))?;
            bench.results.add(CAT_FILE, "git", "s", took.wall_s);
            Ok(())
        }
    })
}

/// Everything again on roots that were walked and read before.
pub(crate) fn warm(bench: &mut Bench) -> Res<()> {
    bench.rivals.build(&bench.inputs.main, &ALL)?;
    let root = bench.rivals.root(Subject::Forgefs);
    let mounted = bench.forgefs.mount(&bench.inputs.main, &root)?;
    let mut drops = None;
    for (group, text) in [
        ("warm walk", WALK),
        ("warm read, 1 reader", READ_1),
        ("warm read, 2 readers", READ_2),
        ("warm tar", TAR),
        ("warm grep -r", GREP),
        ("warm ripgrep", RG),
    ] {
        bench.alternate(group, &ALL, |bench, subject| {
            // At the beginning, and again where somebody else dropped the caches.
            if drops != Some(foreign_drops()?) {
                drops = Some(foreign_drops()?);
                warm_up(bench)?;
            }
            if subject == Subject::Forgefs {
                return bench.measure_mounted(group, &mounted, text);
            }
            let took = time(&mut script(&bench.rivals.root(subject), text))?;
            bench.results.add(group, subject.name(), "s", took.wall_s);
            Ok(())
        })?;
    }
    bench.forgefs.unmount(&mounted)
}

/// Walks, reads and archives every root.
fn warm_up(bench: &Bench) -> Res<()> {
    for subject in ALL {
        let root = bench.rivals.root(subject);
        for text in [WALK, READ_1, TAR, RG] {
            time(&mut script(&root, text))?;
        }
    }
    Ok(())
}
