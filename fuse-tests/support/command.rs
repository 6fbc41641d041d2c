//! Running a program: private environment, a deadline, and a report that shows everything.
//!
//! Output goes to files, not to pipes: a daemon that wrongly keeps a descriptor cannot hang a test.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Returns the forgefs under test: `FORGEFS_BIN`, else the one that cargo built for this run.
pub(crate) fn forgefs_program() -> PathBuf {
    std::env::var_os("FORGEFS_BIN").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_forgefs")),
        PathBuf::from,
    )
}

/// A program to run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    stdin: Vec<u8>,
    deadline: Duration,
}

impl Run {
    /// Prepares `program` with an empty environment but for `PATH` and a fixed locale.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let run = Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            stdin: Vec::new(),
            deadline: Duration::from_secs(120),
        };
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin:/usr/sbin".into());
        run.env("PATH", path).env("LC_ALL", "C").env("TZ", "UTC")
    }

    /// Prepares a shell script, with `args` as `$1` and on.
    pub(crate) fn shell(script: &str) -> Self {
        Self::new("sh").args(["-euc", script, "sh"])
    }

    /// Adds one argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the working directory.
    pub(crate) fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.dir = Some(dir.as_ref().to_owned());
        self
    }

    /// Gives it this on standard input.
    pub(crate) fn stdin(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.stdin = bytes.as_ref().to_vec();
        self
    }

    /// Kills it after this long; a test that needs it to end sooner says so here.
    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Puts this run behind another program: `strace -f ... forgefs ...`.
    pub(crate) fn under<A: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = A>) -> Self {
        let mut argv: Vec<OsString> = words.into_iter().map(|w| w.as_ref().to_owned()).collect();
        let program = argv.remove(0);
        argv.push(std::mem::replace(&mut self.program, program));
        argv.append(&mut self.args);
        self.args = argv;
        self
    }

    fn words(&self) -> String {
        let mut words = String::new();
        for word in std::iter::once(&self.program).chain(&self.args) {
            words.push_str(&word.to_string_lossy());
            words.push(' ');
        }
        words
    }

    fn command(&self, stdout: Stdio, stderr: Stdio) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdout(stdout)
            .stderr(stderr);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }

    /// Starts it and lets it run: for readers that are killed and daemons in the foreground.
    pub(crate) fn spawn(&self) -> Child {
        self.command(Stdio::null(), Stdio::null())
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {}: {e}", self.words()))
    }

    /// Runs it to its end.
    pub(crate) fn run(&self) -> Finished {
        let mut stdout = tempfile::tempfile().expect("a temporary file");
        let mut stderr = tempfile::tempfile().expect("a temporary file");
        let mut stdin = tempfile::tempfile().expect("a temporary file");
        stdin.write_all(&self.stdin).expect("a writable file");
        stdin.seek(SeekFrom::Start(0)).expect("a seekable file");
        let handle = |file: &File| Stdio::from(file.try_clone().expect("a descriptor"));
        let began = Instant::now();
        let mut child = self
            .command(handle(&stdout), handle(&stderr))
            .stdin(handle(&stdin))
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {}: {e}", self.words()));
        let status = wait(&mut child, self.deadline);
        Finished {
            words: self.words(),
            status,
            stdout: whole(&mut stdout),
            stderr: whole(&mut stderr),
            took: began.elapsed(),
        }
    }

    /// Runs it, expects exit 0 and returns standard output as text without its last newline.
    #[track_caller]
    pub(crate) fn ok(&self) -> String {
        self.run().ok()
    }
}

/// Waits until `child` ends or `deadline` is over; then its whole process group is killed.
fn wait(child: &mut Child, deadline: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + deadline;
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return Some(status);
        }
        if Instant::now() >= end {
            let group = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn whole(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a seekable file");
    file.read_to_end(&mut bytes).expect("a readable file");
    bytes
}

/// What a program did.
#[derive(Debug)]
pub(crate) struct Finished {
    words: String,
    status: Option<ExitStatus>,
    /// Its standard output.
    pub(crate) stdout: Vec<u8>,
    /// Its standard error.
    pub(crate) stderr: Vec<u8>,
    /// How long it ran.
    pub(crate) took: Duration,
}

impl Finished {
    /// Returns the exit code; a signal is 128 + n as in a shell, a passed deadline is none.
    pub(crate) fn code(&self) -> Option<i32> {
        let status = self.status?;
        status.code().or_else(|| status.signal().map(|n| 128 + n))
    }

    /// Returns standard output as text without its last newline.
    pub(crate) fn out(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout);
        text.strip_suffix('\n').unwrap_or(&text).to_owned()
    }

    /// Returns standard error as text.
    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns everything there is to know, for a failed assertion.
    pub(crate) fn report(&self) -> String {
        let code = match (self.status, self.code()) {
            (_, Some(code)) => format!("exit {code}"),
            _ => String::from("killed: it did not end in time"),
        };
        format!(
            "{}\n  {code} after {:?}\n  stdout: {}\n  stderr: {}",
            self.words,
            self.took,
            self.out(),
            self.err()
        )
    }

    /// Expects exit 0 and returns standard output as text without its last newline.
    #[track_caller]
    pub(crate) fn ok(&self) -> String {
        self.exits(0).out()
    }

    /// Expects this exit code.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert!(
            self.code() == Some(code),
            "expected exit {code}: {}",
            self.report()
        );
        self
    }

    /// Expects this text on standard error.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(
            self.err().contains(text),
            "expected {text:?} on stderr: {}",
            self.report()
        );
        self
    }

    /// Returns the one JSON object on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|e| panic!("no JSON object on stdout ({e}): {}", self.report()))
    }

    /// Returns the error object that `--json` puts on standard error.
    #[track_caller]
    pub(crate) fn json_error(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stderr)
            .unwrap_or_else(|e| panic!("no JSON object on stderr ({e}): {}", self.report()))
    }

    /// Expects the JSON error with this exit code and slug, and nothing on standard output.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, slug: &str) -> &Self {
        self.exits(code);
        let error = self.json_error();
        assert!(
            error["schema"] == "forgefs.error/1"
                && error["code"] == slug
                && error["exit"] == code
                && self.stdout.is_empty(),
            "expected the error {slug:?} alone: {}",
            self.report()
        );
        self
    }
}
