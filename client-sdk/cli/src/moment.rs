//! Moments as people write them: RFC 3339 (`2026-11-29T12:00:00Z`), or milliseconds since the Unix epoch with their unit
//! (`1764417600000ms`), since a bare number is an offset.

/// Milliseconds since the Unix epoch, or `None` where `text` is no moment.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    match text.strip_suffix("ms") {
        Some(number) => number.parse().ok(),
        None => rfc3339(text),
    }
}

/// Source of the format: RFC 3339, section 5.6. A leap second is read as the one before it.
fn rfc3339(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (year, month, day) = (digits(date, 0, 4)?, digits(date, 5, 2)?, digits(date, 8, 2)?);
    let separators = date.as_bytes()[4] == b'-' && date.as_bytes()[7] == b'-';
    if !separators || !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (time, rest) = rest.split_at_checked(8)?;
    let (hour, minute, second) = (digits(time, 0, 2)?, digits(time, 3, 2)?, digits(time, 6, 2)?);
    let separators = time.as_bytes()[2] == b':' && time.as_bytes()[5] == b':';
    if !separators || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (millis, rest) = fraction(rest)?;
    let zone_minutes = zone(rest)?;
    let seconds = ((days_since_epoch(year, month, day) * 24 + hour) * 60 + minute - zone_minutes) * 60 + second.min(59);
    Some(seconds * 1_000 + millis)
}

fn digits(text: &str, at: usize, len: usize) -> Option<i64> {
    let digits = text.get(at..at + len)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Thousandths; what is finer is cut off.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let len = rest.bytes().take_while(u8::is_ascii_digit).count();
    let padded = format!("{:0<3}", &rest[..len]);
    (len > 0).then(|| padded[..3].parse().ok().map(|millis| (millis, &rest[len..]))).flatten()
}

/// Minutes east of Greenwich.
fn zone(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = (digits(rest, 0, 2)?, digits(rest, 3, 2)?);
    (rest.len() == 5 && rest.as_bytes()[2] == b':' && hours < 24 && minutes < 60)
        .then_some(sign * (hours * 60 + minutes))
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years begin in March here, so that the leap day is their last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    before + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_other_programs_read_them() {
        // Checked with `date -u -d TEXT +%s`.
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59.5Z", -500),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2026-11-29T12:00:00Z", 1_795_953_600_000),
            ("2026-11-29t14:00:00.123456+02:00", 1_795_953_600_123),
            ("2026-11-29 07:30:00-04:30", 1_795_953_600_000),
            ("1795953600000ms", 1_795_953_600_000),
        ] {
            assert_eq!(parse(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "ms",
            "5000",
            "2026-11-29",
            "2026-11-29T12:00:00",
            "2026-13-01T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-11-29T24:00:00Z",
            "2026-11-29T12:00:00.Z",
            "2026-11-29T12:00:00+2:00",
            "2026/11/29T12:00:00Z",
            "2026-11-29T12:00:00Zulu",
            "2026-11-2ä9T12:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
