//! The configurations: what may happen in each, and what must be seen to have happened.

use super::layout::Layout;

/// How metad is modelled; see `metad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadKind {
    Real,
    Register,
}

/// Something a configuration must be able to reach: a model in which nothing happens proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// M acks a record while metad knows of no decision (R12).
    RollsWithoutMetad,
    /// A recovery's candidate acks a record.
    CandidateAcks,
    /// N is recorded by an agent that found the seal entry.
    AgentFollowsSeal,
    /// Two agents each fixed an end.
    TwoAgentsFix,
    /// The spare follows N, and M was given back.
    SpareFollows,
    /// K acks a record.
    ChainAcks,
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub name: &'static str,
    pub about: &'static str,
    pub layout: Layout,
    pub metad: MetadKind,
    /// Records P may write.
    pub records: u64,
    /// P may switch to a candidate.
    pub planned: bool,
    /// Recovery epochs, each with an agent of its own; one more after each crash of an agent.
    pub epochs: u64,
    /// Restarts of a node of N, what was not synced lost.
    pub crashes: u8,
    /// Disks of N lost for good.
    pub lost_disks: u8,
    /// Words a late hearer can only be glad of are heard at once: acks to writers, votes to M's primary. Sound for what is
    /// checked here: hearing them enables steps and disables none, so that every claim made without them is made with them.
    pub eager: bool,
    /// P tells its followers the decision, and metad tells all replicas.
    pub followers_hear: bool,
    /// P's start alone travels, and its last record together with the seal entry.
    pub all_frames: bool,
    /// A producer sends what P did not ack to M's primary again.
    pub retry: bool,
    /// A promise may reach the disk before data handed over earlier.
    pub unordered: bool,
    /// From every state the head can still move on: checked at the ends of all paths (the graph has no cycles).
    pub live: bool,
    /// States generated in the bounded setting.
    pub bound: usize,
    /// Exhausted within its bound.
    pub small: bool,
    pub witnesses: &'static [Witness],
}

const PLAIN: Layout = Layout { ack_quorum: 2, chain: false, release: false };

const BASE: Config = Config {
    name: "",
    about: "",
    layout: PLAIN,
    metad: MetadKind::Real,
    records: 1,
    planned: true,
    epochs: 0,
    crashes: 0,
    lost_disks: 0,
    eager: true,
    followers_hear: false,
    all_frames: false,
    retry: false,
    unordered: false,
    live: true,
    bound: 700_000,
    small: false,
    witnesses: &[],
};

/// Every configuration, the smallest first.
pub const ALL: &[Config] = &[
    Config {
        name: "planned",
        about: "a planned roll without faults, every word early, late, twice or never",
        records: 2,
        eager: false,
        followers_hear: true,
        all_frames: true,
        retry: true,
        witnesses: &[Witness::RollsWithoutMetad],
        ..BASE
    },
    Config {
        name: "recovery",
        about: "the primary is taken for dead while it writes and rolls: one agent",
        epochs: 1,
        retry: true,
        witnesses: &[Witness::RollsWithoutMetad, Witness::CandidateAcks, Witness::AgentFollowsSeal],
        bound: 1_300_000,
        small: true,
        ..BASE
    },
    Config {
        name: "late",
        about: "as recovery, and acks, votes and decisions late, twice or never",
        epochs: 1,
        eager: false,
        followers_hear: true,
        witnesses: &[Witness::RollsWithoutMetad, Witness::CandidateAcks, Witness::AgentFollowsSeal],
        ..BASE
    },
    Config {
        name: "two-agents",
        about: "two agents at once, each with its own candidate",
        epochs: 2,
        witnesses: &[Witness::CandidateAcks, Witness::AgentFollowsSeal, Witness::TwoAgentsFix],
        ..BASE
    },
    Config {
        name: "two-agents-register",
        about: "two agents over a metad that is a bare register",
        metad: MetadKind::Register,
        epochs: 2,
        witnesses: &[Witness::CandidateAcks, Witness::AgentFollowsSeal, Witness::TwoAgentsFix],
        ..BASE
    },
    Config {
        name: "restart",
        about: "one node restarts under a recovery, and no roll was planned",
        planned: false,
        epochs: 1,
        crashes: 1,
        witnesses: &[Witness::CandidateAcks],
        bound: 3_300_000,
        small: true,
        ..BASE
    },
    Config {
        name: "crash",
        about: "one node restarts without what was not synced; its rights are over",
        epochs: 1,
        crashes: 1,
        witnesses: &[Witness::CandidateAcks, Witness::AgentFollowsSeal],
        ..BASE
    },
    Config {
        name: "lost-disk",
        about: "one disk is lost; its replica answers nobody",
        epochs: 1,
        lost_disks: 1,
        witnesses: &[Witness::CandidateAcks, Witness::AgentFollowsSeal],
        ..BASE
    },
    Config {
        name: "release",
        about: "a second candidate, and the first is asked back",
        layout: Layout { release: true, ..PLAIN },
        epochs: 1,
        witnesses: &[Witness::SpareFollows, Witness::CandidateAcks],
        ..BASE
    },
    Config {
        name: "chain",
        about: "M switches on to K while N may still be recovered",
        layout: Layout { chain: true, ..PLAIN },
        epochs: 1,
        witnesses: &[Witness::ChainAcks, Witness::CandidateAcks],
        bound: 3_300_000,
        small: true,
        ..BASE
    },
    Config {
        name: "all-ack",
        about: "A = R = 3, and a disk is lost: one answer must do",
        layout: Layout { ack_quorum: 3, ..PLAIN },
        epochs: 1,
        lost_disks: 1,
        witnesses: &[Witness::RollsWithoutMetad, Witness::CandidateAcks, Witness::AgentFollowsSeal],
        ..BASE
    },
    Config {
        name: "unordered",
        about: "as recovery, where a promise may be durable before data handed over earlier",
        epochs: 1,
        unordered: true,
        witnesses: &[Witness::CandidateAcks, Witness::AgentFollowsSeal],
        ..BASE
    },
    Config {
        name: "hard",
        about: "two records, two agents, a restart",
        records: 2,
        epochs: 2,
        crashes: 1,
        witnesses: &[Witness::CandidateAcks, Witness::AgentFollowsSeal],
        ..BASE
    },
];

pub fn named(name: &str) -> Option<Config> {
    ALL.iter().copied().find(|config| config.name == name)
}
