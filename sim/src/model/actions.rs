//! What may happen in a state. Messages that change nothing where they arrive are no steps; the checker drops them.

use super::config::Config;
use super::layout::{EPOCHS, M, N, P_NODE, SITES, SPARE, START, agent_node};
use super::message::Msg;
use super::site::Entry;
use super::step::{Action, To};
use super::world::World;
use seam_wire::{Epoch, SegmentId};
use segd_core::primary::Phase;
use segd_core::traps::Trap;

pub fn actions(config: &Config, trap: Trap, w: &World, out: &mut Vec<Action>) {
    writer(config, w, out);
    journals(config, w, out);
    w.net.iter().for_each(|msg| deliveries(config, w, msg, out));
    successors(config, w, out);
    metad(config, w, out);
    faults(trap, w, out);
}

fn writer(config: &Config, w: &World, out: &mut Vec<Action>) {
    let Some(writer) = &w.writer else { return };
    match writer.machine.phase() {
        Phase::Open => {
            if writer.machine.assigned() < START.plus(config.records) {
                out.push(Action::Write);
            }
            if config.planned && writer.machine.may_switch() && writer.handoff.best(true).is_some() {
                out.push(Action::Switch);
            }
        }
        Phase::Switched(_) | Phase::Decided(_) => {
            if !writer.begin_sent {
                out.push(Action::Begin);
            }
        }
        Phase::Opening | Phase::Ready | Phase::Over => {}
    }
}

fn journals(config: &Config, w: &World, out: &mut Vec<Action>) {
    for node in SITES {
        let journal = &w.site(node).journal;
        if !journal.is_empty() {
            out.push(Action::Synced { node, nth: 0 });
        }
        if config.unordered {
            let promise = journal.iter().position(|entry| matches!(entry, Entry::Promise { .. }));
            out.extend(promise.filter(|nth| *nth > 0).map(|nth| Action::Synced { node, nth }));
        }
    }
}

fn deliveries(config: &Config, w: &World, msg: Msg, out: &mut Vec<Action>) {
    let mut to = |to: To| out.push(Action::Deliver { msg, to });
    match msg {
        Msg::Replicate { .. } | Msg::Fence { .. } | Msg::Decided { .. } => {
            SITES.iter().for_each(|node| to(To::Site(*node)));
        }
        Msg::Stored { epoch: Epoch::PRIMARY, .. } => to(To::Writer),
        Msg::Stored { epoch, .. } | Msg::Promised { epoch, .. } => to(To::Agent(epoch)),
        Msg::SealHeld { seal, .. } => to(To::Successor(seal.next)),
        Msg::Begin { segment, .. } => to(To::Successor(segment)),
        // Once decided, metad answers the same or refuses: asked again only where lateness itself is the subject.
        Msg::Sealed { segment, .. } => {
            if !config.eager || w.facts.decision(segment).is_none() {
                to(To::Metad);
            }
        }
        Msg::Recovered { .. } => {
            if !config.eager || w.facts.decided.is_none() {
                to(To::Metad);
            }
        }
        Msg::Released { .. } => {
            if !w.facts.m_is_gone {
                to(To::Metad);
            }
        }
        Msg::Recorded { segment, .. } => {
            if segment == N {
                to(To::Writer);
                if config.followers_hear {
                    SITES.iter().for_each(|node| to(To::Site(*node)));
                }
            }
            let planned = followers_of(config, segment).filter(|id| [M, SPARE].contains(id));
            planned.for_each(|segment| to(To::Successor(segment)));
        }
        Msg::SpareReady | Msg::ReleaseAsked { .. } => to(To::Writer),
        Msg::Reclaimed { segment } => {
            to(To::Writer);
            to(To::Successor(segment));
        }
    }
}

/// Segments prepared to follow `segment`.
fn followers_of(config: &Config, segment: SegmentId) -> impl Iterator<Item = SegmentId> + use<> {
    let layout = config.layout;
    let candidates = (1..=EPOCHS as u64).map(move |epoch| layout.candidate(Epoch(epoch)));
    let spare = layout.has_spare().then_some(SPARE);
    [M].into_iter().chain(spare).chain(candidates).filter(move |id| layout.spec(*id).prior == Some(segment))
}

fn successors(config: &Config, w: &World, out: &mut Vec<Action>) {
    for segment in followers_of(config, N).chain(followers_of(config, M)) {
        let Some(machine) = &w.successors[config.layout.slot(segment)] else { continue };
        if machine.phase() != Phase::Open {
            continue;
        }
        if machine.start() == Some(machine.assigned()) {
            out.push(Action::SuccessorWrites(segment));
        }
        if config.layout.chain && segment == M && machine.may_switch() {
            out.push(Action::SuccessorSwitches);
        }
        if config.retry && segment == M && machine.start().is_some_and(|start| start > START) {
            out.push(Action::Retry);
        }
    }
}

fn metad(config: &Config, w: &World, out: &mut Vec<Action>) {
    if w.facts.decided.is_some() {
        return;
    }
    let last = w.facts.epoch;
    let last_fell = last > Epoch::PRIMARY && w.agent(last).is_none();
    // One more after a disk is lost: it may have answered the agent before, and hold alone what the agent looks for.
    let epochs = config.epochs + u64::from(config.lost_disks - w.lost_disks);
    if (last.0 < epochs || last_fell) && (last.0 as usize) < EPOCHS {
        out.push(Action::Appoint);
    }
    let waits = |epoch: &Epoch| w.agent(*epoch).is_some_and(|a| a.decision().is_some() && a.waits_for_silent());
    out.extend((1..=EPOCHS as u64).map(Epoch).filter(waits).map(Action::GiveUp));
    if config.layout.release && !w.facts.release_asked {
        out.push(Action::AskRelease);
    }
}

fn faults(trap: Trap, w: &World, out: &mut Vec<Action>) {
    for node in SITES {
        let site = w.site(node);
        let hosts = (node == P_NODE && w.writer.is_some())
            || (1..=EPOCHS as u64).map(Epoch).any(|epoch| w.agent(epoch).is_some() && agent_node(epoch) == node);
        // A restart that takes nothing with it is no event.
        if w.crashes > 0 && !site.lost && (hosts || !site.journal.is_empty()) {
            out.extend((0..=site.journal.len()).map(|kept| Action::Crash { node, kept }));
        }
        if w.lost_disks > 0 && !site.lost {
            out.push(Action::LoseDisk { node });
        }
    }
    if trap == Trap::V5AgentResumes {
        let fell = |epoch: &Epoch| w.fallen & (1 << epoch.0) != 0 && *epoch == w.facts.epoch;
        out.extend((1..=EPOCHS as u64).map(Epoch).filter(fell).map(Action::AgentResumes));
    }
}
