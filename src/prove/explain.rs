//! Why a path may be unreadable: what the store says of its object (R36).

use super::{Difference, DifferenceKind, Proof, Verdict};
use crate::error::Result;
use crate::git::{ObjectSource, Oid};

/// How many paths are explained: a store that lost everything needs no thousand reads to say so.
const EXPLAINED_MAX: usize = 200;

/// Larger objects are not read again only to explain.
const OBJECT_BYTES_MAX: u64 = 16 << 20;

/// Adds to unreadable paths what `objects` says of their objects, where it cannot give them either;
/// it must be a whole repository's, not a manifest's. The verdict stays as it is.
pub fn explain(proof: &mut Proof, objects: &dyn ObjectSource) {
    if proof.verdict != Verdict::Differs {
        return;
    }
    let unreadable = |d: &&mut Difference| d.kind == DifferenceKind::Unreadable;
    let paths = proof.differences.iter_mut().filter(unreadable);
    for difference in paths.take(EXPLAINED_MAX) {
        let error = difference.object_id.and_then(|id| read(objects, &id).err());
        let Some(why) = error.map(|error| error.to_string()) else {
            continue;
        };
        match &mut difference.detail {
            Some(detail) if detail.contains(&why) => {}
            Some(detail) => *detail = format!("{detail}; {why}"),
            None => difference.detail = Some(why),
        }
    }
}

fn read(objects: &dyn ObjectSource, id: &Oid) -> Result<()> {
    let header = objects.header(id)?;
    if header.size <= OBJECT_BYTES_MAX {
        objects.read(id, header.kind)?;
    }
    Ok(())
}
