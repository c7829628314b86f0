//! The relay adds the round trip that was asked for, changes it under way, and changes no byte.

use super::*;
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Round trips measured before one figure is formed; their median shrugs off a busy machine.
const TRIPS: usize = 15;

/// An echo server behind a relay; returns the relay's address.
async fn echo_behind(rtt: &Rtt) -> SocketAddr {
    let echo = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let target = echo.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = echo.accept().await {
            stream.set_nodelay(true).expect("set");
            tokio::spawn(async move {
                let (mut read, mut write) = stream.into_split();
                let copied = tokio::io::copy(&mut read, &mut write).await;
                copied.and(write.shutdown().await).ok();
            });
        }
    });
    let near = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let listen = near.local_addr().expect("an address");
    tokio::spawn(link::serve(near, target, rtt.clone()));
    listen
}

async fn connect(listen: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(listen).await.expect("connected");
    stream.set_nodelay(true).expect("set");
    trip(&mut stream).await; // The handshake's share is paid here.
    stream
}

async fn trip(stream: &mut TcpStream) -> Duration {
    let begun = Instant::now();
    stream.write_all(b"x").await.expect("written");
    stream.read_exact(&mut [0]).await.expect("read");
    begun.elapsed()
}

async fn median_trip(stream: &mut TcpStream) -> Duration {
    let mut trips = Vec::new();
    for _ in 0..TRIPS {
        trips.push(trip(stream).await);
    }
    trips.sort();
    trips[TRIPS / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_round_trip_added_is_the_one_asked_for_also_when_it_changes() {
    let rtt = Rtt::default();
    let mut stream = connect(echo_behind(&rtt).await).await;
    let base = median_trip(&mut stream).await;
    for asked in [40, 160, 40].map(Duration::from_millis) {
        rtt.set(asked);
        let ratio = median_trip(&mut stream).await.saturating_sub(base).as_secs_f64() / asked.as_secs_f64();
        assert!((0.9..1.5).contains(&ratio), "asked for {asked:?}, got {ratio:.2} times that");
    }
    rtt.set(Duration::ZERO);
    let plain = median_trip(&mut stream).await;
    assert!(plain < Duration::from_millis(40) / 4, "forwarding alone took {plain:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_come_through_whole_and_in_order_while_the_delay_jumps() {
    let rtt = Rtt::default();
    let stream = connect(echo_behind(&rtt).await).await;
    let mut random = SmallRng::seed_from_u64(7);
    let sent: Vec<u8> = (0..8 << 20).map(|_| random.random()).collect();
    let (mut read, mut write) = stream.into_split();
    let expected = sent.clone();
    let writer = tokio::spawn(async move {
        for (index, piece) in sent.chunks(97_003).enumerate() {
            rtt.set(Duration::from_millis([0, 30, 5, 0, 12][index % 5]));
            write.write_all(piece).await.expect("written");
        }
        write.shutdown().await.expect("closed");
    });
    let mut received = Vec::new();
    read.read_to_end(&mut received).await.expect("read to the end");
    writer.await.expect("the writer ended well");
    assert!(received == expected, "{} bytes sent, {} other bytes received", expected.len(), received.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_delay_does_not_limit_the_rate() {
    let rtt = Rtt::default();
    let listen = echo_behind(&rtt).await;
    rtt.set(Duration::from_millis(200));
    let stream = connect(listen).await;
    let (mut read, mut write) = stream.into_split();
    let bytes = vec![5; 16 << 20];
    let length = bytes.len();
    let begun = Instant::now();
    let writer = tokio::spawn(async move { write.write_all(&bytes).await.expect("written") });
    let mut received = vec![0; length];
    read.read_exact(&mut received).await.expect("read");
    writer.await.expect("the writer ended well");
    // One chunk a round trip would take 256 of them; one window of 4 MiB, four.
    let trips = begun.elapsed().as_secs_f64() / 0.2;
    assert!(trips < 30.0, "16 MiB took {trips:.1} round trips");
}

#[tokio::test]
async fn a_target_that_is_not_there_breaks_the_connection() {
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let target = gone.local_addr().expect("an address");
    drop(gone);
    let near = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let listen = near.local_addr().expect("an address");
    tokio::spawn(link::serve(near, target, Rtt::default()));
    let mut stream = TcpStream::connect(listen).await.expect("connected to the relay");
    let ended = stream.read(&mut [0]).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

#[tokio::test]
async fn the_file_is_followed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("rtt");
    fs::write(&file, "0").expect("written");
    let rtt = Rtt::default();
    let followed = (file.clone(), rtt.clone());
    tokio::spawn(async move { follow_file(&followed.0, &followed.1).await });
    for (text, expected) in [("20", 20_000), ("7.5\n", 7_500), ("nonsense", 7_500), ("0", 0)] {
        fs::write(&file, text).expect("written");
        let reached = async {
            while rtt.get() != Duration::from_micros(expected) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), reached).await.unwrap_or_else(|_| panic!("{text:?} not taken"));
    }
}

#[test]
fn a_round_trip_out_of_bounds_is_refused() {
    assert_eq!(parse_rtt("20\n").expect("taken"), Duration::from_millis(20));
    for text in ["", "-1", "10001", "NaN", "inf", "20ms"] {
        assert!(parse_rtt(text).is_err(), "{text}");
    }
}
