//! Directories and records that forgefs owns: where they are, that they are safe, how a record is
//! read and written (R50, R55, R56, R99, R127).

mod location;
mod lock;
pub mod record;
mod root;

pub use location::{StateSources, locate};
pub use lock::DirLock;
pub use root::StateRoot;
