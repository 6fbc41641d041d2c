//! `forgefs seed`: the private repository, judged by stock git after its source is gone.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::plants::{flip_bit, overwrite};
use crate::support::zoo::zoo;
use crate::support::{Host, Repo, Run};

/// Git in a workspace, with nobody's configuration.
pub(crate) fn git(workspace: &Path, args: &[&str]) -> Run {
    Repo::at(workspace).git_run(args)
}

/// A small history with everything that a work tree can hold.
pub(crate) fn small(host: &Host) -> (Repo, String) {
    let repo = host.repo("repo");
    repo.commit_files(&[("a", b"one\n"), ("d/b", b"two\n")]);
    std::fs::write(repo.join("run"), "#!/bin/sh\n").expect("a new file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(repo.join("run"), mode).expect("our file");
    symlink("d/b", repo.join("link")).expect("a new file");
    repo.git(["add", "."]);
    repo.git(["commit", "-q", "-m", "second"]);
    let commit_id = repo.commit_files(&[("a", b"three\n")]);
    (repo, commit_id)
}

pub(crate) fn seed(
    host: &Host,
    repo: &Repo,
    commit_id: &str,
    dir: &str,
    options: &[&str],
) -> PathBuf {
    let path = host.path(dir);
    host.forgefs(["seed"])
        .arg(repo.path())
        .args([commit_id])
        .arg(&path)
        .args(options)
        .ok();
    path
}

pub(crate) fn file_hashes(workspace: &Path) -> String {
    Run::shell("cd \"$1\" && find .git -type f ! -name index | sort | xargs sha256sum")
        .arg(workspace)
        .ok()
}

#[test]
fn r77_r84_the_zoo_is_whole_and_clean_when_its_source_is_gone() {
    for format in ["sha1", "sha256"] {
        let host = Host::new();
        let zoo = zoo(&host.path("zoo"), format);
        for (commit_id, name) in [(&zoo.commit_id, "w"), (&zoo.legacy_modes_id, "legacy")] {
            let tree_id = zoo.repo.tree_of(commit_id);
            let workspace = seed(&host, &zoo.repo, commit_id, name, &[]);
            let moved = [zoo.repo.path().to_owned(), host.path("zoo.alternate")];
            let away = |path: &Path| PathBuf::from(format!("{}.away", path.display()));
            for path in &moved {
                std::fs::rename(path, away(path)).unwrap();
            }
            assert!(!workspace.join(".git/objects/info/alternates").exists());
            assert_eq!(&git(&workspace, &["rev-parse", "HEAD"]).ok(), commit_id);
            assert_eq!(git(&workspace, &["write-tree"]).ok(), tree_id);
            assert_eq!(git(&workspace, &["status", "--porcelain"]).ok(), "");
            if name == "w" {
                git(&workspace, &["fsck", "--full"]).ok();
            }
            git(&workspace, &["checkout", "."]).ok();
            git(&workspace, &["commit", "--allow-empty", "-q", "-m", "m"]).ok();
            for path in &moved {
                std::fs::rename(away(path), path).unwrap();
            }
        }
    }
}

#[test]
fn everyday_commands_work_also_in_a_copy_and_under_another_owner() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let first = seed(&host, &repo, &commit_id, "w0", &["--history", "2"]);
    let copy = host.path("w1");
    Run::new("cp").arg("-a").arg(&first).arg(&copy).ok();
    let mut workspaces = vec![first, copy];
    if rustix::process::geteuid().is_root() {
        let owned = seed(&host, &repo, &commit_id, "w2", &[]);
        Run::new("chown").args(["-R", "1234:1234"]).arg(&owned).ok();
        workspaces.push(owned);
    }
    // One that knows the history: git takes no shallow one into an empty repository.
    let bare = host.path("bare");
    repo.git(["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    std::fs::rename(repo.path(), host.path("away")).unwrap();
    for (number, workspace) in workspaces.iter().enumerate() {
        let run = |args: &[&str]| git(workspace, args).ok();
        assert_eq!(run(&["status", "--porcelain"]), "");
        assert_eq!(run(&["diff"]), "");
        run(&["fsck", "--full", "--strict"]);
        run(&["log", "--stat"]);
        std::fs::write(workspace.join("a"), "changed\n").unwrap();
        assert_eq!(run(&["status", "--porcelain"]), " M a");
        run(&["stash"]);
        assert_eq!(run(&["status", "--porcelain"]), "");
        run(&["stash", "pop"]);
        run(&["checkout", "-q", "-b", "topic"]);
        run(&["commit", "-q", "-a", "-m", "changed"]);
        run(&["gc", "-q"]);
        run(&["fsck", "--full", "--strict"]);
        let branch = format!("topic{number}");
        let refspec = format!("topic:refs/heads/{branch}");
        run(&["push", "-q", bare.to_str().unwrap(), &refspec]);
        let pushed = git(&bare, &["rev-parse", &branch]).ok();
        assert_eq!(pushed, run(&["rev-parse", "HEAD"]));
    }
}

#[test]
fn r84_the_first_status_opens_no_file_of_the_work_tree() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let workspace = seed(&host, &repo, &commit_id, "w", &[]);
    let trace = host.path("trace");
    if Run::new("which").arg("strace").run().code() != Some(0) {
        eprintln!("SKIPPED (untested): strace is not here");
        return;
    }
    let words = ["strace", "-f", "-e", "trace=open,openat,openat2", "-o"];
    let words = words.into_iter().chain([trace.to_str().unwrap()]);
    git(&workspace, &["status", "--porcelain"])
        .under(words)
        .ok();
    let text = std::fs::read_to_string(&trace).unwrap();
    for name in ["\"a\"", "\"d/b\"", "\"run\"", "\"link\""] {
        assert!(!text.contains(name), "{name} was opened:\n{text}");
    }
    assert!(text.contains("index"));
}

#[test]
fn r86_two_seeds_are_the_same_bytes_whatever_the_number_of_threads() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    repo.pack();
    let one = seed(&host, &repo, &commit_id, "w1", &["--threads", "1"]);
    let two = seed(&host, &repo, &commit_id, "w2", &["--threads", "4"]);
    assert_eq!(file_hashes(&one), file_hashes(&two));
    std::fs::create_dir(host.path("w3")).unwrap();
    let three = seed(&host, &repo, &commit_id, "w3", &[]);
    assert_eq!(file_hashes(&one), file_hashes(&three));
    assert_eq!(std::fs::read_dir(&three).unwrap().count(), 5);
}

