//! How long it takes until the first byte of a commit can be read, by each way there is.

use crate::bench::{Bench, point};
use crate::rivals::{Subject, archive, clone, disk_bytes, read_one, worktree_add};
use crate::run::{Res, Timing, drop_caches, remove_tree};

/// The group of the first byte of `input`.
pub(crate) fn first_byte_group(input: &str) -> String {
    format!("first byte, {input}")
}

/// Times the command and one byte are short: more of them, so that the median is steady.
const FIRST_BYTES_A_ROUND: usize = 5;

/// From the command's start to the first byte of a file, for every input, in turns.
pub(crate) fn first_byte(bench: &mut Bench) -> Res<()> {
    let mut inputs = vec![bench.inputs.main.clone()];
    inputs.extend(bench.inputs.generated.iter().cloned());
    let root = point(&bench.args.work, "forgefs-first");
    let indices: Vec<usize> = (0..inputs.len()).collect();
    let mut count = 0;
    for _ in 0..FIRST_BYTES_A_ROUND {
        bench.alternate("first byte", &indices, |bench, index| {
            let Some(input) = inputs.get(index) else {
                return Ok(());
            };
            count += 1;
            let file = Bench::some_file(input, count)?;
            let took = bench.forgefs.first_byte(input, &root, &file)?;
            let group = first_byte_group(&input.name);
            bench.results.add(&group, "forgefs", "s", took);
            unmount(bench, &root)
        })?;
    }
    let input = bench.inputs.main.clone();
    bench.alternate("first byte, caches dropped", &[()], |bench, ()| {
        drop_caches()?;
        let file = Bench::some_file(&input, 0)?;
        let took = bench.forgefs.first_byte(&input, &root, &file)?;
        let group = "first byte, caches dropped";
        bench.results.add(group, "forgefs", "s", took);
        unmount(bench, &root)
    })
}

fn unmount(bench: &Bench, root: &std::path::Path) -> Res<()> {
    crate::run::output(bench.forgefs.command().arg("umount").arg(root)).map(drop)
}

/// One way to have the files.
#[derive(Debug, Clone, Copy)]
enum Way {
    Forgefs,
    Worktree(u32),
    Clone,
    Archive,
    Image(Subject),
}

/// The group of all ways.
pub(crate) const CREATE: &str = "ready to read";
/// The group of what they take on disk.
pub(crate) const DISK: &str = "disk";

impl Way {
    fn name(self) -> String {
        match self {
            Self::Forgefs => "forgefs".to_owned(),
            Self::Worktree(1) => "git worktree add, 1 worker".to_owned(),
            Self::Worktree(workers) => format!("git worktree add, {workers} workers"),
            Self::Clone => "git clone --no-hardlinks".to_owned(),
            Self::Archive => "git archive | tar x".to_owned(),
            Self::Image(subject) => format!("{} image of a checkout", subject.name()),
        }
    }
}

/// Makes everything anew in turns and notes the time to the first byte and the disk it takes.
pub(crate) fn create(bench: &mut Bench) -> Res<()> {
    bench.rivals.build_archive(&bench.inputs.main)?;
    let ways = [
        Way::Forgefs,
        Way::Worktree(2),
        Way::Worktree(1),
        Way::Clone,
        Way::Archive,
        Way::Image(Subject::Erofs),
        Way::Image(Subject::Squashfs),
    ];
    let mut count = 0;
    bench.alternate(CREATE, &ways, |bench, way| {
        count += 1;
        let file = Bench::some_file(&bench.inputs.main, count)?;
        // What earlier turns wrote must not be written back at this one's cost.
        crate::run::output(&mut crate::run::command("sync"))?;
        let (took, disk) = make(bench, way, &file)?;
        bench.results.add(CREATE, &way.name(), "s", took);
        bench.results.add(DISK, &way.name(), "bytes", disk);
        Ok(())
    })
}

/// Makes one, reads one byte, removes it; returns seconds and bytes on disk.
fn make(bench: &Bench, way: Way, file: &str) -> Res<(f64, f64)> {
    let input = &bench.inputs.main;
    let root = bench.rivals.scratch("fresh");
    remove_tree(&root)?;
    let finish = |made: Timing| -> Res<(f64, f64)> {
        let took = made.wall_s + read_one(&root, file)?;
        let disk = disk_bytes(&root)?;
        remove_tree(&root)?;
        Ok((took, disk))
    };
    match way {
        Way::Forgefs => {
            let point = point(&bench.args.work, "forgefs-first");
            let before = state_bytes(bench)?;
            let took = bench.forgefs.first_byte(input, &point, file)?;
            let disk = state_bytes(bench)? - before;
            unmount(bench, &point)?;
            Ok((took, disk.max(0.0)))
        }
        Way::Worktree(workers) => finish(worktree_add(input, &root, workers)?),
        Way::Clone => finish(clone(input, &root)?),
        Way::Archive => finish(archive(input, &root)?),
        Way::Image(subject) => {
            let built = bench.rivals.build_image(subject)?;
            bench.rivals.mount_image(subject)?;
            let took = built + read_one(&bench.rivals.root(subject), file)?;
            Ok((took, bench.rivals.image_bytes(subject)?))
        }
    }
}

/// Returns what forgefs keeps on disk: its records and logs.
pub(crate) fn state_bytes(bench: &Bench) -> Res<f64> {
    if bench.forgefs.state.exists() {
        disk_bytes(&bench.forgefs.state)
    } else {
        Ok(0.0)
    }
}
