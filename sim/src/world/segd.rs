//! A segd process around a real `Node`: carries its effects and keeps what the real shell keeps. Decides nothing.

use super::World;
use super::disk::Disk;
use super::event::{Act, Ask, Proc, What};
use super::links::{index_of, node_id};
use super::net::{Frame, PipeId};
use super::sectors::Stop;
use super::sometimes::Sometimes;
use super::tails::TailServe;
use super::trace::trace;
use super::watch::Watcher;
use metad_core::Answer;
use seam_wire::batch::BatchHeader;
use seam_wire::meta::SegmentState;
use seam_wire::msg::{Decision, FromSegd, Peer, ToSegd};
use seam_wire::topic::AckMode;
use seam_wire::{Incarnation, NodeId, Offset, SegmentId};
use segd_core::io::{Durability, Effect, Input, ReportId, StreamId};
use segd_core::node::Node;
use std::collections::BTreeMap;

/// What tails may see of a segment. Bounds only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub start: Option<Offset>,
    pub committed: Offset,
    pub decision: Option<Decision>,
    pub serves: bool,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "few calls are under way at once")]
pub enum Call {
    Register,
    Heartbeat,
    Report { id: ReportId, ask: Ask, tries: u8 },
}

pub struct Segd {
    pub id: NodeId,
    pub node: Option<Node>,
    pub disk: Disk,
    /// Its disk is so many times slower than planned.
    pub slow: u64,
    /// A sync failed: nothing more is written, until the disk is replaced by an empty one.
    pub disk_failed: bool,
    /// A write or a sync failed, of a disk that is good again when the process is started anew.
    pub journal_failed: bool,
    /// Its disk was lost when this was the youngest segment: what it held of it and of older ones is gone.
    pub lost_through: Option<SegmentId>,
    /// It ends after so many more effects.
    pub dies_after: Option<(usize, u64)>,
    pub shown: BTreeMap<SegmentId, Shown>,
    /// Where the log starts since each of these was trimmed.
    pub trimmed: BTreeMap<SegmentId, Offset>,
    pub tails: BTreeMap<PipeId, TailServe>,
    appends: BTreeMap<PipeId, (StreamId, SegmentId)>,
    pipes: BTreeMap<StreamId, PipeId>,
    next_stream: u64,
    calls: BTreeMap<u64, Call>,
    pub member: u8,
    pub registered: bool,
    /// The stream its heartbeats go on, and to which member.
    pub session: Option<(PipeId, u8)>,
    /// No heartbeat before this moment.
    pub beat_due: u64,
    pub watcher: Watcher,
}

impl Segd {
    pub fn new(n: u8) -> Self {
        Segd {
            id: node_id(n),
            node: None,
            disk: Disk::default(),
            slow: 1,
            disk_failed: false,
            journal_failed: false,
            lost_through: None,
            dies_after: None,
            shown: BTreeMap::new(),
            trimmed: BTreeMap::new(),
            tails: BTreeMap::new(),
            appends: BTreeMap::new(),
            pipes: BTreeMap::new(),
            next_stream: 0,
            calls: BTreeMap::new(),
            member: 0,
            registered: false,
            session: None,
            beat_due: 0,
            watcher: Watcher::default(),
        }
    }
}

impl World {
    pub(super) fn segd(&mut self, n: u8) -> &mut Segd {
        &mut self.segds[usize::from(n)]
    }

    pub(super) fn incarnation(&self, n: u8) -> Incarnation {
        Incarnation(u64::from(self.state(Proc::Segd(n)).life))
    }

    pub(super) fn start_segd(&mut self, n: u8) {
        let incarnation = self.incarnation(n);
        let settings = self.plan.segd.clone();
        let segd = self.segd(n);
        let restored = segd.disk.restore();
        let segments: Vec<SegmentId> = restored.iter().map(|replica| replica.spec.id).collect();
        segd.node = Some(Node::new(segd.id, incarnation, settings, segd.disk.founded, restored));
        for segment in segments {
            let epoch =
                self.segds[usize::from(n)].node.as_ref().and_then(|node| node.replica(segment)).map(|r| r.epoch());
            self.oracle.promises.restored(n, segment, epoch.unwrap_or_default());
        }
        // A replica that holds the decided end is served once metad's word, or the replica's own, is published.
        let me = Proc::Segd(n);
        self.at(self.now + 1, me, What::Beat);
        self.at(self.now + 1, me, What::Watch);
        for peer in (0..self.plan.sizes.segds).filter(|peer| *peer != n) {
            let at = self.now + self.dice(me).between(1, 2_000);
            self.act_at(at, Act::Connect { from: n, to: peer });
        }
    }

