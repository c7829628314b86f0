//! How long appends stood still after a process was gone: from the signal to the first ack of a record that was sent once the
//! process was gone, so that the dead cannot have acked it.

use seam_history::Session;

/// One kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Just before the signal was sent.
    pub signal_us: u64,
    /// The process was seen to be gone.
    pub gone_us: u64,
    /// Whatever was acked later belongs to what happened next.
    pub until_us: u64,
}

/// From the signal to the next ack. `None`: none came in time. One pass over all appends.
pub fn next_acks(sessions: &[Session], kills: &[Kill]) -> Vec<Option<u64>> {
    let mut next: Vec<Option<u64>> = vec![None; kills.len()];
    for session in sessions {
        for (kill, next) in kills.iter().zip(&mut next) {
            let first = session.appends.partition_point(|append| append.invoke_us < kill.gone_us);
            let sent = session.appends[first..].iter().take_while(|append| append.invoke_us < kill.until_us);
            let acked = sent.filter(|append| append.acked().is_some()).map(|append| append.return_us);
            let earliest = acked.filter(|return_us| *return_us <= kill.until_us).min();
            *next = earliest.into_iter().chain(*next).min();
        }
    }
    let since = |(next, kill): (Option<u64>, &Kill)| next.map(|at_us| at_us.saturating_sub(kill.signal_us));
    next.into_iter().zip(kills).map(since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seam_history::{Append, Outcome};

    fn session(appends: &[(u64, u64, bool)]) -> Session {
        let append = |(n, (invoke_us, return_us, acked)): (usize, &(u64, u64, bool))| {
            let outcome = if *acked { Outcome::Acked { offset: n as u64 } } else { Outcome::Indeterminate };
            Append { sequence: n as u64, invoke_us: *invoke_us, return_us: *return_us, hash: 0, outcome }
        };
        Session { client: 1, deadline_us: None, appends: appends.iter().enumerate().map(append).collect() }
    }

    #[test]
    fn only_what_was_sent_after_the_death_counts() {
        let kill = Kill { signal_us: 1_000, gone_us: 1_010, until_us: 5_000 };
        let slow = session(&[(900, 1_500, true), (1_005, 1_020, true), (1_011, 1_900, true)]);
        let quick = session(&[(1_012, 1_100, false), (1_013, 1_800, true), (6_000, 6_100, true)]);
        let later = Kill { signal_us: 5_500, gone_us: 5_600, until_us: 9_000 };
        let never = Kill { signal_us: 7_000, gone_us: 7_001, until_us: 9_000 };
        assert_eq!(next_acks(&[slow, quick], &[kill, later, never]), [Some(800), Some(600), None]);
    }
}
