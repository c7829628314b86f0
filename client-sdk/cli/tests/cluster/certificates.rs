//! A new CA and new certificates for every process and client, under load: nobody notices, and who has only the old ones gets
//! nowhere afterwards.

use crate::harness::{Cluster, assert_continuous, chain, eventually};
use crate::load::{Load, RECORD_BYTES};
use seam_transport::grpc::{GrpcConfig, channel};
use seam_transport::{TlsMaterial, TlsPaths, quic};
use seamlog::{Client, QuicConfig, TopicConfig};
use std::fs;
use std::time::Duration;

const TOPIC: &str = "rotated";
const RATE_PER_S: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_rotated_under_load() {
    let cluster = Cluster::up(&["--metad", "3", "--segd", "3", "--router", "2"]);
    let client = cluster.client();
    let config = TopicConfig { segment_bytes: 2 * RATE_PER_S * RECORD_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    load.progress(RATE_PER_S).await;

    // Somebody keeps what clients have now.
    let now = cluster.settings().tls;
    let kept = |name: &str| cluster.scratch().join(name);
    let old = TlsPaths { ca: kept("ca.crt"), cert: kept("client.crt"), key: kept("client.key") };
    for (from, to) in [(&now.ca, &old.ca), (&now.cert, &old.cert), (&now.key, &old.key)] {
        fs::copy(from, to).expect("copied");
    }

    let mut rotate = cluster.command(["dev", "rotate-certs"]);
    let rotating = tokio::task::spawn_blocking(move || rotate.output().expect("seam runs"));
    let output = rotating.await.expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    load.check();
    load.progress(2 * RATE_PER_S).await;

    // New connections everywhere: a router restarts, the segments move on, a new client comes.
    cluster.seam(["dev", "restart", "router-1"]);
    client.admin().roll_topic(TOPIC, None).await.expect("asked");
    load.progress(2 * RATE_PER_S).await;
    for name in ["metad-1", "segd-1", "segd-3", "router-1", "router-2"] {
        let left = cluster.metrics_of(name).sum(&metric(name, "tls_certificate_expires_in_seconds"), "");
        assert!(left > 0.0, "{name}: {left}");
        assert_eq!(cluster.metrics_of(name).sum(&metric(name, "tls_reload_failures"), ""), 0.0, "{name}");
    }
    eventually("a new client", async || cluster.client().admin().status().await.is_ok()).await;

    // With the old files alone: not over QUIC, not over gRPC, not with the new CA trusted beside them.
    let both = TlsPaths { ca: cluster.settings().tls.ca, ..old.clone() };
    for paths in [&old, &both] {
        let tls = TlsMaterial::load_untrusted(paths).expect("a pair");
        let endpoint = quic::client_endpoint(&tls, &QuicConfig::default()).expect("an endpoint");
        if let Ok(stranger) =
            quic::connect(&endpoint, &cluster.addr("router-2"), "router-2", Duration::from_secs(20)).await
        {
            tokio::time::timeout(Duration::from_secs(20), stranger.closed()).await.expect("it is closed at once");
        }
        let stranger = channel(&cluster.addr("metad-1"), "metad-1", &tls, &GrpcConfig::default()).expect("an address");
        let asked = seam_grpc::admin_client::AdminClient::new(stranger).status(seam_grpc::StatusRequest {}).await;
        asked.expect_err("metad answered a stranger");
        let refused = Client::connect(seamlog::ClientConfig { tls: paths.clone(), ..cluster.settings() });
        if let Ok(refused) = refused {
            refused.offsets(TOPIC, 0).await.expect_err("a router answered a stranger");
        }
    }

    load.finish().await;
    assert_continuous(&chain(&client, TOPIC).await.0);
}

/// The name of a process's metric.
fn metric(process: &str, name: &str) -> String {
    let program = if process.starts_with("metad") { "seam_metad" } else { process.split('-').next().expect("a role") };
    format!("{program}_{name}")
}
