//! What is refused, and how it is told.

use crate::double::{Cluster, TOPIC, TailFate};
use seam_transport::Role;
use seam_transport::pki::DevCa;
use seamlog::{Client, ConsumeError, Error, ErrorCode, Offset, ReadFrom, Record};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_named() {
    let cluster = Cluster::start(2, 1).await;
    let client = cluster.client();
    let error = client.producer("nothing").build().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopic), "{error}");
    let error = client.consumer("nothing").build().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopic), "{error}");
    let error = client.offsets(TOPIC, 9).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UnknownRange), "{error}");

    let mut nothing = client.consumer("nothing").range(0).build().await.unwrap();
    let error = nothing.next().await.unwrap().unwrap_err();
    assert!(matches!(&error, ConsumeError::UnknownTopic { topic, .. } if topic == "nothing"), "{error}");
    let mut no_range = client.consumer(TOPIC).range(9).build().await.unwrap();
    let error = no_range.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ConsumeError::UnknownRange { range: 9, .. }), "{error}");
    let mut too_high = client.consumer(TOPIC).range(0).from(ReadFrom::Offset(Offset(5))).build().await.unwrap();
    let error = too_high.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ConsumeError::OffsetOutOfRange { range: 0, .. }), "{error}");
    assert!(too_high.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_authority_gets_nowhere_and_is_told_so() {
    let cluster = Cluster::start(1, 2).await;
    let other = DevCa::create(cluster.dir.path().join("other")).unwrap();
    other.issue("client", Role::Client).unwrap();
    // A certificate that the cluster's CA does not vouch for is told before anybody is dialed.
    let mut config = cluster.config();
    config.tls.cert = other.paths("client").cert;
    config.tls.key = other.paths("client").key;
    assert!(matches!(Client::connect(config), Err(Error::Tls(_))));
    // With another CA on both sides it is the handshake that fails.
    let mut config = cluster.config();
    config.tls = other.paths("client");
    let client = Client::connect(config).unwrap();
    let error = client.offsets(TOPIC, 0).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotAuthorized), "{error}");
    let error = client.consumer(TOPIC).range(0).build().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotAuthorized), "{error}");
    assert!(cluster.ranges[0].values().is_empty());
}

/// Certificates that one side does not take: administration says so at once, where it used to try until its deadline. Whom we
/// do not trust was asked nothing, and that is said. Who does not trust us says so after the handshake, and his word can be lost
/// with the connection: the next try hears it, and what became of the first is not claimed to be known.
#[tokio::test(flavor = "multi_thread")]
async fn administration_without_trust_fails_at_once() {
    let cluster = Cluster::start(1, 1).await;
    let other = DevCa::create(cluster.dir.path().join("other")).unwrap();
    other.issue("client", Role::Client).unwrap();
    let mut distrusting = cluster.config();
    distrusting.tls = other.paths("client");
    // Trusts both authorities, but is vouched for by the one that metad does not know.
    let mut distrusted = distrusting.clone();
    distrusted.tls.ca = cluster.dir.path().join("both.crt");
    let both = [cluster.ca.ca_cert(), other.ca_cert()].map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(&distrusted.tls.ca, both.concat()).unwrap();
    let refused = "the certificate shown there was refused";
    for (mut config, remedy) in [(distrusting, "check the CA"), (distrusted, refused)] {
        config.request_timeout_ms = 600_000;
        let admin = Client::connect(config).unwrap().admin();
        let call = admin.create_topic("new", seamlog::TopicConfig::default());
        let error = tokio::time::timeout(Duration::from_secs(60), call).await.expect("at once").unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NotAuthorized), "{error}");
        assert!(remedy == refused || error.certainty() == seamlog::Certainty::Definite, "{error}");
        assert!(!error.is_retryable(), "{error}");
        let text = error.to_string();
        assert!(text.contains(remedy) && text.contains(&cluster.metad.to_string()), "{text}");
    }
}

