//! The seed as `seed.pack` and `seed.json`, for runtimes that copy in, and back (R88). As a stream
//! the two are one: the record on one line, then the pack.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::profile::{Origin, OriginPolicy};
use super::seed::{Branch, Plan, history_word, make_git_dir, write_new, write_small_files};
use super::selfcheck::{self, Expected};
use super::target::Target;
use super::{SeedPhase, SeedProgress, SeedRequest, WorkTreeKind};
use crate::budget::{Budget, Limits};
use crate::error::{Context, Error, ErrorKind, IoContext, Result};
use crate::git::{
    Closure, HashKind, History, Kind, ObjectSource, Oid, PackRecord, Repository, StoreOptions,
    index_bytes, index_pack, load_commit, parse_full_id, publish_pack, sha256_hex, write_pack_to,
};
use crate::materialise::WorkTree;
use crate::sys::{DirFd, memory_file, set_file_mode};

const SCHEMA: &str = "forgefs.seed-pack/1";

/// The longest record, bytes: the list of a shallow history makes it long.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// `seed.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SeedPackRecord {
    /// `forgefs.seed-pack/1`.
    pub schema: String,
    /// The commit.
    pub base: String,
    /// Its tree.
    pub tree: String,
    /// `sha1` or `sha256`.
    pub object_format: String,
    /// `base`, `full` or a number of levels.
    pub history: String,
    /// The commits whose parents are left out.
    pub shallow: Vec<String>,
    /// The branch; `null` where HEAD is detached.
    pub branch: Option<String>,
    /// URLs of the remote, without credentials.
    pub urls: Vec<String>,
    /// URLs to push to.
    pub push_urls: Vec<String>,
    /// Objects in the pack.
    pub objects: u32,
    /// Size of the pack in bytes.
    pub pack_bytes: u64,
    /// SHA-256 of the pack.
    pub pack_sha256: String,
}

/// Where a seed pack goes.
#[derive(Debug)]
pub enum PackTarget<'a> {
    /// A new or empty directory, for `seed.pack` and `seed.json`.
    Directory(&'a Target),
    /// A stream; the pack is held in memory, no disk is written.
    Stream,
}

/// Writes the seed of a commit as a pack.
///
/// # Errors
/// As `seed`.
pub fn write_seed_pack(
    request: &SeedRequest<'_>,
    target: &PackTarget<'_>,
    stream: &mut dyn Write,
    progress: &SeedProgress,
) -> Result<SeedPackRecord> {
    progress.enter(SeedPhase::Counting);
    let plan = Plan::make(request)?;
    progress.count(&plan.closure);
    progress.enter(SeedPhase::Packing);
    let doing = || String::from("cannot write the seed");
    match target {
        PackTarget::Directory(target) => {
            let building = target.claim()?;
            let file = building
                .root()
                .create_beneath(b"seed.pack", 0o644)
                .doing(doing)?;
            let record = pack_into(request, &plan, file, progress)?;
            let mut json = to_json(&record)?;
            json.push(b'\n');
            write_new(building.root(), b"seed.json", &json)?;
            building.publish(request.top_mode)?;
            Ok(record)
        }
        PackTarget::Stream => {
            let mut file = memory_file("forgefs-seed").doing(doing)?;
            let kept = file.try_clone().doing(doing)?;
            let record = pack_into(request, &plan, kept, progress)?;
            let mut json = to_json(&record)?;
            json.push(b'\n');
            file.seek(SeekFrom::Start(0)).doing(doing)?;
            stream
                .write_all(&json)
                .and_then(|()| std::io::copy(&mut file, stream))
                .and_then(|_| stream.flush())
                .doing(doing)?;
            Ok(record)
        }
    }
}

fn to_json(record: &SeedPackRecord) -> Result<Vec<u8>> {
    serde_json::to_vec(record).context(ErrorKind::Internal, "internal", || {
        String::from("cannot write seed.json")
    })
}

