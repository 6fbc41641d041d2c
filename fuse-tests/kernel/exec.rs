//! mmap and exec from the mount: what builds and interpreters do (the acceptance of issue A).

use std::time::Duration;

use crate::support::{Host, Repo, need};

/// Commits what lies in the work tree and returns the commit.
fn commit_all(repo: &Repo) -> String {
    repo.git(["add", "-A", "-f"]);
    repo.git(["commit", "-qm", "x"]);
    repo.head()
}

#[test]
fn scripts_programs_and_packages_run_from_the_mount() {
    need!(Fuse, Cc);
    let host = Host::new();
    let repo = host.repo("repo");
    repo.commit_files(&[
        (
            "run.sh",
            b"#!/bin/sh\n. \"$(dirname \"$0\")/lib.sh\"\nsay script\n",
        ),
        ("lib.sh", b"say() { echo \"a $1 ran\"; }\n"),
        ("package/__init__.py", b"from .inner import answer\n"),
        ("package/inner/__init__.py", b"answer = 42\n"),
    ]);
    let source = "#include <stdio.h>\nint main(void) { return puts(\"a program ran\") < 0; }\n";
    std::fs::write(host.path("main.c"), source).unwrap();
    host.run("cc")
        .arg("-o")
        .arg(repo.join("program"))
        .arg(host.path("main.c"))
        .ok();
    host.run("chmod").arg("+x").arg(repo.join("run.sh")).ok();
    let commit_id = commit_all(&repo);
    let mounted = host.mount(&repo, &commit_id);
    assert_eq!(host.run(mounted.path("run.sh")).ok(), "a script ran");
    assert_eq!(host.run(mounted.path("program")).ok(), "a program ran");
    let import = "import package; print(package.answer, package.__file__)";
    let python = host
        .run("python3")
        .args(["-c", import])
        .env("PYTHONPATH", mounted.point());
    let said = python.env("PYTHONDONTWRITEBYTECODE", "1").ok();
    assert!(said.starts_with("42 ") && said.contains(&*mounted.point().to_string_lossy()));
    // Python writes its byte code beside the source where it can; here it cannot, and goes on.
    let python = host
        .run("python3")
        .args(["-c", import])
        .env("PYTHONPATH", mounted.point());
    assert!(python.ok().starts_with("42 "));
}

#[test]
fn a_mapped_file_has_the_right_bytes_in_every_page() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let bytes: Vec<u8> = (0..1_000_003_u32).flat_map(u32::to_le_bytes).collect();
    let commit_id = repo.commit_files(&[("numbers", &bytes)]);
    let mounted = host.mount(&repo, &commit_id);
    let script = "
import hashlib, mmap, sys
with open(sys.argv[1], 'rb') as file:
    m = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    at = [int.from_bytes(m[4 * i:4 * i + 4], 'little') for i in range(1000002, 0, -4096)]
    assert at == list(range(1000002, 0, -4096)), at[:10]
    print(hashlib.sha256(m).hexdigest())
";
    let mapped = host
        .run("python3")
        .args(["-c", script])
        .arg(mounted.path("numbers"))
        .ok();
    let sum = host.run("sha256sum").stdin(&bytes).ok();
    assert!(sum.starts_with(&mapped), "{mapped} {sum}");
}

#[test]
fn cargo_builds_with_the_mount_as_source_and_its_target_elsewhere() {
    need!(Fuse, Cc);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[
        (
            "Cargo.toml",
            b"[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        (
            "Cargo.lock",
            b"version = 3\n\n[[package]]\nname = \"tiny\"\nversion = \"0.1.0\"\n",
        ),
        (
            "src/main.rs",
            b"mod word;\nfn main() {\n    println!(\"{}\", word::WORD);\n}\n",
        ),
        (
            "src/word.rs",
            b"pub const WORD: &str = include_str!(\"../word.txt\");\n",
        ),
        ("word.txt", b"built from the mount"),
    ]);
    let mounted = host.mount(&repo, &commit_id);
    let target = host.path("target");
    let mut cargo = host
        .run("cargo")
        .args(["run", "--quiet", "--offline", "--locked"])
        .env("CARGO_TARGET_DIR", &target)
        .deadline(Duration::from_secs(300))
        .dir(mounted.point());
    // The toolchain lives in the caller's home.
    for name in ["HOME", "RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            cargo = cargo.env(name, value);
        }
    }
    assert_eq!(cargo.ok(), "built from the mount");
    // The object store is not asked again: the second build finds everything fresh.
    assert_eq!(cargo.ok(), "built from the mount");
}

#[test]
fn copies_archives_and_searches_agree_with_git_archive() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    for n in 0..120 {
        let name = format!("d{}/e{}/f{n}", n % 5, n % 3);
        std::fs::create_dir_all(repo.join(&name).parent().unwrap()).unwrap();
        std::fs::write(repo.join(&name), format!("needle {n}\n").repeat(n)).unwrap();
    }
    std::os::unix::fs::symlink("d1/e1", repo.join("link")).unwrap();
    let commit_id = commit_all(&repo);
    let mounted = host.mount(&repo, &commit_id);
    let script = "
mkdir archive tar
git -C \"$2\" archive \"$3\" | tar x -C archive
cp -a \"$1\" copy
tar c -C \"$1\" . | tar x -C tar
diff -r --no-dereference archive \"$1\"
diff -r --no-dereference archive copy
diff -r --no-dereference archive tar
(cd archive && grep -rc needle . | sort) >searched
(cd \"$1\" && grep -rc needle . | sort) | diff searched -
(cd archive && find . | sort) >found
(cd \"$1\" && find . | sort) | diff found -
";
    let run = host
        .run("sh")
        .args(["-euc", script, "sh"])
        .arg(mounted.point());
    run.arg(repo.path())
        .arg(&commit_id)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .ok();
}
