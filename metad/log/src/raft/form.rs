//! Forming the cluster, once in its life: the member with the lowest id does it when every member says it is pristine.
//!
//! Asking all of them is what makes it safe to run at every start: a member that lost its disk finds the others in
//! possession of a log and waits to be brought up to date instead of founding a second cluster.

use super::machine::Machine;
use super::peers::Peers;
use super::settings::Settings;
use super::types::{Types, Vote, VoteRequest, VoteResponse};
use super::{codec, peers};
use openraft::Raft;
use seam_grpc::RaftMessage;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often the members are asked while some do not answer.
const ASK_EVERY: Duration = Duration::from_millis(100);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Returns once this member knows of a cluster, formed by itself or by another.
pub async fn form(raft: Raft<Types, Machine>, peers: Peers, settings: Settings) {
    let mut asked = 0u32;
    loop {
        match raft.is_initialized().await {
            Ok(true) => return check_members(&raft, &settings),
            Ok(false) if settings.is_lowest() && all_pristine(&peers, &settings).await => {
                let members: BTreeSet<u64> = settings.members.iter().map(|member| member.id).collect();
                match raft.initialize(members).await {
                    Ok(()) => tracing::info!("formed the metadata cluster"),
                    Err(why) => tracing::warn!(%why, "the metadata cluster is not formed yet"),
                }
            }
            Ok(false) => {}
            Err(why) => {
                tracing::error!(%why, "the metadata log stopped before the cluster was formed");
                return;
            }
        }
        asked += 1;
        if asked.is_multiple_of(50) {
            tracing::info!("waiting for all members to form the metadata cluster");
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Membership is static: what the log says and what the settings say must agree.
fn check_members(raft: &Raft<Types, Machine>, settings: &Settings) {
    let logged: BTreeSet<u64> = raft.voter_ids().collect();
    let configured: BTreeSet<u64> = settings.members.iter().map(|member| member.id).collect();
    if !logged.is_empty() && logged != configured {
        tracing::error!(
            ?logged,
            ?configured,
            "[[members]] differs from the cluster that was formed; put the original members back, changing them is not supported yet"
        );
    }
}

async fn all_pristine(peers: &Peers, settings: &Settings) -> bool {
    let asks = peers.all().map(|peer| is_pristine(peer, settings.id));
    futures::future::join_all(asks).await.into_iter().all(|pristine| pristine)
}

/// A pre-vote that cannot be granted anything: it only reads the member's vote and last entry.
async fn is_pristine(peer: &peers::Peer, own: u64) -> bool {
    let question = VoteRequest::new(Vote::new(0, own), None);
    let Ok(body) = codec::encode(&question) else { return false };
    let mut client = peers::Peer::client(&peer.control);
    let ask = tokio::time::timeout(ANSWER_WITHIN, client.pre_vote(RaftMessage { body }));
    let Ok(Ok(answer)) = ask.await else { return false };
    codec::decode::<VoteResponse>(&answer.into_inner().body)
        .is_ok_and(|answer| answer.last_log_id.is_none() && answer.vote.leader_id.term == 0)
}
