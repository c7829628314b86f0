//! Waiting until the cluster is whole again, and starting what does not run.

use super::director::Director;
use crate::target::Observed;
use crate::verify::live::until;
use std::time::{Duration, Instant};

const GLANCE: Duration = Duration::from_millis(50);

impl<T: Observed> Director<T> {
    /// Every process runs, metad has a leader and counts every node as live, the head is in nobody's recovery, records that
    /// are sent now are acked, and every tail gets them. Errors say what is missing.
    pub(super) async fn await_whole(&self) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        while let Some(missing) = self.missing().await {
            if Instant::now() >= deadline {
                return Err(format!("not whole again within {:?}: {missing}", self.patience));
            }
            tokio::time::sleep(GLANCE).await;
        }
        let now_us = self.clock.now_us();
        self.await_ack(now_us).await?;
        let end = self.live.end();
        if !until(self.patience, || self.live.delivered(end)).await {
            let reached = self.live.tails.lock().clone();
            return Err(format!("tails got to {reached:?} within {:?}, and {end} was acked", self.patience));
        }
        Ok(())
    }

    /// Until a record sent after `us` is acked.
    pub(super) async fn await_ack(&self, us: u64) -> Result<(), String> {
        if until(self.patience, || self.live.acked_after(us)).await {
            return Ok(());
        }
        Err(format!("no record sent after the fault was acked within {:?}", self.patience))
    }

    async fn missing(&self) -> Option<String> {
        let processes = match self.dev.status().await {
            Ok((processes, _)) => processes,
            Err(error) => return Some(error.to_string()),
        };
        if let Some(down) = processes.iter().find(|process| process.state != "running") {
            return Some(format!("{} is {}", down.name, down.state));
        }
        match self.target.status().await {
            Ok(status) if status.leader.is_empty() => return Some("metad knows no leader".to_owned()),
            Ok(_) => {}
            Err(error) => return Some(error.to_string()),
        }
        match self.target.nodes().await {
            Ok(nodes) => {
                if let Some(node) = nodes.iter().find(|node| node.state != "live") {
                    return Some(format!("{} is {} for metad", node.name, node.state));
                }
            }
            Err(error) => return Some(error.to_string()),
        }
        match self.look().await {
            Some(looked) if looked.head().is_some_and(|head| head.recovery.is_none()) => None,
            Some(looked) => Some(format!("the head is being recovered: {:?}", looked.head())),
            None => Some("metad does not describe the topic".to_owned()),
        }
    }

    /// Starts or wakes what does not run. Errors say what would not.
    pub(super) async fn repair(&self) -> Result<(), String> {
        let (processes, _) = self.dev.status().await.map_err(|error| error.to_string())?;
        for process in processes.iter().filter(|process| process.state == "paused") {
            self.dev.resume(&process.name).await.map_err(|error| error.to_string())?;
        }
        for process in processes.iter().filter(|process| process.state == "crashed" || process.state == "stopped") {
            self.dev.restart(&process.name).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
