//! Processes: who they are, whether they still are, ending them, and starting this program anew in
//! the background (R13, R47, R49). The only file that starts this program.

#![expect(unsafe_code, reason = "close_range has no safe interface")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal};

/// A process as no other can be: its number and when it started, in clock ticks since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessId {
    /// The process number, reused after it ended.
    pub pid: u32,
    /// Field 22 of `/proc/<pid>/stat`.
    pub start_ticks: u64,
}

impl ProcessId {
    /// Returns this process.
    ///
    /// # Errors
    /// What reading `/proc` says.
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id();
        let (_, start_ticks) = read_stat(pid)?;
        Ok(Self { pid, start_ticks })
    }

    /// Returns whether this very process is still running; a zombie is not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(read_stat(self.pid), Ok((state, start))
            if start == self.start_ticks && !matches!(state, b'Z' | b'X'))
    }

    /// Opens a handle on this very process, which no reuse of its number can redirect.
    ///
    /// # Errors
    /// `NotFound` where it ended or the number belongs to another, or what `pidfd_open` says.
    pub fn open(&self) -> io::Result<ProcessHandle> {
        let number = i32::try_from(self.pid).map_err(|_| io::ErrorKind::InvalidInput)?;
        let pid = Pid::from_raw(number).ok_or(io::ErrorKind::InvalidInput)?;
        let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|e| match e {
            rustix::io::Errno::SRCH => io::ErrorKind::NotFound.into(),
            other => io::Error::from(other),
        })?;
        // Asked after opening: had the number been reused before, the start time differs.
        if self.is_running() {
            Ok(ProcessHandle(fd))
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }
}

/// A process held by a descriptor.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Waits until the process has ended, at most `timeout`; returns whether it has.
    ///
    /// # Errors
    /// What `poll` says.
    pub fn wait_ended(&self, timeout: Duration) -> io::Result<bool> {
        wait_readable(&self.0, timeout)
    }

    /// Sends `SIGTERM`.
    ///
    /// # Errors
    /// `ESRCH` where it has ended, `EPERM`.
    pub fn terminate(&self) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.0, Signal::TERM)?)
    }

    /// Sends `SIGKILL`.
    ///
    /// # Errors
    /// `ESRCH` where it has ended, `EPERM`.
    pub fn kill(&self) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.0, Signal::KILL)?)
    }
}

/// Waits until `fd` is readable or closed at its other end, at most `timeout`.
///
/// # Errors
/// What `poll` says.
pub fn wait_readable(fd: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timespec = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timespec)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the state letter and the start time of a process.
fn read_stat(pid: u32) -> io::Result<(u8, u64)> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/stat"))?
        .take(4096)
        .read_to_end(&mut bytes)?;
    parse_stat(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The name is in parentheses and may hold anything, so the fields count from the last one.
fn parse_stat(bytes: &[u8]) -> Option<(u8, u64)> {
    let end = bytes.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(bytes.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    // Field 3 was the state; 22 is the nineteenth after it.
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

/// This program, started anew in the background, before it says that it is ready.
#[derive(Debug)]
pub struct Background {
    child: Child,
}

impl Background {
    /// Starts this very binary with `verb` alone. `input` becomes its standard input and `output`
    /// its standard output; standard error is /dev/null.
    ///
    /// # Errors
    /// What starting says: too many processes, no memory, /proc not mounted.
    #[expect(
        clippy::disallowed_methods,
        reason = "sys::process is the file that starts programs"
    )]
    pub fn start(verb: &OsStr, input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let child = Command::new("/proc/self/exe")
            .arg0("forgefs")
            .arg(verb)
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child })
    }

    /// Returns its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits at most `timeout` for its end and says how it ended.
    ///
    /// # Errors
    /// What `waitpid` says.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<String>> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status.to_string()));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills it and reaps it.
    ///
    /// # Errors
    /// What `kill` and `waitpid` say.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

/// Leaves the caller's session, directory and umask, and closes every descriptor above standard
/// error that was inherited without close-on-exec. Call it first thing in a background process:
/// descriptors that this process opened itself would be closed too.
///
/// # Errors
/// What `setsid`, `chdir` and `close_range` say; a session leader keeps its session.
pub fn leave_caller() -> io::Result<()> {
    match rustix::process::setsid() {
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    rustix::process::chdir("/")?;
    // Executed as /proc/self/exe it would be called "exe" in lists of processes.
    rustix::thread::set_name(c"forgefs")?;
    // SAFETY: called before this process opens anything, so no live owner of a descriptor above 2
    // exists; the call itself touches no memory.
    let code = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Narrows what this process can be made to do: files it makes are its user's alone, and no other
/// process of the same user may trace it or read its memory (R47). With `no_new_privileges` nothing
/// that it starts gains any; a process that must still run the set-uid `fusermount3` cannot ask so.
///
/// # Errors
/// What `prctl` says.
pub fn harden(no_new_privileges: bool) -> io::Result<()> {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    if no_new_privileges {
        rustix::thread::set_no_new_privs(true)?;
    }
    Ok(())
}

/// Points standard input, output and error at /dev/null.
///
/// # Errors
/// What opening /dev/null and `dup2` say.
pub fn detach_stdio() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Points standard error at `file`, for the last words of the runtime.
///
/// # Errors
/// What `dup2` says.
pub fn send_stderr_to(file: &File) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(file)?)
}

/// Returns the effective user and group of this process.
#[must_use]
pub fn effective_ids() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_field_22_whatever_the_name_holds() {
        let tail = "S 1 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 987654 0 0";
        for name in ["(sh)", "(a) b)", "() R 1 2)", "(\u{e9})"] {
            let line = format!("7 {name} {tail}");
            assert_eq!(parse_stat(line.as_bytes()), Some((b'S', 987_654)), "{name}");
        }
        for bad in ["", "7 (sh", "7 (sh)", "7 (sh) S 1 1"] {
            assert_eq!(parse_stat(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn r42_a_recycled_number_is_not_the_process() {
        let me = ProcessId::current().unwrap();
        assert!(me.is_running());
        assert!(!me.open().unwrap().wait_ended(Duration::ZERO).unwrap());
        let other = ProcessId {
            start_ticks: me.start_ticks + 1,
            ..me
        };
        assert!(!other.is_running());
        assert_eq!(other.open().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn numbers_that_no_process_has_are_not_found() {
        for pid in [0, u32::MAX, 0x3fff_ffff] {
            let id = ProcessId {
                pid,
                start_ticks: 1,
            };
            assert!(!id.is_running());
            assert!(id.open().is_err());
        }
    }
}
