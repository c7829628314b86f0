//! Topics, chains and rolls through the real service, over the death of any member.

use crate::cluster::Cluster;
use crate::nodes::Nodes;
use seam_grpc as rpc;
use seam_transport::Role;
use seam_wire::meta::SegmentState;

fn topic(name: &str) -> rpc::CreateTopicRequest {
    rpc::CreateTopicRequest { name: name.to_owned(), config: None }
}

async fn states(cluster: &Cluster, name: &str) -> Vec<String> {
    let admin = cluster.client("client", Role::Client);
    let topic = admin.describe_topic(rpc::DescribeTopicRequest { name: name.to_owned() }).await.unwrap();
    topic.ranges[0].segments.iter().map(|segment| segment.state.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_grows_roll_by_roll_and_all_members_agree() {
    let cluster = Cluster::started().await;
    let nodes = Nodes::start(&cluster, 5).await;
    let admin = cluster.client("client", Role::Client);
    let made = admin.create_topic(topic("clicks")).await.unwrap();
    assert_eq!((made.name.as_str(), made.ranges.len()), ("clicks", 1));

    let mut head = nodes.open_segment().await;
    for _ in 0..3 {
        head = nodes.roll(&head).await;
    }
    assert_eq!(states(&cluster, "clicks").await, ["sealed", "sealed", "sealed", "open"]);
    assert!(matches!(head.state, SegmentState::Open { start } if start.0 == 300), "{head:?}");

    let request = rpc::RollHistoryRequest { name: "clicks".to_owned(), last: 0 };
    let rolls = admin.roll_history(request).await.unwrap().rolls;
    assert_eq!(rolls.iter().map(|roll| (roll.start, roll.end)).collect::<Vec<_>>(), [(0, 100), (100, 200), (200, 300)]);
    assert!(rolls.iter().all(|roll| roll.announce_to_ready_us == 7 && !roll.by_recovery));

    let status = admin.status(rpc::StatusRequest {}).await.unwrap();
    let accounted = status.candidates_used + status.candidates_reclaimed + status.candidates_open;
    assert_eq!(status.candidates_made, accounted, "R10: {status:?}");
    cluster.fingerprint().await;
    let text = cluster.members[cluster.leader().await].as_ref().unwrap().registry().render();
    for line in ["seam_metad_leader 1", "seam_metad_nodes{state=\"live\"} 5", "seam_metad_candidates{state=\"used\"} 4"]
    {
        assert!(text.lines().any(|have| have == line), "no {line:?} in\n{text}");
    }
}

/// Field report 3: whoever leads drives every step on.
#[tokio::test(flavor = "multi_thread")]
async fn the_leader_may_die_at_every_step_of_a_roll() {
    let mut cluster = Cluster::started().await;
    let nodes = Nodes::start(&cluster, 5).await;
    cluster.client("client", Role::Client).create_topic(topic("clicks")).await.unwrap();
    let first = nodes.open_segment().await;

    let old = cluster.leader().await;
    cluster.kill(old).await;
    nodes.soft_mark(&first).await;
    cluster.start(old).await;

    let old = cluster.leader().await;
    cluster.kill(old).await;
    let next = nodes.ready_successor(&first).await;
    cluster.start(old).await;

    let old = cluster.leader().await;
    cluster.kill(old).await;
    nodes.sealed(&first, next.spec.id, 100).await;
    cluster.start(old).await;

    let old = cluster.leader().await;
    cluster.kill(old).await;
    let second = nodes.opened(next.spec.id).await;
    let third = nodes.roll(&second).await;
    cluster.start(old).await;

    assert!(matches!(third.state, SegmentState::Open { start } if start.0 == 200), "{third:?}");
    assert_eq!(states(&cluster, "clicks").await[..3], ["sealed", "sealed", "open"]);
    cluster.fingerprint().await;
}

/// R11: the state is a function of the log, also after all members come back from their disks.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_all_keeps_the_state_bit_for_bit() {
    let mut cluster = Cluster::new();
    // A snapshot on the way, so that both parts of a restart are taken.
    cluster.limits.snapshot_log_entries = 24;
    cluster.limits.keep_log_entries = 4;
    cluster.start_all().await;
    let nodes = Nodes::start(&cluster, 5).await;
    cluster.client("client", Role::Client).create_topic(topic("clicks")).await.unwrap();
    let mut head = nodes.open_segment().await;
    for _ in 0..4 {
        head = nodes.roll(&head).await;
    }
    // The last command of a roll is its measure; after that nothing is on its way.
    let admin = cluster.client("client", Role::Client);
    loop {
        let request = rpc::RollHistoryRequest { name: "clicks".to_owned(), last: 0 };
        let rolls = admin.roll_history(request).await.unwrap().rolls;
        if rolls.len() == 4 && rolls.iter().all(|roll| roll.record_us > 0) {
            break;
        }
    }
    drop(nodes);
    let before = cluster.fingerprint().await;
    for at in 0..3 {
        cluster.kill(at).await;
    }
    cluster.start_all().await;
    cluster.leader().await;
    assert_eq!(cluster.fingerprint().await, before);
    assert_eq!(states(&cluster, "clicks").await.iter().filter(|state| *state == "sealed").count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_change_topics_and_nodes() {
    let cluster = Cluster::started().await;
    let nodes = Nodes::start(&cluster, 4).await;
    let admin = cluster.client("client", Role::Client);
    admin.create_topic(topic("a")).await.unwrap();
    let again = admin.create_topic(topic("a")).await.unwrap_err();
    assert_eq!(again.code(), Some(tonic::Code::AlreadyExists), "{again}");
    let bad = admin.create_topic(topic("not a name")).await.unwrap_err();
    assert_eq!(bad.code(), Some(tonic::Code::InvalidArgument), "{bad}");
    let missing = admin.delete_topic(rpc::DeleteTopicRequest { name: "b".to_owned() }).await.unwrap_err();
    assert_eq!(missing.code(), Some(tonic::Code::NotFound), "{missing}");

    let alter = rpc::AlterTopicRequest { name: "a".to_owned(), segment_bytes: Some(1 << 20), ..Default::default() };
    assert_eq!(admin.alter_topic(alter).await.unwrap().config.unwrap().segment_bytes, 1 << 20);
    assert_eq!(admin.list_topics(rpc::ListTopicsRequest {}).await.unwrap().topics.len(), 1);

    let head = nodes.open_segment().await;
    let roll = rpc::RollTopicRequest { name: "a".to_owned(), range_index: None };
    assert_eq!(admin.roll_topic(roll).await.unwrap().rolling, [head.spec.id.0]);
    assert!(nodes.known.segment(head.spec.id).is_some());

    admin.drain_node(rpc::DrainNodeRequest { node_id: 4, drain: true }).await.unwrap();
    let nodes = admin.list_nodes(rpc::ListNodesRequest {}).await.unwrap().nodes;
    assert_eq!(nodes.iter().map(|node| node.state.as_str()).collect::<Vec<_>>(), ["live", "live", "live", "draining"]);
    admin.delete_topic(rpc::DeleteTopicRequest { name: "a".to_owned() }).await.unwrap();
    assert!(admin.list_topics(rpc::ListTopicsRequest {}).await.unwrap().topics.is_empty());
}

/// An orderly stop hands the lead over instead of leaving the others to find out.
#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_stop_hands_the_lead_over() {
    let mut cluster = Cluster::started().await;
    let nodes = Nodes::start(&cluster, 3).await;
    let old = cluster.leader().await;
    cluster.members[old].take().unwrap().stop().await;
    let new = cluster.leader().await;
    assert_ne!(new, old);
    cluster.client("client", Role::Client).create_topic(topic("after")).await.unwrap();
    nodes.open_segment().await;
}
