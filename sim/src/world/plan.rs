//! What a seed means: sizes, timing, load, and the faults, class by class (swarm: a seed has some classes and not others, so
//! that each meets the others' absence too). Everything is drawn here; the run itself draws only delays and fates.

use super::event::Proc;
use super::fault::Fault;
use super::rng::Rng;
use metad_core::Timing;
use router_core::{ProducerSettings, TailSettings};
use seam_wire::topic::{AckMode, Anticipation, Placement, TopicConfig};
use segd_core::node::Settings;
use serde::{Deserialize, Serialize};

/// How many processes of each kind. Clients: producers first, then consumers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sizes {
    pub metads: u8,
    pub segds: u8,
    pub routers: u8,
    pub producers: u8,
    pub consumers: u8,
}

impl Sizes {
    pub fn clients(&self) -> u8 {
        self.producers + self.consumers
    }

    pub fn all(&self) -> usize {
        usize::from(self.metads) + usize::from(self.segds) + usize::from(self.routers) + usize::from(self.clients())
    }

    pub fn index(&self, who: Proc) -> usize {
        let metads = usize::from(self.metads);
        let servers = metads + usize::from(self.segds);
        match who {
            Proc::Metad(n) => usize::from(n),
            Proc::Segd(n) => metads + usize::from(n),
            Proc::Router(n) => servers + usize::from(n),
            Proc::Client(n) => servers + usize::from(self.routers) + usize::from(n),
        }
    }

    pub fn procs(&self) -> Vec<Proc> {
        let metads = (0..self.metads).map(Proc::Metad);
        let segds = (0..self.segds).map(Proc::Segd);
        let routers = (0..self.routers).map(Proc::Router);
        let clients = (0..self.clients()).map(Proc::Client);
        metads.chain(segds).chain(routers).chain(clients).collect()
    }
}

/// Times in microseconds, chances in millionths.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NetPlan {
    pub base_min_us: u64,
    pub base_max_us: u64,
    pub jitter_us: u64,
    pub slow_ppm: u32,
    pub slow_us: u64,
    /// Peer messages of one segment keep their order on a link.
    pub ordered: bool,
    pub loss_ppm: u32,
    pub dup_ppm: u32,
    /// A peer message breaks its link, and what was under way on it is lost.
    pub break_ppm: u32,
    pub reconnect_us: u64,
    /// How long a pipe survives a cut, or a peer that does not answer.
    pub idle_us: u64,
}

/// How much too fast a process's clock runs, in millionths; negative: too slow.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Drift(pub i32);

impl Drift {
    fn rate(self) -> u128 {
        u128::try_from(1_000_000 + i64::from(self.0)).expect("a clock never runs backwards")
    }

    /// What the clock shows after so many true microseconds.
    pub fn local_us(self, true_us: u64) -> u64 {
        u64::try_from(u128::from(true_us) * self.rate() / 1_000_000).expect("a run is short")
    }

