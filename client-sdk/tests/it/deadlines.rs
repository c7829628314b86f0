//! Every call ends within its deadline, with an error that says what is known, whatever step a router or metad swallows,
//! delays or dies at. The bounds allow for a busy machine; without them these tests would hang.

use crate::double::{At, Cluster, How, TOPIC};
use seamlog::{Certainty, Client, ConsumeError, ErrorCode, Peer, ReadFrom, Record, SendError, TopicConfig};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_millis(700);
/// A deadline, and what a busy machine adds to it.
const AMPLE: Duration = Duration::from_secs(15);
const LATE: Duration = Duration::from_secs(60);
const WAYS: [How; 3] = [How::Swallow, How::Delay(LATE), How::Die];

async fn in_time<T>(what: &str, call: impl Future<Output = T>) -> T {
    tokio::time::timeout(AMPLE, call).await.unwrap_or_else(|_| panic!("{what} did not end within its deadline"))
}

/// A client whose requests end within [`DEADLINE`].
fn client(cluster: &Cluster) -> Client {
    let mut config = cluster.config();
    config.request_timeout_ms = DEADLINE.as_millis() as u64;
    config.connect_timeout_ms = 300;
    Client::connect(config).unwrap()
}

fn goes_wrong(cluster: &Cluster, wrong: &[(At, How)]) {
    *cluster.plan.wrong.lock() = wrong.to_vec();
}

async fn send(client: &Client) -> SendError {
    let producer = client.producer(TOPIC).linger(Duration::ZERO).deadline(DEADLINE).build().await.unwrap();
    let started = Instant::now();
    let handle = in_time("send", producer.send(Record::new("x"))).await.unwrap();
    let error = in_time("an append", handle).await.unwrap_err();
    assert!(started.elapsed() >= DEADLINE, "it was tried until the deadline: {error}");
    in_time("flush", producer.flush()).await;
    in_time("close", producer.close()).await;
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_never_left_certainly_did_not_happen_and_says_so_in_time() {
    for how in WAYS {
        let cluster = Cluster::start(1, 2).await;
        goes_wrong(&cluster, &[(At::ProduceOpen, how)]);
        let error = send(&client(&cluster)).await;
        assert_eq!(
            (error.code, error.certainty),
            (ErrorCode::DeadlineExceeded, Certainty::Definite),
            "{how:?}: {error}"
        );
        assert!(error.is_definite() && error.retryable);
        assert_eq!(cluster.ranges[0].values().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_left_is_in_doubt_and_says_so_in_time() {
    for how in WAYS {
        let cluster = Cluster::start(1, 2).await;
        goes_wrong(&cluster, &[(At::Append, how)]);
        let error = send(&client(&cluster)).await;
        let found = (error.code, error.certainty);
        assert_eq!(found, (ErrorCode::DeadlineExceeded, Certainty::Indeterminate), "{how:?}: {error}");
        assert!(!error.is_definite());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_delayed_by_less_than_the_deadline_succeeds() {
    let cluster = Cluster::start(1, 1).await;
    let short = How::Delay(Duration::from_millis(100));
    goes_wrong(
        &cluster,
        &[At::ProduceOpen, At::Append, At::TailOpen, At::Tail, At::Offsets, At::Metad].map(|at| (at, short)),
    );
    let client = cluster.client();
    let producer = client.producer(TOPIC).linger(Duration::ZERO).build().await.unwrap();
    let ack = in_time("an append", producer.send(Record::new("x")).await.unwrap()).await.unwrap();
    let mut consumer = client.consumer(TOPIC).follow(false).build().await.unwrap();
    let record = in_time("a record", consumer.next()).await.unwrap().unwrap();
    assert_eq!((record.offset, record.value.unwrap()), (ack.offset, "x".into()));
    assert!(in_time("the end", consumer.next()).await.is_none());
    assert_eq!(client.offsets(TOPIC, 0).await.unwrap().latest.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_never_answers_a_dial_is_told_in_time() {
    let cluster = Cluster::start(1, 1).await;
    // It takes every packet and answers none.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut config = cluster.config();
    config.routers = vec![Peer { name: "router-9".to_owned(), addr: silent.local_addr().unwrap().to_string() }];
    (config.request_timeout_ms, config.connect_timeout_ms) = (DEADLINE.as_millis() as u64, 200);
    let client = Client::connect(config).unwrap();
    let error = send(&client).await;
    assert_eq!((error.code, error.certainty), (ErrorCode::DeadlineExceeded, Certainty::Definite), "{error}");
    let error = in_time("a question", client.offsets(TOPIC, 0)).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let error = in_time("a consumer", client.consumer(TOPIC).build()).await.unwrap_err();
    assert!(error.is_retryable() && error.certainty() == Certainty::Definite, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_in_time() {
    for how in WAYS {
        let cluster = Cluster::start(1, 2).await;
        goes_wrong(&cluster, &[(At::Offsets, how)]);
        let error = in_time("a question", client(&cluster).offsets(TOPIC, 0)).await.unwrap_err();
        assert!(error.is_retryable(), "{how:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_wants_an_end_gets_one_in_time() {
    for at in [At::TailOpen, At::Tail] {
        for how in WAYS {
            let cluster = Cluster::start(1, 2).await;
            let client = client(&cluster);
            let producer = client.producer(TOPIC).build().await.unwrap();
            producer.send(Record::new("x")).await.unwrap().await.unwrap();
            goes_wrong(&cluster, &[(at, how)]);
            let builder = client.consumer(TOPIC).range(0).from(ReadFrom::Earliest).follow(false);
            let mut consumer = in_time("a consumer", builder.build()).await.unwrap();
            let error = in_time("a read", consumer.next()).await.expect("not the end").unwrap_err();
            assert!(matches!(error, ConsumeError::Unavailable { .. }), "{at:?} {how:?}: {error}");
            assert!(in_time("the end", consumer.next()).await.is_none(), "an error ends it");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn building_ends_in_time_though_metad_and_routers_are_silent() {
    for how in WAYS {
        let cluster = Cluster::start(8, 2).await;
        // Each question alone is answered in time: it is their sum that must be bounded.
        let slow = How::Delay(DEADLINE / 3);
        for wrong in [[(At::Metad, how), (At::Offsets, how)], [(At::Metad, how), (At::Offsets, slow)]] {
            goes_wrong(&cluster, &wrong);
            let client = client(&cluster);
            let started = Instant::now();
            let error = in_time("a producer", client.producer(TOPIC).build()).await.unwrap_err();
            assert!(error.is_retryable(), "{wrong:?}: {error}");
            let error = in_time("a consumer", client.consumer(TOPIC).build()).await.unwrap_err();
            assert!(error.is_retryable(), "{wrong:?}: {error}");
            assert!(started.elapsed() < AMPLE, "{wrong:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn administration_ends_in_time_and_says_what_is_known() {
    for how in WAYS {
        let cluster = Cluster::start(1, 1).await;
        goes_wrong(&cluster, &[(At::Metad, how)]);
        let admin = client(&cluster).admin();
        let error = in_time("create", admin.create_topic("other", TopicConfig::default())).await.unwrap_err();
        assert_eq!(error.certainty(), Certainty::Indeterminate, "it may have been made: {error}");
        assert_eq!(error.code(), Some(ErrorCode::DeadlineExceeded), "{error}");
        assert!(error.is_retryable(), "{error}");
        in_time("describe", admin.describe_topic(TOPIC)).await.unwrap_err();
        in_time("list", admin.list_topics()).await.unwrap_err();
        in_time("status", admin.status()).await.unwrap_err();
    }
}
