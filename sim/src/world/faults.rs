//! Faults: drawn class by class, struck when their time comes. What they break is healed before the liveness checks.

use super::World;
use super::event::{Act, Ask, Proc};
use super::fault::{Fault, Moment, Then};
use super::plan::{Drift, Plan};
use super::rng::Rng;
use super::sectors::Sectors;
use super::trace::trace;
use metad_core::Admin;
use seam_journal::sim::Fault as DiskFault;
use seam_wire::meta::NodeState;
use seam_wire::topic::AckMode;
use segd_core::io::Counter;

const MS: u64 = 1_000;

/// Draws which classes this seed has, and each of their faults.
pub fn draw(plan: &mut Plan, rng: &mut Rng) {
    let from = 300 * MS;
    let until = plan.heal_at_us.saturating_sub(100 * MS).max(from + 1);
    let mut faults: Vec<(u64, Fault)> = Vec::new();
    let mut class = |rng: &mut Rng, percent: u32, most: u64, make: &mut dyn FnMut(&mut Rng) -> Fault| {
        if rng.percent(percent) {
            for _ in 0..rng.between(1, most) {
                let at = rng.between(from, until);
                faults.push((at, make(rng)));
            }
        }
    };
    let sizes = plan.sizes;
    let segd = |rng: &mut Rng| u8::try_from(rng.below(u64::from(sizes.segds))).expect("small");
    let metad = |rng: &mut Rng| u8::try_from(rng.below(u64::from(sizes.metads))).expect("small");
    let router = |rng: &mut Rng| u8::try_from(rng.below(u64::from(sizes.routers))).expect("small");
    let down = |rng: &mut Rng| rng.pick(&[5 * MS, 100 * MS, 700 * MS, 2_000 * MS]);

    class(rng, 50, 4, &mut |rng| {
        let after_effects = rng.percent(60).then(|| rng.index(12));
        Fault::Crash { who: Proc::Segd(segd(rng)), down_us: down(rng), after_effects }
    });
    class(rng, 25, 3, &mut |rng| Fault::Crash {
        who: Proc::Router(router(rng)),
        down_us: down(rng),
        after_effects: None,
    });
    class(rng, 20, 2, &mut |rng| Fault::Crash {
        who: Proc::Metad(metad(rng)),
        down_us: down(rng),
        after_effects: None,
    });
    class(rng, 35, 3, &mut |rng| {
        let who = match rng.below(4) {
            0 | 1 => Proc::Segd(segd(rng)),
            2 => Proc::Router(router(rng)),
            _ => Proc::Metad(metad(rng)),
        };
        Fault::Pause { who, for_us: rng.between(10 * MS, 1_500 * MS) }
    });
    class(rng, 40, 3, &mut |rng| cut(rng, plan));
    class(rng, 8, 1, &mut |rng| Fault::PowerLoss { down_us: rng.between(MS, 800 * MS) });
    class(rng, 25, 2, &mut |rng| Fault::SlowDisk {
        node: segd(rng),
        factor: rng.pick(&[10, 100, 1_000]),
        for_us: rng.between(50 * MS, 800 * MS),
    });
    class(rng, 30, 3, &mut |rng| Fault::Leaderless {
        for_us: rng.pick(&[20 * MS, 300 * MS, 1_500 * MS]),
        kept_percent: rng.pick(&[0, 50, 100]),
        zombie_us: rng.pick(&[1, 50 * MS, 200 * MS]),
    });
    class(rng, 20, 2, &mut |rng| Fault::SlowMetad { by_us: rng.between(10 * MS, 800 * MS), for_us: 1_000 * MS });
    class(rng, 20, 6, &mut |rng| Fault::BreakLink { a: segd(rng), b: segd(rng) });
    class(rng, 20, 5, &mut |rng| Fault::BreakPipes { who: Proc::Router(router(rng)), percent: rng.pick(&[20, 100]) });
    // With its sessions and its watch: it must come back before anyone takes it for dead.
    class(rng, 20, 3, &mut |rng| Fault::BreakPipes { who: Proc::Segd(segd(rng)), percent: rng.pick(&[20, 100]) });
    plan.faults = faults;

    if rng.percent(40) {
        plan.net.ordered = false;
        plan.net.loss_ppm = rng.pick(&[0, 10_000, 100_000]);
        plan.net.dup_ppm = rng.pick(&[0, 10_000, 200_000]);
    }
    if rng.percent(25) {
        plan.net.break_ppm = rng.pick(&[200, 5_000]);
    }
    if rng.percent(30) {
        plan.net.slow_ppm = rng.pick(&[1_000, 50_000]);
        plan.net.slow_us = rng.pick(&[20 * MS, 200 * MS]);
    }
    if rng.percent(25) {
        plan.disk.slow_ppm = rng.pick(&[1_000, 50_000]);
        plan.disk.slow_us = rng.pick(&[20 * MS, 200 * MS]);
    }
}

