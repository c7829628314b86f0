//! A cluster in the test's own process: routers over QUIC and a metad over gRPC, with real certificates. The log is in
//! memory; what goes wrong is decided by the test.

use crate::log::RangeLog;
use bytes::Bytes;
use parking_lot::Mutex;
use quinn::{Connection, Endpoint, RecvStream, SendStream};
use seam_grpc as rpc;
use seam_grpc::admin_server::{Admin, AdminServer};
use seam_transport::grpc::{GrpcConfig, GrpcServer};
use seam_transport::pki::DevCa;
use seam_transport::quic::{self, Acceptor, EndpointError, QuicConfig};
use seam_transport::stream::{FrameReader, FrameSender, spawn_writer};
use seam_transport::{Role, TlsMaterial};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, TailFrom, ToRouter};
use seam_wire::{Offset, RangeId};
use seamlog::{Client, ClientConfig, Peer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status};

pub const TOPIC: &str = "events";

/// What a router does with an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Written,
    /// Refused, try again.
    Overloaded,
    /// Refused for good.
    Bad,
    /// Written, but the connection breaks before the answer.
    WrittenAndBroken,
    /// The connection breaks and nothing is written.
    Broken,
    /// Nothing is written and nothing said.
    Ignored,
    /// Written, and nothing said.
    WrittenSilently,
    /// It is still under way: kept aside, for the test to let it arrive.
    UnderWay,
}

/// What a router does to a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailFate {
    Served,
    /// The connection breaks instead of the batch.
    Broken,
    /// The stream ends with a retryable error.
    Refused,
    /// Nothing comes any more, and nothing is said.
    Silent,
    Damaged,
    /// The batch after it comes instead.
    Skipped,
    /// The batch comes twice.
    Repeated,
}

/// Where in a conversation a router or metad can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// It was asked to open a produce stream.
    ProduceOpen,
    /// A produce stream is open and an append has come.
    Append,
    TailOpen,
    /// A tail is open and a batch is due.
    Tail,
    Offsets,
    Metad,
}

/// What it does there, whenever it comes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Says nothing, and keeps everything open.
    Swallow,
    Delay(Duration),
    /// The connection breaks. (metad: the call fails.)
    Die,
}

/// Decides by the count of appends, or of batches served, of the whole cluster.
pub struct Plan {
    pub append: Mutex<Box<dyn FnMut(u64) -> Fate + Send>>,
    pub tail: Mutex<Box<dyn FnMut(u64) -> TailFate + Send>>,
    pub appends: AtomicU64,
    served: AtomicU64,
    /// Routers do not know the topic.
    pub unaware: AtomicBool,
    pub wrong: Mutex<Vec<(At, How)>>,
    pub under_way: Mutex<Vec<Bytes>>,
}

impl Plan {
    fn how(&self, at: At) -> Option<How> {
        self.wrong.lock().iter().find(|(there, _)| *there == at).map(|(_, how)| *how)
    }
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            append: Mutex::new(Box::new(|_| Fate::Written)),
            tail: Mutex::new(Box::new(|_| TailFate::Served)),
            appends: AtomicU64::new(0),
            served: AtomicU64::new(0),
            unaware: AtomicBool::new(false),
            wrong: Mutex::default(),
            under_way: Mutex::default(),
        }
    }
}

/// Topics of one range that clients make for their groups, by name.
#[derive(Default)]
pub struct Groups {
    logs: Mutex<BTreeMap<String, Arc<RangeLog>>>,
}

impl Groups {
    pub fn log(&self, topic: &str) -> Option<Arc<RangeLog>> {
        self.logs.lock().get(topic).cloned()
    }
}

struct Router {
    name: String,
    addr: SocketAddr,
    endpoint: Option<Endpoint>,
}

pub struct Cluster {
    pub ca: DevCa,
    pub dir: TempDir,
    pub ranges: Arc<Vec<RangeLog>>,
    pub plan: Arc<Plan>,
    pub groups: Arc<Groups>,
    routers: Vec<Router>,
    pub metad: SocketAddr,
    metad_task: JoinHandle<()>,
}

