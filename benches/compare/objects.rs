//! All blobs of a commit through the library, one thread, pack in the page cache: CPU time beside
//! gix. Each reading is a process of its own, so that caches and memory start empty.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use forgefs::git::{HashKind, Kind, ObjectSource as _, Oid, Repository, StoreOptions, hash_object};
use gix::objs::FindExt as _;

use crate::args::ObjectsArgs;
use crate::bench::Bench;
use crate::run::{Res, command, cpu_fields, output};

/// The group of the CPU seconds of all readers.
pub(crate) const CPU: &str = "object read, all blobs, one thread, CPU";
/// The group of their wall clock.
const WALL: &str = "object read, all blobs, one thread";

/// gix with the small cache that it has unless told otherwise.
pub(crate) const GIX_DEFAULT: &str = "gix-default";
/// gix with a cache of 96 MiB for delta bases.
pub(crate) const GIX_96M: &str = "gix-96m";
/// Our reader, every object verified.
pub(crate) const FORGEFS: &str = "forgefs";
/// The identity of every blob computed from memory: what verification costs at most.
pub(crate) const HASH: &str = "hash alone";

/// Reads every blob with each reader in turns.
pub(crate) fn objects(bench: &mut Bench) -> Res<()> {
    let list = bench.args.work.join("blobs-all");
    let entries = bench.inputs.main.entries.iter();
    let ids: Vec<&str> = entries
        .filter(|e| e.mode != "160000")
        .map(|e| e.id.as_str())
        .collect();
    std::fs::write(&list, ids.join("\n") + "\n")?;
    bench.alternate(
        CPU,
        &[FORGEFS, GIX_DEFAULT, GIX_96M, HASH],
        |bench, reader| {
            crate::forge::cache_packs(&bench.inputs.main)?;
            let (wall_s, cpu_s) = in_child(&bench.inputs.main.repo, &list, reader)?;
            bench.results.add(CPU, reader, "CPU s", cpu_s);
            bench.results.add(WALL, reader, "s", wall_s);
            Ok(())
        },
    )
}

fn in_child(repo: &Path, list: &Path, reader: &str) -> Res<(f64, f64)> {
    let mut child = command(std::env::current_exe()?);
    child
        .args(["objects", "--reader", reader, "--repo"])
        .arg(repo);
    let printed = output(child.arg("--list").arg(list).stderr(Stdio::piped()))?;
    let printed = String::from_utf8(printed)?;
    let mut words = printed.split_whitespace();
    let mut next = || -> Res<f64> { Ok(words.next().ok_or("the child said too little")?.parse()?) };
    Ok((next()?, next()?))
}

/// The child: reads all and prints wall clock, CPU time and bytes.
pub(crate) fn child(args: &ObjectsArgs) -> Res<()> {
    let list = std::fs::read_to_string(&args.list)?;
    let ids: Result<Vec<Oid>, _> = list.lines().map(|l| Oid::from_hex(l.as_bytes())).collect();
    let ids = ids?;
    let (wall_s, cpu_s, bytes) = match args.reader.as_str() {
        FORGEFS => forgefs(&args.repo, &ids)?,
        GIX_DEFAULT => gix(&args.repo, &ids, None)?,
        GIX_96M => gix(&args.repo, &ids, Some(96 << 20))?,
        HASH => hash(&args.repo, &ids)?,
        other => return Err(format!("no reader {other:?}").into()),
    };
    println!("{wall_s} {cpu_s} {bytes}");
    Ok(())
}

/// CPU time of this process so far in seconds: the scheduler's nanoseconds where the kernel keeps
/// them, else ticks.
fn cpu_s() -> Res<f64> {
    let precise = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    if let Some(Ok(ns)) = precise.split_whitespace().next().map(str::parse::<f64>)
        && ns > 0.0
    {
        return Ok(ns / 1e9);
    }
    let [user, system, _, _] = cpu_fields(&std::fs::read_to_string("/proc/self/stat")?)?;
    Ok(user + system)
}

fn timed(read_all: impl FnOnce() -> Res<u64>) -> Res<(f64, f64, u64)> {
    let (cpu_before, start) = (cpu_s()?, Instant::now());
    let bytes = read_all()?;
    Ok((start.elapsed().as_secs_f64(), cpu_s()? - cpu_before, bytes))
}

/// Opens gix's object database; `None` is the cache it has by itself.
pub(crate) fn open_gix(repo: &Path, cache_bytes: Option<usize>) -> Res<gix::Repository> {
    let mut repo = gix::open_opts(repo, gix::open::Options::isolated())?;
    if let Some(bytes) = cache_bytes {
        repo.objects.set_pack_cache(move || {
            Box::new(gix::odb::pack::cache::lru::MemoryCappedHashmap::new(bytes))
        });
    }
    Ok(repo)
}

fn gix(repo: &Path, ids: &[Oid], cache_bytes: Option<usize>) -> Res<(f64, f64, u64)> {
    timed(|| {
        let repo = open_gix(repo, cache_bytes)?;
        let mut buffer = Vec::new();
        let mut bytes = 0;
        for id in ids {
            let blob = repo.objects.find_blob(id, &mut buffer)?;
            bytes += blob.data.len() as u64;
        }
        Ok(bytes)
    })
}

/// Our reader with its defaults: one cache of 32 MiB, every object verified.
fn forgefs(repo: &Path, ids: &[Oid]) -> Res<(f64, f64, u64)> {
    timed(|| {
        let store = Repository::open(repo)?.store(&StoreOptions::default())?;
        let mut bytes = 0;
        for id in ids {
            bytes += store.read(id, Kind::Blob)?.len() as u64;
        }
        Ok(bytes)
    })
}

/// Hashes every blob from memory, a part at a time; the reading is not counted.
fn hash(repo: &Path, ids: &[Oid]) -> Res<(f64, f64, u64)> {
    const PART_BYTES: usize = 64 << 20;
    let repo = open_gix(repo, Some(96 << 20))?;
    let mut buffer = Vec::new();
    let mut part: Vec<(Oid, Vec<u8>)> = Vec::new();
    let mut held = 0;
    let mut total = (0.0, 0.0, 0);
    let mut flush = |part: &mut Vec<(Oid, Vec<u8>)>| -> Res<()> {
        let (wall_s, cpu_s, bytes) = timed(|| {
            let mut bytes = 0;
            for (id, content) in part.iter() {
                if hash_object(HashKind::Sha1, Kind::Blob, content)? != *id {
                    return Err(format!("{id} has another id").into());
                }
                bytes += content.len() as u64;
            }
            Ok(bytes)
        })?;
        total = (total.0 + wall_s, total.1 + cpu_s, total.2 + bytes);
        part.clear();
        Ok(())
    };
    for id in ids {
        let content = repo.objects.find_blob(id, &mut buffer)?.data.to_vec();
        held += content.len();
        part.push((*id, content));
        if held > PART_BYTES {
            flush(&mut part)?;
            held = 0;
        }
    }
    flush(&mut part)?;
    Ok(total)
}
