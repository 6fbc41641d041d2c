//! Repositories that real git makes, with fixed people and dates, hence fixed ids.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::command::Run;

/// One entry of a tree that a test builds.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    mode: String,
    kind: &'static str,
    id: String,
    name: Vec<u8>,
}

impl Entry {
    fn new(mode: &str, kind: &'static str, name: impl AsRef<[u8]>, id: &str) -> Self {
        Self {
            mode: mode.to_owned(),
            kind,
            id: id.to_owned(),
            name: name.as_ref().to_vec(),
        }
    }

    /// A file, 100644.
    pub(crate) fn file(name: impl AsRef<[u8]>, id: &str) -> Self {
        Self::new("100644", "blob", name, id)
    }

    /// A program, 100755.
    pub(crate) fn program(name: impl AsRef<[u8]>, id: &str) -> Self {
        Self::new("100755", "blob", name, id)
    }

    /// A symbolic link.
    pub(crate) fn link(name: impl AsRef<[u8]>, id: &str) -> Self {
        Self::new("120000", "blob", name, id)
    }

    /// A directory.
    pub(crate) fn dir(name: impl AsRef<[u8]>, id: &str) -> Self {
        Self::new("40000", "tree", name, id)
    }

    /// A submodule.
    pub(crate) fn gitlink(name: impl AsRef<[u8]>, id: &str) -> Self {
        Self::new("160000", "commit", name, id)
    }

    /// The same entry with the mode written as `mode`, which need not be one of git's.
    pub(crate) fn with_mode(mut self, mode: &str) -> Self {
        self.mode = mode.to_owned();
        self
    }

    /// The entry as a tree object stores it.
    pub(crate) fn raw(&self) -> Vec<u8> {
        let mut bytes = format!("{} ", self.mode).into_bytes();
        bytes.extend_from_slice(&self.name);
        bytes.push(0);
        for pair in self.id.as_bytes().chunks(2) {
            let pair = std::str::from_utf8(pair).expect("hex");
            bytes.push(u8::from_str_radix(pair, 16).expect("hex"));
        }
        bytes
    }
}

/// A repository of a test.
#[derive(Debug, Clone)]
pub(crate) struct Repo {
    path: PathBuf,
}

impl Repo {
    /// Makes an empty repository with a work tree; `format` is `sha1` or `sha256`.
    pub(crate) fn init(path: &Path, format: &str) -> Self {
        std::fs::create_dir_all(path).expect("a new directory");
        let repo = Self::at(path);
        let format = format!("--object-format={format}");
        repo.git(["init", "-q", "-b", "main", "--template=", &format]);
        repo
    }

    /// Names a repository that exists.
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Returns where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path below it.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Prepares git here, with nothing of this host's or user's configuration.
    pub(crate) fn git_run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Run {
        let person = |run: Run, role: &str| {
            run.env(format!("GIT_{role}_NAME"), "Ada Tester")
                .env(format!("GIT_{role}_EMAIL"), "ada@example.org")
                .env(format!("GIT_{role}_DATE"), "1700000000 +0100")
        };
        let run = Run::new("git")
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .args(["-c", "safe.directory=*", "-c", "gc.auto=0"])
            .args([
                "-c",
                "protocol.file.allow=always",
                "-c",
                "core.autocrlf=false",
            ])
            .dir(&self.path)
            .args(args);
        person(person(run, "AUTHOR"), "COMMITTER")
    }

