//! Administration against the metad double.

use crate::double::{Cluster, TOPIC};
use seamlog::{Anticipation, Error, ErrorCode, Placement, TopicConfig};

#[tokio::test]
async fn answers_come_as_plain_data() {
    let cluster = Cluster::start(2, 1).await;
    let admin = cluster.client().admin();
    let topic = admin.describe_topic(TOPIC).await.unwrap();
    assert_eq!((topic.config.ranges, topic.config.replicas), (2, 3));
    assert_eq!((topic.config.placement, topic.config.anticipation), (Placement::Sticky, Anticipation::AtOpen));
    assert_eq!(topic.ranges[0].segments[0].replicas, [3, 1, 2]);
    let names: Vec<String> = admin.list_topics().await.unwrap().into_iter().map(|topic| topic.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(admin.status().await.unwrap().term, 3);
    assert!(admin.ping().await.unwrap().as_nanos() > 0);
    assert_eq!(admin.roll_history(TOPIC, 1).await.unwrap()[0].gate_us, 77);
}

#[tokio::test]
async fn settings_travel_and_errors_have_a_code() {
    let cluster = Cluster::start(1, 1).await;
    let admin = cluster.client().admin();
    let config = TopicConfig { ranges: 4, anticipation: Anticipation::Off, ..TopicConfig::default() };
    assert_eq!(admin.create_topic("new", config.clone()).await.unwrap().config, config);
    let exists = admin.create_topic(TOPIC, config.clone()).await.unwrap_err();
    assert_eq!(exists.code(), Some(ErrorCode::AlreadyExists), "{exists}");
    let unknown = admin.describe_topic("nothing").await.unwrap_err();
    assert_eq!(unknown.code(), Some(ErrorCode::UnknownTopic), "{unknown}");
    assert!(unknown.to_string().contains("nothing"), "{unknown}");
    let bad = admin.create_topic("new", TopicConfig { ranges: 0, ..config }).await.unwrap_err();
    assert!(matches!(bad, Error::Topic(_)), "{bad}");
}

#[tokio::test]
async fn a_call_ends_when_nobody_answers() {
    let cluster = Cluster::start(1, 1).await;
    cluster.kill_metad();
    let mut config = cluster.config();
    config.request_timeout_ms = 400;
    let client = seamlog::Client::connect(config).unwrap();
    let error = client.admin().status().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::DeadlineExceeded), "{error}");
    assert!(error.to_string().contains("metad"), "{error}");
}
