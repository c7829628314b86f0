//! The end of a run: faults stop, everything is made whole, and then everything must come to rest: every append resolved,
//! every tail at the end, every roll finished, no candidate left over. Last, all is read once more and compared.

use super::World;
use super::event::{Act, Proc};
use super::trace::trace;
use seam_wire::meta::SegmentState;
use seam_wire::{Offset, SegmentId};
use segd_core::primary::Phase;

/// How often the world is looked at after the healing.
const LOOK_EVERY_US: u64 = 50_000;

#[derive(Default)]
pub struct Settle {
    healed_at: Option<u64>,
    probing: bool,
    reading: bool,
}

impl World {
    pub(super) fn heal(&mut self) {
        trace!(self, "heal");
        self.net.heal();
        self.release_stalled();
        self.metad.slow_by_us = 0;
        self.armed.clear();
        for who in self.plan.sizes.procs() {
            if self.state(who).paused {
                self.resume(who);
            }
            if !self.state(who).up {
                self.start(who);
            }
            if let Proc::Segd(n) = who {
                self.ask_drain(n, false);
                if self.segd(n).disk_failed {
                    self.crash(who, 1);
                    self.lose_disk(n);
                } else if self.segd(n).journal_failed {
                    self.crash(who, 1);
                }
                let segd = self.segd(n);
                segd.slow = 1;
                segd.dies_after = None;
            }
        }
        if self.metad.leader.is_none() {
            let term = self.metad.term;
            self.act_at(self.now + 1, Act::Elect { term });
        }
        self.settle.healed_at = Some(self.now);
        self.act_at(self.now + LOOK_EVERY_US, Act::Look);
    }

    pub(super) fn is_healed(&self) -> bool {
        self.settle.healed_at.is_some()
    }

    pub(super) fn look(&mut self) {
        let healed_at = self.settle.healed_at.unwrap_or(self.now);
        let missing = self.what_is_missing();
        if missing.is_empty() && self.settle.reading {
            return self.finish();
        }
        assert!(self.now - healed_at < self.plan.settle_us, "liveness: {missing}");
        // A while for what was broken to be noticed: the probes are to be sent into a cluster that has settled.
        let appended = self.producers.iter().all(|producer| producer.is_done());
        if !self.settle.probing && missing.is_empty() && appended {
            self.settle.probing = true;
            self.begin_probes();
        } else if self.settle.probing && !self.settle.reading && missing.is_empty() {
            self.settle.reading = true;
            self.see_readers();
            for range in 0..self.plan.topic.ranges {
                if let Some(consumer) = self.consumer_for(range) {
                    self.oracle.begins_anew(consumer);
                    self.begin_full_read(consumer, range);
                }
            }
        }
        self.act_at(self.now + LOOK_EVERY_US, Act::Look);
    }

    /// A range's own reader for the full read.
    fn consumer_for(&self, range: u32) -> Option<u8> {
        let index = self.consumers.iter().position(|consumer| consumer.range_index == range)?;
        u8::try_from(index).ok()
    }

    /// What has not come to rest, in words; empty when all has.
    pub(super) fn what_is_missing(&self) -> String {
        let mut missing = Vec::new();
        let Some(topic) = self.metad.meta.topic_named(super::client::TOPIC) else { return "the topic".to_owned() };
        let done = self.producers.iter().filter(|producer| producer.is_done()).count();
        if done < self.producers.len() {
            missing.push(format!("{done} of {} producers have all outcomes", self.producers.len()));
        }
        for (index, range) in topic.ranges.iter().enumerate() {
            let head = self.metad.meta.range(*range).and_then(|range| range.head);
            let end = head.and_then(|head| self.committed_end(head));
            let Some((head, end)) = head.zip(end) else {
                missing.push(format!("{range} has no head that writes: {head:?}"));
                continue;
            };
            for (n, consumer) in self.consumers.iter().enumerate().filter(|(_, c)| c.range_index as usize == index) {
                let reached = consumer.next_offset().is_some_and(|next| next >= end);
                let read = consumer.finished || !self.settle.reading || !consumer.is_full_read();
                if !reached || !read {
                    missing.push(format!("consumer {n} is at {:?} of {end} in {range}", consumer.next_offset()));
                }
            }
            self.note_candidates(*range, head, &mut missing);
        }
        self.note_leftovers(&mut missing);
        if self.metad.leader.is_none() {
            missing.push("metad has no leader".to_owned());
        }
        let waits = self.metad.waits();
        if waits.recoveries + waits.paced + waits.proposals > 0 {
            missing.push(format!("metad waits: {waits:?}"));
        }
        missing.join("; ")
    }

