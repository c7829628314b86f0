//! metad in the model: its real state under real commands, or a bare register.
//!
//! `Real` applies `metad_core` commands. `Register` is the least the protocol asks of metad: the first `CommitRoll` of a
//! candidate by one who may choose it wins. It does not take back candidates of superseded epochs, as the real one does, so
//! it allows more; the protocol must hold over it too.

use super::layout::{Layout, M, N, ROOT, SPARE, START};
use super::message::Msg;
use metad_core::{Command, Meta, OpeningStats, Outcome, RollBy};
use seam_wire::meta::{Binder, MetaItem, SegmentState};
use seam_wire::msg::Decision;
use seam_wire::{Epoch, Incarnation, NodeId, SegmentId, TopicId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Metad {
    Real(Box<Meta>),
    Register { epoch: Epoch, decided: Option<Decision> },
}

const LIFE: Incarnation = Incarnation(1);

fn must(meta: &mut Meta, command: Command) {
    let outcome = meta.apply(&command).outcome;
    assert!(
        !matches!(outcome, Outcome::Refused { .. }),
        "the model begins in a lawful state: {command:?}: {outcome:?}"
    );
}

fn commit_roll(segment: SegmentId, decision: Decision, by: RollBy) -> Command {
    let Decision { end, next } = decision;
    Command::CommitRoll {
        segment,
        end,
        next,
        by,
        stats: Box::default(),
        ready_us: 0,
        recovery: None,
        bytes: 0,
        sealed_at_ms: 0,
    }
}

fn ready(layout: &Layout, segment: SegmentId) -> Command {
    let opening = OpeningStats::default();
    Command::MarkReady { segment, open_on: layout.spec(segment).replicas, incarnation: LIFE, opening }
}

impl Metad {
    pub fn register() -> Self {
        Metad::Register { epoch: Epoch::PRIMARY, decided: None }
    }

    /// N is open at `START`, M (and the spare) stand ready.
    pub fn real(layout: &Layout) -> Self {
        let mut meta = Meta::default();
        for id in 1..=6 {
            let (name, addr, domain) = (format!("segd-{id}"), format!("a:{id}"), format!("d-{id}"));
            must(&mut meta, Command::RegisterNode { id: NodeId(id), name, addr, domain, incarnation: LIFE });
        }
        let placements = vec![layout.spec(ROOT).replicas];
        let config = layout.topic_config();
        must(&mut meta, Command::CreateTopic { id: TopicId(1), name: "t".into(), config, placements });
        must(&mut meta, ready(layout, ROOT));
        let mut segments = vec![N, M];
        segments.extend(layout.has_spare().then_some(SPARE));
        for id in segments {
            let spec = layout.spec(id);
            let prior = spec.prior.expect("R4: only the root has no prior");
            let (attempt, replicas) = (spec.attempt, spec.replicas.clone());
            must(&mut meta, Command::Prepare { prior, attempt, replicas, trace: None });
            must(&mut meta, ready(layout, id));
            if id == N {
                must(&mut meta, commit_roll(ROOT, Decision { end: START, next: N }, RollBy::Planned));
            }
            let seen = meta.segment(id).map(|view| view.spec);
            assert_eq!(seen.as_ref(), Some(&spec), "the model's own spec is metad's");
        }
        meta.forget_version();
        Metad::Real(Box::new(meta))
    }

    fn apply(meta: &mut Meta, command: &Command) -> Vec<Msg> {
        let applied = meta.apply(command);
        meta.forget_version();
        applied.items.iter().filter_map(view_of).collect()
    }

    /// A report asks for `segment`'s decision to be recorded. What the watchers are told.
    pub fn commit(&mut self, layout: &Layout, segment: SegmentId, decision: Decision, by: RollBy) -> Vec<Msg> {
        match self {
            Metad::Real(meta) => Self::apply(meta, &commit_roll(segment, decision, by)),
            Metad::Register { epoch, decided } => {
                if segment != N || decided.is_some() || !may_choose(layout, decision.next, by, *epoch) {
                    return Vec::new();
                }
                *decided = Some(decision);
                vec![Msg::Recorded { segment, decision }]
            }
        }
    }

    /// Appoints the agent of `epoch` on `node`, its candidate ready at once.
    pub fn appoint(&mut self, layout: &Layout, epoch: Epoch, node: NodeId) {
        match self {
            Metad::Real(meta) => {
                let candidate = layout.candidate(epoch);
                let replicas = layout.spec(candidate).replicas;
                let expected_epoch = Epoch(epoch.0 - 1);
                let (agent, agent_incarnation, trace) = (node, LIFE, None);
                let recover = Command::Recover {
                    segment: N,
                    agent,
                    agent_incarnation,
                    expected_epoch,
                    replicas,
                    trace,
                    loss_accepted: false,
                };
                let outcome = meta.apply(&recover).outcome;
                assert_eq!(outcome, Outcome::Appointed { epoch, candidate }, "an undecided segment gets its agent");
                must(meta, ready(layout, candidate));
                meta.forget_version();
            }
            Metad::Register { epoch: current, .. } => *current = epoch,
        }
    }

    pub fn ask_release(&mut self, segment: SegmentId) -> Vec<Msg> {
        match self {
            Metad::Real(meta) => Self::apply(meta, &Command::AskRelease { segment }),
            Metad::Register { .. } => Vec::new(),
        }
    }

    pub fn released(&mut self, segment: SegmentId, node: NodeId) -> Vec<Msg> {
        match self {
            Metad::Real(meta) => Self::apply(meta, &Command::Released { segment, node, incarnation: LIFE }),
            Metad::Register { .. } => Vec::new(),
        }
    }

    /// What the model asks of this state, all at once.
    pub fn facts(&self) -> Facts {
        match self {
            Metad::Real(meta) => {
                let view = meta.segment(N).expect("R10: what is not trimmed is not forgotten");
                let gone = |segment| {
                    let state = meta.segment(segment).map(|view| view.state);
                    matches!(state, None | Some(SegmentState::Reclaiming | SegmentState::Reclaimed))
                };
                Facts {
                    decided: sealed(&view.state),
                    decided_m: meta.segment(M).and_then(|view| sealed(&view.state)),
                    epoch: view.recovery.map_or(Epoch::PRIMARY, |recovery| recovery.epoch),
                    release_asked: meta.segment(M).is_some_and(|view| view.release_asked),
                    m_is_gone: gone(M),
                }
            }
            Metad::Register { epoch, decided } => Facts { decided: *decided, epoch: *epoch, ..Facts::default() },
        }
    }
}

/// What metad's state says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// N's end and next.
    pub decided: Option<Decision>,
    /// M's end and next.
    pub decided_m: Option<Decision>,
    /// The latest recovery of N.
    pub epoch: Epoch,
    /// M's binder is asked to give it back.
    pub release_asked: bool,
    /// M is taken back, or being taken back.
    pub m_is_gone: bool,
}

