//! System calls: the only room with `unsafe`, `rustix` and `libc`. Thin and safe: each function
//! does one thing and says what the kernel said; rules about what may be done live above.

mod child;
mod dir_write;
mod fault;
mod fd;
pub mod host;
mod limits;
mod memory;
pub mod mountinfo;
pub mod mounts;
pub mod process;
pub mod signals;
mod spool;
mod write;

pub use child::in_child;
pub use fault::{Fault, fault_of};
pub use fd::{
    DirFd, FileKind, FileStat, Identity, ListedEntry, filesystem_magic, os_name, stat_cached,
    stat_fd,
};
pub use limits::descriptors_max;
pub use memory::give_freed_memory_back;
pub use spool::SpoolFile;
pub use write::{
    FreeSpace, WrittenStat, clear_umask, copy_file, finish_file, make_and_open_dir, memory_file,
    set_file_mode,
};
