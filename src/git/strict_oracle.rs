//! Asks `git fsck --strict` about many trees and compares its errors with [`check_tree`]'s (R10).
//!
//! Real git is the oracle. Left out on purpose: `zeroPaddedFilemode` (R11), what fsck says of blobs
//! that `.gitmodules` and `.gitattributes` name (it is no rule for trees), and modes over 16 bits,
//! which git cuts off without a word and we refuse.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{HashKind, Oid, Strictness, check_tree, encode_tree};

/// One tree as `(raw mode, name)` rows; the id of every entry is that of the empty blob.
type Rows = Vec<(&'static str, Vec<u8>)>;

/// A tiny generator (xorshift), so that a run can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).expect("53 bits fit") % sides
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

const PIECES: [&[u8]; 40] = [
    b".git",
    b".GIT",
    b"git~1",
    b"GIT~1",
    b"git~2",
    b".",
    b"..",
    b"/",
    b"\\",
    b":",
    b" ",
    b"g",
    b"i",
    b"t",
    b".g",
    b"it",
    b"\xe2\x80\x8c",
    b"\xe2\x80\x8f",
    b"\xe2\x80\x8b",
    b"\xe2\x80\xaa",
    b"\xe2\x81\xaa",
    b"\xef\xbb\xbf",
    b"\xef\xbf\xbf",
    b"\xef\xbf\xbe",
    b"\xff",
    b"\xc0\xae",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xc4\xb0",
    b"\xe2\x84\xaa",
    b".gitmodules",
    b"gitmod~1",
    b"gitmod~5",
    b"gi7eba~1",
    b"GI7EB~10",
    b"~1234567",
    b"gi7e~012",
    b"modules",
    b"x",
    b"\n",
];
const MODES: [&str; 12] = [
    "100644", "100755", "120000", "40000", "160000", "100664", "100600", "040000", "0100644",
    "10644", "40755", "0",
];

fn name_of_pieces(dice: &mut Dice) -> Vec<u8> {
    let count = 1 + dice.roll(4);
    (0..count)
        .flat_map(|_| dice.pick(&PIECES).iter().copied())
        .collect()
}

/// Every name in which one byte of a disguise is changed, dropped or doubled.
fn mutations(of: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..of.len()).flat_map(move |at| {
        let mut dropped = of.to_vec();
        dropped.remove(at);
        let mut doubled = of.to_vec();
        doubled.insert(at, of[at]);
        let mut changed = of.to_vec();
        changed[at] ^= 0x20;
        [dropped, doubled, changed]
    })
}

fn trees() -> Vec<Rows> {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut trees: Vec<Rows> = Vec::new();
    for disguise in [
        &b".git"[..],
        b"git~1",
        b".gitmodules",
        b"gitmod~3",
        b"gi7eba~9",
        b"g\xe2\x80\x8cit",
        b".g\xe2\x80\x8dit",
        b"a\\.git",
        b".git\\b",
        b"a\\.gitmodules:",
        b".git . ",
        b".git::$DATA",
    ] {
        for mode in ["100644", "120000"] {
            trees.push(vec![(mode, disguise.to_vec())]);
            trees.extend(mutations(disguise).map(|name| vec![(mode, name)]));
        }
    }
    for _ in 0..600 {
        trees.push(vec![(*dice.pick(&MODES), name_of_pieces(&mut dice))]);
    }
    let short = ["a", "b", "a.b", "a-b", "a0", "ab", "a.b.c", "A", "\u{e9}"];
    for _ in 0..500 {
        let count = 2 + dice.roll(5);
        let mut rows: Rows = (0..count)
            .map(|_| (*dice.pick(&MODES), dice.pick(&short).as_bytes().to_vec()))
            .collect();
        if dice.roll(2) == 0 {
            let key = |(mode, name): &(&str, Vec<u8>)| {
                let mut key = name.clone();
                key.extend(
                    mode.trim_start_matches('0')
                        .starts_with('4')
                        .then_some(b'/'),
                );
                key
            };
            rows.sort_by_key(key);
        }
        trees.push(rows);
    }
    trees.push(vec![("100644", Vec::new())]);
    trees.push(Vec::new());
    trees
}

