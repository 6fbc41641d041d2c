//! The zoo (requirements 0.4, fixture 2): one commit with everything that git can hold and a file
//! system can show, in a store of every kind. Real git builds it; nothing is checked in.

use std::path::Path;

use super::repo::{Entry, Repo};
use super::rng::Rng;

/// A commit that nothing here has: gitlinks name it.
fn absent_id(format: &str) -> String {
    "1234".repeat(if format == "sha256" { 16 } else { 10 })
}

/// The repository of the zoo and its commits.
#[derive(Debug)]
pub(crate) struct Zoo {
    /// The repository; HEAD is unborn, refs are packed, half of the objects are in an alternate.
    pub(crate) repo: Repo,
    /// Everything that git's index can hold, so that both ways of the oracle can judge it.
    pub(crate) commit_id: String,
    /// An empty tree in a directory, beside a file.
    pub(crate) empty_tree_id: String,
    /// A commit of the empty tree itself.
    pub(crate) nothing_id: String,
    /// Modes that old gits wrote: 100664, 100600, 100777, 40755 and a zero-padded one.
    pub(crate) legacy_modes_id: String,
}

/// One file of the zoo.
pub(crate) struct Animal {
    pub(crate) name: Vec<u8>,
    pub(crate) mode: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// Returns the files of the zoo's main commit.
pub(crate) fn animals() -> Vec<Animal> {
    let mut rng = Rng::new(7);
    let mut list: Vec<Animal> = Vec::new();
    let mut add = |name: &[u8], mode: &'static str, bytes: &[u8]| {
        list.push(Animal {
            name: name.to_vec(),
            mode,
            bytes: bytes.to_vec(),
        });
    };
    add(b"README.md", "100644", b"# The zoo\n");
    add(b"copy-of-readme", "100644", b"# The zoo\n");
    add(b"run.sh", "100755", b"#!/bin/sh\necho ran from $0\n");
    add(b"empty", "100644", b"");
    add(b"crlf.txt", "100644", b"one\r\ntwo\r\nthree\n");
    add(b"attributes/crlf.txt", "100644", b"one\r\ntwo\r\n");
    add(b"attributes/id.c", "100644", b"/* $Id$ */\n");
    add(b"attributes/utf16.txt", "100644", "z\u{f6}o\n".as_bytes());
    add(b"attributes/version", "100644", b"$Format:%H$\n");
    add(
        b"attributes/secret",
        "100644",
        b"not exported by git archive\n",
    );
    add(
        b"attributes/filtered",
        "100644",
        b"a filter would eat this\n",
    );
    add(
        b".gitattributes",
        "100644",
        b"* text=auto\n*.c ident\nutf16.txt working-tree-encoding=UTF-16\nversion export-subst\n\
          secret export-ignore\nfiltered filter=eat\n*.bin filter=lfs diff=lfs -text\n*.bat eol=crlf\n",
    );
    add(
        b"lfs.bin",
        "100644",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f\
          32b1258daaa5e2ca24d17e2393\nsize 12345\n",
    );
    add(
        b".gitmodules",
        "100644",
        b"[submodule \"sub\"]\n\tpath = sub\n\turl = https://example.invalid/sub.git\n",
    );
    for (name, target) in [
        ("relative", "../README.md"),
        ("absolute", "/etc/passwd"),
        ("escaping", "../../../../../../../../etc/passwd"),
        ("dangling", "no-such-file"),
        ("to-directory", "../attributes"),
        ("to-itself", "to-itself"),
        ("newline", "a\nb\n"),
    ] {
        add(
            format!("links/{name}").as_bytes(),
            "120000",
            target.as_bytes(),
        );
    }
    add(b"links/long", "120000", "t/".repeat(2047).as_bytes());
    add(b"names/\xff\xfe not utf-8", "100644", b"bytes\n");
    add(b"names/new\nline", "100644", b"newline\n");
    add(b"names/-dash", "100644", b"dash\n");
    add(b"names/ space ", "100644", b"space\n");
    add(b"names/tab\there", "100644", b"tab\n");
    add(b"names/\"quoted\\", "100644", b"quoted\n");
    add(b"names/..dots", "100644", b"dots\n");
    add(b"names/...", "100644", b"three dots\n");
    add(b"names/Case", "100644", b"upper\n");
    add(b"names/case", "100644", b"lower\n");
    add("names/z\u{f6}o".as_bytes(), "100644", b"composed\n");
    add("names/zo\u{308}o".as_bytes(), "100644", b"decomposed\n");
    let longest = [b"names/".as_slice(), &[b'n'; 255]].concat();
    add(&longest, "100644", b"255 bytes\n");
    // Names around which a tree's order differs from that of plain names.
    for name in [
        "sort/a",
        "sort/a-b",
        "sort/a.b",
        "sort/a0",
        "sort/aa/f",
        "sort/aa-",
        "sort/aa0",
    ] {
        add(name.as_bytes(), "100644", name.as_bytes());
    }
    let nest = [b"d/".repeat(300).as_slice(), b"bottom"].concat();
    add(&nest, "100644", b"300 levels down\n");
    for (name, size) in [
        ("sizes/1", 1),
        ("sizes/4095", 4095),
        ("sizes/4096", 4096),
        ("sizes/4097", 4097),
        ("sizes/131073", 131_073),
        ("sizes/1048577", 1_048_577),
        ("sizes/3000000", 3_000_000),
    ] {
        add(name.as_bytes(), "100644", &rng.bytes(size));
    }
    // Versions of one text, so that the packs have deltas.
    let mut text = Vec::new();
    for line in 0..2000_u32 {
        text.extend_from_slice(format!("line {line} {:016x}\n", rng.next()).as_bytes());
    }
    for version in 0..8_u8 {
        text[usize::from(version) * 900] = b'#';
        add(
            format!("versions/{version}/text.txt").as_bytes(),
            "100644",
            &text,
        );
    }
    for n in 0..300_u32 {
        let mode = if n % 7 == 0 { "100755" } else { "100644" };
        let bytes = rng.bytes(usize::try_from(n).expect("small") * 3);
        add(format!("many/{:02}/{n}", n % 20).as_bytes(), mode, &bytes);
    }
    list
}

