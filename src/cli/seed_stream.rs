//! `forgefs seed --format pack|tar` and `--from`: the seed on its way into a sandbox (R88).

use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;

use serde::Serialize;

use super::seed::{Format, SeedArgs, WorkTree, threads, with_progress};
use super::values::shown_bytes;
use super::{Context, Outcome};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::{self, process};
use crate::workspace::{
    PackTarget, SeedPackRecord, SeedProgress, SeedRequest, Target, Unpacked, WorkTreeKind,
    open_seed_pack, read_stream, seed_from_pack, write_seed_pack, write_tar,
};

#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    record: &'a SeedPackRecord,
    dir: Option<String>,
    verdict: &'static str,
    reason: Option<String>,
}

/// Writes `seed.pack` and `seed.json` into a directory, or either form to standard output.
pub(super) fn write(
    context: &Context,
    args: &SeedArgs,
    format: Format,
    request: &SeedRequest<'_>,
    target: Option<&Target>,
) -> Result<Outcome> {
    let progress = SeedProgress::default();
    let stdout = std::io::stdout();
    if target.is_none() && stdout.is_terminal() {
        return Err(Error::new(
            ErrorKind::Usage,
            "usage",
            "a pack or tar is not for a terminal; send it to a file or a program",
        ));
    }
    let mut out = BufWriter::with_capacity(1 << 20, stdout.lock());
    if format == Format::Tar {
        let owner = args.owner.unwrap_or_else(process::effective_ids);
        with_progress(context, &progress, || {
            write_tar(request, owner, &mut out, &progress)
        })?;
        return flushed(&mut out);
    }
    let place = target.map_or(PackTarget::Stream, PackTarget::Directory);
    let record = with_progress(context, &progress, || {
        write_seed_pack(request, &place, &mut out, &progress)
    })?;
    flushed(&mut out)?;
    drop(out);
    if let Some(target) = target {
        let dir = target.path().to_string_lossy().into_owned();
        let text = format!(
            "{dir} holds {} as seed.pack ({})",
            record.base,
            shown_bytes(record.pack_bytes)
        );
        let report = Report {
            record: &record,
            dir: Some(dir),
            verdict: "written",
            reason: None,
        };
        context.out.data(&report, &text)?;
    }
    Ok(Outcome::Done)
}

fn flushed(out: &mut dyn Write) -> Result<Outcome> {
    out.flush()
        .map_err(|e| Error::io("cannot write to standard output", e))?;
    Ok(Outcome::Done)
}

/// Makes the workspace out of a seed pack; exit 1 where the pack is not what it says.
pub(super) fn unpack(context: &Context, args: &SeedArgs, from: &Path) -> Result<Outcome> {
    let target = Target::check(&args.repo, None)?;
    let work_tree = match args.worktree {
        WorkTree::Files => WorkTreeKind::Files,
        WorkTree::None => WorkTreeKind::None,
        WorkTree::Overlay => {
            return Err(Error::new(
                ErrorKind::Usage,
                "usage",
                "an overlay workspace needs the repository; leave --worktree overlay out",
            ));
        }
    };
    let mask = sys::clear_umask();
    let (record, mut pack) = if from == Path::new("-") {
        read_stream(Box::new(std::io::stdin()))?
    } else {
        open_seed_pack(from)?
    };
    let threads = args.threads.map_or_else(threads, usize::from);
    let top_mode = 0o777 & !mask;
    let unpacked = seed_from_pack(&record, &mut *pack, &target, work_tree, threads, top_mode)?;
    let dir = target.path().to_string_lossy().into_owned();
    let (verdict, reason, outcome) = match unpacked {
        Unpacked::Done(_) => ("unpacked", None, Outcome::Done),
        Unpacked::Refused(why) => ("refused", Some(why), Outcome::Negative),
    };
    let text = match &reason {
        None => format!("{dir} is at {}", record.base),
        Some(why) => {
            context.out.note(&format!("refused: {why}"));
            String::new()
        }
    };
    let report = Report {
        record: &record,
        dir: Some(dir),
        verdict,
        reason,
    };
    context.out.data(&report, &text)?;
    Ok(outcome)
}
