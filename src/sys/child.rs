//! Work in a child process that its parent can leave behind: a thread that waits for a hung FUSE
//! server inside the kernel cannot be killed, and a process with such a thread cannot end (R36).

#![expect(unsafe_code, reason = "fork and _exit have no safe interface")]

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::process::detach_stdio;

/// How long a child that has said its exit code is waited for. It needs microseconds to end; one
/// that needs longer hangs in the kernel.
const GRACE: Duration = Duration::from_millis(200);

/// The code of a child that ended without saying one.
const CRASHED: u8 = 70;

/// Runs `work` in a copy of this process and returns the exit code that it gives, also where the
/// copy cannot end. The copy dies with this process. `work` must not leave threads of this process
/// in mid-action behind: call it while there is only one.
///
/// # Errors
/// Where no process or pipe can be made; `work` has not run then.
pub fn in_child(work: impl FnOnce() -> u8) -> io::Result<u8> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let parent = rustix::process::getpid();
    // SAFETY: fork has no preconditions; the caller promises that no other thread holds a lock that
    // the child will want, and the C library takes care of its own.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(reader);
            let work = std::panic::AssertUnwindSafe(|| {
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                // The parent may have died before it could be bound to.
                let bound = rustix::process::getppid() == Some(parent);
                if bound { work() } else { CRASHED }
            });
            let code = std::panic::catch_unwind(work).unwrap_or(CRASHED);
            let _ = std::fs::File::from(writer).write_all(&[code]);
            // Whoever reads our output must not wait for a thread that never ends.
            let _ = detach_stdio();
            // SAFETY: _exit ends the process at once; all that must be flushed was.
            unsafe { libc::_exit(i32::from(code)) }
        }
        child => {
            drop(writer);
            let mut code = [CRASHED];
            // An end without a byte is a crash; its code stands in `code` already.
            let _ = std::fs::File::from(reader).read_exact(&mut code);
            if let Some(child) = Pid::from_raw(child) {
                wait_a_little(child);
            }
            let [code] = code;
            Ok(code)
        }
    }
}

fn wait_a_little(child: Pid) {
    let Ok(handle) = rustix::process::pidfd_open(child, PidfdFlags::empty()) else {
        return;
    };
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(GRACE.subsec_nanos()),
    };
    let handle = handle.as_fd();
    let mut ended = [PollFd::new(&handle, PollFlags::IN)];
    let _ = rustix::event::poll(&mut ended, Some(&timeout));
    let _ = rustix::process::waitpid(Some(child), WaitOptions::NOHANG);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_the_work_comes_back_and_a_crash_has_its_own() {
        assert_eq!(in_child(|| 0).unwrap(), 0);
        assert_eq!(in_child(|| 7).unwrap(), 7);
        let killed = in_child(|| {
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
            1
        });
        assert_eq!(killed.unwrap(), CRASHED);
    }
}
