//! The kernel side of a snapshot: where it may be mounted, the daemon that serves it, finding and
//! ending it. The only room that names `fuser`.

mod point;
pub mod preflight;

pub use point::MountPoint;
