//! Steps of traced rolls and recoveries, told when a command that ends one is applied.

use super::Driver;
use super::io::{Effect, Step};
use crate::command::{Command, Outcome};
use crate::state::Meta;
use crate::tick::Tick;
use seam_wire::SegmentId;

impl Driver {
    /// `proposed`: when this leader proposed the command. Before the soft state forgets what it knows of it.
    pub(super) fn tell_steps(
        &self,
        now: Tick,
        meta: &Meta,
        proposed: Option<Tick>,
        command: &Command,
        outcome: &Outcome,
        out: &mut Vec<Effect>,
    ) {
        let mut step = |ending: Option<SegmentId>, name, from: Option<Tick>, to| {
            let trace = ending.and_then(|id| meta.segments.get(&id)).and_then(|segment| segment.trace);
            if let (Some(trace), Some(segment), Some(from)) = (trace, ending, from) {
                out.push(Effect::Step(Step { trace, name, segment, from, to }));
            }
        };
        if let (Command::Prepare { prior, .. }, Outcome::Prepared { .. }) = (command, outcome) {
            let heard = self.wants.get(prior).map(|want| want.since);
            if let Some(proposed) = proposed {
                step(Some(*prior), "metad.placement", heard.filter(|heard| *heard <= proposed), proposed);
            }
            step(Some(*prior), "metad.commit", proposed, now);
        }
        if let Command::MarkReady { segment, .. } = command {
            step(meta.known(*segment).prior, "metad.ready", proposed, now);
        }
        if let (Command::Recover { segment, .. }, Outcome::Appointed { .. }) = (command, outcome) {
            if let Some(suspect) = self.suspects.get(segment) {
                step(Some(*segment), "metad.detect", Some(suspect.heard), suspect.found);
            }
            step(Some(*segment), "metad.appoint", proposed, now);
        }
        if let Command::CommitRoll { segment, .. } = command {
            step(Some(*segment), "metad.record", proposed, now);
        }
    }
}
