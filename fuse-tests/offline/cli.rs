//! The command line without any mount: what is refused before anything is opened.

use crate::support::Host;

#[test]
fn r1_only_a_full_lower_case_object_id_is_a_commit() {
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"hello\n")]);
    let point = host.dir("m");
    let upper = commit_id.to_uppercase();
    let spaced = format!(" {commit_id}");
    let parent = format!("{commit_id}^");
    let longer = format!("{commit_id}0");
    for name in [
        "HEAD",
        "main",
        &commit_id[..12],
        &upper,
        &spaced,
        &parent,
        &longer,
        "",
    ] {
        let run = host.forgefs(["--json", "mount", "--"]).arg(repo.path());
        let finished = run.arg(name).arg(&point).run();
        finished.exits(2).says("git rev-parse");
        assert!(finished.stdout.is_empty(), "{}", finished.report());
    }
}

/// Mounts where nothing may be mounted, and expects the refusal and no trace of it.
fn refused(host: &Host, repo: &std::path::Path, commit: &str, code: i32) -> serde_json::Value {
    let point = host.path("made");
    let run = host.forgefs(["mount", "--json", "--mkdir"]).arg(repo);
    let finished = run.arg(commit).arg(&point).run();
    finished.exits(code);
    assert!(finished.stdout.is_empty(), "{}", finished.report());
    assert!(!point.exists(), "{}", finished.report());
    finished.json_error()
}

#[test]
fn r2_what_is_no_repository_root_is_refused() {
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("src/f", b"hello\n")]);
    let file = |name: &str, text: &str| {
        let path = host.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    };
    host.dir("plain");
    file("file", "x");
    file("lost/.git", "gitdir: ../no-such-directory\n");
    file("strange/.git", "not a gitfile\n");
    file("elsewhere/.git", "gitdir: ../plain\n");
    // A linked worktree that its repository does not know: the way back leads elsewhere.
    let worktree = host.path("worktree").to_string_lossy().into_owned();
    repo.git(["worktree", "add", "-q", &worktree]);
    host.run("cp").args(["-a", "worktree", "stolen"]).ok();
    for name in [
        "repo/src",
        "plain",
        "file",
        "no-such-path",
        "lost",
        "strange",
        "elsewhere",
        "stolen",
        "/dev/null",
    ] {
        let error = refused(&host, &host.path(name), &commit_id, 3);
        assert!(
            !error["message"].as_str().unwrap_or_default().is_empty(),
            "{name}"
        );
    }
    let error = refused(&host, &repo.join("src"), &commit_id, 3);
    assert_eq!(error["code"], "not-a-repository-root");
}

#[test]
fn r3_only_a_commit_is_mounted_and_the_found_kind_is_named() {
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"hello\n")]);
    repo.git(["tag", "-a", "-m", "x", "v1"]);
    for (name, kind) in [("v1", "tag"), ("HEAD^{tree}", "tree"), ("HEAD:f", "blob")] {
        let id = repo.git(["rev-parse", name]);
        let error = refused(&host, repo.path(), &id, 3);
        assert_eq!(error["code"], "not-a-commit", "{error}");
        assert!(
            error["message"].as_str().is_some_and(|m| m.contains(kind)),
            "{error}"
        );
    }
    let error = refused(&host, repo.path(), &commit_id.replace(|_| true, "0"), 3);
    assert_eq!(error["code"], "missing-object", "{error}");
}

#[test]
fn r9_formats_that_nobody_knows_are_refused_by_name() {
    for (key, value) in [
        ("extensions.objectFormat", "md5"),
        ("extensions.tomorrow", "true"),
        ("core.repositoryformatversion", "2"),
    ] {
        let host = Host::new();
        let repo = host.repo("repo");
        let commit_id = repo.commit_files(&[("f", b"hello\n")]);
        repo.git(["config", "core.repositoryformatversion", "1"]);
        host.run("git")
            .args(["config", "--file"])
            .arg(repo.join(".git/config"))
            .args([key, value])
            .ok();
        let error = refused(&host, repo.path(), &commit_id, 6);
        let message = error["message"].as_str().unwrap_or_default().to_lowercase();
        let name = key.rsplit('.').next().expect("a name").to_lowercase();
        assert!(
            message.contains(&name) || message.contains(value),
            "{error}"
        );
    }
}

#[test]
fn r14_no_option_adds_anything_but_the_commit() {
    let host = Host::new();
    let help = host.forgefs(["mount", "--help"]).ok();
    for word in [
        "--bind",
        "--config",
        "--include",
        "--overlay",
        "--add",
        "--extra",
        "--env",
    ] {
        assert!(!help.contains(word), "{word}");
    }
}

#[test]
fn usage_errors_are_one_object_with_json_and_leave_stdout_empty() {
    let host = Host::new();
    for words in [
        &["mount"][..],
        &["mount", "a"],
        &["prove", "a", "--repo", "b"],
        &["prove", "a", "--sha", "b"],
        &["umount", "a", "--lazy", "--abort"],
        &["ls", "--no-such-option"],
        &["completions", "cobol"],
        &["mount", "a", "b", "c", "--threads", "0"],
        &["mount", "a", "b", "c", "--mtime", "yesterday"],
    ] {
        let finished = host.forgefs(words).arg("--json").run();
        finished.exits(2);
        assert!(finished.stdout.is_empty(), "{}", finished.report());
        assert_eq!(finished.json_error()["schema"], "forgefs.error/1");
    }
}

#[test]
fn nothing_is_coloured_where_nobody_looks() {
    let host = Host::new();
    for words in [
        &["--help"][..],
        &["mount"],
        &["doctor"],
        &["ls"],
        &["prove", "x"],
    ] {
        let finished = host.forgefs(words).run();
        for bytes in [&finished.stdout, &finished.stderr] {
            assert!(!bytes.contains(&0x1b), "{}", finished.report());
        }
    }
}

#[test]
fn completions_are_scripts_that_their_shells_read() {
    let host = Host::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = host.forgefs(["completions", shell]).run();
        script.exits(0);
        let reader = host.run("sh").args(["-c", "command -v \"$0\""]).arg(shell);
        if reader.run().code() == Some(0) {
            host.run(shell)
                .arg("-n")
                .arg("/dev/stdin")
                .stdin(&script.stdout)
                .ok();
        }
    }
    let closed = host
        .run("bash")
        .args(["-c", "set -o pipefail; \"$0\" completions zsh | head -1"]);
    closed.arg(crate::support::forgefs_program()).ok();
}
