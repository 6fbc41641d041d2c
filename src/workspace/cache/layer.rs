//! One layer: what is recorded of it, and whether it still is that.

use std::io::{Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::git::{PackRecord, sha256_hex};
use crate::sys::{DirFd, FileKind, make_and_open_dir, os_name, process};

/// The schema of [`LayerRecord`], and the file that holds it.
pub(super) const SCHEMA: &str = "forgefs.layer/1";
pub(super) const RECORD: &str = "layer.json";

const PACK_DIR: &[u8] = b"layer/.git/objects/pack";

/// What is known of a layer; kept as `layer.json` beside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::workspace) struct LayerRecord {
    /// `forgefs.layer/1`.
    pub(in crate::workspace) schema: String,
    /// The commit.
    pub(in crate::workspace) commit: String,
    /// Its tree.
    pub(in crate::workspace) tree: String,
    /// The time that the index has for every file, seconds since 1970.
    pub(in crate::workspace) mtime_s: i64,
    /// `base`, `full` or a number of levels.
    pub(in crate::workspace) history: String,
    /// Whether the source had less than that.
    pub(in crate::workspace) history_truncated: bool,
    /// Files, links and submodules of the commit.
    pub(in crate::workspace) files: u64,
    /// Objects in the pack.
    pub(in crate::workspace) objects: u32,
    /// The pack's name, without `pack-`.
    pub(in crate::workspace) pack: String,
    /// Size and SHA-256 of each file, the pack first.
    pub(in crate::workspace) contents: Vec<LayerFile>,
    /// The boot in which the files were last hashed: after a crash of the host they are again.
    pub(in crate::workspace) boot: String,
    /// What `doctor` says of the commit.
    pub(in crate::workspace) features: serde_json::Value,
    /// One line for each noted feature.
    pub(in crate::workspace) notes: Vec<String>,
}

/// One file of a layer, or beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::workspace) struct LayerFile {
    /// Path below the layer's directory in the cache.
    pub(in crate::workspace) path: String,
    /// Size in bytes.
    pub(in crate::workspace) bytes: u64,
    /// SHA-256 in hex.
    pub(in crate::workspace) sha256: String,
}

/// A layer that is whole and may be used.
#[derive(Debug)]
pub(in crate::workspace) struct Layer {
    pub(super) dir: DirFd,
    pub(super) path: PathBuf,
    /// What is known of it.
    pub(in crate::workspace) record: LayerRecord,
}

impl Layer {
    /// Returns the directory that overlayfs puts between the mount and the upper layer.
    #[must_use]
    pub(in crate::workspace) fn lower_dir(&self) -> PathBuf {
        self.path.join("layer")
    }

    /// Opens a file beside the layer.
    ///
    /// # Errors
    /// What opening says.
    pub(in crate::workspace) fn open(&self, name: &str) -> Result<std::fs::File> {
        self.dir
            .open_file(name.as_bytes())
            .doing(|| format!("cannot open {name} of the pack layer"))
    }

    /// Checks owner, mode and size of every file, and the content where `by_hash`.
    pub(super) fn check(&self, by_hash: bool) -> Result<()> {
        let bad = |file: &LayerFile, what: &str| {
            Error::new(
                ErrorKind::Corrupt,
                "corrupt-layer",
                format!(
                    "the pack layer's {} {what}; it is not used again",
                    file.path
                ),
            )
            .at(self.path.join(&file.path))
        };
        let (uid, _) = process::effective_ids();
        for file in &self.record.contents {
            let stat = self
                .dir
                .open_dir(
                    file.path
                        .rsplit_once('/')
                        .map_or(".", |(dir, _)| dir)
                        .as_bytes(),
                )
                .and_then(|dir| dir.stat(file.path.rsplit('/').next().unwrap_or("").as_bytes()))
                .map_err(|e| bad(file, "cannot be found").caused_by(e))?;
            let is_right = stat.kind == FileKind::File
                && stat.uid == uid
                && stat.mode & 0o222 == 0
                && stat.nlink == 1
                && stat.size == file.bytes;
            if !is_right {
                return Err(bad(
                    file,
                    "has another size, owner, mode or number of names",
                ));
            }
            if by_hash && sha256_hex(&mut self.open(&file.path)?)? != file.sha256 {
                return Err(bad(file, "has another content"));
            }
        }
        let listed = self
            .dir
            .open_dir(PACK_DIR)
            .and_then(|dir| dir.list())
            .doing(|| String::from("cannot list the pack layer"))?;
        if listed.len() != 3 {
            return Err(Error::new(
                ErrorKind::Corrupt,
                "corrupt-layer",
                "the pack layer does not hold three files",
            )
            .at(&self.path));
        }
        Ok(())
    }
}

