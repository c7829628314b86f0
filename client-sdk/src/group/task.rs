//! The task of a member: reads the group's log, writes what the machine wants written, keeps the board. It decides nothing,
//! and it goes on while the application is busy.

use super::board::{Board, Standing};
use super::error::{CommitError, GroupError};
use super::log;
use crate::client::Client;
use crate::clock::micros;
use crate::consumer::Consumer;
use crate::error::ConsumeError;
use crate::producer::{Producer, SendHandle};
use crate::record::Record;
use client_core::group::member::{Claim, CommitFailure, Effect, Input, Member, MemberFailure, MemberSettings};
use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// What the application asks for.
pub enum Request {
    Commit { claims: Vec<Claim>, answer: oneshot::Sender<Result<(), CommitError>> },
    Close { answer: oneshot::Sender<Result<(), CommitError>> },
}

/// How the task of one session ended.
enum End {
    Over,
    /// The log's beginning went before it was read, or a router did not know it: begin again as somebody else.
    Again,
}

/// Before a log that a router did not know is opened again.
const PAUSE: Duration = Duration::from_millis(100);

pub struct Task {
    pub client: Client,
    pub group: String,
    pub log_topic: String,
    pub board: Arc<Board>,
    pub requests: mpsc::Receiver<Request>,
    pub settings: MemberSettings,
    /// How long a member that leaves waits for its last commit to be confirmed.
    pub close_patience: Duration,
}

impl Task {
    /// `log` and `producer` are of the group's log.
    pub async fn run(mut self, mut reader: Consumer, producer: Producer) {
        loop {
            match self.session(reader, &producer).await {
                End::Over => break,
                End::Again => match log::reader(&self.client, &self.log_topic, true).await {
                    Ok(again) => reader = again,
                    Err(error) => {
                        self.fail(error.to_string());
                        break;
                    }
                },
            }
        }
        // What is on its way still goes, within the producer's deadline.
        producer.close().await;
    }

    fn fail(&self, detail: String) {
        self.board.fail(GroupError::Log { group: self.group.clone(), detail });
    }

    async fn session(&mut self, reader: Consumer, producer: &Producer) -> End {
        let member = Member::new(rand::random(), self.settings.clone());
        let mut session = Session {
            member,
            producer,
            appends: FuturesUnordered::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            closing: None,
            give_up: None,
            evictions: 0,
            over: false,
            task: self,
        };
        session.run(reader).await
    }
}

struct Session<'t> {
    task: &'t mut Task,
    member: Member,
    producer: &'t Producer,
    appends: FuturesUnordered<SendHandle>,
    tickets: BTreeMap<u64, oneshot::Sender<Result<(), CommitError>>>,
    next_ticket: u64,
    closing: Option<oneshot::Sender<Result<(), CommitError>>>,
    /// When leaving is no longer waited for.
    give_up: Option<tokio::time::Instant>,
    evictions: u64,
    over: bool,
}

