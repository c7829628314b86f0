//! The one heap of events: (when, in which order it was scheduled). Nothing else decides what happens next.

use super::net::{Frame, PipeId};
use bytes::Bytes;
use metad_core::{Admin, Answer};
use seam_wire::msg::Peer;
use seam_wire::report::Report;
use seam_wire::{Incarnation, NodeId, Offset, SegmentId};
use segd_core::io::Token;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

/// A process of the simulated cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Proc {
    Metad(u8),
    Segd(u8),
    Router(u8),
    /// A producer or a consumer: one application.
    Client(u8),
}

impl fmt::Debug for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proc::Metad(n) => write!(f, "metad-{}", n + 1),
            Proc::Segd(n) => write!(f, "segd-{}", n + 1),
            Proc::Router(n) => write!(f, "router-{}", n + 1),
            Proc::Client(n) => write!(f, "client-{}", n + 1),
        }
    }
}

/// What a caller asks metad.
#[derive(Clone, Debug)]
pub enum Ask {
    Register {
        node: NodeId,
        incarnation: Incarnation,
    },
    /// On a session: a pipe that stands as long as both processes and the way between them do.
    Heartbeat {
        session: PipeId,
        node: NodeId,
        incarnation: Incarnation,
        write_bytes_per_s: u64,
        open_segments: u32,
        disk_failed: bool,
    },
    Report {
        node: NodeId,
        incarnation: Incarnation,
        report: Report,
    },
    Admin(Admin),
}

/// Something that reaches one life of one process.
#[derive(Clone, Debug)]
pub enum What {
    /// A deadline of its core.
    Wake,
    Peer {
        from: NodeId,
        link: u32,
        segment: SegmentId,
        msg: Peer,
        payload: Bytes,
    },
    PeerUp(NodeId),
    /// The disk's mark is durable.
    Founded(SegmentId),
    /// The journal synced its first `entries` entries.
    Synced {
        entries: usize,
    },
    /// The journal took entries that need no sync.
    Received,
    /// A write or a sync failed.
    JournalFailed,
    ReadDone {
        token: Token,
        base: Offset,
        next: Offset,
        payload: Bytes,
    },
    Frame {
        pipe: PipeId,
        /// Of its direction, from 0.
        number: u64,
        frame: Frame,
    },
    Broken {
        pipe: PipeId,
    },
    Ask {
        from: Proc,
        from_life: u32,
        call: u64,
        ask: Box<Ask>,
    },
    /// `None`: no answer in time.
    Answer {
        call: u64,
        answer: Option<Answer>,
    },
    /// A slow reader's stream takes more.
    TailStep {
        pipe: PipeId,
    },
    /// Time for the next heartbeat, or registration.
    Beat,
    /// Time to open the watch again.
    Watch,
    /// An application has a batch to send, or opens its tail.
    Load,
}

/// Something that happens to the world.
#[derive(Clone, Debug)]
pub enum Act {
    Fault(usize),
    /// The moment that a fault waited for was at this node.
    Sprung {
        fault: usize,
        node: u8,
    },
    Restart {
        who: Proc,
        life: u32,
    },
    Resume {
        who: Proc,
        life: u32,
    },
    Uncut(usize),
    /// Frames that waited for a cut go on.
    Release,
    /// Pipes over a link that was cut or whose end was paused give up, if it still is.
    Idle {
        a: Proc,
        b: Proc,
    },
    Connect {
        from: u8,
        to: u8,
    },
    Commit {
        term: u64,
    },
    ApplyAt {
        member: u8,
        index: usize,
    },
    Elect {
        term: u64,
    },
    StepDown {
        member: u8,
        term: u64,
    },
    /// An operator wants the node emptied, or back.
    Drain {
        node: u8,
        drain: bool,
    },
    /// A process whose journal failed is started anew.
    Renew {
        node: u8,
        life: u32,
    },
    Stop {
        node: u8,
        down_us: u64,
    },
    SlowDiskEnds {
        node: u8,
    },
    MetadNormal,
    AskRoll,
    Heal,
    Look,
}

#[derive(Clone, Debug)]
pub enum Event {
    At { to: Proc, life: u32, what: What },
    Do(Act),
}

/// Events by time and order. Slots keep the heap's own entries small.
#[derive(Default)]
pub struct Heap {
    order: BinaryHeap<Reverse<(u64, u64, u32)>>,
    slots: Vec<Option<Event>>,
    free: Vec<u32>,
    scheduled: u64,
}

impl Heap {
    pub fn push(&mut self, at: u64, event: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("far fewer events than 2^32 at once")
        });
        self.slots[slot as usize] = Some(event);
        self.order.push(Reverse((at, self.scheduled, slot)));
        self.scheduled += 1;
    }

    pub fn pop(&mut self) -> Option<(u64, u64, Event)> {
        let Reverse((at, order, slot)) = self.order.pop()?;
        self.free.push(slot);
        let event = self.slots[slot as usize].take().expect("a slot is filled until its event is popped");
        Some((at, order, event))
    }
}