    pub(super) fn crash_segd(&mut self, n: u8) {
        self.see_segd_crash(n);
        for peer in (0..self.plan.sizes.segds).filter(|peer| *peer != n) {
            self.disconnect(peer, n);
            let own = self.net.link(n, peer);
            own.up = false;
            own.epoch += 1;
        }
        let unsynced = self.segd(n).disk.unsynced();
        let power_is_off = self.power_is_off;
        let dice = self.dice(Proc::Segd(n));
        let kept = dice.index(unsynced + 1);
        let stop = if dice.percent(50) || power_is_off { Stop::PowerCut } else { Stop::Kill };
        let youngest = self.youngest();
        let replicated = self.plan.topic.ack == AckMode::Replicated;
        let segd = self.segd(n);
        if replicated {
            segd.lost_through = Some(youngest); // It does not know any more what it had acked.
        }
        let unusable = segd.disk.crash(stop, kept);
        let (id, slow, disk_failed, lost_through) = (segd.id, segd.slow, segd.disk_failed, segd.lost_through);
        let disk = std::mem::take(&mut segd.disk);
        *segd = Segd { disk, slow, disk_failed, lost_through, ..Segd::new(index_of(id)) };
        if let Some(refused) = unusable {
            self.stats.reached.hit(if refused { Sometimes::JournalRefuses } else { Sometimes::UnvouchedCut });
            self.lose_disk(n);
        }
    }

    pub(super) fn at_segd(&mut self, n: u8, what: What) {
        let me = Proc::Segd(n);
        match what {
            What::Wake => {
                self.state_mut(me).wake_at = None;
                let clock = self.clock(me);
                let due = self.segd(n).node.as_ref().and_then(Node::next_deadline);
                match due {
                    Some(at) if at <= clock => self.segd_input(n, Input::Tick),
                    Some(_) | None => self.wake_at(me, due),
                }
            }
            What::Peer { from, link, segment, msg, payload } => {
                if self.peer_arrives(from, n, link) {
                    self.see_peer(n, segment, &msg);
                    trace!(self, "{me:?} <- {from} {segment} {msg:?} +{}", payload.len());
                    self.segd_input(n, Input::Peer { from, segment, msg, payload, trace: None });
                }
            }
            What::Founded(first) => {
                self.segd(n).disk.founded = Some(first);
                self.segd_input(n, Input::Founded { first });
            }
            What::PeerUp(node) => {
                trace!(self, "{me:?} link to {node} stands");
                self.segd_input(n, Input::PeerUp(node));
            }
            What::JournalFailed => self.journal_fails(n),
            What::Synced { .. } | What::Received if self.segd(n).disk_failed || self.segd(n).journal_failed => {}
            What::Synced { entries } => {
                match self.segd(n).disk.sync_done(entries) {
                    Ok(false) => {}
                    Ok(true) => self.start_sync(n),
                    Err(_) => return self.journal_fails(n),
                }
                self.tell_completed(n);
            }
            What::Received => self.tell_completed(n),
            What::ReadDone { token, base, next, payload } => {
                self.segd_input(n, Input::ReadDone { token, base, next, payload });
            }
            What::Frame { pipe, number, frame } => {
                if let Some(frame) = self.arrived(pipe, me, number, frame) {
                    self.segd_frame(n, pipe, frame);
                }
            }
            What::Broken { pipe } => self.segd_pipe_gone(n, pipe),
            What::Answer { call, answer } => self.segd_answer(n, call, answer),
            What::TailStep { pipe } => self.step_tail(n, pipe),
            What::Beat => self.beat(n),
            What::Watch => self.open_watch(me),
            What::Ask { .. } | What::Load => unreachable!("not for segd"),
        }
    }

    // -- the node

    pub(super) fn segd_input(&mut self, n: u8, input: Input) {
        let me = Proc::Segd(n);
        let clock = self.clock(me);
        let mut effects = std::mem::take(&mut self.outbox);
        let Some(node) = self.segds[usize::from(n)].node.as_mut() else { return };
        node.handle(clock, input, &mut effects);
        node.assert_invariants();
        let deadline = node.next_deadline();
        for effect in effects.drain(..) {
            if let Some((left, down_us)) = &mut self.segds[usize::from(n)].dies_after {
                if *left == 0 {
                    let down_us = *down_us;
                    self.crash(me, down_us);
                    break;
                }
                *left -= 1;
            }
            self.carry_out(n, effect);
        }
        self.outbox = effects;
        if self.state(me).up {
            self.wake_at(me, deadline);
        }
    }

