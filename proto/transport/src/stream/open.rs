//! Opening streams with a deadline: at the peer's limit, QUIC's own open waits for ever.

use super::StreamError;
use quinn::{Connection, ConnectionError, RecvStream, SendStream};
use std::future::Future;
use std::time::Duration;

/// Opens a bidirectional stream. The peer learns of it with the first bytes sent.
pub async fn open_bi(connection: &Connection, timeout: Duration) -> Result<(SendStream, RecvStream), StreamError> {
    within(timeout, connection.open_bi()).await
}

/// Opens a unidirectional stream. The peer learns of it with the first bytes sent.
pub async fn open_uni(connection: &Connection, timeout: Duration) -> Result<SendStream, StreamError> {
    within(timeout, connection.open_uni()).await
}

async fn within<T>(
    timeout: Duration,
    open: impl Future<Output = Result<T, ConnectionError>>,
) -> Result<T, StreamError> {
    match tokio::time::timeout(timeout, open).await {
        Ok(opened) => Ok(opened?),
        Err(_) => Err(StreamError::OpenTimeout { after_ms: timeout.as_millis() }),
    }
}