impl Cluster {
    pub async fn start(ranges: usize, routers: usize) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path().join("pki")).unwrap();
        ca.issue("client", Role::Client).unwrap();
        ca.issue("metad-1", Role::Metad).unwrap();
        let ranges: Arc<Vec<RangeLog>> = Arc::new((0..ranges).map(|_| RangeLog::default()).collect());
        let tls = TlsMaterial::load(&ca.paths("metad-1")).unwrap();
        let server = GrpcServer::bind("127.0.0.1:0".parse().unwrap(), &tls, GrpcConfig::default()).await.unwrap();
        let metad = server.local_addr().unwrap();
        let (groups, plan) = (Arc::<Groups>::default(), Arc::<Plan>::default());
        let (count, asked, planned) = (ranges.len() as u32, Arc::clone(&groups), Arc::clone(&plan));
        let service = AdminServer::new(MetadDouble { ranges: count, groups: asked, plan: planned });
        let routes = tonic::service::Routes::new(service);
        let metad_task = tokio::spawn(async move { server.serve(routes, std::future::pending()).await.unwrap() });
        let mut cluster = Cluster { ca, dir, ranges, plan, groups, routers: Vec::new(), metad, metad_task };
        for id in 1..=routers {
            let name = format!("router-{id}");
            cluster.ca.issue(&name, Role::Router).unwrap();
            let addr = "127.0.0.1:0".parse().unwrap();
            cluster.routers.push(Router { name, addr, endpoint: None });
            cluster.revive(id - 1).await;
        }
        cluster
    }

    /// Starts a router, at the address it had, as soon as its last life has left it.
    pub async fn revive(&mut self, index: usize) {
        let router = &mut self.routers[index];
        let tls = TlsMaterial::load(&self.ca.paths(&router.name)).unwrap();
        let endpoint = loop {
            match quic::server_endpoint(router.addr, &tls, &QuicConfig::default()) {
                Ok(endpoint) => break endpoint,
                Err(EndpointError::Bind { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}"),
            }
        };
        router.addr = endpoint.local_addr().unwrap();
        router.endpoint = Some(endpoint.clone());
        let (ranges, plan, groups) = (Arc::clone(&self.ranges), Arc::clone(&self.plan), Arc::clone(&self.groups));
        tokio::spawn(async move {
            let mut acceptor = Acceptor::new(endpoint, Duration::from_secs(5));
            while let Some(accepted) = acceptor.accept().await {
                let shared = (Arc::clone(&ranges), Arc::clone(&plan), Arc::clone(&groups));
                tokio::spawn(serve(accepted.connection, shared));
            }
        });
    }

    /// Ends a router and all its connections.
    pub fn kill(&mut self, index: usize) {
        let endpoint = self.routers[index].endpoint.take().unwrap();
        endpoint.close(quic::code::SHUTDOWN, b"killed");
    }

    pub fn kill_metad(&self) {
        self.metad_task.abort();
    }

    pub fn config(&self) -> ClientConfig {
        let peer = |name: &str, addr: SocketAddr| Peer { name: name.to_owned(), addr: addr.to_string() };
        let routers = self.routers.iter().map(|router| peer(&router.name, router.addr)).collect();
        let mut config = ClientConfig::new(routers, vec![peer("metad-1", self.metad)], self.ca.paths("client"));
        config.connect_timeout_ms = 1_000;
        config
    }

    pub fn client(&self) -> Client {
        Client::connect(self.config()).unwrap()
    }

    pub fn on_append(&self, fate: impl FnMut(u64) -> Fate + Send + 'static) {
        *self.plan.append.lock() = Box::new(fate);
    }

    pub fn on_tail(&self, fate: impl FnMut(u64) -> TailFate + Send + 'static) {
        *self.plan.tail.lock() = Box::new(fate);
    }
}

async fn serve(connection: Connection, shared: (Arc<Vec<RangeLog>>, Arc<Plan>, Arc<Groups>)) {
    while let Ok((send, recv)) = connection.accept_bi().await {
        let (ranges, plan, groups) = shared.clone();
        let stream = Stream { connection: connection.clone(), ranges, plan, groups };
        tokio::spawn(stream.serve(send, recv));
    }
}

struct Stream {
    connection: Connection,
    ranges: Arc<Vec<RangeLog>>,
    plan: Arc<Plan>,
    groups: Arc<Groups>,
}

type Sender = FrameSender<FromRouter>;

