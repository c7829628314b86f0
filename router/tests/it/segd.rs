//! A stand-in for segd: speaks its side of the protocol over real QUIC with mutual TLS, and commits all it takes at once.
//! All its nodes share one state, so that any of them serves any segment. It does not replicate, persist or recover.

use bytes::Bytes;
use parking_lot::Mutex;
use quinn::{Connection, Endpoint, RecvStream, SendStream};
use seam_transport::quic::{self, QuicConfig};
use seam_transport::stream::{FrameReader, FrameWriter};
use seam_transport::tls::TlsMaterial;
use seam_wire::batch::{BatchHeader, stamped};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromSegd, ToSegd};
use seam_wire::{Offset, ProducerId, SegmentId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;

#[derive(Default)]
struct Segment {
    start: Option<u64>,
    end: u64,
    batches: Vec<Bytes>,
    next: Option<u64>,
    /// It takes appends but answers none.
    silent: bool,
}

#[derive(Default)]
struct State {
    segments: BTreeMap<u64, Segment>,
    /// Where a producer's batches are, for its retries.
    known: BTreeMap<(ProducerId, i32), u64>,
    tails_opened: u64,
    /// So many of the tails opened first bring nothing more, and say nothing.
    deaf: u64,
    appends_opened: BTreeSet<u64>,
    connections: Vec<Connection>,
}

/// The state behind all stand-in nodes.
#[derive(Clone)]
pub struct Cluster {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
}

impl Cluster {
    pub fn new() -> Cluster {
        Cluster { state: Arc::default(), changed: watch::Sender::new(0) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let out = change(&mut self.state.lock());
        self.changed.send_modify(|version| *version += 1);
        out
    }

    /// A segment that is open (`start` known) or a candidate.
    pub fn add(&self, segment: u64, start: Option<u64>) {
        let end = start.unwrap_or(0);
        self.change(|state| state.segments.insert(segment, Segment { start, end, ..Segment::default() }));
    }

    /// The head moves from `old` to `next`; returns the end.
    pub fn switch(&self, old: u64, next: u64) -> u64 {
        self.change(|state| {
            let seg = state.segments.get_mut(&old).unwrap();
            seg.next = Some(next);
            let end = seg.end;
            let successor = state.segments.get_mut(&next).unwrap();
            successor.start = Some(end);
            successor.end = end;
            end
        })
    }

    pub fn silence(&self, segment: u64, silent: bool) {
        self.change(|state| state.segments.get_mut(&segment).unwrap().silent = silent);
    }

    pub fn end(&self, segment: u64) -> u64 {
        self.state.lock().segments[&segment].end
    }

    /// All connections of routers break.
    pub fn cut(&self) {
        for connection in std::mem::take(&mut self.state.lock().connections) {
            quic::close(&connection, quic::code::SHUTDOWN, "cut by the test");
        }
    }

    pub fn tails_opened(&self) -> u64 {
        self.state.lock().tails_opened
    }

    /// The tails there are bring nothing more; later ones do.
    pub fn deafen_tails(&self) {
        self.change(|state| state.deaf = state.tails_opened);
    }

    pub fn has_append_stream(&self, segment: u64) -> bool {
        self.state.lock().appends_opened.contains(&segment)
    }

    /// A node that serves this state; its address.
    pub fn serve(&self, tls: &TlsMaterial) -> SocketAddr {
        let endpoint = quic::endpoint("127.0.0.1:0".parse().unwrap(), tls, &QuicConfig::default()).unwrap();
        let addr = endpoint.local_addr().unwrap();
        tokio::spawn(accept(endpoint, self.clone()));
        addr
    }
}

async fn accept(endpoint: Endpoint, cluster: Cluster) {
    while let Some(incoming) = endpoint.accept().await {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            cluster.state.lock().connections.push(connection.clone());
            while let Ok((send, recv)) = connection.accept_bi().await {
                tokio::spawn(stream(cluster.clone(), send, recv));
            }
        });
    }
}

async fn stream(cluster: Cluster, send: SendStream, recv: RecvStream) {
    let (mut reader, writer) = (FrameReader::new(recv), FrameWriter::new(send));
    let Ok(Some(frame)) = reader.read::<ToSegd>().await else { return };
    let segment = frame.segment.0;
    match frame.msg {
        ToSegd::AppendOpen => appends(cluster, segment, reader, writer).await,
        ToSegd::TailOpen { from, until: None } => tail(cluster, segment, from.map(|from| from.0), writer).await,
        ToSegd::Committed => committed(cluster, segment, writer).await,
        other => panic!("{other:?} opens no stream"),
    }
}

async fn say(writer: &mut FrameWriter, segment: u64, msg: FromSegd, payload: Bytes) -> bool {
    writer.write(&Frame::new(msg).segment(SegmentId(segment)).payload(payload)).await.is_ok()
}

