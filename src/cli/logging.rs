//! The log: the library emits `tracing` events, this file decides where they go. Verbs log to
//! standard error; the daemon logs to its own bounded file (R126).

use super::Context;
use super::args::Command;

/// Installs the subscriber for this process.
pub(super) fn install(context: &Context, command: &Command) {
    use tracing_subscriber::fmt;
    if matches!(command, Command::Serve(_)) {
        return; // cli::serve installs the daemon's own log, since it knows where it goes.
    }
    let level = match (
        context.env.log.as_deref().and_then(|l| l.parse().ok()),
        context.global.verbose,
    ) {
        (Some(level), _) => level,
        (None, 0) => tracing::level_filters::LevelFilter::WARN,
        (None, 1) => tracing::level_filters::LevelFilter::INFO,
        (None, 2) => tracing::level_filters::LevelFilter::DEBUG,
        (None, _) => tracing::level_filters::LevelFilter::TRACE,
    };
    let _ = fmt()
        .with_writer(std::io::stderr)
        .with_max_level(if context.global.json || context.global.quiet {
            level.min(tracing::level_filters::LevelFilter::ERROR)
        } else {
            level
        })
        .with_ansi(!context.env.no_color && std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(false)
        .without_time()
        .try_init();
}
