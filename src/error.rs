//! The one error type of the library: a closed kind, a stable slug, one sentence, and what it is
//! about (path, object id).
//!
//! A kind decides the exit code (`cli::exit`) and the errno (`mount::reply`); both tables are
//! exhaustive. A slug is for scripts: it is listed in `docs/errors.md` and never renamed. A
//! negative verdict (not proven, import refused) is a value, not an error.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

/// What every fallible function of this library returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The closed list of what can go wrong, as callers tell cases apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Refused before any effect: an argument is not of the form it must have.
    Usage,
    /// A repository or object is not there.
    NotFound,
    /// Bytes do not hash to their name, do not parse, or break git's rules.
    Corrupt,
    /// A path, mount or identity rule is broken.
    Unsafe,
    /// Something exists, is busy, is locked or is in another state.
    Conflict,
    /// A format or policy forbids it.
    Unsupported,
    /// A cap was reached.
    Budget,
    /// The host lacks something: FUSE, `fusermount3`, disk space, descriptors, a writable place.
    Host,
    /// Any other input or output error.
    Io,
    /// The kernel asked about an inode that this snapshot does not have.
    Stale,
    /// A directory operation on a file, or the reverse.
    WrongType,
    /// A name or link target that the kernel cannot carry.
    TooLong,
    /// A signal ended the work.
    Interrupted,
    /// A promise of this program broke.
    Internal,
}

/// One failure, as a sentence that names the thing, then the rule, then the way out.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    slug: &'static str,
    message: String,
    path: Option<PathBuf>,
    object_id: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Makes an error; `message` is lower case, without a full stop.
    #[must_use]
    pub fn new(kind: ErrorKind, slug: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            slug,
            message: message.into(),
            path: None,
            object_id: None,
            source: None,
        }))
    }

    /// Adds the path it is about, unless one is known already.
    #[must_use]
    pub fn at(mut self, path: impl AsRef<Path>) -> Self {
        self.0
            .path
            .get_or_insert_with(|| path.as_ref().to_path_buf());
        self
    }

    /// Adds the object it is about, unless one is known already.
    #[must_use]
    pub fn about(mut self, object_id: impl fmt::Display) -> Self {
        self.0
            .object_id
            .get_or_insert_with(|| object_id.to_string());
        self
    }

    /// Adds the error that caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the stable identifier for scripts.
    #[must_use]
    pub fn slug(&self) -> &'static str {
        self.0.slug
    }

    /// Returns the sentence alone, without cause, path or id.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the path it is about.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the id of the object it is about, in hex.
    #[must_use]
    pub fn object_id(&self) -> Option<&str> {
        self.0.object_id.as_deref()
    }

    /// Turns an input or output error into one of the host (no space, no descriptors, read-only,
    /// no permission; exit 8) or a plain one (exit 70), with what was being done.
    #[must_use]
    pub fn io(doing: impl Into<String>, error: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = error.kind();
        let (kind, slug) = match kind {
            Io::StorageFull | Io::QuotaExceeded => (ErrorKind::Host, "no-space"),
            Io::PermissionDenied => (ErrorKind::Host, "permission-denied"),
            Io::ReadOnlyFilesystem => (ErrorKind::Host, "read-only-filesystem"),
            Io::NotFound => (ErrorKind::NotFound, "not-found"),
            Io::Interrupted => (ErrorKind::Interrupted, "interrupted"),
            _ if matches!(error.raw_os_error(), Some(23 | 24)) => {
                (ErrorKind::Host, "too-many-open-files")
            }
            _ => (ErrorKind::Io, "io"),
        };
        Self::new(kind, slug, doing).caused_by(error)
    }
}

/// Adds kind, slug and sentence to any foreign error; there is no `From`, so no cause is bare.
pub trait Context<T> {
    /// Wraps the error with a kind, a slug and what was being done.
    ///
    /// # Errors
    /// Returns the wrapped error where there was one.
    fn context(
        self,
        kind: ErrorKind,
        slug: &'static str,
        message: impl FnOnce() -> String,
    ) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> Context<T> for std::result::Result<T, E> {
    fn context(
        self,
        kind: ErrorKind,
        slug: &'static str,
        message: impl FnOnce() -> String,
    ) -> Result<T> {
        self.map_err(|error| Error::new(kind, slug, message()).caused_by(error))
    }
}

/// Adds what was being done to an `std::io::Error`, choosing the kind as [`Error::io`] does.
pub trait IoContext<T> {
    /// Wraps the error with what was being done.
    ///
    /// # Errors
    /// Returns the wrapped error where there was one.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::io(what(), error))
    }
}

impl<T> IoContext<T> for std::result::Result<T, rustix::io::Errno> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::io(what(), error.into()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let mut cause = self.0.source.as_deref().map(|e| e as &dyn StdError);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        let named = |text: &str| self.0.message.contains(text);
        if let Some(id) = self.object_id().filter(|id| !named(id)) {
            write!(f, ", object {id}")?;
        }
        if let Some(path) = self.path().filter(|path| !named(&path.to_string_lossy())) {
            write!(f, ", at {}", path.display().to_string().escape_debug())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} [{}] {self}", self.0.kind, self.0.slug)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|e| e as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_cause_object_and_path_once() {
        let cause = std::io::Error::other("disk on fire");
        let error = Error::new(ErrorKind::Io, "io", "cannot read pack")
            .caused_by(cause)
            .about("abc1")
            .at("d/f");
        assert_eq!(
            error.to_string(),
            "cannot read pack: disk on fire, object abc1, at d/f"
        );
        let error = Error::new(
            ErrorKind::NotFound,
            "missing-object",
            "object abc1 is missing",
        )
        .about("abc1");
        assert_eq!(error.to_string(), "object abc1 is missing");
    }

    #[test]
    fn the_first_path_wins_since_it_is_the_most_exact() {
        let error = Error::new(ErrorKind::Io, "io", "no")
            .at("inner")
            .at("outer");
        assert_eq!(error.path(), Some(Path::new("inner")));
    }
}
