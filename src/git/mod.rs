//! Everything that knows git's formats. The only room that names `gix`, and the one verified
//! reader (R5, R75): whatever bytes leave this room hash to the id they were asked by.
//!
//! It does not know who asks: no kernel, no snapshot, no path of a work tree.

mod commit;
mod hash;
mod oid;
mod repo;
mod source;
mod store;
mod strict;
mod tree;

pub use commit::{Commit, load_commit};
pub use gix::ObjectId as Oid;
pub use gix::hash::Kind as HashKind;
pub use gix::object::Kind;
pub use hash::{ObjectHasher, hash_object};
pub use oid::{empty_tree_id, parse_full_id};
pub use repo::{RefStorage, Repository};
pub use source::{Header, MemorySource, ObjectSource};
pub use store::{Store, StoreOptions};
pub use strict::{Strictness, TreeNotes, check_tree};
pub use tree::{EntryKind, TreeEntries, TreeEntry, compare_names, encode_tree, entries};
