//! metad, as seen from here: registration, the session, the watch stream, reports.

use crate::config::Config;
use crate::driver::{Gauges, Inbox};
use rustix::fs::statvfs;
use seam_grpc::{HeartbeatRequest, RegisterRequest};
use seam_transport::meta_client::{MetaClient, MetaError};
use seam_wire::report::Report;
use seam_wire::{Incarnation, NodeId, SegmentId, TraceContext};
use segd_core::io::{Input, ReportId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Sends reports; every one is answered to the node, with `done: false` when metad could not be reached in time.
#[derive(Clone)]
pub struct Reporter {
    pub client: MetaClient,
    pub node: NodeId,
    pub incarnation: Incarnation,
}

impl Reporter {
    pub fn report(&self, id: ReportId, report: Report, trace: Option<TraceContext>, inbox: Inbox) {
        let this = self.clone();
        tokio::spawn(async move {
            let done = match this.client.report(this.node, this.incarnation, &report, trace).await {
                Ok(answer) => {
                    if !answer.done {
                        tracing::debug!(?report, why = %answer.why, "metad wants this report again later");
                    }
                    answer.done
                }
                Err(error) => {
                    tracing::debug!(?report, %error, "a report did not reach metad; it is repeated");
                    false
                }
            };
            inbox.complete(Input::ReportAnswered { id, done });
        });
    }
}

/// A session that ended sooner is opened again only after so long: refusals must not make a tight loop.
const REOPEN_PAUSE: Duration = Duration::from_millis(50);
/// Pause where metad and this node do not trust each other's certificates: that needs a person.
const UNTRUSTED_PAUSE: Duration = Duration::from_secs(1);

/// Registers, then keeps a session with the metad leader, for as long as the process lives: while it stands metad knows
/// that this process does. Registers again whenever metad does not know this life.
pub async fn stay_registered(
    client: MetaClient,
    config: Config,
    incarnation: Incarnation,
    gauges: Arc<Gauges>,
    inbox: Inbox,
    stop: CancellationToken,
) {
    let mut told = false;
    loop {
        let since = tokio::time::Instant::now();
        let outcome = tokio::select! {
            () = stop.cancelled() => return,
            outcome = register_and_beat(&client, &config, incarnation, &gauges, &inbox, &mut told) => outcome,
        };
        let untrusted = matches!(outcome, Err(MetaError::Untrusted { .. }));
        let pause = if untrusted { UNTRUSTED_PAUSE } else { REOPEN_PAUSE };
        if let Err(error) = outcome
            && !std::mem::replace(&mut told, true)
        {
            tracing::warn!(%error, "metad does not answer; going on with what is known");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause.saturating_sub(since.elapsed())) => {}
        }
    }
}

/// Until metad does not know this life any more (`Ok`), or cannot be reached.
async fn register_and_beat(
    client: &MetaClient,
    config: &Config,
    incarnation: Incarnation,
    gauges: &Gauges,
    inbox: &Inbox,
    told: &mut bool,
) -> Result<(), MetaError> {
    let answer = client.register(registration(config, incarnation)).await?;
    *told = false;
    tracing::info!(version = answer.version, "registered with metad");
    inbox.complete(Input::Registered { next_segment: SegmentId(answer.next_segment) });
    let period = Duration::from_millis(config.limits.heartbeat_ms.max(10));
    let mut round_trip = Duration::ZERO;
    loop {
        let since = tokio::time::Instant::now();
        let mut session = client.open_session(heartbeat(config, incarnation, gauges, round_trip)).await?;
        let why = loop {
            match session.answer().await {
                Ok(answer) if !answer.known => return Ok(()),
                Ok(_) => {}
                Err(why) => break why,
            }
            round_trip = session.round_trip();
            let over = tokio::time::timeout(period, session.over()).await;
            if let Ok(why) = over {
                break why;
            }
            if let Err(why) = session.beat(heartbeat(config, incarnation, gauges, round_trip)).await {
                break why;
            }
        };
        tracing::info!(why = why.message(), "the session with metad is over; opening another");
        tokio::time::sleep(REOPEN_PAUSE.saturating_sub(since.elapsed())).await;
    }
}

fn registration(config: &Config, incarnation: Incarnation) -> RegisterRequest {
    RegisterRequest {
        node_id: config.id,
        name: config.name.clone(),
        addr: config.advertised(),
        domain: config.domain.clone(),
        incarnation: incarnation.0,
    }
}

fn heartbeat(config: &Config, incarnation: Incarnation, gauges: &Gauges, round_trip: Duration) -> HeartbeatRequest {
    let load = gauges.load();
    let free_bytes = statvfs(&config.data_dir).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    HeartbeatRequest {
        node_id: config.id,
        incarnation: incarnation.0,
        free_bytes,
        write_bytes_per_s: load.write_bytes_per_s,
        open_segments: load.open_segments,
        disk_failed: gauges.disk_failed.load(Ordering::Relaxed),
        round_trip_us: u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX),
    }
}

/// Brings metad's views to the node, for as long as the process lives.
pub async fn follow(client: MetaClient, who: String, inbox: Inbox, stop: CancellationToken) {
    let mut watch = client.watch(0, &who);
    loop {
        let update = tokio::select! {
            () = stop.cancelled() => return,
            update = watch.next() => update,
        };
        let Some(update) = update else { return };
        inbox.complete(Input::Meta(update));
    }
}
