//! Quantities on the command line: bytes with a suffix, `UID:GID`.

/// Reads a number of bytes: digits, then nothing or one of K, M, G, T (powers of 1024).
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || String::from("give a number of bytes, such as 1048576, 512K, 64M or 1G");
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (text.get(..text.len() - 1), 10),
        Some(b'm' | b'M') => (text.get(..text.len() - 1), 20),
        Some(b'g' | b'G') => (text.get(..text.len() - 1), 30),
        Some(b't' | b'T') => (text.get(..text.len() - 1), 40),
        _ => (Some(text), 0),
    };
    let digits = digits.filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
    let number: u64 = digits.ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| String::from("more bytes than can be counted"))
}

/// Reads `UID:GID` in numbers; names are not looked up, since the host's are not the container's.
pub(super) fn parse_owner(text: &str) -> Result<(u32, u32), String> {
    let wrong = || String::from("give UID:GID in numbers, such as 1000:1000");
    let (uid, gid) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| -> Result<u32, String> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten();
        // The last one means "leave as it is" to chown(2) and is nobody's id.
        number.filter(|n| *n != u32::MAX).ok_or_else(wrong)
    };
    Ok((number(uid)?, number(gid)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_powers_of_1024_as_suffix() {
        for (text, want) in [
            ("0", Some(0)),
            ("1048576", Some(1 << 20)),
            ("512K", Some(512 << 10)),
            ("64M", Some(64 << 20)),
            ("64m", Some(64 << 20)),
            ("1G", Some(1 << 30)),
            ("16777215T", Some(16_777_215 << 40)),
            ("16777216T", None),
            ("18446744073709551616", None),
            ("", None),
            ("M", None),
            ("-1", None),
            ("+1", None),
            ("1.5M", None),
            ("1 M", None),
            ("64MB", None),
            ("\u{e9}", None),
        ] {
            assert_eq!(parse_bytes(text).ok(), want, "{text}");
        }
    }

    #[test]
    fn an_owner_is_two_numbers() {
        for (text, want) in [
            ("0:0", Some((0, 0))),
            ("1000:100", Some((1000, 100))),
            ("4294967294:1", Some((4_294_967_294, 1))),
            ("4294967295:1", None),
            ("1000", None),
            ("1000:", None),
            (":1", None),
            ("a:b", None),
            ("+1:1", None),
            ("1:1:1", None),
        ] {
            assert_eq!(parse_owner(text).ok(), want, "{text}");
        }
    }
}
