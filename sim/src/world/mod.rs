//! The world simulator: the real cores of metad, segd, router and client on one heap of events under a virtual clock.
//!
//! It carries effects and draws fates (delays, losses, crashes); it holds no roll, quorum or recovery code of its own. The
//! `oracle`s look from outside, at what was acked, shown, decided and kept on disks. A broken rule panics; the campaign
//! catches that and names the seed.

mod client;
mod consumer;
mod disk;
mod disks;
pub mod event;
pub mod fault;
mod faults;
mod links;
mod metad;
mod net;
mod oracle;
pub mod plan;
mod procs;
mod rng;
mod router;
mod sectors;
mod segd;
mod sessions;
mod settle;
pub mod sometimes;
pub mod stats;
mod tails;
pub mod trace;
mod watch;

use client::Producer;
use consumer::Consumer;
use event::{Act, Event, Heap, Proc, What};
use metad::Metad;
use net::Net;
use oracle::Oracle;
use plan::{Drift, Plan};
use procs::ProcState;
use rng::{Rng, lane};
use router::Router;
use seam_wire::Tick;
use segd::Segd;
use stats::Stats;
use trace::{Trace, TraceMode, trace};

/// Events after which a run is taken for a storm that never ends.
const MAX_EVENTS: u64 = 3_000_000;
/// A full sweep of all invariants every so many events.
const SWEEP_EVERY: u64 = 64;

pub struct World {
    now: u64,
    plan: Plan,
    heap: Heap,
    net: Net,
    procs: Vec<ProcState>,
    segds: Vec<Segd>,
    metad: Metad,
    routers: Vec<Router>,
    producers: Vec<Producer>,
    consumers: Vec<Consumer>,
    oracle: Oracle,
    stats: Stats,
    trace: Trace,
    rng: Rng,
    /// Of metad's log: commits, lags, elections.
    log_rng: Rng,
    /// Of each process, for what it does and what befalls it: one that is taken out leaves the others' luck alone.
    dice: Vec<Rng>,
    next_call: u64,
    disks_made: u64,
    /// All segd nodes lose power now.
    power_is_off: bool,
    outbox: Vec<segd_core::io::Effect>,
    settle: settle::Settle,
    /// Faults that wait for their moment, by their place in the plan.
    armed: Vec<usize>,
    over: bool,
}

/// What a run that broke nothing leaves.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub stats: Stats,
    /// Of the trace; the same seed gives the same, in any process. 0 without a trace.
    pub trace_hash: u64,
    /// The moment of each ack, and microseconds since its record was sent by the application.
    pub ack_latencies: Vec<(u64, u64)>,
    /// The same of each delivery at the first consumer.
    pub delivery_latencies: Vec<(u64, u64)>,
}