/// Writes a stream for `git fast-import` that commits these files.
fn import_stream(branch: &str, animals: &[Animal], links: &[(&str, &str)]) -> Vec<u8> {
    let mut stream = format!(
        "commit refs/heads/{branch}\ncommitter Ada Tester <ada@example.org> 1700000000 +0100\n\
         data 4\nzoo\n"
    )
    .into_bytes();
    for animal in animals {
        stream.extend_from_slice(format!("M {} inline ", animal.mode).as_bytes());
        stream.push(b'"');
        for byte in &animal.name {
            stream.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        }
        stream.extend_from_slice(format!("\"\ndata {}\n", animal.bytes.len()).as_bytes());
        stream.extend_from_slice(&animal.bytes);
        stream.push(b'\n');
    }
    for (name, id) in links {
        stream.extend_from_slice(format!("M 160000 {id} {name}\n").as_bytes());
    }
    stream.extend_from_slice(b"done\n");
    stream
}

fn import(repo: &Repo, stream: &[u8]) {
    let args = [
        "-c",
        "fastimport.unpackLimit=1",
        "fast-import",
        "--quiet",
        "--done",
    ];
    repo.git_run(args).stdin(stream).ok();
}

/// Builds the zoo in `path` and its alternate beside it; `format` is `sha1` or `sha256`.
pub(crate) fn zoo(path: &Path, format: &str) -> Zoo {
    let list = animals();
    let absent = absent_id(format);
    let links = [("sub", absent.as_str()), ("vendor/undeclared", &absent)];
    let base = Repo::init(&path.with_extension("alternate"), format);
    // Every eighth file is in the alternate alone.
    let shared: Vec<Animal> = animals().into_iter().step_by(8).collect();
    import(&base, &import_stream("base", &shared, &[]));
    let repo = Repo::init(path, format);
    let alternates = format!("{}\n", base.git_dir().join("objects").display());
    std::fs::write(repo.join(".git/objects/info/alternates"), alternates).expect("a new file");
    import(&repo, &import_stream("first", &list, &links));
    repo.git(["repack", "-q", "-a", "-d", "-l", "-f"]);
    import(&repo, &import_stream("second", &more(), &[]));
    repo.git(["multi-pack-index", "write"]);
    // The last layer is loose objects: a blob, a tree and the commit.
    let parent = repo.git(["rev-parse", "refs/heads/first"]);
    let loose = repo.blob("a loose object\n");
    let finished = repo.git_run(["ls-tree", "-z", "refs/heads/first"]).run();
    finished.exits(0);
    let mut lines = finished.stdout;
    lines.extend_from_slice(format!("100644 blob {loose}\tloose.txt\0").as_bytes());
    let tree_id = repo
        .git_run(["mktree", "-z", "--missing"])
        .stdin(lines)
        .ok();
    let commit_id = repo.commit_tree(&tree_id, &[&parent]);
    repo.set_main(&commit_id);
    let nothing = repo.tree(&[]);
    let holds_nothing = [Entry::dir("hollow", &nothing), Entry::file("f", &loose)];
    let empty_tree_id = repo.commit_tree(&repo.tree(&holds_nothing), &[]);
    let nothing_id = repo.commit_tree(&nothing, &[]);
    let legacy_modes_id = legacy_modes(&repo, &loose);
    for (name, id) in [
        ("empty-tree", &empty_tree_id),
        ("nothing", &nothing_id),
        ("legacy", &legacy_modes_id),
    ] {
        repo.git(["update-ref", &format!("refs/heads/{name}"), id]);
    }
    repo.git(["pack-refs", "--all"]);
    repo.git(["symbolic-ref", "HEAD", "refs/heads/unborn"]);
    Zoo {
        repo,
        commit_id,
        empty_tree_id,
        nothing_id,
        legacy_modes_id,
    }
}

/// A second pack, so that the multi-pack-index has something to join.
fn more() -> Vec<Animal> {
    let mut rng = Rng::new(11);
    (0..50_u32)
        .map(|n| Animal {
            name: format!("more/{n}").into_bytes(),
            mode: "100644",
            bytes: rng.bytes(200),
        })
        .collect()
}

fn legacy_modes(repo: &Repo, blob_id: &str) -> String {
    let inner = repo.raw_tree(&[Entry::file("f", blob_id)]);
    let tree_id = repo.raw_tree(&[
        Entry::file("a-664", blob_id).with_mode("100664"),
        Entry::file("b-600", blob_id).with_mode("100600"),
        Entry::file("c-777", blob_id).with_mode("100777"),
        Entry::dir("d-755", &inner).with_mode("40755"),
        Entry::dir("e-padded", &inner).with_mode("040000"),
    ]);
    repo.commit_tree(&tree_id, &[])
}

/// A commit of one directory with this many entries, all of one blob.
pub(crate) fn wide(repo: &Repo, count: u32) -> String {
    let blob_id = repo.blob("one of many\n");
    let entries: Vec<Entry> = (0..count)
        .map(|n| Entry::file(format!("entry-{n:06}"), &blob_id))
        .collect();
    let wide = repo.tree(&entries);
    let tree_id = repo.tree(&[Entry::dir("wide", &wide)]);
    repo.commit_tree(&tree_id, &[])
}
