//! Figures in words: durations, p-values, sizes.

/// A duration with a unit that suits it, three significant digits.
pub fn duration(us: u64) -> String {
    signed(us as i64)
}

/// As `duration`, with a sign where it is negative.
pub fn signed(us: i64) -> String {
    let magnitude = us.unsigned_abs() as f64;
    let sign = if us < 0 { "−" } else { "" };
    if magnitude >= 1e6 {
        format!("{sign}{} s", digits(magnitude / 1e6))
    } else if magnitude >= 1e3 {
        format!("{sign}{} ms", digits(magnitude / 1e3))
    } else {
        format!("{sign}{magnitude:.0} µs")
    }
}

/// A difference, its sign always shown.
pub fn difference(us: i64) -> String {
    if us > 0 { format!("+{}", signed(us)) } else { signed(us) }
}

fn digits(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// `p = 0.41`, never more digits than it deserves.
pub fn p_value(p: Option<f64>) -> String {
    match p {
        None => "–".to_owned(),
        Some(p) if p < 0.0001 => "p < 0.0001".to_owned(),
        Some(p) if p < 0.01 => format!("p = {p:.4}"),
        Some(p) => format!("p = {p:.2}"),
    }
}

pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes.is_multiple_of(*unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_suit_the_size() {
        assert_eq!(duration(0), "0 µs");
        assert_eq!(duration(999), "999 µs");
        assert_eq!(duration(1_234), "1.23 ms");
        assert_eq!(duration(251_400), "251 ms");
        assert_eq!(duration(12_340_000), "12.3 s");
        assert_eq!(difference(-1_500), "−1.50 ms");
        assert_eq!(difference(40), "+40 µs");
    }

    #[test]
    fn p_values_and_sizes() {
        assert_eq!(p_value(Some(0.4142)), "p = 0.41");
        assert_eq!(p_value(Some(1e-12)), "p < 0.0001");
        assert_eq!(p_value(None), "–");
        assert_eq!(bytes(1 << 20), "1 MiB");
        assert_eq!(bytes(460_800), "450 KiB");
        assert_eq!(bytes(1_500), "1.5 KiB");
        assert_eq!(bytes(12), "12 B");
    }
}
