//! Every object of real repositories, read through the store, equals what git and gix say (R5, R9,
//! R12).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::super::{Kind, ObjectSource, Oid, Repository};
use super::{Store, StoreOptions};

/// An object as git tells it.
pub(super) struct Told {
    pub(super) id: Oid,
    pub(super) kind: Kind,
    pub(super) content: Vec<u8>,
}

/// Runs git in `dir` and returns what it prints.
#[expect(
    clippy::disallowed_methods,
    reason = "real git makes and judges what is tested"
)]
pub(super) fn git_with_input(dir: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = std::process::Command::new("git")
        .current_dir(dir)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@b")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_NAME", "c")
        .env("GIT_COMMITTER_EMAIL", "c@d")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "git {args:?} in {}", dir.display());
    output.stdout
}

/// Runs git in `dir` and returns what it prints, trimmed.
pub(super) fn git(dir: &Path, args: &[&str]) -> String {
    let out = git_with_input(dir, args, b"");
    String::from_utf8_lossy(&out).trim().to_owned()
}

/// Returns every object that git sees in `repo`.
pub(super) fn all_objects(repo: &Path) -> Vec<Told> {
    let out = git_with_input(
        repo,
        &["cat-file", "--batch-all-objects", "--batch", "--unordered"],
        b"",
    );
    let mut rest = out.as_slice();
    let mut told = Vec::new();
    while !rest.is_empty() {
        let line_end = rest.iter().position(|b| *b == b'\n').unwrap();
        let line = std::str::from_utf8(&rest[..line_end]).unwrap();
        let [id, kind, size] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let size: usize = size.parse().unwrap();
        told.push(Told {
            id: Oid::from_hex(id.as_bytes()).unwrap(),
            kind: Kind::from_bytes(kind.as_bytes()).unwrap(),
            content: rest[line_end + 1..][..size].to_vec(),
        });
        rest = &rest[line_end + 1 + size + 1..];
    }
    told
}

pub(super) fn open(repo: &Path, options: &StoreOptions) -> Store {
    Repository::open(repo).unwrap().store(options).unwrap()
}

/// Makes a repository with history: files that grow line by line, a big one, trees, tags.
pub(super) fn make(dir: &Path, format: &str) -> PathBuf {
    let repo = dir.join("repo");
    let object_format = format!("--object-format={format}");
    git(dir, &["init", "-q", "-b", "main", &object_format, "repo"]);
    std::fs::create_dir_all(repo.join("d/e")).unwrap();
    let mut text = String::new();
    let noise: Vec<u8> = (0..300_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    std::fs::write(repo.join("noise"), &noise).unwrap();
    std::fs::write(repo.join("empty"), b"").unwrap();
    for round in 0..16 {
        for line in 0..20 {
            text.push_str(&format!("line {line} of round {round}\n"));
        }
        std::fs::write(repo.join("growing"), &text).unwrap();
        std::fs::write(
            repo.join("d/e/reversed"),
            text.lines().rev().collect::<String>(),
        )
        .unwrap();
        std::fs::write(repo.join(format!("d/f{round}")), round.to_string()).unwrap();
        git(&repo, &["add", "-A"]);
        git(&repo, &["commit", "-q", "-m", &format!("round {round}")]);
    }
    git(&repo, &["tag", "-a", "-m", "a tag", "v1"]);
    repo
}

/// Compares every object, every way of asking.
fn compare(repo: &Path) {
    let told = all_objects(repo);
    assert!(told.len() > 80);
    let store = open(repo, &StoreOptions::default());
    let small = open(
        repo,
        &StoreOptions {
            base_cache_bytes: 0,
            object_bytes_max: 1000,
            spool_dir: None,
        },
    );
    for Told { id, kind, content } in &told {
        assert_eq!(&store.read(id, *kind).unwrap(), content, "{id}");
        assert_eq!(store.size(id).unwrap(), content.len() as u64, "{id}");
        let header = store.header(id).unwrap();
        assert_eq!((header.kind, header.size), (*kind, content.len() as u64));
        let mut streamed = Vec::new();
        let size = small.read_to(id, *kind, &mut streamed).unwrap();
        assert_eq!((size, &streamed), (content.len() as u64, content), "{id}");
        match small.read(id, *kind) {
            Ok(read) => assert!(read == *content && read.len() <= 1000, "{id}"),
            Err(error) => {
                assert_eq!(error.slug(), "object-too-large", "{id} {error}");
                assert!(content.len() > 1000, "{id}");
            }
        }
        let other = if *kind == Kind::Blob {
            Kind::Tree
        } else {
            Kind::Blob
        };
        assert_eq!(store.read(id, other).unwrap_err().slug(), "corrupt-object");
    }
}

/// Compares every object with gix.
fn compare_with_gix(repo: &Path) {
    let gix = gix::open_opts(repo, gix::open::Options::isolated()).unwrap();
    let store = open(repo, &StoreOptions::default());
    for Told { id, kind, .. } in all_objects(repo) {
        let object = gix.find_object(id).unwrap();
        assert_eq!(object.kind, kind);
        assert_eq!(store.read(&id, kind).unwrap(), object.data);
    }
}

#[test]
fn r5_every_object_equals_what_git_says_in_every_layout() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    let pack_dir = repo.join(".git/objects/pack");
    // Loose.
    compare(&repo);
    for args in [
        // Offset deltas, then deltas by id; index versions; deep chains; several packs; midx.
        &[
            "-c",
            "pack.depth=4095",
            "repack",
            "-adfq",
            "--depth=4095",
            "--window=50",
        ][..],
        &["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq"],
        &["-c", "pack.indexVersion=1", "repack", "-adfq"],
        &[
            "-c",
            "repack.writeBitmaps=false",
            "repack",
            "-adfq",
            "--max-pack-size=1m",
        ],
    ] {
        git(&repo, args);
        compare(&repo);
    }
    compare_with_gix(&repo);
    git(&repo, &["multi-pack-index", "write"]);
    compare(&repo);
    // The multi-pack-index and the packs beside it.
    std::fs::write(repo.join("late"), "late").unwrap();
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "late"]);
    git(&repo, &["repack", "-dq"]);
    compare(&repo);
    assert!(pack_dir.join("multi-pack-index").exists());
}

