//! What a correct log would never have done, each with the evidence: offsets, operations, times.

use crate::history::Op;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The ten checks, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    Content,
    RealTime,
    Session,
    Present,
    Known,
    Contiguous,
    Committed,
    Monotone,
    Chain,
    Gaps,
}

impl Check {
    pub const ALL: [Check; 10] = [
        Check::Content,
        Check::RealTime,
        Check::Session,
        Check::Present,
        Check::Known,
        Check::Contiguous,
        Check::Committed,
        Check::Monotone,
        Check::Chain,
        Check::Gaps,
    ];

    /// From 1.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Check::Content => "content",
            Check::RealTime => "real_time",
            Check::Session => "session",
            Check::Present => "present",
            Check::Known => "known",
            Check::Contiguous => "contiguous",
            Check::Committed => "committed",
            Check::Monotone => "monotone",
            Check::Chain => "chain",
            Check::Gaps => "gaps",
        }
    }

    /// What must hold.
    pub fn words(self) -> &'static str {
        match self {
            Check::Content => "an offset has one content",
            Check::RealTime => "what was acked first lies first",
            Check::Session => "a producer's order is kept",
            Check::Present => "all that was acked is there",
            Check::Known => "all that is there was sent, once",
            Check::Contiguous => "readers get every offset once, in order",
            Check::Committed => "nothing read is taken back",
            Check::Monotone => "the end told never falls",
            Check::Chain => "segments follow without a gap",
            Check::Gaps => "every call ends, nothing stands still",
        }
    }
}

/// Who told something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Ack,
    Tail(u32),
    FinalRead,
}

/// What one source says an offset holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    pub source: Source,
    pub op: Op,
    pub hash: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Violation {
    // 1
    TwoContents { offset: u64, first: Witness, second: Witness },
    // 2
    Overtaken { acked: Op, acked_offset: u64, return_us: u64, later: Op, later_offset: u64, invoke_us: u64 },
    // 3
    OutOfOrder { source: Source, earlier: Op, earlier_offset: u64, later: Op, later_offset: u64 },
    // 4
    Lost { op: Op, offset: u64, instead: Option<Op> },
    // 5
    Phantom { source: Source, offset: u64, op: Op, hash: u32 },
    Altered { source: Source, offset: u64, op: Op, sent_hash: u32, read_hash: u32 },
    Twice { op: Op, offset: u64, again: u64 },
    FailedButThere { op: Op, offset: u64 },
    // 6
    Missing { source: Source, expected: u64, found: u64 },
    Repeated { source: Source, expected: u64, found: u64 },
    ResumedElsewhere { source: Source, expected: u64, from: u64 },
    // 7
    ReadBeforeSent { source: Source, op: Op, offset: u64, read_us: u64, invoke_us: u64 },
    TakenBack { source: Source, op: Op, offset: u64, end: u64 },
    EndBelowRead { latest: u64, asked_us: u64, source: Source, offset: u64, read_us: u64 },
    // 8
    EndFell { latest: u64, told_us: u64, later_latest: u64, asked_us: u64 },
    StartFell { earliest: u64, told_us: u64, later_earliest: u64, asked_us: u64 },
    EndBelowAck { latest: u64, asked_us: u64, op: Op, offset: u64, return_us: u64 },
    EndAboveLog { latest: u64, told_us: u64, end: u64 },
    EndAheadOfSend { latest: u64, told_us: u64, op: Op, invoke_us: u64 },
    // 9
    ChainBroken { segment: u64, end: Option<u64>, next: Option<u64>, following: u64, start: u64 },
    SegmentInverted { segment: u64, start: u64, end: u64 },
    SegmentChanged { segment: u64, what: String, before: u64, after: Option<u64> },
    SegmentVanished { segment: u64, told_us: u64, asked_us: u64 },
    OutsideChain { op: Op, offset: u64, start: u64, end: u64 },
    ChainBeyondLog { segment: u64, decided_end: u64, end: u64 },
    // 10
    Unanswered { op: Op, invoke_us: u64 },
    Late { op: Op, took_us: u64, bound_us: u64 },
    Silence { source: Source, from_us: u64, until_us: u64, bound_us: u64 },
    Behind { source: Source, reached: u64, end: u64 },
}

