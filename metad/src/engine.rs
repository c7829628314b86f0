//! State and driver under one lock. A command is applied, pushed to watchers and shown to the driver in one step; what
//! the driver wants is carried out at once. No queue, no poll, no pause in between.

use crate::envelope::{Envelope, Origin};
use crate::hub::Hub;
use crate::news;
use crate::traces::{self, Traces};
use metad_core::{Answer, Driver, Effect, Input, Limits, Meta, RestoreError, SessionId, Tick, Timing, Token};
use metad_core::{Command, Outcome, ReplyId};
use metad_log::{MetaLog, ProposeError};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

/// What was counted since the start.
#[derive(Debug, Default)]
pub struct Counts {
    pub proposals: AtomicU64,
    pub proposals_lost: AtomicU64,
    pub applied: AtomicU64,
    pub bad_requests: AtomicU64,
    pub watchers: AtomicU64,
    pub watchers_dropped: AtomicU64,
    pub snapshots_sent: AtomicU64,
    pub sessions: AtomicU64,
    pub sessions_broken: AtomicU64,
}

/// The state of one member and what goes on around it.
pub struct Engine {
    inner: Mutex<Inner>,
    pub hub: Hub,
    pub counts: Counts,
    origin: Origin,
    epoch: Instant,
    runtime: Handle,
    log: OnceLock<Arc<dyn MetaLog>>,
    /// The driver's next deadline came nearer.
    rearm: Notify,
    /// Whether the driver leads.
    leads: watch::Sender<bool>,
    next_session: AtomicU64,
}

struct Inner {
    meta: Meta,
    driver: Driver,
    replies: BTreeMap<ReplyId, oneshot::Sender<Answer>>,
    traces: Traces,
    next_reply: u64,
    armed: Option<Tick>,
}

/// A look at state and driver while both hold still.
pub struct View<'a> {
    inner: MutexGuard<'a, Inner>,
    pub now: Tick,
}

impl View<'_> {
    pub fn meta(&self) -> &Meta {
        &self.inner.meta
    }

    pub fn driver(&self) -> &Driver {
        &self.inner.driver
    }
}

