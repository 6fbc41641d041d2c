//! Exit codes: the one table from error kinds, and the two outcomes of a verb (R129).

use std::process::ExitCode;

use crate::error::ErrorKind;

/// How a verb that could do its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Exit 0.
    Done,
    /// Exit 1: a negative verdict, such as "not proven".
    Negative,
    /// An exit code whose reason a child process has told already.
    Told(u8),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::Negative => Self::from(1),
            Outcome::Told(code) => Self::from(code),
        }
    }
}

/// Returns the exit code of an error kind, as `docs/errors.md` lists them.
#[must_use]
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage => 2,
        ErrorKind::NotFound | ErrorKind::Corrupt => 3,
        ErrorKind::Unsafe => 4,
        ErrorKind::Conflict => 5,
        ErrorKind::Unsupported => 6,
        ErrorKind::Budget => 7,
        ErrorKind::Host => 8,
        ErrorKind::Io
        | ErrorKind::Internal
        | ErrorKind::Stale
        | ErrorKind::WrongType
        | ErrorKind::TooLong => 70,
        ErrorKind::Interrupted => 130,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_that_are_documented() {
        let table = [
            (ErrorKind::Usage, 2),
            (ErrorKind::NotFound, 3),
            (ErrorKind::Corrupt, 3),
            (ErrorKind::Unsafe, 4),
            (ErrorKind::Conflict, 5),
            (ErrorKind::Unsupported, 6),
            (ErrorKind::Budget, 7),
            (ErrorKind::Host, 8),
            (ErrorKind::Internal, 70),
        ];
        for (kind, code) in table {
            assert_eq!(exit_code(kind), code, "{kind:?}");
        }
    }
}
