//! Deltas (gitformat-pack, "Deltified representation"): two sizes, then copies from the base and
//! inserted bytes.
//!
//! A delta is scanned before anything is allocated for its result, so that a size that its
//! instructions cannot produce costs nothing.

/// What is wrong with a delta.
pub(super) type Damage = &'static str;

/// The most bytes that the two sizes at the start can have.
pub(super) const SIZES_BYTES_MAX: usize = 20;

/// The two sizes at the start of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Bytes of the base.
    pub(super) base: u64,
    /// Bytes of the result.
    pub(super) result: u64,
    /// Bytes that the sizes take up in the delta.
    pub(super) len: usize,
}

/// Reads the two sizes.
///
/// # Errors
/// Where they do not end within `bytes` or do not fit 64 bits.
pub(super) fn sizes(bytes: &[u8]) -> Result<Sizes, Damage> {
    let (base, rest) = read_size(bytes)?;
    let (result, rest) = read_size(rest)?;
    Ok(Sizes {
        base,
        result,
        len: bytes.len() - rest.len(),
    })
}

fn read_size(bytes: &[u8]) -> Result<(u64, &[u8]), Damage> {
    let mut size = 0_u64;
    let mut shift = 0_u32;
    for (number, byte) in bytes.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        if shift > 63 || (bits << shift) >> shift != bits {
            return Err("is a delta with a size that does not fit 64 bits");
        }
        size |= bits << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Ok((size, bytes.get(number + 1..).unwrap_or_default()));
        }
    }
    Err("is a delta that ends within its sizes")
}

/// One step of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction<'a> {
    /// Copy `len` bytes of the base from `from`.
    Copy {
        /// Where in the base.
        from: usize,
        /// How many bytes.
        len: usize,
    },
    /// Insert these bytes.
    Insert(&'a [u8]),
}

/// Takes the first instruction off `rest`; `None` at the end.
#[inline]
pub(super) fn next_instruction<'a>(rest: &mut &'a [u8]) -> Result<Option<Instruction<'a>>, Damage> {
    let Some((&code, mut after)) = rest.split_first() else {
        return Ok(None);
    };
    let instruction = if code & 0x80 != 0 {
        let (mut from, mut len) = (0_usize, 0_usize);
        for bit in 0..7 {
            if code & (1 << bit) != 0 {
                let (&byte, tail) = after
                    .split_first()
                    .ok_or("is a delta that ends within an instruction")?;
                after = tail;
                if bit < 4 {
                    from |= usize::from(byte) << (8 * bit);
                } else {
                    len |= usize::from(byte) << (8 * (bit - 4));
                }
            }
        }
        let len = if len == 0 { 0x1_0000 } else { len };
        Instruction::Copy { from, len }
    } else {
        if code == 0 {
            return Err("is a delta with the reserved instruction 0");
        }
        let (bytes, tail) = after
            .split_at_checked(usize::from(code))
            .ok_or("is a delta that ends within an instruction")?;
        after = tail;
        Instruction::Insert(bytes)
    };
    *rest = after;
    Ok(Some(instruction))
}

/// Checks a whole delta against the size of its base and returns its sizes: after this,
/// [`apply`] on a base of that size produces exactly `result` bytes.
///
/// # Errors
/// What the delta breaks, before anything is allocated.
pub(super) fn check(delta: &[u8], base_len: usize) -> Result<Sizes, Damage> {
    let sizes = sizes(delta)?;
    if sizes.base != base_len as u64 {
        return Err("is a delta for a base of another size");
    }
    let mut rest = delta.get(sizes.len..).unwrap_or_default();
    let mut total = 0_u64;
    while let Some(instruction) = next_instruction(&mut rest)? {
        let len = match instruction {
            Instruction::Copy { from, len } => {
                if from.checked_add(len).is_none_or(|end| end > base_len) {
                    return Err("is a delta that copies from beyond its base");
                }
                len
            }
            Instruction::Insert(bytes) => bytes.len(),
        };
        total = total.saturating_add(len as u64);
    }
    if total != sizes.result {
        return Err("is a delta that does not produce the size it says");
    }
    Ok(sizes)
}

/// Applies a delta to its base, appending to `out`.
///
/// # Errors
/// Where [`check`] would have refused; nothing is appended then.
pub(super) fn apply(base: &[u8], delta: &[u8], out: &mut Vec<u8>) -> Result<(), Damage> {
    let sizes = check(delta, base.len())?;
    let result = usize::try_from(sizes.result).map_err(|_| "is a delta with a result too large")?;
    let start = out.len();
    out.reserve_exact(result);
    out.resize(start + result, 0);
    let mut left = out.get_mut(start..).unwrap_or_default();
    let mut rest = delta.get(sizes.len..).unwrap_or_default();
    while let Some(instruction) = next_instruction(&mut rest)? {
        let (source, len) = match instruction {
            Instruction::Copy { from, len } => (base.get(from..).unwrap_or_default(), len),
            Instruction::Insert(bytes) => (bytes, bytes.len()),
        };
        // Most copies are short, and two fixed moves are cheaper than a call; what they write too
        // much is overwritten by the next.
        if len <= 2 * MOVE
            && let (Some(to), Some(from)) =
                (left.first_chunk_mut::<{ 2 * MOVE }>(), source.first_chunk())
        {
            *to = *from;
        } else {
            let (Some(to), Some(from)) = (left.get_mut(..len), source.get(..len)) else {
                return Err("is a delta that copies from beyond its base");
            };
            to.copy_from_slice(from);
        }
        left = left.get_mut(len..).unwrap_or_default();
    }
    Ok(())
}

/// Bytes of one vector register, nearly everywhere.
const MOVE: usize = 16;