/// Nodes that are emptied for a while, one way and two way cuts of single ways, and a bridge: two halves that see each other
/// by one node alone.
pub fn draw_ways(plan: &mut Plan, rng: &mut Rng) {
    let until = plan.heal_at_us.saturating_sub(100 * MS).max(301 * MS);
    let servers: Vec<Proc> = plan.sizes.procs().into_iter().filter(|who| !matches!(who, Proc::Client(_))).collect();
    if rng.percent(15) {
        for _ in 0..rng.between(1, 2) {
            let node = u8::try_from(rng.below(u64::from(plan.sizes.segds))).expect("small");
            let drain = Fault::Drain { node, for_us: rng.between(200 * MS, 1_500 * MS) };
            plan.faults.push((rng.between(200 * MS, until), drain));
        }
    }
    if rng.percent(15) {
        for _ in 0..rng.between(1, 6) {
            let (from, to) = (vec![rng.pick(&servers)], vec![rng.pick(&servers)]);
            let cut = Fault::Cut { from, to, one_way: rng.percent(60), for_us: rng.between(20 * MS, 1_500 * MS) };
            plan.faults.push((rng.between(300 * MS, until), cut));
        }
    }
    if rng.percent(10) {
        let bridge = rng.pick(&servers);
        let (from, to) = servers.iter().filter(|who| **who != bridge).partition(|_| rng.percent(50));
        let cut = Fault::Cut { from, to, one_way: false, for_us: rng.between(100 * MS, 1_500 * MS) };
        plan.faults.push((rng.between(300 * MS, until), cut));
    }
}

/// Acks without a sync, in some seeds. A process that ends uncleanly does not know then what it had acked, and answers nobody:
/// so no more nodes end than the quorum can do without, and all of them never at once.
pub fn draw_replicated(plan: &mut Plan, rng: &mut Rng) {
    let (replicas, ack_quorum) = (plan.topic.replicas, plan.topic.ack_quorum);
    if ack_quorum < 2 || replicas - ack_quorum + 1 < ack_quorum || !rng.percent(15) {
        return;
    }
    plan.topic.ack = AckMode::Replicated;
    let mut ends: Vec<u8> = Vec::new();
    let mut may_end = |node: u8| {
        if ends.len() < usize::from(ack_quorum - 1) && !ends.contains(&node) {
            ends.push(node);
        }
        ends.contains(&node)
    };
    plan.faults.retain(|(_, fault)| match fault {
        Fault::Crash { who: Proc::Segd(node), .. }
        | Fault::LoseDisk { node, .. }
        | Fault::FailDisk { node }
        | Fault::DiskError { node, .. }
        | Fault::Rot { node, .. }
        | Fault::Misdirect { node, .. } => may_end(*node),
        Fault::PowerLoss { .. } | Fault::At { then: Then::Crash { .. } | Then::PowerLoss { .. }, .. } => false,
        Fault::At { .. }
        | Fault::Crash { .. }
        | Fault::Pause { .. }
        | Fault::Cut { .. }
        | Fault::Drain { .. }
        | Fault::SlowDisk { .. }
        | Fault::Leaderless { .. }
        | Fault::SlowMetad { .. }
        | Fault::BreakLink { .. }
        | Fault::BreakPipes { .. } => true,
    });
}

/// Faults that strike at a moment of a roll or a recovery, where chance alone seldom does.
pub fn draw_moments(plan: &mut Plan, rng: &mut Rng) {
    if !rng.percent(20) {
        return;
    }
    for _ in 0..rng.between(1, 3) {
        let at = rng.between(200 * MS, plan.heal_at_us.saturating_sub(200 * MS).max(201 * MS));
        let moment = rng.pick(&[
            Moment::Switched,
            Moment::Switched,
            Moment::GateOpened,
            Moment::RecoveryStarted,
            Moment::RecoveryDone,
        ]);
        let us = rng.pick(&[5 * MS, 100 * MS, 700 * MS]);
        let then = match rng.below(5) {
            0 | 1 => Then::Crash { down_us: us },
            2 => Then::Pause { for_us: 2 * us },
            3 => Then::PowerLoss { down_us: us },
            _ => Then::Leaderless { for_us: us },
        };
        let after_us = rng.pick(&[0, 100, 500, 2_000]);
        plan.faults.push((at, Fault::At { moment, after_us, then }));
    }
}

