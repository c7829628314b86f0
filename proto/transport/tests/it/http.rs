//! `/metrics`, `/healthz`, `/status` over plain HTTP.

use crate::world::{any_port, soon};
use seam_transport::metrics::{Registry, serve_metrics};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn get(addr: SocketAddr, path: &str) -> String {
    let mut tcp = tokio::net::TcpStream::connect(addr).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", tcp.read_to_string(&mut answer)).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_health_and_status_are_served() {
    let registry = Registry::new("seam_test");
    let rolls = registry.counter("rolls", "Rolls done");
    let server = serve_metrics(any_port(), registry, || "{\"node\":\"segd-1\"}".to_owned()).await.unwrap();
    rolls.inc();
    let metrics = get(server.local_addr(), "/metrics").await;
    assert!(metrics.contains("\nseam_test_rolls_total 1\n") && metrics.contains("openmetrics"), "{metrics}");
    assert!(get(server.local_addr(), "/healthz").await.ends_with("ok\n"));
    let status = get(server.local_addr(), "/status").await;
    assert!(status.contains("application/json") && status.ends_with("{\"node\":\"segd-1\"}"), "{status}");
    assert!(get(server.local_addr(), "/else").await.starts_with("HTTP/1.1 404"));
    let taken = serve_metrics(server.local_addr(), Registry::new("x"), String::new).await.unwrap_err().to_string();
    assert!(taken.contains(&server.local_addr().to_string()), "{taken}");
}
