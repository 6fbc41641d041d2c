//! The wall clock as records write it: RFC 3339, UTC, whole milliseconds.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time now.
pub(super) fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    rfc3339(since.as_secs(), since.subsec_millis())
}

/// Writes seconds since 1970 as a date: the proleptic Gregorian calendar, counted in eras of 400
/// years that begin on 1 March, so that a leap day is the last of its year.
fn rfc3339(seconds: u64, millis: u32) -> String {
    const DAY_S: u64 = 24 * 60 * 60;
    // From 0000-03-01 to 1970-01-01 there are 719,468 days; an era has 146,097.
    let days = seconds / DAY_S + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March have 31, 30, 31, 30, 31 days, again and again: 153 days in five.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let of_day = seconds % DAY_S;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_equal_those_of_date_u() {
        // Each from `date -u -d @N +%FT%T`.
        for (seconds, want) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (68_169_599, "1972-02-28T23:59:59.007Z"),
            (68_169_600, "1972-02-29T00:00:00.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_700_000_000, "2023-11-14T22:13:20.007Z"),
            (4_107_542_399, "2100-02-28T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
            (253_402_300_799, "9999-12-31T23:59:59.007Z"),
        ] {
            assert_eq!(rfc3339(seconds, 7), want);
        }
    }
}
