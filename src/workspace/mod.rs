//! The private writable repository: exactly one commit, self-contained, nothing shared with the
//! source, no program run (group G of the requirements).
//!
//! The caller opens the repository, judges it (`survey`) and checks the target; [`seed`] then
//! builds everything under a hidden temporary name, checks what it wrote against the profile, and
//! publishes it by a rename.

mod cache;
mod overlay;
mod profile;
mod seed;
mod seed_pack;
mod selfcheck;
mod tar;
mod target;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use serde::Serialize;

use crate::git::{Commit, History, ObjectSource, PackProgress, Repository};

pub use cache::{ListedLayer, SeedCache};
pub use overlay::{Features, OverlayRecord, OverlaySeed, seed_overlay};
pub use profile::{OriginPolicy, OriginRecord, Profile};
pub use seed::seed;
pub use seed_pack::{
    PackTarget, SeedPackRecord, Unpacked, open_seed_pack, read_stream, seed_from_pack,
    write_seed_pack,
};
pub use tar::write_tar;
pub use target::Target;

/// What stands in the workspace beside `.git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkTreeKind {
    /// All files, written out.
    Files,
    /// A private layer for overlayfs, above a mount and a pack layer.
    Overlay,
    /// Nothing: the repository alone.
    None,
}

/// What is to be made.
pub struct SeedRequest<'a> {
    /// The repository that the commit comes from; read, never written.
    pub repository: &'a Repository,
    /// Its objects.
    pub objects: &'a dyn ObjectSource,
    /// The commit.
    pub commit: &'a Commit,
    /// How much history goes along.
    pub history: History,
    /// The branch that HEAD is on; `None` detaches it.
    pub branch: Option<&'a str>,
    /// What becomes of the remote `origin`.
    pub origin: OriginPolicy,
    /// What stands beside `.git`.
    pub work_tree: WorkTreeKind,
    /// Whether a pack layer is hashed before it is used again.
    pub verify: bool,
    /// Whether a note is a refusal (R90).
    pub strict: bool,
    /// The caps on what the tree spells.
    pub limits: crate::budget::Limits,
    /// How many threads work.
    pub threads: usize,
    /// The mode of the new directory itself.
    pub top_mode: u32,
}

impl std::fmt::Debug for SeedRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeedRequest")
            .field("commit", &self.commit.id)
            .field("history", &self.history)
            .field("work_tree", &self.work_tree)
            .finish_non_exhaustive()
    }
}

/// What was made; `forgefs.seed/1` without the features, which the caller adds.
#[derive(Debug, Clone, Serialize)]
pub struct SeedRecord {
    /// `forgefs.seed/1`.
    pub schema: &'static str,
    /// Where, absolute.
    pub dir: String,
    /// The profile that the self-check held it to.
    pub profile: Profile,
    /// The commit.
    pub base: String,
    /// Its tree.
    pub tree: String,
    /// `base`, `full` or the number of levels.
    pub history: String,
    /// Whether the source had less history than was asked for.
    pub history_truncated: bool,
    /// The branch; `null` where HEAD is detached.
    pub branch: Option<String>,
    /// What became of the remote.
    pub origin: OriginRecord,
    /// What stands beside `.git`.
    pub worktree: WorkTreeKind,
    /// Files, links and submodules in the commit.
    pub files: u64,
    /// Objects in the pack.
    pub objects: u32,
    /// The pack's name, without `pack-`.
    pub pack: String,
    /// SHA-256 of the pack.
    pub pack_sha256: String,
    /// Size of the pack in bytes.
    pub pack_bytes: u64,
    /// What the caller should know, one sentence each, with a stable word in front.
    pub notes: Vec<String>,
}

/// How far a seed is; read from another thread to show it.
#[derive(Debug, Default)]
pub struct SeedProgress {
    phase: AtomicU8,
    /// Objects that the pack will hold, once they are known.
    pub objects_total: AtomicU64,
    /// The pack.
    pub pack: PackProgress,
}

/// What a seed is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeedPhase {
    /// Walking history and trees.
    Counting,
    /// Writing the pack, and the files along with it.
    Packing,
    /// Writing what is left: files, index, the small files.
    Finishing,
}

impl SeedProgress {
    /// Returns what is going on.
    #[must_use]
    pub fn phase(&self) -> SeedPhase {
        match self.phase.load(Ordering::Relaxed) {
            0 => SeedPhase::Counting,
            1 => SeedPhase::Packing,
            _ => SeedPhase::Finishing,
        }
    }

    fn count(&self, closure: &crate::git::Closure) {
        let count = closure.object_count() as u64;
        self.objects_total.store(count, Ordering::Relaxed);
    }

    fn enter(&self, phase: SeedPhase) {
        let number = match phase {
            SeedPhase::Counting => 0,
            SeedPhase::Packing => 1,
            SeedPhase::Finishing => 2,
        };
        self.phase.store(number, Ordering::Relaxed);
    }
}
