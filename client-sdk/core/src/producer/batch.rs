//! A batch on its way, and its bytes under the producer and sequence it has now.

use crate::accumulate::ClosedBatch;
use bytes::{Bytes, BytesMut};
use seam_wire::batch::{BatchBuilder, BatchError, stamp_producer};
use seam_wire::{ProducerId, Tick};

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To be sent, or sent again.
    Waiting,
    /// On the open stream, not answered.
    Sent { seq: u64 },
}

#[derive(Debug)]
enum Body {
    Unbuilt(Box<BatchBuilder>),
    Built {
        bytes: Bytes,
        producer: (ProducerId, i16, i32),
    },
    /// Only while it is built.
    Taken,
}

#[derive(Debug)]
pub(super) struct Batch<T> {
    pub order: u64,
    body: Body,
    pub waiters: Vec<T>,
    pub cost: usize,
    pub deadline: Tick,
    /// The sequence of its first record in the current epoch, once it was sent under one.
    pub base_sequence: Option<i32>,
    pub place: Place,
    /// A copy was sent whose fate is unknown and will stay so.
    pub may_exist: bool,
    pub was_sent: bool,
}

impl<T> Batch<T> {
    pub fn new(batch: ClosedBatch<T>) -> Self {
        let ClosedBatch { order, builder, waiters, cost, deadline } = batch;
        Batch {
            order,
            body: Body::Unbuilt(Box::new(builder)),
            waiters,
            cost,
            deadline,
            base_sequence: None,
            place: Place::Waiting,
            may_exist: false,
            was_sent: false,
        }
    }

    pub fn records(&self) -> u32 {
        u32::try_from(self.waiters.len()).expect("bounded by the records of a batch")
    }

    pub fn is_sent(&self) -> bool {
        matches!(self.place, Place::Sent { .. })
    }

    /// Its bytes under `producer`: built the first time, shared while the producer stays, stamped anew when it changes.
    pub fn stamped(&mut self, producer: (ProducerId, i16, i32)) -> Result<Bytes, BatchError> {
        let bytes = match std::mem::replace(&mut self.body, Body::Taken) {
            Body::Unbuilt(builder) => builder.producer(Some(producer)).build()?,
            Body::Built { bytes, producer: same } if same == producer => bytes,
            Body::Built { bytes, .. } => {
                let mut own = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                stamp_producer(&mut own, producer)?;
                own.freeze()
            }
            Body::Taken => unreachable!("a batch whose build failed has ended"),
        };
        self.body = Body::Built { bytes: bytes.clone(), producer };
        Ok(bytes)
    }

    pub fn shape(&self) -> (u64, u32, Option<i32>, Place, bool) {
        (self.order, self.records(), self.base_sequence, self.place, self.may_exist)
    }
}
