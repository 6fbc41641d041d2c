//! Loose objects: one zlib stream in a file of its own, `<kind> <size>\0` in front of the content.

use std::fs::File;
use std::io::{self, Read};

use super::super::{Kind, Oid};
use super::fault::Fault;
use super::inflate::{Inflater, Scratch, WHOLE_BYTES_MAX, is_plausible};
use crate::sys::DirFd;

/// The most bytes that the header can have: a kind, a space, 20 digits, NUL.
const HEADER_BYTES_MAX: usize = 32;

/// Bytes read to get at the header.
const PREFIX_BYTES: usize = 512;

/// The header of a loose object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LooseHeader {
    /// The kind it claims.
    pub(super) kind: Kind,
    /// The size it claims.
    pub(super) size: u64,
    /// Bytes of the header with its NUL.
    pub(super) len: usize,
}

/// Parses `<kind> <size>\0` at the start of inflated bytes.
///
/// # Errors
/// A clause that says what is wrong.
pub(super) fn parse_header(bytes: &[u8]) -> Result<LooseHeader, &'static str> {
    let head = bytes
        .get(..bytes.len().min(HEADER_BYTES_MAX))
        .unwrap_or_default();
    let nul = head
        .iter()
        .position(|b| *b == 0)
        .ok_or("has no object header")?;
    let text = head.get(..nul).unwrap_or_default();
    let space = text
        .iter()
        .position(|b| *b == b' ')
        .ok_or("has no object header")?;
    let (kind, digits) = text.split_at(space);
    let digits = digits.get(1..).unwrap_or_default();
    let kind = Kind::from_bytes(kind).map_err(|_| "is of a kind that does not exist")?;
    if digits.is_empty() || (digits.len() > 1 && digits.first() == Some(&b'0')) {
        return Err("has a size that is not a number");
    }
    let size = digits
        .iter()
        .try_fold(0_u64, |size, digit| {
            let digit = digit.checked_sub(b'0').filter(|d| *d < 10)?;
            size.checked_mul(10)?.checked_add(u64::from(digit))
        })
        .ok_or("has a size that is not a number")?;
    Ok(LooseHeader {
        kind,
        size,
        len: nul + 1,
    })
}

/// An opened loose object file.
pub(super) struct Loose {
    file: File,
    len: u64,
}

impl Loose {
    /// Opens the loose object `id` of an objects directory.
    ///
    /// # Errors
    /// `Absent` where there is none.
    pub(super) fn open(objects: &DirFd, id: &Oid) -> Result<Self, Fault> {
        let hex = id.to_string();
        let (fan, rest) = hex.split_at(2);
        let name = format!("{fan}/{rest}");
        let reading = |error| Fault::reading("its object file", error);
        let file = match objects.open_file_following(name.as_bytes()) {
            Ok(file) => file,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(Fault::Absent);
            }
            Err(error) => return Err(reading(error)),
        };
        let meta = file.metadata().map_err(reading)?;
        if !meta.is_file() {
            return Err(damage("is not a file"));
        }
        if meta.len() == 0 {
            return Err(damage("is empty"));
        }
        Ok(Self {
            file,
            len: meta.len(),
        })
    }

    /// Reads the header alone.
    pub(super) fn header(&self, scratch: &mut Scratch) -> Result<LooseHeader, Fault> {
        let kept = scratch.input.used();
        let input = scratch
            .input
            .read(&self.file, 0, PREFIX_BYTES)
            .map_err(|error| Fault::reading("its object file", error))?;
        let mut prefix = [0; HEADER_BYTES_MAX];
        let len = scratch.inflate_prefix(input, &mut prefix).map_err(damage)?;
        scratch.input.truncate(kept);
        let header = parse_header(prefix.get(..len).unwrap_or_default()).map_err(damage)?;
        if !is_plausible(header.size, self.len) {
            return Err(damage("claims a size that its bytes cannot hold"));
        }
        Ok(header)
    }

    /// Reads header and content; nothing is verified but the stream's own check sum.
    pub(super) fn read(
        &self,
        scratch: &mut Scratch,
        bytes_max: u64,
    ) -> Result<(Kind, Vec<u8>), Fault> {
        let header = self.header(scratch)?;
        if header.size > bytes_max {
            return Err(Fault::TooLarge(header.size));
        }
        let size = usize::try_from(header.size).map_err(|_| Fault::TooLarge(header.size))?;
        if self.len > WHOLE_BYTES_MAX || header.size > WHOLE_BYTES_MAX {
            let mut content = Vec::new();
            content.reserve_exact(size);
            self.stream(scratch, header, &mut |piece| {
                content.extend_from_slice(piece);
                Ok(())
            })?;
            return Ok((header.kind, content));
        }
        let kept = scratch.input.used();
        let file_len = usize::try_from(self.len).unwrap_or(usize::MAX);
        let input = scratch
            .input
            .read(&self.file, 0, file_len)
            .map_err(|error| Fault::reading("its object file", error))?;
        let mut bytes = vec![0; header.len + size];
        let inflates = scratch.inflate_whole(input.clone(), &mut bytes);
        // The stream's check sum must be the last thing in the file: what follows it is junk.
        let sum = libdeflater::adler32(&bytes).to_be_bytes();
        let ends = scratch.input.get(input).ends_with(&sum);
        scratch.input.truncate(kept);
        if !inflates {
            return Err(damage("is cut short or does not inflate to its size"));
        }
        if !ends {
            return Err(damage("has garbage behind its end"));
        }
        bytes.drain(..header.len);
        Ok((header.kind, bytes))
    }

    /// Hands the content out piece by piece, in order.
    pub(super) fn stream(
        &self,
        scratch: &mut Scratch,
        header: LooseHeader,
        piece: &mut dyn FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let reading = |error| Fault::reading("its object file", error);
        let mut inflater = scratch.stream(&self.file, 0..self.len);
        let mut head = [0; HEADER_BYTES_MAX];
        inflater
            .read_exact(head.get_mut(..header.len).unwrap_or_default())
            .map_err(reading)?;
        pump(&mut inflater, header.size, "its object file", piece)?;
        if inflater.end() != self.len {
            return Err(damage("has garbage behind its end"));
        }
        Ok(())
    }
}

/// Takes exactly `size` bytes out of a stream and checks that it ends there.
pub(super) fn pump(
    inflater: &mut Inflater<'_>,
    size: u64,
    what: &str,
    piece: &mut dyn FnMut(&[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut buf = vec![0; 64 << 10];
    let mut left = size;
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let space = buf.get_mut(..want).unwrap_or_default();
        let count = inflater
            .read(space)
            .map_err(|error| Fault::reading(what, error))?;
        if count == 0 {
            return Err(Fault::Corrupt(format!(
                "in {what} inflates to less than its size"
            )));
        }
        piece(space.get(..count).unwrap_or_default())?;
        left -= count as u64;
    }
    inflater
        .expect_end()
        .map_err(|error| Fault::reading(what, error))
}

fn damage(why: &'static str) -> Fault {
    Fault::Corrupt(format!("has an object file that {why}"))
}
