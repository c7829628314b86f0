//! One node's session with this leader: heartbeats in, answers out, in order. That it stands says that the process lives;
//! how it ended is told to the driver, which decides what that means.

use crate::engine::Engine;
use crate::nodes::check_speaker;
use crate::status::{failed, not_leader, unexpected};
use metad_core::{Answer, Input, SessionId};
use seam_grpc::{HeartbeatRequest, HeartbeatResponse};
use seam_transport::Identity;
use seam_wire::{Incarnation, NodeId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

/// Answers that may wait for the node to take them: it sends a heartbeat only after the answer to the one before.
pub const ANSWERS: usize = 2;

/// Counts itself while it stands.
struct Standing<'e>(&'e Engine);

impl<'e> Standing<'e> {
    fn new(engine: &'e Engine) -> Self {
        engine.counts.sessions.fetch_add(1, Ordering::Relaxed);
        Standing(engine)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.counts.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a session to its end. A leader that steps down ends it itself; anything else is told to the driver.
pub async fn serve(
    engine: Arc<Engine>,
    identity: Identity,
    mut beats: Streaming<HeartbeatRequest>,
    answers: mpsc::Sender<Result<HeartbeatResponse, Status>>,
) {
    let _standing = Standing::new(&engine);
    let session = engine.next_session();
    let mut leads = engine.leads();
    loop {
        let beat = tokio::select! {
            beat = beats.message() => beat,
            () = answers.closed() => break,
            () = async { drop(leads.wait_for(|leads| !leads).await) } => {
                // The node may have gone meanwhile; then nobody waits for the reason.
                let _ = answers.send(Err(not_leader(&engine))).await;
                return;
            }
        };
        let Ok(Some(beat)) = beat else { break };
        let answer = take(&engine, &identity, session, beat).await;
        let is_over = answer.is_err();
        if answers.send(answer).await.is_err() {
            break;
        }
        if is_over {
            return;
        }
    }
    engine.counts.sessions_broken.fetch_add(1, Ordering::Relaxed);
    tracing::info!(%identity, "the session broke");
    engine.handle(Input::SessionBroken { session });
}

async fn take(
    engine: &Arc<Engine>,
    identity: &Identity,
    session: SessionId,
    beat: HeartbeatRequest,
) -> Result<HeartbeatResponse, Status> {
    check_speaker(engine, identity, NodeId(beat.node_id))?;
    let input = |reply| Input::Heartbeat {
        node: NodeId(beat.node_id),
        incarnation: Incarnation(beat.incarnation),
        free_bytes: beat.free_bytes,
        write_bytes_per_s: beat.write_bytes_per_s,
        open_segments: beat.open_segments,
        disk_failed: beat.disk_failed,
        session,
        round_trip_us: beat.round_trip_us,
        reply,
    };
    match engine.ask(input).await {
        Answer::Heartbeat { known } => Ok(HeartbeatResponse { known }),
        Answer::NotLeader => Err(not_leader(engine)),
        Answer::Failed(error) => Err(failed(error)),
        answer => Err(unexpected(&answer)),
    }
}