    fn carry_out(&mut self, n: u8, effect: Effect) {
        let me = Proc::Segd(n);
        match effect {
            Effect::Persist { token, segment, writes, durability } => {
                trace!(self, "{me:?} persists {token:?} {segment}");
                let segd = self.segd(n);
                segd.shown.entry(segment).or_default();
                if segd.disk.write(token, segment, writes, durability) {
                    self.start_sync(n);
                }
                if durability == Durability::Received {
                    self.at(self.now + 20, me, What::Received);
                }
            }
            Effect::Found { first } => {
                let (least, most) = (self.plan.disk.sync_min_us, self.plan.disk.sync_max_us);
                let latency = self.dice(me).between(least, most);
                self.at(self.now + latency, me, What::Founded(first));
            }
            Effect::Read { token, segment, from, max_bytes } => {
                let (base, next, payload) = self.segd(n).disk.read(segment, from, None, max_bytes as usize);
                let at = self.now + self.dice(me).between(10, 2_000);
                self.at(at, me, What::ReadDone { token, base, next, payload });
            }
            Effect::Send { to, segment, msg, payload, trace: _ } => {
                self.check_promises(n, segment, &msg);
                self.send_peer(n, to, segment, msg, payload);
            }
            Effect::Reply { stream, reply, trace: _ } => self.reply(n, stream, reply),
            Effect::CloseStream { stream } => {
                if let Some(pipe) = self.segd(n).pipes.remove(&stream) {
                    self.segd(n).appends.remove(&pipe);
                    self.close(pipe, me);
                }
            }
            Effect::Publish { segment, start, committed, decision, serves } => {
                trace!(self, "{me:?} publishes {segment} {start:?}..{committed} {decision:?} serves {serves}");
                self.oracle.published(segment, start, decision);
                let shown = self.segd(n).shown.entry(segment).or_default();
                shown.start = shown.start.or(start);
                shown.committed = shown.committed.max(if serves { committed } else { Offset(0) });
                shown.decision = shown.decision.or(decision);
                shown.serves = serves;
                self.pump_tails(n, segment);
            }
            Effect::LogStart { range, start } => {
                let index = self.metad.meta.range(range).expect("ranges stay").index;
                self.oracle.told_log_start(index, start);
            }
            Effect::Forget { segment, log_start } => {
                trace!(self, "{me:?} forgets {segment}, the log starts at {log_start:?}");
                self.stats.trimmed_replicas += u64::from(log_start.is_some());
                let read = self.segd(n).tails.values().any(|tail| tail.segment == segment);
                self.stats.reached.hit_if(Sometimes::TrimUnderReader, read && log_start.is_some());
                let segd = self.segd(n);
                segd.shown.remove(&segment);
                segd.trimmed.extend(log_start.map(|start| (segment, start)));
                if segd.disk.forget(segment) {
                    self.start_sync(n);
                }
                self.pump_tails(n, segment);
            }
            Effect::Fresh { .. } | Effect::Step(_) => {}
            Effect::Report { id, report, trace: _ } => {
                trace!(self, "{me:?} reports {report:?}");
                let ask = Ask::Report { node: node_id(n), incarnation: self.incarnation(n), report };
                self.segd_call(n, Call::Report { id, ask: ask.clone(), tries: 0 }, ask);
            }
            Effect::Count(counter) => {
                self.stats.count(counter);
                self.see_counter(counter);
                self.look_for_moment(n, counter);
            }
            Effect::Note { segment, error } => trace!(self, "{me:?} notes {segment}: {error}"),
        }
    }

    fn check_promises(&mut self, n: u8, segment: SegmentId, msg: &Peer) {
        match msg {
            Peer::Promised { epoch, tail } => {
                let durable = self.segd(n).disk.promised(segment);
                // An agent knows the start, though a replica that stored no record may have forgotten it. Of what is no
                // segment of the chain any more its answer means nothing.
                let start = match self.metad.meta.segment(segment).map(|view| view.state) {
                    Some(SegmentState::Open { start } | SegmentState::Sealed { start, .. }) => start,
                    Some(_) | None => Offset(u64::MAX),
                };
                let end = tail.durable_end.max(start);
                self.oracle.promises.promised(n, segment, (*epoch, end), durable);
            }
            Peer::Stored { epoch, durable_end, .. } => {
                self.oracle.promises.stored(n, segment, *epoch, *durable_end);
            }
            _ => {}
        }
    }

