//! Consumers that resume: members of a group share out a topic's ranges and go on where the group has committed.

mod admin;
mod board;
mod builder;
mod error;
mod log;
mod task;

pub use admin::{GroupInfo, GroupMember, GroupRange, GroupTopic, Groups, ResetTo};
pub use builder::GroupConsumerBuilder;
pub use error::{CommitError, GroupAdminError, GroupError};

use crate::clock::Clock;
use crate::consumer::tails::Tails;
use crate::consumer::{ReadFrom, consumed, resolve};
use crate::error::ConsumeError;
use crate::record::ConsumedRecord;
use board::{Board, Verdict};
use client_core::group::member::Claim;
use futures::Stream;
use seam_wire::Offset;
use seam_wire::batch::Record;
use seam_wire::msg::TailFrom;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use task::Request;
use tokio::sync::{mpsc, oneshot};

/// What a member has at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Whether it is a member yet, or again.
    pub joined: bool,
    /// Counts the changes of who has what in the group.
    pub generation: u64,
    /// Its ranges by index, each with the offset that is handed out next, once that is known.
    pub ranges: BTreeMap<u32, Option<Offset>>,
    /// Ranges it gets as soon as their owners are done with them.
    pub waiting: u32,
    /// Times the others took it for dead.
    pub evictions: u64,
}

/// The rest of the batch in hand.
struct InHand {
    range: u32,
    term: u64,
    records: std::vec::IntoIter<Record>,
}

/// A member of a consumer group. It reads its share of a topic's ranges, each in order, from where the group has committed.
/// Each record is delivered to some member at least once; again only what was not committed when its range moved, because
/// its member was killed, was silent for the session timeout, or did not come back from its records in time.
///
/// By default it commits in the background what the application came back from by asking for the next record.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seamlog::{Client, ClientConfig};
///
/// let client = Client::connect(ClientConfig::load("client.toml")?)?;
/// let mut consumer = client.consumer("events").group("billing").build().await?;
/// while let Some(record) = consumer.next().await {
///     let record = record?;
///     println!("{}/{}: {:?}", record.range, record.offset, record.value);
/// #   break;
/// }
/// consumer.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// It is a `Stream` too. It stays a member, and keeps its ranges, while nobody polls it. Dropping it leaves the group, with
/// what the application came back from committed; what it was handed last is delivered again.
pub struct GroupConsumer {
    group: String,
    from: ReadFrom,
    tails: Tails,
    board: Arc<Board>,
    asks: mpsc::Sender<Request>,
    clock: Clock,
    /// The board's version that `reading` is brought up to.
    seen: u64,
    /// The term of each range that is read.
    reading: BTreeMap<u32, u64>,
    in_hand: Option<InHand>,
    /// The range and term of the record that was handed out last.
    last: Option<(u32, u64)>,
    /// Handed out and not committed by `commit`.
    dirty: BTreeMap<u32, (u64, Offset)>,
    over: bool,
}

impl fmt::Debug for GroupConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (topic, group) = (self.tails.topic(), &self.group);
        f.debug_struct("GroupConsumer").field("topic", &topic).field("group", group).finish_non_exhaustive()
    }
}

impl GroupConsumer {
    fn new(
        group: String,
        from: ReadFrom,
        tails: Tails,
        board: Arc<Board>,
        asks: mpsc::Sender<Request>,
        clock: Clock,
    ) -> Self {
        GroupConsumer {
            group,
            from,
            tails,
            board,
            asks,
            clock,
            seen: 0,
            reading: BTreeMap::new(),
            in_hand: None,
            last: None,
            dirty: BTreeMap::new(),
            over: false,
        }
    }

    /// The next record of the member's ranges; waits while there is none. Asking for it says that the application is done
    /// with the one before. Ends only after an error. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<ConsumedRecord, ConsumeError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Commits the positions of all records handed out so far, and returns once the group counts them. Errors: other members
    /// have some of the ranges already; no confirmation within the commit timeout; the member is over. Cancel safe.
    pub async fn commit(&mut self) -> Result<(), CommitError> {
        let claims: Vec<Claim> = self
            .dirty
            .iter()
            .map(|(range, (term, offset))| Claim { range: *range, term: *term, offset: *offset })
            .collect();
        let (answer, outcome) = oneshot::channel();
        let asked = self.asks.send(Request::Commit { claims: claims.clone(), answer }).await;
        let result = match asked {
            Ok(()) => outcome.await.unwrap_or_else(|_| Err(self.over())),
            Err(_) => Err(self.over()),
        };
        if let Ok(()) | Err(CommitError::Fenced { .. }) = &result {
            for Claim { range, term, offset } in claims {
                self.dirty.retain(|dirty, at| *dirty != range || *at != (term, offset));
            }
        }
        result
    }