    /// The committed end of an open segment, at its primary; all it assigned must be committed.
    fn committed_end(&self, head: SegmentId) -> Option<Offset> {
        let view = self.metad.meta.segment(head)?;
        let node = &self.segds[usize::from(super::links::index_of(view.spec.primary()))].node;
        let primary = node.as_ref()?.primary(head)?;
        let at_rest = primary.phase() == Phase::Open && primary.committed() == Some(primary.assigned());
        primary.committed().filter(|_| at_rest)
    }

    fn note_candidates(&self, range: seam_wire::RangeId, head: SegmentId, missing: &mut Vec<String>) {
        for id in self.metad.meta.candidates(range) {
            let view = self.metad.meta.segment(id).expect("candidates exist");
            // One that a new disk may not open stays planned until the next roll wants a successor.
            let lost = |node: &seam_wire::NodeId| {
                self.segds[usize::from(super::links::index_of(*node))].disk.founded > Some(id)
            };
            let placed = match view.state {
                SegmentState::Ready { .. } => true,
                SegmentState::Planned => view.spec.replicas.iter().any(lost),
                _ => false,
            };
            let standing = view.spec.prior == Some(head) && placed;
            if !standing {
                missing.push(format!("{id} of {range}, after {:?}, is {:?}", view.spec.prior, view.state));
            }
        }
        if let Some(recovery) = self.metad.meta.segment(head).and_then(|view| view.recovery) {
            missing.push(format!("{head} is being recovered: {recovery:?}"));
        }
    }

    /// R10: what metad gave up is gone from every disk, those of nodes that were away too.
    fn note_leftovers(&self, missing: &mut Vec<String>) {
        missing.extend(self.metad.meta.reclaiming().map(|(id, nodes)| format!("{id} is still on {nodes:?}")));
        for segd in &self.segds {
            let left = segd.disk.segments().into_iter().filter(|id| self.metad.meta.has_left(*id));
            missing.extend(left.map(|id| format!("{id} is gone, and {} has it", segd.id)));
        }
    }

    fn finish(&mut self) {
        for range in 0..self.plan.topic.ranges {
            if let Some(consumer) = self.consumer_for(range) {
                self.oracle.check_full_read(consumer, range);
            }
        }
        self.check_copies();
        self.check_replay();
        for segd in &self.segds {
            if let Some(node) = &segd.node {
                node.assert_invariants();
            }
        }
        self.metad.meta.assert_invariants();
        self.over = true;
    }

    /// I3: of a decided segment, every replica holds the same bytes at the same offsets, as far as it holds them; R1: all
    /// of it is on R - A + 1 of them at least.
    fn check_copies(&self) {
        let Some(topic) = self.metad.meta.topic_named(super::client::TOPIC) else { return };
        for range in topic.ranges {
            for id in self.metad.meta.chain(range) {
                let view = self.metad.meta.segment(id).expect("the chain exists");
                let SegmentState::Sealed { start, end, .. } = view.state else { continue };
                let mut reference = std::collections::BTreeMap::new();
                let mut full = 0;
                for node in &view.spec.replicas {
                    let segd = &self.segds[usize::from(super::links::index_of(*node))];
                    let disk = &segd.disk;
                    full += usize::from(disk.synced_end(id) >= end || start == end || segd.lost_through >= Some(id));
                    for (base, bytes) in disk.batches(id).filter(|(base, _)| *base < end) {
                        let first = reference.entry(base).or_insert_with(|| bytes.clone());
                        assert!(first == bytes, "I3: {node} has other bytes at {base} of {id}");
                    }
                }
                let wanted = view.spec.recovery_quorum().min(usize::from(view.spec.ack_quorum));
                assert!(full >= wanted, "R1: {id} is whole on {full} disks only: {view:?}");
            }
        }
    }

    pub(super) fn finish_stats(&mut self) {
        let counters = self.metad.meta.counters();
        self.stats.candidates = counters.made;
        self.stats.reclaimed = counters.reclaimed;
        self.stats.trims = self.metad.trims();
        let Some(topic) = self.metad.meta.topic_named(super::client::TOPIC) else { return };
        for range in topic.ranges {
            for record in self.metad.meta.history(range, 0) {
                self.stats.rolls += 1;
                self.stats.unplanned_rolls += u64::from(record.by_recovery);
                self.stats.empty_segments += u64::from(record.start == record.end);
            }
        }
    }
}
