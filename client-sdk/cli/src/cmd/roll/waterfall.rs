//! A timeline drawn with characters: one line a phase, its bar where it lies in time.

use super::timeline::{Phase, Timeline};
use super::why::micros;
use crate::output::Out;
use anyhow::Result;

/// Columns of the bars.
const WIDTH: u64 = 48;
/// Columns of a slack that would leave the others too few.
const FOLDED: u64 = 8;

/// # Errors
/// Standard output cannot be written.
pub fn draw(line: &Timeline, out: &mut Out) -> Result<()> {
    let scale = Scale::of(line);
    let row = |phase: &Phase| {
        vec![
            format!("  {} {}", if phase.critical { "*" } else { " " }, phase.phase),
            phase.place.clone(),
            micros(phase.start_us),
            micros(phase.end_us),
            micros(phase.took_us),
            scale.bar(phase),
        ]
    };
    let rows: Vec<_> = line.phases.iter().map(row).collect();
    out.table(&["    PHASE", "WHERE", "START", "END", "TOOK", "* ON THE CRITICAL PATH, = BESIDE IT"], &rows)?;
    out.line(format!("  critical path {}", micros(line.total_us)))
}

/// From microseconds to columns. A long slack is folded, or everything else would be a dot.
struct Scale {
    fold: Option<(u64, u64)>,
    rest_us: u64,
}

impl Scale {
    fn of(line: &Timeline) -> Scale {
        let end = line.phases.iter().map(|phase| phase.end_us).max().unwrap_or(0);
        let slack = line.phases.iter().find(|phase| phase.phase == "slack" && phase.took_us > end / 2);
        let fold = slack.map(|slack| (slack.start_us, slack.end_us));
        Scale { fold, rest_us: (end - fold.map_or(0, |(from, to)| to - from)).max(1) }
    }

    fn column(&self, at_us: u64) -> u64 {
        let Some((from, to)) = self.fold else { return at_us * WIDTH / self.rest_us };
        let open = |us: u64| us * (WIDTH - FOLDED) / self.rest_us;
        if at_us <= from {
            open(at_us)
        } else if at_us < to {
            open(from) + (at_us - from) * FOLDED / (to - from)
        } else {
            open(at_us - (to - from)) + FOLDED
        }
    }

    fn bar(&self, phase: &Phase) -> String {
        let (from, to) = (self.column(phase.start_us), self.column(phase.end_us));
        let folded = self.fold == Some((phase.start_us, phase.end_us));
        let mark = match (phase.critical, folded) {
            (true, true) => "~",
            (true, false) => "*",
            (false, _) => "=",
        };
        let length = usize::try_from((to - from).max(1)).unwrap_or(1);
        format!("{}{}", " ".repeat(usize::try_from(from).unwrap_or(0)), mark.repeat(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &'static str, start_us: u64, end_us: u64) -> Phase {
        let (place, took_us) = (String::new(), end_us - start_us);
        Phase { phase: name, place, start_us, end_us, took_us, critical: true, about: "" }
    }

    #[test]
    fn bars_follow_each_other_over_a_folded_slack() {
        let phases = vec![phase("open", 0, 100), phase("slack", 100, 1_000_100), phase("gate", 1_000_100, 1_000_200)];
        let line = Timeline { phases, total_us: 1_000_200 };
        let scale = Scale::of(&line);
        let bars: Vec<String> = line.phases.iter().map(|phase| scale.bar(phase)).collect();
        assert_eq!(bars[0], "*".repeat(20));
        assert_eq!(bars[1], format!("{}{}", " ".repeat(20), "~".repeat(8)));
        assert_eq!(bars[2], format!("{}{}", " ".repeat(28), "*".repeat(20)));
    }

    #[test]
    fn the_shortest_phase_is_seen() {
        let line = Timeline { phases: vec![phase("open", 0, 100), phase("gate", 100, 100)], total_us: 100 };
        let scale = Scale::of(&line);
        assert_eq!(scale.bar(&line.phases[0]).len(), WIDTH as usize);
        assert_eq!(scale.bar(&line.phases[1]).trim(), "*");
    }
}
