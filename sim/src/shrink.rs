//! Makes a plan that breaks a rule small: takes out whole classes of faults, single faults, clients, nodes and time, for as long
//! as the same rule is broken. What is left out leaves the luck of the rest alone, since every process and every way between
//! two has its own numbers.

use crate::campaign::run_plan;
use crate::scenario::rule_of;
use crate::world::event::Proc;
use crate::world::fault::Fault;
use crate::world::plan::Plan;
use crate::world::trace::TraceMode;
use std::mem::discriminant;

/// Runs at most.
const TRIES: usize = 1_500;
const MS: u64 = 1_000;

/// What was reached.
pub struct Shrunk {
    pub plan: Plan,
    pub what: String,
    /// Runs it took.
    pub tries: usize,
}

/// `None`: the plan breaks no rule.
pub fn shrink(plan: Plan) -> Option<Shrunk> {
    let what = run_plan(plan.clone(), TraceMode::Off).err()?.what;
    let rule = rule_of(&what);
    let mut shrunk = Shrunk { plan, what, tries: 1 };
    loop {
        let mut smaller = false;
        for step in [classes, single_faults, calmer, clients, nodes, time] {
            while shrunk.take_first(step, &rule) {
                smaller = true;
            }
        }
        if !smaller || shrunk.tries >= TRIES {
            return Some(shrunk);
        }
    }
}

impl Shrunk {
    /// Takes the first of the step's plans that breaks the rule too.
    fn take_first(&mut self, step: fn(&Plan) -> Vec<Plan>, rule: &str) -> bool {
        for plan in step(&self.plan) {
            if self.tries >= TRIES {
                return false;
            }
            self.tries += 1;
            if let Err(violation) = run_plan(plan.clone(), TraceMode::Off)
                && rule_of(&violation.what) == rule
            {
                (self.plan, self.what) = (plan, violation.what);
                return true;
            }
        }
        false
    }
}

fn changed(plan: &Plan, change: impl FnOnce(&mut Plan)) -> Plan {
    let mut plan = plan.clone();
    change(&mut plan);
    plan
}