impl Stream {
    async fn serve(mut self, send: SendStream, recv: RecvStream) {
        let sender = spawn_writer(send, 64);
        let mut reader = FrameReader::new(recv);
        let Ok(Some(hello)) = reader.read::<ToRouter>().await else { return };
        if let ToRouter::ProduceOpen { topic, .. } | ToRouter::TailOpen { topic, .. } | ToRouter::Offsets { topic, .. } =
            &hello.msg
            && let Some(log) = self.groups.log(topic)
        {
            // A group's log is a topic like another, and nothing is done to it on purpose.
            self.ranges = Arc::new(vec![log.shared()]);
            self.plan = Arc::default();
            return self.answer(hello, reader, sender).await;
        }
        let refusal = match &hello.msg {
            ToRouter::ProduceOpen { topic, range_index }
            | ToRouter::TailOpen { topic, range_index, .. }
            | ToRouter::Offsets { topic, range_index } => self.refusal(topic, *range_index),
            ToRouter::Append { .. } => panic!("an append on a stream that is not open"),
        };
        if let Some(error) = refusal {
            let _ = sender.send(Frame::new(FromRouter::Error { error })).await;
            return;
        }
        let at = match &hello.msg {
            ToRouter::ProduceOpen { .. } | ToRouter::Append { .. } => At::ProduceOpen,
            ToRouter::TailOpen { .. } => At::TailOpen,
            ToRouter::Offsets { .. } => At::Offsets,
        };
        if self.goes_on(at, &sender).await {
            self.answer(hello, reader, sender).await;
        }
    }

    async fn answer(self, hello: Frame<ToRouter>, reader: FrameReader, sender: Sender) {
        match hello.msg {
            ToRouter::ProduceOpen { range_index, .. } => self.produce(range_index, reader, sender).await,
            ToRouter::TailOpen { range_index, from, follow, .. } => self.tail(range_index, from, follow, sender).await,
            ToRouter::Offsets { range_index, .. } => {
                let latest = Offset(*self.ranges[range_index as usize].end().borrow());
                let msg = FromRouter::Offsets { range: RangeId(7), earliest: Offset(0), latest };
                let _ = sender.send(Frame::new(msg)).await;
            }
            ToRouter::Append { .. } => unreachable!("refused above"),
        }
    }

    /// Goes wrong as planned. False: there is nothing more to say.
    async fn goes_on(&self, at: At, sender: &Sender) -> bool {
        match self.plan.how(at) {
            None => true,
            Some(How::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                true
            }
            Some(How::Swallow) => {
                let _ = sender.closed().await;
                false
            }
            Some(How::Die) => {
                quic::close(&self.connection, quic::code::SHUTDOWN, "on purpose");
                false
            }
        }
    }

    fn refusal(&self, topic: &str, index: u32) -> Option<WireError> {
        if topic != TOPIC || self.plan.unaware.load(Ordering::Relaxed) {
            return Some(WireError::refused(ErrorCode::UnknownTopic, format!("no topic {topic:?}")));
        }
        let known = (index as usize) < self.ranges.len();
        (!known).then(|| WireError::refused(ErrorCode::UnknownRange, format!("no range {index}")))
    }

    async fn produce(self, index: u32, mut reader: FrameReader, sender: Sender) {
        let opened = FromRouter::ProduceOpened { range: RangeId(7), max_batch_bytes: 8 << 20 };
        let _ = sender.send(Frame::new(opened)).await;
        let mut expected_seq = 0;
        while let Ok(Some(frame)) = reader.read::<ToRouter>().await {
            let ToRouter::Append { seq } = frame.msg else { panic!("{:?} on a produce stream", frame.msg) };
            assert_eq!(seq, expected_seq, "sequences of a stream count from 0");
            expected_seq += 1;
            if !self.goes_on(At::Append, &sender).await {
                return;
            }
            let count = self.plan.appends.fetch_add(1, Ordering::Relaxed);
            let fate = (self.plan.append.lock())(count);
            let Some(answer) = self.append(index, seq, &frame.payload, fate) else { continue };
            if sender.send(Frame::new(answer)).await.is_err() {
                return;
            }
        }
    }