    fn reply(&mut self, n: u8, stream: StreamId, reply: FromSegd) {
        let me = Proc::Segd(n);
        let Some(pipe) = self.segd(n).pipes.get(&stream).copied() else { return };
        let segment = self.segd(n).appends[&pipe].1;
        trace!(self, "{me:?} {segment} answers {reply:?}");
        if let FromSegd::AppendAck { base_offset, .. } = &reply {
            self.check_ack(n, segment, *base_offset);
            self.see_ack(n, segment, *base_offset);
        }
        self.send(pipe, me, Frame::FromSegd(reply, bytes::Bytes::new()));
    }

    // -- streams

    fn segd_frame(&mut self, n: u8, pipe: PipeId, frame: Frame) {
        let me = Proc::Segd(n);
        match frame {
            Frame::ToSegd(segment, ToSegd::AppendOpen, _) => {
                let segd = self.segd(n);
                let stream = StreamId(segd.next_stream);
                segd.next_stream += 1;
                segd.appends.insert(pipe, (stream, segment));
                segd.pipes.insert(stream, pipe);
                self.segd_input(n, Input::StreamOpen { stream, segment });
            }
            Frame::ToSegd(_, ToSegd::Append { seq }, batch) => {
                let Some((stream, segment)) = self.segd(n).appends.get(&pipe).copied() else { return };
                trace!(self, "{me:?} {segment} append {seq}");
                let header = BatchHeader::parse(&batch).expect("the client built it");
                self.segd_input(n, Input::Append { stream, seq, header, batch, trace: None });
            }
            Frame::ToSegd(segment, ToSegd::TailOpen { from, until }, _) => {
                self.serve_tail(n, pipe, segment, from, until)
            }
            Frame::ToSegd(segment, ToSegd::Committed, _) => self.answer_committed(n, pipe, segment),
            Frame::Update(update) => {
                if self.segd(n).watcher.takes(pipe, &update) {
                    trace!(self, "{me:?} sees v{} {:?}", update.version, update.items);
                    self.segd_input(n, Input::Meta(update));
                }
            }
            Frame::Fin => self.segd_pipe_gone(n, pipe),
            Frame::ToRouter(..) | Frame::FromRouter(..) | Frame::FromSegd(..) | Frame::Watch { .. } => {
                unreachable!("not for segd")
            }
        }
    }

    fn segd_pipe_gone(&mut self, n: u8, pipe: PipeId) {
        let segd = self.segd(n);
        segd.tails.remove(&pipe);
        if let Some((stream, _)) = segd.appends.remove(&pipe) {
            segd.pipes.remove(&stream);
            self.segd_input(n, Input::StreamClosed { stream });
        }
        self.own_session_gone(n, pipe);
        self.watch_gone(Proc::Segd(n), pipe);
    }

    // -- metad

    pub(super) fn segd_call(&mut self, n: u8, call: Call, ask: Ask) {
        let member = self.segd(n).member;
        let id = self.ask(Proc::Segd(n), member, ask);
        self.segd(n).calls.insert(id, call);
    }

    fn segd_answer(&mut self, n: u8, call: u64, answer: Option<Answer>) {
        let metads = self.plan.sizes.metads;
        let leader = self.metad.leader;
        let segd = self.segd(n);
        let Some(call) = segd.calls.remove(&call) else { return };
        let missed = matches!(answer, None | Some(Answer::NotLeader));
        if missed {
            // A member that does not lead names the one that does; one that is silent names nobody.
            let next = (segd.member + 1) % metads;
            segd.member = if answer.is_some() { leader.unwrap_or(next) } else { next };
        }
        match (call, answer) {
            (Call::Register, Some(Answer::Registered { next_segment, .. })) => {
                segd.registered = true;
                self.segd_input(n, Input::Registered { next_segment });
                self.beat_at(n, self.now + 1);
            }
            (Call::Heartbeat, Some(Answer::Heartbeat { known })) => segd.registered &= known,
            (Call::Report { id, .. }, Some(Answer::Report { done, why })) => {
                trace!(self, "segd-{} report {id:?} done {done} {why}", n + 1);
                self.segd_input(n, Input::ReportAnswered { id, done });
            }
            (Call::Report { id, ask, tries }, None | Some(Answer::NotLeader)) if tries < metads => {
                self.segd_call(n, Call::Report { id, ask: ask.clone(), tries: tries + 1 }, ask);
            }
            (Call::Report { id, .. }, _) => self.segd_input(n, Input::ReportAnswered { id, done: false }),
            (Call::Register | Call::Heartbeat, _) => {}
        }
    }
}
