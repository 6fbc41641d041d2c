//! Making a mount: when it answers, what the mount table says, where it is refused (R24, R37-R39).

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::mounts::{mounts_at, mounts_of};
use crate::support::need::long;
use crate::support::{Host, Repo, need, wait_for};

fn small(host: &Host) -> (Repo, String) {
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"hello\n"), ("d/g", b"deep\n")]);
    (repo, commit_id)
}

#[test]
fn r38_the_root_answers_when_mount_returns() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    for _ in 0..if long() { 200 } else { 20 } {
        let mounted = host.mount(&repo, &commit_id);
        assert_eq!(std::fs::read_dir(mounted.point()).unwrap().count(), 2);
        mounted.umount();
    }
}

#[test]
fn r24_r18_the_kernel_mount_is_read_only_and_names_no_path() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let mounted = host.mount(&repo, &commit_id);
    let line = mounted.line();
    let options: Vec<&str> = line.options.split(',').collect();
    for option in ["ro", "nosuid", "nodev"] {
        assert!(options.contains(&option), "{option} in {}", line.line);
    }
    assert!(!options.contains(&"noexec"), "{}", line.line);
    assert_eq!(line.fstype, "fuse.forgefs");
    assert_eq!(line.source, format!("forgefs:{}", &commit_id[..12]));
    let super_options = line.line.rsplit(' ').next().unwrap();
    assert!(
        super_options.contains("default_permissions"),
        "{}",
        line.line
    );
    assert!(!super_options.contains("allow_other"), "{}", line.line);
    let after_point = line.line.split_once(" - ").unwrap().1;
    assert!(!after_point.contains('/'), "a path in {after_point}");
}

#[test]
fn r24_noexec_forbids_running_programs() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    repo.commit_files(&[("run.sh", b"#!/bin/sh\necho ran\n")]);
    repo.git(["update-index", "--chmod=+x", "run.sh"]);
    repo.git(["commit", "-qm", "x"]);
    let open = host.mount(&repo, &repo.head());
    assert_eq!(host.run(open.path("run.sh")).ok(), "ran");
    let closed = host.mount_with(&repo, &repo.head(), &["--noexec"]);
    assert!(closed.line().options.contains("noexec"));
    let tried = host
        .run("sh")
        .args(["-c", "\"$0\""])
        .arg(closed.path("run.sh"));
    tried.run().exits(126).says("Permission denied");
}

#[test]
fn r37_the_short_form_is_mount() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let long = host.mount(&repo, &commit_id);
    let point = host.dir("short");
    let run = host.forgefs(["--json"]).arg(repo.path()).arg(&commit_id);
    let finished = run.arg(&point).run();
    finished.exits(0);
    let record = finished.json();
    for key in ["schema", "commit", "tree"] {
        assert_eq!(record[key], long.record[key], "{key}");
    }
    assert_eq!(record["schema"], "forgefs.mount/1");
    assert_eq!(record["commit"], commit_id);
    assert_eq!(record["tree"], repo.tree_of(&commit_id));
    assert_eq!(record["mountpoint"], *point.to_string_lossy());
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&record), keys(&long.record));
    let short = mounts_at(&point).remove(0);
    assert_eq!(
        (short.options, short.fstype, short.source),
        (long.line().options, long.line().fstype, long.line().source)
    );
}

#[test]
fn r37_a_repository_named_like_a_verb_is_reached_by_a_path() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("mount");
    let commit_id = repo.commit_files(&[("f", b"hello\n")]);
    host.dir("m");
    host.forgefs(["./mount", &commit_id, "m"]).ok();
    assert_eq!(std::fs::read(host.path("m/f")).unwrap(), b"hello\n");
}

