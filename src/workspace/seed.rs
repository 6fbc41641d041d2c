//! Making a workspace: pack, files, index, refs and configuration under a hidden name, checked,
//! then published (R77..R87).

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};

use super::profile::{Origin, OriginPolicy, Profile, config_sections};
use super::selfcheck::{self, Expected};
use super::target::{Building, Target};
use super::{SeedPhase, SeedProgress, SeedRecord, SeedRequest, WorkTreeKind};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::fault;
use crate::git::{
    Closure, HashKind, History, Layout, Oid, PackRecord, PackVisitor, RawConfig, check_branch_name,
    config_bytes, head_bytes, id_line, index_bytes, parse_shallow, shallow_bytes, write_pack,
};
use crate::materialise::{WorkTree, check_layout};
use crate::sys::{DirFd, FreeSpace, WrittenStat, finish_file, make_and_open_dir};

/// The most bytes of the source's `config` and `shallow` that are read.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
pub(super) const SHALLOW_BYTES_MAX: u64 = 64 << 20;

/// Makes the workspace at `target`.
///
/// Guarantees: until the last step nothing stands under the target's name; on an error nothing is
/// left; every object that is written was rebuilt from the bytes written and hashed; the source is
/// only read.
///
/// # Errors
/// `missing-object`, `corrupt-object`, `bad-tree`; `budget-*`; `credential-in-origin`,
/// `bad-branch-name`, `name-too-long`, `link-target`, `noted-feature`; `no-space`; those of
/// writing.
pub fn seed(
    request: &SeedRequest<'_>,
    target: &Target,
    progress: &SeedProgress,
) -> Result<SeedRecord> {
    progress.enter(SeedPhase::Counting);
    let plan = Plan::make(request)?;
    plan.refuse_without_space(request, target)?;
    progress.count(&plan.closure);
    let building = target.claim()?;
    let pack = build(request, &plan, &building, progress)?;
    building.publish(request.top_mode)?;
    Ok(plan.record(request, target, &pack))
}

/// What is known before anything is written.
pub(super) struct Plan {
    pub(super) closure: Closure,
    pub(super) layout: Layout,
    pub(super) origin: Origin,
    pub(super) notes: Vec<String>,
    pub(super) mtime_s: i64,
}

impl Plan {
    /// Decides what is kept of the remote, and refuses a branch that cannot be.
    pub(super) fn origin(request: &SeedRequest<'_>) -> Result<Origin> {
        if let Some(branch) = request.branch {
            check_branch_name(branch)?;
        }
        if request.origin == OriginPolicy::None {
            return Ok(Origin::none());
        }
        let common = request.repository.common_dir_fd();
        let config = read_source(common, b"config", CONFIG_BYTES_MAX)?;
        Origin::decide(request.origin, &RawConfig::parse(&config)?)
    }

