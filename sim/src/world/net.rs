//! The network: how long things take, what is cut off, and ordered pipes that can break. Decides nothing about content.
//!
//! Two kinds of traffic. A *pipe* is an ordered stream between two processes (append, tail, produce and watch streams): all
//! arrives in order until it breaks. *Peer messages* between segd nodes travel on links that break and are made again, in
//! order per segment or in any order, as the plan says.

use super::event::Proc;
use super::plan::{NetPlan, Sizes};
use super::rng::{Rng, lane_between};
use bytes::Bytes;
use seam_wire::SegmentId;
use seam_wire::meta::MetaUpdate;
use seam_wire::msg::{FromRouter, FromSegd, ToRouter, ToSegd};
use std::collections::BTreeMap;

/// A pipe; never reused in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipeId(pub u64);

#[derive(Clone, Debug)]
pub enum Frame {
    ToRouter(ToRouter, Bytes),
    FromRouter(FromRouter, Bytes),
    ToSegd(SegmentId, ToSegd, Bytes),
    FromSegd(FromSegd, Bytes),
    Watch {
        after: u64,
    },
    Update(MetaUpdate),
    /// Nothing comes any more from this side.
    Fin,
}

pub struct Pipe {
    /// Who opened it, and who was dialed; with their lives.
    pub ends: [(Proc, u32); 2],
    /// When the last frame of each direction arrives.
    last: [u64; 2],
    /// Frames sent, and frames taken, in each direction: a stream gives them in order, whatever became of single ones.
    sent: [u64; 2],
    taken: [u64; 2],
    /// Frames by number that wait for a cut to heal, or for those before them.
    stalled: [BTreeMap<u64, Frame>; 2],
}

impl Pipe {
    pub fn side(&self, who: Proc) -> usize {
        usize::from(self.ends[0].0 != who)
    }

    pub fn peer(&self, who: Proc) -> (Proc, u32) {
        self.ends[1 - self.side(who)]
    }
}

/// A frame on its way.
pub struct Sending {
    pub at: u64,
    pub to: Proc,
    /// The life of `to` that the pipe leads to.
    pub life: u32,
    pub number: u64,
    pub frame: Frame,
}

/// A link from one segd node to another.
#[derive(Clone, Copy, Default)]
pub struct Link {
    pub up: bool,
    /// Rises at each break: what was under way is lost.
    pub epoch: u32,
}

pub struct Net {
    pub plan: NetPlan,
    sizes: Sizes,
    /// Of each directed pair: a message more on one leaves the others' luck alone.
    dice: Vec<Rng>,
    base: Vec<u64>,
    /// How many cuts lie on each directed pair.
    cuts: Vec<u8>,
    pub pipes: BTreeMap<PipeId, Pipe>,
    next_pipe: u64,
    pub links: Vec<Link>,
    last_peer: BTreeMap<(u8, u8, SegmentId), u64>,
}

/// What becomes of a peer message.
pub enum Sent {
    Lost,
    /// It arrives then, and perhaps once more.
    Arrives {
        at: u64,
        again: Option<u64>,
    },
    /// The link broke under it.
    Broke,
}

impl Net {
    pub fn new(plan: NetPlan, sizes: Sizes, seed: u64) -> Self {
        let n = sizes.all();
        let procs = sizes.procs();
        let pairs = procs.iter().flat_map(|from| procs.iter().map(move |to| (*from, *to)));
        let mut dice: Vec<Rng> = pairs.map(|(from, to)| Rng::new(seed, lane_between(from, to))).collect();
        let base = dice.iter_mut().map(|rng| rng.between(plan.base_min_us, plan.base_max_us)).collect();
        Net {
            plan,
            sizes,
            dice,
            base,
            cuts: vec![0; n * n],
            pipes: BTreeMap::new(),
            next_pipe: 0,
            links: vec![Link::default(); usize::from(sizes.segds) * usize::from(sizes.segds)],
            last_peer: BTreeMap::new(),
        }
    }

    fn pair(&self, from: Proc, to: Proc) -> usize {
        self.sizes.index(from) * self.sizes.all() + self.sizes.index(to)
    }

    pub fn delay(&mut self, from: Proc, to: Proc) -> u64 {
        let pair = self.pair(from, to);
        let (base, dice) = (self.base[pair], &mut self.dice[pair]);
        let jitter = dice.between(0, self.plan.jitter_us);
        let slow = if dice.chance(self.plan.slow_ppm) { dice.between(0, self.plan.slow_us) } else { 0 };
        (base + jitter + slow).max(1)
    }

    pub fn cut(&mut self, from: Proc, to: Proc) {
        let pair = self.pair(from, to);
        self.cuts[pair] += 1;
    }

    pub fn uncut(&mut self, from: Proc, to: Proc) {
        let pair = self.pair(from, to);
        self.cuts[pair] = self.cuts[pair].saturating_sub(1);
    }

    pub fn is_cut(&self, from: Proc, to: Proc) -> bool {
        self.cuts[self.pair(from, to)] > 0
    }

    pub fn heal(&mut self) {
        self.cuts.fill(0);
        self.plan.loss_ppm = 0;
        self.plan.dup_ppm = 0;
        self.plan.break_ppm = 0;
        self.plan.slow_ppm = 0;
    }