#[test]
fn r78_r80_r81_nothing_of_the_hosts_configuration_or_refs_goes_along() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    for (key, value) in [
        ("credential.helper", "store"),
        ("http.https://h/.extraheader", "X: TOKEN"),
        ("core.fsmonitor", "/bin/evil"),
        ("core.hooksPath", "/evil"),
        ("filter.x.smudge", "evil"),
        ("alias.st", "!evil"),
        ("remote.origin.url", "https://u:TOKEN@h/x.git"),
    ] {
        repo.git(["config", key, value]);
    }
    repo.git(["tag", "v1"]);
    repo.git(["update-ref", "refs/remotes/origin/x", &commit_id]);
    let workspace = seed(&host, &repo, &commit_id, "w", &["--branch", "agent/one"]);
    let refs = git(&workspace, &["for-each-ref"]).ok();
    assert_eq!(refs, format!("{commit_id} commit\trefs/heads/agent/one"));
    let list = git(&workspace, &["config", "--local", "--list"]).ok();
    let want = "core.repositoryformatversion=0\ncore.filemode=true\ncore.bare=false\n\
                core.logallrefupdates=true\ncore.checkstat=minimal\ncore.trustctime=false";
    assert_eq!(list, want);
    assert!(!workspace.join(".git/hooks").exists());
    let leaked = Run::new("grep").args(["-r", "TOKEN"]).arg(&workspace).run();
    assert_eq!(leaked.code(), Some(1));
    let detached = seed(&host, &repo, &commit_id, "w2", &["--detach"]);
    assert_eq!(git(&detached, &["for-each-ref"]).ok(), "");
    assert_eq!(git(&detached, &["rev-parse", "HEAD"]).ok(), commit_id);
}

#[test]
fn r79_a_remote_is_kept_only_without_its_credential() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    repo.git(["config", "remote.origin.url", "https://u:TOKEN@h/x.git"]);
    repo.git(["config", "remote.origin.pushurl", "https://ghp_x@h/x.git"]);
    let arguments = |dir: &str, policy: &str| {
        host.forgefs(["seed", "--json", "--origin", policy])
            .arg(repo.path())
            .arg(&commit_id)
            .arg(host.path(dir))
    };
    let stripped = arguments("w", "strip").run();
    assert_eq!(stripped.json()["origin"]["credential_stripped"], true);
    let urls = git(&host.path("w"), &["config", "--get-regexp", "url"]).ok();
    assert_eq!(
        urls,
        "remote.origin.url https://h/x.git\nremote.origin.pushurl https://h/x.git"
    );
    let refused = arguments("w2", "carry").run();
    refused.fails(6, "credential-in-origin");
    assert!(!refused.err().contains("TOKEN") && !host.path("w2").exists());
}

