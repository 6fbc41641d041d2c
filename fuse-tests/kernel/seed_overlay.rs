//! Overlay workspaces on a real mount: usable at once, private, and nothing below ever changes.

use std::path::{Path, PathBuf};

use crate::support::{Host, Repo, Run, need};

fn history(host: &Host) -> (Repo, String) {
    let repo = host.repo("repo");
    repo.commit_files(&[("a", b"one\n"), ("d/b", b"two\n"), ("d/e/f", b"deep\n")]);
    let commit_id = repo.commit_files(&[("a", b"three\n"), ("main.c", b"int main(){return 0;}\n")]);
    repo.pack();
    (repo, commit_id)
}

fn overlay(
    host: &Host,
    repo: &Repo,
    commit_id: &str,
    dir: &str,
    more: &[&str],
) -> serde_json::Value {
    let run = host
        .forgefs(["seed", "--json", "--worktree", "overlay", "--mount"])
        .arg(repo.path())
        .arg(commit_id)
        .arg(host.path(dir))
        .args(more)
        .run();
    run.exits(0);
    run.json()
}

fn hash_of(dir: &Path) -> String {
    Run::shell("cd \"$1\" && find . -type f | sort | xargs sha256sum && find . -printf '%m %U %s %p\\n' | sort")
        .arg(dir)
        .ok()
}

fn git(workspace: &Path, args: &[&str]) -> String {
    Repo::at(workspace).git_run(args).ok()
}

fn end(host: &Host, dir: &Path) {
    rustix::mount::unmount(dir.join("merged"), rustix::mount::UnmountFlags::empty()).unwrap();
    host.forgefs(["umount"]).arg(dir.join("source")).ok();
}

#[test]
fn an_overlay_workspace_is_a_whole_repository_and_nothing_below_changes() {
    need!(Fuse);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let host = Host::new();
    let (repo, commit_id) = history(&host);
    let record = overlay(&host, &repo, &commit_id, "w", &["--history", "full"]);
    let merged = host.path("w/merged");
    let layer = PathBuf::from(record["overlay"]["layer"].as_str().unwrap());
    let before = hash_of(&layer);
    let run = |args: &[&str]| git(&merged, args);
    assert_eq!(run(&["status", "--porcelain"]), "");
    assert_eq!(run(&["rev-parse", "HEAD"]), commit_id);
    assert_eq!(run(&["write-tree"]), repo.tree_of(&commit_id));
    assert_eq!(run(&["rev-list", "--count", "HEAD"]), "2");
    run(&["fsck", "--full", "--strict"]);
    assert!(!merged.join(".git/objects/info/alternates").exists());
    // Create, edit, delete, rename, chmod, link, a directory in a file's place, and back.
    Run::shell(
        "cd \"$1\" && echo new > n && echo more >> a && rm d/b && mv d/e moved && chmod +x main.c \
         && ln -s a l && rm -r d && echo file > d && git status --porcelain",
    )
    .arg(&merged)
    .ok();
    run(&["add", "-A"]);
    run(&["commit", "-q", "-m", "all of it"]);
    run(&["checkout", "-q", "-b", "older", "HEAD~2"]);
    assert!(merged.join("d/b").exists() && !merged.join("n").exists());
    run(&["checkout", "-q", "work"]);
    std::fs::write(merged.join("junk"), "").unwrap();
    run(&["clean", "-dfxq"]);
    assert_eq!(run(&["status", "--porcelain"]), "");
    Run::shell(
        "cd \"$1\" && for f in .git/objects/pack/*; do chmod u+w $f; echo x >> $f; done; true",
    )
    .arg(&merged)
    .ok();
    assert_eq!(hash_of(&layer), before);
    std::fs::remove_dir_all(merged.join(".git")).unwrap();
    assert_eq!(hash_of(&layer), before);
    host.forgefs(["prove"])
        .arg(host.path("w/source"))
        .arg("--repo")
        .arg(repo.path())
        .args(["--sha", &commit_id])
        .ok();
    end(&host, &host.path("w"));
}

