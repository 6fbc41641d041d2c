//! Small snapshots for the unit tests of this room and of those above, which do not know git.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Snapshot, SnapshotOptions};
use crate::git::{HashKind, Kind, MemorySource, Oid, compare_names, encode_tree};

/// Opens a snapshot of files with these paths and sizes; contents are distinct.
pub(crate) fn snapshot(files: &[(&str, usize)]) -> Snapshot {
    let mut objects = MemorySource::new(HashKind::Sha1);
    let mut list = Vec::new();
    for (path, size) in files {
        let mut content = path.as_bytes().to_vec();
        content.resize(*size, b'.');
        list.push((*path, objects.insert(Kind::Blob, content).unwrap()));
    }
    let tree_id = store(&mut objects, &list);
    let text = format!("tree {tree_id}\ncommitter A <a@b> 1700000000 +0000\n\nm\n");
    let commit_id = objects.insert(Kind::Commit, text).unwrap();
    Snapshot::open(Arc::new(objects), &commit_id, SnapshotOptions::default()).unwrap()
}

fn store(objects: &mut MemorySource, files: &[(&str, Oid)]) -> Oid {
    let mut entries: Vec<(&[u8], &str, Oid)> = Vec::new();
    let mut below: BTreeMap<&str, Vec<(&str, Oid)>> = BTreeMap::new();
    for (path, id) in files {
        match path.split_once('/') {
            Some((name, rest)) => below.entry(name).or_default().push((rest, *id)),
            None => entries.push((b"100644", path, *id)),
        }
    }
    for (name, files) in below {
        entries.push((b"40000", name, store(objects, &files)));
    }
    entries.sort_by(|a, b| {
        let is_tree = |mode: &[u8]| mode == b"40000";
        compare_names(a.1.as_bytes(), is_tree(a.0), b.1.as_bytes(), is_tree(b.0))
    });
    let entries = entries
        .iter()
        .map(|(mode, name, id)| (*mode, name.as_bytes(), id));
    objects.insert(Kind::Tree, encode_tree(entries)).unwrap()
}
