//! Traces end to end: a context from another process, a span here, a collector there. One test, because logs and traces
//! are set up once in a process.

#![allow(clippy::unwrap_used)]

use axum::body::Bytes;
use axum::routing::any;
use parking_lot::Mutex;
use seam_transport::telemetry;
use seam_wire::TraceContext;
use std::sync::Arc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataMap;

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_span_joins_its_remote_parent_and_reaches_the_collector() {
    let received: Arc<Mutex<Vec<Bytes>>> = Arc::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let store = Arc::clone(&received);
    // An empty message and status 0: what a collector answers.
    let export = any(async move |body: Bytes| {
        store.lock().push(body);
        ([("content-type", "application/grpc"), ("grpc-status", "0")], vec![0_u8; 5])
    });
    let routes = axum::Router::new().route("/opentelemetry.proto.collector.trace.v1.TraceService/Export", export);
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_routes(tonic::service::Routes::from(routes))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );

    let guard = telemetry::init_with("segd", "segd-3", Some(endpoint)).unwrap();
    let again = telemetry::init_with("segd", "segd-3", None).err().expect("a second init must be refused");
    assert!(again.to_string().contains("once"), "{again}");
    assert_eq!(telemetry::current(), None, "there is no span yet");

    let parent = TraceContext { trace_id: 0x1234_5678_9abc_def0_1122_3344_5566_7788, span_id: 0x99aa, flags: 1 };
    let span = tracing::info_span!("roll_switch");
    telemetry::set_parent(&span, &parent);
    let mut metadata = MetadataMap::new();
    let here = span.in_scope(|| {
        telemetry::inject(&mut metadata);
        telemetry::current().unwrap()
    });
    assert_eq!((here.trace_id, here.flags), (parent.trace_id, 1));
    assert_ne!(here.span_id, parent.span_id);
    assert_eq!(telemetry::extract(&metadata), Some(here));

    // A parent that was not sampled: nothing is recorded, nothing travels.
    let quiet = tracing::info_span!("unsampled_step");
    telemetry::set_parent(&quiet, &TraceContext { flags: 0, ..parent });
    assert_eq!(quiet.in_scope(telemetry::current), None);

    drop((span, quiet));
    guard.shutdown().await;
    let all = received.lock().concat();
    for part in [&b"roll_switch"[..], b"segd-3", &parent.trace_id.to_be_bytes(), &parent.span_id.to_be_bytes()] {
        assert!(contains(&all, part), "{part:?} did not arrive in {} bytes", all.len());
    }
    assert!(!contains(&all, b"unsampled_step"));
}
