//! Ends that no answer can decide: too many replicas are lost, or do not know where their tails end. The range waits, and says
//! so, until one of them comes back, or an operator gives up what none of those that answer holds.

use super::Driver;
use crate::command::Command;
use crate::state::Meta;
use crate::tick::Tick;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::{NodeId, RangeId, SegmentId};

impl Driver {
    /// Why nothing can be written to the range, where its head needs a recovery that no answer can bring to an end. For
    /// people: it names the replicas and the way out.
    pub fn stuck(&self, now: Tick, meta: &Meta, range: RangeId) -> Option<String> {
        let head = meta.ranges.get(&range)?.head?;
        self.undecidable(now, meta, head)
    }

    /// The replicas of the head that cannot say where it ends, if too many are.
    fn undecidable(&self, now: Tick, meta: &Meta, id: SegmentId) -> Option<String> {
        let segment = meta.known(id);
        if !self.needs_recovery(now, meta, id, segment) {
            return None;
        }
        let mute = self.mute.get(&id).map(Vec::as_slice).unwrap_or_default();
        let is_gone = |node: &NodeId| self.is_lost(meta, *node);
        let why = |node: &NodeId| {
            let name = meta.nodes.get(node).map_or_else(|| node.to_string(), |node| node.view.name.clone());
            if is_gone(node) {
                format!("{name} is down or its disk failed")
            } else {
                format!("{name} lost its copy or its end")
            }
        };
        let silent: Vec<&NodeId> = segment.replicas.iter().filter(|n| is_gone(n) || mute.contains(n)).collect();
        let needed = segment.recovery_quorum();
        let left = segment.replicas.len() - silent.len();
        (left < needed).then(|| {
            let reasons: Vec<String> = silent.into_iter().map(why).collect();
            format!(
                "the end of {id} cannot be decided: {needed} of its {} replicas must answer, and {}; bring them back, or give \
                 up what is lost with `seam range accept-loss`",
                segment.replicas.len(),
                reasons.join(", ")
            )
        })
    }

    /// An operator gives up what nobody can tell of `segment`, which must be the head, `head`, and stuck.
    pub(super) fn accept_loss(
        &self,
        now: Tick,
        meta: &Meta,
        head: SegmentId,
        segment: SegmentId,
    ) -> Result<Command, WireError> {
        let refused = |why: String| WireError::refused(ErrorCode::InvalidArgument, why);
        if head != segment {
            return Err(refused(format!("the head of this range is {head}, not {segment}: nothing was given up")));
        }
        let repeated = meta.known(head).recovery.as_ref().is_some_and(|recovery| recovery.loss_accepted);
        if !repeated && self.undecidable(now, meta, head).is_none() {
            let why = format!(
                "nothing has to be given up: as far as is known here, enough replicas of {head} can say where it ends, or may \
                 yet; nothing was changed"
            );
            return Err(refused(why));
        }
        self.appointment(now, meta, head, true).map_err(|why| WireError::retry(ErrorCode::Unavailable, why))
    }
}