#[test]
fn r82_history_is_as_deep_as_was_asked() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    for (history, count) in [
        ("base", "1"),
        ("1", "1"),
        ("2", "2"),
        ("9", "3"),
        ("full", "3"),
    ] {
        let dir = format!("w-{history}");
        let workspace = seed(&host, &repo, &commit_id, &dir, &["--history", history]);
        assert_eq!(
            git(&workspace, &["rev-list", "--count", "HEAD"]).ok(),
            count
        );
        git(&workspace, &["fsck", "--full", "--strict"]).ok();
    }
    for bad in ["0", "-1", "x", "99999999999"] {
        let run = host
            .forgefs(["seed"])
            .arg(repo.path())
            .args([&commit_id])
            .arg(host.path("bad"))
            .arg(format!("--history={bad}"))
            .run();
        assert_eq!(run.code(), Some(2), "{bad}");
    }
    let shallow = host.path("shallow");
    let url = format!("file://{}", repo.path().display());
    repo.git([
        "clone",
        "-q",
        "--depth",
        "2",
        &url,
        shallow.to_str().unwrap(),
    ]);
    let arguments = |dir: &str, option: &[&str]| {
        host.forgefs(["seed", "--json", "--history", "full"])
            .arg(&shallow)
            .arg(&commit_id)
            .arg(host.path(dir))
            .args(option)
            .run()
    };
    let cut = arguments("cut", &[]);
    assert_eq!(cut.json()["history_truncated"], true);
    git(&host.path("cut"), &["fsck", "--full", "--strict"]).ok();
    assert_eq!(arguments("strict", &["--strict"]).code(), Some(6));
}

#[test]
fn r83_no_inode_is_shared_with_the_source() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let workspace = seed(&host, &repo, &commit_id, "w", &[]);
    let shared = Run::shell(
        "find \"$1\" -type f -printf '%D:%i\\n' | sort > \"$3/one\"; \
         find \"$2\" -type f -printf '%D:%i\\n' | sort > \"$3/two\"; comm -12 \"$3/one\" \"$3/two\"",
    );
    let dir = host.dir("lists");
    let shared = shared.arg(&workspace).arg(repo.path()).arg(dir).ok();
    assert_eq!(shared, "");
    assert_eq!(workspace.join("a").metadata().unwrap().nlink(), 1);
}

#[test]
fn r77_r90_a_refusal_has_its_code_and_leaves_nothing() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    std::fs::create_dir(host.path("full")).unwrap();
    std::fs::write(host.path("full/f"), "").unwrap();
    std::fs::write(host.path("file"), "").unwrap();
    symlink("full", host.path("link")).unwrap();
    let inside = repo.join("inside");
    let in_git = repo.join(".git/inside");
    for (dir, code, slug) in [
        (host.path("full"), 5, "target-not-empty"),
        (host.path("file"), 5, "target-exists"),
        (host.path("link"), 4, "target-is-a-link"),
        (inside.clone(), 4, "target-in-repository"),
        (in_git.clone(), 4, "target-in-repository"),
        (host.path("no/parent"), 2, "target-parent-missing"),
    ] {
        let args = ["seed", "--json"];
        let run = host
            .forgefs(args)
            .arg(repo.path())
            .arg(&commit_id)
            .arg(&dir);
        run.run().fails(code, slug);
    }
    let bad_branch = host
        .forgefs(["seed", "--json", "--branch", "a..b"])
        .arg(repo.path())
        .arg(&commit_id)
        .arg(host.path("w"))
        .run();
    bad_branch.fails(2, "bad-branch-name");
    assert!(!inside.exists() && !in_git.exists() && !host.path("w").exists());
    assert_eq!(std::fs::read_dir(host.path("full")).unwrap().count(), 1);
}

#[test]
fn r85_damage_anywhere_in_the_closure_fails_the_seed_and_leaves_nothing() {
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let blob_id = repo.git(["rev-parse", "HEAD:d/b"]);
    let tree_id = repo.git(["rev-parse", "HEAD:d"]);
    let old_id = repo.git(["rev-parse", "HEAD~1"]);
    for id in [&blob_id, &tree_id, &old_id] {
        let path = repo.loose_path(id);
        let good = std::fs::read(&path).unwrap();
        flip_bit(&path, good.len() as u64 / 2, 3);
        let run = host
            .forgefs(["seed", "--json", "--history", "full"])
            .arg(repo.path())
            .arg(&commit_id)
            .arg(host.path("w"))
            .run();
        assert!(matches!(run.code(), Some(3 | 6)), "{}", run.report());
        assert!(run.err().contains(id.as_str()), "{}", run.report());
        assert!(!host.path("w").exists());
        overwrite(&path, &good);
    }
    let left = std::fs::read_dir(host.path("w").parent().unwrap()).unwrap();
    let hidden = left.filter(|e| {
        let name = e.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("forgefs-seed")
    });
    assert_eq!(hidden.count(), 0);
}
