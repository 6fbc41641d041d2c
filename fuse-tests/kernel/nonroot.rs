//! Mounting as an ordinary user through fusermount3, and who may read a mount (R43, R44, R47,
//! R127).

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::mounted::listed_at;
use crate::support::{Host, Repo, Run, forgefs_program, need};

/// A user without privileges, with a home, a repository and a copy of the program below the host.
struct Person {
    host: Host,
    repo: Repo,
    commit_id: String,
    program: PathBuf,
}

const UID: &str = "1000";

impl Person {
    fn new() -> Self {
        let host = Host::new();
        let repo = host.repo("repo");
        let commit_id = repo.commit_files(&[("f", b"hello\n"), ("d/g", b"deep\n")]);
        let program = host.path("forgefs");
        std::fs::copy(forgefs_program(), &program).unwrap();
        host.dir("m");
        host.run("chown")
            .args(["-R", "1000:1000"])
            .arg(host.path("."))
            .ok();
        Self {
            host,
            repo,
            commit_id,
            program,
        }
    }

    /// Prepares a program as a user of this uid, without capabilities.
    fn as_user(&self, uid: &str, program: &Path) -> Run {
        self.host
            .run("setpriv")
            .args(["--reuid", uid, "--regid", uid, "--clear-groups"])
            .args(["--inh-caps=-all", "--bounding-set=-all"])
            .arg(program)
    }

    fn forgefs(&self, args: &[&str]) -> Run {
        // Without a bounding set fusermount3 could not gain what set-uid gives it.
        self.host
            .run("setpriv")
            .args([
                "--reuid",
                UID,
                "--regid",
                UID,
                "--clear-groups",
                "--inh-caps=-all",
            ])
            .arg(&self.program)
            .args(args)
    }

    fn mount(&self, options: &[&str]) -> Run {
        let run = self.forgefs(&["mount", "--json"]).args(options);
        run.arg(self.repo.path())
            .arg(&self.commit_id)
            .arg(self.point())
    }

    fn state_of_mount(&self) -> String {
        let listed = self.forgefs(&["ls", "--json"]).run().json();
        let mount = listed_at(&listed, &self.point()).expect("a line of ls");
        mount["state"].as_str().unwrap_or_default().to_owned()
    }

    fn point(&self) -> PathBuf {
        self.host.path("m")
    }
}

/// Runs with an /etc/fuse.conf of our own, in a mount namespace of its own.
fn with_fuse_conf(run: Run, conf: &Path) -> Run {
    let script = "mount --make-rprivate / && mount --bind \"$0\" /etc/fuse.conf && exec \"$@\"";
    run.under([
        std::ffi::OsStr::new("unshare"),
        "-m".as_ref(),
        "sh".as_ref(),
        "-euc".as_ref(),
        script.as_ref(),
        conf.as_os_str(),
    ])
}

#[test]
fn r127_a_plain_user_mounts_proves_and_unmounts() {
    need!(Fuse, NonRoot);
    let person = Person::new();
    let finished = person.mount(&[]).run();
    finished.exits(0);
    let point = person.point();
    let cat = |uid: &str, path: &str| {
        let cat = person.as_user(uid, Path::new("cat"));
        cat.arg(point.join(path)).run()
    };
    assert_eq!(cat(UID, "d/g").ok(), "deep");
    let line = crate::support::mounts::mounts_at(&point).remove(0);
    for option in ["ro", "nosuid", "nodev"] {
        assert!(
            line.options.split(',').any(|o| o == option),
            "{}",
            line.line
        );
    }
    assert_eq!(line.fstype, "fuse.forgefs", "{}", line.line);
    assert_eq!(line.source, format!("forgefs:{}", &person.commit_id[..12]));
    let point_text = point.to_string_lossy().into_owned();
    let repo_text = person.repo.path().to_string_lossy().into_owned();
    let prove = [
        "prove",
        &point_text,
        "--repo",
        &repo_text,
        "--sha",
        &person.commit_id,
    ];
    person.forgefs(&prove).ok();
    // R43: no other user may look, root included, unless asked for.
    cat("1001", "f").exits(1).says("Permission denied");
    assert_eq!(
        std::fs::read(point.join("f")).unwrap_err().raw_os_error(),
        Some(13)
    );
    assert_eq!(person.state_of_mount(), "live");
    let state = std::fs::metadata(person.host.state()).unwrap();
    assert_eq!(state.permissions().mode() & 0o777, 0o700);
    let other = person
        .as_user("1001", Path::new("ls"))
        .arg(person.host.state());
    other.run().exits(2).says("Permission denied");
    person.forgefs(&["umount", &point_text]).run().exits(0);
    assert!(crate::support::mounts::mounts_at(&point).is_empty());
}

