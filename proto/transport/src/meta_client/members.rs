//! The members of the metadata cluster and which of them leads, as far as this process knows.

use super::config::MetaMember;
use crate::grpc::{ChannelError, GrpcConfig, channel};
use crate::tls::TlsMaterial;
use tokio::sync::watch;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;

/// The metadata key in which a member names the leader.
pub const LEADER_KEY: &str = "seam-leader";

pub(super) struct Member {
    pub name: String,
    pub addr: String,
    pub channel: Channel,
}

pub(super) struct Members {
    all: Vec<Member>,
    leader: watch::Sender<Option<usize>>,
}

impl Members {
    pub fn new(members: &[MetaMember], tls: &TlsMaterial, grpc: &GrpcConfig) -> Result<Members, ChannelError> {
        if members.is_empty() {
            return Err(ChannelError::ServerName("no metad member is configured; add one to [[metad]]".to_owned()));
        }
        let dial = |member: &MetaMember| {
            let channel = channel(&member.addr, &member.name, tls, grpc)?;
            Ok(Member { name: member.name.clone(), addr: member.addr.clone(), channel })
        };
        let all = members.iter().map(dial).collect::<Result<_, _>>()?;
        Ok(Members { all, leader: watch::Sender::new(None) })
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, at: usize) -> &Member {
        &self.all[at % self.all.len()]
    }

    pub fn leader(&self) -> Option<usize> {
        *self.leader.borrow()
    }

    pub fn leader_name(&self) -> Option<String> {
        self.leader().map(|at| self.get(at).name.clone())
    }

    pub fn follow_leader(&self) -> watch::Receiver<Option<usize>> {
        self.leader.subscribe()
    }

    /// `at` answered as the leader.
    pub fn is_leader(&self, at: usize) {
        self.leader.send_if_modified(|known| known.replace(at) != Some(at));
    }

    /// `at` failed: it is not the leader until it says so again.
    pub fn is_not_leader(&self, at: usize) {
        self.leader.send_if_modified(|known| *known == Some(at) && known.take().is_some());
    }

    /// The member that an answer names as the leader.
    pub fn named_in(&self, metadata: &MetadataMap) -> Option<usize> {
        let name = metadata.get(LEADER_KEY)?.to_str().ok()?;
        self.all.iter().position(|member| member.name == name)
    }
}
