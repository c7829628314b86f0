//! The head moves under traffic, nodes break, readers are slow.

use crate::world::{World, append, batch, hear, wait_for};
use router::Limits;
use seam_wire::Offset;
use seam_wire::batch::headers;
use seam_wire::error::{Certainty, ErrorCode};
use seam_wire::msg::{FromRouter, TailFrom};
use std::collections::BTreeMap;

const ROLLS: u64 = 5;
const APPENDS_PER_ROLL: u64 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_and_tails_go_over_many_boundaries() {
    let mut world = World::start(Limits::default()).await;
    let mut tail = world.tail(TailFrom::Earliest, true).await;
    assert!(matches!(hear(&mut tail).await.msg, FromRouter::TailOpened { start: Offset(0), .. }));
    let (mut writer, mut reader) = world.produce().await;
    let acks = tokio::spawn(async move {
        let mut acked = BTreeMap::new();
        while (acked.len() as u64) < (ROLLS + 1) * APPENDS_PER_ROLL {
            match hear(&mut reader).await.msg {
                FromRouter::AppendAck { seq, base_offset } => {
                    assert!(acked.insert(seq, base_offset.0).is_none(), "{seq} was acked twice")
                }
                other => panic!("{other:?}"),
            }
        }
        acked
    });
    let mut seq = 0;
    let mut start = 0;
    for roll in 0..=ROLLS {
        let (head, next) = (roll + 1, roll + 2);
        for at in 0..APPENDS_PER_ROLL {
            if at == APPENDS_PER_ROLL / 4 && roll < ROLLS {
                world.prepare(next, head);
                let cluster = world.cluster.clone();
                wait_for("the candidate's stream", async || cluster.has_append_stream(next)).await;
                let tails = roll + 2;
                wait_for("the candidate's tail", async || cluster.tails_opened() >= tails).await;
            }
            if at == APPENDS_PER_ROLL / 2 && roll < ROLLS {
                world.cluster.switch(head, next);
            }
            append(&mut writer, seq, batch(2, 100, Some(2 * seq as i32))).await;
            seq += 1;
        }
        if roll < ROLLS {
            // metad records it after the switch; nobody waited for it.
            wait_for("the move to be met", async || world.metric("moved").await == (roll + 1) as f64).await;
            let end = world.cluster.end(head);
            world.record(head, head.checked_sub(1).filter(|prior| *prior > 0), start, end, next);
            start = end;
        }
    }
    let acked = acks.await.unwrap();
    for (at, (_, base)) in acked.iter().enumerate() {
        assert_eq!(*base, 2 * at as u64, "offsets follow the order of sending: {acked:?}");
    }
    let total = 2 * (ROLLS + 1) * APPENDS_PER_ROLL;
    let mut wanted = 0;
    while wanted < total {
        let frame = hear(&mut tail).await;
        for header in headers(&frame.payload) {
            let header = header.unwrap();
            assert_eq!(header.base_offset.0, wanted);
            wanted = header.next_offset().0;
        }
        assert!(matches!(frame.msg, FromRouter::Records { next } if next.0 == wanted), "{:?}", frame.msg);
    }
    assert_eq!(world.metric("moved").await, ROLLS as f64);
    assert_eq!(world.metric("warm_moves").await, ROLLS as f64);
    assert_eq!(world.metric("tail_handovers").await, ROLLS as f64);
    assert_eq!(world.metric("tail_warm_handovers").await, ROLLS as f64);
    for zero in ["resends", "upstream_breaks", "tail_stalls", "tail_breaks", "tail_order_faults", "append_failures"] {
        assert_eq!(world.metric(zero).await, 0.0, "{zero}");
    }
    let status = world.status().await;
    assert_eq!(status["ranges"][0]["head"], ROLLS + 1);
    assert_eq!(status["tails"], 1);
    world.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_node_costs_idempotent_producers_nothing() {
    let world = World::start(Limits::default()).await;
    world.cluster.silence(1, true);
    let (mut sure, mut sure_reader) = world.produce().await;
    let (mut plain, mut plain_reader) = world.produce().await;
    append(&mut sure, 0, batch(1, 10, Some(0))).await;
    append(&mut plain, 0, batch(1, 10, None)).await;
    let cluster = world.cluster.clone();
    wait_for("both appends at the node", async || cluster.end(1) == 2).await;
    world.cluster.cut();
    world.cluster.silence(1, false);
    match hear(&mut sure_reader).await.msg {
        FromRouter::AppendAck { seq: 0, base_offset } => assert!(base_offset.0 < 2, "it was known there already"),
        other => panic!("{other:?}"),
    }
    match hear(&mut plain_reader).await.msg {
        FromRouter::AppendError { seq: 0, error } => assert_eq!(error.certainty, Certainty::Indeterminate),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.cluster.end(1), 2, "nothing was written twice");
    assert_eq!(world.metric("resends").await, 1.0);
    assert!(world.metric("upstream_breaks").await >= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_goes_on_after_its_node_broke() {
    let world = World::start(Limits::default()).await;
    let (mut writer, mut reader) = world.produce().await;
    let mut tail = world.tail(TailFrom::Latest, true).await;
    hear(&mut tail).await;
    for seq in 0..3 {
        append(&mut writer, seq, batch(1, 10, Some(seq as i32))).await;
        assert!(matches!(hear(&mut reader).await.msg, FromRouter::AppendAck { .. }));
        let records = hear(&mut tail).await;
        assert!(matches!(records.msg, FromRouter::Records { next } if next.0 == seq + 1));
        world.cluster.cut();
    }
    assert!(world.metric("tail_breaks").await >= 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_stops_only_its_own_stream() {
    let world = World::start(Limits::default()).await;
    // Opened, and never read.
    let mut slow = world.tail(TailFrom::Earliest, true).await;
    hear(&mut slow).await;
    let mut quick = world.tail(TailFrom::Earliest, true).await;
    hear(&mut quick).await;
    let (mut writer, mut reader) = world.produce().await;
    // More than any one stream's window holds.
    let (appends, bytes) = (48, 500_000);
    for seq in 0..appends {
        append(&mut writer, seq, batch(1, bytes, None)).await;
        assert!(matches!(hear(&mut reader).await.msg, FromRouter::AppendAck { .. }));
    }
    let mut next = 0;
    while next < appends {
        match hear(&mut quick).await.msg {
            FromRouter::Records { next: to } => next = to.0,
            other => panic!("{other:?}"),
        }
    }
    let brought = world.metric("tail_bytes").await;
    assert!(brought < (2 * appends * bytes as u64) as f64, "the slow tail was read ahead for: {brought}");
    // It is late, not lost.
    let mut next = 0;
    while next < appends {
        match hear(&mut slow).await.msg {
            FromRouter::Records { next: to } => {
                assert_eq!(to.0, next + 1);
                next = to.0;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.metric("tail_stalls").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_range_refuses_and_goes_on() {
    let limits = Limits { range_inflight_batches: 4, room_wait_ms: 50, ..Limits::default() };
    let world = World::start(limits).await;
    world.cluster.silence(1, true);
    let (mut writer, mut reader) = world.produce().await;
    for seq in 0..5 {
        append(&mut writer, seq, batch(1, 10, Some(seq as i32))).await;
    }
    match hear(&mut reader).await.msg {
        FromRouter::AppendError { seq: 4, error } => {
            assert_eq!((error.code, error.certainty), (ErrorCode::Overloaded, Certainty::Definite));
            assert!(error.retryable);
        }
        other => panic!("{other:?}"),
    }
    world.cluster.silence(1, false);
    for _ in 0..4 {
        assert!(matches!(hear(&mut reader).await.msg, FromRouter::AppendAck { .. }));
    }
    append(&mut writer, 5, batch(1, 10, Some(4))).await;
    assert!(matches!(hear(&mut reader).await.msg, FromRouter::AppendAck { seq: 5, base_offset: Offset(4) }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_producer_gets_its_last_answers() {
    let world = World::start(Limits::default()).await;
    world.cluster.silence(1, true);
    let (mut writer, mut reader) = world.produce().await;
    append(&mut writer, 0, batch(1, 10, None)).await;
    writer.finish().unwrap();
    let cluster = world.cluster.clone();
    wait_for("the append at the node", async || cluster.end(1) == 1).await;
    world.cluster.silence(1, false);
    assert!(matches!(hear(&mut reader).await.msg, FromRouter::AppendAck { seq: 0, .. }));
    assert!(reader.read::<FromRouter>().await.unwrap().is_none(), "then the stream ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_on_a_stuck_stream_is_served_from_another_and_counted() {
    let world = World::start(Limits { tail_silence_ms: 50, tail_stall_ms: 200, ..Limits::default() }).await;
    let mut tail = world.tail(TailFrom::Earliest, true).await;
    assert!(matches!(hear(&mut tail).await.msg, FromRouter::TailOpened { start: Offset(0), .. }));
    let (mut writer, mut reader) = world.produce().await;
    append(&mut writer, 0, batch(2, 100, Some(0))).await;
    assert!(matches!(hear(&mut reader).await.msg, FromRouter::AppendAck { .. }));
    assert!(matches!(hear(&mut tail).await.msg, FromRouter::Records { next: Offset(2) }));
    world.cluster.deafen_tails();
    append(&mut writer, 1, batch(2, 100, Some(2))).await;
    assert!(matches!(hear(&mut reader).await.msg, FromRouter::AppendAck { .. }));
    assert!(matches!(hear(&mut tail).await.msg, FromRouter::Records { next: Offset(4) }));
    assert!(world.metric("tail_stuck").await >= 1.0);
}
