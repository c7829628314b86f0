//! Plays one fault at a time: finds the victim, breaks it, watches what becomes of it, puts back what it broke, and waits
//! until the cluster is whole. Every wait is bounded; what does not come about is the fault's failure.

use super::dev::{Dev, Signal};
use super::kind::Kind;
use super::victims::segd;
use crate::clock::Clock;
use crate::target::Observed;
use crate::verify::compare;
use crate::verify::live::Live;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Successors whose primary is also the head's are passed over so often: killing that is another fault.
const PASSED_OVER_MAX: usize = 5;

/// Records that a group commits before everything is killed.
const GROUP_RECORDS: usize = 20;

/// A primary that is frozen for so long or longer must have been replaced.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(15);

/// Breaks a cluster while a topic is loaded.
pub struct Director<T> {
    pub target: Arc<T>,
    pub dev: Dev,
    pub topic: String,
    pub clock: Clock,
    pub live: Arc<Live>,
    /// How long anything may take to come about.
    pub patience: Duration,
    /// How long a frozen primary stays so.
    pub pause: Duration,
}

/// A fault as it was played. Times on the run's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    pub kind: Kind,
    /// The processes that were broken, in order.
    pub victims: Vec<String>,
    /// The segment that was written when the fault began.
    pub segment: Option<u64>,
    /// The first signal.
    pub signal: Signal,
    /// The segment's recovery was seen to have begun, and to have been decided.
    pub appointed_us: Option<u64>,
    pub decided_us: Option<u64>,
    /// The cluster worked without what was broken, so that it was put back from then on.
    pub survived_us: Option<u64>,
    pub whole_us: Option<u64>,
    pub notes: Vec<String>,
    /// What did not come about, or differs from before.
    pub failures: Vec<String>,
}

impl<T: Observed> Director<T> {
    /// Plays one fault to its end. It never stops half way: whatever fails, what does not run is started again.
    pub async fn play(&self, kind: Kind) -> Played {
        let mut played = Played {
            kind,
            victims: Vec::new(),
            segment: None,
            signal: Signal::default(),
            appointed_us: None,
            decided_us: None,
            survived_us: None,
            whole_us: None,
            notes: Vec::new(),
            failures: Vec::new(),
        };
        let outcome = match kind {
            Kind::KillPrimary => self.kill_replica(0, &mut played).await,
            Kind::KillFollower => self.kill_replica(1, &mut played).await,
            Kind::KillReadySuccessor => self.kill_ready_successor(&mut played).await,
            Kind::KillBegunSuccessor => self.kill_begun_successor(&mut played).await,
            Kind::KillAgent => self.kill_agent(&mut played).await,
            Kind::KillMetadLeader => self.kill_metad_leader(&mut played).await,
            Kind::KillRouter => self.kill_routers(&mut played).await,
            Kind::KillAll => self.kill_all(&mut played).await,
            Kind::PausePrimary => self.pause_primary(&mut played).await,
        };
        played.failures.extend(outcome.err());
        // What did not come about must not leave the next fault with a broken cluster.
        played.failures.extend(self.repair().await.err());
        match self.await_whole().await {
            Ok(()) => played.whole_us = Some(self.clock.now_us()),
            Err(missing) => played.failures.push(missing),
        }
        played
    }

    async fn kill(&self, name: &str, played: &mut Played) -> Result<Signal, String> {
        let signal = self.dev.kill(name).await.map_err(|error| error.to_string())?;
        if played.victims.is_empty() {
            played.signal = signal;
        }
        played.victims.push(name.to_owned());
        Ok(signal)
    }

    async fn restart(&self, name: &str) -> Result<(), String> {
        self.dev.restart(name).await.map_err(|error| error.to_string())
    }

    /// Until a record that was sent after the victim was gone is acked.
    async fn survive(&self, signal: Signal, played: &mut Played) -> Result<(), String> {
        self.await_ack(signal.heeded_us).await?;
        played.survived_us = Some(self.clock.now_us());
        Ok(())
    }

