//! Generated repositories: seeded, so that every machine measures the same bytes.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Stdio;

use crate::run::{Res, git, output, remove_tree};

/// How a generated repository keeps its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One file for each object.
    Loose,
    /// One pack, deltas up to 50 deep, as git makes them unless told otherwise.
    Packed,
    /// One pack, deltas up to 250 deep, as `git gc --aggressive` once made them.
    Deep,
}

impl Form {
    /// Returns the word for names of inputs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Loose => "loose",
            Self::Packed => "packed",
            Self::Deep => "deep",
        }
    }
}

/// Files in one directory; directories hold at most this many directories too.
const FILES_A_DIRECTORY: u64 = 50;
/// Files that are edits of one another, so that packs have deltas.
const FILES_A_FAMILY: u64 = 400;
const WORDS: [&str; 16] = [
    "static", "int", "return", "struct", "if", "else", "while", "const", "void", "break",
    "unsigned", "long", "case", "switch", "sizeof", "goto",
];

/// A small generator of numbers (xorshift64*): the same on every machine and for ever.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Starts with `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Returns one line of text that looks a little like source.
fn line(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..=random.below(6) {
        let word = WORDS[usize::try_from(random.below(16)).unwrap_or(0)];
        text.push_str(word);
        text.push(' ');
    }
    text.push_str(&format!("v{:x};\n", random.below(0xffff)));
    text
}

/// Returns the path of file `index`: 50 files a directory, at most 50 directories in one.
pub(crate) fn path(index: u64) -> String {
    let directory = index / FILES_A_DIRECTORY;
    let file = index % FILES_A_DIRECTORY;
    format!(
        "d{:02}/d{:02}/d{:02}/file-{file:02}-{index}.c",
        directory / 2500,
        directory / 50 % 50,
        directory % 50
    )
}

/// Writes the stream of `git fast-import` for one commit of `files` files.
fn write_stream(out: &mut dyn Write, files: u64) -> std::io::Result<()> {
    let message = "generated\n";
    writeln!(out, "commit refs/heads/main")?;
    writeln!(out, "committer bench <bench@example.com> 1700000000 +0000")?;
    writeln!(out, "data {}\n{message}", message.len())?;
    let mut lines: Vec<String> = Vec::new();
    for index in 0..files {
        let mut random = Random::new(index + 1);
        if index % FILES_A_FAMILY == 0 {
            lines = (0..10 + random.below(60))
                .map(|_| line(&mut random))
                .collect();
        } else {
            for _ in 0..3 {
                let at = usize::try_from(random.below(lines.len() as u64)).unwrap_or(0);
                lines[at] = line(&mut random);
            }
        }
        let content = lines.concat();
        let mode = if index % 97 == 0 { "100755" } else { "100644" };
        writeln!(out, "M {mode} inline {}", path(index))?;
        writeln!(out, "data {}\n{content}", content.len())?;
    }
    writeln!(out, "done")?;
    out.flush()
}

/// Makes the bare repository `repo` with one commit of `files` files on `main`.
pub(crate) fn generate(repo: &Path, files: u64, form: Form) -> Res<()> {
    remove_tree(repo)?;
    std::fs::create_dir_all(repo)?;
    output(&mut git(repo, &["init", "-q", "--bare", "-b", "main"]))?;
    output(&mut git(repo, &["config", "gc.auto", "0"]))?;
    // fast-import makes each blob a delta of the one before, until the chain is this long.
    let depth = match form {
        Form::Loose | Form::Packed => "--depth=50",
        Form::Deep => "--depth=250",
    };
    let mut import = git(
        repo,
        &[
            "-c",
            "fastimport.unpackLimit=1",
            "fast-import",
            "--done",
            depth,
            "--quiet",
        ],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::null())
    .spawn()?;
    let pipe = import.stdin.take().ok_or("fast-import has no input")?;
    let written = write_stream(&mut BufWriter::with_capacity(1 << 20, pipe), files);
    let status = import.wait()?;
    if !status.success() {
        return Err(format!("git fast-import: {status}").into());
    }
    written?;
    if form == Form::Loose {
        unpack(repo)?;
    }
    Ok(())
}

/// Turns the packs of `repo` into loose objects.
fn unpack(repo: &Path) -> Res<()> {
    let packs = repo.join("objects/pack");
    let aside = repo.join("aside");
    std::fs::rename(&packs, &aside)?;
    std::fs::create_dir(&packs)?;
    for entry in std::fs::read_dir(&aside)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "pack") {
            let mut unpack = git(repo, &["unpack-objects", "-q"]);
            output(unpack.stdin(std::fs::File::open(path)?))?;
        }
    }
    remove_tree(&aside)
}
