//! The ranges that clients of this router produce to.

use crate::context::Context;
use crate::range::{Range, RangeStatus};
use parking_lot::Mutex;
use router_core::producer::ClientStream;
use seam_transport::stream::FrameSender;
use seam_wire::RangeId;
use seam_wire::msg::FromRouter;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub struct Ranges {
    ranges: Mutex<BTreeMap<RangeId, Arc<Range>>>,
    next_client: AtomicU64,
}

impl Ranges {
    /// A client begins to produce to `range`.
    pub fn join(
        &self,
        range: RangeId,
        context: &Arc<Context>,
        replies: FrameSender<FromRouter>,
        cut: CancellationToken,
    ) -> (Arc<Range>, ClientStream) {
        let client = ClientStream(self.next_client.fetch_add(1, Ordering::Relaxed));
        let mut ranges = self.ranges.lock();
        let entry = ranges.entry(range).or_insert_with(|| Range::start(range, Arc::clone(context)));
        // Under the lock, so that the range is not swept away before it knows of the client.
        entry.join(client, replies, cut);
        context.counters.ranges.set(ranges.len() as i64);
        (Arc::clone(&ranges[&range]), client)
    }

    /// Lets go of ranges that nobody uses.
    pub async fn sweep(&self, context: &Context) {
        let idle = Duration::from_millis(context.limits.range_idle_ms);
        let period = idle.clamp(Duration::from_millis(10), Duration::from_secs(10));
        loop {
            tokio::select! {
                () = context.stop.cancelled() => return,
                () = tokio::time::sleep(period) => {}
            }
            let mut ranges = self.ranges.lock();
            ranges.retain(|_, range| {
                let over = range.is_over(idle);
                if over {
                    range.close();
                }
                !over
            });
            context.counters.ranges.set(ranges.len() as i64);
        }
    }

    pub fn status(&self) -> Vec<RangeStatus> {
        self.ranges.lock().values().map(|range| range.status()).collect()
    }

    pub fn close(&self) {
        for range in std::mem::take(&mut *self.ranges.lock()).into_values() {
            range.close();
        }
    }
}
