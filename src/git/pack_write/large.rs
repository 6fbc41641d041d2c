//! Objects that are too large to hold in memory, streamed into the pack.

use std::io::Write;

use super::super::{ObjectSource, PackItem};
use super::output::{EntryHead, PackOutput};
use crate::error::{IoContext, Result};

/// Streams an object that is too large to hold; it is compressed anew and a little.
pub(super) fn write_large(
    objects: &dyn ObjectSource,
    output: &mut PackOutput,
    item: &PackItem,
) -> Result<()> {
    let PackItem { kind, id, size, .. } = *item;
    let mut entry = output.begin(&id, EntryHead::Whole(kind), size)?;
    let mut failed = None;
    let sink = PutSink {
        put: |bytes: &[u8]| {
            entry.put(bytes).map_err(|error| {
                failed = Some(error);
                std::io::Error::other("the pack cannot be written")
            })
        },
    };
    let mut encoder = flate2::write::ZlibEncoder::new(sink, flate2::Compression::new(1));
    let read = objects.read_to(&id, kind, &mut encoder).and_then(|read| {
        encoder
            .finish()
            .doing(|| String::from("cannot write the pack"))?;
        Ok(read)
    });
    if let Some(error) = failed {
        return Err(error);
    }
    if read? != size {
        return Err(super::super::source::corrupt(
            &id,
            "is not as long as its header says",
        ));
    }
    entry.finish();
    Ok(())
}

/// Bytes handed to a closure.
struct PutSink<F: FnMut(&[u8]) -> std::io::Result<()>> {
    put: F,
}

impl<F: FnMut(&[u8]) -> std::io::Result<()>> Write for PutSink<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (self.put)(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
