//! Who may connect over QUIC, and what the connection is like.

use crate::world::{PATIENCE, World, any_port, eventually, pair, soon};
use quinn::Endpoint;
use quinn::crypto::rustls::QuicClientConfig;
use seam_transport::quic::{self, Acceptor, ConnectError, QuicConfig, peer_identity};
use seam_transport::stream::{StreamError, open_bi, open_uni};
use seam_transport::{Role, TlsMaterial, TlsPaths};
use std::sync::Arc;
use std::time::Duration;

struct Server {
    endpoint: Endpoint,
    acceptor: Acceptor,
}

fn serve(world: &World) -> Server {
    let config = QuicConfig::default();
    let endpoint = quic::endpoint(any_port(), &world.member("segd-1", Role::Segd), &config).unwrap();
    Server { acceptor: Acceptor::new(endpoint.clone(), config.handshake_timeout()), endpoint }
}

impl Server {
    fn addr(&self) -> String {
        self.endpoint.local_addr().unwrap().to_string()
    }

    /// A sound peer gets in and is known by its certificate.
    async fn welcomes(&mut self, tls: &TlsMaterial) {
        let client = quic::client_endpoint(tls, &QuicConfig::default()).unwrap();
        let dialed = quic::connect(&client, &self.addr(), "segd", PATIENCE).await.unwrap();
        let accepted = soon("the server accepts", self.acceptor.accept()).await.unwrap();
        assert_eq!(accepted.identity, tls.identity());
        assert_eq!(peer_identity(&dialed).unwrap().to_string(), "segd-1 (segd)");
        let mut send = open_uni(&dialed, PATIENCE).await.unwrap();
        send.write_all(b"hello").await.unwrap();
        send.finish().unwrap();
        let mut receive = soon("the stream arrives", accepted.connection.accept_uni()).await.unwrap();
        assert_eq!(receive.read_to_end(16).await.unwrap(), b"hello");
    }

