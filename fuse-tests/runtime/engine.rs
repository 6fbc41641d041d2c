//! Container engines for the tests: Docker's own daemon, started once, and podman; an image of
//! busybox and the forgefs under test, imported without a registry.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::support::{Host, Run, forgefs_program, wait_for};

/// The name under which the image is imported.
const IMAGE: &str = "forgefs-test";

/// Containers copy the mounts that exist when they start, and rootless podman keeps a namespace of
/// its own alive, so the tests take turns: a mount must have no holder that its test does not know.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for this test's turn.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One engine: the words before its own verbs, and options that `run` needs here.
#[derive(Debug)]
pub(crate) struct Engine {
    words: Vec<String>,
    run_options: &'static [&'static str],
}

impl Engine {
    /// Prepares a verb of the engine.
    pub(crate) fn run<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Run {
        Run::new(&self.words[0])
            .args(&self.words[1..])
            .args(args)
            .env("HOME", "/nonexistent")
            .deadline(Duration::from_secs(180))
    }

    /// Prepares `run` with a mount bound read-only at /source.
    pub(crate) fn container(&self, source: &Path, options: &[&str], script: &str) -> Run {
        let mount = format!("type=bind,src={},dst=/source,readonly", source.display());
        self.run(["run", "--rm", "--network", "none", "--mount", &mount])
            .args(self.run_options)
            .args(options)
            .args([IMAGE, "sh", "-euc", script])
    }

    fn import(&self, root: &Path) {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let script = "root=$1; shift; tar c -C \"$root\" . | \"$@\" import - forgefs-test";
        let run = Run::new("sh")
            .args(["-euc", script, "sh"])
            .arg(root)
            .args(&words);
        run.env("HOME", "/nonexistent")
            .deadline(Duration::from_secs(180))
            .ok();
    }
}

/// Makes the file tree of the image: busybox, forgefs and the libraries that it is linked with.
pub(crate) fn image_root(dir: &Path) -> PathBuf {
    let root = dir.join("rootfs");
    let script = r#"
root=$1 forgefs=$2
mkdir -p "$root/bin" "$root/tmp" "$root/etc" "$root/proc" "$root/source"
cp "$(PATH=$PATH:/bin:/usr/bin command -v busybox)" "$root/bin/busybox"
for name in sh cat touch ls grep id sleep stat sha256sum find head rm mkdir sort; do
    ln -sf busybox "$root/bin/$name"
done
cp "$forgefs" "$root/bin/forgefs"
for library in $(ldd "$forgefs" | grep -o '/[^ )]*'); do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
chmod 1777 "$root/tmp"
"#;
    let run = Run::new("sh").args(["-euc", script, "sh"]).arg(&root);
    run.arg(forgefs_program()).ok();
    root
}

/// Returns Docker with its own daemon, which ends and cleans up when this process ends.
pub(crate) fn docker() -> &'static Engine {
    static DOCKER: OnceLock<Engine> = OnceLock::new();
    DOCKER.get_or_init(|| {
        let dir = tempfile::Builder::new()
            .prefix("forgefs-test-docker-")
            .tempdir()
            .unwrap()
            .keep();
        // The daemon is told when the thread that started it ends: one that lives as long as we do.
        let script = r#"
cd "$1"
PATH=$PATH:/usr/sbin:/sbin
dockerd --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs --data-root="$1/data" \
    --exec-root="$1/exec" --host="unix://$1/sock" --pidfile="$1/pid" >"$1/log" 2>&1 &
daemon=$!
end() {
    kill $daemon
    wait $daemon
    grep -o " $1[^ ]*" /proc/self/mountinfo | xargs -r umount -l
    rm -rf --one-file-system "$1"
    exit
}
trap 'end "$1"' TERM
wait $daemon
"#;
        let keeper = Run::new("setpriv")
            .args(["--pdeathsig", "TERM", "sh", "-c", script, "sh"])
            .arg(&dir);
        std::thread::spawn(move || {
            let _ = keeper.spawn().wait();
        });
        let engine = Engine {
            words: vec![
                "docker".into(),
                "-H".into(),
                format!("unix://{}/sock", dir.display()),
            ],
            run_options: &[],
        };
        wait_for(Duration::from_secs(90), "dockerd to answer", || {
            engine.run(["version"]).run().code() == Some(0)
        });
        engine.import(&image_root(&dir));
        engine
    })
}

/// Returns podman with its storage below the host.
pub(crate) fn podman(host: &Host) -> Engine {
    let engine = podman_in(host, &[]);
    engine.import(&image_root(&host.path("")));
    engine
}

/// Returns podman as the user 1000, without root's rights: its container root is that user.
pub(crate) fn rootless_podman(host: &Host) -> Engine {
    let home = host.dir("rootless");
    host.run("chown").arg("1000:1000").arg(&home).ok();
    let home = home.to_string_lossy().into_owned();
    let words = [
        "setpriv".to_owned(),
        "--reuid=1000".to_owned(),
        "--regid=1000".to_owned(),
        "--clear-groups".to_owned(),
        "env".to_owned(),
        format!("--chdir={home}"),
        format!("HOME={home}"),
        format!("XDG_RUNTIME_DIR={home}"),
    ];
    let mut engine = podman_in(host, &words);
    engine.run_options = &["--ulimit", "host"];
    engine.import(&image_root(&host.path("")));
    engine
}

fn podman_in(host: &Host, before: &[String]) -> Engine {
    let place = host.path(if before.is_empty() {
        "podman"
    } else {
        "rootless"
    });
    let mut words = before.to_vec();
    for word in [
        "podman",
        "--runtime=runc",
        "--storage-driver=vfs",
        "--cgroup-manager=cgroupfs",
    ] {
        words.push(word.into());
    }
    words.push(String::from("--events-backend=file"));
    words.push(format!("--root={}", place.join("data").display()));
    words.push(format!("--runroot={}", place.join("run").display()));
    Engine {
        words,
        // The default limits are above what this kernel grants.
        run_options: &[
            "--ulimit",
            "nofile=1024:1024",
            "--ulimit",
            "nproc=1024:1024",
        ],
    }
}