/// Clocks that run at different speeds, in some seeds: from what a bad crystal does to what a bad virtual machine does.
pub fn draw_drift(plan: &mut Plan, rng: &mut Rng) {
    if rng.percent(30) {
        let most = rng.pick(&[200, 20_000, 200_000]);
        let mut drift =
            |_| Drift(i32::try_from(rng.between(0, 2 * most)).expect("small") - i32::try_from(most).expect("small"));
        plan.drift = (0..plan.sizes.all()).map(&mut drift).collect();
    }
}

/// Disks are lost or damaged, in some seeds: as many as the quorum promises to survive, so that nothing acked may be lost. The
/// other disks keep what they were given; their errors only stop them for a while.
pub fn draw_damage(plan: &mut Plan, rng: &mut Rng) {
    let until = plan.heal_at_us.max(301 * MS);
    let mut faults = Vec::new();
    if plan.disk.sectors && rng.percent(50) {
        for _ in 0..rng.between(1, 3) {
            let node = u8::try_from(rng.below(u64::from(plan.sizes.segds))).expect("small");
            let after_operations = rng.below(20);
            let error = Fault::DiskError { node, after_operations, full: rng.percent(50) };
            faults.push((rng.between(300 * MS, until), error));
        }
    }
    // Where fewer answers fix an end than copies make it safe (A = R), a recovery may leave what it found on one disk.
    let (replicas, ack_quorum) = (plan.topic.replicas, plan.topic.ack_quorum);
    let survives = if replicas - ack_quorum + 1 < ack_quorum { 0 } else { ack_quorum - 1 };
    if survives > 0 && rng.percent(25) {
        let mut nodes: Vec<u8> = (0..plan.sizes.segds).collect();
        for _ in 0..rng.between(1, u64::from(survives)) {
            let node = nodes.swap_remove(rng.index(nodes.len()));
            for _ in 0..rng.between(1, 2) {
                let down_us = rng.pick(&[5 * MS, 100 * MS, 700 * MS]);
                let fault = match rng.below(if plan.disk.sectors { 8 } else { 4 }) {
                    0 | 1 => Fault::FailDisk { node },
                    2 | 3 => Fault::LoseDisk { node, down_us },
                    4 | 5 => Fault::Rot { node, bits: rng.pick(&[1, 20, 200]), down_us },
                    _ => Fault::Misdirect { node, after_operations: rng.below(8), down_us },
                };
                faults.push((rng.between(300 * MS, until), fault));
            }
        }
    }
    plan.faults.extend(faults);
}

fn cut(rng: &mut Rng, plan: &Plan) -> Fault {
    let servers: Vec<Proc> = plan.sizes.procs().into_iter().filter(|who| !matches!(who, Proc::Client(_))).collect();
    let segds: Vec<Proc> = (0..plan.sizes.segds).map(Proc::Segd).collect();
    let metads: Vec<Proc> = (0..plan.sizes.metads).map(Proc::Metad).collect();
    let (from, to) = match rng.below(4) {
        // Some servers from the rest.
        0 => servers.iter().partition(|_| rng.percent(40)),
        // metad from all who ask it.
        1 => (metads, servers.iter().copied().filter(|who| !matches!(who, Proc::Metad(_))).collect()),
        // One segd node from its peers, but not from metad.
        2 => (vec![rng.pick(&segds)], segds),
        // One segd node from metad, but not from its peers: a zombie.
        _ => (vec![rng.pick(&segds)], metads),
    };
    Fault::Cut { from, to, one_way: rng.percent(35), for_us: rng.between(20 * MS, 1_500 * MS) }
}