impl Session<'_> {
    async fn run(&mut self, mut reader: Consumer) -> End {
        self.input(Input::Start);
        while !self.over {
            let clock = self.task.client.inner.clock;
            let wake = self.member.next_deadline().map(|at| clock.instant(at).into());
            let board = Arc::clone(&self.task.board);
            tokio::select! {
                biased;
                request = self.task.requests.recv(), if self.give_up.is_none() => self.request(request),
                record = reader.next() => match record {
                    Some(Ok(record)) => {
                        let value = record.value.as_deref();
                        self.input(Input::Record { offset: record.offset, value });
                    }
                    Some(Err(ConsumeError::OffsetOutOfRange { .. } | ConsumeError::Trimmed { .. })) => return self.begin_again("went on without it"),
                    Some(Err(ConsumeError::Lost { from, next, .. })) => if !self.member.skip(from, next) {
                        return self.begin_again("lost what this member had read of it");
                    },
                    Some(Err(ConsumeError::UnknownTopic { .. })) => return self.unknown_log().await,
                    Some(Err(error)) => self.task.fail(format!("its log cannot be read: {error}")),
                    None => self.task.fail("its log came to an end".to_owned()),
                },
                () = board.moved.notified() => self.input(Input::Tick),
                Some(outcome) = self.appends.next(), if !self.appends.is_empty() => {
                    if let Err(error) = outcome {
                        self.not_written(&error);
                    }
                }
                () = sleep_until(wake) => self.input(Input::Tick),
                () = sleep_until(self.give_up) => {
                    tracing::warn!(group = %self.task.group, "left without a confirmation; the others will notice");
                    self.left(Err(CommitError::Unknown { waited_ms: millis(self.task.close_patience) }));
                }
            }
            self.over |= self.task.board.failure().is_some();
        }
        End::Over
    }

    fn request(&mut self, request: Option<Request>) {
        match request {
            Some(Request::Commit { claims, answer }) => {
                let ticket = self.next_ticket;
                self.next_ticket += 1;
                self.tickets.insert(ticket, answer);
                self.input(Input::Commit { ticket, claims });
            }
            Some(Request::Close { answer }) => {
                self.closing = Some(answer);
                self.close(true);
            }
            // The consumer was dropped: what the application came back from counts, no more.
            None => self.close(false),
        }
    }

    fn close(&mut self, handed: bool) {
        self.give_up = Some(tokio::time::Instant::now() + self.task.close_patience);
        self.input(Input::Close { handed });
    }

    fn input(&mut self, input: Input<'_>) {
        let (now, mut out) = (self.task.client.inner.clock.now(), Vec::new());
        let before = self.standing();
        self.member.handle(now, input, &self.task.board.positions(), &mut out);
        let changed = !out.is_empty();
        for effect in out {
            self.carry_out(effect);
        }
        let standing = self.standing();
        if changed || standing != before {
            self.task.board.show(standing);
        }
    }

    fn standing(&self) -> Standing {
        let me = self.member.id();
        let group = self.member.group();
        let topic = group.and_then(|group| group.topics().get(&self.task.settings.subscription.topic));
        let shares = topic.map(|topic| topic.shares.as_slice()).unwrap_or_default();
        let waiting = shares.iter().filter(|share| share.heir == Some(me)).count();
        Standing {
            joined: self.member.joined(),
            generation: group.map_or(0, |group| group.generation()),
            waiting: u32::try_from(waiting).expect("a topic has at most 256 ranges"),
            evictions: self.evictions,
            lease_until: self.member.lease_until(),
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        let board = &self.task.board;
        match effect {
            Effect::Append(entry) => self.appends.push(self.producer.submit(Record::new(entry))),
            Effect::Begin { range, term, from } => board.begin(range, term, from),
            Effect::Hold { range } => board.hold(range, true),
            Effect::Resume { range } => board.hold(range, false),
            Effect::End { range } => board.end(range),
            Effect::Answer { ticket, result } => {
                let waited_us = self.task.settings.commit_deadline_us;
                let result = result.map_err(|failure| match failure {
                    CommitFailure::Fenced { ranges } => CommitError::Fenced { ranges },
                    CommitFailure::Unknown => CommitError::Unknown { waited_ms: waited_us / 1_000 },
                });
                // Nobody waits for it if the application gave up.
                let _ = self.tickets.remove(&ticket).map(|answer| answer.send(result));
            }
            Effect::Evicted => {
                self.evictions += 1;
                let group = &self.task.group;
                tracing::warn!(%group, "the group took this member for dead and shared out its ranges; it joins again");
            }
            Effect::Left { fenced } => {
                let fenced = if fenced.is_empty() { Ok(()) } else { Err(CommitError::Fenced { ranges: fenced }) };
                self.left(fenced);
            }
            Effect::Failed(failure) => {
                let group = self.task.group.clone();
                board.fail(match failure {
                    MemberFailure::Full(what) => GroupError::Full { group, what },
                    MemberFailure::Replay(error) => GroupError::Log { group, detail: error.to_string() },
                });
            }
        }
    }

    fn left(&mut self, result: Result<(), CommitError>) {
        self.over = true;
        // Nobody waits for it where the consumer was dropped.
        let _ = self.closing.take().map(|answer| answer.send(result));
    }

    /// A router does not know the log: it was deleted, or news of it has not come there yet.
    async fn unknown_log(&mut self) -> End {
        let Task { client, log_topic, group, board, .. } = &*self.task;
        if let Ok(false) = log::exists(client, log_topic).await {
            board.fail(GroupError::Deleted { group: group.clone() });
            return End::Over;
        }
        tokio::time::sleep(PAUSE).await;
        self.begin_again("was not known to a router")
    }

    /// Whatever it was, it is written again where it matters, or its waiter is told at its deadline. A deleted log is found
    /// out by reading it.
    fn not_written(&mut self, error: &crate::SendError) {
        tracing::warn!(group = %self.task.group, %error, "an entry of the group's log was not confirmed");
    }

    /// What it was a member as is over: by now it was evicted, or will be.
    fn begin_again(&mut self, why: &str) -> End {
        tracing::warn!(group = %self.task.group, why, "the group's log cannot be read on; this member joins again");
        for (range, _) in self.task.board.reading() {
            self.task.board.end(range);
        }
        self.task.board.show(Standing { evictions: self.evictions + 1, ..Standing::default() });
        if self.give_up.is_some() {
            self.left(Err(CommitError::Unknown { waited_ms: 0 }));
            return End::Over;
        }
        End::Again
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn millis(duration: Duration) -> u64 {
    micros(duration) / 1_000
}
