//! Serving a snapshot on a FUSE device: the handshake, the threads, the end.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use fuser::{Config, Session, SessionACL};

use super::ServeOptions;
use super::fs::ForgeFs;
use super::readahead::ReadAhead;
use crate::error::{Context, ErrorKind, Result};
use crate::snapshot::Snapshot;

/// A snapshot on a mounted FUSE device, ready to answer.
#[derive(Debug)]
pub struct Server {
    session: Session<ForgeFs>,
    read_ahead: Arc<ReadAhead>,
    read_ahead_threads: usize,
}

impl Server {
    /// Takes part in the kernel's handshake on `device`, which must be mounted already.
    ///
    /// # Errors
    /// `fuse-handshake` where the kernel's protocol is too old or the mount is gone.
    pub fn start(snapshot: Arc<Snapshot>, device: OwnedFd, options: &ServeOptions) -> Result<Self> {
        let threads = usize::from(options.threads.max(1));
        let read_ahead = Arc::new(ReadAhead::new(Arc::clone(&snapshot)));
        let filesystem = ForgeFs {
            snapshot,
            read_ahead: Arc::clone(&read_ahead),
            owner: options.owner,
            xattrs: options.xattrs,
        };
        let mut config = Config::default();
        config.n_threads = Some(threads);
        // Needs /dev/fuse again, which a sandboxed daemon may not have; one queue works as well.
        config.clone_fd = threads > 1 && crate::sys::mounts::open_fuse_device().is_ok();
        // Who may enter is the kernel's rule, by user_id and allow_other; a second one here would
        // only differ from it, for instance between user namespaces.
        let session = Session::from_fd(filesystem, device, SessionACL::All, config).context(
            ErrorKind::Host,
            "fuse-handshake",
            || String::from("the kernel and this program cannot agree on the FUSE protocol"),
        )?;
        Ok(Self {
            session,
            read_ahead,
            read_ahead_threads: usize::from(options.read_ahead_threads),
        })
    }

    /// Answers the kernel until the file system is unmounted or its connection aborted.
    ///
    /// # Errors
    /// `fuse-session` where the device fails in another way.
    pub fn run(self) -> Result<()> {
        let notifier = self.session.notifier();
        let pushing = self.read_ahead.start(&notifier, self.read_ahead_threads);
        drop(notifier);
        let outcome = self.session.run();
        self.read_ahead.stop();
        for thread in pushing? {
            // A panic of it was printed by the panic hook; serving was not harmed.
            let _ = thread.join();
        }
        outcome.context(ErrorKind::Io, "fuse-session", || {
            String::from("serving the mount ended with an error")
        })
    }
}
