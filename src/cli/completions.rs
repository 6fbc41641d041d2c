//! `forgefs completions`: scripts for shells and the man page, from the same grammar as the help.

use clap::{Args, CommandFactory, ValueEnum};

use super::{Cli, Context, Outcome};
use crate::error::{IoContext, Result};

/// What to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Bash completions.
    Bash,
    /// Elvish completions.
    Elvish,
    /// Fish completions.
    Fish,
    /// PowerShell completions.
    Powershell,
    /// Zsh completions.
    Zsh,
    /// The man page forgefs(1).
    Man,
}

/// Prints a completion script for a shell, or the man page.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  forgefs completions bash > ~/.local/share/bash-completion/completions/forgefs"
)]
pub struct CompletionsArgs {
    /// The shell, or `man`
    pub shell: Target,
}

/// Runs the verb.
pub(super) fn run(context: &Context, args: &CompletionsArgs) -> Result<Outcome> {
    context.out.raw(&generate(args.shell)?)?;
    Ok(Outcome::Done)
}

fn generate(target: Target) -> Result<Vec<u8>> {
    use clap_complete::aot::Shell;
    let mut out = Vec::new();
    let shell = match target {
        Target::Bash => Shell::Bash,
        Target::Elvish => Shell::Elvish,
        Target::Fish => Shell::Fish,
        Target::Powershell => Shell::PowerShell,
        Target::Zsh => Shell::Zsh,
        Target::Man => {
            man_page(&mut out)?;
            return Ok(out);
        }
    };
    clap_complete::aot::generate(shell, &mut Cli::command(), "forgefs", &mut out);
    Ok(out)
}

/// One page: the program, then each verb with its own options and examples.
fn man_page(out: &mut Vec<u8>) -> Result<()> {
    let mut command = Cli::command();
    command.build();
    let doing = || String::from("cannot generate the man page");
    clap_mangen::Man::new(command.clone())
        .render(out)
        .doing(doing)?;
    for verb in command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
    {
        let man = clap_mangen::Man::new(verb.clone());
        out.extend_from_slice(
            format!(".SH \"FORGEFS {}\"\n", verb.get_name().to_uppercase()).as_bytes(),
        );
        man.render_synopsis_section(out).doing(doing)?;
        man.render_description_section(out).doing(doing)?;
        man.render_options_section(out).doing(doing)?;
        man.render_extra_section(out).doing(doing)?;
    }
    Ok(())
}
