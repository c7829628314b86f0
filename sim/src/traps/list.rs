//! Every known way to break the protocol, by name, and what is broken then.

use segd_core::traps::Trap;

/// One way to break it.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// As in the design's section Traps, or a word of ours.
    pub name: &'static str,
    pub trap: Trap,
    pub what: &'static str,
}

const fn fault(name: &'static str, trap: Trap, what: &'static str) -> Fault {
    Fault { name, trap, what }
}

pub const FAULTS: &[Fault] = &[
    fault("V1", Trap::V1AnyBinder, "anybody may begin a candidate"),
    fault("V2", Trap::V2CopiesVote, "an agent's copy of a seal entry counts at the gate"),
    fault("V3", Trap::V3SwitchBehindClosedGate, "a primary switches behind its own closed gate"),
    fault("V4", Trap::V4ResumeAfterRestart, "a restarted primary resumes its segment"),
    fault("V5", Trap::V5AgentResumes, "a restarted agent goes on under its old epoch"),
    fault("V6", Trap::V6FenceNotRechecked, "the fence is a flag: what was in flight acks and votes"),
    fault("V7", Trap::V7LostDiskVotes, "a lost disk answers as an empty replica"),
    fault("V8", Trap::V8ReleasedIsChosen, "a released candidate is chosen"),
    fault("P2", Trap::P2EarlyDuplicate, "a duplicate is answered before its original is committed"),
    fault("P3", Trap::P3LateAck, "a group commit that completes after the fence acks"),
    fault("P4", Trap::P4InclusiveEnd, "the end of an empty first segment underflows"),
    fault("P8", Trap::P8EndShownEarly, "a tail is told of an end that is not decided"),
    fault("L1", Trap::L1RecoveryWaitsForAll, "recovery waits for A copies, reachable or not"),
    fault("L2", Trap::L2BeginOnce, "a lost Begin is never made up for"),
    fault("L3", Trap::L3NoRelease, "no candidate is ever released"),
    fault("ack-before-sync", Trap::AckBeforeSync, "a replica says it stored what is not synced"),
    fault("unfenced-read", Trap::UnfencedRead, "a recovery reads a replica without fencing it"),
    fault("end-from-one", Trap::EndFromOne, "one replica's answer decides the end"),
    fault("gate-ignored", Trap::GateIgnored, "a successor commits before its prior is decided"),
    fault("early-reclaim", Trap::EarlyReclaim, "a candidate is taken back before it was released"),
    fault("id-reused", Trap::IdReused, "the id of a segment that is gone is given out again"),
    fault("past-committed", Trap::PastCommitted, "a reader sees what is not committed"),
    fault("table-dropped", Trap::TableDropped, "the producer table is lost at the hand-over"),
    fault("epoch-after-reply", Trap::EpochAfterReply, "a promise is answered before it is durable"),
    fault("off-by-one-start", Trap::OffByOneStart, "a successor starts one offset after the end"),
    fault("retried-as-new", Trap::RetriedAsNew, "an append in doubt is sent again as a new one"),
    fault("placement-in-apply", Trap::PlacementInApply, "apply places replicas by what is in no command"),
    fault("trim-before-start", Trap::TrimBeforeStart, "data goes before the log's start has moved"),
    fault("before-ready", Trap::BeforeReady, "a candidate is chosen before it is ready"),
    fault("clean-stop-believed", Trap::CleanStopBelieved, "an unclean stop is taken for a clean one"),
    fault("promise-forgotten", Trap::PromiseForgotten, "a restart forgets what a replica promised"),
    fault("doubt-said-definite", Trap::DoubtSaidDefinite, "an append in doubt is said not to have happened"),
    fault("tail-repeats", Trap::TailRepeats, "a reader resumes at the last offset it had"),
    fault("short-quorum", Trap::ShortQuorum, "A - 1 copies commit"),
    fault("no-copies", Trap::NoCopies, "a recovery is reported before it copied"),
    fault("incomplete-serves", Trap::IncompleteServes, "a replica with a hole at its end serves readers"),
    fault("old-epoch-writes", Trap::OldEpochWrites, "a producer's earlier epoch still writes"),
];

pub fn named(name: &str) -> Option<&'static Fault> {
    FAULTS.iter().find(|fault| fault.name.eq_ignore_ascii_case(name))
}