    /// Leaves the group. With auto commit, all that was handed out is committed first; without, nothing. Errors: as
    /// [`GroupConsumer::commit`]; it has left then too, or the others notice within the session timeout.
    pub async fn close(self) -> Result<(), CommitError> {
        let (answer, outcome) = oneshot::channel();
        match self.asks.send(Request::Close { answer }).await {
            Ok(()) => outcome.await.unwrap_or_else(|_| Err(self.over())),
            Err(_) => Err(self.over()),
        }
    }

    /// What it has at this moment.
    pub fn assignment(&self) -> Assignment {
        let standing = self.board.standing();
        Assignment {
            joined: standing.joined,
            generation: standing.generation,
            ranges: self.board.reading().into_iter().collect(),
            waiting: standing.waiting,
            evictions: standing.evictions,
        }
    }

    fn over(&self) -> CommitError {
        let (group, detail) = (self.group.clone(), "the member is over".to_owned());
        CommitError::Over(self.board.failure().unwrap_or(GroupError::Log { group, detail }))
    }

    /// Begins and ends tails as the board says.
    fn follow_board(&mut self) {
        let Some(slots) = self.board.changes(&mut self.seen) else {
            return;
        };
        let gone =
            |(range, term): (&u32, &u64)| slots.get(range).is_none_or(|slot| slot.term != *term).then_some(*range);
        for range in self.reading.iter().filter_map(gone).collect::<Vec<_>>() {
            self.reading.remove(&range);
            self.tails.end(range);
            self.in_hand.take_if(|in_hand| in_hand.range == range);
        }
        for (range, slot) in
            slots.into_iter().filter(|(range, _)| !self.reading.contains_key(range)).collect::<Vec<_>>()
        {
            self.reading.insert(range, slot.term);
            let (board, source, from) = (Arc::clone(&self.board), self.tails.source().clone(), self.from);
            self.tails.begin(
                range,
                Box::pin(async move {
                    let start = match slot.from {
                        Some(committed) => committed,
                        None => resolve(&source, range, from).await?,
                    };
                    board.started(range, slot.term, start);
                    Ok(TailFrom::Offset(start))
                }),
            );
        }
    }

    /// The next record of the batch in hand, if it may be handed out.
    fn hand_out(&mut self) -> Option<ConsumedRecord> {
        let InHand { range, term, records } = self.in_hand.as_mut()?;
        let (range, term) = (*range, *term);
        let offset = records.as_slice().first()?.offset;
        match self.board.hand(self.clock.now(), range, term, offset) {
            Verdict::Given => {
                self.last = Some((range, term));
                self.dirty.insert(range, (term, offset.plus(1)));
                records.next().map(|record| consumed(range, record))
            }
            Verdict::Dropped => {
                self.in_hand = None;
                self.reading.remove(&range);
                self.tails.end(range);
                // If it is ours all the same by now, it is read anew from where it was.
                self.seen = u64::MAX;
                None
            }
            Verdict::Later => None,
        }
    }
}

impl Stream for GroupConsumer {
    type Item = Result<ConsumedRecord, ConsumeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        this.board.register(cx.waker());
        if let Some((range, term)) = this.last.take() {
            this.board.came_back(range, term);
        }
        if let Some(failure) = this.board.failure() {
            this.over = true;
            return Poll::Ready(Some(Err(ConsumeError::Group(failure))));
        }
        loop {
            this.follow_board();
            if let Some(record) = this.hand_out() {
                return Poll::Ready(Some(Ok(record)));
            }
            if this.in_hand.as_ref().is_some_and(|in_hand| !in_hand.records.as_slice().is_empty()) {
                // Held back: the board wakes us when that changes.
                return Poll::Pending;
            }
            match this.tails.poll_next(cx) {
                Poll::Ready(Some(Ok((range, chunk)))) => {
                    let term = this.reading.get(&range).copied().expect("tails of other ranges were ended");
                    this.in_hand = Some(InHand { range, term, records: chunk.into_records() });
                }
                Poll::Ready(Some(Err(error))) => {
                    this.over = !error.is_passing();
                    return Poll::Ready(Some(Err(error)));
                }
                // It has no range now, or none has anything.
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }
}
