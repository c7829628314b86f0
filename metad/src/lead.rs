//! Leadership and time, told to the driver.

use crate::engine::Engine;
use metad_core::Input;
use std::sync::Arc;
use std::time::Duration;

/// Pause before a barrier that failed is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// Tells the driver when it leads: not before its state holds all that earlier leaders committed. Ends with the log.
pub async fn follow_leadership(engine: Arc<Engine>) {
    let mut leadership = engine.log().leadership();
    let mut leads_in = None;
    loop {
        let now = leadership.borrow_and_update().clone();
        if leads_in.is_some_and(|term| !now.is_leader || term != now.term) {
            tracing::info!(term = now.term, leader = now.leader, "no longer the metadata leader");
            engine.handle(Input::LostLeadership);
            leads_in = None;
        }
        if now.is_leader && leads_in.is_none() {
            tokio::select! {
                passed = engine.log().barrier() => match passed {
                    Ok(()) => {
                        tracing::info!(term = now.term, "leads the metadata");
                        engine.handle(Input::BecameLeader);
                        leads_in = Some(now.term);
                    }
                    Err(why) => {
                        tracing::debug!(%why, "not ready to lead yet");
                        tokio::time::sleep(RETRY).await;
                    }
                },
                changed = leadership.changed() => if changed.is_err() { return },
            }
            continue;
        }
        if leadership.changed().await.is_err() {
            engine.handle(Input::LostLeadership);
            return;
        }
    }
}

/// Calls the driver when it wants to be called.
pub async fn keep_time(engine: Arc<Engine>) {
    loop {
        match engine.next_deadline() {
            Some(deadline) => {
                let at = tokio::time::Instant::from_std(engine.instant_of(deadline));
                tokio::select! {
                    () = tokio::time::sleep_until(at) => engine.handle(Input::Tick),
                    () = engine.rearmed() => {}
                }
            }
            None => engine.rearmed().await,
        }
    }
}
