//! `forgefs doctor`: what this host can do, and what a repository and commit contain (R89).

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use super::{Context, Outcome};
use crate::budget::{Budget, Limits};
use crate::doctor::{
    Answer, Report, RowState, RuntimeReport, RuntimeRequest, Surroundings, examine,
};
use crate::error::Result;
use crate::git::{Repository, StoreOptions, load_commit, parse_full_id};
use crate::survey::{Depth, Survey, Verdict, printable, survey};

/// Says what this host can do, with the line that mends what it cannot; with a repository and a
/// commit also what they contain, a row for each feature: supported, noted or unsupported.
///
/// Looks, and starts nothing. Exit 0: fine. Exit 1: the container that was asked about cannot read
/// a mount at all. Exit 6: the commit holds something unsupported. Exit 8: without a repository, if
/// this host cannot mount.
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
    let runtime = args
        .runtime
        .as_deref()
        .map(|name| RuntimeRequest::parse(name, args.user.as_deref()))
        .transpose()?;
    let survey = match (&args.repo, &args.commit) {
        (Some(repo), Some(commit)) => Some(look(repo, commit)?),
        _ => None,
    };
    let env = &context.env;
    let surroundings = Surroundings {
        path: env.path.as_deref(),
        docker_host: env.docker_host.as_deref(),
        home: env.home.as_deref(),
        state: context.state_sources(),
    };
    let report = examine(&surroundings, runtime.as_ref(), survey);
    context.out.data(&report, &as_text(&report))?;
    report.check(args.strict)?;
    let unreadable =
        |runtime: &RuntimeReport| (runtime.plain, runtime.allow_other) == (Answer::No, Answer::No);
    Ok(match report.runtime.as_ref().is_some_and(unreadable) {
        true => Outcome::Negative,
        false => Outcome::Done,
    })
}

fn look(repo: &std::path::Path, commit: &str) -> Result<Survey> {
    let commit_id = parse_full_id(commit)?;
    let repository = Repository::open(repo)?;
    let store = repository.store(&StoreOptions::default())?;
    let commit = load_commit(&store, &commit_id)?;
    let mut budget = Budget::new(Limits::default());
    survey(&repository, &store, &commit, Depth::Full, &mut budget)
}

/// Rows of three columns: name, verdict, sentence; below a row the line that mends it.
#[derive(Default)]
struct Sheet(String);

impl Sheet {
    fn head(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        let _ = writeln!(self.0, "{title}");
    }

    fn row(&mut self, name: &str, verdict: &str, detail: &str) {
        let _ = writeln!(self.0, "  {name:<19} {verdict:<12} {detail}");
    }

    fn below(&mut self, text: &str) {
        let _ = writeln!(self.0, "  {:<32} {text}", "");
    }
}

fn as_text(report: &Report) -> String {
    let mut sheet = Sheet::default();
    sheet.head("this host");
    for row in &report.host {
        let state = match row.state {
            RowState::Ok => "ok",
            RowState::Noted => "noted",
            RowState::Missing => "missing",
        };
        sheet.row(row.name, state, &row.detail);
        if let Some(fix) = &row.fix {
            sheet.below(&format!("fix: {fix}"));
        }
    }
    if let Some(runtime) = &report.runtime {
        add_runtime(&mut sheet, runtime);
    }
    if let Some(survey) = &report.survey {
        add_survey(&mut sheet, survey);
    }
    sheet.0
}

fn add_runtime(sheet: &mut Sheet, runtime: &RuntimeReport) {
    let answer = |answer: Answer| match answer {
        Answer::Yes => "yes",
        Answer::No => "no",
        Answer::Unknown => "unknown",
    };
    let name = format!("{:?}", runtime.runtime).to_lowercase();
    sheet.head(&format!(
        "could {name} read a mount as {}:{}",
        runtime.uid, runtime.gid
    ));
    sheet.row("plain", answer(runtime.plain), &runtime.detail);
    if let Some(fix) = &runtime.fix {
        sheet.below(&format!("fix: {fix}"));
    }
    sheet.row("with --allow-other", answer(runtime.allow_other), "");
    if let Some(trouble) = &runtime.trouble {
        sheet.row(&name, "noted", trouble);
    }
}

fn add_survey(sheet: &mut Sheet, survey: &Survey) {
    let entries = survey.entries.unwrap_or_default();
    let bytes = survey.bytes.unwrap_or_default();
    sheet.head(&format!(
        "commit {}: {entries} entries, {bytes} bytes",
        survey.commit
    ));
    for feature in &survey.features {
        let verdict = match feature.snapshot {
            Verdict::Supported => "supported",
            Verdict::Noted => "noted",
            Verdict::Unsupported => "unsupported",
        };
        sheet.row(feature.name, verdict, &feature.detail);
        if feature.seed != feature.snapshot {
            sheet.below(&format!("in a seed: {:?}", feature.seed).to_lowercase());
        }
        for place in feature.paths.iter().take(5) {
            let path = printable(&place.path);
            let id = place.id.as_deref().unwrap_or_default();
            let what = printable(place.what.as_deref().unwrap_or_default());
            sheet.below(format!("{path} {id} {what}").trim_end());
        }
        if feature.count > 5 {
            sheet.below(&format!("and {} more", feature.count - 5));
        }
    }
}
