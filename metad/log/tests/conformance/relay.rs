//! A long cable: forwards TCP and delays every byte, both ways, without limiting how many are under way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The delay of one way, in microseconds, shared by all relays of a cluster.
pub type Delay = Arc<AtomicU64>;

/// Listens and forwards to `to`. Ends with the runtime.
pub async fn relay(to: SocketAddr, delay: Delay) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let delay = delay.clone();
            tokio::spawn(async move {
                // The way of the first packet of a connection.
                tokio::time::sleep(one_way(&delay) * 2).await;
                let Ok(far) = TcpStream::connect(to).await else { return };
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                tokio::select! {
                    () = carry(near_read, far_write, delay.clone()) => {}
                    () = carry(far_read, near_write, delay) => {}
                }
            });
        }
    });
    addr
}

fn one_way(delay: &Delay) -> Duration {
    Duration::from_micros(delay.load(Ordering::Relaxed))
}

async fn carry(mut from: impl AsyncReadExt + Unpin + Send + 'static, mut to: impl AsyncWriteExt + Unpin, delay: Delay) {
    let (sender, mut under_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            if sender.send((Instant::now() + one_way(&delay), buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    while let Some((due, bytes)) = under_way.recv().await {
        tokio::time::sleep_until(due).await;
        if to.write_all(&bytes).await.is_err() {
            break;
        }
    }
    reading.abort();
}
