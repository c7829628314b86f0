//! N's primary: writes, switches, begins its successor, hears acks and metad.

use super::Step;
use crate::model::ghost::Rule;
use crate::model::layout::{N, P_NODE, SPARE, START};
use crate::model::message::{Msg, Records};
use crate::model::world::tell_candidate;
use seam_wire::meta::Binder;
use seam_wire::msg::Decision;
use seam_wire::{Epoch, Offset};
use segd_core::primary::Phase;

/// A record's name: where it stands, and in which life it was written.
pub(super) fn record_name(life: u8, offset: Offset) -> u8 {
    START.until(offset) as u8 | life << 7
}

impl Step<'_> {
    pub(super) fn writer_writes(&mut self) {
        let Some(writer) = &mut self.w.writer else { return };
        let (base, record) = writer.edit(|writer| {
            let base = writer.machine.assign(1);
            let record = record_name(writer.life, base);
            writer.log.push(record);
            (base, record)
        });
        let mut records = Records::default();
        records.push(record);
        self.send(Msg::Replicate { epoch: Epoch::PRIMARY, base, records, seal: None });
        self.replicate(P_NODE, Epoch::PRIMARY, base, records, None);
        self.look_at_writer();
    }

    pub(super) fn writer_switches(&mut self) {
        let Some(writer) = &mut self.w.writer else { return };
        let Some(next) = writer.handoff.best(true) else { return };
        let gate_open = writer.machine.gate().is_open();
        let seal = writer.edit(|writer| {
            writer.handoff.choose(next);
            writer.machine.switch(next, 0)
        });
        let last = writer.log.names().last().copied();
        if !gate_open {
            self.breaks(Rule::R15);
        }
        let none = Records::default();
        self.send(Msg::Replicate { epoch: Epoch::PRIMARY, base: seal.end, records: none, seal: Some(seal) });
        if let Some(last) = last.filter(|_| self.config.all_frames) {
            let mut records = none;
            records.push(last);
            let base = Offset(seal.end.0 - 1);
            self.send(Msg::Replicate { epoch: Epoch::PRIMARY, base, records, seal: Some(seal) });
        }
        self.replicate(P_NODE, Epoch::PRIMARY, seal.end, none, Some(seal));
        self.look_at_writer();
    }

    pub(super) fn writer_begins(&mut self) {
        let Some(writer) = &mut self.w.writer else { return };
        let (Phase::Switched(seal) | Phase::Decided(seal)) = writer.machine.phase() else { return };
        writer.edit(|writer| writer.begin_sent = true);
        self.send(Msg::Begin { segment: seal.next, by: Binder::Primary, end: seal.end });
    }

    pub(super) fn tell_writer(&mut self, msg: Msg) {
        let layout = self.config.layout;
        let Some(writer) = &mut self.w.writer else { return };
        if writer.machine.phase() == Phase::Over {
            return;
        }
        match msg {
            Msg::Stored { node, end, sealed, .. } => {
                writer.edit(|writer| writer.machine.stored(node, end, sealed));
                self.look_at_writer();
            }
            Msg::Recorded { segment: N, decision } => self.writer_settles(decision),
            Msg::SpareReady => writer.edit(|writer| tell_candidate(&mut writer.handoff, &layout, SPARE)),
            Msg::ReleaseAsked { segment } => {
                if writer.edit(|writer| writer.handoff.release(segment)) {
                    self.send(Msg::Released { segment });
                }
            }
            Msg::Reclaimed { segment } => writer.edit(|writer| writer.handoff.remove(segment)),
            other => unreachable!("a primary is not told {other:?}"),
        }
    }

    /// metad decided N. Its own choice: it follows its own quorum. Another's: what it assigned below the end is in the log.
    fn writer_settles(&mut self, decision: Decision) {
        let Some(writer) = &mut self.w.writer else { return };
        if let Phase::Switched(seal) | Phase::Decided(seal) = writer.machine.phase()
            && (seal.end, seal.next) == (decision.end, decision.next)
        {
            return;
        }
        let through = writer.edit(|writer| writer.machine.settle(decision));
        let log = writer.log;
        for (place, record) in log.names().iter().enumerate() {
            let offset = START.plus(place as u64);
            if offset < through {
                self.ack(offset, *record, usize::from(self.config.layout.ack_quorum));
            }
        }
    }

    pub(super) fn end_writer(&mut self) {
        if let Some(writer) = &mut self.w.writer {
            writer.edit(|writer| writer.machine.end());
        }
    }

    /// Acks what is committed; shows, tells and reports an end that is decided.
    pub(super) fn look_at_writer(&mut self) {
        let Some(writer) = &self.w.writer else { return };
        if writer.machine.phase() == Phase::Over {
            return;
        }
        let (log, decision) = (writer.log, writer.machine.decision());
        let committed = writer.machine.committed().unwrap_or(START);
        for (place, record) in log.names().iter().enumerate() {
            let offset = START.plus(place as u64);
            if offset < committed {
                self.ack(offset, *record, usize::from(self.config.layout.ack_quorum));
            }
        }
        let Some(decision) = decision else { return };
        if !self.w.ghost.shown.contains(&(N, decision)) {
            self.ghost(|ghost| {
                ghost.shown.insert((N, decision));
            });
        }
        self.claims_decided(N, decision);
        self.send(Msg::Sealed { segment: N, decision });
        if self.config.followers_hear {
            self.send(Msg::Decided { decision });
            self.tell_site(P_NODE, Msg::Decided { decision });
        }
    }
}
