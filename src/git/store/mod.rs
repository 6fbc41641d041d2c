//! The verified reader of real object stores.

/// How a store reads.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Bytes that the delta-base cache may hold, all threads together.
    pub base_cache_bytes: u64,
    /// The largest object given out whole; larger ones only through `read_to`.
    pub object_bytes_max: u64,
}

/// The objects of a repository and its alternates, each verified as it is read.
#[derive(Debug)]
pub struct Store {}
