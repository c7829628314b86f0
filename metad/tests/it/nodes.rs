//! Stand-ins for segd: they register, send heartbeats, say `Ready` to what they are given and `Reclaimed` to what is taken
//! back. They hold no data; soft marks and seals are the test's to report.

use crate::cluster::{Cluster, until};
use parking_lot::Mutex;
use seam_grpc::{HeartbeatRequest, RegisterRequest};
use seam_transport::Role;
use seam_transport::meta_client::{MetaClient, MetaError};
use seam_wire::meta::{MetaItem, SegmentState, SegmentView};
use seam_wire::report::{Report, RollStats};
use seam_wire::{Incarnation, NodeId, Offset, SegmentId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};

const LIFE: Incarnation = Incarnation(1);

/// What a node learnt by watching.
#[derive(Clone, Default)]
pub struct Known(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    segments: BTreeMap<SegmentId, SegmentView>,
    versions: Vec<(u64, bool)>,
}

impl Known {
    pub fn segment(&self, id: SegmentId) -> Option<SegmentView> {
        self.0.lock().segments.get(&id).cloned()
    }

    /// Versions in the order they came, and whether each was a reset.
    pub fn versions(&self) -> Vec<(u64, bool)> {
        self.0.lock().versions.clone()
    }

    pub fn find(&self, matches: impl Fn(&SegmentView) -> bool) -> Option<SegmentView> {
        self.0.lock().segments.values().find(|view| matches(view)).cloned()
    }

    fn take(&self, update: &seam_wire::meta::MetaUpdate) {
        let mut inner = self.0.lock();
        if update.reset {
            inner.segments.clear();
        }
        inner.versions.push((update.version, update.reset));
        for item in &update.items {
            if let MetaItem::Segment(view) = item {
                inner.segments.insert(view.spec.id, view.clone());
            }
        }
    }
}

/// Nodes 1 to `count`, all registered. They live as long as this does.
pub struct Nodes {
    pub clients: BTreeMap<NodeId, MetaClient>,
    /// What node 1 learnt.
    pub known: Known,
    /// The tasks that hold the sessions.
    beats: BTreeMap<NodeId, AbortHandle>,
    _tasks: JoinSet<()>,
}

impl Nodes {
    pub async fn start(cluster: &Cluster, count: u32) -> Nodes {
        let mut tasks = JoinSet::new();
        let known = Known::default();
        let (mut clients, mut beats) = (BTreeMap::new(), BTreeMap::new());
        for id in (1..=count).map(NodeId) {
            let client = cluster.client(&id.to_string(), Role::Segd);
            client.register(registration(id)).await.unwrap();
            clients.insert(id, client.clone());
            let shared = if id == NodeId(1) { known.clone() } else { Known::default() };
            beats.insert(id, tasks.spawn(beat(client.clone(), id)));
            tasks.spawn(work(client, id, shared));
        }
        // Placement waits for what the heartbeats say.
        let admin = cluster.client("client", Role::Client);
        loop {
            let nodes = admin.list_nodes(seam_grpc::ListNodesRequest {}).await.unwrap().nodes;
            if nodes.iter().filter(|node| node.free_bytes > 0).count() == count as usize {
                break;
            }
        }
        Nodes { clients, known, beats, _tasks: tasks }
    }

    /// Ends the node's session, as the death of its process would.
    pub fn kill(&self, id: NodeId) {
        self.beats[&id].abort();
    }

    /// The first open segment that node 1 knows of.
    pub async fn open_segment(&self) -> SegmentView {
        until("an open segment", || self.known.find(|view| matches!(view.state, SegmentState::Open { .. }))).await
    }