/// Without one kind of fault.
fn classes(plan: &Plan) -> Vec<Plan> {
    let mut kinds = Vec::new();
    for (_, fault) in &plan.faults {
        let kind = discriminant(fault);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let without = |kind| changed(plan, |plan| plan.faults.retain(|(_, fault)| discriminant(fault) != kind));
    kinds.into_iter().map(without).collect()
}

fn single_faults(plan: &Plan) -> Vec<Plan> {
    (0..plan.faults.len()).map(|index| changed(plan, |plan| drop(plan.faults.remove(index)))).collect()
}

/// Without what makes the network, the disks, the clocks, the readers and the topic less than plain.
fn calmer(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut unless = |plain: bool, change: fn(&mut Plan)| {
        if !plain {
            plans.push(changed(plan, change));
        }
    };
    unless(plan.drift.is_empty(), |plan| plan.drift.clear());
    unless(plan.net.ordered, |plan| {
        plan.net.ordered = true;
        plan.net.loss_ppm = 0;
        plan.net.dup_ppm = 0;
    });
    unless(plan.net.break_ppm == 0, |plan| plan.net.break_ppm = 0);
    unless(plan.net.slow_ppm == 0, |plan| plan.net.slow_ppm = 0);
    unless(plan.net.jitter_us == 0, |plan| plan.net.jitter_us = 0);
    unless(plan.disk.slow_ppm == 0, |plan| plan.disk.slow_ppm = 0);
    unless(!plan.disk.sectors, |plan| plan.disk.sectors = false);
    unless(!plan.metad.coalesce, |plan| plan.metad.coalesce = false);
    unless(plan.metad.retained >= 4096, |plan| plan.metad.retained = 4096);
    unless(plan.candidates >= 4, |plan| plan.candidates = 4);
    unless(plan.load.tail_step_us == 0, |plan| plan.load.tail_step_us = 0);
    unless(plan.load.rolls_by_hand == 0, |plan| plan.load.rolls_by_hand = 0);
    unless(plan.load.max_records == 1, |plan| plan.load.max_records = 1);
    unless(plan.load.in_flight == 1, |plan| plan.load.in_flight = 1);
    unless(plan.topic.max_age_ms == 0, |plan| plan.topic.max_age_ms = 0);
    unless(plan.topic.retention_bytes == 0 && plan.topic.retention_ms == 0, |plan| {
        plan.topic.retention_bytes = 0;
        plan.topic.retention_ms = 0;
    });
    plans
}

fn clients(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (producers, consumers) in [(1, plan.sizes.consumers), (plan.sizes.producers, 1)] {
        if (producers, consumers) != (plan.sizes.producers, plan.sizes.consumers) {
            plans.push(changed(plan, |plan| {
                plan.sizes.producers = producers;
                plan.sizes.consumers = consumers;
                plan.drift.clear();
            }));
        }
    }
    if plan.topic.ranges > 1 {
        plans.push(changed(plan, |plan| plan.topic.ranges = 1));
    }
    plans
}

/// With the last node of a kind away, and what was to befall it.
fn nodes(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let sizes = plan.sizes;
    let mut without = |gone: Proc, change: fn(&mut Plan)| {
        plans.push(changed(plan, |plan| {
            change(plan);
            plan.drift.clear();
            for (_, fault) in &mut plan.faults {
                if let Fault::Cut { from, to, .. } = fault {
                    from.retain(|who| *who != gone);
                    to.retain(|who| *who != gone);
                }
            }
            plan.faults.retain(|(_, fault)| !strikes(fault, gone));
        }));
    };
    if sizes.segds > plan.topic.replicas {
        without(Proc::Segd(sizes.segds - 1), |plan| plan.sizes.segds -= 1);
    }
    if sizes.routers > 1 {
        without(Proc::Router(sizes.routers - 1), |plan| plan.sizes.routers -= 1);
    }
    if sizes.metads > 1 {
        without(Proc::Metad(sizes.metads - 1), |plan| plan.sizes.metads -= 1);
    }
    plans
}

fn strikes(fault: &Fault, who: Proc) -> bool {
    match fault {
        Fault::Crash { who: struck, .. } | Fault::Pause { who: struck, .. } | Fault::BreakPipes { who: struck, .. } => {
            *struck == who
        }
        Fault::LoseDisk { node, .. }
        | Fault::FailDisk { node }
        | Fault::DiskError { node, .. }
        | Fault::Rot { node, .. }
        | Fault::Misdirect { node, .. }
        | Fault::Drain { node, .. }
        | Fault::SlowDisk { node, .. } => Proc::Segd(*node) == who,
        Fault::BreakLink { a, b } => Proc::Segd(*a) == who || Proc::Segd(*b) == who,
        Fault::At { .. }
        | Fault::Cut { .. }
        | Fault::PowerLoss { .. }
        | Fault::Leaderless { .. }
        | Fault::SlowMetad { .. } => false,
    }
}

/// Fewer batches, an earlier healing.
fn time(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    for batches in [plan.load.batches / 2, plan.load.batches * 3 / 4, plan.load.batches.saturating_sub(1)] {
        if batches > 0 && batches < plan.load.batches {
            plans.push(changed(plan, |plan| plan.load.batches = batches));
        }
    }
    if plan.load.probe_batches > 1 {
        plans.push(changed(plan, |plan| plan.load.probe_batches = 1));
    }
    let last = plan.faults.last().map_or(0, |(at, _)| *at);
    for heal_at_us in [last.max(300 * MS) + 10 * MS, plan.heal_at_us * 3 / 4] {
        if heal_at_us + 10 * MS < plan.heal_at_us {
            plans.push(changed(plan, |plan| {
                plan.heal_at_us = heal_at_us;
                plan.faults.retain(|(at, _)| *at < heal_at_us);
            }));
        }
    }
    plans
}
