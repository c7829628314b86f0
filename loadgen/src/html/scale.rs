//! From values to positions: linear and logarithmic axes, and where their ticks go.

/// An axis. Values outside of the domain are drawn at its edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    logarithmic: bool,
    domain: (f64, f64),
    range: (f64, f64),
}

impl Scale {
    pub fn linear(domain: (f64, f64), range: (f64, f64)) -> Self {
        Scale { logarithmic: false, domain, range }
    }

    /// Both ends of `domain` above 0.
    pub fn logarithmic(domain: (f64, f64), range: (f64, f64)) -> Self {
        Scale { logarithmic: true, domain, range }
    }

    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = self.domain;
        let (start, end) = self.range;
        let value = value.clamp(low.min(high), low.max(high));
        let share =
            if self.logarithmic { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) };
        start + share * (end - start)
    }

    /// Round values across the domain: powers of ten (with 3s between them where the domain is short) or steps of 1, 2, 5.
    pub fn ticks(&self) -> Vec<f64> {
        let (low, high) = (self.domain.0.min(self.domain.1), self.domain.0.max(self.domain.1));
        if self.logarithmic {
            let decades = (high / low).log10();
            let within: &[f64] = if decades > 3.2 { &[1.0] } else { &[1.0, 3.0] };
            let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
            let all = powers.flat_map(|power| within.iter().map(move |m| m * 10f64.powi(power)));
            return all.filter(|t| (low * 0.999..=high * 1.001).contains(t)).collect();
        }
        let rough = (high - low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(power * 10.0);
        let first = (low / step).ceil() as i64;
        (first..).map(|i| i as f64 * step).take_while(|t| *t <= high + step * 1e-6).collect()
    }
}

/// A logarithmic domain around microsecond values: from a third of a decade below the least to the same above the largest.
pub fn around(values_us: impl Iterator<Item = u64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, 0f64);
    for value in values_us.filter(|v| *v > 0) {
        low = low.min(value as f64);
        high = high.max(value as f64);
    }
    if high == 0.0 {
        return (100.0, 100_000.0);
    }
    // At least a decade and a half, so that two nearly equal values do not look far apart.
    let (low, high) = (low / 1.3, high * 1.3);
    if high / low < 30.0 { (low / 2.0, low / 2.0 * 60.0) } else { (low, high) }
}

/// A tick of a duration axis.
pub fn tick_label(us: f64) -> String {
    match us {
        us if us >= 999_500.0 => format!("{} s", trim(us / 1e6)),
        us if us >= 999.5 => format!("{} ms", trim(us / 1e3)),
        us => format!("{} µs", trim(us)),
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
        let log = Scale::logarithmic((100.0, 100_000.0), (300.0, 0.0));
        assert!((log.at(1_000.0) - 200.0).abs() < 1e-9);
        assert!((log.at(1.0) - 300.0).abs() < 1e-9, "clamped");
        let linear = Scale::linear((0.0, 60.0), (0.0, 120.0));
        assert!((linear.at(20.0) - 40.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::linear((0.0, 60.0), (0.0, 1.0)).ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        let log = Scale::logarithmic((200.0, 40_000.0), (0.0, 1.0)).ticks();
        let want = [300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0];
        assert_eq!(log.len(), want.len());
        assert!(log.iter().zip(want).all(|(got, want)| (got / want - 1.0).abs() < 1e-9));
    }

    #[test]
    fn tick_labels() {
        assert_eq!(tick_label(300.0), "300 µs");
        assert_eq!(tick_label(1_000.0), "1 ms");
        assert_eq!(tick_label(1_000_000.0), "1 s");
    }

    #[test]
    fn a_domain_holds_its_values() {
        let (low, high) = around([900, 250_000].into_iter());
        assert!(low < 900.0 && high > 250_000.0);
        let (low, high) = around([1_000, 1_010].into_iter());
        assert!(low < 1_000.0 && high > 1_010.0 && high / low > 30.0);
        assert!(around([].into_iter()).0 > 0.0);
    }
}
