//! The log: the library emits `tracing` events, this file decides where they go. Verbs log to
//! standard error; the daemon logs to its own bounded file (R126).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::Context;
use super::args::Command;
use crate::error::{Error, ErrorKind, Result};

/// The least that a log must be able to hold, so that head, marker and tail fit.
pub(super) const LOG_BYTES_MIN: u64 = 4096;

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
        (None, 0) => LevelFilter::WARN,
        (None, 1) => LevelFilter::INFO,
        (None, 2) => LevelFilter::DEBUG,
        (None, _) => LevelFilter::TRACE,
    };
    let _ = fmt()
        .with_writer(io::stderr)
        .with_max_level(if context.global.json || context.global.quiet {
            level.min(LevelFilter::ERROR)
        } else {
            level
        })
        .with_ansi(!context.env.no_color && io::IsTerminal::is_terminal(&io::stderr()))
        .with_target(false)
        .without_time()
        .try_init();
}

/// Installs the daemon's log: every event of `level` and above, and every panic, as a line of text
/// in `file`, which then never holds more than `bytes_max`.
///
/// # Errors
/// `internal` where a subscriber is installed already.
pub(super) fn install_daemon_log(file: File, bytes_max: u64, level: Option<&str>) -> Result<()> {
    let level = level
        .and_then(|text| text.parse().ok())
        .unwrap_or(LevelFilter::INFO);
    tracing_subscriber::fmt()
        .with_writer(LogFile(Mutex::new(BoundedLog::new(file, bytes_max))))
        .with_max_level(level)
        .with_ansi(false)
        .with_target(false)
        .try_init()
        .map_err(|e| {
            Error::new(ErrorKind::Internal, "internal", "cannot start the log").caused_by(e)
        })?;
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(panic = %panic, "a thread panicked");
    }));
    Ok(())
}

/// Whether anything of WARN or above was logged.
static WARNED: AtomicBool = AtomicBool::new(false);

/// Returns whether the daemon's log holds a warning or worse.
pub(super) fn warned() -> bool {
    WARNED.load(Ordering::Relaxed)
}

/// The log of all threads.
struct LogFile(Mutex<BoundedLog>);

struct LogGuard<'a>(MutexGuard<'a, BoundedLog>);

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = LogGuard<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LogGuard(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn make_writer_for(&'a self, event: &tracing::Metadata<'_>) -> Self::Writer {
        if *event.level() <= tracing::Level::WARN {
            WARNED.store(true, Ordering::Relaxed);
        }
        self.make_writer()
    }
}

impl Write for LogGuard<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that keeps its first half for ever and of the rest the newest part, with a marker in
/// between that says how much was left out: how things began and how they ended is what is asked
/// of a log.
#[derive(Debug)]
struct BoundedLog {
    /// Open for reading and appending.
    file: File,
    bytes_max: u64,
    /// Where the head ends, once the file was full.
    head_end: Option<u64>,
    dropped: u64,
}

impl BoundedLog {
    fn new(file: File, bytes_max: u64) -> Self {
        Self {
            file,
            bytes_max: bytes_max.max(LOG_BYTES_MIN),
            head_end: None,
            dropped: 0,
        }
    }

    /// Drops the oldest part of what follows the head, so that a quarter of the file is free.
    fn shorten(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        // Standard error ends in the same file, so it may have grown by more than was counted.
        (&self.file)
            .take(self.bytes_max * 2)
            .read_to_end(&mut bytes)?;
        let line_after = |at: usize| {
            let rest = bytes.get(at..).unwrap_or_default();
            rest.iter()
                .position(|b| *b == b'\n')
                .map_or(bytes.len(), |p| at + p + 1)
        };
        let part = |of: u64| usize::try_from(self.bytes_max / of).unwrap_or(usize::MAX);
        let head_end = match self.head_end {
            Some(end) => usize::try_from(end).unwrap_or(usize::MAX),
            None => line_after(part(2) - part(8)).min(part(2)),
        };
        let tail_start = line_after(bytes.len().saturating_sub(part(4))).max(head_end);
        let tail = bytes.get(tail_start..).unwrap_or_default();
        self.dropped += (tail_start - head_end) as u64;
        let marker = format!("... about {} bytes left out here ...\n", self.dropped);
        self.head_end = Some(head_end as u64);
        self.file.set_len(head_end as u64)?;
        (&self.file).write_all(&[marker.as_bytes(), tail].concat())
    }
}

impl Write for BoundedLog {
    /// Takes one event, whole; what is longer than an eighth of the file is cut.
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let line_max = usize::try_from(self.bytes_max / 8).unwrap_or(usize::MAX);
        let (line, end) = match buf.get(..line_max) {
            Some(cut) if cut.len() < buf.len() => (cut, &b" [cut]\n"[..]),
            _ => (buf, &b""[..]),
        };
        let line = [line, end].concat();
        if self.file.metadata()?.len() + line.len() as u64 > self.bytes_max {
            self.shorten()?;
        }
        self.file.write_all(&line)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::DirFd;

    #[test]
    fn r126_a_log_keeps_its_head_and_its_newest_lines_within_its_bound() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DirFd::open(temp.path()).unwrap();
        let mut log = BoundedLog::new(dir.create_file(b"log", true).unwrap(), 8192);
        for number in 0..5000 {
            log.write_all(format!("line {number:05}\n").as_bytes())
                .unwrap();
            let size = temp.path().join("log").metadata().unwrap().len();
            assert!(size <= 8192, "{size} after line {number}");
        }
        let text = std::fs::read_to_string(temp.path().join("log")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.first(), Some(&"line 00000"));
        assert_eq!(lines.last(), Some(&"line 04999"));
        assert_eq!(text.matches("left out here").count(), 1);
        let whole = |line: &&&str| line.starts_with("line ") && line.len() == 10;
        assert_eq!(lines.iter().filter(whole).count(), lines.len() - 1);
        assert!(lines.len() > 500, "{}", lines.len());
    }

    #[test]
    fn r126_a_line_longer_than_the_log_is_cut() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DirFd::open(temp.path()).unwrap();
        let mut log = BoundedLog::new(dir.create_file(b"log", true).unwrap(), 0);
        for _ in 0..100 {
            log.write_all(&[b'x'; 100_000]).unwrap();
            assert!(temp.path().join("log").metadata().unwrap().len() <= LOG_BYTES_MIN);
        }
        let text = std::fs::read_to_string(temp.path().join("log")).unwrap();
        assert!(text.ends_with("x [cut]\n"));
    }
}
