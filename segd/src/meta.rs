//! metad, as seen from here: registration, heartbeats, the watch stream, reports.

use crate::config::Config;
use crate::driver::{Gauges, Inbox};
use rustix::fs::statvfs;
use seam_grpc::{HeartbeatRequest, RegisterRequest};
use seam_transport::meta_client::MetaClient;
use seam_wire::report::Report;
use seam_wire::{Incarnation, NodeId};
use segd_core::io::{Input, ReportId};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;

/// Sends reports; every one is answered to the node, with `done: false` when metad could not be reached in time.
#[derive(Clone)]
pub struct Reporter {
    pub client: MetaClient,
    pub node: NodeId,
    pub incarnation: Incarnation,
}

impl Reporter {
    pub fn report(&self, id: ReportId, report: Report, inbox: Inbox) {
        let this = self.clone();
        tokio::spawn(async move {
            let done = match this.client.report(this.node, this.incarnation, &report).await {
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

/// One more than at the last start, and never below the clock: larger at each start of this node. Durable before it is used.
pub fn next_incarnation(data_dir: &Path) -> anyhow::Result<Incarnation> {
    let path = data_dir.join("incarnation");
    let last = match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse::<u64>().map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error.into()),
    };
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let next = u64::try_from(clock).unwrap_or(0).max(last + 1);
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, next.to_string())?;
    std::fs::File::open(&fresh)?.sync_all()?;
    std::fs::rename(&fresh, &path)?;
    std::fs::File::open(data_dir)?.sync_all()?;
    Ok(Incarnation(next))
}

/// Registers, and again whenever metad does not know this life; then heartbeats.
pub async fn stay_registered(
    client: MetaClient,
    config: Config,
    incarnation: Incarnation,
    gauges: Arc<Gauges>,
    stop: CancellationToken,
) {
    let period = Duration::from_millis(config.limits.heartbeat_ms.max(10));
    let mut registered = false;
    let mut told = false;
    while !stop.is_cancelled() {
        let outcome = if registered {
            let beat = client.heartbeat(heartbeat(&config, incarnation, &gauges)).await;
            beat.map(|answer| registered = answer.known)
        } else {
            client.register(registration(&config, incarnation)).await.map(|answer| {
                registered = true;
                told = false;
                tracing::info!(version = answer.version, "registered with metad");
            })
        };
        if let Err(error) = outcome
            && !std::mem::replace(&mut told, true)
        {
            tracing::warn!(%error, "metad does not answer; going on with what is known");
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(period) => {}
        }
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

fn heartbeat(config: &Config, incarnation: Incarnation, gauges: &Gauges) -> HeartbeatRequest {
    let load = gauges.load();
    let free_bytes = statvfs(&config.data_dir).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    HeartbeatRequest {
        node_id: config.id,
        incarnation: incarnation.0,
        free_bytes,
        write_bytes_per_s: load.write_bytes_per_s,
        open_segments: load.open_segments,
        disk_failed: gauges.disk_failed.load(Ordering::Relaxed),
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