/// Nobody listens: nothing can have happened, and the error names everybody who was asked.
#[tokio::test(flavor = "multi_thread")]
async fn administration_that_nobody_listens_to_names_all_addresses() {
    let cluster = Cluster::start(1, 1).await;
    let mut config = cluster.config();
    config.request_timeout_ms = 1_000;
    // Taken and let go: nobody listens there now.
    let addrs: Vec<String> = (0..3)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap())
        .collect::<Vec<_>>()
        .iter()
        .map(|free| free.local_addr().unwrap().to_string())
        .collect();
    let member = |(at, addr): (usize, &String)| seamlog::Peer { name: format!("metad-{}", at + 1), addr: addr.clone() };
    config.metad = addrs.iter().enumerate().map(member).collect();
    let admin = Client::connect(config).unwrap().admin();
    let error = admin.create_topic("new", seamlog::TopicConfig::default()).await.unwrap_err();
    assert_eq!(error.certainty(), seamlog::Certainty::Definite, "{error}");
    assert!(error.is_retryable(), "{error}");
    for addr in addrs {
        assert!(error.to_string().contains(&addr), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_work_are_refused_at_once() {
    let cluster = Cluster::start(1, 1).await;
    let good = cluster.config();
    let mut no_metad = good.clone();
    no_metad.metad.clear();
    assert!(matches!(Client::connect(no_metad), Err(Error::NoPeers(_))));
    let mut no_file = good.clone();
    no_file.tls.cert = cluster.dir.path().join("absent.crt");
    let error = Client::connect(no_file).unwrap_err().to_string();
    assert!(error.contains("absent.crt"), "{error}");
    // Administration does without routers; the rest says what is missing.
    let mut no_router = good;
    no_router.routers.clear();
    let client = Client::connect(no_router).unwrap();
    client.admin().status().await.unwrap();
    let error = client.producer(TOPIC).build().await.unwrap_err().to_string();
    assert!(error.contains("router"), "{error}");
}

/// Routers open the tail, bring what they can, and then refuse or fall silent, again and again: what there is is delivered,
/// then the consumer that wants an end gets the reason, in time. It used to wait for ever, since an open tail counted as a
/// living one.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_does_not_follow_gives_up_on_a_tail_that_brings_nothing() {
    for fate in [TailFate::Refused, TailFate::Silent] {
        let cluster = Cluster::start(1, 2).await;
        let producer = cluster.client().producer(TOPIC).linger(Duration::ZERO).build().await.unwrap();
        for n in 0..2 {
            producer.send(Record::new(n.to_string())).await.unwrap().await.unwrap();
        }
        cluster.on_tail(move |count| if count == 0 { TailFate::Served } else { fate });
        let mut config = cluster.config();
        config.request_timeout_ms = 1_000;
        let mut bounded =
            Client::connect(config).unwrap().consumer(TOPIC).range(0).follow(false).build().await.unwrap();
        let within = Duration::from_secs(20);
        let first = tokio::time::timeout(within, bounded.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(first.offset, Offset(0), "the readable part comes first");
        let error = tokio::time::timeout(within, bounded.next()).await.unwrap().unwrap().unwrap_err();
        let why = if fate == TailFate::Refused { "on purpose" } else { "is silent" };
        assert!(matches!(error, ConsumeError::Unavailable { range: 0, .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// A consumer that wants an end is told when there is nobody; one that follows waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_does_not_follow_gives_up_on_a_dead_cluster() {
    let mut cluster = Cluster::start(1, 1).await;
    let producer = cluster.client().producer(TOPIC).build().await.unwrap();
    producer.send(Record::new("x")).await.unwrap().await.unwrap();
    let mut config = cluster.config();
    config.request_timeout_ms = 1_000;
    let client = Client::connect(config).unwrap();
    let mut bounded = client.consumer(TOPIC).range(0).follow(false).build().await.unwrap();
    let mut following = client.consumer(TOPIC).range(0).build().await.unwrap();
    cluster.kill(0);
    let error = bounded.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ConsumeError::Unavailable { range: 0, .. }), "{error}");
    let waited = tokio::time::timeout(Duration::from_millis(1_500), following.next()).await;
    assert!(waited.is_err(), "{waited:?}");
    cluster.revive(0).await;
    assert_eq!(following.next().await.unwrap().unwrap().offset, Offset(0));
}
