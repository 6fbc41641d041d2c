//! System calls: the only room with `unsafe`, `rustix` and `libc`. Thin and safe: each function does
//! one thing and says what the kernel said; rules about what may be done live above.

mod fd;
pub mod mounts;

pub use fd::{DirFd, FileKind, FileStat, Identity, ListedEntry, os_name, stat_fd};