#[test]
fn r127_a_plain_user_cleans_a_dead_mount() {
    need!(Fuse, NonRoot);
    let person = Person::new();
    let finished = person.mount(&[]).run();
    finished.exits(0);
    let mounted = crate::support::Mounted::adopt(&person.host, &person.point(), finished.json());
    mounted.kill();
    assert_eq!(person.state_of_mount(), "dead");
    let point = person.point().to_string_lossy().into_owned();
    person.forgefs(&["umount", &point]).run().exits(0);
    assert!(crate::support::mounts::mounts_at(&person.point()).is_empty());
}

#[test]
fn r43_allow_other_needs_the_line_in_fuse_conf_and_says_so() {
    need!(Fuse, NonRoot);
    let person = Person::new();
    let conf = person.host.path("fuse.conf");
    std::fs::write(&conf, "# nothing allowed\n").unwrap();
    let refused = with_fuse_conf(person.mount(&["--allow-other"]), &conf).run();
    refused
        .exits(8)
        .says("user_allow_other")
        .says("/etc/fuse.conf");
    assert!(refused.stdout.is_empty(), "{}", refused.report());
    std::fs::write(&conf, "user_allow_other\n").unwrap();
    // The mount lives in the namespace that is entered here, so everything is said from inside.
    let script = "
\"$1\" --reuid 1000 --regid 1000 --clear-groups \"$2\" -q mount --allow-other \"$3\" \"$4\" \"$5\" >/dev/null
\"$1\" --reuid 1001 --regid 1001 --clear-groups cat \"$5/d/g\"
cat \"$5/f\"
\"$1\" --reuid 1000 --regid 1000 --clear-groups \"$2\" -q umount \"$5\" >/dev/null
";
    let run = person
        .host
        .run("sh")
        .args(["-euc", script, "sh", "setpriv"])
        .arg(&person.program);
    let run = run
        .arg(person.repo.path())
        .arg(&person.commit_id)
        .arg(person.point());
    assert_eq!(with_fuse_conf(run, &conf).ok(), "deep\nhello");
}

#[test]
fn r43_root_mounts_are_for_root_unless_others_are_allowed() {
    need!(Fuse, NonRoot);
    let person = Person::new();
    let host = Host::new();
    host.run("chmod").arg("711").arg(host.path(".")).ok();
    let cat = |dir: &Path| {
        let cat = person.as_user("1001", Path::new("cat"));
        cat.arg(dir.join("f")).run()
    };
    let closed = host.mount(&person.repo, &person.commit_id);
    cat(closed.point()).exits(1).says("Permission denied");
    let open = host.mount_with(&person.repo, &person.commit_id, &["--allow-other"]);
    assert_eq!(cat(open.point()).ok(), "hello");
    assert!(open.line().line.contains("allow_other"));
    let touch = person
        .as_user("1001", Path::new("touch"))
        .arg(open.path("f"));
    touch.run().exits(1);
}

#[test]
fn r38_without_fusermount3_a_plain_user_is_told_what_to_install() {
    need!(Fuse, NonRoot);
    let person = Person::new();
    // PATH without fusermount3, and the usual places hidden.
    let script = "mount --make-rprivate /; for f in /bin/fusermount3 /usr/bin/fusermount3; do
        [ -e $f ] && mount --bind /dev/null $f || :; done; exec \"$@\"";
    let run = person.mount(&[]).env("PATH", "/nonexistent");
    let setpriv = Run::shell("command -v setpriv").ok();
    let _ = setpriv;
    let finished = run.under(["/usr/bin/unshare", "-m", "/bin/sh", "-c", script, "sh"]);
    let finished = finished.env("PATH", "/usr/bin:/bin").run();
    finished.exits(8).says("fuse");
    assert!(crate::support::mounts::mounts_at(&person.point()).is_empty());
}

#[test]
fn r47_the_daemon_of_a_plain_user_cannot_be_traced_by_that_user() {
    need!(Fuse, NonRoot);
    let person = Person::new();
    let finished = person.mount(&[]).run();
    finished.exits(0);
    let pid = finished.json()["pid"].to_string();
    for file in ["mem", "environ", "maps"] {
        let cat = person.as_user(UID, Path::new("cat"));
        let tried = cat.arg(format!("/proc/{pid}/{file}")).run();
        tried.exits(1).says("Permission denied");
    }
    let point = person.point().to_string_lossy().into_owned();
    person.forgefs(&["umount", &point]).ok();
}