    // -- pipes

    pub fn open(&mut self, from: (Proc, u32), to: (Proc, u32)) -> PipeId {
        let id = PipeId(self.next_pipe);
        self.next_pipe += 1;
        self.pipes.insert(
            id,
            Pipe { ends: [from, to], last: [0; 2], sent: [0; 2], taken: [0; 2], stalled: Default::default() },
        );
        id
    }

    /// Numbers the frame. When it arrives, and where; `None` if it waits for a cut to heal, or the pipe is broken.
    pub fn send(&mut self, now: u64, pipe: PipeId, from: Proc, frame: Frame) -> Option<Sending> {
        let side = self.pipes.get(&pipe)?.side(from);
        let found = self.pipes.get_mut(&pipe).expect("looked up above");
        let number = found.sent[side];
        found.sent[side] += 1;
        if found.stalled[side].is_empty() {
            return self.forward(now, pipe, from, number, frame);
        }
        self.stall(pipe, from, number, frame);
        None
    }

    /// As `send`, for a frame that has its number.
    pub fn forward(&mut self, now: u64, pipe: PipeId, from: Proc, number: u64, frame: Frame) -> Option<Sending> {
        let ends = self.pipes.get(&pipe)?;
        let side = ends.side(from);
        let (to, life) = ends.ends[1 - side];
        if self.is_cut(from, to) {
            self.stall(pipe, from, number, frame);
            return None;
        }
        let at = now + self.delay(from, to);
        let pipe = self.pipes.get_mut(&pipe).expect("looked up above");
        // In order, and never two at one instant.
        let at = at.max(pipe.last[side] + 1);
        pipe.last[side] = at;
        Some(Sending { at, to, life, number, frame })
    }

    pub fn stall(&mut self, pipe: PipeId, from: Proc, number: u64, frame: Frame) {
        if let Some(pipe) = self.pipes.get_mut(&pipe) {
            let side = pipe.side(from);
            pipe.stalled[side].insert(number, frame);
        }
    }

    /// Takes a frame that arrived, if it is the next of its direction; says too whether the one after it waits here.
    pub fn take(&mut self, pipe: PipeId, from: Proc, number: u64) -> Option<bool> {
        let pipe = self.pipes.get_mut(&pipe)?;
        let side = pipe.side(from);
        if pipe.taken[side] != number {
            return None;
        }
        pipe.taken[side] += 1;
        Some(pipe.stalled[side].contains_key(&(number + 1)))
    }

    /// Frames that waited on pipes whose way is free again, in order.
    pub fn take_stalled(&mut self) -> Vec<(PipeId, Proc, u64, Frame)> {
        let mut free = Vec::new();
        let ids: Vec<PipeId> = self.pipes.keys().copied().collect();
        for id in ids {
            for side in 0..2 {
                let (from, to) = (self.pipes[&id].ends[side].0, self.pipes[&id].ends[1 - side].0);
                if self.is_cut(from, to) {
                    continue;
                }
                let pipe = self.pipes.get_mut(&id).expect("just listed");
                let stalled = std::mem::take(&mut pipe.stalled[side]);
                free.extend(stalled.into_iter().map(|(number, frame)| (id, from, number, frame)));
            }
        }
        free
    }

    pub fn pipes_of(&self, who: Proc) -> Vec<PipeId> {
        let ends = |pipe: &Pipe| pipe.ends.iter().any(|(end, _)| *end == who);
        self.pipes.iter().filter(|(_, pipe)| ends(pipe)).map(|(id, _)| *id).collect()
    }

    pub fn pipes_between(&self, a: Proc, b: Proc) -> Vec<PipeId> {
        let joins =
            |pipe: &Pipe| (pipe.ends[0].0, pipe.ends[1].0) == (a, b) || (pipe.ends[1].0, pipe.ends[0].0) == (a, b);
        self.pipes.iter().filter(|(_, pipe)| joins(pipe)).map(|(id, _)| *id).collect()
    }

    // -- links between segd nodes

    pub fn link(&mut self, from: u8, to: u8) -> &mut Link {
        &mut self.links[usize::from(from) * usize::from(self.sizes.segds) + usize::from(to)]
    }

    pub fn send_peer(&mut self, now: u64, from: u8, to: u8, segment: SegmentId) -> Sent {
        if !self.link(from, to).up {
            return Sent::Lost;
        }
        let (a, b) = (Proc::Segd(from), Proc::Segd(to));
        let pair = self.pair(a, b);
        if self.dice[pair].chance(self.plan.break_ppm) {
            return Sent::Broke;
        }
        let at = now + self.delay(a, b);
        if self.plan.ordered {
            let last = self.last_peer.entry((from, to, segment)).or_default();
            let at = at.max(*last + 1);
            *last = at;
            return Sent::Arrives { at, again: None };
        }
        if self.dice[pair].chance(self.plan.loss_ppm) {
            return Sent::Lost;
        }
        let again = self.dice[pair].chance(self.plan.dup_ppm);
        let again = again.then(|| now + self.delay(a, b) + self.dice[pair].between(0, 50_000));
        Sent::Arrives { at, again }
    }
}
