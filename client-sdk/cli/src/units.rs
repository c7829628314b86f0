//! Sizes and spans of time as people write them (`64MiB`, `10m`): parsing and printing. Whole numbers with a unit; a bare
//! number is a count of bytes, while time always wants its unit, since nobody remembers which one was meant.

use std::fmt;
use std::time::Duration;

/// Why a size or a time is refused. The message shows what would have been right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitError {
    Bytes(String),
    Time(String),
    TooLarge(String),
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::Bytes(text) => {
                write!(f, "{text:?} is not a size: write 1048576, 64KiB, 64MiB, 1GiB (or kB, MB, GB)")
            }
            UnitError::Time(text) => write!(f, "{text:?} is not a time: write 20ms, 30s, 10m, 2h, 1d, or 0 for none"),
            UnitError::TooLarge(text) => write!(f, "{text:?} does not fit in 64 bits: write a smaller one"),
        }
    }
}

impl std::error::Error for UnitError {}

const BYTE_UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

const TIME_UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// `64MiB` to bytes. A bare number is bytes.
///
/// # Errors
/// An unknown unit, no digits, or more than 64 bits.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text).ok_or_else(|| UnitError::Bytes(text.to_owned()))?;
    let factor = match unit {
        "" => 1,
        named => {
            BYTE_UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(named))
                .ok_or_else(|| UnitError::Bytes(text.to_owned()))?
                .1
        }
    };
    scaled(text, number, factor)
}

/// `10m` to milliseconds. `0` needs no unit.
///
/// # Errors
/// No unit or an unknown one, no digits, or more than 64 bits.
pub fn parse_millis(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text).ok_or_else(|| UnitError::Time(text.to_owned()))?;
    if unit.is_empty() {
        return if number.bytes().all(|b| b == b'0') { Ok(0) } else { Err(UnitError::Time(text.to_owned())) };
    }
    let factor = TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(|| UnitError::Time(text.to_owned()))?.1;
    scaled(text, number, factor)
}

/// Like [`parse_millis`], as a [`Duration`].
///
/// # Errors
/// As [`parse_millis`].
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    parse_millis(text).map(Duration::from_millis)
}

/// The largest binary unit that divides `bytes` evenly: what is printed parses back to the same number.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let unit = BYTE_UNITS.iter().take(4).find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) => format!("{}{name}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

/// A size for the eye: three digits and a unit; does not parse back to the same number.
#[must_use]
pub fn bytes_rough(bytes: u64) -> String {
    let unit = BYTE_UNITS.iter().take(4).find(|(_, factor)| bytes >= *factor);
    match unit {
        Some((name, factor)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*factor);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

/// The largest unit that divides the time evenly: what is printed parses back to the same number.
#[must_use]
pub fn millis(ms: u64) -> String {
    let unit = TIME_UNITS.iter().rev().find(|(_, factor)| ms != 0 && ms.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) => format!("{}{name}", ms / factor),
        None => "0".to_owned(),
    }
}

fn split(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| (&text[..digits], text[digits..].trim_start()))
}

fn scaled(text: &str, number: &str, factor: u64) -> Result<u64, UnitError> {
    let too_large = || UnitError::TooLarge(text.to_owned());
    number.parse::<u64>().map_err(|_| too_large())?.checked_mul(factor).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_with_every_unit() {
        let expected = [
            ("0", 0),
            ("16384", 16_384),
            ("1B", 1),
            ("64KiB", 65_536),
            ("64 MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("2GiB", 2 << 30),
            ("1TiB", 1 << 40),
            ("3kB", 3_000),
            ("3MB", 3_000_000),
            ("3GB", 3_000_000_000),
        ];
        for (text, bytes) in expected {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn ages_parse_with_every_unit_and_want_one() {
        let expected =
            [("0", 0), ("20ms", 20), ("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("1d", 86_400_000)];
        for (text, ms) in expected {
            assert_eq!(parse_millis(text), Ok(ms), "{text}");
        }
        assert_eq!(parse_millis("20"), Err(UnitError::Time("20".into())));
        assert_eq!(parse_duration("20ms"), Ok(Duration::from_millis(20)));
    }

    #[test]
    fn what_is_no_size_or_time_is_refused_and_told_how() {
        for text in ["", "MiB", "64Mibs", "-1", "1.5GiB", "0x10"] {
            let error = parse_bytes(text).expect_err(text);
            assert!(error.to_string().contains("64MiB"), "{error}");
        }
        for text in ["", "ms", "10 parsecs", "-1s"] {
            let error = parse_millis(text).expect_err(text);
            assert!(error.to_string().contains("10m"), "{error}");
        }
        assert_eq!(parse_bytes("99999999999TiB"), Err(UnitError::TooLarge("99999999999TiB".into())));
        assert_eq!(parse_millis("99999999999999999999ms"), Err(UnitError::TooLarge("99999999999999999999ms".into())));
    }

    #[test]
    fn what_is_printed_parses_back() {
        for value in [0, 1, 999, 1 << 10, 3 << 20, (1 << 30) + 1, 1 << 40, u64::MAX] {
            assert_eq!(parse_bytes(&bytes(value)), Ok(value), "{}", bytes(value));
            assert_eq!(parse_millis(&millis(value)), Ok(value), "{}", millis(value));
        }
        assert_eq!(bytes(64 << 20), "64MiB");
        assert_eq!(millis(600_000), "10m");
        assert_eq!(bytes_rough(1_500_000), "1.4 MiB");
    }
}