    pub(super) fn make(request: &SeedRequest<'_>) -> Result<Self> {
        let origin = Self::origin(request)?;
        let common = request.repository.common_dir_fd();
        let source_shallow = match request.history {
            History::Base => HashSet::new(),
            _ => parse_shallow(&read_source(common, b"shallow", SHALLOW_BYTES_MAX)?),
        };
        let mut budget = Budget::new(request.limits);
        let closure = Closure::walk(
            request.objects,
            request.commit,
            request.history,
            &source_shallow,
            &mut budget,
        )?;
        let layout = closure.layout(request.objects)?;
        if request.work_tree == WorkTreeKind::Files {
            check_layout(&layout)?;
        }
        let mut notes: Vec<String> = origin.note().into_iter().collect();
        if closure.truncated {
            notes.push(String::from(
                "history-truncated: the source is shallow and has less history than was asked for",
            ));
        }
        if let Some(note) = notes.first().filter(|_| request.strict) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "noted-feature",
                format!("--strict refuses what is noted: {note}"),
            ));
        }
        Ok(Self {
            closure,
            layout,
            origin,
            notes,
            mtime_s: request.commit.mtime_s(),
        })
    }

    /// Refuses where the work tree alone is more than the file system has left. The pack is not
    /// counted: how small it gets is known only once it is written.
    fn refuse_without_space(&self, request: &SeedRequest<'_>, target: &Target) -> Result<()> {
        let FreeSpace { bytes, inodes, .. } = target.free_space()?;
        let totals = self.closure.totals;
        let names = totals.files.saturating_add(totals.directories);
        let index = totals.files.saturating_mul(80);
        let (bytes_needed, inodes_needed) = match request.work_tree {
            WorkTreeKind::Files => (
                totals
                    .block_bytes
                    .saturating_add(totals.directories.saturating_mul(4096))
                    .saturating_add(index),
                names.saturating_add(20),
            ),
            WorkTreeKind::None | WorkTreeKind::Overlay => (index, 20),
        };
        let refuse =
            |what: String| Err(Error::new(ErrorKind::Host, "no-space", what).at(target.path()));
        if bytes < bytes_needed {
            return refuse(format!(
                "no space: the workspace needs more than {bytes_needed} bytes, the file system has \
                 {bytes} left"
            ));
        }
        if inodes < inodes_needed {
            return refuse(format!(
                "no space: the workspace needs {inodes_needed} inodes, the file system has {inodes} \
                 left"
            ));
        }
        Ok(())
    }

    fn record(&self, request: &SeedRequest<'_>, target: &Target, pack: &PackRecord) -> SeedRecord {
        SeedRecord {
            schema: "forgefs.seed/1",
            dir: target.path().to_string_lossy().into_owned(),
            profile: Profile::Sealed,
            base: request.commit.id.to_string(),
            tree: request.commit.tree_id.to_string(),
            history: history_word(request.history),
            history_truncated: self.closure.truncated,
            branch: request.branch.map(str::to_owned),
            origin: self.origin.record.clone(),
            worktree: request.work_tree,
            files: self.closure.totals.files,
            objects: pack.objects,
            pack: pack.name.to_string(),
            pack_sha256: pack.sha256.clone(),
            pack_bytes: pack.bytes,
            notes: self.notes.clone(),
        }
    }
}

impl SeedRequest<'_> {
    /// Returns what HEAD is to be.
    pub(super) fn head(&self) -> Branch<'_> {
        Branch {
            name: self.branch,
            commit_id: &self.commit.id,
        }
    }
}

/// Returns a history as it is asked for on the command line.
pub(super) fn history_word(history: History) -> String {
    match history {
        History::Base => String::from("base"),
        History::Full => String::from("full"),
        History::Depth(levels) => levels.to_string(),
    }
}

fn build(
    request: &SeedRequest<'_>,
    plan: &Plan,
    building: &Building<'_>,
    progress: &SeedProgress,
) -> Result<PackRecord> {
    let root = building.root();
    let git_dir = make_git_dir(root, false)?;
    let pack_dir = git_dir
        .open_dir(b"objects/pack")
        .doing(|| String::from("cannot open the new object store"))?;
    fault::point("skeleton")?;
    let tree = match request.work_tree {
        WorkTreeKind::Files => Some(WorkTree::begin(root, &plan.layout, plan.mtime_s)?),
        WorkTreeKind::None | WorkTreeKind::Overlay => None,
    };
    progress.enter(SeedPhase::Packing);
    let pack = write_pack(
        request.objects,
        &plan.closure.pack_order(request.objects)?,
        &pack_dir,
        request.threads,
        tree.as_ref().map(|tree| tree as &dyn PackVisitor),
        &progress.pack,
    )?;
    fault::point("pack-written")?;
    progress.enter(SeedPhase::Finishing);
    let stats = match tree {
        Some(tree) => tree.finish(request.objects, request.threads)?,
        None => Vec::new(),
    };
    fault::point("worktree-written")?;
    let index = index_bytes(&plan.layout, request.objects.hash_kind(), |number| {
        stats.get(number).copied().unwrap_or_default()
    })?;
    let mut files = write_small_files(
        &git_dir,
        request.objects.hash_kind(),
        &request.head(),
        &plan.origin,
        &plan.closure.shallow,
    )?;
    let file = write_new(&git_dir, b"index", &index)?;
    settle_index(&file, plan.mtime_s)?;
    files.push((b"index".to_vec(), index));
    let expected = Expected {
        files: &files,
        index_only_named: false,
        pack: Some(&pack),
    };
    selfcheck::check(&git_dir, &expected)?;
    Ok(pack)
}

