//! forgefs mounts exactly one git commit, provably.
//!
//! The house has few rooms and one direction; a room imports only what stands below it:
//!
//! | room | owns |
//! |---|---|
//! | [`cli`] | argv, environment, stdout and stderr, exit codes; the only room that talks to people |
//! | [`doctor`] | what this host and this repository can do, in one report |
//! | [`survey`] | what a repository and a commit contain, a verdict for each feature (R89..R96) |
//! | [`mount`] | the kernel side of a snapshot; the only room that names `fuser` |
//! | [`prove`] | recomputes the tree id from what the kernel shows; imports neither snapshot nor mount |
//! | [`snapshot`] | one commit as inodes, attributes and bytes; knows no kernel and no path on disk |
//! | [`state`] | directories and records that forgefs owns |
//! | [`git`] | git's formats and the one verified reader; the only room that names `gix` |
//! | [`sys`] | system calls; the only room with `unsafe` |
//! | [`error`], [`budget`] | the one error type; caps |
//!
//! `docs/architecture.md` has the drawing and the walks; `fuse-tests/offline/tidy.rs` enforces the
//! rules.

pub mod budget;
pub mod cli;
pub mod doctor;
pub mod error;
pub mod fault;
pub mod git;
pub mod materialise;
pub mod mount;
pub mod prove;
pub mod snapshot;
pub mod state;
pub mod survey;
pub mod sys;
pub mod workspace;

pub use error::{Error, ErrorKind, Result};
