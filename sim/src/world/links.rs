//! Carries what the network has: frames on pipes, messages on links; breaks, cuts and what heals them.

use super::World;
use super::event::{Act, Proc, What};
use super::fault::Fault;
use super::net::{Frame, PipeId, Sending, Sent};
use bytes::Bytes;
use seam_wire::msg::Peer;
use seam_wire::{NodeId, SegmentId};

/// segd-1 is node 1.
pub fn node_id(n: u8) -> NodeId {
    NodeId(u32::from(n) + 1)
}

pub fn index_of(node: NodeId) -> u8 {
    u8::try_from(node.0 - 1).expect("nodes are few")
}

impl World {
    // -- pipes

    /// Opens a pipe. If nobody is there, it breaks a little later.
    pub(super) fn open_pipe(&mut self, from: Proc, to: Proc) -> PipeId {
        let (life, peer_life) = (self.state(from).life, self.state(to).life);
        let pipe = self.net.open((from, life), (to, peer_life));
        if !self.state(to).up {
            self.net.pipes.remove(&pipe);
            let at = self.now + self.net.delay(from, to) * 2;
            self.at(at, from, What::Broken { pipe });
        } else if self.net.is_cut(from, to) || self.net.is_cut(to, from) || self.state(to).paused {
            self.act_at(self.now + self.net.plan.idle_us, Act::Idle { a: from, b: to });
        }
        pipe
    }

    pub(super) fn send(&mut self, pipe: PipeId, from: Proc, frame: Frame) {
        let sending = self.net.send(self.now, pipe, from, frame);
        self.dispatch_frame(pipe, sending);
    }

    fn dispatch_frame(&mut self, pipe: PipeId, sending: Option<Sending>) {
        if let Some(Sending { at, to, life, number, frame }) = sending {
            self.at_life(at, to, life, What::Frame { pipe, number, frame });
        }
    }

    /// A frame has come to `to`. `None`: its pipe broke meanwhile, a cut holds it up, or one before it is still to come.
    pub(super) fn arrived(&mut self, pipe: PipeId, to: Proc, number: u64, frame: Frame) -> Option<Frame> {
        let (from, _) = self.net.pipes.get(&pipe)?.peer(to);
        let next_waits = if self.net.is_cut(from, to) { None } else { self.net.take(pipe, from, number) };
        let Some(next_waits) = next_waits else {
            self.net.stall(pipe, from, number, frame);
            return None;
        };
        if next_waits {
            self.act_at(self.now, Act::Release);
        }
        if let Frame::Fin = frame {
            self.net.pipes.remove(&pipe);
        }
        Some(frame)
    }

    /// Says that nothing more comes on this pipe from `from`; what was said before arrives.
    pub(super) fn close(&mut self, pipe: PipeId, from: Proc) {
        self.send(pipe, from, Frame::Fin);
    }

    /// Both ends learn of it, each in its own time; what is under way is lost.
    pub(super) fn break_pipe(&mut self, pipe: PipeId) {
        let Some(broken) = self.net.pipes.remove(&pipe) else { return };
        let [(a, a_life), (b, b_life)] = broken.ends;
        let later = self.net.delay(a, b);
        self.at_life(self.now + later, a, a_life, What::Broken { pipe });
        let later = self.net.delay(b, a);
        self.at_life(self.now + later, b, b_life, What::Broken { pipe });
    }

    /// The link between `a` and `b` was silent for the idle time: pipes on it give up if it still is.
    pub(super) fn break_idle(&mut self, a: Proc, b: Proc) {
        let silent = self.net.is_cut(a, b) || self.net.is_cut(b, a) || self.state(a).paused || self.state(b).paused;
        if silent {
            for pipe in self.net.pipes_between(a, b) {
                self.break_pipe(pipe);
            }
            if let (Proc::Segd(a), Proc::Segd(b)) = (a, b) {
                self.disconnect(a, b);
                self.disconnect(b, a);
            }
        }
    }

    // -- links between segd nodes

    pub(super) fn send_peer(&mut self, from: u8, to: NodeId, segment: SegmentId, msg: Peer, payload: Bytes) {
        let to = index_of(to);
        let (a, b) = (Proc::Segd(from), Proc::Segd(to));
        if self.net.is_cut(a, b) {
            return self.disconnect(from, to);
        }
        match self.net.send_peer(self.now, from, to, segment) {
            Sent::Lost => {}
            Sent::Broke => self.disconnect(from, to),
            Sent::Arrives { at, again } => {
                let link = self.net.link(from, to).epoch;
                let what = What::Peer { from: node_id(from), link, segment, msg, payload };
                if let Some(again) = again {
                    self.at(again, b, what.clone());
                }
                self.at(at, b, what);
            }
        }
    }

    /// Whether a message of this link and epoch still arrives.
    pub(super) fn peer_arrives(&mut self, from: NodeId, to: u8, epoch: u32) -> bool {
        let from = index_of(from);
        let cut = self.net.is_cut(Proc::Segd(from), Proc::Segd(to));
        let link = self.net.link(from, to);
        link.epoch == epoch && !cut
    }

    /// What is under way is lost; the link is made again later.
    pub(super) fn disconnect(&mut self, from: u8, to: u8) {
        let link = self.net.link(from, to);
        if !link.up {
            return;
        }
        link.up = false;
        link.epoch += 1;
        let most = self.net.plan.reconnect_us.max(1_000);
        let at = self.now + self.dice(Proc::Segd(from)).between(1_000, most);
        self.act_at(at, Act::Connect { from, to });
    }

    /// Dials until the other is there.
    pub(super) fn connect(&mut self, from: u8, to: u8) {
        let (a, b) = (Proc::Segd(from), Proc::Segd(to));
        if self.net.link(from, to).up || !self.state(a).up {
            return; // Stands already; or the dialer is gone, and dials anew when it starts.
        }
        let ready = self.runs(a) && self.runs(b) && !self.net.is_cut(a, b) && !self.net.is_cut(b, a);
        if !ready {
            let at = self.now + self.dice(a).between(5_000, 30_000);
            return self.act_at(at, Act::Connect { from, to });
        }
        self.net.link(from, to).up = true;
        let at = self.now + self.net.delay(b, a);
        self.at(at, a, What::PeerUp(node_id(to)));
    }

    // -- cuts

    pub(super) fn cut(&mut self, index: usize, from: &[Proc], to: &[Proc], one_way: bool, for_us: u64) {
        let idle_us = self.net.plan.idle_us;
        for a in from {
            for b in to {
                if a != b {
                    self.net.cut(*a, *b);
                    if !one_way {
                        self.net.cut(*b, *a);
                    }
                    self.act_at(self.now + idle_us, Act::Idle { a: *a, b: *b });
                }
            }
        }
        self.act_at(self.now + for_us, Act::Uncut(index));
    }

    pub(super) fn uncut(&mut self, index: usize) {
        let Fault::Cut { from, to, one_way, .. } = self.plan.faults[index].1.clone() else { return };
        for a in &from {
            for b in &to {
                if a != b {
                    self.net.uncut(*a, *b);
                    if !one_way {
                        self.net.uncut(*b, *a);
                    }
                }
            }
        }
        self.release_stalled();
    }

    /// Lets frames go that waited for a cut to heal.
    pub(super) fn release_stalled(&mut self) {
        for (pipe, from, number, frame) in self.net.take_stalled() {
            let sending = self.net.forward(self.now, pipe, from, number, frame);
            self.dispatch_frame(pipe, sending);
        }
    }
}