impl Violation {
    pub fn check(&self) -> Check {
        match self {
            Violation::TwoContents { .. } => Check::Content,
            Violation::Overtaken { .. } => Check::RealTime,
            Violation::OutOfOrder { .. } => Check::Session,
            Violation::Lost { .. } => Check::Present,
            Violation::Phantom { .. }
            | Violation::Altered { .. }
            | Violation::Twice { .. }
            | Violation::FailedButThere { .. } => Check::Known,
            Violation::Missing { .. } | Violation::Repeated { .. } | Violation::ResumedElsewhere { .. } => {
                Check::Contiguous
            }
            Violation::ReadBeforeSent { .. } | Violation::TakenBack { .. } | Violation::EndBelowRead { .. } => {
                Check::Committed
            }
            Violation::EndFell { .. }
            | Violation::StartFell { .. }
            | Violation::EndBelowAck { .. }
            | Violation::EndAboveLog { .. }
            | Violation::EndAheadOfSend { .. } => Check::Monotone,
            Violation::ChainBroken { .. }
            | Violation::SegmentInverted { .. }
            | Violation::SegmentChanged { .. }
            | Violation::SegmentVanished { .. }
            | Violation::OutsideChain { .. }
            | Violation::ChainBeyondLog { .. } => Check::Chain,
            Violation::Unanswered { .. }
            | Violation::Late { .. }
            | Violation::Silence { .. }
            | Violation::Behind { .. } => Check::Gaps,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Ack => f.write_str("the acks"),
            Source::Tail(client) => write!(f, "tail {client}"),
            Source::FinalRead => f.write_str("the final read"),
        }
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:08x}) for {}", self.op, self.hash, self.source)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::violation::Violation as V;
        let told = |value: &Option<u64>| value.map_or_else(|| "none".to_owned(), |value| value.to_string());
        match self {
            V::TwoContents { offset, first, second } => write!(f, "offset {offset} is {first}, and {second}"),
            V::Overtaken { acked, acked_offset, return_us, later, later_offset, invoke_us } => write!(
                f,
                "{later}, sent at {invoke_us} us, lies at {later_offset}, before {acked} at {acked_offset}, which was acked at {return_us} us"
            ),
            V::OutOfOrder { source, earlier, earlier_offset, later, later_offset } => {
                write!(f, "{earlier} is at {earlier_offset}, after {later} at {later_offset}, by {source}")
            }
            V::Lost { op, offset, instead: None } => write!(f, "{op}, acked at offset {offset}, is not there"),
            V::Lost { op, offset, instead: Some(other) } => {
                write!(f, "{op}, acked at offset {offset}, is not there: {other} is")
            }
            V::Phantom { source, offset, op, hash } => {
                write!(f, "offset {offset} holds {op} ({hash:08x}), which nobody sent, by {source}")
            }
            V::Altered { source, offset, op, sent_hash, read_hash } => {
                write!(f, "{op} at offset {offset} was sent as {sent_hash:08x} and is {read_hash:08x} by {source}")
            }
            V::Twice { op, offset, again } => write!(f, "{op} is there twice, at {offset} and at {again}"),
            V::FailedButThere { op, offset } => write!(f, "{op} certainly failed, and is at offset {offset}"),
            V::Missing { source, expected, found } => write!(f, "{source} got {found} where {expected} was due"),
            V::Repeated { source, expected, found } => {
                write!(f, "{source} got {found} again, or late, where {expected} was due")
            }
            V::ResumedElsewhere { source, expected, from } => {
                write!(f, "{source} was opened again at {from}, and {expected} was due")
            }
            V::ReadBeforeSent { source, op, offset, read_us, invoke_us } => {
                write!(f, "{source} got {op} (offset {offset}) at {read_us} us, sent at {invoke_us} us")
            }
            V::TakenBack { source, op, offset, end } => {
                write!(f, "{source} got {op} at offset {offset}, and the log ends at {end}")
            }
            V::EndBelowRead { latest, asked_us, source, offset, read_us } => {
                write!(
                    f,
                    "{source} got offset {offset} at {read_us} us; asked for at {asked_us} us, the end was {latest}"
                )
            }
            V::EndFell { latest, told_us, later_latest, asked_us } => {
                write!(f, "the end was {latest} at {told_us} us; asked for at {asked_us} us, it was {later_latest}")
            }
            V::StartFell { earliest, told_us, later_earliest, asked_us } => {
                write!(
                    f,
                    "the start was {earliest} at {told_us} us; asked for at {asked_us} us, it was {later_earliest}"
                )
            }
            V::EndBelowAck { latest, asked_us, op, offset, return_us } => write!(
                f,
                "{op} was acked at offset {offset} at {return_us} us; asked for at {asked_us} us, the end was {latest}"
            ),
            V::EndAboveLog { latest, told_us, end } => {
                write!(f, "the end was {latest} at {told_us} us, and the log ends at {end}")
            }
            V::EndAheadOfSend { latest, told_us, op, invoke_us } => {
                write!(f, "the end was {latest} at {told_us} us, but {op} just below it was sent at {invoke_us} us")
            }
            V::ChainBroken { segment, end, next, following, start } => write!(
                f,
                "segment {segment} ends at {} before segment {}; segment {following} follows, from {start}",
                told(end),
                told(next)
            ),
            V::SegmentInverted { segment, start, end } => {
                write!(f, "segment {segment} starts at {start} and ends at {end}")
            }
            V::SegmentChanged { segment, what, before, after } => {
                write!(f, "the {what} of segment {segment} was {before}, then {}", told(after))
            }
            V::SegmentVanished { segment, told_us, asked_us } => {
                write!(f, "segment {segment} was in the chain at {told_us} us, and not when asked at {asked_us} us")
            }
            V::OutsideChain { op, offset, start, end } => {
                write!(f, "{op}, acked at offset {offset}, lies in no segment of the chain from {start} to {end}")
            }
            V::ChainBeyondLog { segment, decided_end, end } => {
                write!(f, "segment {segment} ends at {decided_end} by the chain, and the log ends at {end}")
            }
            V::Unanswered { op, invoke_us } => write!(f, "{op}, sent at {invoke_us} us, never had an outcome"),
            V::Late { op, took_us, bound_us } => {
                write!(
                    f,
                    "{op} had its outcome after {took_us} us; its deadline, with some allowance, was {bound_us} us"
                )
            }
            V::Silence { source, from_us, until_us, bound_us } => write!(
                f,
                "nothing from {source} between {from_us} us and {until_us} us, though something waited; {bound_us} us is the bound"
            ),
            V::Behind { source, reached, end } => {
                write!(f, "{source} got to {reached}, and the log ends at {end}")
            }
        }
    }
}
