//! The hidden verb `__serve`: the daemon, re-executed by `mount` with a ready pipe (R38, R47).

use clap::Args;

use super::{Context, Outcome};
use crate::error::Result;

/// What the daemon is told on its command line.
#[derive(Debug, Args)]
pub struct ServeArgs {}

/// Runs the verb.
pub(super) fn run(context: &Context, args: &ServeArgs) -> Result<Outcome> {
    let _ = (context, args);
    Ok(Outcome::Done)
}
