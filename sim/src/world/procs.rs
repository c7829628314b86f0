//! Lives of processes: started, crashed, paused, resumed. What a process had in memory ends with its life.

use super::World;
use super::event::{Act, Event, Proc, What};
use super::trace::trace;
use std::collections::VecDeque;

#[derive(Default)]
pub struct ProcState {
    pub up: bool,
    pub paused: bool,
    /// Rises at each start; 1 in the first life.
    pub life: u32,
    pub started: u64,
    /// What came while it was paused.
    pub held: VecDeque<What>,
    /// When it is woken next.
    pub wake_at: Option<u64>,
}

impl World {
    pub(super) fn state(&self, who: Proc) -> &ProcState {
        &self.procs[self.plan.sizes.index(who)]
    }

    pub(super) fn state_mut(&mut self, who: Proc) -> &mut ProcState {
        &mut self.procs[self.plan.sizes.index(who)]
    }

    pub(super) fn runs(&self, who: Proc) -> bool {
        let state = self.state(who);
        state.up && !state.paused
    }

    pub(super) fn start(&mut self, who: Proc) {
        trace!(self, "start {who:?}");
        let now = self.now;
        let state = self.state_mut(who);
        *state = ProcState { up: true, life: state.life + 1, started: now, ..ProcState::default() };
        match who {
            Proc::Metad(n) => self.start_metad(n),
            Proc::Segd(n) => self.start_segd(n),
            Proc::Router(n) => self.start_router(n),
            Proc::Client(n) if n < self.plan.sizes.producers => self.start_producer(n),
            Proc::Client(n) => self.start_consumer(n - self.plan.sizes.producers),
        }
    }

    pub(super) fn crash(&mut self, who: Proc, down_us: u64) {
        if !self.state(who).up {
            return;
        }
        trace!(self, "crash {who:?}");
        self.stats.crashes += 1;
        let state = self.state_mut(who);
        state.up = false;
        state.paused = false;
        state.held.clear();
        let life = state.life;
        for pipe in self.net.pipes_of(who) {
            self.break_pipe(pipe);
        }
        match who {
            Proc::Metad(n) => self.crash_metad(n),
            Proc::Segd(n) => self.crash_segd(n),
            Proc::Router(n) => self.crash_router(n),
            Proc::Client(_) => {}
        }
        self.act_at(self.now + down_us.max(1), Act::Restart { who, life });
    }

    pub(super) fn pause(&mut self, who: Proc, for_us: u64) {
        if !self.runs(who) {
            return;
        }
        self.stats.pauses += 1;
        let state = self.state_mut(who);
        state.paused = true;
        let life = state.life;
        self.act_at(self.now + for_us, Act::Resume { who, life });
        let peers = self.plan.sizes.procs();
        for peer in peers.into_iter().filter(|peer| *peer != who) {
            self.act_at(self.now + self.net.plan.idle_us, Act::Idle { a: who, b: peer });
        }
        if let Proc::Metad(n) = who {
            self.leader_pauses(n);
        }
    }

    pub(super) fn resume(&mut self, who: Proc) {
        let state = self.state_mut(who);
        if !state.paused {
            return;
        }
        state.paused = false;
        let held = std::mem::take(&mut state.held);
        let life = state.life;
        let now = self.now;
        // In order, before anything that comes later.
        for what in held {
            self.heap.push(now, Event::At { to: who, life, what });
        }
        if let Proc::Metad(n) = who {
            self.catch_up(n);
        }
        self.see_resume(who);
    }
}
