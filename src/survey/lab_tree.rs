//! Surveys of commits: what their trees hold (R90..R93, R95, R10, R11, R22).

use std::path::Path;

use super::lab::{Entry, Lab, Row, assert_rows, noted};
use super::*;
use crate::budget::Limits;
use crate::git::{HashKind, Kind, MemorySource, Oid, load_commit};

use Verdict::{Noted, Unsupported};

#[test]
fn r89_every_row_has_a_value_and_a_plain_repository_has_nothing_to_note() {
    let lab = Lab::new(&[]);
    let commit = lab.file("d/f", b"hello\n").file("g", b"x").commit();
    let survey = lab.survey(&commit, Depth::Full);
    assert_rows(&survey, &[]);
    assert_eq!((survey.entries, survey.bytes), (Some(3), Some(7)));
    assert!(survey.check(Purpose::Seed, true).unwrap().is_empty());
    let record = serde_json::to_value(&survey).unwrap();
    for name in [
        "submodules",
        "lfs",
        "filters",
        "eol-encoding",
        "ident-export",
        "sparse",
        "partial",
        "shallow",
        "substitution",
        "alternates",
        "object-format",
        "ref-storage",
        "noncanonical-modes",
        "bad-trees",
        "long-names",
    ] {
        let row = &record["features"][name];
        assert_eq!(row["present"], false, "{name}");
        assert_eq!(row["snapshot"], "supported", "{name}");
        assert_eq!(row["seed"], "supported", "{name}");
        assert!(
            row["paths"].is_array() && row["detail"].is_string(),
            "{name}"
        );
    }
    let shallow_look = lab.survey(&commit, Depth::Repository);
    assert_rows(&shallow_look, &[]);
    assert_eq!((shallow_look.entries, shallow_look.bytes), (None, None));
}

#[test]
fn r91_r25_submodules_are_listed_with_path_and_id() {
    let lab = Lab::new(&[]);
    let gone = "abababababababababababababababababababab";
    lab.file(
        ".gitmodules",
        b"[submodule \"s\"]\n\tpath = d/s\n\turl = ext::sh -c touch CANARY\n",
    );
    lab.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{gone},d/s"),
    ]);
    lab.git(&["add", ".gitmodules"]);
    lab.git(&["commit", "-qm", "c"]);
    let commit = lab.git(&["rev-parse", "HEAD"]);
    let survey = lab.survey(&commit, Depth::Full);
    assert_rows(&survey, &[noted("submodules")]);
    let record = serde_json::to_value(&survey).unwrap();
    let place = &record["features"]["submodules"]["paths"][0];
    assert_eq!(
        (&place["path"], &place["id"]),
        (&"d/s".into(), &gone.into())
    );
    let at_mount = lab.survey(&commit, Depth::Repository);
    assert_rows(&at_mount, &[noted("submodules")]);
    assert!(!lab.repo.join("CANARY").exists());
}

#[test]
fn r92_r93_attributes_are_noted_and_nothing_is_run() {
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n",
        "4d".repeat(32)
    );
    let canary = |lab: &Lab| format!("touch {}/CANARY; cat", lab.repo.display());
    let table: [(&str, &str, &[&str]); 9] = [
        (".gitattributes", "*.bin filter=lfs -text", &["lfs"]),
        ("d/pointer", pointer.as_str(), &["lfs"]),
        (".gitattributes", "* filter=shout", &["filters"]),
        ("d/.gitattributes", "* text=auto", &["eol-encoding"]),
        (
            ".gitattributes",
            "*.u working-tree-encoding=UTF-16",
            &["eol-encoding"],
        ),
        (".gitattributes", "* ident", &["ident-export"]),
        (
            "x/y/.gitattributes",
            "k export-subst export-ignore",
            &["ident-export"],
        ),
        (".gitattributes", "* diff=d merge=m -text", &[]),
        (
            ".gitattributes",
            "* filter=e ident eol=crlf filter=lfs",
            &["lfs", "filters", "eol-encoding", "ident-export"],
        ),
    ];
    for (path, content, want) in table {
        let lab = Lab::new(&[]);
        let commit = lab
            .file(path, content.as_bytes())
            .file("f", b"x\n")
            .commit();
        let with_driver = want.contains(&"filters");
        if with_driver {
            lab.git(&["config", "filter.shout.smudge", &canary(&lab)]);
            lab.git(&["config", "filter.shout.clean", &canary(&lab)]);
        }
        let want: Vec<_> = want.iter().map(|name| noted(name)).collect();
        assert_rows(&lab.survey(&commit, Depth::Full), &want);
        assert!(!lab.repo.join("CANARY").exists());
    }
}

