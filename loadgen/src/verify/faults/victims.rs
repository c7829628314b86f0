//! Who is who right now, by metad's word.

use super::director::Director;
use crate::target::Observed;
use seamlog::SegmentInfo;
use std::time::{Duration, Instant};

/// How often metad is asked while something short is waited for.
const GLANCE: Duration = Duration::from_millis(4);

/// The segments of the range.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    pub segments: Vec<SegmentInfo>,
}

impl Looked {
    pub fn head(&self) -> Option<&SegmentInfo> {
        self.segments.iter().rfind(|segment| segment.state == "open")
    }

    pub fn segment(&self, id: u64) -> Option<&SegmentInfo> {
        self.segments.iter().find(|segment| segment.id == id)
    }

    /// Candidates of the head that are ready.
    pub fn ready(&self) -> impl Iterator<Item = &SegmentInfo> {
        let head = self.head().map(|head| head.id);
        self.segments.iter().filter(move |segment| segment.state == "ready" && segment.prior == head)
    }
}

/// The process of a segd node.
pub fn segd(node: u32) -> String {
    format!("segd-{node}")
}

impl<T: Observed> Director<T> {
    pub(super) async fn look(&self) -> Option<Looked> {
        // metad may be electing, or dead: then nobody knows, and the next look asks again.
        let topic = self.target.describe(&self.topic).await.ok()?;
        let segments = topic.ranges.into_iter().next().map_or(Vec::new(), |range| range.segments);
        Some(Looked { segments })
    }

    /// Looks until something is found. `Err`: it did not come about in time.
    pub(super) async fn watch<A>(&self, what: &str, mut find: impl FnMut(&Looked) -> Option<A>) -> Result<A, String> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(found) = self.look().await.as_ref().and_then(&mut find) {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                return Err(format!("{what} did not come about within {:?}", self.patience));
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// The head, and its replicas' processes, the primary first.
    pub(super) async fn head(&self) -> Result<(u64, Vec<String>), String> {
        self.watch("a head without a recovery", |looked| {
            let head = looked.head().filter(|head| head.recovery.is_none())?;
            Some((head.id, head.replicas.iter().map(|node| segd(*node)).collect()))
        })
        .await
    }
}
