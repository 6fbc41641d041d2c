//! The mount shows exactly the commit's tree, and nothing else (R15-R19, R21, R25).

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use crate::support::listing::listing;
use crate::support::oracle::{Way, assert_exact, assert_exact_with_empty_trees, oracle};
use crate::support::rng::Rng;
use crate::support::zoo::animals;
use crate::support::{Host, Mounted, Repo, need, zoo};

/// Expects that every path of a commit reads as its object, through the kernel.
#[track_caller]
fn assert_reads_as_git_says(repo: &Repo, commit_id: &str, mounted: &Mounted<'_>) {
    for listed in repo.listing(commit_id) {
        let path = mounted.path(&listed.name);
        match listed.mode.as_str() {
            "040000" => assert!(path.is_dir(), "{}", path.display()),
            "160000" => assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0),
            "120000" => {
                let target = std::fs::read_link(&path).unwrap();
                assert_eq!(target.as_os_str().as_bytes(), repo.cat(&listed.id));
            }
            _ => assert_eq!(std::fs::read(&path).unwrap(), repo.cat(&listed.id)),
        }
    }
}

#[test]
fn r15_r9_stock_git_computes_the_commits_tree_from_the_mounted_zoo() {
    need!(Fuse);
    for format in ["sha1", "sha256"] {
        let host = Host::new();
        let zoo = zoo::zoo(&host.path("zoo"), format);
        let mounted = host.mount(&zoo.repo, &zoo.commit_id);
        let want = zoo.repo.tree_of(&zoo.commit_id);
        for way in [Way::Add, Way::Mktree] {
            let said = oracle(&zoo.repo, &zoo.commit_id, mounted.point(), way);
            assert_eq!(said.out(), want, "{format} {way:?} {}", said.report());
        }
        for commit_id in [&zoo.empty_tree_id, &zoo.nothing_id] {
            let mounted = host.mount(&zoo.repo, commit_id);
            assert_exact_with_empty_trees(&zoo.repo, commit_id, mounted.point());
        }
        let proof = host.forgefs(["prove"]).arg(mounted.point());
        let proof = proof.arg("--repo").arg(zoo.repo.path());
        proof.args(["--sha", &zoo.commit_id]).ok();
    }
}

#[test]
fn r19_every_file_is_the_raw_blob() {
    need!(Fuse);
    let host = Host::new();
    let zoo = zoo::zoo(&host.path("zoo"), "sha1");
    zoo.repo.git(["config", "core.autocrlf", "true"]);
    zoo.repo.git(["config", "filter.eat.smudge", "false"]);
    let mounted = host.mount(&zoo.repo, &zoo.commit_id);
    for animal in animals() {
        let path = mounted.path(std::ffi::OsStr::from_bytes(&animal.name));
        if animal.mode == "120000" {
            let target = std::fs::read_link(&path).unwrap();
            assert_eq!(target.as_os_str().as_bytes(), animal.bytes);
        } else {
            assert!(
                std::fs::read(&path).unwrap() == animal.bytes,
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn r11_legacy_modes_are_served_as_git_reads_them_and_proved() {
    need!(Fuse);
    let host = Host::new();
    let zoo = zoo::zoo(&host.path("zoo"), "sha1");
    let commit_id = &zoo.legacy_modes_id;
    let mounted = host.mount(&zoo.repo, commit_id);
    assert_reads_as_git_says(&zoo.repo, commit_id, &mounted);
    for (name, mode) in [
        ("a-664", "644"),
        ("b-600", "644"),
        ("c-777", "755"),
        ("d-755", "755"),
    ] {
        let seen = host
            .run("stat")
            .args(["-c", "%a"])
            .arg(mounted.path(name))
            .ok();
        assert_eq!(seen, mode, "{name}");
    }
    let proof = host.forgefs(["prove", "--json"]).arg(mounted.point());
    let proof = proof
        .arg("--repo")
        .arg(zoo.repo.path())
        .args(["--sha", commit_id])
        .run();
    proof.exits(0);
    let record = proof.json();
    assert_eq!(record["tree"], zoo.repo.tree_of(commit_id));
    assert!(
        record["notes"].to_string().contains("noncanonical-mode"),
        "{record}"
    );
}

#[test]
fn r16_no_git_directory_is_reachable() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("a/f", b"x\n"), (".gitignore", b"x\n"), ("git", b"\n")]);
    let mounted = host.mount(&repo, &commit_id);
    assert!(listing(mounted.point()).iter().all(|seen| {
        let name = seen.path.file_name().unwrap_or_default();
        !name.eq_ignore_ascii_case(".git")
    }));
    for name in [".git", "a/.git", ".GIT", "a/.Git", "git~1", ".g\u{200c}it"] {
        let error = std::fs::symlink_metadata(mounted.path(name)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(2), "{name}");
    }
    let git = host
        .run("git")
        .env("GIT_CEILING_DIRECTORIES", mounted.point().parent().unwrap());
    let tried = git
        .arg("-C")
        .arg(mounted.point())
        .args(["rev-parse", "--git-dir"])
        .run();
    assert_ne!(tried.code(), Some(0), "{}", tried.report());
}

#[test]
fn r17_work_tree_and_index_never_show() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"committed\n"), (".gitignore", b".env\n")]);
    let dirty = |text: &str| {
        std::fs::write(repo.join("f"), format!("dirty {text}\n")).unwrap();
        std::fs::write(repo.join(".env"), format!("SECRET={text}\n")).unwrap();
        std::fs::write(repo.join("staged"), format!("{text}\n")).unwrap();
        std::fs::write(repo.join("untracked"), format!("{text}\n")).unwrap();
        repo.git(["add", "staged", "f"]);
    };
    dirty("before");
    let mounted = host.mount(&repo, &commit_id);
    assert_exact(&repo, &commit_id, mounted.point());
    dirty("meanwhile");
    repo.git(["stash", "-q"]);
    repo.git(["checkout", "-q", "--orphan", "elsewhere"]);
    repo.git(["rm", "-rfq", "--cached", "."]);
    assert_exact(&repo, &commit_id, mounted.point());
    let names: Vec<_> = listing(mounted.point())
        .into_iter()
        .map(|seen| seen.path)
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn r21_reads_at_any_offset_give_the_right_bytes() {
    need!(Fuse);
    let host = Host::new();
    let zoo = zoo::zoo(&host.path("zoo"), "sha1");
    let mounted = host.mount(&zoo.repo, &zoo.commit_id);
    let mut rng = Rng::new(21);
    for animal in animals()
        .iter()
        .filter(|animal| animal.name.starts_with(b"sizes/"))
    {
        let path = mounted.path(std::ffi::OsStr::from_bytes(&animal.name));
        let file = std::fs::File::open(&path).unwrap();
        let size = animal.bytes.len();
        for _ in 0..60 {
            let offset = rng.index(size + 10);
            let mut bytes = vec![0; 1 + rng.index(200_000)];
            let mut count = 0;
            while count < bytes.len() {
                let more = file
                    .read_at(&mut bytes[count..], (offset + count) as u64)
                    .unwrap();
                if more == 0 {
                    break;
                }
                count += more;
            }
            let want = &animal.bytes
                [offset.min(size)..(offset + bytes.len()).min(size).max(offset.min(size))];
            assert!(&bytes[..count] == want, "{} at {offset}", path.display());
        }
    }
}

