//! The copies of an object: which there are, in which order they are tried, and what is said when
//! none of them is good.

use std::sync::Arc;

use super::super::Oid;
use super::super::source::missing;
use super::Store;
use super::fault::Fault;
use super::inflate::Scratch;
use super::objects_dir::{ObjectsDir, Search};
use super::pack::Pack;
use crate::error::{Error, ErrorKind, Result};

/// Where an object may be.
#[derive(Debug, Clone)]
pub(super) enum Copy {
    /// At this offset of this pack.
    Packed(Arc<Pack>, u64),
    /// In a file of its own in this directory.
    Loose(Arc<ObjectsDir>),
}

impl Copy {
    /// The fault for content that is not what its id says.
    pub(super) fn mismatch(&self) -> Fault {
        match self {
            Self::Packed(pack, offset) => pack.damage(*offset, "does not hash to its name"),
            Self::Loose(_) => Fault::Corrupt(String::from("does not hash to its name")),
        }
    }
}

impl Store {
    /// Runs `attempt` on each copy of `id` until one succeeds: first those that are known, then,
    /// after a look for new packs, all there are.
    pub(super) fn each_copy<T>(
        &self,
        id: &Oid,
        attempt: &mut dyn FnMut(&Copy, &mut Scratch) -> Result<T, Fault>,
    ) -> Result<T> {
        let mut fault = None;
        for search in [Search::Fast, Search::Thorough] {
            if search == Search::Thorough && !self.rescan() {
                break;
            }
            let mut done = None;
            self.scratches.with(|scratch| {
                self.visit_copies(id, search, &mut fault, &mut |copy| {
                    scratch.input.clear();
                    let result = attempt(copy, scratch);
                    if let (Err(_), Copy::Packed(pack, _)) = (&result, copy) {
                        pack.set_suspect(true);
                    }
                    match result {
                        Err(fault @ (Fault::Final(_) | Fault::TooLarge(_))) => {
                            done = Some(Err(fault));
                            Ok(true)
                        }
                        Err(fault) => Err(fault),
                        Ok(found) => {
                            done = Some(Ok(found));
                            Ok(true)
                        }
                    }
                });
            });
            if let Some(result) = done {
                return result.map_err(|fault| fault.about(id, self.options.object_bytes_max));
            }
        }
        Err(match fault {
            Some(fault) => fault.about(id, self.options.object_bytes_max),
            None => self.absence(id),
        })
    }

    /// Hands out the copies of `id`, packed ones first, until `visit` returns true; the first fault
    /// is kept in `fault`.
    fn visit_copies(
        &self,
        id: &Oid,
        search: Search,
        fault: &mut Option<Fault>,
        visit: &mut dyn FnMut(&Copy) -> Result<bool, Fault>,
    ) {
        let mut damage = None;
        for dir in &self.dirs {
            let found = dir.visit_packed(
                id,
                search,
                &mut |fault| damage = damage.take().or(Some(fault)),
                &mut |pack, offset| match visit(&Copy::Packed(Arc::clone(pack), offset)) {
                    Ok(is_done) => is_done,
                    Err(found) => {
                        fault.get_or_insert(found);
                        false
                    }
                },
            );
            if found {
                return;
            }
        }
        for dir in &self.dirs {
            match visit(&Copy::Loose(Arc::clone(dir))) {
                Ok(true) => return,
                Ok(false) | Err(Fault::Absent) => {}
                Err(found) => {
                    fault.get_or_insert(found);
                }
            }
        }
        if let (None, Some(damage)) = (&fault, damage) {
            *fault = Some(damage);
        }
    }

    /// Looks for new packs; returns whether a search that found nothing may find something now.
    fn rescan(&self) -> bool {
        self.dirs.iter().fold(false, |is_worth_it, dir| {
            let is_changed = dir.rescan().unwrap_or_else(|error| {
                tracing::debug!(path = %dir.path.display(), %error, "cannot list packs");
                false
            });
            is_worth_it | is_changed | dir.has_midx()
        })
    }

    /// Returns the error for an object of which there is no copy.
    fn absence(&self, id: &Oid) -> Error {
        if self.dirs.first().is_some_and(|dir| dir.is_gone()) {
            return Error::new(
                ErrorKind::NotFound,
                "object-store-gone",
                format!("the object store is gone, and object {id} with it"),
            )
            .about(id);
        }
        if self.is_partial_clone() {
            return Error::new(
                ErrorKind::NotFound,
                "promised-object",
                format!(
                    "object {id} is not here: the repository is a partial clone whose promisor \
                     remote has it; fetch it first, for instance with `git cat-file -e {id}`"
                ),
            )
            .about(id);
        }
        match self.absent_alternates.first() {
            Some(path) => Error::new(
                ErrorKind::NotFound,
                "missing-object",
                format!(
                    "object {id} is missing; it may be in the alternate {}, which cannot be opened",
                    path.escape_debug()
                ),
            )
            .about(id),
            None => missing(id),
        }
    }
}
