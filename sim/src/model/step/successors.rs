//! The primaries of those that may follow: begun by their binder, by votes, or by metad; writing behind their gates.

use super::Step;
use crate::model::ghost::Rule;
use crate::model::layout::{M, N, SPARE, START};
use crate::model::message::Msg;
use seam_wire::meta::Binder;
use seam_wire::msg::{Decision, SealEntry};
use seam_wire::{Epoch, Offset, ProducerId, SegmentId};
use segd_core::primary::{Phase, Primary};
use segd_core::replica::{Accept, WriteRequest};
use segd_core::table::{Claim, ProducerTable, Verdict};
use segd_core::traps::Trap;

impl Step<'_> {
    fn successor_mut(&mut self, segment: SegmentId) -> Option<&mut crate::model::shared::Shared<Primary>> {
        self.w.successors[self.config.layout.slot(segment)].as_mut()
    }

    pub(super) fn tell_successor(&mut self, segment: SegmentId, msg: Msg) {
        match msg {
            Msg::Begin { by, end, .. } => self.begin(segment, by, end),
            Msg::SealHeld { node, seal, .. } => {
                let Some(successor) = self.successor_mut(segment) else { return };
                successor.edit(|machine| machine.vote(node, seal));
                self.begin_as_known(segment, seal.end);
            }
            Msg::Recorded { decision, .. } => {
                let Some(successor) = self.successor_mut(segment) else { return };
                successor.edit(|machine| machine.prior_decided(decision));
                if decision.next == segment {
                    self.begin_as_known(segment, decision.end);
                }
            }
            Msg::Reclaimed { .. } => {
                let Some(successor) = self.successor_mut(segment) else { return };
                successor.edit(Primary::end);
            }
            other => unreachable!("a successor is not told {other:?}"),
        }
        self.look_at_successor(segment);
    }

    fn begin(&mut self, segment: SegmentId, by: Binder, end: Offset) {
        let spec = self.config.layout.spec(segment);
        let Some(successor) = self.successor_mut(segment) else { return };
        if successor.start().is_some() {
            return;
        }
        let begun = successor.edit(|machine| machine.begin(spec.prior, by, end));
        if begun.is_ok() && by != spec.binder {
            self.breaks(Rule::R13);
        }
        // An append was held for it; M's may come later in a chain, where its end counts.
        if begun == Ok(true) && self.config.eager && !(self.config.layout.chain && segment == M) {
            self.successor_writes(segment);
        }
    }

    /// The log itself, or metad, says where it starts: as good as its binder's word.
    fn begin_as_known(&mut self, segment: SegmentId, start: Offset) {
        let binder = self.config.layout.spec(segment).binder;
        self.begin(segment, binder, start);
    }

    pub(super) fn successor_writes(&mut self, segment: SegmentId) {
        let spec = self.config.layout.spec(segment);
        let Some(successor) = self.successor_mut(segment) else { return };
        let end = successor.edit(|machine| machine.assign(1)).plus(1);
        if segment == M && self.config.layout.chain {
            self.store_m(end, None);
        } else {
            let quorum = spec.replicas.iter().take(usize::from(spec.ack_quorum));
            let Some(successor) = self.successor_mut(segment) else { return };
            successor.edit(|machine| quorum.for_each(|node| machine.stored(*node, end, false)));
        }
        self.look_at_successor(segment);
    }

    pub(super) fn successor_switches(&mut self) {
        let Some(successor) = self.successor_mut(M) else { return };
        let open = successor.gate().is_open();
        let seal = successor.edit(|machine| machine.switch(SPARE, 0));
        if !open {
            self.breaks(Rule::R15);
        }
        self.store_m(seal.end, Some(seal));
        self.send(Msg::Begin { segment: SPARE, by: Binder::Primary, end: seal.end });
        self.look_at_successor(M);
    }

    /// A of M's replicas hold it: they fail in no configuration, so they are asked in one step.
    fn store_m(&mut self, end: Offset, seal: Option<SealEntry>) {
        let nodes = self.config.layout.spec(M).replicas;
        let Some(start) = self.successor_mut(M).and_then(|successor| successor.start()) else { return };
        let Some(replicas) = &mut self.w.m_replicas else { return };
        let request = WriteRequest { epoch: Epoch::PRIMARY, start, base: start, next: end, seal };
        let mut said = Vec::new();
        replicas.edit(|replicas| {
            for (replica, node) in replicas.iter_mut().zip(nodes) {
                if let Accept::Write { to, seal, .. } = replica.accept(request) {
                    let stored = replica.persisted(Epoch::PRIMARY, to, seal.is_some());
                    said.push((node, stored, seal.and_then(|_| replica.vote())));
                }
            }
        });
        for (node, stored, vote) in said {
            let Some(successor) = self.successor_mut(M) else { return };
            if let Some(stored) = stored {
                successor.edit(|machine| machine.stored(node, stored.durable_end, stored.sealed));
            }
            if let Some(seal) = vote {
                self.ghost(|ghost| {
                    ghost.votes.insert((M, node, seal));
                });
                self.send(Msg::SealHeld { prior: M, node, seal });
            }
        }
    }

    /// What it binds, believes and acks.
    fn look_at_successor(&mut self, segment: SegmentId) {
        let prior = self.config.layout.spec(segment).prior.unwrap_or(N);
        let Some(successor) = self.successor_mut(segment) else { return };
        let Some(start) = successor.start() else { return };
        let over = successor.phase() == Phase::Over;
        let open = successor.gate().is_open() && !over;
        let committed = successor.committed().filter(|_| !over).unwrap_or(start);
        let decision = successor.decision();
        if !self.w.ghost.starts.contains(&(segment, start)) {
            self.ghost(|ghost| {
                ghost.starts.insert((segment, start));
            });
        }
        if open {
            self.claims_decided(prior, Decision { end: start, next: segment });
        }
        if committed > start && !self.w.ghost.acked.contains(&(segment, start, 0)) {
            let lawful = self.is_lawful(prior, Decision { end: start, next: segment });
            self.ghost(|ghost| {
                ghost.acked.insert((segment, start, 0));
                if !lawful {
                    ghost.breaks(Rule::R4);
                }
            });
        }
        if let Some(decision) = decision {
            self.claims_decided(segment, decision);
            self.send(Msg::Sealed { segment, decision });
        }
    }

    /// By metad's record, or by A lawful votes; and so for every link before it.
    fn is_lawful(&self, segment: SegmentId, decision: Decision) -> bool {
        let needed = usize::from(self.config.layout.ack_quorum);
        let voted = self.w.ghost.voters(segment, decision) >= needed;
        let here = self.w.facts.decision(segment) == Some(decision) || voted;
        let before = segment != M || {
            let start = self.w.successors[self.config.layout.slot(M)].as_ref().and_then(|m| m.start());
            start.is_some_and(|start| self.is_lawful(N, Decision { end: start, next: M }))
        };
        here && before
    }

    /// R14: a duplicate is answered only once its original is committed. M's table is N's, handed over with the begin.
    pub(super) fn retry(&mut self) {
        let Some(m) = &self.w.successors[self.config.layout.slot(M)] else { return };
        let Some(start) = m.start() else { return };
        let mut table = ProducerTable::default();
        let claim = |offset: Offset| Claim {
            id: ProducerId(1),
            epoch: 0,
            base_sequence: START.until(offset) as i32,
            records: 1,
        };
        (START.0..start.0).for_each(|offset| table.record(&claim(Offset(offset)), Offset(offset)));
        let last = Offset(start.0 - 1);
        let Verdict::Duplicate { base_offset } = table.judge(&claim(last)) else { return };
        let committed = m.committed().unwrap_or_default();
        let may_answer = m.gate().is_open() && base_offset.plus(1) <= committed;
        if may_answer || self.trap == Trap::P2EarlyDuplicate {
            if !self.is_lawful(N, Decision { end: start, next: M }) {
                self.breaks(Rule::R14);
            }
            let record = super::writer::record_name(0, base_offset);
            self.ack(base_offset, record, 0);
        }
    }
}