impl Facts {
    pub fn decision(&self, segment: SegmentId) -> Option<Decision> {
        match segment {
            N => self.decided,
            M => self.decided_m,
            _ => None,
        }
    }
}

fn sealed(state: &SegmentState) -> Option<Decision> {
    match *state {
        SegmentState::Sealed { end, next, .. } | SegmentState::Trimmed { end, next, .. } => {
            Some(Decision { end, next })
        }
        SegmentState::Planned
        | SegmentState::Ready { .. }
        | SegmentState::Open { .. }
        | SegmentState::Reclaiming
        | SegmentState::Reclaimed => None,
    }
}

/// What a changed view tells those that watch.
fn view_of(item: &MetaItem) -> Option<Msg> {
    let MetaItem::Segment(view) = item else { return None };
    let segment = view.spec.id;
    match view.state {
        SegmentState::Sealed { end, next, .. } | SegmentState::Trimmed { end, next, .. } => {
            Some(Msg::Recorded { segment, decision: Decision { end, next } })
        }
        // A recovery's candidate opens only by metad's own word, which it will not get any more.
        SegmentState::Reclaiming | SegmentState::Reclaimed if view.spec.binder == Binder::Primary => {
            Some(Msg::Reclaimed { segment })
        }
        SegmentState::Ready { .. } if view.release_asked => Some(Msg::ReleaseAsked { segment }),
        SegmentState::Reclaiming
        | SegmentState::Reclaimed
        | SegmentState::Planned
        | SegmentState::Ready { .. }
        | SegmentState::Open { .. } => None,
    }
}

/// R13 as the register checks it: anyone may name what the primary chose, an agent its own candidate beside.
fn may_choose(layout: &Layout, next: SegmentId, by: RollBy, current: Epoch) -> bool {
    match (by, layout.spec(next).binder) {
        (RollBy::Planned, Binder::Primary) => true,
        (RollBy::Recovery(epoch), Binder::Primary) => epoch <= current,
        (RollBy::Recovery(epoch), Binder::Recovery(of) | Binder::Loss(of)) => epoch == of && epoch <= current,
        (RollBy::Planned, Binder::Recovery(_) | Binder::Loss(_)) | (_, Binder::Root) => false,
    }
}
