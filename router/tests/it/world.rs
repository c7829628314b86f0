//! A router in this process, stand-in nodes behind it, and a plain client: all over real QUIC with mutual TLS. What metad
//! would tell is told by the test.

use crate::segd::Cluster;
use bytes::Bytes;
use quinn::Connection;
use router::{Config, Limits, Server};
use seam_transport::Role;
use seam_transport::pki::DevCa;
use seam_transport::quic::{self, QuicConfig};
use seam_transport::stream::{FrameReader, FrameWriter, open_bi};
use seam_transport::tls::TlsMaterial;
use seam_wire::batch::{BatchBuilder, Compression};
use seam_wire::frame::Frame;
use seam_wire::meta::{
    Binder, MetaItem, MetaUpdate, NodeState, NodeView, SegmentSpec, SegmentState, SegmentView, TopicView,
};
use seam_wire::msg::{FromRouter, TailFrom, ToRouter};
use seam_wire::topic::TopicConfig;
use seam_wire::{Incarnation, NodeId, Offset, ProducerId, RangeId, SegmentId, TopicId};
use std::time::Duration;
use tokio::sync::mpsc;

pub const LONG: Duration = Duration::from_secs(20);

pub struct World {
    pub cluster: Cluster,
    pub server: Server,
    pub client: Connection,
    updates: mpsc::UnboundedSender<MetaUpdate>,
    version: u64,
    ca: DevCa,
    _dir: tempfile::TempDir,
}

impl World {
    /// Topic `t` with one range whose head is segment 1, on one node.
    pub async fn start(limits: Limits) -> World {
        seam_transport::install_default();
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path()).unwrap();
        let tls = |name: &str, role| {
            ca.issue(name, role).unwrap();
            TlsMaterial::load(&ca.paths(name)).unwrap()
        };
        let cluster = Cluster::new();
        cluster.add(1, Some(0));
        let node = cluster.serve(&tls("segd-1", Role::Segd));
        tls("router-1", Role::Router);
        let config = Config {
            name: "router-1".to_owned(),
            listen: "127.0.0.1:0".parse().unwrap(),
            metrics_listen: "127.0.0.1:0".parse().unwrap(),
            tls: ca.paths("router-1"),
            metad: Vec::new(),
            quic: QuicConfig::default(),
            grpc: Default::default(),
            limits,
        };
        let (updates, receiver) = mpsc::unbounded_channel();
        let stream = tokio_stream::wrappers::UnboundedReceiverStream::new(receiver);
        let server = Server::start_with(config, stream).await.unwrap();
        let client = dial(&server, &tls("client", Role::Client)).await;
        let mut world = World { cluster, server, client, updates, version: 0, ca, _dir: dir };
        let topic = TopicView {
            id: TopicId(1),
            name: "t".to_owned(),
            config: TopicConfig::default(),
            ranges: vec![RangeId(7)],
            deleted: false,
        };
        let node = NodeView {
            id: NodeId(1),
            name: "segd-1".to_owned(),
            addr: node.to_string(),
            domain: "d".to_owned(),
            incarnation: Incarnation(1),
            state: NodeState::Live,
        };
        world.tell(vec![MetaItem::Node(node), MetaItem::Topic(topic)]);
        world.tell_segment(1, None, SegmentState::Open { start: Offset(0) });
        // What the router has been told is what it knows from here on.
        wait_for("the router to know its topic", async || world.metric("meta_version").await == 2.0).await;
        world
    }

    pub fn tell(&mut self, items: Vec<MetaItem>) {
        self.version += 1;
        self.updates.send(MetaUpdate { version: self.version, reset: self.version == 1, items }).unwrap();
    }

    pub fn tell_segment(&mut self, id: u64, prior: Option<u64>, state: SegmentState) {
        self.tell_segment_on(id, prior, state, NodeId(1));
    }

    pub fn tell_segment_on(&mut self, id: u64, prior: Option<u64>, state: SegmentState, node: NodeId) {
        let spec = SegmentSpec {
            id: SegmentId(id),
            topic: TopicId(1),
            range: RangeId(7),
            prior: prior.map(SegmentId),
            attempt: 1,
            replicas: vec![node],
            ack_quorum: 1,
            binder: Binder::Primary,
            config: TopicConfig::default(),
        };
        let view = SegmentView {
            spec,
            state,
            primary_incarnation: Some(Incarnation(1)),
            recovery: None,
            release_asked: false,
            roll_requested: 0,
            roll_reason: None,
            trace: None,
        };
        self.tell(vec![MetaItem::Segment(view)]);
    }

    /// A ready candidate to follow `prior`.
    pub fn prepare(&mut self, id: u64, prior: u64) {
        self.cluster.add(id, None);
        self.tell_segment(id, Some(prior), SegmentState::Ready { open_on: vec![NodeId(1)] });
    }

    pub fn record(&mut self, id: u64, prior: Option<u64>, start: u64, end: u64, next: u64) {
        let (start, end) = (Offset(start), Offset(end));
        self.tell_segment(id, prior, SegmentState::Sealed { start, end, next: SegmentId(next) });
        self.tell_segment(next, Some(id), SegmentState::Open { start: end });
    }

    pub async fn stranger(&self, name: &str, role: Role) -> Connection {
        self.ca.issue(name, role).unwrap();
        dial(&self.server, &TlsMaterial::load(&self.ca.paths(name)).unwrap()).await
    }

    pub async fn open(&self, hello: ToRouter) -> (FrameWriter, FrameReader) {
        let (send, recv) = open_bi(&self.client, LONG).await.unwrap();
        let mut writer = FrameWriter::new(send);
        writer.write(&Frame::new(hello)).await.unwrap();
        (writer, FrameReader::new(recv))
    }

    pub async fn produce(&self) -> (FrameWriter, FrameReader) {
        let (writer, mut reader) = self.open(ToRouter::ProduceOpen { topic: "t".to_owned(), range_index: 0 }).await;
        assert!(matches!(hear(&mut reader).await.msg, FromRouter::ProduceOpened { range: RangeId(7), .. }));
        (writer, reader)
    }

    pub async fn tail(&self, from: TailFrom, follow: bool) -> FrameReader {
        self.open(ToRouter::TailOpen { topic: "t".to_owned(), range_index: 0, from, follow }).await.1
    }

    /// The sum of a metric over its labels, as `/metrics` shows it.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = http_get(self.server.metrics_addr(), "/metrics").await;
        let value = |line: &str| {
            let (metric, value) = line.rsplit_once(' ')?;
            let base = metric.split('{').next()?;
            let plain = base.strip_suffix("_total").unwrap_or(base);
            (plain == format!("router_{name}")).then(|| value.parse::<f64>().ok()).flatten()
        };
        text.lines().filter_map(value).sum()
    }

    pub async fn status(&self) -> serde_json::Value {
        serde_json::from_str(&http_get(self.server.metrics_addr(), "/status").await).unwrap()
    }
}

