//! Outcomes, turned into the answer each caller waits for. Every caller gets exactly one.

use super::Driver;
use super::io::{Answer, Effect};
use super::pending::Waiter;
use crate::command::{Command, Outcome, Refusal};
use crate::state::Meta;
use seam_wire::error::{ErrorCode, WireError};

impl Driver {
    pub(super) fn answer_outcome(
        &mut self,
        meta: &Meta,
        waiter: Waiter,
        command: &Command,
        outcome: &Outcome,
        out: &mut Vec<Effect>,
    ) {
        let refused = match outcome {
            Outcome::Refused { why } => Some(why),
            Outcome::Done | Outcome::Created { .. } | Outcome::Prepared { .. } | Outcome::Appointed { .. } => None,
        };
        let (id, answer) = match (waiter, refused) {
            (Waiter::Report(id), None) => (id, Answer::Report { done: true, why: String::new() }),
            (Waiter::Report(id), Some(why)) => (id, Answer::Report { done: !why.is_retryable(), why: why.to_string() }),
            (Waiter::Register(id), None) => {
                let heartbeat_ms = u32::try_from(self.timing.node_heartbeat_ms).unwrap_or(u32::MAX);
                (id, Answer::Registered { version: meta.version(), heartbeat_ms, next_segment: meta.next_segment() })
            }
            (Waiter::Admin(id), None) => (id, admin_answer(command, outcome)),
            (Waiter::Register(id) | Waiter::Admin(id), Some(why)) => (id, Answer::Failed(wire_error(why))),
            (Waiter::Roll(id, segment), _) => {
                // A head that was sealed meanwhile has rolled: nothing is left to ask of it.
                let rolling = refused.is_none().then_some(segment);
                return self.roll_answered(id, rolling, out);
            }
        };
        out.push(Effect::Reply { id, answer });
    }

    pub(super) fn answer_not_leader(&mut self, waiter: Waiter, out: &mut Vec<Effect>) {
        let id = match waiter {
            Waiter::Report(id) | Waiter::Register(id) | Waiter::Admin(id) => id,
            Waiter::Roll(id, _) => {
                if self.rolls.remove(&id).is_none() {
                    return;
                }
                id
            }
        };
        out.push(Effect::Reply { id, answer: Answer::NotLeader });
    }

    /// It was not proposed.
    pub(super) fn answer_retry(&mut self, waiter: Waiter, why: &str, out: &mut Vec<Effect>) {
        let (id, answer) = match waiter {
            Waiter::Report(id) => (id, Answer::Report { done: false, why: why.to_owned() }),
            Waiter::Register(id) | Waiter::Admin(id) => {
                (id, Answer::Failed(WireError::retry(ErrorCode::Unavailable, why)))
            }
            // The same nonce is being raised, by another's wish: the segment rolls.
            Waiter::Roll(id, segment) => return self.roll_answered(id, Some(segment), out),
        };
        out.push(Effect::Reply { id, answer });
    }

    /// It was proposed, and nobody knows what became of it.
    pub(super) fn answer_unknown(&mut self, waiter: Waiter, out: &mut Vec<Effect>) {
        let why = "the log did not answer in time: the change may or may not have been made";
        let (id, answer) = match waiter {
            Waiter::Report(id) => (id, Answer::Report { done: false, why: why.to_owned() }),
            Waiter::Register(id) | Waiter::Admin(id) => {
                (id, Answer::Failed(WireError::unknown(ErrorCode::Unavailable, why)))
            }
            Waiter::Roll(id, _) => {
                if self.rolls.remove(&id).is_none() {
                    return;
                }
                (id, Answer::Failed(WireError::unknown(ErrorCode::Unavailable, why)))
            }
        };
        out.push(Effect::Reply { id, answer });
    }

    fn roll_answered(&mut self, id: super::io::ReplyId, rolling: Option<seam_wire::SegmentId>, out: &mut Vec<Effect>) {
        let Some(job) = self.rolls.get_mut(&id) else { return };
        job.left -= 1;
        job.rolling.extend(rolling);
        if job.left == 0
            && let Some(job) = self.rolls.remove(&id)
        {
            out.push(Effect::Reply { id, answer: Answer::Rolling(job.rolling) });
        }
    }
}

fn admin_answer(command: &Command, outcome: &Outcome) -> Answer {
    match (command, outcome) {
        (_, Outcome::Created { topic }) => Answer::Topic(*topic),
        (Command::AlterTopic { topic, .. }, _) => Answer::Topic(*topic),
        (Command::DeleteTopic { .. }, _) => Answer::Deleted,
        (Command::SetNodeState { .. }, _) => Answer::Drained,
        (Command::Recover { .. }, Outcome::Appointed { epoch, candidate }) => {
            Answer::LossAccepted { epoch: *epoch, candidate: *candidate }
        }
        (
            Command::RegisterNode { .. }
            | Command::CreateTopic { .. }
            | Command::PrepareRoot { .. }
            | Command::Prepare { .. }
            | Command::MarkReady { .. }
            | Command::AskRelease { .. }
            | Command::Released { .. }
            | Command::Recover { .. }
            | Command::CommitRoll { .. }
            | Command::Trim { .. }
            | Command::ConfirmReclaimed { .. }
            | Command::RequestRoll { .. }
            | Command::GateOpened { .. }
            | Command::RollRecorded { .. },
            _,
        ) => {
            let why = format!("an operator's request became {command:?}: this is a bug");
            Answer::Failed(WireError::unknown(ErrorCode::Internal, why))
        }
    }
}

fn wire_error(why: &Refusal) -> WireError {
    use Refusal::*;
    if why.is_retryable() {
        return WireError::retry(ErrorCode::Unavailable, why.to_string());
    }
    let code = match why {
        TopicExists { .. } => ErrorCode::AlreadyExists,
        UnknownTopic(_) | TopicDeleted { .. } => ErrorCode::UnknownTopic,
        UnknownRange(_) => ErrorCode::UnknownRange,
        UnknownSegment(_) => ErrorCode::UnknownSegment,
        UnknownNode(_)
        | StaleIncarnation { .. }
        | NodeDead { .. }
        | NodeName { .. }
        | StaleTopicId { .. }
        | BadConfig(_)
        | StaleConfig { .. }
        | RangesFixed(_)
        | BadReplicas(_)
        | WrongAttempt { .. }
        | TooManyCandidates { .. }
        | RangeOpen { .. }
        | WrongState { .. }
        | NotInChain { .. }
        | Decided { .. }
        | WrongFirst { .. }
        | NotTrimmable { .. }
        | NotACandidate { .. }
        | NotReady { .. }
        | WrongBinder { .. }
        | EndBelowStart { .. }
        | WrongEpoch { .. }
        | LossAccepted { .. }
        | NotAReplica { .. }
        | NotAsked { .. }
        | WrongNonce { .. } => ErrorCode::InvalidArgument,
    };
    WireError::refused(code, why.to_string())
}
