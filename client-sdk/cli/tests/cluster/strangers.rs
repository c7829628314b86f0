//! Peers without a valid certificate, and peers with the wrong role: refused at every door, counted, and nobody else notices.

use crate::harness::{Cluster, Metrics, soon, until};
use crate::load::Load;
use crate::raw::{endpoint, nameless, nameless_endpoint, turned_away};
use quinn::ConnectionError;
use seam_grpc::admin_client::AdminClient;
use seam_grpc::metadata_client::MetadataClient;
use seam_grpc::{DrainNodeRequest, RegisterRequest, StatusRequest};
use seam_transport::grpc::{GrpcConfig, channel};
use seam_transport::pki::DevCa;
use seam_transport::quic::code;
use seam_transport::{Role, TlsMaterial, TlsPaths};
use seamlog::TopicConfig;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Code, Status};

const TOPIC: &str = "guarded";
const RATE_PER_S: u64 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_get_nowhere() {
    let cluster = Cluster::up(&["--metad", "1", "--segd", "3", "--router", "1"]);
    let client = cluster.client();
    client.admin().create_topic(TOPIC, TopicConfig::default()).await.expect("created");
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    load.progress(RATE_PER_S / 2).await;

    let ours = cluster.settings().tls;
    let other = DevCa::create(cluster.scratch().join("other-ca")).expect("a CA");
    let foreign = |name: &str, role| {
        other.issue(name, role).expect("issued");
        TlsPaths { ca: ours.ca.clone(), ..other.paths(name) }
    };

    // QUIC: another CA's certificate with a role that would do, and no certificate.
    let doors = [("router-1", "client-9", Role::Client), ("segd-1", "router-9", Role::Router)];
    for (server, name, role) in doors {
        let (addr, metrics) = (cluster.addr(server), cluster.metrics_of(server));
        let kind = server.split('-').next().expect("a role");
        for stranger in [endpoint(&foreign(name, role)), nameless_endpoint(&ours.ca)] {
            let before = failures(&metrics, kind);
            let why = turned_away(&stranger, &addr, server).await;
            assert!(matches!(why, ConnectionError::ConnectionClosed(_)), "{server}: {why:?}");
            until("the failure counted", || failures(&metrics, kind) > before);
        }
        load.check();
    }

    // A sound certificate, but a client has no business at segd.
    let metrics = cluster.metrics_of("segd-1");
    match turned_away(&endpoint(&ours), &cluster.addr("segd-1"), "segd-1").await {
        ConnectionError::ApplicationClosed(close) => assert_eq!(close.error_code, code::NOT_AUTHORIZED, "{close}"),
        other => panic!("{other:?}"),
    }
    until("the refusal counted", || metrics.sum("segd_not_authorized", "") == 1.0);

    grpc_too(&cluster, &foreign("segd-9", Role::Segd)).await;

    load.progress(RATE_PER_S).await;
    load.finish().await;
}

async fn grpc_too(cluster: &Cluster, foreign: &TlsPaths) {
    let ours = cluster.settings().tls;
    let (addr, metrics) = (cluster.addr("metad-1"), cluster.metrics_of("metad-1"));
    let dial = |tls: &TlsMaterial| channel(&addr, "metad-1", tls, &GrpcConfig::default()).expect("an address");

    let before = failures(&metrics, "seam_metad");
    let stranger = dial(&TlsMaterial::load_untrusted(foreign).expect("a pair"));
    let status = soon("an end", AdminClient::new(stranger.clone()).status(StatusRequest {})).await;
    assert!(no_answer(&status.expect_err("a stranger was answered")));
    let posing = soon("an end", MetadataClient::new(stranger).register(RegisterRequest::default())).await;
    assert!(no_answer(&posing.expect_err("a stranger was answered")));
    until("the failure counted", || failures(&metrics, "seam_metad") > before);

    let before = failures(&metrics, "seam_metad");
    let tcp = TcpStream::connect(&addr).await.expect("it listens");
    let tls = tokio_rustls::TlsConnector::from(Arc::new(nameless(&ours.ca, seam_transport::tls::ALPN_GRPC)));
    let name = "metad-1".try_into().expect("a name");
    if let Ok(mut stream) = soon("a handshake", tls.connect(name, tcp)).await {
        // The preface of HTTP/2, so that a server that took us would have something to answer.
        let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
        soon("the server hangs up", stream.read_u8()).await.expect_err("the server spoke to a stranger");
    }
    until("the failure counted", || failures(&metrics, "seam_metad") > before);

    // A client may administrate, but not pose as a node.
    let client = dial(&TlsMaterial::load(&ours).expect("ours"));
    let posing = soon("an answer", MetadataClient::new(client).register(RegisterRequest::default())).await;
    let refused = posing.expect_err("a client is no node");
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    // And a node may not administrate.
    let node = DevCa::load(cluster.root().join("pki")).expect("the cluster's CA").paths("segd-1");
    let node = dial(&TlsMaterial::load(&node).expect("the cluster's"));
    let drain =
        soon("an answer", AdminClient::new(node).drain_node(DrainNodeRequest { node_id: 2, drain: true })).await;
    assert_eq!(drain.expect_err("a node is no client").code(), Code::PermissionDenied);
}

/// The call failed below the service: a refusal by the service itself has no cause.
fn no_answer(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

fn failures(metrics: &Metrics, prefix: &str) -> f64 {
    metrics.sum(&format!("{prefix}_handshake_failures"), "")
}
