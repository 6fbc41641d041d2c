//! Nothing can be changed through the mount (R23), and nothing in the repository is changed by it
//! (R68).

use crate::support::oracle::assert_exact;
use crate::support::{Host, need};

/// Operations in Python, with what they must give. `f` is a file, `d` a directory, `e` an empty
/// directory (a submodule), `l` a link, `n` a name that does not exist, `t` a file outside.
const TABLE: &[(&str, &str)] = &[
    ("os.open(f, os.O_WRONLY)", "EROFS"),
    ("os.open(f, os.O_RDWR)", "EROFS"),
    ("os.open(f, os.O_WRONLY | os.O_APPEND)", "EROFS"),
    ("os.open(f, os.O_RDONLY | os.O_TRUNC)", "EROFS"),
    ("os.open(f, os.O_WRONLY | os.O_TRUNC)", "EROFS"),
    ("os.open(f, os.O_WRONLY | os.O_CREAT)", "EROFS"),
    ("os.open(n, os.O_WRONLY | os.O_CREAT, 0o644)", "EROFS"),
    ("os.open(n, os.O_RDONLY | os.O_CREAT, 0o644)", "EROFS"),
    (
        "os.open(n, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)",
        "EROFS",
    ),
    ("os.open(d, os.O_TMPFILE | os.O_RDWR, 0o644)", "EROFS"),
    ("os.mkdir(n)", "EROFS"),
    ("os.mknod(n, stat.S_IFREG | 0o644)", "EROFS"),
    (
        "os.mknod(n, stat.S_IFCHR | 0o644, os.makedev(1, 3))",
        "EROFS",
    ),
    ("os.mkfifo(n)", "EROFS"),
    ("os.symlink('x', n)", "EROFS"),
    ("os.link(f, n)", "EROFS"),
    ("os.rename(f, n)", "EROFS"),
    ("os.rename(f, l)", "EROFS"),
    ("os.rename(d, n)", "EROFS"),
    ("renameat2(f, l, EXCHANGE)", "EROFS"),
    ("renameat2(f, n, NOREPLACE)", "EROFS"),
    ("os.unlink(f)", "EROFS"),
    ("os.unlink(l)", "EROFS"),
    ("os.rmdir(d)", "EROFS"),
    ("os.rmdir(e)", "EROFS"),
    ("os.truncate(f, 0)", "EROFS"),
    ("os.truncate(f, 1 << 20)", "EROFS"),
    ("os.chmod(f, 0o777)", "EROFS"),
    ("os.chmod(d, 0o777)", "EROFS"),
    ("os.chown(f, 1, 1)", "EROFS"),
    ("os.lchown(l, 1, 1)", "EROFS"),
    ("os.utime(f)", "EROFS"),
    ("os.utime(f, (1, 1))", "EROFS"),
    ("os.utime(l, (1, 1), follow_symlinks=False)", "EROFS"),
    ("os.setxattr(f, 'user.x', b'y')", "EROFS"),
    ("os.setxattr(d, 'trusted.x', b'y')", "EROFS"),
    ("os.removexattr(f, 'user.x')", "EROFS"),
    ("os.removexattr(f, 'user.forgefs.oid')", "EROFS"),
    ("os.access(f, os.W_OK) or fail(errno.EROFS)", "EROFS"),
    // Where the kernel decides before it asks whether the mount may be written.
    ("os.close(os.open(f, os.O_RDONLY | os.O_CREAT))", "ok"),
    ("os.open(f, os.O_RDONLY | os.O_CREAT | os.O_EXCL)", "EEXIST"),
    ("os.mkdir(d)", "EEXIST"),
    ("os.mknod(f)", "EEXIST"),
    ("os.symlink('x', f)", "EEXIST"),
    ("os.link(f, l)", "EEXIST"),
    ("os.rename(f, t)", "EXDEV"),
    ("os.rename(t, n)", "EXDEV"),
    ("os.link(f, t + '2')", "EXDEV"),
    ("os.link(t, n)", "EXDEV|EROFS"),
    ("os.truncate(d, 0)", "EISDIR"),
    ("os.open(d, os.O_WRONLY)", "EISDIR"),
    // What needs a writable descriptor has none.
    ("os.ftruncate(r, 0)", "EINVAL"),
    ("os.posix_fallocate(r, 0, 10)", "EBADF"),
    ("os.write(r, b'x')", "EBADF"),
    ("os.pwrite(r, b'x', 0)", "EBADF"),
    ("os.copy_file_range(r, r2, 4, 0, 100)", "EBADF"),
    ("os.sendfile(r2, r, 0, 4)", "EBADF"),
    (
        "mmap.mmap(r, 4, mmap.MAP_SHARED, mmap.PROT_WRITE)",
        "EACCES",
    ),
    ("mmap.mmap(r, 4, mmap.MAP_SHARED, mmap.PROT_READ)[0]", "ok"),
    (
        "mmap.mmap(r, 4, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)[0]",
        "ok",
    ),
    ("fcntl.ioctl(r, 0x40086602, b'\\0' * 8)", "EROFS|ENOTTY"),
    (
        "fcntl.ioctl(r, 0x40049409, r2)",
        "EBADF|EOPNOTSUPP|ENOTTY|EROFS",
    ),
    ("os.fchmod(r, 0o777)", "EROFS"),
    ("os.fchown(r, 1, 1)", "EROFS"),
    ("os.fsync(r)", "ok"),
];