#[test]
fn r95_missing_and_broken_objects_are_counted_with_their_paths() {
    let lab = Lab::new(&[]);
    let commit = lab
        .file("d/gone", b"gone")
        .file("gone", b"gone")
        .file("ok", b"ok")
        .commit();
    let id = lab.git(&["rev-parse", "HEAD:gone"]);
    let (dir, name) = id.split_at(2);
    std::fs::remove_file(lab.repo.join(format!(".git/objects/{dir}/{name}"))).unwrap();
    let survey = lab.survey(&commit, Depth::Full);
    assert_rows(&survey, &[("missing-objects", Unsupported, Unsupported)]);
    let row = survey.feature("missing-objects").unwrap();
    let paths: Vec<_> = row.paths.iter().map(|place| place.path.as_str()).collect();
    assert_eq!((row.count, paths), (2, vec!["gone", "d/gone"]));
    assert!(row.paths.iter().all(|place| place.id.as_ref() == Some(&id)));
    assert_eq!(
        survey.check(Purpose::Seed, false).unwrap_err().slug(),
        "missing-objects"
    );
    assert_rows(&lab.survey(&commit, Depth::Repository), &[]);
}

#[test]
fn r11_r22_odd_modes_long_names_and_links_are_noted_where_they_are() {
    let long = [b'n'; 256];
    let far = vec![b't'; 4096];
    let table: [(&[Entry<'_>], &[Row<'_>]); 7] = [
        (&[("100664", b"a", b"x")], &[noted("noncanonical-modes")]),
        (&[("040000", b"a", b"")], &[noted("noncanonical-modes")]),
        (
            &[("100644", &long, b"x")],
            &[("long-names", Noted, Unsupported)],
        ),
        (&[("100644", &long[1..], b"x")], &[]),
        (
            &[("120000", b"l", &far)],
            &[("long-links", Noted, Unsupported)],
        ),
        (
            &[("120000", b"l", b"a\0b")],
            &[("long-links", Noted, Unsupported)],
        ),
        (&[("120000", b"l", &far[1..])], &[]),
    ];
    for (rows, want) in table {
        let lab = Lab::new(&[]);
        let commit = lab.commit_tree(rows);
        assert_rows(&lab.survey(&commit, Depth::Full), want);
    }
    let lab = Lab::new(&[]);
    let commit = lab.commit_tree(&[("120000", b".gitmodules", b"m")]);
    let rows = [noted("submodules"), noted("git-file-links")];
    assert_rows(&lab.survey(&commit, Depth::Full), &rows);
}

#[test]
fn r10_bad_trees_are_refused_with_path_and_rule() {
    let bad: [(&[u8], &str); 6] = [
        (b".git", "hasDotgit"),
        (b"git~1", "hasDotgit"),
        (b"..", "hasDotdot"),
        (b"a/b", "fullPathname"),
        (b"", "badTree"),
        (b".g\xe2\x80\x8cit", "hasDotgit"),
    ];
    for (name, rule) in bad {
        let lab = Lab::new(&[]);
        let blob = lab.git(&["hash-object", "-w", "-t", "blob", "/dev/null"]);
        let id = Oid::from_hex(blob.as_bytes()).unwrap();
        let inner = [b"100644 ", name, b"\0", id.as_slice()].concat();
        let commit = lab.commit_tree(&[("100644", b"a", b"x"), ("40000", b"d", &inner)]);
        let survey = lab.survey(&commit, Depth::Full);
        assert_rows(&survey, &[("bad-trees", Unsupported, Unsupported)]);
        let row = survey.feature("bad-trees").unwrap();
        assert_eq!(row.paths[0].path, "d");
        assert!(
            row.paths[0].what.as_ref().unwrap().contains(rule),
            "{row:?}"
        );
        let error = survey.check(Purpose::Snapshot, false).unwrap_err();
        assert_eq!(
            (error.slug(), error.path()),
            ("bad-tree", Some(Path::new("d")))
        );
    }
}

#[test]
fn a_tree_bomb_is_counted_and_ends() {
    let mut objects = MemorySource::new(HashKind::Sha1);
    let blob = objects.insert(Kind::Blob, *b"boom\n").unwrap();
    let mut id = blob;
    let mut mode = &b"100644"[..];
    for _ in 0..30 {
        let names: Vec<String> = (0..10).map(|n| format!("d{n}")).collect();
        let rows = names.iter().map(|name| (mode, name.as_bytes(), &id));
        let tree = crate::git::encode_tree(rows);
        id = objects.insert(Kind::Tree, tree).unwrap();
        mode = b"40000";
    }
    let commit = format!("tree {id}\ncommitter A <a@b> 5 +0000\n\n");
    let commit = objects.insert(Kind::Commit, commit).unwrap();
    let commit = load_commit(&objects, &commit).unwrap();
    let facts = Lab::new(&[]).facts();
    let mut budget = Budget::new(Limits::default());
    let survey = survey_with(&facts, &objects, &commit, Depth::Full, &mut budget).unwrap();
    assert_eq!(survey.entries, Some(u64::MAX));
    assert_eq!(budget.spent().0, 300);
    let mut small = Budget::new(Limits {
        entries_max: 299,
        ..Limits::default()
    });
    let error = survey_with(&facts, &objects, &commit, Depth::Full, &mut small).unwrap_err();
    assert_eq!(error.slug(), "budget-entries");
}
