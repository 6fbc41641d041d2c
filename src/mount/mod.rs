//! The kernel side of a snapshot: where it may be mounted, the daemon that serves it, finding and
//! ending it. The only room that names `fuser`.

pub mod control;
pub mod daemon;
pub mod find;
#[cfg(feature = "fuse")]
mod fs;
#[cfg(feature = "fuse")]
mod given;
pub mod handshake;
#[cfg(feature = "fuse")]
mod listing;
#[cfg(not(feature = "fuse"))]
mod no_server;
#[cfg(feature = "fuse")]
mod plan;
mod point;
pub mod preflight;
#[cfg(feature = "fuse")]
mod readahead;
pub mod record;
#[cfg(feature = "fuse")]
mod reply;
#[cfg(feature = "fuse")]
mod server;

#[cfg(not(feature = "fuse"))]
pub use no_server::Server;
pub use point::MountPoint;
#[cfg(feature = "fuse")]
pub use server::Server;

use crate::error::{IoContext, Result};

/// How a snapshot is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// How many requests are answered at once; 0 counts as 1.
    pub threads: u16,
    /// How many threads read ahead into the page cache; 0 switches it off.
    pub read_ahead_threads: u16,
    /// The user and group that every entry shows.
    pub owner: (u32, u32),
    /// Whether `user.forgefs.*` is answered.
    pub xattrs: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: 2,
            // One a processor: reading ahead and the reader share them, and more do not help.
            read_ahead_threads: u16::try_from(processors.clamp(1, 4)).unwrap_or(1),
            owner: (0, 0),
            xattrs: false,
        }
    }
}

/// How far the kernel reads ahead by itself, in KiB; the most that one READ can carry.
const KERNEL_READAHEAD_KIB: u32 = 1024;

/// Lets the kernel read ahead 1 MiB instead of 128 KiB on the mount with this device number: large
/// files come in an eighth of the requests. Only root may; without it all works, slower.
///
/// # Errors
/// `permission-denied` for anybody but root; `not-found` where `/sys` is not mounted.
pub fn raise_readahead(device: (u32, u32)) -> Result<()> {
    crate::sys::mounts::set_readahead_kib(device, KERNEL_READAHEAD_KIB)
        .doing(|| String::from("cannot raise the kernel's readahead"))
}
