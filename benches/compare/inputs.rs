//! The repositories that are measured: Linux's source and generated trees.

use std::path::{Path, PathBuf};

use crate::args::RunArgs;
use crate::generate::{Form, generate};
use crate::run::{Res, command, git, output, remove_tree, script, text};

/// The Debian package that Linux's source comes from.
const PACKAGE: &str = "linux-source-6.1";

/// One file, link or submodule of a commit.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// `100644`, `100755`, `120000`, `160000`.
    pub(crate) mode: String,
    /// The object's id.
    pub(crate) id: String,
    /// The path; generated and Linux's paths are all UTF-8 without line ends.
    pub(crate) path: String,
}

/// One repository and the commit that is measured.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// Its name in the report.
    pub(crate) name: String,
    /// The bare repository.
    pub(crate) repo: PathBuf,
    /// The full commit id.
    pub(crate) commit: String,
    /// The commit's tree id.
    pub(crate) tree: String,
    /// Files, links and submodules in git's order.
    pub(crate) entries: Vec<Entry>,
    /// Entries with directories, without the root.
    pub(crate) entries_total: u64,
    /// Bytes of all names, each path component once.
    pub(crate) name_bytes: u64,
}

impl Input {
    /// Reads what the report and the checks need to know of the commit on `main`.
    fn load(name: &str, repo: PathBuf) -> Res<Self> {
        let commit = text(&mut git(&repo, &["rev-parse", "HEAD"]))?;
        let tree = text(&mut git(&repo, &["rev-parse", "HEAD^{tree}"]))?;
        let listing = output(&mut git(&repo, &["ls-tree", "-r", "-t", "-z", &commit]))?;
        let mut input = Self {
            name: name.to_owned(),
            repo,
            commit,
            tree,
            entries: Vec::new(),
            entries_total: 0,
            name_bytes: 0,
        };
        for record in listing.split(|b| *b == 0).filter(|r| !r.is_empty()) {
            let record = String::from_utf8(record.to_vec())?;
            let (meta, path) = record.split_once('\t').ok_or("ls-tree without a tab")?;
            let mut words = meta.split(' ');
            let (mode, _, id) = (words.next(), words.next(), words.next());
            let (mode, id) = mode.zip(id).ok_or("ls-tree without an id")?;
            input.entries_total += 1;
            input.name_bytes += path.rsplit('/').next().map_or(0, str::len) as u64;
            if mode != "040000" {
                input.entries.push(Entry {
                    mode: mode.to_owned(),
                    id: id.to_owned(),
                    path: path.to_owned(),
                });
            }
        }
        Ok(input)
    }

    /// Returns the regular files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|e| e.mode.starts_with("100"))
    }
}

/// All inputs of a run.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Linux's source, or a small stand-in with `--tiny`.
    pub(crate) main: Input,
    /// Generated trees, the small ones first.
    pub(crate) generated: Vec<Input>,
}

/// Makes what is missing and loads everything. With `small`, the generated trees are left out that
/// no chosen scenario reads.
pub(crate) fn prepare(args: &RunArgs) -> Res<Inputs> {
    let dir = args.work.join("inputs");
    std::fs::create_dir_all(&dir)?;
    let main = if args.tiny {
        ready(&dir, "tiny", |repo| generate(repo, 2_000, Form::Packed))?
    } else {
        ready(&dir, "linux", |repo| linux(args, repo))?
    };
    let mut generated = Vec::new();
    if args.wants("first-byte") || args.wants("inputs") {
        let scale = if args.tiny { 50 } else { 1 };
        for (files, form) in [
            (10_000, Form::Loose),
            (10_000, Form::Packed),
            (10_000, Form::Deep),
            (100_000, Form::Packed),
            (500_000, Form::Packed),
        ] {
            let word = form.word();
            let name = if args.tiny {
                format!("tiny-{}k-{word}", files / 1000)
            } else {
                format!("{}k-{word}", files / 1000)
            };
            generated.push(ready(&dir, &name, |repo| {
                generate(repo, files / scale, form)
            })?);
        }
    }
    Ok(Inputs { main, generated })
}

/// Makes the input `name` unless an earlier run finished it.
fn ready(dir: &Path, name: &str, make: impl FnOnce(&Path) -> Res<()>) -> Res<Input> {
    let repo = dir.join(format!("{name}.git"));
    let marker = dir.join(format!("{name}.ready"));
    if !marker.exists() {
        eprintln!("bench: making the input {name}");
        remove_tree(&repo)?;
        make(&repo).map_err(|e| format!("cannot make the input {name}: {e}"))?;
        std::fs::write(&marker, "")?;
    }
    Input::load(name, repo)
}

/// Gets Linux's source: a clone of the repository under `--inputs`, else from Debian's package.
fn linux(args: &RunArgs, repo: &Path) -> Res<()> {
    if let Some(ready) = args.inputs.as_deref().map(|dir| dir.join("linux"))
        && ready.exists()
    {
        let mut clone = command("git");
        clone.args(["clone", "-q", "--bare"]).arg(&ready).arg(repo);
        output(&mut clone)?;
        output(&mut git(repo, &["config", "gc.auto", "0"]))?;
        return Ok(());
    }
    let work = repo.with_extension("work");
    remove_tree(&work)?;
    std::fs::create_dir_all(&work)?;
    // Fixed dates and author: the same commit id for the same package, on every machine.
    let steps = format!(
        "apt-get download -q {PACKAGE}
        dpkg-deb -x {PACKAGE}_*.deb deb
        mkdir tree
        tar -xf deb/usr/src/{PACKAGE}.tar.xz -C tree --strip-components=1
        export GIT_AUTHOR_NAME=bench GIT_AUTHOR_EMAIL=bench@example.com
        export GIT_COMMITTER_NAME=bench GIT_COMMITTER_EMAIL=bench@example.com
        export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
        cd tree
        git init -q -b main
        git config core.autocrlf false
        git config gc.auto 0
        git add -f -A .
        git commit -q -m linux-6.1
        git repack -adfq --depth=50 --window=10
        git config core.bare true
        mv .git \"$1\""
    );
    output(script(&work, &steps).arg(repo))?;
    remove_tree(&work)
}