    /// Runs git here and returns what it says.
    #[track_caller]
    pub(crate) fn git<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        self.git_run(args).ok()
    }

    /// Writes a blob.
    #[track_caller]
    pub(crate) fn blob(&self, bytes: impl AsRef<[u8]>) -> String {
        self.git_run(["hash-object", "-w", "--stdin"])
            .stdin(bytes)
            .ok()
    }

    /// Writes a tree with git's own sorting; what it names need not exist.
    #[track_caller]
    pub(crate) fn tree(&self, entries: &[Entry]) -> String {
        let mut lines = Vec::new();
        for entry in entries {
            let head = format!("{} {} {}\t", entry.mode, entry.kind, entry.id);
            lines.extend_from_slice(head.as_bytes());
            lines.extend_from_slice(&entry.name);
            lines.push(0);
        }
        self.git_run(["mktree", "-z", "--missing"])
            .stdin(lines)
            .ok()
    }

    /// Writes a tree exactly as given, whatever git would say to it.
    #[track_caller]
    pub(crate) fn raw_tree(&self, entries: &[Entry]) -> String {
        let bytes: Vec<u8> = entries.iter().flat_map(Entry::raw).collect();
        self.raw_object("tree", &bytes)
    }

    /// Writes any object exactly as given.
    #[track_caller]
    pub(crate) fn raw_object(&self, kind: &str, bytes: &[u8]) -> String {
        self.git_run(["hash-object", "-w", "--stdin", "--literally", "-t", kind])
            .stdin(bytes)
            .ok()
    }

    /// Writes a commit of a tree.
    #[track_caller]
    pub(crate) fn commit_tree(&self, tree_id: &str, parent_ids: &[&str]) -> String {
        let mut args = vec!["commit-tree", tree_id, "-m", "test"];
        for id in parent_ids {
            args.extend(["-p", id]);
        }
        self.git(args)
    }

    /// Commits these files, on top of the branch, and returns the commit's id.
    #[track_caller]
    pub(crate) fn commit_files(&self, files: &[(&str, &[u8])]) -> String {
        for (name, bytes) in files {
            let path = self.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a new directory");
            std::fs::write(&path, bytes).expect("a new file");
        }
        self.git(["add", "-A", "-f"]);
        self.git(["commit", "-q", "--allow-empty", "-m", "test"]);
        self.head()
    }

    /// Returns the id of the commit that `HEAD` names.
    #[track_caller]
    pub(crate) fn head(&self) -> String {
        self.git(["rev-parse", "HEAD"])
    }

    /// Returns the id of a commit's tree, replacements or not.
    #[track_caller]
    pub(crate) fn tree_of(&self, commit_id: &str) -> String {
        self.git([
            "--no-replace-objects",
            "rev-parse",
            &format!("{commit_id}^{{tree}}"),
        ])
    }

    /// Points the branch `main` at a commit.
    #[track_caller]
    pub(crate) fn set_main(&self, commit_id: &str) {
        self.git(["update-ref", "refs/heads/main", commit_id]);
    }

    /// Returns the file of a loose object.
    pub(crate) fn loose_path(&self, id: &str) -> PathBuf {
        self.git_dir().join("objects").join(&id[..2]).join(&id[2..])
    }

    /// Returns its git directory.
    pub(crate) fn git_dir(&self) -> PathBuf {
        let inside = self.join(".git");
        if inside.exists() {
            inside
        } else {
            self.path.clone()
        }
    }

    /// Returns every path of a commit with its mode and id, in git's order.
    #[track_caller]
    pub(crate) fn listing(&self, commit_id: &str) -> Vec<Listed> {
        let run = self.git_run([
            "--no-replace-objects",
            "ls-tree",
            "-r",
            "-t",
            "-z",
            commit_id,
        ]);
        let finished = run.run();
        finished.exits(0);
        let lines = finished.stdout.split(|b| *b == 0).filter(|l| !l.is_empty());
        lines
            .map(|line| {
                let tab = line.iter().position(|b| *b == b'\t').expect("a tab");
                let head = String::from_utf8_lossy(&line[..tab]).into_owned();
                let mut words = head.split(' ');
                let mode = words.next().expect("a mode").to_owned();
                let id = words.nth(1).expect("an id").to_owned();
                let name = PathBuf::from(OsStr::from_bytes(&line[tab + 1..]));
                Listed { mode, id, name }
            })
            .collect()
    }

    /// Returns the bytes of a blob, as git gives them.
    #[track_caller]
    pub(crate) fn cat(&self, blob_id: &str) -> Vec<u8> {
        let finished = self.git_run(["cat-file", "blob", blob_id]).run();
        finished.exits(0);
        finished.stdout
    }

    /// Packs everything reachable into one pack, loose objects gone.
    #[track_caller]
    pub(crate) fn pack(&self) {
        self.git(["repack", "-q", "-adf"]);
        self.git(["prune-packed", "-q"]);
    }

    /// Returns the files of its pack directory with this suffix.
    pub(crate) fn pack_files(&self, suffix: &str) -> Vec<PathBuf> {
        let dir = self.git_dir().join("objects/pack");
        let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
            .expect("a pack directory")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.to_string_lossy().ends_with(suffix))
            .collect();
        paths.sort();
        paths
    }
}

/// One path of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The mode, six digits.
    pub(crate) mode: String,
    /// The object's id.
    pub(crate) id: String,
    /// The path.
    pub(crate) name: PathBuf,
}