    fn append(&self, index: u32, seq: u64, payload: &Bytes, fate: Fate) -> Option<FromRouter> {
        let log = &self.ranges[index as usize];
        let error = match fate {
            Fate::Written => match log.append(payload) {
                Ok(base_offset) => return Some(FromRouter::AppendAck { seq, base_offset }),
                Err(error) => error,
            },
            Fate::Overloaded => WireError::retry(ErrorCode::Overloaded, "on purpose"),
            Fate::Bad => WireError::refused(ErrorCode::BadBatch, "on purpose"),
            Fate::WrittenAndBroken => {
                let _ = log.append(payload);
                quic::close(&self.connection, quic::code::SHUTDOWN, "on purpose");
                return None;
            }
            Fate::Broken => {
                quic::close(&self.connection, quic::code::SHUTDOWN, "on purpose");
                return None;
            }
            Fate::Ignored => return None,
            Fate::UnderWay => {
                self.plan.under_way.lock().push(payload.clone());
                return None;
            }
            Fate::WrittenSilently => {
                let _ = log.append(payload);
                return None;
            }
        };
        Some(FromRouter::AppendError { seq, error })
    }

    async fn tail(self, index: u32, from: TailFrom, follow: bool, sender: Sender) {
        let log = &self.ranges[index as usize];
        let mut end = log.end();
        let found = *end.borrow_and_update();
        let start = match from {
            TailFrom::Earliest => 0,
            TailFrom::Latest => found,
            TailFrom::Offset(offset) => offset.0,
        };
        if start > found {
            let error = WireError::refused(ErrorCode::OffsetOutOfRange, format!("offset {start} is above {found}"));
            let _ = sender.send(Frame::new(FromRouter::Error { error })).await;
            return;
        }
        let _ = sender.send(Frame::new(FromRouter::TailOpened { range: RangeId(7), start: Offset(start) })).await;
        let mut next = start;
        loop {
            let limit = if follow { *end.borrow_and_update() } else { found };
            while next < limit {
                if !self.goes_on(At::Tail, &sender).await {
                    return;
                }
                let mut batch = log.batch_at(next).unwrap();
                let mut copies = 1;
                let count = self.plan.served.fetch_add(1, Ordering::Relaxed);
                let fate = (self.plan.tail.lock())(count);
                match fate {
                    TailFate::Served => {}
                    TailFate::Repeated => copies = 2,
                    TailFate::Broken => return quic::close(&self.connection, quic::code::SHUTDOWN, "on purpose"),
                    TailFate::Refused => {
                        let error = WireError::retry(ErrorCode::Unavailable, "on purpose");
                        let _ = sender.try_send(Frame::new(FromRouter::Error { error }));
                        return;
                    }
                    TailFate::Silent => {
                        sender.closed().await;
                        return;
                    }
                    TailFate::Damaged => {
                        let mut damaged = batch.to_vec();
                        *damaged.last_mut().unwrap() ^= 1;
                        batch = damaged.into();
                    }
                    TailFate::Skipped => {
                        next = seam_wire::batch::BatchHeader::parse(&batch).unwrap().next_offset().0;
                        continue;
                    }
                }
                let after = seam_wire::batch::BatchHeader::parse(&batch).unwrap().next_offset();
                for _ in 0..copies {
                    let frame = Frame::new(FromRouter::Records { next: after }).payload(batch.clone());
                    if sender.send(frame).await.is_err() {
                        return;
                    }
                }
                next = after.0;
            }
            if !follow {
                let _ = sender.send(Frame::new(FromRouter::TailEnd { end: Offset(found) })).await;
                return;
            }
            tokio::select! {
                changed = end.changed() => changed.unwrap(),
                _ = sender.closed() => return,
            }
        }
    }
}

struct MetadDouble {
    ranges: u32,
    groups: Arc<Groups>,
    plan: Arc<Plan>,
}

impl MetadDouble {
    /// Goes wrong as planned.
    async fn goes_on(&self) -> Result<(), Status> {
        match self.plan.how(At::Metad) {
            None => Ok(()),
            Some(How::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                Ok(())
            }
            Some(How::Swallow) => std::future::pending().await,
            Some(How::Die) => Err(Status::unavailable("on purpose")),
        }
    }