#[test]
fn the_second_workspace_shares_the_layer_and_gc_leaves_it_alone() {
    need!(Fuse);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let host = Host::new();
    let (repo, commit_id) = history(&host);
    let one = overlay(&host, &repo, &commit_id, "one", &[]);
    let source = host.path("one/source");
    let two = overlay(
        &host,
        &repo,
        &commit_id,
        "two",
        &["--source", source.to_str().unwrap()],
    );
    assert_eq!(one["overlay"]["layer"], two["overlay"]["layer"]);
    assert_eq!(one["pack_sha256"], two["pack_sha256"]);
    let layer = PathBuf::from(one["overlay"]["layer"].as_str().unwrap());
    let before = hash_of(&layer);
    for name in ["one", "two"] {
        let merged = host.path(name).join("merged");
        std::fs::write(merged.join("a"), name).unwrap();
        git(&merged, &["commit", "-q", "-a", "-m", name]);
        git(&merged, &["gc", "-q"]);
        git(&merged, &["fsck", "--full", "--strict"]);
        assert_eq!(git(&merged, &["status", "--porcelain"]), "");
    }
    assert_eq!(hash_of(&layer), before);
    let other = repo.commit_files(&[("a", b"four\n")]);
    let refused = host
        .forgefs(["seed", "--json", "--worktree", "overlay", "--source"])
        .arg(&source)
        .arg(repo.path())
        .arg(&other)
        .arg(host.path("three"))
        .run();
    refused.fails(4, "source-not-usable");
    assert!(!host.path("three").exists());
    rustix::mount::unmount(
        host.path("two/merged"),
        rustix::mount::UnmountFlags::empty(),
    )
    .unwrap();
    end(&host, &host.path("one"));
}

#[test]
fn the_first_status_of_an_overlay_workspace_opens_no_file() {
    need!(Fuse);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let host = Host::new();
    let (repo, commit_id) = history(&host);
    overlay(&host, &repo, &commit_id, "w", &[]);
    let merged = host.path("w/merged");
    if Run::new("which").arg("strace").run().code() != Some(0) {
        eprintln!("SKIPPED (untested): strace is not here");
        return;
    }
    let trace = host.path("trace");
    let words = ["strace", "-f", "-e", "trace=open,openat,openat2", "-o"];
    let words = words.into_iter().chain([trace.to_str().unwrap()]);
    let status = Repo::at(&merged)
        .git_run(["status", "--porcelain"])
        .under(words);
    assert_eq!(status.ok(), "");
    let text = std::fs::read_to_string(&trace).unwrap();
    for name in ["\"a\"", "\"d/b\"", "\"main.c\""] {
        assert!(!text.contains(name), "{name} was opened:\n{text}");
    }
    end(&host, &host.path("w"));
}

#[test]
fn an_ordinary_user_works_in_a_user_namespace_of_its_own() {
    need!(NonRoot);
    let host = Host::new();
    let (repo, commit_id) = history(&host);
    let program = host.path("forgefs");
    std::fs::copy(crate::support::forgefs_program(), &program).unwrap();
    Run::new("chown")
        .args(["-R", "1000:1000"])
        .arg(host.path("."))
        .ok();
    let script = "cd \"$1\" && ./forgefs seed \"$2\" \"$3\" \"$1/w\" --worktree overlay --mount \
                  && cd w/merged && git status --porcelain && echo more >> a && mv d/b d/c \
                  && rm -r d/e && git add -A && git -c user.name=A -c user.email=a@b commit -qm m \
                  && git fsck --full && git gc -q && git status --porcelain && ls d \
                  && cd \"$1\" && umount w/merged && ./forgefs umount w/source";
    let words = [
        "--reuid=1000",
        "--regid=1000",
        "--clear-groups",
        "unshare",
        "-Urm",
        "sh",
        "-euc",
    ];
    let run = host
        .run("setpriv")
        .args(words)
        .args([script, "sh"])
        .arg(host.path("."))
        .arg(repo.path())
        .arg(&commit_id)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .run();
    run.exits(0);
    assert!(
        run.out().lines().any(|line| line == "c"),
        "{}",
        run.report()
    );
}
