//! One report: what this host can do, whether a container could read a mount, and what a repository
//! and commit contain (R89, R127). Looks, and starts nothing.

mod docker;
mod host;
mod records;
mod row;
mod runtime;

use std::ffi::OsStr;
use std::path::Path;

use serde::Serialize;

pub use host::host_rows;
pub use row::{HostRow, RowState};
pub use runtime::{Answer, Runtime, RuntimeReport, RuntimeRequest, judge_runtime};

use crate::error::{Error, ErrorKind, Result};
use crate::mount::preflight::{HostFacts, Wish, check_host, host_facts};
use crate::state::StateSources;
use crate::survey::{Purpose, Survey, Verdict};

/// Everything of the caller's surroundings that the report looks at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Surroundings<'a> {
    /// `PATH`.
    pub path: Option<&'a OsStr>,
    /// `DOCKER_HOST`.
    pub docker_host: Option<&'a OsStr>,
    /// `HOME`.
    pub home: Option<&'a Path>,
    /// What names the directory for records.
    pub state: StateSources<'a>,
}

/// The report, `forgefs.doctor/1`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The kind of this record.
    pub schema: &'static str,
    /// The version of forgefs.
    pub version: &'static str,
    /// A row for each thing that a mount needs or likes of the host.
    #[serde(serialize_with = "row::as_map")]
    pub host: Vec<HostRow>,
    /// Whether anything can be mounted here.
    pub can_mount: bool,
    /// Whether a container could read a mount, where that was asked.
    pub runtime: Option<RuntimeReport>,
    /// What the repository and commit contain, where they were given.
    #[serde(flatten)]
    pub survey: Option<Survey>,
    /// The worst verdict on a snapshot; without a repository, whether the host can mount.
    pub verdict: Verdict,
    /// The worst verdict on a seed.
    pub seed_verdict: Option<Verdict>,
    #[serde(skip)]
    facts: HostFacts,
}

/// Makes the report.
#[must_use]
pub fn examine(
    surroundings: &Surroundings<'_>,
    runtime: Option<&RuntimeRequest>,
    survey: Option<Survey>,
) -> Report {
    let facts = host_facts(surroundings.path);
    let host = host_rows(&facts, surroundings);
    let can_mount = host.iter().all(|row| row.state != RowState::Missing);
    let host_verdict = if can_mount {
        Verdict::Supported
    } else {
        Verdict::Unsupported
    };
    Report {
        schema: "forgefs.doctor/1",
        version: env!("CARGO_PKG_VERSION"),
        host,
        can_mount,
        runtime: runtime.map(|request| judge_runtime(&facts, surroundings, request)),
        verdict: survey
            .as_ref()
            .map_or(host_verdict, |survey| survey.verdict(Purpose::Snapshot)),
        seed_verdict: survey.as_ref().map(|s| s.verdict(Purpose::Seed)),
        survey,
        facts,
    }
}

impl Report {
    /// Judges the report for scripts, after it was shown.
    ///
    /// # Errors
    /// Exit 6 as [`Survey::check`] says; without a repository, exit 8 where the host cannot mount.
    pub fn check(&self, strict: bool) -> Result<()> {
        match &self.survey {
            Some(survey) => survey.check(Purpose::Snapshot, strict).map(drop),
            None => self.check_host(),
        }
    }

    fn check_host(&self) -> Result<()> {
        check_host(&self.facts, Wish { allow_other: false })?;
        let missing = |row: &&HostRow| row.state == RowState::Missing;
        let Some(row) = self.host.iter().find(missing) else {
            return Ok(());
        };
        let fix = row
            .fix
            .as_ref()
            .map_or_else(String::new, |fix| format!("; {fix}"));
        let message = format!("{}: {}{fix}", row.name, row.detail);
        Err(Error::new(ErrorKind::Host, "host-lacks", message))
    }
}
