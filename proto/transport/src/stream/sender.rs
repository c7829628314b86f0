//! A stream with an owner task and a bounded queue before it. Any number of tasks send; whatever has queued up while
//! the network was busy is written in one go.

use super::coalesce::coalesce;
use super::{FrameWriter, StreamError, TrySendError};
use crate::quic::code;
use bytes::Bytes;
use quinn::SendStream;
use seam_wire::frame::{EncodedFrame, Frame, Message};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc, watch};

/// Frames written in one go at most.
const BATCH_FRAMES: usize = 256;
const DEFAULT_QUEUE_BYTES: u32 = 32 << 20;

/// Bounds of a sender's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterLimits {
    /// Frames that may wait; at least 1.
    pub frames: usize,
    /// Encoded bytes that may wait or be on their way into the QUIC stream. A larger frame passes alone.
    pub bytes: u32,
}

/// What an owner task did and has before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Encoded bytes not yet taken by the QUIC stream.
    pub queued_bytes: u64,
    /// Frames not yet taken by the owner task.
    pub queued_frames: usize,
    /// Bytes taken by the QUIC stream: grows as long as the peer reads.
    pub written_bytes: u64,
    pub written_frames: u64,
    /// Write calls: fewer than frames where they were coalesced.
    pub writes: u64,
}

#[derive(Debug)]
struct Shared {
    queued_bytes: AtomicU64,
    written_bytes: AtomicU64,
    written_frames: AtomicU64,
    writes: AtomicU64,
    failure: OnceLock<StreamError>,
}

/// A frame in the queue; its bytes leave the gauge and the budget when it is dropped, written or not.
#[derive(Debug)]
struct Queued {
    frame: EncodedFrame,
    shared: Arc<Shared>,
    _budget: OwnedSemaphorePermit,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.shared.queued_bytes.fetch_sub(self.frame.len() as u64, Ordering::Relaxed);
    }
}

/// Sends frames of one family to a stream's owner task. Cheap to clone; when the last clone is dropped, the owner writes
/// what is queued and finishes the stream.
#[derive(Debug)]
pub struct FrameSender<M> {
    queue: mpsc::Sender<Queued>,
    budget: Arc<Semaphore>,
    limits: WriterLimits,
    shared: Arc<Shared>,
    /// True when the owner task is done.
    done: watch::Receiver<bool>,
    _family: PhantomData<fn(M)>,
}

impl<M> Clone for FrameSender<M> {
    fn clone(&self) -> Self {
        FrameSender {
            queue: self.queue.clone(),
            budget: Arc::clone(&self.budget),
            limits: self.limits,
            shared: Arc::clone(&self.shared),
            done: self.done.clone(),
            _family: PhantomData,
        }
    }
}

/// Gives `stream` an owner task with a queue of `queue_frames` frames and 32 MiB. Must be called inside a tokio runtime.
pub fn spawn_writer<M: Message>(stream: SendStream, queue_frames: usize) -> FrameSender<M> {
    spawn_writer_with(stream, WriterLimits { frames: queue_frames, bytes: DEFAULT_QUEUE_BYTES })
}

/// `spawn_writer` with a bound on bytes too.
///
/// # Panics
/// If a limit is 0.
pub fn spawn_writer_with<M: Message>(stream: SendStream, limits: WriterLimits) -> FrameSender<M> {
    assert!(limits.frames > 0 && limits.bytes > 0, "a queue without room sends nothing: {limits:?}");
    let (queue, waiting) = mpsc::channel(limits.frames);
    let (done_sender, done) = watch::channel(false);
    let shared = Arc::new(Shared {
        queued_bytes: AtomicU64::new(0),
        written_bytes: AtomicU64::new(0),
        written_frames: AtomicU64::new(0),
        writes: AtomicU64::new(0),
        failure: OnceLock::new(),
    });
    let owner = Owner {
        writer: FrameWriter::new(stream),
        waiting,
        batch: Vec::with_capacity(BATCH_FRAMES),
        shared: Arc::clone(&shared),
    };
    tokio::spawn(async move {
        owner.run().await;
        // Nobody listens when all senders are gone.
        let _ = done_sender.send(true);
    });
    let budget = Arc::new(Semaphore::new(limits.bytes as usize));
    FrameSender { queue, budget, limits, shared, done, _family: PhantomData }
}

impl<M: Message> FrameSender<M> {
    /// Queues a frame, waiting for room. `Ok` means queued, not sent. Cancel safe: a dropped call queued nothing.
    /// Frames of one task leave in its order.
    pub async fn send(&self, frame: Frame<M>) -> Result<(), StreamError> {
        let encoded = frame.encode()?;
        let permit = Arc::clone(&self.budget).acquire_many_owned(self.cost(&encoded));
        let budget = self.unless_closed(permit).await?.expect("the budget is never closed");
        let place = self.queue.reserve().await.map_err(|_| self.failure())?;
        place.send(self.queued(encoded, budget));
        Ok(())
    }