    /// Reports until it is taken.
    pub async fn report(&self, node: NodeId, report: &Report) {
        loop {
            let answer = self.clients[&node].report(node, LIFE, report, None).await.unwrap();
            if answer.done {
                assert_eq!(answer.why, "", "{report:?}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn soft_mark(&self, segment: &SegmentView) {
        let report = Report::SoftMark {
            segment: segment.spec.id,
            bytes: 900,
            end: Offset(90),
            rate_bytes_per_s: 1000,
            soft_mark_bytes: 900,
            attempt: 1,
            trace: None,
        };
        self.report(segment.spec.primary(), &report).await;
    }

    pub async fn ready_successor(&self, of: &SegmentView) -> SegmentView {
        let is_ready = |view: &SegmentView| {
            view.spec.prior == Some(of.spec.id) && matches!(view.state, SegmentState::Ready { .. })
        };
        until("a ready successor", || self.known.find(is_ready)).await
    }

    pub async fn sealed(&self, segment: &SegmentView, next: SegmentId, records: u64) {
        let SegmentState::Open { start } = segment.state else { panic!("{segment:?} is not open") };
        let stats = RollStats { announce_to_ready_us: 7, ..RollStats::default() };
        let end = start.plus(records);
        let report = Report::Sealed { segment: segment.spec.id, start, end, next, stats };
        self.report(segment.spec.primary(), &report).await;
    }

    pub async fn opened(&self, id: SegmentId) -> SegmentView {
        let is_open = |view: SegmentView| matches!(view.state, SegmentState::Open { .. }).then_some(view);
        until("the successor opens", || self.known.segment(id).and_then(is_open)).await
    }

    /// One planned roll of `segment`; returns its successor, open.
    pub async fn roll(&self, segment: &SegmentView) -> SegmentView {
        self.soft_mark(segment).await;
        let next = self.ready_successor(segment).await;
        self.sealed(segment, next.spec.id, 100).await;
        self.opened(next.spec.id).await
    }
}

pub fn registration(id: NodeId) -> RegisterRequest {
    RegisterRequest {
        node_id: id.0,
        name: id.to_string(),
        addr: format!("127.0.0.1:{}", 9000 + id.0),
        domain: format!("rack-{}", id.0),
        incarnation: LIFE.0,
    }
}

async fn beat(client: MetaClient, id: NodeId) {
    loop {
        // A leader is found in the end; until then there is none to tell.
        let _unreached = beat_while_known(&client, id).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(client.register(registration(id)).await);
    }
}

async fn beat_while_known(client: &MetaClient, id: NodeId) -> Result<(), MetaError> {
    loop {
        let mut session = client.open_session(heartbeat(id)).await?;
        while let Ok(answer) = session.answer().await {
            if !answer.known {
                return Ok(());
            }
            let over = tokio::time::timeout(Duration::from_millis(100), session.over()).await;
            if over.is_ok() || session.beat(heartbeat(id)).await.is_err() {
                break;
            }
        }
    }
}

pub fn heartbeat(id: NodeId) -> HeartbeatRequest {
    HeartbeatRequest {
        node_id: id.0,
        incarnation: LIFE.0,
        free_bytes: 1 << 40,
        write_bytes_per_s: 1000,
        open_segments: 1,
        disk_failed: false,
        round_trip_us: 500,
    }
}

async fn work(client: MetaClient, id: NodeId, known: Known) {
    let mut watch = client.watch(0, &id.to_string());
    while let Some(update) = watch.next().await {
        known.take(&update);
        for item in update.items {
            let MetaItem::Segment(view) = item else { continue };
            if let Some(report) = due(&view, id) {
                let client = client.clone();
                tokio::spawn(async move {
                    while client.report(id, LIFE, &report, None).await.is_ok_and(|answer| !answer.done) {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                });
            }
        }
    }
}

/// What this node owes metad about a segment.
fn due(view: &SegmentView, id: NodeId) -> Option<Report> {
    let segment = view.spec.id;
    match view.state {
        SegmentState::Planned if view.spec.primary() == id => {
            Some(Report::Ready { segment, open_on: view.spec.replicas.clone(), incarnation: LIFE })
        }
        SegmentState::Trimmed { .. } | SegmentState::Reclaiming if view.spec.replicas.contains(&id) => {
            Some(Report::Reclaimed { segment, node: id })
        }
        SegmentState::Planned
        | SegmentState::Trimmed { .. }
        | SegmentState::Reclaiming
        | SegmentState::Ready { .. }
        | SegmentState::Open { .. }
        | SegmentState::Sealed { .. }
        | SegmentState::Reclaimed => None,
    }
}