impl World {
    pub fn new(plan: Plan, mode: TraceMode) -> World {
        segd_core::traps::begin_run();
        let sizes = plan.sizes;
        let mut world = World {
            now: 0,
            heap: Heap::default(),
            net: Net::new(plan.net.clone(), sizes, plan.seed),
            procs: (0..sizes.all()).map(|_| ProcState::default()).collect(),
            segds: (0..sizes.segds).map(Segd::new).collect(),
            metad: Metad::new(sizes.metads, plan.timing, plan.candidates),
            routers: (0..sizes.routers).map(|_| Router::default()).collect(),
            producers: (0..sizes.producers).map(|n| Producer::new(n, &plan)).collect(),
            consumers: (0..sizes.consumers).map(|n| Consumer::new(n, &plan)).collect(),
            oracle: Oracle::new(&plan),
            stats: Stats::default(),
            trace: Trace::new(mode),
            rng: Rng::new(plan.seed, 4),
            log_rng: Rng::new(plan.seed, 5),
            dice: sizes.procs().into_iter().map(|who| Rng::new(plan.seed, lane(who))).collect(),
            next_call: 0,
            disks_made: 0,
            power_is_off: false,
            outbox: Vec::new(),
            settle: settle::Settle::default(),
            armed: Vec::new(),
            over: false,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for n in 0..self.plan.sizes.segds {
            let disk = self.new_disk(n);
            self.segd(n).disk = disk;
        }
        for who in self.plan.sizes.procs() {
            self.start(who);
        }
        self.act_at(0, Act::Elect { term: 1 });
        for fault in 0..self.plan.faults.len() {
            self.act_at(self.plan.faults[fault].0, Act::Fault(fault));
        }
        self.act_at(self.plan.heal_at_us, Act::Heal);
        for _ in 0..self.plan.load.rolls_by_hand {
            let at = self.rng.between(200_000, self.plan.heal_at_us.max(200_001));
            self.act_at(at, Act::AskRoll);
        }
    }

    /// Runs to the end.
    ///
    /// # Panics
    /// At the first broken rule.
    pub fn run(mut self) -> Outcome {
        while !self.over {
            let Some((at, _, event)) = self.heap.pop() else {
                panic!("liveness: nothing is scheduled any more: {}", self.what_is_missing());
            };
            assert!(at >= self.now, "time goes on");
            self.now = at;
            self.stats.events += 1;
            assert!(
                self.stats.events < MAX_EVENTS,
                "liveness: a storm of events, now {event:?}: {}",
                self.what_is_missing()
            );
            self.take(event);
            if self.stats.events.is_multiple_of(SWEEP_EVERY) {
                self.sweep();
            }
        }
        self.stats.simulated_us = self.now;
        self.finish_stats();
        let (ack_latencies, delivery_latencies) = self.oracle.take_latencies();
        Outcome {
            stats: self.stats,
            trace_hash: if self.trace.on() { self.trace.hash() } else { 0 },
            ack_latencies,
            delivery_latencies,
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Do(act) => {
                trace!(self, "-- {act:?}");
                self.act(act);
            }
            Event::At { to, life, what } => {
                let state = self.state_mut(to);
                if !state.up || state.life != life {
                    return;
                }
                if state.paused {
                    state.held.push_back(what);
                    return;
                }
                self.dispatch(to, what);
            }
        }
    }

    fn dispatch(&mut self, to: Proc, what: What) {
        match to {
            Proc::Metad(n) => self.at_metad(n, what),
            Proc::Segd(n) => self.at_segd(n, what),
            Proc::Router(n) => self.at_router(n, what),
            Proc::Client(n) if n < self.plan.sizes.producers => self.at_producer(n, what),
            Proc::Client(n) => self.at_consumer(n - self.plan.sizes.producers, what),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Fault(index) => self.strike(index),
            Act::Sprung { fault, node } => self.spring(fault, node),
            Act::Restart { who, life } => {
                if !self.state(who).up && self.state(who).life == life {
                    self.start(who);
                }
            }
            Act::Resume { who, life } => {
                if self.state(who).life == life {
                    self.resume(who);
                }
            }
            Act::Uncut(index) => self.uncut(index),
            Act::Release => self.release_stalled(),
            Act::Idle { a, b } => self.break_idle(a, b),
            Act::Connect { from, to } => self.connect(from, to),
            Act::Commit { term } => self.commit_next(term),
            Act::ApplyAt { member, index } => self.apply_at(member, index),
            Act::Elect { term } => self.elect(term),
            Act::StepDown { member, term } => self.step_down(member, term),
            Act::Drain { node, drain } => self.ask_drain(node, drain),
            Act::Renew { node, life } => {
                if self.state(Proc::Segd(node)).life == life {
                    self.crash(Proc::Segd(node), 1_000);
                }
            }
            Act::Stop { node, down_us } => self.crash(Proc::Segd(node), down_us),
            Act::SlowDiskEnds { node } => self.segds[usize::from(node)].slow = 1,
            Act::MetadNormal => self.metad.slow_by_us = 0,
            Act::AskRoll => self.ask_roll(),
            Act::Heal => self.heal(),
            Act::Look => self.look(),
        }
    }

    fn sweep(&mut self) {
        for segd in &self.segds {
            if let Some(node) = &segd.node {
                node.assert_invariants();
            }
        }
    }

    fn dice(&mut self, who: Proc) -> &mut Rng {
        let index = self.plan.sizes.index(who);
        &mut self.dice[index]
    }

    // -- scheduling

    fn at(&mut self, at: u64, to: Proc, what: What) {
        let life = self.state(to).life;
        self.heap.push(at, Event::At { to, life, what });
    }

    fn at_life(&mut self, at: u64, to: Proc, life: u32, what: What) {
        self.heap.push(at, Event::At { to, life, what });
    }

    fn act_at(&mut self, at: u64, act: Act) {
        self.heap.push(at, Event::Do(act));
    }

    /// A process's own monotonic clock: it starts at 0 with the process.
    fn clock(&self, who: Proc) -> Tick {
        Tick(self.drift(who).local_us(self.now - self.state(who).started))
    }

    fn drift(&self, who: Proc) -> Drift {
        self.plan.drift.get(self.plan.sizes.index(who)).copied().unwrap_or_default()
    }

    /// Sees to it that the process is woken at its core's next deadline.
    fn wake_at(&mut self, who: Proc, deadline: Option<Tick>) {
        let Some(deadline) = deadline else { return };
        let now = self.now;
        let after = self.drift(who).true_us(deadline.0);
        let state = self.state_mut(who);
        let at = state.started.saturating_add(after).max(now + 1);
        if state.wake_at.is_none_or(|earlier| at < earlier || earlier <= now) {
            state.wake_at = Some(at);
            self.at(at, who, What::Wake);
        }
    }
}