#[test]
fn r2_every_form_of_a_repository_root_mounts_the_same() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let bare = host.path("bare.git");
    repo.git([
        Path::new("clone"),
        "-q".as_ref(),
        "--bare".as_ref(),
        ".".as_ref(),
        &bare,
    ]);
    let worktree = host.path("worktree");
    repo.git([
        Path::new("worktree"),
        "add".as_ref(),
        "-q".as_ref(),
        &worktree,
    ]);
    let superproject = host.repo("super");
    superproject.git(["submodule", "--quiet", "add", "../repo", "sub"]);
    for path in [
        repo.path().to_owned(),
        repo.join(".git"),
        bare,
        worktree,
        superproject.join("sub"),
    ] {
        let mounted = host.mount(&Repo::at(&path), &commit_id);
        assert_eq!(mounted.record["tree"], repo.tree_of(&commit_id), "{path:?}");
        assert_eq!(std::fs::read(mounted.path("d/g")).unwrap(), b"deep\n");
        mounted.umount();
    }
}

/// A mount point that must be refused.
struct Refused {
    what: &'static str,
    point: PathBuf,
    exits: &'static [i32],
}

#[test]
fn r39_a_mount_point_that_is_not_free_is_refused_with_the_reason() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let live = host.mount(&repo, &commit_id);
    let mounts = || {
        let mut mounts = mounts_of("self");
        mounts.retain(|mount| {
            mount.point.starts_with(host.path("")) || mount.point == Path::new("/")
        });
        mounts.len()
    };
    let before = mounts();
    let empty = host.dir("empty");
    symlink(&empty, host.path("link")).unwrap();
    std::fs::write(host.path("file"), "x").unwrap();
    std::fs::write(host.dir("full").join("x"), "x").unwrap();
    std::fs::create_dir(repo.join("inside")).unwrap();
    std::fs::create_dir(repo.join(".git/inside")).unwrap();
    symlink(repo.path(), host.path("to-repo")).unwrap();
    let refused = |what, point, exits| Refused { what, point, exits };
    for bad in [
        refused("missing", host.path("no/such"), &[4]),
        refused("a file", host.path("file"), &[4]),
        refused("a link", host.path("link"), &[4]),
        refused("not empty", host.path("full"), &[5]),
        refused("a mount", live.point().to_owned(), &[5]),
        refused("under the work tree", repo.join("inside"), &[4]),
        refused(
            "under the work tree by a link",
            host.path("to-repo/inside"),
            &[4],
        ),
        refused("under the git directory", repo.join(".git/inside"), &[4]),
        refused("above the repository", host.path("."), &[4, 5]),
        refused("inside a forgefs mount", live.path("d"), &[4]),
        refused("the root", PathBuf::from("/"), &[4, 5]),
    ] {
        let run = host.forgefs(["--json", "mount"]).arg(repo.path());
        let finished = run.arg(&commit_id).arg(&bad.point).run();
        let code = finished.code().unwrap_or(-1);
        assert!(
            bad.exits.contains(&code),
            "{}: {}",
            bad.what,
            finished.report()
        );
        finished.fails(code, finished.json_error()["code"].as_str().unwrap());
        assert_eq!(mounts(), before, "{}", bad.what);
    }
    assert!(!host.path("no").exists());
    let run = host.forgefs(["mount", "--mkdir"]).arg(repo.path());
    run.arg(&commit_id).arg(host.path("no/such")).run().exits(4);
    let made = host.path("made");
    let run = host.forgefs(["mount", "--mkdir"]).arg(repo.path());
    run.arg(&commit_id).arg(&made).ok();
    assert!(made.join("f").exists());
}

