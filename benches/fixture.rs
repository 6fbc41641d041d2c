//! A small seeded repository with objects of every kind that the benches read, and git at work on
//! it: one pack with delta chains up to 50 deep, and one loose object.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use forgefs::git::{ObjectSource, Oid, Repository, StoreOptions};

/// Versions of the file that becomes a chain of deltas.
const VERSIONS: u32 = 60;
/// Lines of that file: about 12 KB, the mean of a source file.
const LINES: u32 = 400;
/// Files of the wide directory.
pub(crate) const WIDE: u32 = 1000;
/// What is read of the objects' places in the chain.
pub(crate) const DEPTHS: [u32; 4] = [0, 1, 10, 50];

/// The repository and where things are in it.
#[derive(Debug)]
pub(crate) struct Fixture {
    _dir: tempfile::TempDir,
    /// The bare repository.
    pub(crate) repo: PathBuf,
    /// A directory with the files of the commit, as `git archive | tar x` gives them.
    pub(crate) checkout: PathBuf,
    /// The commit.
    pub(crate) commit: Oid,
    /// The tree of the wide directory.
    pub(crate) wide_tree: Oid,
    /// A blob in the pack for each of [`DEPTHS`].
    pub(crate) by_depth: Vec<(u32, Oid)>,
    /// A blob in a file of its own.
    pub(crate) loose: Oid,
}

impl Fixture {
    /// Makes the repository with git.
    pub(crate) fn make() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo.git");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "--bare", "-b", "main"], b"");
        // fast-import makes each blob a delta of the one before, until the chain is this long.
        let import = [
            "-c",
            "fastimport.unpackLimit=1",
            "fast-import",
            "--depth=50",
            "--quiet",
        ];
        git(&repo, &import, stream().as_bytes());
        let loose = text(12_345, LINES).concat();
        let loose = id(&git(
            &repo,
            &["hash-object", "-w", "--stdin"],
            loose.as_bytes(),
        ));
        let commit = id(&git(&repo, &["rev-parse", "HEAD"], b""));
        let checkout = dir.path().join("checkout");
        std::fs::create_dir(&checkout).unwrap();
        let work_tree = format!("--work-tree={}", checkout.display());
        let checked_out = [
            &work_tree,
            "-c",
            "core.bare=false",
            "checkout",
            "-q",
            "-f",
            "main",
        ];
        git(&repo, &checked_out, b"");
        Self {
            wide_tree: id(&git(&repo, &["rev-parse", "HEAD:wide"], b"")),
            by_depth: by_depth(&repo),
            commit,
            loose,
            checkout,
            repo,
            _dir: dir,
        }
    }

    /// Returns the absolute path of every file of the checkout.
    pub(crate) fn files(&self) -> Vec<String> {
        let names = git(&self.repo, &["ls-tree", "-r", "--name-only", "main"], b"");
        let path = |name: &str| self.checkout.join(name).to_str().unwrap().to_owned();
        names.lines().map(path).collect()
    }

    /// Opens our reader with so many bytes for delta bases.
    pub(crate) fn source(&self, base_cache_bytes: u64) -> Arc<dyn ObjectSource> {
        let options = StoreOptions {
            base_cache_bytes,
            ..StoreOptions::default()
        };
        let repository = Repository::open(&self.repo).unwrap();
        Arc::new(repository.store(&options).unwrap())
    }

    /// Opens gix; without a cache for delta bases where `has_cache` is false.
    pub(crate) fn gix(&self, has_cache: bool) -> gix::Repository {
        let mut repo = gix::open_opts(&self.repo, gix::open::Options::isolated()).unwrap();
        if !has_cache {
            repo.objects.unset_pack_cache();
        }
        repo
    }
}

/// Returns `count` lines that look a little like source.
fn text(seed: u64, count: u32) -> Vec<String> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut lines = Vec::new();
    for _ in 0..count {
        let mut line = String::from("\treturn");
        for _ in 0..3 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let _ = write!(line, " v{:x}", state & 0xffff);
        }
        lines.push(line + ";\n");
    }
    lines
}

/// The stream of `git fast-import`: the versions of one file, and a wide directory.
fn stream() -> String {
    let mut out = String::from(
        "commit refs/heads/main\ncommitter bench <bench@example.com> 1700000000 +0000\ndata 1\nm\n",
    );
    let mut file = |path: &str, content: &str| {
        let _ = write!(
            out,
            "M 100644 inline {path}\ndata {}\n{content}\n",
            content.len()
        );
    };
    let mut lines = text(1, LINES);
    for version in 0..VERSIONS {
        // Two more lines at the end, and one that differs in place.
        let seed = 1000 + u64::from(version);
        lines.extend(text(seed, 2));
        lines.splice(100..101, text(seed * 7, 1));
        file(&format!("chain/version-{version:03}.c"), &lines.concat());
    }
    for index in 0..WIDE {
        let content = text(5000 + u64::from(index), 5 + index % 90).concat();
        file(&format!("wide/file-{index:04}.c"), &content);
    }
    out
}

/// Finds a blob at each of [`DEPTHS`] in the only pack.
fn by_depth(repo: &Path) -> Vec<(u32, Oid)> {
    let pack = std::fs::read_dir(repo.join("objects/pack"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ext| ext == "idx"))
        .unwrap();
    let listing = git(repo, &["verify-pack", "-v", &pack.to_string_lossy()], b"");
    let versions = git(repo, &["ls-tree", "-r", "main:chain"], b"");
    let mut first_at = HashMap::new();
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_version = words.first().is_some_and(|id| versions.contains(id));
        if is_version && words.get(1) == Some(&"blob") {
            let depth: u32 = words.get(5).map_or(0, |depth| depth.parse().unwrap());
            first_at.entry(depth).or_insert_with(|| id(words[0]));
        }
    }
    DEPTHS
        .iter()
        .map(|depth| (*depth, *first_at.get(depth).expect("a chain 50 deep")))
        .collect()
}

fn id(text: &str) -> Oid {
    Oid::from_hex(text.trim().as_bytes()).unwrap()
}

/// Returns a git command on `repo`, cut off from all configuration.
pub(crate) fn git_command(repo: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_DIR", repo)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Runs git with `input` and returns what it printed.
fn git(repo: &Path, args: &[&str], input: &[u8]) -> String {
    let mut child = git_command(repo, args).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "git {args:?}: {}", done.status);
    String::from_utf8(done.stdout).unwrap()
}

/// A git process that answers one line at a time, so that its start is not measured.
#[derive(Debug)]
pub(crate) struct Asked {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Asked {
    /// Starts it.
    pub(crate) fn start(repo: &Path, args: &[&str]) -> Self {
        let mut child = git_command(repo, args).spawn().unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Sends one line and returns the line that answers it.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer
    }

    /// Reads one object from `git cat-file --batch` and returns its size.
    pub(crate) fn read(&mut self, id: &Oid, buffer: &mut Vec<u8>) -> usize {
        let answer = self.ask(&id.to_string());
        let size: usize = answer.rsplit(' ').next().unwrap().trim().parse().unwrap();
        buffer.resize(size + 1, 0);
        self.output.read_exact(buffer).unwrap();
        size
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}
