//! Manifests: written once, proved without the repository, and worthless once edited (R34).

use forgefs::budget::Limits;
use forgefs::git::Oid;
use forgefs::prove::{Manifest, ManifestReading, ProveRequest, Verdict, prove, write_manifest};

use crate::fixtures::copy;
use crate::prove::{objects, request};
use crate::support::{Host, zoo};

fn text(repo: &crate::support::Repo, commit_id: &str) -> String {
    let id = Oid::from_hex(commit_id.as_bytes()).expect("an id");
    let mut out = Vec::new();
    write_manifest(&objects(repo), &id, &Limits::default(), 2, &mut out).expect("written");
    String::from_utf8(out).expect("JSON is UTF-8")
}

#[test]
fn r34_a_manifest_of_the_zoo_proves_without_the_repository_in_both_formats() {
    for format in ["sha1", "sha256"] {
        let host = Host::new();
        let zoo = zoo::zoo(&host.path("zoo"), format);
        let dir = host.path("copy");
        copy(&zoo.repo, &zoo.commit_id, &dir);
        let text = text(&zoo.repo, &zoo.commit_id);
        assert_eq!(
            text,
            self::text(&zoo.repo, &zoo.commit_id),
            "always the same bytes"
        );
        let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(json["tree"], zoo.repo.tree_of(&zoo.commit_id));
        let Ok(ManifestReading::Sound(manifest)) = Manifest::read(text.as_bytes()) else {
            panic!("it is sound");
        };
        assert_eq!(manifest.commit_id.to_string(), zoo.commit_id);
        let request = |dir| ProveRequest {
            objects: manifest.objects.clone(),
            ..request(objects(&zoo.repo), &zoo.commit_id, dir)
        };
        assert_eq!(
            prove(request(&dir)).expect("tried").verdict,
            Verdict::Proven
        );
        std::fs::write(dir.join("extra"), "").expect("written");
        assert_eq!(
            prove(request(&dir)).expect("tried").verdict,
            Verdict::Differs
        );
    }
}

#[test]
fn r34_an_edited_manifest_is_forged_wherever_it_is_edited() {
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("a", b"1"), ("d/f", b"2"), ("run", b"3")]);
    let text = text(&repo, &commit_id);
    let other = repo.commit_files(&[("a", b"other")]);
    let id_of = |path: &str| repo.git(["rev-parse", &format!("{commit_id}:{path}")]);
    let (a, f, d, root) = (
        id_of("a"),
        id_of("d/f"),
        id_of("d"),
        repo.tree_of(&commit_id),
    );
    for (what, from, to) in [
        ("a blob's id", a.as_str(), f.as_str()),
        ("an id that is no hex", &a, "zz"),
        ("a mode", "100644", "100755"),
        ("a name", "\"a\"", "\"b\""),
        ("a subtree's id in its parent", &d, &root),
        ("the commit's id", &commit_id, &other),
        (
            "the root's id",
            &format!("\"tree\":\"{root}\""),
            &format!("\"tree\":\"{d}\""),
        ),
        (
            "the commit's bytes",
            "\"commit_hex\":\"",
            "\"commit_hex\":\"00",
        ),
    ] {
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "{what}");
        let read = Manifest::read(edited.as_bytes());
        assert!(
            matches!(read, Ok(ManifestReading::Forged(_))),
            "{what}: {read:?}"
        );
    }
    let start = text.find("\n{").expect("a tree");
    let without = format!("{}\n]}}\n", &text[..start]);
    let read = Manifest::read(without.as_bytes());
    assert!(
        matches!(read, Ok(ManifestReading::Forged(_))),
        "no trees: {read:?}"
    );
    for (what, edited) in [
        ("cut off", text[..text.len() / 2].to_owned()),
        ("another schema", text.replace("manifest/1", "manifest/2")),
        ("a field more", text.replacen('{', "{\"x\":1,", 1)),
        ("something behind it", format!("{text}x")),
        ("nothing", String::new()),
    ] {
        let error = Manifest::read(edited.as_bytes()).expect_err(what);
        assert_eq!(error.slug(), "bad-manifest", "{what}");
    }
}