fn bytes_of(trees: &[Rows]) -> Vec<Vec<u8>> {
    let blob = Oid::empty_blob(HashKind::Sha1);
    let row = |(mode, name): &(&'static str, Vec<u8>)| (mode.as_bytes(), name.clone());
    let mut all: Vec<Vec<u8>> = trees
        .iter()
        .map(|rows| {
            let rows: Vec<_> = rows.iter().map(row).collect();
            encode_tree(rows.iter().map(|(mode, name)| (*mode, &name[..], &blob)))
        })
        .collect();
    all.push(encode_tree([(
        &b"100644"[..],
        &b"a"[..],
        &Oid::null(HashKind::Sha1),
    )]));
    let whole = encode_tree([
        (&b"100644"[..], &b"a"[..], &blob),
        (&b"40000"[..], &b"b"[..], &blob),
    ]);
    all.extend((1..whole.len()).map(|len| whole[..len].to_vec()));
    for (at, byte) in [(0, b' '), (0, b'9'), (3, b' '), (6, b'x'), (8, b'y')] {
        let mut broken = whole.clone();
        broken[at] = byte;
        all.push(broken);
    }
    all
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests ask real git; it is the oracle"
)]
fn git(dir: &Path, args: &[&str], input: &[u8]) -> String {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = [out.stdout, out.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the ids of the errors that git has for each tree, the ones that are no rule left out.
fn errors_of_git(dir: &Path) -> BTreeMap<String, Vec<String>> {
    let mut errors: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in git(dir, &["fsck", "--strict", "--no-dangling"], b"").lines() {
        let Some((tree, rule)) = line
            .strip_prefix("error in tree ")
            .and_then(|rest| rest.split_once(": "))
        else {
            continue;
        };
        let rule = rule.split(':').next().unwrap_or_default();
        let is_rule = rule == "gitmodulesSymlink"
            || !(rule == "broken links"
                || rule == "zeroPaddedFilemode"
                || rule.starts_with("gitmodules")
                || rule.starts_with("gitattributes"));
        if is_rule {
            errors.entry(tree.into()).or_default().push(rule.into());
        }
    }
    errors
}

#[test]
fn r10_what_strict_fsck_calls_an_error_is_what_we_refuse() {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q", "--object-format=sha1"], b"");
    git(dir.path(), &["hash-object", "-w", "--stdin"], b"");
    let trees = bytes_of(&trees());
    let files = dir.path().join("trees");
    std::fs::create_dir(&files).unwrap();
    let mut list = String::new();
    for (number, bytes) in trees.iter().enumerate() {
        std::fs::write(files.join(number.to_string()), bytes).unwrap();
        list.push_str(&format!("trees/{number}\n"));
    }
    let args = [
        "hash-object",
        "-t",
        "tree",
        "--literally",
        "-w",
        "--no-filters",
    ];
    let args: Vec<&str> = args.into_iter().chain(["--stdin-paths"]).collect();
    let ids = git(dir.path(), &args, list.as_bytes());
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.len(), trees.len(), "{:?}", ids.last());
    let errors = errors_of_git(dir.path());
    assert!(
        errors.len() > 200,
        "git found only {} bad trees",
        errors.len()
    );
    let mut differences = Vec::new();
    for (id, bytes) in ids.iter().zip(&trees) {
        let git_says = errors.get(*id).cloned().unwrap_or_default();
        let only_link = !git_says.iter().any(|rule| rule != "gitmodulesSymlink");
        for (strictness, refused) in [
            (Strictness::Serve, !only_link),
            (Strictness::Admit, !git_says.is_empty()),
        ] {
            let ours = check_tree(bytes, HashKind::Sha1, strictness);
            let says_why = ours.as_ref().err().is_none_or(|error| {
                let said = error.message();
                let rule = said.rsplit_once('[').map_or("badTree", |(_, rest)| rest);
                git_says
                    .iter()
                    .any(|of_git| of_git == rule.trim_end_matches(']'))
            });
            if ours.is_err() != refused || !says_why {
                let shown = bytes.escape_ascii();
                differences.push(format!(
                    "{strictness:?} {shown}: git {git_says:?}, we {ours:?}"
                ));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        trees.len(),
        differences.join("\n")
    );
}
