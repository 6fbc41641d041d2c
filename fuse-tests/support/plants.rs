//! Substitution plants (requirements 0.4, fixture 4): state beside the objects, or in them, that
//! would make a commit read as something else.

use std::io::Write;
use std::path::Path;

use super::command::Run;
use super::repo::Repo;

/// What replaces a good file or tree.
pub(crate) const EVIL: &[u8] = b"evil\n";

/// Plants everything of fixture 4 that leaves the objects alone: replacements of commit, tree and
/// every blob of the root, a graft, a shallow file and a forged commit-graph.
pub(crate) fn plant_substitutions(repo: &Repo, commit_id: &str) {
    let evil_blob = repo.blob(EVIL);
    let evil_tree = repo.tree(&[super::repo::Entry::file("evil", &evil_blob)]);
    let evil_commit = repo.commit_tree(&evil_tree, &[]);
    forge_commit_graph(repo, commit_id, &evil_tree);
    let tree_id = repo.tree_of(commit_id);
    repo.git(["replace", "-f", commit_id, &evil_commit]);
    repo.git(["replace", "-f", &tree_id, &evil_tree]);
    for listed in repo.listing(commit_id) {
        if listed.mode.starts_with("100") && listed.id != evil_blob {
            repo.git(["replace", "-f", &listed.id, &evil_blob]);
        }
    }
    let info = repo.git_dir().join("info");
    std::fs::create_dir_all(&info).expect("a new directory");
    std::fs::write(info.join("grafts"), format!("{commit_id} {evil_commit}\n")).expect("a file");
    std::fs::write(repo.git_dir().join("shallow"), format!("{commit_id}\n")).expect("a file");
}

/// Writes a commit-graph in which the commit has another tree, with a valid checksum.
pub(crate) fn forge_commit_graph(repo: &Repo, commit_id: &str, evil_tree: &str) {
    repo.git(["commit-graph", "write", "--reachable"]);
    let path = repo.git_dir().join("objects/info/commit-graph");
    let mut bytes = std::fs::read(&path).expect("a commit-graph");
    let good = unhex(&repo.tree_of(commit_id));
    let evil = unhex(evil_tree);
    let at = bytes
        .windows(good.len())
        .position(|window| window == good)
        .expect("the tree id in the commit-graph");
    bytes[at..at + evil.len()].copy_from_slice(&evil);
    let body = bytes.len() - evil.len();
    let sum = Run::new(if evil.len() == 20 {
        "sha1sum"
    } else {
        "sha256sum"
    });
    let sum = sum.stdin(&bytes[..body]).ok();
    let sum = unhex(sum.split(' ').next().expect("a checksum"));
    bytes[body..].copy_from_slice(&sum);
    overwrite(&path, &bytes);
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("hex");
            u8::from_str_radix(pair, 16).expect("hex")
        })
        .collect()
}

/// Replaces a file that may be read-only.
pub(crate) fn overwrite(path: &Path, bytes: &[u8]) {
    if path.exists() {
        std::fs::remove_file(path).expect("a file of ours");
    }
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    std::fs::write(path, bytes).expect("a new file");
}

/// Compresses an object as git stores it loose.
pub(crate) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// The ways in which a loose object can lie, each as the bytes of its file.
pub(crate) fn rewritten(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let object = |kind: &str, len: usize, body: &[u8]| {
        deflate(&[format!("{kind} {len}\0").as_bytes(), body].concat())
    };
    let honest = object("blob", good.len(), good);
    let trailing = [honest.as_slice(), b"garbage"].concat();
    vec![
        ("another content", object("blob", EVIL.len(), EVIL)),
        ("another kind", object("tree", good.len(), good)),
        ("a size too small", object("blob", good.len() - 1, good)),
        ("a size too large", object("blob", good.len() + 1, good)),
        (
            "bytes after the content",
            object("blob", good.len(), &[good, b"x"].concat()),
        ),
        ("bytes after the stream", trailing),
        ("no zlib stream", b"not a zlib stream".to_vec()),
        ("half a stream", honest[..honest.len() / 2].to_vec()),
        ("nothing", Vec::new()),
    ]
}

/// Flips one bit of a file in place, without changing its inode: what is open sees it.
pub(crate) fn flip_bit(path: &Path, at: u64, bit: u8) {
    use std::os::unix::fs::{FileExt, PermissionsExt};
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).expect("a file of ours");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("a file of ours");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)
        .expect("a byte of the file");
    byte[0] ^= 1 << (bit % 8);
    file.write_all_at(&byte, at).expect("a writable file");
}