const PYTHON: &str = r#"
import ctypes, errno, fcntl, mmap, os, stat, sys
m, t = sys.argv[1:]
f, d, e, l, n = (m + '/' + x for x in ('f', 'd', 'sub', 'link', 'new'))
r, r2 = os.open(f, os.O_RDONLY), os.open(f, os.O_RDONLY)
NOREPLACE, EXCHANGE = 1, 2
libc = ctypes.CDLL(None, use_errno=True)
def fail(code):
    raise OSError(code, '')
def renameat2(a, b, flags):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), flags):
        fail(ctypes.get_errno())
for line in sys.stdin:
    try:
        eval(line)
        print('ok')
    except OSError as error:
        print(errno.errorcode[error.errno])
"#;

/// Returns a digest of everything below a directory: names, modes, times, inodes, bytes.
pub(crate) fn fingerprint(host: &Host, dir: &std::path::Path) -> String {
    let script = "cd \"$1\"; { find . -printf '%p %y %m %s %T@ %C@ %i %u %g %l\\n' | sort; \
                  find . -type f -print0 | sort -z | xargs -0r sha256sum; } | sha256sum";
    host.run("sh").args(["-euc", script, "sh"]).arg(dir).ok()
}

#[test]
fn r23_every_way_of_changing_something_is_refused() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    std::os::unix::fs::symlink("f", repo.join("link")).unwrap();
    repo.commit_files(&[
        ("f", b"hello\n"),
        ("d/g", b"deep\n"),
        ("run", b"#!/bin/sh\n"),
    ]);
    let gitlink = format!("160000,{},sub", "1234".repeat(10));
    repo.git(["update-index", "--add", "--cacheinfo", &gitlink]);
    repo.git(["commit", "-qm", "x"]);
    let commit_id = repo.head();
    let mounted = host.mount(&repo, &commit_id);
    let before = fingerprint(&host, repo.path());
    let outside = host.path("outside");
    std::fs::write(&outside, "outside\n").unwrap();
    let lines: String = TABLE.iter().map(|(code, _)| format!("{code}\n")).collect();
    let python = host
        .run("python3")
        .args(["-c", PYTHON])
        .arg(mounted.point());
    let finished = python.arg(&outside).stdin(lines).run();
    let out = finished.exits(0).out();
    let got: Vec<&str> = out.lines().collect();
    assert_eq!(got.len(), TABLE.len(), "{}", finished.report());
    let wrong: Vec<String> = TABLE
        .iter()
        .zip(&got)
        .filter(|((_, want), got)| !want.split('|').any(|want| want == **got))
        .map(|((code, want), got)| format!("{code}: {got}, not {want}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_exact(&repo, &commit_id, mounted.point());
    mounted.umount();
    assert_eq!(
        fingerprint(&host, repo.path()),
        before,
        "the repository was touched"
    );
}

#[test]
fn r23_a_remount_does_not_make_it_writable() {
    need!(Fuse);
    let host = Host::new();
    let repo = host.repo("repo");
    let commit_id = repo.commit_files(&[("f", b"hello\n")]);
    let mounted = host.mount(&repo, &commit_id);
    let _ = host
        .run("mount")
        .args(["-o", "remount,rw"])
        .arg(mounted.point())
        .run();
    let tried = host
        .run("sh")
        .args(["-c", "echo x >\"$0\""])
        .arg(mounted.path("f"))
        .run();
    assert_ne!(tried.code(), Some(0), "{}", tried.report());
    assert_exact(&repo, &commit_id, mounted.point());
}
