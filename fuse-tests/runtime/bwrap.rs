//! Bubblewrap binds a mount (R44).

use crate::checks;
use crate::engine::{image_root, turn};
use crate::support::{Host, Run, need};

#[test]
fn r44_r34_bwrap_reads_proves_and_cannot_write() {
    need!(Fuse, Bwrap);
    let _turn = turn();
    let host = Host::new();
    let (repo, commit_id) = checks::small(&host);
    let root = image_root(&host.path(""));
    let mounted = host.mount(&repo, &commit_id);
    let manifest = host.path("m.json");
    let run = host
        .forgefs(["prove"])
        .arg(mounted.point())
        .arg("--write-manifest");
    let run = run.arg(&manifest).arg("--repo").arg(repo.path());
    run.args(["--sha", &commit_id]).ok();
    let sandbox = |script: &str| -> Run {
        Run::new("bwrap")
            .args(["--unshare-all", "--die-with-parent", "--ro-bind"])
            .arg(&root)
            .args(["/", "--proc", "/proc", "--tmpfs", "/tmp", "--ro-bind"])
            .arg(mounted.point())
            .args(["/source", "--ro-bind"])
            .arg(&manifest)
            .args(["/tmp/m.json", "sh", "-euc", script])
    };
    let finished = sandbox("cat /source/f /source/link; /source/run.sh; touch /source/x").run();
    finished.exits(1).says("Read-only file system");
    assert_eq!(
        finished.out(),
        "hello\ndeep\r\nran",
        "{}",
        finished.report()
    );
    let prove = "forgefs prove /source --manifest /tmp/m.json --json --state-dir /tmp/state";
    let finished = sandbox(prove).run();
    finished.exits(0);
    assert_eq!(finished.json()["tree"], repo.tree_of(&commit_id));
    mounted.kill();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let refused = sandbox("ls /source").run();
    assert_ne!(refused.code(), Some(0), "{}", refused.report());
}
