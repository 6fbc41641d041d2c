//! One golden file for each verb and each exit code (R129), as far as no mount is needed.

use crate::support::golden::{Keep, assert_golden};
use crate::support::{Entry, Host, Repo};

/// A repository with a plain copy of its commit beside it.
fn fixture(host: &Host) -> (Repo, String) {
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"hello\n"), ("d/g", b"deep\n")]);
    host.run("cp")
        .arg("-a")
        .arg(repo.path())
        .arg(host.path("copy"))
        .ok();
    host.run("rm").arg("-rf").arg(host.path("copy/.git")).ok();
    host.run("cp")
        .arg("-a")
        .arg(host.path("copy"))
        .arg(host.path("changed"))
        .ok();
    std::fs::write(host.path("changed/d/g"), "DEEP\n").expect("a file of ours");
    (repo, commit_id)
}

#[test]
fn r129_help_is_what_it_was() {
    let host = Host::new();
    let verbs = [
        "mount",
        "umount",
        "prove",
        "ls",
        "doctor",
        "seed",
        "completions",
    ];
    let mut pages: Vec<Vec<&str>> = verbs.iter().map(|verb| vec![*verb, "--help"]).collect();
    pages.push(vec!["--help"]);
    for page in pages {
        let finished = host.forgefs(&page).run();
        finished.exits(0);
        let name = format!("help-{}.txt", page[0].trim_start_matches('-'));
        assert_golden(&host, &name, &page.join(" "), &finished, Keep::Values);
        let help = finished.out();
        assert!(
            page.len() == 1 || help.contains("Example"),
            "no example: {help}"
        );
        assert!(
            help.lines().all(|line| line.chars().count() <= 110),
            "{help}"
        );
    }
}

#[test]
fn r129_each_exit_code_has_its_words() {
    let host = Host::new();
    let (repo, commit_id) = fixture(&host);
    let tree_id = repo.tree_of(&commit_id);
    let bad = repo.raw_tree(&[Entry::dir(".git", &tree_id)]);
    let bad = repo.commit_tree(&bad, &[]);
    let future = host.repo("future");
    let future_id = future.commit_files(&[("f", b"x\n")]);
    future.git(["config", "core.repositoryformatversion", "1"]);
    future.git(["config", "extensions.tomorrow", "true"]);
    std::fs::create_dir(host.path("plain")).expect("a file of ours");
    let missing = "0123456789".repeat(4);
    let prove = |dir: &str, rest: &[&str]| -> Vec<String> {
        let mut words = vec!["prove", dir, "--repo", "repo", "--sha", &commit_id];
        words.extend(rest);
        words.into_iter().map(str::to_owned).collect()
    };
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    for (name, args, code) in [
        ("0-prove", prove("copy", &[]), 0),
        ("0-ls", words(&["ls", "--mounts"]), 0),
        ("1-prove", prove("changed", &[]), 1),
        ("2-no-arguments", words(&["mount"]), 2),
        ("2-not-a-full-id", words(&["mount", "repo", "HEAD", "m"]), 2),
        ("2-unknown-option", words(&["ls", "--no-such-option"]), 2),
        ("2-prove-without-expectation", words(&["prove", "copy"]), 2),
        (
            "3-missing-object",
            words(&["mount", "repo", &missing, "m", "--mkdir"]),
            3,
        ),
        (
            "3-not-a-commit",
            words(&["mount", "repo", &tree_id, "m", "--mkdir"]),
            3,
        ),
        (
            "3-not-a-repository",
            words(&["mount", "plain", &commit_id, "m", "--mkdir"]),
            3,
        ),
        ("3-umount-nothing", words(&["umount", "plain"]), 3),
        ("6-bad-tree", words(&["doctor", "repo", &bad]), 6),
        (
            "6-unknown-extension",
            words(&["mount", "future", &future_id, "m", "--mkdir"]),
            6,
        ),
        ("7-prove-budget", prove("copy", &["--max-entries", "1"]), 7),
    ] {
        for json in [false, true] {
            let mut args = args.clone();
            if json {
                args.push(String::from("--json"));
            }
            let finished = host.forgefs(&args).run();
            assert_eq!(finished.code(), Some(code), "{name}: {}", finished.report());
            if matches!(name, "0-ls" | "6-bad-tree") {
                // What is mounted and what the host can do is not for a file; and `doctor` prints
                // its whole report beside the error, since the report is what it is asked for.
                continue;
            }
            if json && code >= 2 {
                assert!(finished.stdout.is_empty(), "{}", finished.report());
                assert_eq!(finished.json_error()["exit"], code, "{}", finished.report());
            }
            if json && code < 2 {
                assert!(finished.stderr.is_empty(), "{}", finished.report());
                finished.json();
            }
            let name = format!("{name}.{}", if json { "json" } else { "txt" });
            assert_golden(&host, &name, &args.join(" "), &finished, Keep::Values);
        }
    }
}

#[test]
fn r129_doctor_keeps_its_names() {
    let host = Host::new();
    let (_, commit_id) = fixture(&host);
    let finished = host.forgefs(["doctor", "repo", &commit_id, "--json"]).run();
    finished.exits(0);
    let words = format!("doctor repo {commit_id} --json");
    assert_golden(&host, "0-doctor.json", &words, &finished, Keep::Names);
}
