//! Who may ask for what: by certificate, never by what a request says.

use crate::cluster::Cluster;
use crate::nodes::{Nodes, registration};
use bytes::Bytes;
use seam_grpc as rpc;
use seam_transport::Role;
use seam_transport::grpc::{GrpcConfig, channel};
use seam_transport::meta_client::MetaError;
use seam_wire::report::Report;
use seam_wire::{Incarnation, NodeId, SegmentId};
use tonic::Code;
use tonic::transport::Channel;

fn raw(cluster: &Cluster, at: usize, name: &str, role: Role) -> Channel {
    let server = format!("metad-{}", at + 1);
    channel(&cluster.addr(at).to_string(), &server, &cluster.tls(name, role), &GrpcConfig::default()).unwrap()
}

fn code<T: std::fmt::Debug>(outcome: Result<T, MetaError>) -> Option<Code> {
    outcome.unwrap_err().code()
}

#[tokio::test(flavor = "multi_thread")]
async fn everyone_speaks_for_himself_only() {
    let cluster = Cluster::started().await;
    let _nodes = Nodes::start(&cluster, 3).await;
    let segd = cluster.client("segd-2", Role::Segd);
    let router = cluster.client("router-1", Role::Router);
    let client = cluster.client("client", Role::Client);

    // Roles.
    assert_eq!(code(router.register(registration(NodeId(9))).await), Some(Code::PermissionDenied));
    let session = client.open_session(rpc::HeartbeatRequest::default()).await;
    assert_eq!(code(session.map(drop)), Some(Code::PermissionDenied));
    assert_eq!(code(segd.list_topics(rpc::ListTopicsRequest {}).await), Some(Code::PermissionDenied));
    assert_eq!(code(router.status(rpc::StatusRequest {}).await), Some(Code::PermissionDenied));

    // One node for another.
    let mut foreign = registration(NodeId(9));
    foreign.name = "segd-9".to_owned();
    assert_eq!(code(segd.register(foreign).await), Some(Code::PermissionDenied));
    let beat = rpc::HeartbeatRequest { node_id: 1, incarnation: 1, ..Default::default() };
    let mut session = segd.open_session(beat).await.unwrap();
    assert_eq!(session.answer().await.unwrap_err().code(), Code::PermissionDenied);
    let report = Report::Stalled { segment: SegmentId(1) };
    assert_eq!(code(segd.report(NodeId(1), Incarnation(1), &report, None).await), Some(Code::PermissionDenied));
    let mut taken = registration(NodeId(1));
    taken.name = "segd-2".to_owned();
    assert_eq!(code(segd.register(taken).await), Some(Code::PermissionDenied));

    // A body that does not parse.
    let at = cluster.leader().await;
    let mut plain = rpc::metadata_client::MetadataClient::new(raw(&cluster, at, "segd-2", Role::Segd));
    let garbage = rpc::ReportRequest { node_id: 2, incarnation: 1, report: Bytes::from_static(&[0xff; 9]) };
    let status = plain.report(garbage).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");

    // The log is for members.
    for (name, role) in [("segd-2", Role::Segd), ("client", Role::Client), ("metad-9", Role::Metad)] {
        let mut log = rpc::raft_client::RaftClient::new(raw(&cluster, at, name, role));
        let status = log.pre_vote(rpc::RaftMessage { body: Bytes::new() }).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{name}: {status}");
    }
    let text = cluster.members[at].as_ref().unwrap().registry().render();
    let counted = text.lines().find_map(|line| line.strip_prefix("seam_metad_bad_requests_total ")).unwrap();
    assert!(counted.parse::<u64>().unwrap() >= 5, "refusals are counted: {counted}");
}

/// A member that does not lead says so and names who does.
#[tokio::test(flavor = "multi_thread")]
async fn followers_name_the_leader() {
    let cluster = Cluster::started().await;
    let _nodes = Nodes::start(&cluster, 1).await;
    let leader = cluster.leader().await;
    for at in (0..3).filter(|at| *at != leader) {
        let mut client = rpc::admin_client::AdminClient::new(raw(&cluster, at, "client", Role::Client));
        let status = client.list_topics(rpc::ListTopicsRequest {}).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert_eq!(status.metadata().get("seam-leader").unwrap().to_str().unwrap(), format!("metad-{}", leader + 1));
        let answer = client.status(rpc::StatusRequest {}).await.unwrap().into_inner();
        assert_eq!((answer.name, answer.leader), (format!("metad-{}", at + 1), format!("metad-{}", leader + 1)));
    }
}
