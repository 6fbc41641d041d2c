//! The command line: argv, environment, standard streams and exit codes. The only room that talks
//! to people; it holds no logic of its own.

mod args;
mod clock;
mod completions;
mod doctor;
mod env;
mod exit;
mod logging;
mod ls;
mod mount;
mod output;
mod prove;
mod quantity;
mod seed;
mod seed_overlay;
mod seed_stream;
mod serve;
mod umount;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

pub use args::{Cli, Command, GlobalArgs};
pub use env::Env;
pub use exit::{Outcome, exit_code};
pub use output::Output;

use crate::error::Result;
use crate::state::{self, StateRoot, StateSources};
use crate::sys::DirFd;

/// What every verb is given beside its own arguments.
#[derive(Debug)]
pub struct Context {
    /// The options that every verb has.
    pub global: GlobalArgs,
    /// The environment, read once.
    pub env: Env,
    /// Standard output and standard error.
    pub out: Output,
}

impl Context {
    /// Returns where the state root is, whether it exists or not (R99).
    ///
    /// # Errors
    /// `state-dir-not-absolute`, `no-state-dir`.
    pub(crate) fn state_path(&self) -> Result<PathBuf> {
        state::locate(&self.state_sources())
    }

    /// Returns everything that can name the state root.
    pub(crate) fn state_sources(&self) -> StateSources<'_> {
        StateSources {
            option: self.global.state_dir.as_deref(),
            forgefs_state_dir: self.env.forgefs_state_dir.as_deref(),
            acq_state_dir: self.env.acq_state_dir.as_deref(),
            xdg_state_home: self.env.xdg_state_home.as_deref(),
            home: self.env.home.as_deref(),
        }
    }

    /// Opens the directory of mount records where it exists; makes nothing.
    ///
    /// # Errors
    /// As [`Self::state_path`], and `unsafe-state-root`.
    pub(crate) fn mount_records(&self) -> Result<Option<DirFd>> {
        let path = self.state_path()?;
        match StateRoot::open_existing(&path, self.env.home.as_deref())? {
            Some(root) => root.existing_subdir("mounts"),
            None => Ok(None),
        }
    }
}

/// Runs the program on this process's arguments and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let argv = args::expand_short_form(std::env::args_os().collect());
    let wants_json = argv
        .iter()
        .take_while(|a| *a != "--")
        .any(|a| a == "--json");
    let cli = match parse(argv) {
        Ok(cli) => cli,
        Err(error) => return output::report_usage(&error, wants_json),
    };
    let Cli { global, command } = cli;
    let out = Output::new(&global);
    let context = Context {
        env: Env::read(),
        out,
        global,
    };
    #[cfg(feature = "faults")]
    if let Some(spec) = &context.env.fault {
        crate::fault::arm(spec);
    }
    logging::install(&context, &command);
    match dispatch(&context, command) {
        Ok(outcome) => outcome.into(),
        Err(error) => context.out.report(&error),
    }
}

fn parse(argv: Vec<OsString>) -> std::result::Result<Cli, clap::Error> {
    let matches = Cli::command().try_get_matches_from(argv)?;
    Cli::from_arg_matches(&matches)
}

fn dispatch(context: &Context, command: Command) -> Result<Outcome> {
    match command {
        Command::Mount(args) => mount::run(context, &args),
        Command::Umount(args) => umount::run(context, &args),
        Command::Prove(args) => prove::run(context, &args),
        Command::Seed(args) => seed::run(context, &args),
        Command::Ls(args) => ls::run(context, &args),
        Command::Doctor(args) => doctor::run(context, &args),
        Command::Completions(args) => completions::run(context, &args),
        Command::Serve(args) => serve::run(context, &args),
    }
}