    /// The first true moment at which the clock shows at least so many microseconds.
    pub fn true_us(self, local_us: u64) -> u64 {
        let after = (u128::from(local_us) * 1_000_000).div_ceil(self.rate());
        u64::try_from(after).unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskPlan {
    /// Under each node a real journal on simulated sectors.
    pub sectors: bool,
    pub sync_min_us: u64,
    pub sync_max_us: u64,
    pub slow_ppm: u32,
    pub slow_us: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MetadPlan {
    pub commit_min_us: u64,
    pub commit_max_us: u64,
    pub follower_lag_us: u64,
    pub election_us: u64,
    /// Versions a member can still send one by one; a watcher that is further behind gets a snapshot.
    pub retained: usize,
    /// Several versions may go in one update.
    pub coalesce: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    pub batches: u32,
    /// Batches each producer sends after all is healed; every one must be written.
    pub probe_batches: u32,
    pub gap_us: u64,
    pub max_records: u32,
    pub value_bytes: usize,
    pub in_flight: usize,
    pub deadline_us: u64,
    /// Rolls asked for by hand.
    pub rolls_by_hand: u32,
    /// How long a router tries to place an append.
    #[serde(default = "long_patience_us")]
    pub append_patience_us: u64,
    /// What a reader's stream waits between two reads; 0: it takes all there is at once.
    pub tail_step_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultMode {
    None,
    All,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub seed: u64,
    pub sizes: Sizes,
    pub topic: TopicConfig,
    pub load: Load,
    pub net: NetPlan,
    pub disk: DiskPlan,
    pub metad: MetadPlan,
    #[serde(skip, default = "fast_timing")]
    pub timing: Timing,
    /// Candidates of one segment that metad keeps at once.
    pub candidates: u32,
    #[serde(skip, default = "fast_settings")]
    pub segd: Settings,
    #[serde(skip, default = "fast_producer")]
    pub producer: ProducerSettings,
    #[serde(skip, default = "fast_tail")]
    pub tail: TailSettings,
    /// When, and what. In order of time.
    pub faults: Vec<(u64, Fault)>,
    /// When faults end and everything is made whole.
    pub heal_at_us: u64,
    /// How long after that everything must have settled.
    pub settle_us: u64,
    /// By process, as `Sizes::index` numbers them; empty: all clocks are right.
    pub drift: Vec<Drift>,
}

const MS: u64 = 1_000;

impl Plan {
    pub fn draw(seed: u64, mode: FaultMode) -> Plan {
        let mut rng = Rng::new(seed, 1);
        let sizes = Sizes {
            metads: 3,
            segds: u8::try_from(rng.between(5, 7)).expect("small"),
            routers: u8::try_from(rng.between(1, 2)).expect("small"),
            producers: u8::try_from(rng.between(1, 3)).expect("small"),
            consumers: u8::try_from(rng.between(1, 3)).expect("small"),
        };
        let load = draw_load(&mut rng);
        let heal_at_us = 500 * MS + u64::from(load.batches) * load.gap_us * 12 / 10;
        let mut plan = Plan {
            seed,
            sizes,
            topic: draw_topic(&mut rng, &load, mode),
            load,
            net: draw_net(&mut rng),
            disk: DiskPlan {
                sectors: Rng::new(seed, 11).percent(30),
                sync_min_us: 50,
                sync_max_us: rng.pick(&[100, 500, 3_000]),
                slow_ppm: 0,
                slow_us: 0,
            },
            metad: MetadPlan {
                commit_min_us: 500,
                commit_max_us: rng.pick(&[1_000, 5_000, 40_000]),
                follower_lag_us: rng.pick(&[500, 5_000, 50_000]),
                election_us: rng.between(20 * MS, 200 * MS),
                retained: rng.pick(&[4, 64, 4096]),
                coalesce: rng.percent(30),
            },
            timing: fast_timing(),
            candidates: Rng::new(seed, 8).pick(&[1, 2, 4, 4]),
            segd: fast_settings(),
            producer: fast_producer(),
            tail: fast_tail(),
            faults: Vec::new(),
            heal_at_us,
            settle_us: 60_000 * MS,
            drift: Vec::new(),
        };
        draw_retention(&mut plan.topic, &mut Rng::new(seed, 3));
        plan.load.tail_step_us = Rng::new(seed, 9).pick(&[0, 0, 0, MS, 20 * MS, 100 * MS]);
        let patience = Rng::new(seed, 14).pick(&[long_patience_us(), long_patience_us(), long_patience_us(), 300 * MS]);
        plan.load.append_patience_us = patience;
        match mode {
            FaultMode::None => {}
            FaultMode::All => {
                super::faults::draw(&mut plan, &mut Rng::new(seed, 2));
                super::faults::draw_drift(&mut plan, &mut Rng::new(seed, 6));
                super::faults::draw_damage(&mut plan, &mut Rng::new(seed, 7));
                super::faults::draw_moments(&mut plan, &mut Rng::new(seed, 10));
                super::faults::draw_ways(&mut plan, &mut Rng::new(seed, 12));
                plan.faults.sort_by_key(|(at, _)| *at);
                super::faults::draw_replicated(&mut plan, &mut Rng::new(seed, 13));
            }
        }
        plan
    }
}

fn long_patience_us() -> u64 {
    4_000 * MS
}

fn draw_load(rng: &mut Rng) -> Load {
    Load {
        batches: u32::try_from(rng.between(20, 100)).expect("small"),
        probe_batches: 5,
        gap_us: rng.pick(&[4 * MS, 10 * MS, 25 * MS]),
        max_records: u32::try_from(rng.between(1, 4)).expect("small"),
        value_bytes: 16 + rng.index(64),
        in_flight: rng.index(8) + 1,
        deadline_us: rng.pick(&[800 * MS, 5_000 * MS, 30_000 * MS]),
        append_patience_us: long_patience_us(),
        tail_step_us: 0,
        rolls_by_hand: if rng.percent(40) { u32::try_from(rng.between(1, 5)).expect("small") } else { 0 },
    }
}

fn draw_topic(rng: &mut Rng, load: &Load, mode: FaultMode) -> TopicConfig {
    let (replicas, ack_quorum) = match mode {
        FaultMode::None => rng.pick(&[(3, 2), (3, 2), (3, 2), (3, 3), (2, 2), (4, 3), (1, 1)]),
        // Where R - A + 1 < A a recovery may leave fewer than A copies, which only a repair could mend: no disk is lost there.
        FaultMode::All => {
            rng.pick(&[(3, 2), (3, 2), (3, 2), (3, 2), (4, 2), (5, 3), (5, 3), (1, 1), (3, 3), (2, 2), (4, 3)])
        }
    };
    let records = u64::from(load.batches) * u64::from(load.max_records + 1) / 2;
    TopicConfig {
        ranges: if rng.percent(25) { 2 } else { 1 },
        replicas,
        ack_quorum,
        ack: AckMode::Durable,
        placement: rng.pick(&[Placement::Balanced, Placement::Balanced, Placement::RoundRobin, Placement::Sticky]),
        anticipation: rng.pick(&[Anticipation::Soft, Anticipation::Soft, Anticipation::AtOpen, Anticipation::Off]),
        segment_bytes: 1 << 20,
        segment_records: (records / rng.between(2, 10)).max(3),
        max_age_ms: if rng.percent(20) { rng.between(50, 400) } else { 0 },
        retention_bytes: 0,
        retention_ms: 0,
    }
}

/// Drawn apart, so that a seed without it means what it always did.
fn draw_retention(topic: &mut TopicConfig, rng: &mut Rng) {
    if rng.percent(25) {
        topic.retention_bytes = rng.pick(&[0, 1, 1_000, 5_000]);
        topic.retention_ms = rng.pick(&[0, 100, 500, 2_000]);
    }
}

fn draw_net(rng: &mut Rng) -> NetPlan {
    let base_max_us = rng.pick(&[200, 1_000, 5_000]);
    NetPlan {
        base_min_us: 50,
        base_max_us,
        jitter_us: rng.pick(&[0, 100, 2_000]),
        slow_ppm: 0,
        slow_us: 0,
        ordered: true,
        loss_ppm: 0,
        dup_ppm: 0,
        break_ppm: 0,
        reconnect_us: 10 * MS,
        idle_us: rng.pick(&[100 * MS, 400 * MS]),
    }
}

/// The default patience, shortened so that a short run sees all of it.
pub fn fast_timing() -> Timing {
    Timing {
        node_heartbeat_ms: 100,
        node_suspect_ms: 500,
        session_grace_ms: 60,
        ready_timeout_ms: 300,
        recovery_patience_ms: 400,
        recoveries: 16,
        sweep_ms: 200,
        propose_timeout_ms: 600,
    }
}

pub fn fast_settings() -> Settings {
    Settings {
        report_retry_us: 150 * MS,
        report_later_us: 20 * MS,
        announce_retry_us: 150 * MS,
        ping_interval_us: 50 * MS,
        ask_retry_us: 50 * MS,
        begin_retry_us: 20 * MS,
        resend_us: 80 * MS,
        full_patience_us: 150 * MS,
        stall_patience_us: 300 * MS,
        // Small, so that reading back from the store happens too.
        recent_bytes: 2_000,
        chunk_bytes: 1_000,
        ..Settings::default()
    }
}

pub fn fast_producer() -> ProducerSettings {
    ProducerSettings {
        reopen_min_us: 5 * MS,
        reopen_max_us: 100 * MS,
        moved_patience_us: 300 * MS,
        ..ProducerSettings::default()
    }
}

pub fn fast_tail() -> TailSettings {
    TailSettings {
        stall_us: 200 * MS,
        silence_us: 500 * MS,
        silence_max_us: 8_000 * MS,
        retry_min_us: 5 * MS,
        retry_max_us: 100 * MS,
        patience_us: 60_000 * MS,
    }
}
