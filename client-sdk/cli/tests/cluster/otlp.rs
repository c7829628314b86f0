//! A trace collector as OTLP has it: takes what is exported to it and answers questions about it.

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A span as it arrived, and who sent it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub service: String,
    /// The process: `segd-3`.
    pub instance: String,
    pub name: String,
    pub id: Vec<u8>,
    /// Empty: a root.
    pub parent: Vec<u8>,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// A running collector.
pub struct Collector {
    pub endpoint: String,
    store: Store,
}

#[derive(Clone, Default)]
struct Store(Arc<Mutex<Vec<(String, Seen)>>>);

impl Collector {
    pub async fn start() -> Collector {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let store = Store::default();
        let service = TraceServiceServer::new(store.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Collector { endpoint, store }
    }

    /// The spans of one trace, in the order they arrived.
    pub fn trace(&self, id: &str) -> Vec<Seen> {
        self.store.0.lock().iter().filter(|(trace, _)| trace == id).map(|(_, span)| span.clone()).collect()
    }

    /// The traces that hold a span of this name.
    pub fn traces_with(&self, name: &str) -> BTreeSet<String> {
        self.store.0.lock().iter().filter(|(_, span)| span.name == name).map(|(trace, _)| trace.clone()).collect()
    }
}

#[tonic::async_trait]
impl TraceService for Store {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
            let service = attribute(&attributes, "service.name");
            let instance = attribute(&attributes, "service.instance.id");
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            let seen = spans.map(|span| (hex(&span.trace_id), seen(&service, &instance, span)));
            self.0.lock().extend(seen);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn seen(service: &str, instance: &str, span: Span) -> Seen {
    Seen {
        service: service.to_owned(),
        instance: instance.to_owned(),
        name: span.name,
        id: span.span_id,
        parent: span.parent_span_id,
        start_ns: span.start_time_unix_nano,
        end_ns: span.end_time_unix_nano,
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> String {
    let value = attributes.iter().find(|attribute| attribute.key == key).and_then(|it| it.value.as_ref());
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        _ => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
