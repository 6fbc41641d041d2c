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
