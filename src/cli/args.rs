//! The command line's grammar; the doc comments are the help, the man page and the completions.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Mounts exactly one git commit, provably.
///
/// `forgefs REPO COMMIT DIR` shows the commit in DIR as a read-only file system within
/// milliseconds, whatever the size of the repository. Every byte is hashed before it is served;
/// `forgefs prove DIR` recomputes git's tree id through the kernel at any time.
#[derive(Debug, Parser)]
#[command(
    name = "forgefs",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    override_usage = "forgefs <REPO> <COMMIT> <DIR>\n       forgefs <VERB> [OPTIONS] ...",
    after_help = "A first session:\n  \
        forgefs ~/src/linux \"$(git -C ~/src/linux rev-parse HEAD)\" /tmp/source --mkdir\n  \
        forgefs prove /tmp/source --repo ~/src/linux --sha \"$(git -C ~/src/linux rev-parse HEAD)\"\n  \
        forgefs umount /tmp/source\n\n\
        Exit codes: 0 ok, 1 negative verdict, 2 usage, 3 repository or object, 4 unsafe path,\n\
        5 conflict, 6 unsupported, 7 over budget, 8 the host lacks something, 70 internal."
)]
pub struct Cli {
    /// Options that every verb has.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every verb has.
#[derive(Debug, Clone, Default, Args)]
pub struct GlobalArgs {
    /// Print one JSON object instead of text; errors become one JSON object on standard error
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
    /// Say nothing but errors
    #[arg(short, long, global = true, display_order = 901)]
    pub quiet: bool,
    /// Say more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 902)]
    pub verbose: u8,
    /// Where forgefs keeps its records [default: $FORGEFS_STATE_DIR, then $XDG_STATE_HOME/forgefs]
    #[arg(long, global = true, value_name = "DIR", display_order = 903)]
    pub state_dir: Option<PathBuf>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Mount one exact commit read-only
    Mount(super::mount::MountArgs),
    /// Unmount a forgefs mount
    Umount(super::umount::UmountArgs),
    /// Recompute the tree id of a directory through the kernel
    Prove(super::prove::ProveArgs),
    /// Make a private, writable, self-contained repository at one exact commit
    Seed(super::seed::SeedArgs),
    /// List what exists: live, dead, whose
    Ls(super::ls::LsArgs),
    /// Say what this host, and a repository and commit, can do
    Doctor(super::doctor::DoctorArgs),
    /// Print a completion script for a shell, or the man page
    Completions(super::completions::CompletionsArgs),
    /// The daemon itself; started by `mount`
    #[command(name = "__serve", hide = true)]
    Serve(super::serve::ServeArgs),
}

/// Turns `forgefs REPO COMMIT DIR` into `forgefs mount REPO COMMIT DIR` (R37): the first word that
/// is no option and no verb makes it a mount.
#[must_use]
pub(super) fn expand_short_form(mut argv: Vec<OsString>) -> Vec<OsString> {
    let mut at = 1;
    while let Some(word) = argv.get(at) {
        let text = word.to_string_lossy();
        if text == "--state-dir" {
            at += 2;
        } else if text != "--" && text.len() > 1 && text.starts_with('-') {
            at += 1;
        } else {
            break;
        }
    }
    let Some(word) = argv.get(at) else {
        return argv;
    };
    let is_verb = word == "help"
        || <Cli as clap::CommandFactory>::command()
            .get_subcommands()
            .any(|c| word == c.get_name());
    if !is_verb {
        // In front of everything, so that the options of `mount` may come first too.
        argv.insert(1, OsString::from("mount"));
    }
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(words: &[&str]) -> String {
        let argv = std::iter::once("forgefs")
            .chain(words.iter().copied())
            .map(OsString::from)
            .collect();
        expand_short_form(argv)
            .iter()
            .skip(1)
            .map(|w| w.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn r37_a_first_word_that_is_no_verb_means_mount() {
        for (words, want) in [
            (&["r", "c", "m"][..], "mount r c m"),
            (&["--json", "r", "c", "m"], "mount --json r c m"),
            (
                &["--state-dir", "s", "r", "c", "m"],
                "mount --state-dir s r c m",
            ),
            (
                &["--owner", "1:1", "r", "c", "m"],
                "mount --owner 1:1 r c m",
            ),
            (&["./mount", "c", "m"], "mount ./mount c m"),
            (&["--", "r", "c", "m"], "mount -- r c m"),
            (&["ls"], "ls"),
            (&["prove", "m"], "prove m"),
            (&["--help"], "--help"),
            (&["help", "mount"], "help mount"),
            (&[], ""),
        ] {
            assert_eq!(expand(words), want);
        }
    }

    #[test]
    fn the_grammar_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