    async fn kill_replica(&self, place: usize, played: &mut Played) -> Result<(), String> {
        let (segment, replicas) = self.head().await?;
        let name = replicas.get(place).ok_or_else(|| format!("segment {segment} has {} replicas", replicas.len()))?;
        played.segment = Some(segment);
        let signal = self.kill(name, played).await?;
        if place == 0 {
            self.watch_recovery(segment, played).await;
        }
        self.survive(signal, played).await?;
        self.restart(name).await
    }

    /// Notes when the recovery was seen. A segment that was sealed just before the kill needs none.
    async fn watch_recovery(&self, segment: u64, played: &mut Played) {
        let (clock, killed_us) = (self.clock, played.signal.heeded_us);
        let mut appointed_us = None;
        let decided = self.watch("the end of the primary's segment", |looked| {
            let info = looked.segment(segment)?;
            if info.recovery.is_some() && appointed_us.is_none() {
                appointed_us = Some(clock.now_us());
            }
            (info.state == "sealed").then(|| (info.recovery.map(|recovery| recovery.epoch), clock.now_us()))
        });
        match decided.await {
            Ok((Some(epoch), decided_us)) => {
                played.appointed_us = appointed_us;
                played.decided_us = Some(decided_us);
                played.notes.push(format!("decided in recovery epoch {epoch}"));
            }
            Ok((None, decided_us)) => {
                let late_us = decided_us.saturating_sub(killed_us);
                played.notes.push(format!("the segment had switched before the kill; recorded after {late_us} us"));
            }
            Err(missing) => played.failures.push(missing),
        }
    }

    async fn kill_ready_successor(&self, played: &mut Played) -> Result<(), String> {
        let mut known: BTreeSet<u64> = match self.look().await {
            Some(looked) => looked.ready().map(|segment| segment.id).collect(),
            None => BTreeSet::new(),
        };
        let mut passed_over = 0;
        let (head, successor, primary) = self
            .watch("a successor reported ready", |looked| {
                let head = looked.head()?;
                let fresh = looked.ready().find(|segment| !known.contains(&segment.id))?;
                known.insert(fresh.id);
                if fresh.replicas.first() == head.replicas.first() && passed_over < PASSED_OVER_MAX {
                    passed_over += 1;
                    return None;
                }
                Some((head.id, fresh.id, segd(*fresh.replicas.first()?)))
            })
            .await?;
        played.segment = Some(head);
        let signal = self.kill(&primary, played).await?;
        self.what_became_of(successor, played).await;
        self.survive(signal, played).await?;
        self.restart(&primary).await
    }

    async fn kill_begun_successor(&self, played: &mut Played) -> Result<(), String> {
        let (before, _) = self.head().await?;
        let (successor, primary) = self
            .watch("a roll", |looked| {
                let head = looked.head().filter(|head| head.id != before)?;
                Some((head.id, segd(*head.replicas.first()?)))
            })
            .await?;
        played.segment = Some(successor);
        let signal = self.kill(&primary, played).await?;
        self.watch_recovery(successor, played).await;
        self.survive(signal, played).await?;
        self.restart(&primary).await
    }

    async fn what_became_of(&self, segment: u64, played: &mut Played) {
        if let Some(looked) = self.look().await {
            let state = looked.segment(segment).map_or("reclaimed", |segment| &segment.state);
            played.notes.push(format!("the successor, segment {segment}, was {state} after the kill"));
        }
    }

    async fn kill_agent(&self, played: &mut Played) -> Result<(), String> {
        let (segment, replicas) = self.head().await?;
        let primary = replicas.first().ok_or("a segment has a primary")?;
        played.segment = Some(segment);
        let signal = self.kill(primary, played).await?;
        let appointed = self.watch("an agent", |looked| {
            let info = looked.segment(segment)?;
            match &info.recovery {
                Some(recovery) => Some(Some((recovery.epoch, segd(recovery.agent), info.state == "sealed"))),
                None => (info.state == "sealed").then_some(None),
            }
        });
        match appointed.await? {
            Some((epoch, agent, is_over)) => {
                self.kill(&agent, played).await?;
                let seen = if is_over { "seen when it was done" } else { "seen at work" };
                played.notes.push(format!("{agent}, the agent of epoch {epoch}, was {seen}"));
                // With two of three replicas dead nothing may be decided. Its right to recover ended with its process.
                self.restart(&agent).await?;
            }
            None => {
                played.notes.push("the segment had switched before the kill: nothing was to be recovered".to_owned())
            }
        }
        self.watch_recovery(segment, played).await;
        self.survive(signal, played).await?;
        self.restart(primary).await
    }