    fn topic(&self, name: String) -> rpc::TopicInfo {
        let config = rpc::TopicConfig {
            ranges: self.ranges,
            replicas: 3,
            ack_quorum: 2,
            ack: "durable".to_owned(),
            placement: "sticky".to_owned(),
            anticipation: "at-open".to_owned(),
            segment_bytes: 1 << 20,
            segment_records: 5,
            max_age_ms: 6,
            retention_bytes: 7,
            retention_ms: 8,
        };
        let segment = rpc::SegmentInfo {
            id: 9,
            state: "open".to_owned(),
            start: Some(4),
            replicas: vec![3, 1, 2],
            ack_quorum: 2,
            ..Default::default()
        };
        let range = rpc::RangeInfo {
            id: 7,
            index: 0,
            start: 4,
            sealed_bytes: 0,
            stuck: String::new(),
            segments: vec![segment],
        };
        rpc::TopicInfo { id: 1, name, config: Some(config), ranges: vec![range] }
    }
}

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not in the double"))
}

#[tonic::async_trait]
impl Admin for MetadDouble {
    async fn create_topic(&self, asked: Request<rpc::CreateTopicRequest>) -> Result<Response<rpc::TopicInfo>, Status> {
        self.goes_on().await?;
        let rpc::CreateTopicRequest { name, config } = asked.into_inner();
        if name == TOPIC {
            return Err(Status::already_exists(format!("topic {name:?} exists")));
        }
        if name.starts_with("seam.") {
            self.groups.logs.lock().entry(name.clone()).or_default();
        }
        Ok(Response::new(rpc::TopicInfo { config, ..self.topic(name) }))
    }

    async fn describe_topic(
        &self,
        asked: Request<rpc::DescribeTopicRequest>,
    ) -> Result<Response<rpc::TopicInfo>, Status> {
        self.goes_on().await?;
        let name = asked.into_inner().name;
        if name == TOPIC {
            Ok(Response::new(self.topic(name)))
        } else if self.groups.log(&name).is_some() {
            Ok(Response::new(MetadDouble { ranges: 1, groups: Arc::default(), plan: Arc::default() }.topic(name)))
        } else {
            Err(Status::not_found(format!("no topic {name:?}")))
        }
    }

    async fn list_topics(
        &self,
        _: Request<rpc::ListTopicsRequest>,
    ) -> Result<Response<rpc::ListTopicsResponse>, Status> {
        self.goes_on().await?;
        let topics = vec![self.topic("b".to_owned()), self.topic("a".to_owned())];
        Ok(Response::new(rpc::ListTopicsResponse { topics }))
    }

    async fn status(&self, _: Request<rpc::StatusRequest>) -> Result<Response<rpc::StatusResponse>, Status> {
        self.goes_on().await?;
        let (name, leader) = ("metad-1".to_owned(), "metad-1".to_owned());
        Ok(Response::new(rpc::StatusResponse { name, leader, term: 3, version: 8, ..Default::default() }))
    }

    async fn roll_history(
        &self,
        _: Request<rpc::RollHistoryRequest>,
    ) -> Result<Response<rpc::RollHistoryResponse>, Status> {
        let roll = rpc::RollRecord { segment: 4, next: 5, end: 100, gate_us: 77, ..Default::default() };
        Ok(Response::new(rpc::RollHistoryResponse { rolls: vec![roll] }))
    }

    async fn alter_topic(&self, _: Request<rpc::AlterTopicRequest>) -> Result<Response<rpc::TopicInfo>, Status> {
        not_here()
    }

    async fn delete_topic(
        &self,
        _: Request<rpc::DeleteTopicRequest>,
    ) -> Result<Response<rpc::DeleteTopicResponse>, Status> {
        not_here()
    }

    async fn accept_loss(
        &self,
        _: Request<rpc::AcceptLossRequest>,
    ) -> Result<Response<rpc::AcceptLossResponse>, Status> {
        not_here()
    }

    async fn list_nodes(&self, _: Request<rpc::ListNodesRequest>) -> Result<Response<rpc::ListNodesResponse>, Status> {
        not_here()
    }

    async fn roll_topic(&self, _: Request<rpc::RollTopicRequest>) -> Result<Response<rpc::RollTopicResponse>, Status> {
        not_here()
    }

    async fn drain_node(&self, _: Request<rpc::DrainNodeRequest>) -> Result<Response<rpc::DrainNodeResponse>, Status> {
        not_here()
    }
}