/// Makes the directories that git wants to see, and no others; the objects of an overlay workspace
/// lie in a layer below.
pub(super) fn make_git_dir(root: &DirFd, is_overlay: bool) -> Result<DirFd> {
    let doing = || String::from("cannot make the new repository");
    let git_dir = make_and_open_dir(root, b".git", 0o755).doing(doing)?;
    for parent in [&b"objects"[..], b"refs"] {
        if is_overlay && parent == b"objects" {
            continue;
        }
        let below: [&[u8]; 2] = match parent {
            b"objects" => [b"pack", b"info"],
            _ => [b"heads", b"tags"],
        };
        let parent = make_and_open_dir(&git_dir, parent, 0o755).doing(doing)?;
        for name in below {
            parent.make_dir(name, 0o755).doing(doing)?;
        }
    }
    Ok(git_dir)
}

/// What HEAD is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch<'a> {
    /// The branch; `None` detaches.
    pub(super) name: Option<&'a str>,
    /// The commit.
    pub(super) commit_id: &'a Oid,
}

/// The small files of `.git` with their content.
pub(super) type SmallFiles = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns the small files of `.git`; all of it is decided by the profile.
pub(super) fn small_files(
    hash_kind: HashKind,
    branch: &Branch<'_>,
    origin: &Origin,
    shallow: &[Oid],
    is_overlay: bool,
) -> Result<SmallFiles> {
    let sections = config_sections(hash_kind, origin, is_overlay);
    let mut files = vec![
        (b"config".to_vec(), config_bytes(&sections)?),
        (b"HEAD".to_vec(), head_bytes(branch.name, branch.commit_id)),
    ];
    if !shallow.is_empty() {
        files.push((b"shallow".to_vec(), shallow_bytes(shallow)));
    }
    if let Some(name) = branch.name {
        let name = format!("refs/heads/{name}").into_bytes();
        files.push((name, id_line(branch.commit_id)));
    }
    Ok(files)
}

/// Writes the small files of a repository with its own objects, and returns them.
pub(super) fn write_small_files(
    git_dir: &DirFd,
    hash_kind: HashKind,
    branch: &Branch<'_>,
    origin: &Origin,
    shallow: &[Oid],
) -> Result<SmallFiles> {
    let files = small_files(hash_kind, branch, origin, shallow, false)?;
    for (name, content) in &files {
        write_new(git_dir, name, content)?;
        fault::point("small-files-in-part")?;
    }
    Ok(files)
}

/// Writes a file that is not there yet, with the directories that a branch name asks for.
pub(super) fn write_new(git_dir: &DirFd, name: &[u8], content: &[u8]) -> Result<File> {
    let doing = || format!("cannot write {}", name.escape_ascii());
    for (slash, _) in name.iter().enumerate().filter(|(_, b)| **b == b'/') {
        let (dir, rest) = name.split_at(slash);
        if git_dir.stat(dir).is_err() && !rest.is_empty() {
            let up = dir.iter().rposition(|b| *b == b'/');
            let (parent, last) = match up {
                Some(at) => (git_dir.open_dir(&dir[..at]).doing(doing)?, &dir[at + 1..]),
                None => (git_dir.reopen().doing(doing)?, dir),
            };
            parent.make_dir(last, 0o755).doing(doing)?;
        }
    }
    let mut file = git_dir.create_beneath(name, 0o644).doing(doing)?;
    file.write_all(content).doing(doing)?;
    Ok(file)
}

/// Git reads a file again whose time is not before that of the index. All files carry the commit's
/// time, so the index must be younger, even where that commit was made this second or in the
/// future.
pub(super) fn settle_index(file: &File, mtime_s: i64) -> Result<WrittenStat> {
    let doing = || String::from("cannot write the index");
    let now_s = file
        .metadata()
        .map(|meta| std::os::unix::fs::MetadataExt::mtime(&meta))
        .doing(doing)?;
    finish_file(file, now_s.max(mtime_s.saturating_add(1))).doing(doing)
}

/// Reads a file of the source, bounded; one that is not there is empty.
pub(super) fn read_source(dir: &DirFd, name: &[u8], bytes_max: u64) -> Result<Vec<u8>> {
    let doing = || format!("cannot read the repository's {}", name.escape_ascii());
    let file = match dir.open_file_following(name) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.doing(doing)?,
    };
    let mut bytes = Vec::new();
    if file.metadata().doing(doing)?.is_file() {
        file.take(bytes_max).read_to_end(&mut bytes).doing(doing)?;
    }
    Ok(bytes)
}