async fn dial(server: &Server, tls: &TlsMaterial) -> Connection {
    let endpoint = quic::client_endpoint(tls, &QuicConfig::default()).unwrap();
    quic::connect(&endpoint, &server.local_addr().unwrap().to_string(), "router-1", LONG).await.unwrap()
}

async fn http_get(addr: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(addr).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: router\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The next frame, soon.
pub async fn hear(reader: &mut FrameReader) -> Frame<FromRouter> {
    let read = tokio::time::timeout(LONG, reader.read::<FromRouter>()).await;
    read.expect("a frame within the time").unwrap().expect("a frame, not the end")
}

/// Polls a condition that no message announces.
pub async fn wait_for(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let until = tokio::time::Instant::now() + LONG;
    while !holds().await {
        assert!(tokio::time::Instant::now() < until, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A batch of `records` records; with a sequence, of an idempotent producer.
pub fn batch(records: usize, bytes: usize, sequence: Option<i32>) -> Bytes {
    let producer = sequence.map(|sequence| (ProducerId(5), 0, sequence));
    let mut builder = BatchBuilder::new(Compression::None, producer);
    for _ in 0..records {
        builder.push(1, None, Some(&vec![7; bytes]), &[]).unwrap();
    }
    builder.build().unwrap()
}

pub async fn append(writer: &mut FrameWriter, seq: u64, payload: Bytes) {
    writer.write(&Frame::new(ToRouter::Append { seq }).payload(payload)).await.unwrap();
}