    async fn kill_metad_leader(&self, played: &mut Played) -> Result<(), String> {
        let leader = self.target.status().await.map_err(|error| error.to_string())?.leader;
        let (before, _) = self.head().await?;
        played.segment = Some(before);
        let signal = self.kill(&leader, played).await?;
        self.survive(signal, played).await?;
        // Writes need no metad; rolls need the next leader.
        self.watch("a roll under the next leader", |looked| looked.head().filter(|head| head.id > before).map(|_| ()))
            .await?;
        self.restart(&leader).await
    }

    async fn kill_routers(&self, played: &mut Played) -> Result<(), String> {
        let (processes, _) = self.dev.status().await.map_err(|error| error.to_string())?;
        let routers: Vec<String> =
            processes.into_iter().filter(|process| process.role == "router").map(|process| process.name).collect();
        if routers.len() < 2 {
            played.notes.push("with one router clients wait until it is back".to_owned());
        }
        for router in &routers {
            let signal = self.kill(router, played).await?;
            if routers.len() > 1 {
                self.survive(signal, played).await?;
            }
            self.restart(router).await?;
            self.await_whole().await?;
        }
        Ok(())
    }

    async fn kill_all(&self, played: &mut Played) -> Result<(), String> {
        // A group that nobody is in: what it has committed must be there afterwards.
        let group = format!("{}-kill-all", self.topic);
        let of_group = format!("group {group}");
        let committing = self.target.commit_in_group(&group, &self.topic, GROUP_RECORDS).await;
        committing.map_err(|error| format!("{of_group}: {error}"))?;
        let committed = self.target.committed().await.map_err(|error| error.to_string())?;
        let topics = self.target.topics().await.map_err(|error| error.to_string())?;
        let (_, metad_rtt_ms) = self.dev.status().await.map_err(|error| error.to_string())?;
        let (segment, _) = self.head().await?;
        played.segment = Some(segment);
        self.kill("all", played).await?;
        self.dev.up(metad_rtt_ms).await.map_err(|error| error.to_string())?;
        self.await_whole().await?;
        let now = self.target.topics().await.map_err(|error| error.to_string())?;
        let still = self.target.committed().await.map_err(|error| error.to_string())?;
        let (topic_count, place_count) = (topics.len(), committed.len());
        played.notes.push(format!("{topic_count} topics and {place_count} committed offsets compared with before"));
        played.failures.extend(compare::differences(&topics, &now));
        played.failures.extend(compare::forgotten(&committed, &still));
        if committed.is_empty() {
            played.failures.push(format!("{of_group} had committed nothing: there was nothing to compare"));
        }
        self.target.delete_group(&group).await.map_err(|error| format!("{of_group}: {error}"))?;
        Ok(())
    }

    async fn pause_primary(&self, played: &mut Played) -> Result<(), String> {
        let (segment, replicas) = self.head().await?;
        let name = replicas.first().ok_or("a segment has a primary")?;
        played.segment = Some(segment);
        let signal = self.dev.pause(name).await.map_err(|error| error.to_string())?;
        played.signal = signal;
        played.victims.push(name.clone());
        let back = tokio::time::Instant::now() + self.pause;
        let outcome = tokio::time::timeout_at(back, self.survive(signal, played)).await;
        tokio::time::sleep_until(back).await;
        self.dev.resume(name).await.map_err(|error| error.to_string())?;
        match outcome {
            Ok(outcome) => outcome,
            Err(_) if self.pause >= TAKEN_OVER_WITHIN => {
                Err(format!("nobody took over from {name}, frozen for {:?}", self.pause))
            }
            Err(_) => {
                played.notes.push("it was back before another took over".to_owned());
                Ok(())
            }
        }
    }
}
