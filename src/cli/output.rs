//! Standard output carries data (text or exactly one JSON object), standard error carries people's
//! text; with `--json` an error is one JSON object on standard error (requirements 0.3).

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;

use super::args::GlobalArgs;
use super::exit::exit_code;
use crate::error::{Error, ErrorKind, Result};

/// Where a verb's words go.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
    quiet: bool,
}

impl Output {
    /// Chooses the form that the global options ask for.
    #[must_use]
    pub fn new(global: &GlobalArgs) -> Self {
        Self {
            json: global.json,
            quiet: global.quiet,
        }
    }

    /// Returns whether `--json` was given.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints the result of a verb: `record` as JSON, else `text` (nothing where it is empty).
    ///
    /// # Errors
    /// `io` where standard output cannot be written; a closed pipe is not an error.
    pub fn data(&self, record: &impl Serialize, text: &str) -> Result<()> {
        let mut line = if self.json {
            serde_json::to_string(record).map_err(|e| {
                Error::new(
                    ErrorKind::Internal,
                    "internal",
                    "cannot write the record as JSON",
                )
                .caused_by(e)
            })?
        } else {
            text.trim_end_matches('\n').to_owned()
        };
        if line.is_empty() {
            return Ok(());
        }
        line.push('\n');
        self.raw(line.as_bytes())
    }

    /// Prints bytes to standard output as they are.
    ///
    /// # Errors
    /// `io` where standard output cannot be written; a closed pipe is not an error.
    pub fn raw(&self, bytes: &[u8]) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Error::io("cannot write to standard output", e))
            }
            _ => Ok(()),
        }
    }

    /// Tells people something on standard error; silent with `--quiet` and `--json`.
    pub fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            let _ = writeln!(std::io::stderr(), "forgefs: {text}");
        }
    }

    /// Returns whether progress may be drawn: a terminal, and people reading.
    #[must_use]
    pub fn shows_progress(&self) -> bool {
        !self.quiet && !self.json && std::io::stderr().is_terminal()
    }

    /// Says an error and returns its exit code.
    #[must_use]
    pub fn report(&self, error: &Error) -> ExitCode {
        let code = exit_code(error.kind());
        let text = error.to_string();
        let line = if self.json {
            let mut record = json!({
                "schema": "forgefs.error/1",
                "code": error.slug(),
                "exit": code,
                "message": text,
            });
            if let Some(path) = error.path() {
                record["path"] = json!(path.to_string_lossy());
            }
            if let Some(id) = error.object_id() {
                record["object"] = json!(id);
            }
            record.to_string()
        } else {
            format!("forgefs: {text}")
        };
        let _ = writeln!(std::io::stderr(), "{line}");
        ExitCode::from(code)
    }
}

/// Says what clap found wrong with the arguments (exit 2), or prints help and version (exit 0).
#[must_use]
pub(super) fn report_usage(error: &clap::Error, wants_json: bool) -> ExitCode {
    if error.use_stderr() && wants_json {
        let rendered = error.render().to_string();
        let first = rendered
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        let output = Output {
            json: true,
            quiet: false,
        };
        return output.report(&Error::new(ErrorKind::Usage, "usage", first));
    }
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
