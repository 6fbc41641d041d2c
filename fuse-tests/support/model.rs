//! Trees as plain data, stored into memory and opened as snapshots; and an object store that lacks,
//! lies and is slow.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgefs::ErrorKind;
use forgefs::git::{
    HashKind, Header, Kind, MemorySource, ObjectSource, Oid, compare_names, encode_tree,
};
use forgefs::snapshot::{Attr, Ino, Snapshot, SnapshotOptions};

/// What a tree is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    File(Vec<u8>, bool),
    Link(Vec<u8>),
    Dir(BTreeMap<Vec<u8>, Self>),
    Submodule,
}

impl Node {
    fn mode(&self) -> &'static [u8] {
        match self {
            Self::File(_, false) => b"100644",
            Self::File(_, true) => b"100755",
            Self::Link(_) => b"120000",
            Self::Dir(_) => b"40000",
            Self::Submodule => b"160000",
        }
    }

    pub(crate) fn store(&self, objects: &mut MemorySource) -> Oid {
        match self {
            Self::File(bytes, _) | Self::Link(bytes) => objects
                .insert(Kind::Blob, bytes.clone())
                .expect("a model that git would accept"),
            Self::Submodule => Oid::from_hex(&[b'1'; 40]).expect("a model that git would accept"),
            Self::Dir(entries) => {
                let mut list: Vec<_> = entries
                    .iter()
                    .map(|(name, node)| (node.mode(), &name[..], node.store(objects)))
                    .collect();
                list.sort_by(|a, b| compare_names(a.1, a.0 == b"40000", b.1, b.0 == b"40000"));
                let tree = encode_tree(list.iter().map(|(mode, name, id)| (*mode, *name, id)));
                objects
                    .insert(Kind::Tree, tree)
                    .expect("a model that git would accept")
            }
        }
    }
}

/// A directory with these entries.
pub(crate) fn dir<const N: usize>(entries: [(&str, Node); N]) -> Node {
    let entries = entries.map(|(name, node)| (name.as_bytes().to_vec(), node));
    Node::Dir(BTreeMap::from(entries))
}

/// A plain file.
pub(crate) fn file(bytes: impl AsRef<[u8]>) -> Node {
    Node::File(bytes.as_ref().to_vec(), false)
}

/// Stores a commit of a tree.
pub(crate) fn commit(objects: &mut MemorySource, tree_id: &Oid) -> Oid {
    let text = format!(
        "tree {tree_id}\nauthor A <a@b> 5 +0000\ncommitter A <a@b> 1700000000 +0100\n\nm\n"
    );
    objects
        .insert(Kind::Commit, text)
        .expect("a model that git would accept")
}

/// A source that can be told to lack objects and to be slow, and that counts.
pub(crate) struct Faulty {
    inner: MemorySource,
    lacking: Mutex<HashSet<Oid>>,
    pub(crate) lies: Mutex<HashMap<Oid, u64>>,
    pub(crate) reads: AtomicUsize,
    pub(crate) delay: Duration,
}

impl Faulty {
    pub(crate) fn new(inner: MemorySource) -> Self {
        Self {
            inner,
            lacking: Mutex::default(),
            lies: Mutex::default(),
            reads: AtomicUsize::new(0),
            delay: Duration::ZERO,
        }
    }

    pub(crate) fn lose(&self, id: Oid) {
        self.lacking
            .lock()
            .expect("no test thread panicked")
            .insert(id);
    }

    pub(crate) fn give_back(&self, id: &Oid) {
        self.lacking
            .lock()
            .expect("no test thread panicked")
            .remove(id);
    }

    fn check(&self, id: &Oid) -> forgefs::Result<()> {
        if self
            .lacking
            .lock()
            .expect("no test thread panicked")
            .contains(id)
        {
            let message = format!("object {id} is missing");
            return Err(
                forgefs::Error::new(ErrorKind::NotFound, "missing-object", message).about(id),
            );
        }
        Ok(())
    }
}

impl ObjectSource for Faulty {
    fn hash_kind(&self) -> HashKind {
        self.inner.hash_kind()
    }

    fn header(&self, id: &Oid) -> forgefs::Result<Header> {
        self.check(id)?;
        let mut header = self.inner.header(id)?;
        if let Some(size) = self.lies.lock().expect("no test thread panicked").get(id) {
            header.size = *size;
        }
        Ok(header)
    }

    fn read(&self, id: &Oid, kind: Kind) -> forgefs::Result<Vec<u8>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(self.delay);
        self.check(id)?;
        self.inner.read(id, kind)
    }

    fn read_to(&self, id: &Oid, kind: Kind, out: &mut dyn Write) -> forgefs::Result<u64> {
        let bytes = self.read(id, kind)?;
        out.write_all(&bytes)
            .expect("a model that git would accept");
        Ok(bytes.len() as u64)
    }
}

/// Opens a snapshot of a tree.
pub(crate) fn open(root: &Node) -> (Arc<Faulty>, Snapshot) {
    open_with(root, SnapshotOptions::default())
}

/// As [`open`], with options.
pub(crate) fn open_with(root: &Node, options: SnapshotOptions) -> (Arc<Faulty>, Snapshot) {
    let mut objects = MemorySource::new(HashKind::Sha1);
    let tree_id = root.store(&mut objects);
    let commit_id = commit(&mut objects, &tree_id);
    let objects = Arc::new(Faulty::new(objects));
    let snapshot = Snapshot::open(objects.clone(), &commit_id, options)
        .expect("a model that git would accept");
    (objects, snapshot)
}

/// Looks up a path, one name at a time.
pub(crate) fn lookup(snapshot: &Snapshot, path: &str) -> forgefs::Result<Option<Attr>> {
    let mut attr = snapshot.attr(Ino::ROOT)?;
    for name in path.split('/') {
        match snapshot.lookup(attr.ino, name.as_bytes())? {
            Some(found) => attr = found,
            None => return Ok(None),
        }
    }
    Ok(Some(attr))
}

/// Returns the inode number of a path that exists.
pub(crate) fn ino(snapshot: &Snapshot, path: &str) -> Ino {
    lookup(snapshot, path)
        .expect("a model that git would accept")
        .expect(path)
        .ino
}

/// Returns the id of a blob.
pub(crate) fn blob_id(bytes: &[u8]) -> Oid {
    let mut objects = MemorySource::new(HashKind::Sha1);
    objects
        .insert(Kind::Blob, bytes)
        .expect("a model that git would accept")
}
