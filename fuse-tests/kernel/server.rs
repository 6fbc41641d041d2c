//! The server alone, in this process, on a snapshot held in memory: which requests reach it, and
//! what the kernel keeps.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forgefs::mount::{ServeOptions, Server};
use forgefs::snapshot::{Count, Snapshot, Stats};
use forgefs::sys::mounts::{FuseMountOptions, mount_fuse, open_fuse_device, unmount};

use crate::support::model::{Node, dir, file, open};
use crate::support::rng::Rng;
use crate::support::{Host, need};

/// A snapshot that threads of this process serve.
struct Served {
    snapshot: Arc<Snapshot>,
    point: PathBuf,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    fn new(point: &Path, root: &Node, options: &ServeOptions) -> Self {
        let snapshot = Arc::new(open(root).1);
        let device = open_fuse_device().expect("need!(Fuse)");
        let how = FuseMountOptions {
            source: String::from("forgefs:0123456789ab"),
            no_exec: false,
            allow_other: false,
            uid: 0,
            gid: 0,
        };
        mount_fuse(device.as_fd(), point, &how).expect("need!(Fuse)");
        let server = Server::start(Arc::clone(&snapshot), device, options).expect("a handshake");
        let thread = std::thread::spawn(move || server.run().expect("a clean end"));
        Self {
            snapshot,
            point: point.to_path_buf(),
            thread: Some(thread),
        }
    }

    fn stats(&self) -> &Stats {
        self.snapshot.stats()
    }

    /// Waits until read-ahead has nothing more to do.
    fn settle(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        let mut last = u64::MAX;
        while last != self.stats().get(Count::Pushed) && Instant::now() < end {
            last = self.stats().get(Count::Pushed);
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        unmount(&self.point, true).expect("a mount to end");
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends by itself");
        }
    }
}

fn options(read_ahead_threads: u16) -> ServeOptions {
    ServeOptions {
        read_ahead_threads,
        ..ServeOptions::default()
    }
}

/// Directories of files of mixed sizes.
fn tree() -> Node {
    let mut rng = Rng::new(7);
    let mut sub = |count: usize| {
        let files = (0..count).map(|n| {
            let len = [0, 1, 100, 4095, 4096, 4097, 20_000, 140_000][rng.index(8)];
            let bytes = rng.bytes(len);
            (format!("f{n:03}").into_bytes(), file(bytes))
        });
        Node::Dir(files.collect::<BTreeMap<_, _>>())
    };
    dir([
        ("a", sub(60)),
        ("b", dir([("c", sub(50)), ("d", sub(3)), ("z", file("z"))])),
        ("link", Node::Link(b"b/z".to_vec())),
        ("module", Node::Submodule),
        ("x", sub(90)),
    ])
}

/// Reads a tree through the kernel, each directory listed before its files are read.
fn read_back(at: &Path) -> Node {
    let mut list: Vec<_> = std::fs::read_dir(at)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    list.sort();
    let mut entries = BTreeMap::new();
    for name in list {
        use std::os::unix::ffi::OsStrExt;
        let path = at.join(&name);
        let kind = std::fs::symlink_metadata(&path)
            .expect("attributes")
            .file_type();
        let node = if kind.is_symlink() {
            let target = std::fs::read_link(&path).expect("a target");
            Node::Link(target.as_os_str().as_bytes().to_vec())
        } else if name == "module" {
            assert_eq!(std::fs::read_dir(&path).expect("a directory").count(), 0);
            Node::Submodule
        } else if kind.is_dir() {
            read_back(&path)
        } else {
            file(std::fs::read(&path).expect("content"))
        };
        entries.insert(name.as_bytes().to_vec(), node);
    }
    Node::Dir(entries)
}

#[test]
fn what_read_ahead_pushes_is_what_the_commit_has_and_the_second_reading_asks_nothing() {
    need!(Fuse);
    let host = Host::new();
    for threads in [0, 1, 3] {
        let root = tree();
        let served = Served::new(&host.dir(format!("m{threads}")), &root, &options(threads));
        assert!(read_back(&served.point) == root, "first reading");
        served.settle();
        let stats = served.stats();
        assert_eq!(stats.get(Count::Pushed) > 0, threads > 0);
        assert_eq!(
            (stats.get(Count::Lookups), stats.get(Count::Failures)),
            (0, 0)
        );
        // What was pushed before the kernel had its inodes would be loaded again.
        let loads = stats.get(Count::Loads);
        assert!(loads <= 240, "{loads} loads for 204 files");
        let before = stats.requests();
        assert!(read_back(&served.point) == root, "second reading");
        // The page cache may lose a page when the host drops caches, which other tests do.
        let asked = stats.requests() - before;
        assert!(asked <= 20, "{asked} requests of a warm mount");
    }
}

#[test]
fn a_sequential_reader_asks_for_a_quarter_of_the_files_at_most() {
    need!(Fuse);
    let host = Host::new();
    let files = (0..2000).map(|n| (format!("f{n:04}").into_bytes(), file(vec![b'x'; n + 1])));
    let root = dir([("d", Node::Dir(files.collect()))]);
    let served = Served::new(&host.dir("m"), &root, &options(1));
    let mut names: Vec<_> = std::fs::read_dir(served.point.join("d"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    for (n, path) in names.iter().enumerate() {
        assert_eq!(std::fs::read(path).unwrap(), vec![b'x'; n + 1]);
    }
    let reads = served.stats().get(Count::Reads);
    assert!(reads <= 500, "{reads} READ requests for 2000 files");
}

#[test]
fn absent_names_are_asked_for_once() {
    need!(Fuse);
    let host = Host::new();
    let served = Served::new(&host.dir("m"), &tree(), &options(1));
    for _ in 0..50 {
        assert!(!served.point.join("nowhere").exists());
        assert!(served.point.join("b/z").exists());
    }
    let lookups = served.stats().get(Count::Lookups);
    assert!(lookups <= 6, "{lookups} LOOKUP requests");
    assert_eq!(served.stats().get(Count::Failures), 0);
}

#[test]
fn an_unmount_in_the_middle_of_reading_ahead_ends_the_server() {
    need!(Fuse);
    let host = Host::new();
    let files = (0..3000).map(|n| {
        let bytes = Rng::new(n).bytes(30_000);
        (format!("f{n:04}").into_bytes(), file(bytes))
    });
    let root = dir([("d", Node::Dir(files.collect()))]);
    for round in 0..5 {
        let served = Served::new(&host.dir(format!("m{round}")), &root, &options(2));
        let list = std::fs::read_dir(served.point.join("d")).unwrap().count();
        assert_eq!(list, 3000);
        for n in [1, 2, 8, 40, 41, 200] {
            std::fs::read(served.point.join(format!("d/f{n:04}"))).unwrap();
        }
        drop(served);
    }
}
