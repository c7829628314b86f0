//! One relayed address: what connects to it reaches the target, later by the round trip in force. A new connection pays one
//! round trip for its handshake, as it would on a real link, then half of one in each direction.

use super::pipe;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// The round trip in force, shared by all links. Microseconds inside.
#[derive(Clone, Debug, Default)]
pub struct Rtt(Arc<AtomicU64>);

impl Rtt {
    pub fn set(&self, rtt: Duration) {
        self.0.store(u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Accepts and forwards for ever.
pub async fn serve(listener: TcpListener, target: SocketAddr, rtt: Rtt) {
    loop {
        match listener.accept().await {
            Ok((near, _)) => {
                tokio::spawn(relay(near, target, rtt.clone()));
            }
            // Out of descriptors, or the peer left before we took it: neither ends the relay.
            Err(error) => {
                tracing::warn!(%target, %error, "cannot accept");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn relay(near: TcpStream, target: SocketAddr, rtt: Rtt) {
    if let Err(error) = connect_and_forward(near, target, &rtt).await {
        tracing::debug!(%target, %error, "link broken");
    }
}

async fn connect_and_forward(near: TcpStream, target: SocketAddr, rtt: &Rtt) -> io::Result<()> {
    near.set_nodelay(true)?;
    tokio::time::sleep(rtt.get()).await;
    let far = TcpStream::connect(target).await?;
    far.set_nodelay(true)?;
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let one_way = || rtt.get() / 2;
    tokio::try_join!(pipe::forward(near_read, far_write, one_way), pipe::forward(far_read, near_write, one_way))?;
    Ok(())
}
