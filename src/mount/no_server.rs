//! What stands in for the server where the program was built without FUSE (R133).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::ServeOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::snapshot::Snapshot;

/// A server that cannot be started.
#[derive(Debug)]
pub enum Server {}

impl Server {
    /// Refuses.
    ///
    /// # Errors
    /// `built-without-fuse`, always.
    pub fn start(_: Arc<Snapshot>, _: OwnedFd, _: &ServeOptions) -> Result<Self> {
        Err(Error::new(
            ErrorKind::Host,
            "built-without-fuse",
            "this program was built without FUSE; build it with the feature `fuse` to mount",
        ))
    }

    /// Cannot be called, since there is no server.
    ///
    /// # Errors
    /// None.
    pub fn run(self) -> Result<()> {
        match self {}
    }
}
