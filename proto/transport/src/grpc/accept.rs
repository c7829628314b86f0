//! From a TCP listener to verified TLS streams, handshakes side by side.

use super::{GrpcConfig, Peer};
use crate::handshake::HandshakeFailures;
use crate::identity::Identity;
use crate::tls::TlsMaterial;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// Handshakes in progress at a time; more wait in the kernel's backlog.
const MAX_HANDSHAKES: usize = 256;
/// Pause after a failed accept: out of file descriptors is not cured by trying at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub(super) type Accepted = Result<PeerStream, io::Error>;

/// Accepts until nobody takes the streams any more.
pub(super) async fn accept_loop(
    listener: TcpListener,
    tls: TlsMaterial,
    config: GrpcConfig,
    failures: Arc<HandshakeFailures>,
    killed: watch::Receiver<bool>,
    sender: mpsc::Sender<Accepted>,
) {
    let slots = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
        let (tcp, addr) = tokio::select! {
            () = sender.closed() => return,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "accept failed; check the limit of open files");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let (tls, failures, sender, killed) = (tls.clone(), Arc::clone(&failures), sender.clone(), killed.clone());
        let timeout = config.connect_timeout();
        tokio::spawn(async move {
            match tokio::time::timeout(timeout, handshake(tcp, addr, &tls, killed)).await {
                // The receiver is gone only when the server is going down.
                Ok(Ok(stream)) => drop(sender.send(Ok(stream)).await),
                Ok(Err(error)) => failures.record("grpc", addr.ip(), &error),
                Err(_) => failures.record("grpc", addr.ip(), &"the handshake timed out"),
            }
            drop(slot);
        });
    }
}

async fn handshake(
    tcp: TcpStream,
    addr: SocketAddr,
    tls: &TlsMaterial,
    mut killed: watch::Receiver<bool>,
) -> io::Result<PeerStream> {
    tcp.set_nodelay(true)?;
    let stream = TlsAcceptor::from(tls.grpc_server()).accept(tcp).await?;
    let identity = Identity::from_chain(stream.get_ref().1.peer_certificates()).map_err(io::Error::other)?;
    let cut = Box::pin(async move {
        // An error means that the server itself is gone.
        let _ = killed.wait_for(|killed| *killed).await;
    });
    Ok(PeerStream { stream, peer: Peer { identity, addr }, cut })
}

/// A verified connection. It ends when the server has waited long enough for it.
pub(super) struct PeerStream {
    stream: TlsStream<TcpStream>,
    peer: Peer,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Connected for PeerStream {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // HTTP/2 always has a read pending, so this is polled in time.
        if self.cut.as_mut().poll(cx).is_ready() {
            // A future that is ready must not be polled again.
            self.cut = Box::pin(std::future::ready(()));
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