    /// Refused in the handshake, or closed right after it: never accepted, and counted.
    async fn turns_away(&mut self, client: &Endpoint) {
        let before = self.acceptor.failures().count();
        if let Ok(connection) = quic::connect(client, &self.addr(), "segd-1", PATIENCE).await {
            let why = soon("the connection is closed", connection.closed()).await;
            assert!(matches!(why, quinn::ConnectionError::ConnectionClosed(_)), "{why}");
        }
        eventually("the failure is counted", || self.acceptor.failures().count() > before).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_verified_peers_get_in_and_the_rest_disturb_nobody() {
    let world = World::new();
    let mut server = serve(&world);
    let good = world.member("router-1", Role::Router);
    server.welcomes(&good).await;

    let config = QuicConfig::default();
    let mut nameless = Endpoint::client(any_port()).unwrap();
    let crypto = QuicClientConfig::try_from(world.nameless(seam_transport::tls::ALPN_QUIC)).unwrap();
    nameless.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    server.turns_away(&nameless).await;
    for tls in [world.foreigner(), world.expired()] {
        server.turns_away(&quic::client_endpoint(&tls, &config).unwrap()).await;
    }
    let mut other_protocol = Endpoint::client(any_port()).unwrap();
    let crypto = QuicClientConfig::try_from((*good.grpc_client()).clone()).unwrap();
    other_protocol.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    server.turns_away(&other_protocol).await;

    server.welcomes(&good).await;
}

/// A server that was killed and came back at its address was waited for until the client's patience was over: it did not know
/// the old connections, and had no key to say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_resets_the_connections_of_its_life_before() {
    let world = World::new();
    let tls = world.member("segd-1", Role::Segd);
    // A runtime of its own: when it is gone nothing is said to anybody, as with a process that was killed.
    let first = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let material = tls.clone();
    let life = first.spawn(async move {
        let config = QuicConfig::default();
        let endpoint = quic::endpoint(any_port(), &material, &config).unwrap();
        let addr = endpoint.local_addr().unwrap();
        let mut acceptor = Acceptor::new(endpoint, config.handshake_timeout());
        let hold = async move {
            let mut held = Vec::new();
            while let Some(accepted) = acceptor.accept().await {
                held.push(accepted);
            }
        };
        (addr, tokio::spawn(hold))
    });
    let (addr, accepting) = life.await.unwrap();
    let client = quic::client_endpoint(&world.member("router-1", Role::Router), &QuicConfig::default()).unwrap();
    let dialed = quic::connect(&client, &addr.to_string(), "segd", PATIENCE).await.unwrap();
    std::mem::forget(accepting);
    first.shutdown_background();
    let mut again = None;
    eventually("the address is free again", || {
        again = quic::endpoint(addr, &tls, &QuicConfig::default()).ok();
        again.is_some()
    })
    .await;
    let mut send = open_uni(&dialed, PATIENCE).await.unwrap();
    send.write_all(&[7; 4000]).await.unwrap();
    let why = soon("the connection is given up", dialed.closed()).await;
    assert!(matches!(why, quinn::ConnectionError::Reset), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_does_not_trust_any_server() {
    let world = World::new();
    let server = serve(&world);
    let config = QuicConfig::default();
    let client = quic::client_endpoint(&world.member("router-1", Role::Router), &config).unwrap();
    let wrong_name = quic::connect(&client, &server.addr(), "segd-2", PATIENCE).await.unwrap_err();
    assert!(
        matches!(&wrong_name, ConnectError::Handshake { server_name, .. } if server_name == "segd-2"),
        "{wrong_name}"
    );
    assert!(wrong_name.to_string().contains("same CA"), "{wrong_name}");

    let foreign_ca = TlsPaths { ca: world.other.ca_cert(), ..world.ca.paths("router-1") };
    let suspicious = quic::client_endpoint(&TlsMaterial::load_untrusted(&foreign_ca).unwrap(), &config).unwrap();
    let unknown = quic::connect(&suspicious, &server.addr(), "segd-1", PATIENCE).await.unwrap_err();
    assert!(matches!(unknown, ConnectError::Handshake { .. }), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dialing_nobody_says_what_to_check() {
    let world = World::new();
    let client = quic::client_endpoint(&world.member("router-1", Role::Router), &QuicConfig::default()).unwrap();
    // Bound and silent: the address is ours for the whole test, and no QUIC lives there.
    let silent = std::net::UdpSocket::bind(any_port()).unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    let error = quic::connect(&client, &addr, "segd-1", Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Timeout { .. }) && error.to_string().contains(&addr), "{error}");
    let error = quic::connect(&client, "no-port-here", "segd-1", PATIENCE).await.unwrap_err();
    assert!(matches!(error, ConnectError::Resolve { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_endpoint_accepts_and_dials() {
    let world = World::new();
    let mut a = serve(&world);
    let config = QuicConfig::default();
    let b = quic::endpoint(any_port(), &world.member("segd-2", Role::Segd), &config).unwrap();
    let _dialed = quic::connect(&b, &a.addr(), "segd-1", PATIENCE).await.unwrap();
    assert_eq!(&*soon("a accepts b", a.acceptor.accept()).await.unwrap().identity.name, "segd-2");
    let mut b_acceptor = Acceptor::new(b.clone(), config.handshake_timeout());
    let b_addr = b.local_addr().unwrap().to_string();
    let _back = quic::connect(&a.endpoint, &b_addr, "segd-2", PATIENCE).await.unwrap();
    assert_eq!(&*soon("b accepts a", b_acceptor.accept()).await.unwrap().identity.name, "segd-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_past_the_limit_ends_at_the_deadline() {
    let config = QuicConfig { max_bidi_streams: 1, max_uni_streams: 1, ..QuicConfig::default() };
    let pair = pair(&config).await;
    let _first = open_bi(&pair.client, PATIENCE).await.unwrap();
    let error = open_bi(&pair.client, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, StreamError::OpenTimeout { .. }), "{error}");
    // The limits are apart.
    open_uni(&pair.client, PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_grow_to_the_bound_and_not_beyond() {
    let config = QuicConfig { max_mtu: 6500, ..QuicConfig::default() };
    let pair = pair(&config).await;
    // Probes ride along with traffic and keep-alives.
    let (client, server) = (pair.client.clone(), pair.server.clone());
    tokio::spawn(async move {
        while let Ok(mut receive) = server.accept_uni().await {
            receive.read_to_end(1 << 20).await.unwrap();
        }
    });
    let traffic = tokio::spawn(async move {
        loop {
            let mut send = open_uni(&client, PATIENCE).await.unwrap();
            send.write_all(&vec![1; 100_000]).await.unwrap();
            send.finish().unwrap();
            send.stopped().await.unwrap();
        }
    });
    eventually("the path carries large packets", || pair.client.stats().path.current_mtu > 6000).await;
    traffic.abort();
    assert!(pair.client.stats().path.current_mtu <= 6500);
    assert_eq!(pair.client.stats().path.black_holes_detected, 0);
}
