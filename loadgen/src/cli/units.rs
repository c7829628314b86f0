//! Sizes as people write them.

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];

/// `450KiB`, `4MiB`, or bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim())) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() => 1,
        None => return Err(format!("{text:?} is not a size: write 460800, 450KiB or 4MiB")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is not a size: write 460800, 450KiB or 4MiB"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("460800"), Ok(460_800));
        assert_eq!(size("450KiB"), Ok(460_800));
        assert_eq!(size("4mib"), Ok(4 << 20));
        for bad in ["", "KiB", "4 parsecs", "-1", "99999999999GiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
