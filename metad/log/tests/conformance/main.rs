//! One suite, every implementation of `MetaLog`.

#![allow(clippy::unwrap_used)]

mod cluster;
mod dead;
mod memory;
mod raft;
mod recorder;
mod relay;
mod slow;
mod suite;

macro_rules! conformance {
    ($($name:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                crate::suite::$name(&mut crate::memory::Memory::new()).await;
            })*
        }

        mod embedded_raft {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                crate::suite::$name(&mut crate::raft::Embedded::new().await).await;
            })*
        }
    };
}

conformance!(
    order,
    concurrent,
    followers_refuse,
    leader_change,
    hand_over,
    restart_all,
    snapshot_to_laggard,
    no_quorum,
    shutdown,
);