#[test]
fn r25_a_submodule_is_an_empty_directory() {
    need!(Fuse);
    let host = Host::new();
    let zoo = zoo::zoo(&host.path("zoo"), "sha1");
    let mounted = host.mount(&zoo.repo, &zoo.commit_id);
    for name in ["sub", "vendor/undeclared"] {
        assert_eq!(
            std::fs::read_dir(mounted.path(name)).unwrap().count(),
            0,
            "{name}"
        );
    }
    let doctor = host
        .forgefs(["doctor", "--json"])
        .arg(zoo.repo.path())
        .arg(&zoo.commit_id);
    let said = doctor.run();
    said.exits(0);
    let record = said.json()["features"]["submodules"].to_string();
    for part in ["vendor/undeclared", "\"sub\"", &"1234".repeat(10)] {
        assert!(record.contains(part), "{part} in {record}");
    }
}

#[test]
fn r18_no_extended_attribute_carries_a_path() {
    need!(Fuse, Attr);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("d/f", b"x\n")]);
    for options in [&[][..], &["--xattrs"]] {
        let mounted = host.mount_with(&repo, &commit_id, options);
        let dump = host
            .run("getfattr")
            .args(["-d", "-m", "-", "-R"])
            .arg(mounted.point());
        assert_eq!(dump.run().out(), "", "listed with {options:?}");
        mounted.umount();
    }
}

#[test]
fn xattrs_tell_ids_when_asked_for_and_are_never_listed() {
    need!(Fuse, Attr);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("d/f", b"x\n")]);
    let get = |mounted: &Mounted<'_>, path: &str, name: &str| {
        let run = host
            .run("getfattr")
            .args(["--only-values", "--absolute-names", "-n", name]);
        run.arg(mounted.path(path)).run()
    };
    let mounted = host.mount_with(&repo, &commit_id, &["--xattrs"]);
    for (path, name, want) in [
        ("", "user.forgefs.commit", commit_id.clone()),
        ("", "user.forgefs.tree", repo.tree_of(&commit_id)),
        ("", "user.forgefs.oid", repo.tree_of(&commit_id)),
        ("d", "user.forgefs.oid", repo.git(["rev-parse", "HEAD:d"])),
        (
            "d/f",
            "user.forgefs.oid",
            repo.git(["rev-parse", "HEAD:d/f"]),
        ),
    ] {
        assert_eq!(get(&mounted, path, name).ok(), want, "{path} {name}");
    }
    get(&mounted, "d", "user.forgefs.commit")
        .exits(1)
        .says("No such attribute");
    get(&mounted, "d/f", "user.other")
        .exits(1)
        .says("No such attribute");
    let plain = host.mount(&repo, &commit_id);
    get(&plain, "d/f", "user.forgefs.oid")
        .exits(1)
        .says("not supported");
}
