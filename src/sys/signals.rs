//! Signals as channel messages: blocked before any thread starts, taken by one thread with
//! `sigwait`, so that no code runs in a signal handler.

#![expect(unsafe_code, reason = "signal masks have no safe interface")]

use std::io;

use crossbeam_channel::{Receiver, Sender, bounded};

/// A request from outside to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// `SIGHUP`.
    Hangup,
    /// `SIGINT`.
    Interrupt,
    /// `SIGTERM`.
    Terminate,
}

impl StopSignal {
    /// Returns the name, such as `SIGTERM`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }
}

/// The signals of [`StopSignal`], blocked in this thread and in those that it will start.
#[derive(Debug)]
pub struct BlockedSignals(());

/// Blocks the stop signals. Call it before any other thread is started: only threads that inherit
/// the mask leave the signals to [`BlockedSignals::watch`].
///
/// # Errors
/// What `pthread_sigmask` says.
pub fn block_stop_signals() -> io::Result<BlockedSignals> {
    let set = stop_set();
    // SAFETY: `set` is an initialised signal set and the old mask is not asked for.
    let code =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    match code {
        0 => Ok(BlockedSignals(())),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

impl BlockedSignals {
    /// Starts the thread that waits for the signals; each comes out of the channel once. The thread
    /// ends with the process.
    ///
    /// # Errors
    /// `EAGAIN` where no thread can be started.
    pub fn watch(self) -> io::Result<Receiver<StopSignal>> {
        let (sender, receiver) = bounded(8);
        std::thread::Builder::new()
            .name(String::from("signals"))
            .stack_size(64 << 10)
            .spawn(move || forward(&sender))?;
        Ok(receiver)
    }
}

fn forward(sender: &Sender<StopSignal>) {
    let set = stop_set();
    loop {
        let mut number: libc::c_int = 0;
        // SAFETY: both point at initialised values of this frame.
        let code = unsafe { libc::sigwait(&raw const set, &raw mut number) };
        let signal = match (code, number) {
            (0, libc::SIGHUP) => StopSignal::Hangup,
            (0, libc::SIGINT) => StopSignal::Interrupt,
            (0, libc::SIGTERM) => StopSignal::Terminate,
            _ => continue,
        };
        // A full channel means that enough has been asked for; a closed one that nobody asks.
        if let Err(crossbeam_channel::TrySendError::Disconnected(_)) = sender.try_send(signal) {
            return;
        }
    }
}

fn stop_set() -> libc::sigset_t {
    // SAFETY: a signal set is plain data; `sigemptyset` initialises it and cannot fail on a valid
    // pointer, nor can `sigaddset` with signals that exist.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_arrives_as_a_message() {
        // In a thread of its own, so that the test runner's other threads keep their mask; the
        // signal is sent to that thread's waiter through the process-wide set of one thread.
        std::thread::spawn(|| {
            let receiver = block_stop_signals().unwrap().watch().unwrap();
            // SAFETY: `pthread_self` names this live thread, in which SIGHUP is blocked.
            let pending = unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGHUP) };
            assert_eq!(pending, 0);
            // Sent to this thread alone it stays pending here: the watcher must not see it.
            assert!(receiver.try_recv().is_err());
            let set = stop_set();
            let mut number = 0;
            // SAFETY: both point at initialised values of this frame.
            let code = unsafe { libc::sigwait(&raw const set, &raw mut number) };
            assert_eq!((code, number), (0, libc::SIGHUP));
        })
        .join()
        .unwrap();
    }
}