    /// Queues a frame if there is room now. Everything that fails was not sent.
    pub fn try_send(&self, frame: Frame<M>) -> Result<(), TrySendError<Frame<M>>> {
        let encoded = match frame.encode() {
            Ok(encoded) => encoded,
            Err(error) => return Err(TrySendError::Stream(error.into())),
        };
        let place = match self.queue.try_reserve() {
            Ok(place) => place,
            Err(mpsc::error::TrySendError::Full(())) => return Err(TrySendError::Full(frame)),
            Err(mpsc::error::TrySendError::Closed(())) => return Err(TrySendError::Stream(self.failure())),
        };
        match Arc::clone(&self.budget).try_acquire_many_owned(self.cost(&encoded)) {
            Ok(budget) => place.send(self.queued(encoded, budget)),
            Err(TryAcquireError::NoPermits) => return Err(TrySendError::Full(frame)),
            Err(TryAcquireError::Closed) => unreachable!("the budget is never closed"),
        }
        Ok(())
    }

    fn queued(&self, frame: EncodedFrame, budget: OwnedSemaphorePermit) -> Queued {
        self.shared.queued_bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
        Queued { frame, shared: Arc::clone(&self.shared), _budget: budget }
    }

    /// A frame above the whole budget waits for all of it.
    fn cost(&self, frame: &EncodedFrame) -> u32 {
        u32::try_from(frame.len()).unwrap_or(u32::MAX).min(self.limits.bytes)
    }

    /// A full budget is never given back by an owner that is gone.
    async fn unless_closed<T>(&self, wait: impl Future<Output = T>) -> Result<T, StreamError> {
        tokio::select! {
            biased;
            () = self.queue.closed() => Err(self.failure()),
            value = wait => Ok(value),
        }
    }
}

impl<M> FrameSender<M> {
    /// Queues, gauges and counters of the stream.
    pub fn stats(&self) -> WriterStats {
        WriterStats {
            queued_bytes: self.queued_bytes(),
            queued_frames: self.queue.max_capacity() - self.queue.capacity(),
            written_bytes: self.shared.written_bytes.load(Ordering::Relaxed),
            written_frames: self.shared.written_frames.load(Ordering::Relaxed),
            writes: self.shared.writes.load(Ordering::Relaxed),
        }
    }

    /// Encoded bytes not yet taken by the QUIC stream.
    pub fn queued_bytes(&self) -> u64 {
        self.shared.queued_bytes.load(Ordering::Relaxed)
    }

    /// Whether the stream is over: stopped by the peer, or its connection lost.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Waits until the stream is over, and says why. Cancel safe.
    pub async fn closed(&self) -> StreamError {
        self.queue.closed().await;
        self.failure()
    }

    /// Gives up this sender, waits until the peer has received all that was queued. Other clones must be dropped too,
    /// or this waits for them. Call it before closing a connection: closing drops what is under way.
    pub async fn finish(self) -> Result<(), StreamError> {
        let FrameSender { queue, shared, mut done, .. } = self;
        drop(queue);
        // An error means that the task was aborted with its runtime.
        let _ = done.wait_for(|done| *done).await;
        match shared.failure.get() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn failure(&self) -> StreamError {
        self.shared.failure.get().cloned().unwrap_or(StreamError::Finished)
    }
}

struct Owner {
    writer: FrameWriter,
    waiting: mpsc::Receiver<Queued>,
    /// The frames being written.
    batch: Vec<Queued>,
    shared: Arc<Shared>,
}

impl Owner {
    async fn run(mut self) {
        if let Err(error) = self.write_until_dropped().await {
            let _ = self.shared.failure.set(error);
        }
        // In this order: the reason stands before the queue closes, and the queue closes before the lost frames free
        // their budget, or a sender that waits for it would queue a frame that goes nowhere.
        self.waiting.close();
        self.batch.clear();
    }

    async fn write_until_dropped(&mut self) -> Result<(), StreamError> {
        let stopped = self.writer.stream().stopped();
        let mut stopped = std::pin::pin!(stopped);
        let mut chunks: Vec<Bytes> = Vec::new();
        loop {
            // Both are cancel safe; the write below is not, and stands outside.
            let taken = tokio::select! {
                taken = self.waiting.recv_many(&mut self.batch, BATCH_FRAMES) => taken,
                why = &mut stopped => return Err(stopped_error(why)),
            };
            if taken == 0 {
                break;
            }
            chunks.clear();
            coalesce(self.batch.iter().map(|queued| queued.frame.clone()), &mut chunks);
            let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
            self.writer.write_chunks(&mut chunks).await?;
            self.shared.written_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.shared.written_frames.fetch_add(taken as u64, Ordering::Relaxed);
            self.shared.writes.fetch_add(1, Ordering::Relaxed);
            self.batch.clear();
        }
        self.writer.finish()?;
        match stopped.await {
            Ok(None) => Ok(()),
            why => Err(stopped_error(why)),
        }
    }
}

fn stopped_error(why: Result<Option<quinn::VarInt>, quinn::StoppedError>) -> StreamError {
    match why {
        Ok(peer_code) => StreamError::Write(quinn::WriteError::Stopped(peer_code.unwrap_or(code::DONE))),
        Err(quinn::StoppedError::ConnectionLost(lost)) => StreamError::Connection(lost),
        Err(quinn::StoppedError::ZeroRttRejected) => StreamError::Write(quinn::WriteError::ZeroRttRejected),
    }
}
