//! Everything that knows git's formats. The only room that names `gix`, and the one verified
//! reader (R5, R75): whatever bytes leave this room hash to the id they were asked by.
//!
//! It does not know who asks: no kernel, no snapshot, no path of a work tree.

mod closure;
mod commit;
mod config;
mod facts;
mod format;
mod hash;
mod index;
mod oid;
mod pack_index;
mod pack_write;
mod packed_refs;
#[doc(hidden)]
pub mod parse;
mod refs;
mod repo;
mod source;
mod store;
mod strict;
#[cfg(test)]
mod strict_oracle;
mod tree;
mod url;

pub use closure::{Closure, History, Layout, LayoutDirectory, LayoutFile, PackItem, TreeTotals};
pub use commit::{Commit, load_commit};
pub use config::{ConfigSection, RawConfig, config_bytes};
pub use facts::{Names, RepositoryFacts};
pub use format::{Format, RefStorage};
pub use gix::ObjectId as Oid;
pub use gix::hash::Kind as HashKind;
pub use gix::object::Kind;
pub use hash::{ObjectHasher, hash_object, sha256_hex};
pub use index::index_bytes;
pub use oid::{empty_tree_id, parse_full_id};
pub use pack_index::index_pack;
pub use pack_write::{
    PackIndexes, PackProgress, PackRecord, PackVisitor, WHOLE_BYTES_MAX, publish_pack, write_pack,
    write_pack_to,
};
pub use refs::{check_branch_name, head_bytes, id_line, parse_shallow, shallow_bytes};
pub use repo::Repository;
pub use source::{Header, MemorySource, ObjectSource, RawBase, RawEntry};
pub use store::{Store, StoreOptions};
pub use strict::{Strictness, TreeNotes, check_tree};
pub use tree::{EntryKind, TreeEntries, TreeEntry, compare_names, encode_tree, entries};
pub use url::{has_credential, host_of, redacted, without_credential};