async fn appends(cluster: Cluster, segment: u64, mut reader: FrameReader, mut writer: FrameWriter) {
    cluster.change(|state| state.appends_opened.insert(segment));
    say(&mut writer, segment, FromSegd::AppendOpened, Bytes::new()).await;
    let mut changed = cluster.changed.subscribe();
    let mut accepted = None;
    let mut owed = Vec::new();
    loop {
        let (begun, next, end, silent) = {
            let state = cluster.state.lock();
            let seg = &state.segments[&segment];
            (seg.start.is_some(), seg.next, seg.end, seg.silent)
        };
        if !silent {
            for (seq, base) in owed.drain(..) {
                let ack = FromSegd::AppendAck { seq, base_offset: Offset(base) };
                if !say(&mut writer, segment, ack, Bytes::new()).await {
                    return;
                }
            }
        }
        if let Some(next) = next {
            let moved = FromSegd::Moved { next: SegmentId(next), start: Offset(end), accepted_through: accepted };
            say(&mut writer, segment, moved, Bytes::new()).await;
            reader.stop(quic::code::CANCELLED);
            while !owed.is_empty() {
                changed.changed().await.unwrap();
                if !cluster.state.lock().segments[&segment].silent {
                    for (seq, base) in owed.drain(..) {
                        say(&mut writer, segment, FromSegd::AppendAck { seq, base_offset: Offset(base) }, Bytes::new())
                            .await;
                    }
                }
            }
            let _ = writer.finish();
            // The router closes it.
            let _ = writer.stopped().await;
            return;
        }
        tokio::select! {
            biased;
            _ = changed.changed() => {}
            read = reader.read::<ToSegd>(), if begun => match read {
                Ok(Some(Frame { msg: ToSegd::Append { seq }, payload, .. })) => {
                    accepted = Some(seq);
                    owed.push((seq, take(&cluster, segment, payload)));
                }
                Ok(Some(other)) => panic!("{other:?} on an append stream"),
                Ok(None) | Err(_) => return,
            },
        }
    }
}

/// The offset of the batch: a known one's, or the next.
fn take(cluster: &Cluster, segment: u64, payload: Bytes) -> u64 {
    let header = BatchHeader::parse(&payload).unwrap();
    let key = header.producer.map(|(id, _, sequence)| (id, sequence));
    cluster.change(|state| {
        if let Some(base) = key.and_then(|key| state.known.get(&key)) {
            return *base;
        }
        let seg = state.segments.get_mut(&segment).unwrap();
        let base = seg.end;
        seg.end += u64::from(header.record_count);
        seg.batches.push(stamped(payload, Offset(base)).unwrap());
        if let Some(key) = key {
            state.known.insert(key, base);
        }
        base
    })
}

async fn tail(cluster: Cluster, segment: u64, from: Option<u64>, mut writer: FrameWriter) {
    let nth = cluster.change(|state| {
        state.tails_opened += 1;
        state.tails_opened
    });
    let start = cluster.state.lock().segments.get(&segment).map(|seg| seg.start);
    let Some(start) = start else {
        let error = WireError::retry(ErrorCode::UnknownSegment, "not here");
        say(&mut writer, segment, FromSegd::Error { error }, Bytes::new()).await;
        return;
    };
    say(&mut writer, segment, FromSegd::TailOpened { start: start.map(Offset) }, Bytes::new()).await;
    let mut changed = cluster.changed.subscribe();
    let mut at = from;
    loop {
        let (batch, end, next) = {
            let state = cluster.state.lock();
            let seg = &state.segments[&segment];
            at = at.or(seg.start);
            let above = |batch: &&Bytes| at.is_some_and(|at| BatchHeader::parse(batch).unwrap().next_offset().0 > at);
            if nth <= state.deaf {
                (None, seg.end, None)
            } else {
                (seg.batches.iter().find(above).cloned(), seg.end, seg.next)
            }
        };
        if let Some(batch) = batch {
            let next = BatchHeader::parse(&batch).unwrap().next_offset();
            at = Some(next.0);
            if !say(&mut writer, segment, FromSegd::Records { next }, batch).await {
                return;
            }
        } else if let Some(next) = next {
            let end = FromSegd::End { end: Offset(end), next: SegmentId(next) };
            say(&mut writer, segment, end, Bytes::new()).await;
            let _ = writer.finish();
            let _ = writer.stopped().await;
            return;
        } else {
            tokio::select! {
                _ = changed.changed() => {}
                _ = writer.stopped() => return,
            }
        }
    }
}

async fn committed(cluster: Cluster, segment: u64, mut writer: FrameWriter) {
    let answer = {
        let state = cluster.state.lock();
        let seg = &state.segments[&segment];
        let end = seg.next.map(|_| Offset(seg.end));
        FromSegd::Committed { start: seg.start.map(Offset), committed: Offset(seg.end), end }
    };
    say(&mut writer, segment, answer, Bytes::new()).await;
    let _ = writer.finish();
    let _ = writer.stopped().await;
}