/// The wall clock, milliseconds since 1970. Dates seals; a clock before 1970 counts as 1970.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Engine {
    /// An engine without a log; [`Engine::attach`] follows before anything is handled.
    pub fn new(timing: Timing, hub: Hub, origin: u64) -> Arc<Engine> {
        let inner = Inner {
            meta: Meta::new(Limits::default()),
            driver: Driver::new(timing),
            replies: BTreeMap::new(),
            traces: Traces::default(),
            next_reply: 0,
            armed: None,
        };
        Arc::new(Engine {
            inner: Mutex::new(inner),
            hub,
            counts: Counts::default(),
            origin: Origin(origin),
            epoch: Instant::now(),
            runtime: Handle::current(),
            log: OnceLock::new(),
            rearm: Notify::new(),
            leads: watch::Sender::new(false),
            next_session: AtomicU64::new(1),
        })
    }

    pub fn attach(&self, log: Arc<dyn MetaLog>) {
        assert!(self.log.set(log).is_ok(), "a log is attached once");
    }

    pub fn log(&self) -> &Arc<dyn MetaLog> {
        self.log.get().expect("the log is attached before anything is served")
    }

    /// The driver's clock.
    pub fn now(&self) -> Tick {
        self.tick_of(Instant::now())
    }

    fn tick_of(&self, at: Instant) -> Tick {
        Tick(u64::try_from(at.saturating_duration_since(self.epoch).as_micros()).unwrap_or(u64::MAX))
    }

    /// The moment of a tick.
    pub fn instant_of(&self, tick: Tick) -> Instant {
        self.epoch + std::time::Duration::from_micros(tick.0)
    }

    pub fn view(&self) -> View<'_> {
        let inner = self.inner.lock();
        View { inner, now: self.now() }
    }

    /// Whether the driver leads, and when that changes.
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// A number for a node's session, never reused.
    pub fn next_session(&self) -> SessionId {
        SessionId(self.next_session.fetch_add(1, Ordering::Relaxed))
    }

    /// Gives the driver an input and carries out what it wants.
    pub fn handle(self: &Arc<Self>, input: Input) {
        let mut inner = self.inner.lock();
        self.step(&mut inner, input);
    }

    /// Gives the driver an input that is answered; waits for the answer.
    pub async fn ask(self: &Arc<Self>, input: impl FnOnce(ReplyId) -> Input) -> Answer {
        let receiver = {
            let mut inner = self.inner.lock();
            let (sender, receiver) = oneshot::channel();
            let id = ReplyId(inner.next_reply);
            inner.next_reply += 1;
            inner.replies.insert(id, sender);
            self.step(&mut inner, input(id));
            receiver
        };
        // The driver answers everyone exactly once; a sender is only dropped with the engine.
        receiver.await.unwrap_or(Answer::NotLeader)
    }

    /// Applies the next command of the log.
    pub fn apply(self: &Arc<Self>, bytes: &[u8]) {
        let envelope = match Envelope::decode(bytes) {
            Ok(envelope) => envelope,
            // R11: leaving it out would make this state differ from the others' for ever.
            Err(why) => panic!("{why}"),
        };
        let token = envelope.token_of(self.origin);
        let mut inner = self.inner.lock();
        let applied = inner.meta.apply(&envelope.command);
        self.counts.applied.fetch_add(1, Ordering::Relaxed);
        // Watchers first: whoever gets an answer may rely on the watchers' having been sent what it is about.
        self.hub.publish(inner.meta.version(), applied.items);
        if inner.driver.leads() {
            news::tell(&envelope.command, &applied.outcome);
        }
        if let (Command::CommitRoll { segment, .. }, Outcome::Done) = (&envelope.command, &applied.outcome) {
            inner.traces.end(*segment);
        }
        self.step(&mut inner, Input::Applied { token, command: envelope.command, outcome: applied.outcome });
    }

    pub fn snapshot(&self) -> Vec<u8> {
        self.inner.lock().meta.snapshot()
    }

    /// Replaces the state.
    pub fn restore(&self, bytes: &[u8]) -> Result<(), RestoreError> {
        let meta = Meta::restore(bytes)?;
        let mut inner = self.inner.lock();
        self.hub.reset(meta.version());
        inner.meta = meta;
        Ok(())
    }

    /// When the driver wants to be called at the latest.
    pub fn next_deadline(&self) -> Option<Tick> {
        let mut inner = self.inner.lock();
        inner.armed = inner.driver.next_deadline();
        inner.armed
    }

    /// Resolves when the next deadline came nearer than [`Engine::next_deadline`] last said.
    pub async fn rearmed(&self) {
        self.rearm.notified().await;
    }

    fn step(self: &Arc<Self>, inner: &mut Inner, input: Input) {
        let mut effects = Vec::new();
        if matches!(input, Input::LostLeadership) {
            inner.traces.clear();
        }
        let now = self.now();
        inner.driver.set_wall_clock(now, unix_ms());
        inner.driver.handle(now, &inner.meta, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Propose { token, mut command } => {
                    inner.traces.begin(&mut command);
                    self.propose(token, command);
                }
                Effect::Step(step) => traces::record(&step, |tick| self.instant_of(tick)),
                Effect::Reply { id, answer } => {
                    if let Some(sender) = inner.replies.remove(&id) {
                        // A caller that hung up no longer cares.
                        drop(sender.send(answer));
                    }
                }
            }
        }
        let leads = inner.driver.leads();
        self.leads.send_if_modified(|known| std::mem::replace(known, leads) != leads);
        let is_nearer = match (inner.driver.next_deadline(), inner.armed) {
            (Some(next), Some(armed)) => next < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_nearer {
            self.rearm.notify_one();
        }
    }

    fn propose(self: &Arc<Self>, token: Token, command: Command) {
        self.counts.proposals.fetch_add(1, Ordering::Relaxed);
        let engine = self.clone();
        let bytes = Envelope::new(self.origin, token, command).encode();
        self.runtime.spawn(async move {
            match engine.log().propose(bytes).await {
                // The driver heard of it when it was applied.
                Ok(_) => {}
                Err(why) => {
                    match &why {
                        ProposeError::TooLarge { .. } => tracing::error!(%why, "a proposal was refused"),
                        ProposeError::NotLeader { .. }
                        | ProposeError::Unknown(_)
                        | ProposeError::Overloaded
                        | ProposeError::ShuttingDown => tracing::debug!(%why, "a proposal was lost"),
                    }
                    engine.counts.proposals_lost.fetch_add(1, Ordering::Relaxed);
                    engine.handle(Input::Lost { token });
                }
            }
        });
    }
}
