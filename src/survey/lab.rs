//! Small repositories made by real git, read back by real git, for the tests of the survey.

use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Verdict::{self, Noted, Supported};
use super::*;
use crate::budget::Limits;
use crate::git::{HashKind, RepositoryFacts};
use crate::git::{Kind, MemorySource, Oid, RefStorage, load_commit};
use crate::sys::DirFd;

pub(super) struct Lab {
    pub(super) dir: tempfile::TempDir,
    pub(super) repo: PathBuf,
}

impl Lab {
    pub(super) fn new(init: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        let lab = Self { dir, repo };
        let args = [&["init", "-q", "repo"], init].concat();
        lab.git_in(lab.dir.path(), &args, b"");
        lab
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tests ask real git; it is the oracle"
    )]
    pub(super) fn git_in(&self, dir: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
        let who = ["AUTHOR", "COMMITTER"];
        let mut command = Command::new("git");
        for role in who {
            command
                .env(format!("GIT_{role}_NAME"), "A")
                .env(format!("GIT_{role}_EMAIL"), "a@b")
                .env(format!("GIT_{role}_DATE"), "1700000000 +0000");
        }
        let mut child = command
            .current_dir(dir)
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let out = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "git {args:?}: {stderr}");
        out.stdout
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        let out = self.git_in(&self.repo, args, b"");
        String::from_utf8(out).unwrap().trim().to_owned()
    }

    pub(super) fn file(&self, path: &str, content: &[u8]) -> &Self {
        let path = self.repo.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(super) fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "c", "--allow-empty"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Commits a tree of rows `mode name content`, which need be nothing that git would write.
    pub(super) fn commit_tree(&self, rows: &[Entry<'_>]) -> String {
        let mut tree = Vec::new();
        for (mode, name, content) in rows {
            let kind = if mode.trim_start_matches('0').starts_with('4') {
                "tree"
            } else {
                "blob"
            };
            let args = ["hash-object", "-t", kind, "--literally", "-w", "--stdin"];
            let id = self.git_in(&self.repo, &args, content);
            let id = Oid::from_hex(id.trim_ascii()).unwrap();
            tree.extend_from_slice(mode.as_bytes());
            tree.push(b' ');
            tree.extend_from_slice(name);
            tree.push(0);
            tree.extend_from_slice(id.as_slice());
        }
        let args = ["hash-object", "-t", "tree", "--literally", "-w", "--stdin"];
        let tree_id = self.git_in(&self.repo, &args, &tree);
        let tree_id = String::from_utf8(tree_id).unwrap();
        self.git(&["commit-tree", "-m", "c", tree_id.trim()])
    }

    /// Makes another repository from this one.
    pub(super) fn clone(&self, args: &[&str]) -> Self {
        self.git(&["config", "uploadpack.allowFilter", "true"]);
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}", self.repo.display());
        let args = [&["clone", "-q"], args, &[url.as_str(), "repo"]].concat();
        self.git_in(dir.path(), &args, b"");
        let repo = dir.path().join("repo");
        Self { dir, repo }
    }

    /// Reads all objects that are here with git into memory.
    pub(super) fn objects(&self, hash_kind: HashKind) -> MemorySource {
        let args = ["cat-file", "--batch-all-objects", "--batch"];
        let out = self.git_in(&self.repo, &args, b"");
        let mut rest = &out[..];
        let mut source = MemorySource::new(hash_kind);
        let mut line = String::new();
        while rest.read_line(&mut line).unwrap() > 0 {
            let words: Vec<&str> = line.split_whitespace().collect();
            let kind = Kind::from_bytes(words[1].as_bytes()).unwrap();
            let mut content = vec![0; words[2].parse().unwrap()];
            rest.read_exact(&mut content).unwrap();
            assert_eq!(source.insert(kind, content).unwrap().to_string(), words[0]);
            rest.read_exact(&mut [0]).unwrap();
            line.clear();
        }
        source
    }

    pub(super) fn facts(&self) -> RepositoryFacts {
        let sha256 = self.git(&["rev-parse", "--show-object-format"]) == "sha256";
        let hash_kind = if sha256 {
            HashKind::Sha256
        } else {
            HashKind::Sha1
        };
        let git_dir = self.git(&["rev-parse", "--absolute-git-dir"]);
        let common = self.repo.join(self.git(&["rev-parse", "--git-common-dir"]));
        let refs = match common.join("reftable").exists() {
            true => RefStorage::Reftable,
            false => RefStorage::Files,
        };
        let open = |path: &Path| DirFd::open(path).unwrap();
        RepositoryFacts::gather(&open(Path::new(&git_dir)), &open(&common), hash_kind, refs)
    }

    pub(super) fn survey(&self, commit_id: &str, depth: Depth) -> Survey {
        let facts = self.facts();
        let objects = self.objects(facts.hash_kind);
        let id = Oid::from_hex(commit_id.as_bytes()).unwrap();
        let commit = load_commit(&objects, &id).unwrap();
        let mut budget = Budget::new(Limits::default());
        survey_with(&facts, &objects, &commit, depth, &mut budget).unwrap()
    }
}

/// A row that is present: name, verdict for a snapshot, verdict for a seed.
pub(super) type Row<'a> = (&'a str, Verdict, Verdict);

/// An entry of a tree: mode, name, content.
pub(super) type Entry<'a> = (&'a str, &'a [u8], &'a [u8]);

/// Asserts that just these rows are present, with these verdicts, in a full survey.
pub(super) fn assert_rows(survey: &Survey, want: &[Row<'_>]) {
    assert_eq!(survey.features.len(), 24);
    assert!(survey.features.iter().all(|row| !row.detail.is_empty()));
    let got: Vec<_> = survey
        .features
        .iter()
        .filter(|row| row.present)
        .map(|row| (row.name, row.snapshot, row.seed))
        .collect();
    assert_eq!(got, want, "{:#?}", survey.features);
    for row in survey.features.iter().filter(|row| !row.present) {
        let verdicts = (row.snapshot, row.seed);
        assert_eq!(verdicts, (Supported, Supported), "{}", row.name);
    }
}

pub(super) const fn noted(name: &str) -> Row<'_> {
    (name, Noted, Noted)
}

/// Makes a FIFO.
#[expect(clippy::disallowed_methods, reason = "mkfifo(1) makes the fixture")]
pub(super) fn make_fifo(path: &Path) -> bool {
    Command::new("mkfifo").arg(path).status().unwrap().success()
}