impl World {
    pub(super) fn strike(&mut self, index: usize) {
        let fault = self.plan.faults[index].1.clone();
        trace!(self, "fault: {fault:?}");
        match fault {
            Fault::Drain { node, for_us } => {
                self.ask_drain(node, true);
                self.act_at(self.now + for_us, Act::Drain { node, drain: false });
            }
            Fault::At { .. } => self.armed.push(index),
            Fault::Crash { who, down_us, after_effects } => match (who, after_effects) {
                (Proc::Segd(n), Some(left)) => self.segd(n).dies_after = Some((left, down_us)),
                (Proc::Segd(_) | Proc::Metad(_) | Proc::Router(_) | Proc::Client(_), _) => self.crash(who, down_us),
            },
            Fault::Pause { who, for_us } => self.pause(who, for_us),
            Fault::Cut { from, to, one_way, for_us } => self.cut(index, &from, &to, one_way, for_us),
            Fault::PowerLoss { down_us } => self.lose_power(down_us),
            Fault::LoseDisk { node, down_us } => {
                if !self.state(Proc::Segd(node)).up {
                    self.lose_disk(node); // It lies there without its process.
                } else {
                    self.crash(Proc::Segd(node), down_us);
                    self.lose_disk(node);
                }
            }
            Fault::FailDisk { node } => self.fail_disk(node),
            Fault::DiskError { node, after_operations, full } => {
                let kind = if full { DiskFault::NoSpace } else { DiskFault::Eio };
                self.sectors(node, |sectors| sectors.fault_after(after_operations, kind));
            }
            Fault::Rot { node, bits, down_us } => {
                self.sectors(node, |sectors| (0..bits).for_each(|_| sectors.flip_bit()));
                self.crash(Proc::Segd(node), down_us);
            }
            Fault::Misdirect { node, after_operations, down_us } => {
                self.sectors(node, |sectors| sectors.fault_after(after_operations, DiskFault::Misdirect));
                let later = self.now + self.dice(Proc::Segd(node)).between(10 * MS, 300 * MS);
                self.act_at(later, Act::Stop { node, down_us });
            }
            Fault::SlowDisk { node, factor, for_us } => {
                self.segd(node).slow = factor;
                self.act_at(self.now + for_us, Act::SlowDiskEnds { node });
            }
            Fault::Leaderless { for_us, kept_percent, zombie_us } => {
                if let Some(leader) = self.metad.leader {
                    self.depose(leader, kept_percent, for_us, zombie_us);
                }
            }
            Fault::SlowMetad { by_us, for_us } => {
                self.metad.slow_by_us = by_us;
                self.act_at(self.now + for_us, Act::MetadNormal);
            }
            Fault::BreakLink { a, b } => {
                if a != b {
                    self.disconnect(a, b);
                }
            }
            Fault::BreakPipes { who, percent } => {
                for pipe in self.net.pipes_of(who) {
                    if self.dice(who).percent(percent) {
                        self.break_pipe(pipe);
                    }
                }
            }
        }
    }

    fn sectors(&mut self, node: u8, change: impl FnOnce(&mut Sectors)) {
        if let Some(sectors) = &mut self.segd(node).disk.sectors {
            change(sectors);
        }
    }

    fn lose_power(&mut self, down_us: u64) {
        self.see_power_loss();
        self.power_is_off = true;
        for n in 0..self.plan.sizes.segds {
            let down_us = down_us + self.dice(Proc::Segd(n)).between(0, 300 * MS);
            self.crash(Proc::Segd(n), down_us);
        }
        self.power_is_off = false;
    }

    /// Node `n` did something that a fault may wait for.
    pub(super) fn look_for_moment(&mut self, n: u8, counter: Counter) {
        let now = match counter {
            Counter::Switched => Moment::Switched,
            Counter::GateOpened => Moment::GateOpened,
            Counter::RecoveryStarted => Moment::RecoveryStarted,
            Counter::RecoveryDone => Moment::RecoveryDone,
            _ => return,
        };
        let waits = |fault: &usize| matches!(&self.plan.faults[*fault].1, Fault::At { moment, .. } if *moment == now);
        let Some(place) = self.armed.iter().position(waits) else { return };
        let fault = self.armed.remove(place);
        if let Fault::At { after_us, .. } = self.plan.faults[fault].1 {
            self.act_at(self.now + after_us, Act::Sprung { fault, node: n });
        }
    }

    pub(super) fn spring(&mut self, fault: usize, n: u8) {
        let Fault::At { then, .. } = self.plan.faults[fault].1 else { return };
        if self.is_healed() {
            return;
        }
        trace!(self, "fault at segd-{}: {then:?}", n + 1);
        match then {
            Then::Crash { down_us } => self.crash(Proc::Segd(n), down_us),
            Then::Pause { for_us } => self.pause(Proc::Segd(n), for_us),
            Then::PowerLoss { down_us } => self.lose_power(down_us),
            Then::Leaderless { for_us } => {
                if let Some(leader) = self.metad.leader {
                    self.depose(leader, 50, for_us, 1);
                }
            }
        }
    }

    /// Again and again, where it is to come back: no node stays drained for good.
    pub(super) fn ask_drain(&mut self, n: u8, drain: bool) {
        let node = super::links::node_id(n);
        let is_draining = self.metad.meta.node(node).is_some_and(|view| view.state == NodeState::Draining);
        if is_draining == drain {
            return;
        }
        if let Some(leader) = self.metad.leader {
            self.ask(Proc::Client(0), leader, Ask::Admin(Admin::DrainNode { node, drain }));
        }
        if !drain {
            self.act_at(self.now + 200 * MS, Act::Drain { node: n, drain });
        }
    }

    /// An operator's roll. Whether it gets through does not matter.
    pub(super) fn ask_roll(&mut self) {
        let request = Admin::RollTopic { name: super::client::TOPIC.to_owned(), range_index: None };
        if let Some(leader) = self.metad.leader {
            self.ask(Proc::Client(0), leader, Ask::Admin(request));
        }
    }
}
