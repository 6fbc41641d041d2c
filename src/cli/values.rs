//! Values that several verbs take: amounts of bytes, lengths of time.

use std::time::Duration;

/// Reads an amount of bytes: digits with an optional `K`, `M`, `G` or `T` (powers of 1,024).
///
/// # Errors
/// A sentence for clap where it is neither, or more than 2^64.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = split_unit(text);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        "T" | "t" | "TiB" => 40,
        _ => {
            return Err(String::from(
                "give a number of bytes, such as 4096, 64M or 10G",
            ));
        }
    };
    let count: u64 = digits
        .parse()
        .map_err(|_| String::from("give a number of bytes, such as 4096, 64M or 10G"))?;
    count
        .checked_mul(1 << shift)
        .ok_or_else(|| String::from("it is more than 2^64 bytes"))
}

/// Reads a length of time: digits with an optional `ms`, `s`, `m` or `h`; seconds without.
///
/// # Errors
/// A sentence for clap where it is neither, or longer than 2^64 milliseconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = split_unit(text);
    let unit_ms = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60 * 1000,
        "h" => 3600 * 1000,
        _ => return Err(String::from("give a time, such as 90s, 10m or 1h")),
    };
    let count: u64 = digits
        .parse()
        .map_err(|_| String::from("give a time, such as 90s, 10m or 1h"))?;
    count
        .checked_mul(unit_ms)
        .map(Duration::from_millis)
        .ok_or_else(|| String::from("it is longer than anyone waits"))
}

/// Returns `amount` as people read it: three digits and a unit of 1,024s.
pub(super) fn shown_bytes(amount: u64) -> String {
    let mut whole = amount;
    let mut tenths = 0;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] {
        if whole < 1024 {
            return match (unit, whole) {
                ("B", _) | (_, 100..) => format!("{whole} {unit}"),
                _ => format!("{whole}.{tenths} {unit}"),
            };
        }
        tenths = (whole % 1024) * 10 / 1024;
        whole /= 1024;
    }
    format!("{amount} B")
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_units_of_1024() {
        for (text, want) in [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("64M", Some(64 << 20)),
            ("10G", Some(10 << 30)),
            ("1T", Some(1 << 40)),
            ("1KiB", Some(1024)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999T", None),
            ("", None),
            ("M", None),
            ("-1", None),
            ("1.5G", None),
            ("1 G", None),
        ] {
            assert_eq!(parse_bytes(text).ok(), want, "{text:?}");
        }
    }

    #[test]
    fn times_are_read_with_their_units() {
        for (text, want_ms) in [
            ("90", Some(90_000)),
            ("90s", Some(90_000)),
            ("250ms", Some(250)),
            ("10m", Some(600_000)),
            ("1h", Some(3_600_000)),
            ("99999999999999999999h", None),
            ("9999999999999999999h", None),
            ("soon", None),
            ("1d", None),
        ] {
            let want = want_ms.map(Duration::from_millis);
            assert_eq!(parse_duration(text).ok(), want, "{text:?}");
        }
    }

    #[test]
    fn amounts_are_shown_short() {
        for (amount, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (1_300_000_000, "1.2 GiB"),
            (250 << 20, "250 MiB"),
            (u64::MAX, "18446744073709551615 B"),
        ] {
            assert_eq!(shown_bytes(amount), want);
        }
    }
}
