//! Why one copy of an object could not be read, before it is known whether another copy can.

use std::io;

use super::super::Oid;
use super::super::source::corrupt;
use crate::error::{Error, ErrorKind};

/// What happened to one copy of an object.
#[derive(Debug)]
pub(super) enum Fault {
    /// There is no such copy.
    Absent,
    /// The bytes are wrong; a clause such as "in pack-1.pack does not inflate".
    Corrupt(String),
    /// The bytes cannot be had; what was being read, and what the disk said.
    Io(String, io::Error),
    /// It is a delta whose base is not in its pack.
    MissingBase(String, Oid),
    /// It is larger than may be held in memory.
    TooLarge(u64),
    /// Final, whatever other copies say: for instance the asker's own output failed.
    Final(Error),
}

impl Fault {
    /// Takes a read error: a file that ends early is corrupt, everything else is the disk's.
    pub(super) fn reading(what: impl Into<String>, error: io::Error) -> Self {
        let what = what.into();
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Corrupt(format!("in {what} is cut short")),
            io::ErrorKind::InvalidData => Self::Corrupt(format!("in {what} is unusable: {error}")),
            _ => Self::Io(what, error),
        }
    }

    /// Turns it into the error for `id`.
    pub(super) fn about(self, id: &Oid, bytes_max: u64) -> Error {
        match self {
            Self::Absent => super::super::source::missing(id),
            Self::Corrupt(why) => corrupt(id, why),
            Self::Io(what, error) => {
                Error::io(format!("object {id} cannot be read from {what}"), error).about(id)
            }
            Self::MissingBase(what, base) => corrupt(
                id,
                format!("in {what} is a delta on object {base}, which is missing from the pack"),
            ),
            Self::TooLarge(size) => Error::new(
                ErrorKind::Budget,
                "object-too-large",
                format!(
                    "object {id} has {size} bytes, over the {bytes_max} that may be held in memory"
                ),
            )
            .about(id),
            Self::Final(error) => error,
        }
    }
}
