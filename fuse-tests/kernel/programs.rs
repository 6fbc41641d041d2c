//! No program is started, no connection made, nothing of the repository written (R13, R47, R68).

use crate::readonly::fingerprint;
use crate::support::{Host, Repo, need};

/// A repository that would run something at every turn, if git read it.
fn trapped(host: &Host) -> (Repo, String) {
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[
        ("f", b"hello\n"),
        ("d/g.txt", b"deep\n"),
        (
            ".gitattributes",
            b"* filter=evil diff=evil text=auto ident\n",
        ),
    ]);
    let pwn = format!("touch {}", host.path("PWNED").display());
    for key in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "credential.helper",
        "gpg.program",
        "uploadpack.packObjectsHook",
        "alias.mount",
        "remote.origin.uploadpack",
    ] {
        repo.git(["config", key, &pwn]);
    }
    let hooks = host.dir("hooks");
    repo.git(["config", "core.hooksPath", &hooks.to_string_lossy()]);
    std::fs::create_dir_all(repo.join(".git/hooks")).unwrap();
    for name in [
        "post-checkout",
        "fsmonitor-watchman",
        "reference-transaction",
        "pre-commit",
    ] {
        for dir in [&hooks, &repo.join(".git/hooks")] {
            std::fs::write(dir.join(name), format!("#!/bin/sh\n{pwn}\n")).unwrap();
            host.run("chmod").arg("+x").arg(dir.join(name)).ok();
        }
    }
    (repo, commit_id)
}

#[test]
fn r13_r68_no_program_no_connection_no_write_in_the_repository() {
    need!(Fuse, Strace);
    let host = Host::new();
    let (repo, commit_id) = trapped(&host);
    let before = fingerprint(&host, repo.path());
    let point = host.dir("m");
    let (at, repo_path) = (point.to_string_lossy(), repo.path().to_string_lossy());
    let verbs: [&[&str]; 6] = [
        &["mount", &repo_path, &commit_id, &at],
        &["ls"],
        &["doctor"],
        &["doctor", &repo_path, &commit_id],
        &["prove", &at, "--repo", &repo_path, "--sha", &commit_id],
        &["umount", &at],
    ];
    for (index, verb) in verbs.iter().enumerate() {
        let log = host.path(format!("strace{index}"));
        let run = host.forgefs(verb.iter());
        let trace = "trace=execve,execveat,connect,openat,openat2,open,creat,unlink,unlinkat,rename,\
                     renameat,renameat2,mkdir,mkdirat,symlink,symlinkat,link,linkat,chmod,fchmodat,\
                     truncate,utimensat";
        let log_name = log.to_string_lossy().into_owned();
        // -D: the daemon outlives the verb, and strace must not wait for it.
        let strace = [
            "strace", "-D", "-f", "-qq", "-s", "4096", "-e", trace, "-o", &log_name,
        ];
        let finished = run.under(strace).run();
        finished.exits(0);
        if index == 0 {
            host.run("sh")
                .args(["-c", "cat \"$0\"/* \"$0\"/d/*"])
                .arg(&point)
                .run();
        }
    }
    for (index, verb) in verbs.iter().enumerate() {
        let text = std::fs::read_to_string(host.path(format!("strace{index}"))).unwrap();
        assert!(text.contains("execve("), "strace saw nothing of {verb:?}");
        for line in text.lines().filter(|line| !line.contains("= -1 ENOENT")) {
            assert!(!line.contains("connect("), "{verb:?}: {line}");
            if line.contains("execve") && !line.contains("resumed") {
                let program = line.split('"').nth(1).unwrap_or(line);
                let name = program.rsplit('/').next().unwrap();
                let allowed = ["forgefs", "fusermount3", "exe"];
                assert!(
                    allowed.contains(&name) || program.starts_with("/proc/self/fd/"),
                    "{verb:?} started {line}"
                );
            }
            let opens = line.contains("open") || line.contains("creat(");
            let writes = !opens
                || ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"]
                    .iter()
                    .any(|f| line.contains(f));
            let is_exec = line.contains("execve") || line.contains("+++") || line.contains("---");
            assert!(
                is_exec || !writes || !line.contains(&*repo_path),
                "{verb:?} writes below the repository: {line}"
            );
        }
    }
    assert!(!host.path("PWNED").exists());
    assert_eq!(fingerprint(&host, repo.path()), before);
}

#[test]
fn r1_a_name_that_is_no_id_is_refused_before_the_repository_is_opened() {
    need!(Strace);
    let host = Host::new();
    let (repo, _) = trapped(&host);
    let log = host.path("strace");
    let log_name = log.to_string_lossy().into_owned();
    let strace = [
        "strace",
        "-f",
        "-qq",
        "-s",
        "4096",
        "-e",
        "trace=%file",
        "-o",
        &log_name,
    ];
    let run = host.forgefs(["mount"]).arg(repo.path()).args(["HEAD", "m"]);
    run.under(strace).run().exits(2);
    let text = std::fs::read_to_string(&log).unwrap();
    let opened: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(&*repo.path().to_string_lossy()) && !line.contains("execve"))
        .collect();
    assert!(opened.is_empty(), "{opened:?}");
}

#[test]
fn r28_the_prover_asks_nobody_but_the_kernel() {
    need!(Fuse, Strace);
    let host = Host::new();
    let (repo, commit_id) = trapped(&host);
    let mounted = host.mount(&repo, &commit_id);
    let log = host.path("strace");
    let log_name = log.to_string_lossy().into_owned();
    let strace = ["strace", "-f", "-qq", "-s", "4096", "-o", &log_name];
    let run = host.forgefs(["prove"]).arg(mounted.point());
    let run = run
        .arg("--repo")
        .arg(repo.path())
        .args(["--sha", &commit_id]);
    run.under(strace).run().exits(0);
    let text = std::fs::read_to_string(&log).unwrap();
    let state = host.state().to_string_lossy().into_owned();
    for line in text.lines() {
        let asks = ["connect(", "sendto(", "sendmsg(", "getxattr(", "listxattr("];
        assert!(!asks.iter().any(|call| line.contains(call)), "{line}");
        assert!(
            line.contains("execve(") || !line.contains(&state),
            "reads our state: {line}"
        );
    }
}
