//! Golden files of the verbs that need a mount (R129).

use crate::support::golden::{Keep, assert_golden};
use crate::support::mounted::listed_at;
use crate::support::{Host, need};

#[test]
fn r129_mount_ls_prove_and_umount_keep_their_words() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let id = repo.commit_files(&[("f", b"hello\n"), ("d/g", b"deep\n")]);
    std::fs::create_dir_all(host.path("full/x")).unwrap();
    let m = host.path("m").to_string_lossy().into_owned();
    for json in [false, true] {
        let ending = if json { "json" } else { "txt" };
        for (name, words, code) in [
            ("0-mount", vec!["mount", "repo", &id, "m", "--mkdir"], 0),
            ("5-mount-not-empty", vec!["mount", "repo", &id, "full"], 5),
            ("5-mount-on-a-mount", vec!["mount", "repo", &id, "m"], 5),
            (
                "4-mount-in-the-repository",
                vec!["mount", "repo", &id, "repo/d"],
                4,
            ),
            (
                "0-prove-mount",
                vec!["prove", &m, "--repo", "repo", "--sha", &id],
                0,
            ),
            ("0-umount", vec!["umount", "m"], 0),
        ] {
            let mut words = words.clone();
            if json {
                words.push("--json");
            }
            let finished = host.forgefs(&words).run();
            assert_eq!(finished.code(), Some(code), "{name}: {}", finished.report());
            let shown = words.join(" ");
            assert_golden(
                &host,
                &format!("{name}.{ending}"),
                &shown,
                &finished,
                Keep::Values,
            );
            if name == "0-mount" {
                let listed = host.forgefs(["ls", "--json"]).run();
                let line = listed_at(&listed.json(), host.path("m").as_path()).unwrap();
                for key in [
                    "commit",
                    "state",
                    "pid",
                    "mountpoint",
                    "source",
                    "connection",
                ] {
                    assert!(!line[key].is_null(), "{key} in {line}");
                }
            }
        }
    }
    let hidden = "mount -t tmpfs none /dev && : >/dev/null && exec \"$@\"";
    let under = ["unshare", "-m", "sh", "-c", hidden, "sh"];
    let run = host
        .forgefs(["mount", "repo", &id, "m", "--json"])
        .under(under);
    let words = format!("mount repo {id} m --json");
    assert_golden(
        &host,
        "8-no-fuse.json",
        &words,
        run.run().exits(8),
        Keep::Values,
    );
}
