//! Sessions of segd nodes with metad's leader: a pipe that a node's heartbeats belong to, and what its end tells both sides.

use super::World;
use super::event::{Ask, Proc, What};
use super::net::PipeId;
use super::segd::Call;
use metad_core::{Input, SessionId};

impl World {
    // -- at metad

    pub(super) fn metad_pipe_gone(&mut self, n: u8, pipe: PipeId) {
        self.member(n).watchers.remove(&pipe);
        if self.member(n).sessions.remove(&pipe) {
            self.metad_input(n, Input::SessionBroken { session: SessionId(pipe.0) });
        }
    }

    /// A member that steps down ends the sessions it has.
    pub(super) fn end_sessions(&mut self, n: u8) {
        for pipe in std::mem::take(&mut self.member(n).sessions) {
            self.close(pipe, Proc::Metad(n));
        }
    }

    // -- at segd

    /// If it was this node's session that broke, another is opened at once.
    pub(super) fn own_session_gone(&mut self, n: u8, pipe: PipeId) {
        if self.segd(n).session.is_some_and(|(session, _)| session == pipe) {
            self.segd(n).session = None;
            self.beat_at(n, self.now + 1);
        }
    }

    pub(super) fn beat_at(&mut self, n: u8, at: u64) {
        self.segd(n).beat_due = at;
        self.at(at, Proc::Segd(n), What::Beat);
    }

    pub(super) fn beat(&mut self, n: u8) {
        if self.now < self.segd(n).beat_due {
            return; // It was put off, or has been sent before its time.
        }
        let clock = self.clock(Proc::Segd(n));
        let incarnation = self.incarnation(n);
        let segd = self.segd(n);
        let node = segd.id;
        let load = segd.node.as_ref().map(|node| node.load(clock)).unwrap_or_default();
        if segd.registered {
            let (write_bytes_per_s, open_segments) = (load.write_bytes_per_s, load.open_segments);
            let disk_failed = segd.disk_failed || segd.journal_failed;
            let session = self.session(n);
            let ask = Ask::Heartbeat { session, node, incarnation, write_bytes_per_s, open_segments, disk_failed };
            self.segd_call(n, Call::Heartbeat, ask);
        } else {
            self.segd_call(n, Call::Register, Ask::Register { node, incarnation });
        }
        let period_us = self.plan.timing.node_heartbeat_ms * 1000;
        self.beat_at(n, self.now + period_us);
    }

    /// The session with the member asked now; one with another member ends.
    fn session(&mut self, n: u8) -> PipeId {
        let me = Proc::Segd(n);
        let member = self.segd(n).member;
        match self.segd(n).session {
            Some((pipe, with)) if with == member => return pipe,
            Some((pipe, _)) => self.close(pipe, me),
            None => {}
        }
        let pipe = self.open_pipe(me, Proc::Metad(member));
        self.segd(n).session = Some((pipe, member));
        pipe
    }
}