#[test]
fn r38_what_fails_before_the_mount_leaves_nothing() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    let missing = "0123456789".repeat(4);
    std::fs::create_dir(host.path("plain")).unwrap();
    let hide_fuse = "mount -t tmpfs none /dev && : >/dev/null && exec \"$@\"";
    let hidden = ["unshare", "-m", "sh", "-c", hide_fuse, "sh"];
    for (what, repo, commit, under, code) in [
        (
            "no such commit",
            repo.path().to_owned(),
            missing.as_str(),
            &[][..],
            3,
        ),
        ("no repository", host.path("plain"), &commit_id, &[], 3),
        (
            "no /dev/fuse",
            repo.path().to_owned(),
            &commit_id,
            &hidden,
            8,
        ),
    ] {
        let point = host.path("made");
        let run = host.forgefs(["--json", "mount", "--mkdir"]);
        let mut run = run.arg(repo).arg(commit).arg(&point);
        if !under.is_empty() {
            run = run.under(under);
        }
        let finished = run.run();
        assert_eq!(finished.code(), Some(code), "{what}: {}", finished.report());
        assert!(mounts_at(&point).is_empty(), "{what}");
        assert!(!point.exists(), "{what} leaves the directory it made");
        assert!(daemons_of(&host).is_empty(), "{what} leaves a process");
    }
}

/// Returns the forgefs processes of this host, by the state directory in their environment or
/// arguments.
pub(crate) fn daemons_of(host: &Host) -> Vec<i32> {
    let state = host.state().into_os_string().into_encoded_bytes();
    let holds = |bytes: &[u8]| bytes.windows(state.len()).any(|window| window == state);
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let read = |what| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            let is_ours = read("comm").starts_with(b"forgefs");
            is_ours && (holds(&read("cmdline")) || holds(&read("environ")))
        })
        .collect()
}

#[test]
fn r38_in_the_foreground_it_stays_and_a_signal_ends_it() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let point = host.dir("m");
        let run = host.forgefs(["mount", "-f"]).arg(repo.path());
        let mut child = run.arg(&commit_id).arg(&point).spawn();
        wait_for(Duration::from_secs(10), "the mount", || {
            point.join("f").exists()
        });
        assert!(
            child.try_wait().unwrap().is_none(),
            "it stays in the foreground"
        );
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "ended by {signal:?} with {status}");
        assert!(mounts_at(&point).is_empty());
    }
}

#[test]
fn r47_the_daemon_holds_nothing_of_its_caller() {
    need!(Fuse);
    let host = Host::new();
    let (repo, commit_id) = small(&host);
    // A pipe that the daemon kept open would never end; a file on descriptor 9 must be closed too.
    let run = host.run("sh").args([
        "-euc",
        "exec 9>held; \"$@\" | cat >said; test ! -s said || cat said",
        "sh",
    ]);
    let run = run
        .arg(crate::support::forgefs_program())
        .args(["-q", "mount"]);
    let point = host.dir("m");
    let finished = run.arg(repo.path()).arg(&commit_id).arg(&point).run();
    assert!(
        finished.took < Duration::from_secs(20),
        "{}",
        finished.report()
    );
    finished.exits(0);
    let pids = daemons_of(&host);
    assert!(!pids.is_empty() && pids.len() <= 2, "at most two: {pids:?}");
    for pid in pids {
        let held: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        assert!(!held.iter().any(|path| path.ends_with("/held")), "{held:?}");
        assert_eq!(
            std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(),
            Path::new("/")
        );
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(status.contains("Umask:\t0077"), "{status}");
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap();
        let ours = std::fs::read_to_string("/proc/self/stat").unwrap();
        let our_session = ours.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap();
        assert_ne!(session, our_session, "a session of its own");
        no_write_descriptor_below(pid, repo.path());
    }
}

/// Expects that a process has nothing below `dir` open for writing (`fdinfo` tells the flags).
fn no_write_descriptor_below(pid: i32, dir: &Path) {
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let entry = entry.unwrap();
        let Ok(path) = std::fs::read_link(entry.path()) else {
            continue;
        };
        if !path.starts_with(dir) {
            continue;
        }
        let name = entry.file_name();
        let info = format!("/proc/{pid}/fdinfo/{}", name.to_string_lossy());
        let info = std::fs::read_to_string(info).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = u32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
        assert_eq!(flags & 3, 0, "{} is open for writing", path.display());
    }
}