fn pack_into(
    request: &SeedRequest<'_>,
    plan: &Plan,
    file: File,
    progress: &SeedProgress,
) -> Result<SeedPackRecord> {
    let order = plan.closure.pack_order(request.objects)?;
    let threads = request.threads;
    let (pack, _) = write_pack_to(request.objects, &order, file, threads, None, &progress.pack)?;
    Ok(SeedPackRecord {
        schema: SCHEMA.to_owned(),
        base: request.commit.id.to_string(),
        tree: request.commit.tree_id.to_string(),
        object_format: request.objects.hash_kind().to_string(),
        history: history_word(request.history),
        shallow: plan
            .closure
            .shallow
            .iter()
            .map(ToString::to_string)
            .collect(),
        branch: request.branch.map(str::to_owned),
        urls: plan.origin.urls.clone(),
        push_urls: plan.origin.push_urls.clone(),
        objects: pack.objects,
        pack_bytes: pack.bytes,
        pack_sha256: pack.sha256,
    })
}

/// What became of a seed pack that was to be unpacked.
#[derive(Debug)]
pub enum Unpacked {
    /// The workspace is there.
    Done(Box<SeedPackRecord>),
    /// The pack is not what its record says, or not whole; nothing was left.
    Refused(String),
}

/// Opens `seed.pack` at `path` with the `seed.json` beside it, or a stream that holds both.
///
/// # Errors
/// `bad-seed` where the record does not parse; what reading says.
pub fn open_seed_pack(path: &Path) -> Result<(SeedPackRecord, Box<dyn Read>)> {
    let doing = || format!("cannot read {}", path.display());
    let mut file = File::open(path).doing(doing)?;
    let mut first = [0];
    let count = file.read(&mut first).doing(doing)?;
    file.seek(SeekFrom::Start(0)).doing(doing)?;
    if count == 1 && first == *b"{" {
        return read_stream(Box::new(file));
    }
    let beside = path.with_file_name("seed.json");
    let mut json = Vec::new();
    File::open(&beside)
        .and_then(|file| file.take(RECORD_BYTES_MAX).read_to_end(&mut json))
        .doing(|| format!("cannot read {}", beside.display()))?;
    Ok((parse_record(&json)?, Box::new(file)))
}

/// Reads the record off a stream and returns what follows it.
///
/// # Errors
/// `bad-seed`; what reading says.
pub fn read_stream(stream: Box<dyn Read>) -> Result<(SeedPackRecord, Box<dyn Read>)> {
    let mut reader = BufReader::with_capacity(1 << 20, stream);
    let mut json = Vec::new();
    (&mut reader)
        .take(RECORD_BYTES_MAX)
        .read_until(b'\n', &mut json)
        .doing(|| String::from("cannot read the seed"))?;
    Ok((parse_record(&json)?, Box::new(reader)))
}

fn parse_record(json: &[u8]) -> Result<SeedPackRecord> {
    let says = || String::from("this is no seed: its record does not parse");
    let record: SeedPackRecord =
        serde_json::from_slice(json).context(ErrorKind::Corrupt, "bad-seed", says)?;
    if record.schema != SCHEMA {
        return Err(bad_seed(format!("the seed's schema is not {SCHEMA}")));
    }
    Ok(record)
}

fn bad_seed(message: String) -> Error {
    Error::new(ErrorKind::Corrupt, "bad-seed", message)
}

