//! Retention: which sealed segments of a range are too many, or too old. Whole ones, oldest first, never the open one nor the
//! newest sealed one that has records.
//!
//! Decided from the committed state and the leader's wall clock; the decision stands in the command. The settings are the
//! topic's newest, so a change holds at once; else it is looked at with each sweep, not at the roll, where a commit more and
//! the deletion of files would be felt.

use super::Driver;
use super::io::Effect;
use crate::command::Command;
use crate::state::Meta;
use crate::state::records::Segment;
use crate::tick::Tick;
use seam_wire::RangeId;
use seam_wire::meta::SegmentState;
use seam_wire::topic::TopicConfig;

/// Segments trimmed by one command: bounds what one entry of the log may do. The next look takes the next ones.
const AT_ONCE: usize = 64;

impl Driver {
    /// The wall clock of this process, read at `now`: milliseconds since 1970. It may jump; a seal that a wrong clock dated is
    /// trimmed too early or too late by so much, and nothing else depends on it.
    pub fn set_wall_clock(&mut self, now: Tick, unix_ms: u64) {
        self.wall = (now, unix_ms);
    }

    /// Milliseconds since 1970.
    pub(super) fn unix_ms(&self, now: Tick) -> u64 {
        let (at, unix_ms) = self.wall;
        unix_ms.saturating_add(now.since_us(at) / 1000)
    }

    /// Moves the start of a range's log past what its topic does not want kept.
    pub(super) fn trim_if_due(&mut self, now: Tick, meta: &Meta, id: RangeId, out: &mut Vec<Effect>) {
        let Some(range) = meta.ranges.get(&id) else { return };
        let Some(topic) = meta.topics.get(&range.topic).filter(|topic| !topic.deleted) else { return };
        let config = topic.config();
        if config.retention_bytes == 0 && config.retention_ms == 0 {
            return;
        }
        let (Some(first), Some(last_filled)) = (range.first, range.last_filled) else { return };
        let unix_ms = self.unix_ms(now);
        let mut kept_bytes = range.sealed_bytes;
        let mut keep = first;
        for _ in 0..AT_ONCE {
            let segment = meta.known(keep);
            let SegmentState::Sealed { next, .. } = segment.state else { break };
            if keep == last_filled || !is_over(segment, config, kept_bytes, unix_ms) {
                break;
            }
            kept_bytes -= segment.bytes;
            keep = next;
        }
        if keep != first {
            self.propose(now, Command::Trim { range: id, first, keep }, out);
        }
    }
}

/// Older than the topic keeps segments; or without it the newest ones still make up the bytes asked for.
fn is_over(segment: &Segment, config: &TopicConfig, kept_bytes: u64, unix_ms: u64) -> bool {
    let age_ms = unix_ms.saturating_sub(segment.sealed_at_ms);
    let too_old = config.retention_ms > 0 && age_ms >= config.retention_ms;
    let too_many = config.retention_bytes > 0 && kept_bytes - segment.bytes >= config.retention_bytes;
    too_old || too_many
}