/// Returns what tells this boot of the host from others; empty where nothing does.
pub(super) fn boot_id() -> String {
    let mut text = String::new();
    let read = std::fs::File::open("/proc/sys/kernel/random/boot_id")
        .and_then(|file| file.take(64).read_to_string(&mut text));
    match read {
        Ok(_) => text.trim().to_owned(),
        Err(_) => String::new(),
    }
}

/// Makes the directories of a layer in `staging` and returns the one for the pack.
pub(in crate::workspace) fn make_pack_dir(staging: &DirFd) -> Result<DirFd> {
    let doing = || String::from("cannot make a pack layer");
    let mut dir = make_and_open_dir(staging, b"layer", 0o755).doing(doing)?;
    for name in [&b".git"[..], b"objects", b"pack"] {
        dir = make_and_open_dir(&dir, name, 0o755).doing(doing)?;
    }
    Ok(dir)
}

/// Writes a file beside the layer.
pub(in crate::workspace) fn write_beside(
    staging: &DirFd,
    name: &str,
    content: &[u8],
) -> Result<()> {
    let doing = || format!("cannot write {name} of a pack layer");
    let mut file = staging
        .create_beneath(name.as_bytes(), 0o444)
        .doing(doing)?;
    file.write_all(content).doing(doing)
}

/// Returns size and hash of the files of a new layer: of the pack (whose hash is known) and of what
/// else was written.
pub(in crate::workspace) fn contents(
    staging: &DirFd,
    pack: &PackRecord,
    beside: &[&str],
) -> Result<Vec<LayerFile>> {
    let mut out = vec![LayerFile {
        path: format!(
            "{}/{}",
            os_name(PACK_DIR).to_string_lossy(),
            pack.file_name("pack")
        ),
        bytes: pack.bytes,
        sha256: pack.sha256.clone(),
    }];
    let others = ["idx", "rev"].map(|suffix| {
        format!(
            "{}/{}",
            os_name(PACK_DIR).to_string_lossy(),
            pack.file_name(suffix)
        )
    });
    for path in others
        .into_iter()
        .chain(beside.iter().map(ToString::to_string))
    {
        let doing = || format!("cannot read {path} back");
        let mut file = staging.open_file(path.as_bytes()).doing(doing)?;
        let bytes = file.metadata().doing(doing)?.len();
        let sha256 = sha256_hex(&mut file)?;
        out.push(LayerFile {
            path,
            bytes,
            sha256,
        });
    }
    Ok(out)
}

/// Returns the record of a new layer, without what the caller knows of the commit.
pub(in crate::workspace) fn new_record(
    commit: String,
    tree: String,
    pack: &PackRecord,
) -> LayerRecord {
    LayerRecord {
        schema: SCHEMA.to_owned(),
        commit,
        tree,
        mtime_s: 0,
        history: String::new(),
        history_truncated: false,
        files: 0,
        objects: pack.objects,
        pack: pack.name.to_string(),
        contents: Vec::new(),
        boot: boot_id(),
        features: serde_json::Value::Null,
        notes: Vec::new(),
    }
}
