//! gRPC: who may call, what the service knows of the caller, and how a server goes down. The services are plain HTTP/2
//! routes: what is tested lies below the messages.

use crate::world::{World, any_port, eventually, soon};
use axum::Extension;
use axum::http::{Request, StatusCode};
use axum::routing::any;
use seam_transport::grpc::{GrpcConfig, GrpcServer, Peer, channel, require_role, root_cause};
use seam_transport::handshake::HandshakeFailures;
use seam_transport::{Role, TlsMaterial, TlsPaths};
use std::sync::Arc;
use tokio::sync::{Notify, oneshot};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::Channel;
use tower::ServiceExt;

pub struct Server {
    addr: String,
    failures: Arc<HandshakeFailures>,
    hanging: Arc<Notify>,
    shutdown: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

async fn whoami(Extension(peer): Extension<Peer>) -> (StatusCode, [(&'static str, String); 1]) {
    let mut request = tonic::Request::new(());
    request.extensions_mut().insert(peer);
    match require_role(&request, &[Role::Router, Role::Client]) {
        Ok(identity) => (StatusCode::OK, [("who", identity.to_string())]),
        Err(status) => (StatusCode::FORBIDDEN, [("who", status.message().to_owned())]),
    }
}

pub async fn serve(tls: &TlsMaterial, config: GrpcConfig) -> Server {
    let hanging = Arc::new(Notify::new());
    let entered = Arc::clone(&hanging);
    let routes = axum::Router::new().route("/whoami", any(whoami)).route(
        "/hang",
        any(async move || {
            entered.notify_one();
            std::future::pending::<()>().await;
        }),
    );
    let server = GrpcServer::bind(any_port(), tls, config).await.unwrap();
    let (addr, failures) = (server.local_addr().unwrap().to_string(), server.failures());
    let (shutdown, told) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        server.serve(Routes::from(routes), async { drop(told.await) }).await.unwrap();
    });
    Server { addr, failures, hanging, shutdown, task }
}

pub async fn call(channel: &Channel, path: &str) -> Result<(StatusCode, String), String> {
    let request = Request::builder().method("POST").uri(path).body(Body::empty()).unwrap();
    let response = soon("an answer", channel.clone().oneshot(request)).await.map_err(|error| root_cause(&error))?;
    let who = response.headers().get("who").map(|value| value.to_str().unwrap().to_owned());
    Ok((response.status(), who.unwrap_or_default()))
}

pub fn dial(server: &Server, tls: &TlsMaterial) -> Channel {
    channel(&server.addr, "segd-1", tls, &GrpcConfig::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_verified_callers_get_through_and_the_rest_disturb_nobody() {
    let world = World::new();
    let server = serve(&world.member("segd-1", Role::Segd), GrpcConfig::default()).await;
    let good = dial(&server, &world.member("router-1", Role::Router));
    let welcome = Ok((StatusCode::OK, "router-1 (router)".to_owned()));
    assert_eq!(call(&good, "/whoami").await, welcome);

    // The wrong role is known, and refused by the service, not by TLS.
    let segd = dial(&server, &world.member("segd-2", Role::Segd));
    let (status, why) = call(&segd, "/whoami").await.unwrap();
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(why.contains("segd-2 (segd)") && why.contains("router or client"), "{why}");
    assert_eq!(server.failures.count(), 0);

    for tls in [world.foreigner(), world.expired()] {
        let before = server.failures.count();
        call(&dial(&server, &tls), "/whoami").await.expect_err("a stranger got through");
        eventually("the failure is counted", || server.failures.count() > before).await;
    }
    nobody_comes_in_without_a_certificate(&world, &server).await;

    assert_eq!(call(&good, "/whoami").await, welcome, "the open connection goes on");
    let fresh = dial(&server, &world.member("router-1", Role::Router));
    assert_eq!(call(&fresh, "/whoami").await, welcome, "and a new one is taken");
}

async fn nobody_comes_in_without_a_certificate(world: &World, server: &Server) {
    use tokio::io::AsyncReadExt;
    let before = server.failures.count();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(world.nameless(seam_transport::tls::ALPN_GRPC)));
    let tcp = tokio::net::TcpStream::connect(&server.addr).await.unwrap();
    if let Ok(mut tls) = connector.connect("segd-1".try_into().unwrap(), tcp).await {
        soon("the server hangs up", tls.read_u8()).await.expect_err("the server spoke to a stranger");
    }
    // And plain noise.
    let noise = tokio::net::TcpStream::connect(&server.addr).await.unwrap();
    noise.writable().await.unwrap();
    noise.try_write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    eventually("both failures are counted", || server.failures.count() >= before + 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_does_not_trust_any_server() {
    let world = World::new();
    let server = serve(&world.member("segd-1", Role::Segd), GrpcConfig::default()).await;
    let tls = world.member("router-1", Role::Router);
    let wrong_name = channel(&server.addr, "segd-2", &tls, &GrpcConfig::default()).unwrap();
    let error = call(&wrong_name, "/whoami").await.unwrap_err();
    assert!(error.contains("segd-2") && error.contains(&server.addr), "{error}");
    let paths = TlsPaths { ca: world.other.ca_cert(), ..world.ca.paths("router-1") };
    let suspicious = dial(&server, &TlsMaterial::load_untrusted(&paths).unwrap());
    let error = call(&suspicious, "/whoami").await.unwrap_err();
    assert!(error.contains("check the CA"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn going_down_cuts_what_does_not_end_and_a_lazy_channel_comes_back() {
    let world = World::new();
    let tls = world.member("segd-1", Role::Segd);
    let server = serve(&tls, GrpcConfig { drain_ms: 50, ..GrpcConfig::default() }).await;
    let router = dial(&server, &world.member("router-1", Role::Router));
    let hanging = {
        let router = router.clone();
        tokio::spawn(async move { call(&router, "/hang").await })
    };
    soon("the call is in the handler", server.hanging.notified()).await;
    server.shutdown.send(()).unwrap();
    soon("the server ends", server.task).await.unwrap();
    soon("the call is cut", hanging).await.unwrap().expect_err("a call outlived its server");
    call(&router, "/whoami").await.expect_err("a server that is down answered");

    // The same address, a new life.
    let listener = tokio::net::TcpListener::bind(&server.addr).await.unwrap();
    let routes = Routes::from(axum::Router::new().route("/whoami", any(whoami)));
    let again = GrpcServer::new(listener, &tls, GrpcConfig::default());
    tokio::spawn(again.serve(routes, std::future::pending()));
    assert_eq!(call(&router, "/whoami").await, Ok((StatusCode::OK, "router-1 (router)".to_owned())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloaded_certificates_count_from_the_next_connection() {
    let world = World::new();
    let tls = world.member("segd-1", Role::Segd);
    let server = serve(&tls, GrpcConfig::default()).await;
    let mine = world.member("router-1", Role::Router);
    let before = dial(&server, &mine);
    call(&before, "/whoami").await.unwrap();
    world.ca.issue("router-2", Role::Router).unwrap();
    mine.reload(&world.ca.paths("router-2")).unwrap();
    assert_eq!(call(&before, "/whoami").await.unwrap().1, "router-1 (router)");
    assert_eq!(call(&dial(&server, &mine), "/whoami").await.unwrap().1, "router-2 (router)");
    world.ca.issue("segd-7", Role::Segd).unwrap();
    tls.reload(&world.ca.paths("segd-7")).unwrap();
    let renamed = channel(&server.addr, "segd-7", &mine, &GrpcConfig::default()).unwrap();
    call(&renamed, "/whoami").await.unwrap();
}