/// Makes the workspace that `record` describes out of `pack`, as `seed` would have made it.
///
/// # Errors
/// Those of writing. A pack that does not hold what the record says is a refusal, not an error.
pub fn seed_from_pack(
    record: &SeedPackRecord,
    pack: &mut dyn Read,
    target: &Target,
    work_tree: WorkTreeKind,
    threads: usize,
    top_mode: u32,
) -> Result<Unpacked> {
    let building = target.claim()?;
    let root = building.root();
    let made = unpack(record, pack, root, work_tree, threads);
    match made {
        Ok(()) => {
            building.publish(top_mode)?;
            Ok(Unpacked::Done(Box::new(record.clone())))
        }
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
            Ok(Unpacked::Refused(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

fn unpack(
    record: &SeedPackRecord,
    pack: &mut dyn Read,
    root: &DirFd,
    work_tree: WorkTreeKind,
    threads: usize,
) -> Result<()> {
    let hash_kind = match record.object_format.as_str() {
        "sha1" => HashKind::Sha1,
        "sha256" => HashKind::Sha256,
        _ => {
            return Err(bad_seed(String::from(
                "the seed's object format is unknown",
            )));
        }
    };
    let parse = |text: &String| {
        parse_full_id(text).map_err(|e| bad_seed(format!("{text:?} is no id")).caused_by(e))
    };
    let base = parse(&record.base)?;
    let shallow: Vec<Oid> = record.shallow.iter().map(parse).collect::<Result<_>>()?;
    if let Some(branch) = &record.branch {
        crate::git::check_branch_name(branch)?;
    }
    let origin = Origin::given(&record.urls, &record.push_urls)?;
    let git_dir = make_git_dir(root, false)?;
    let pack = place_pack(record, pack, &git_dir, hash_kind)?;
    let branch = Branch {
        name: record.branch.as_deref(),
        commit_id: &base,
    };
    let mut files = write_small_files(&git_dir, hash_kind, &branch, &origin, &shallow)?;
    let path = root
        .real_path()
        .doing(|| String::from("cannot find the new repository again"))?;
    let objects = Repository::open(&path)?.store(&StoreOptions::default())?;
    let commit = load_commit(&objects, &base)?;
    if commit.tree_id != parse(&record.tree)? {
        return Err(bad_seed(String::from("the seed's commit has another tree")));
    }
    let ends: HashSet<Oid> = shallow.iter().copied().collect();
    let mut budget = Budget::new(Limits::default());
    // The list of ends is what bounds the history, whatever it was asked for as.
    let closure = Closure::walk(&objects, &commit, History::Full, &ends, &mut budget)?;
    if closure.object_count() != usize::try_from(pack.objects).unwrap_or(0)
        || closure.shallow != shallow
    {
        return Err(bad_seed(String::from(
            "the seed's pack does not hold exactly the commit and its history",
        )));
    }
    for id in &closure.blobs {
        if objects.header(id)?.kind != Kind::Blob {
            return Err(bad_seed(format!("object {id} of the seed is no blob")));
        }
    }
    let layout = closure.layout(&objects)?;
    let stats = match work_tree {
        WorkTreeKind::Files => {
            WorkTree::begin(root, &layout, commit.mtime_s())?.finish(&objects, threads)?
        }
        WorkTreeKind::None | WorkTreeKind::Overlay => Vec::new(),
    };
    let index = index_bytes(&layout, hash_kind, |number| {
        stats.get(number).copied().unwrap_or_default()
    })?;
    let file = write_new(&git_dir, b"index", &index)?;
    super::seed::settle_index(&file, commit.mtime_s())?;
    files.push((b"index".to_vec(), index));
    let expected = Expected {
        files: &files,
        index_only_named: false,
        pack: Some(&pack),
    };
    selfcheck::check(&git_dir, &expected)
}

/// Copies the pack in, hashes it, and indexes it.
fn place_pack(
    record: &SeedPackRecord,
    pack: &mut dyn Read,
    git_dir: &DirFd,
    hash_kind: HashKind,
) -> Result<PackRecord> {
    let doing = || String::from("cannot write the pack");
    let dir = git_dir.open_dir(b"objects/pack").doing(doing)?;
    let name = b"tmp_pack_forgefs";
    let mut file = dir.create_beneath(name, 0o644).doing(doing)?;
    let count = std::io::copy(&mut pack.take(record.pack_bytes), &mut file).doing(doing)?;
    file.seek(SeekFrom::Start(0)).doing(doing)?;
    if count != record.pack_bytes || sha256_hex(&mut file)? != record.pack_sha256 {
        return Err(bad_seed(String::from(
            "the seed's pack does not hash to what its record says",
        )));
    }
    let (sum, indexes) = index_pack(&file, count, hash_kind)?;
    let pack = PackRecord {
        name: sum,
        objects: record.objects,
        bytes: count,
        sha256: record.pack_sha256.clone(),
    };
    set_file_mode(&file, 0o444).doing(doing)?;
    publish_pack(&dir, name, &pack, &indexes)?;
    Ok(pack)
}

impl Origin {
    /// Takes URLs over from a seed; one with a credential is none of ours.
    fn given(urls: &[String], push_urls: &[String]) -> Result<Self> {
        let mut origin = Self::none();
        if urls
            .iter()
            .chain(push_urls)
            .any(|url| crate::git::has_credential(url))
        {
            return Err(bad_seed(String::from(
                "the seed's remote carries a credential",
            )));
        }
        origin.urls = urls.to_vec();
        origin.push_urls = push_urls.to_vec();
        if !urls.is_empty() {
            origin.record.policy = OriginPolicy::Carry;
        }
        Ok(origin)
    }
}