#[test]
fn r9_every_object_of_a_sha256_repository_equals_what_git_says() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha256");
    compare(&repo);
    git(&repo, &["repack", "-adfq"]);
    compare(&repo);
    git(&repo, &["multi-pack-index", "write"]);
    compare(&repo);
    compare_with_gix(&repo);
}

#[test]
fn r12_alternates_are_read_to_the_end_of_the_chain() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    git(&repo, &["repack", "-adq"]);
    git(top.path(), &["clone", "-q", "--shared", "repo", "second"]);
    git(top.path(), &["clone", "-q", "--shared", "second", "third"]);
    let third = top.path().join("third");
    std::fs::write(third.join("own"), "own").unwrap();
    git(&third, &["add", "-A"]);
    git(&third, &["commit", "-q", "-m", "own"]);
    compare(&third);
}

#[test]
fn r8_what_replaces_the_path_after_opening_is_not_read() {
    let top = tempfile::tempdir().unwrap();
    git(top.path(), &["init", "-q", "repo"]);
    git(top.path(), &["init", "-q", "evil"]);
    let repo = top.path().join("repo");
    let written = git_with_input(&repo, &["hash-object", "-w", "--stdin"], b"good");
    let id = Oid::from_hex(written.trim_ascii()).unwrap();
    let opened = Repository::open(&repo).unwrap();
    std::fs::rename(&repo, top.path().join("away")).unwrap();
    std::fs::rename(top.path().join("evil"), &repo).unwrap();
    let store = opened.store(&StoreOptions::default()).unwrap();
    assert_eq!(store.read(&id, Kind::Blob).unwrap(), b"good");
}

/// A repository whose blobs are larger than what may be held, whole and as deltas on each other.
#[test]
fn r46_objects_over_the_limit_are_streamed_with_their_bases_in_files() {
    let top = tempfile::tempdir().unwrap();
    git(top.path(), &["init", "-q", "repo"]);
    let repo = top.path().join("repo");
    let mut state = 1_u32;
    let mut content: Vec<u8> = (0..6 << 20)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 29) as u8
        })
        .collect();
    for version in 0..4 {
        content.splice(1000 * version..1000 * version, *b"a few more bytes");
        let _ = git_with_input(&repo, &["hash-object", "-w", "--stdin"], &content);
        std::fs::write(repo.join(format!("v{version}")), &content).unwrap();
    }
    let spool_dir = top.path().join("spool");
    std::fs::create_dir(&spool_dir).unwrap();
    let options = StoreOptions {
        base_cache_bytes: 1 << 20,
        object_bytes_max: 1 << 20,
        spool_dir: Some(spool_dir.clone()),
    };
    let compare = || {
        let store = open(&repo, &options);
        for Told { id, kind, content } in all_objects(&repo) {
            let mut streamed = Vec::new();
            let size = store.read_to(&id, kind, &mut streamed).unwrap();
            assert_eq!(size, content.len() as u64);
            assert!(streamed == content, "{id}");
            let whole = store.read(&id, kind).map_err(|error| error.slug());
            match content.len() > 1 << 20 {
                true => assert_eq!(whole, Err("object-too-large")),
                false => assert!(whole == Ok(content)),
            }
        }
        assert_eq!(std::fs::read_dir(&spool_dir).unwrap().count(), 0);
    };
    compare();
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "all"]);
    git(
        &repo,
        &[
            "-c",
            "core.bigFileThreshold=1g",
            "repack",
            "-adfq",
            "--window=5",
        ],
    );
    let idx = git(&repo, &["rev-parse", "--git-path", "objects/pack"]);
    let listing = std::fs::read_dir(repo.join(idx)).unwrap();
    let idx = listing
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ext| ext == "idx"))
        .unwrap();
    let chains = git(&repo, &["verify-pack", "-s", idx.to_str().unwrap()]);
    assert!(chains.contains("chain length = 2"), "{chains}");
    compare();
    // Small enough to hold, on a base that is not.
    let small = content[..500_000].to_vec();
    std::fs::write(repo.join("small"), &small).unwrap();
    git(&repo, &["add", "-A"]);
    git(&repo, &["commit", "-q", "-m", "small"]);
    git(
        &repo,
        &[
            "-c",
            "core.bigFileThreshold=1g",
            "repack",
            "-adfq",
            "--window=9",
        ],
    );
    compare();
}

#[test]
fn many_threads_read_the_same_objects() {
    let top = tempfile::tempdir().unwrap();
    let repo = make(top.path(), "sha1");
    git(&repo, &["repack", "-adfq", "--depth=50"]);
    let told = all_objects(&repo);
    let options = StoreOptions {
        base_cache_bytes: 64 << 10,
        ..StoreOptions::default()
    };
    let store = open(&repo, &options);
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (store, told) = (&store, &told);
            scope.spawn(move || {
                for number in 0..told.len() {
                    let Told { id, kind, content } = &told[(number * 7 + thread * 13) % told.len()];
                    assert_eq!(&store.read(id, *kind).unwrap(), content);
                    assert_eq!(store.size(id).unwrap(), content.len() as u64);
                }
            });
        }
    });
}
