//! One direction of a relayed connection: bytes come out in the order they went in, each no earlier than its delay after it
//! arrived. The delay shifts them in time and limits no rate: reading goes on while earlier bytes wait.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

/// Most bytes one direction holds back; a faster sender is throttled by TCP. 64 MiB at 200 ms are 320 MiB/s.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Most bytes taken at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// The runtime's timers tick in whole milliseconds and round up, by half a tick on average: aim that much earlier.
const TIMER_BIAS: Duration = Duration::from_micros(500);

struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

/// Forwards until the reader ends, then ends the writer in its turn (so a half-closed connection stays half-closed).
///
/// # Errors
/// Either side broke. The caller then drops both: a broken link is broken in both directions.
pub async fn forward<R, W>(reader: R, writer: W, one_way: impl Fn() -> Duration + Send) -> io::Result<()>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let room = Arc::new(Semaphore::new(HELD_BYTES_MAX));
    let (held, due) = mpsc::unbounded_channel();
    tokio::try_join!(take_in(reader, held, &room, one_way), give_out(writer, due, &room))?;
    Ok(())
}

async fn take_in<R: AsyncRead + Unpin>(
    mut reader: R,
    held: mpsc::UnboundedSender<Chunk>,
    room: &Semaphore,
    one_way: impl Fn() -> Duration,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let count = reader.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let permits = u32::try_from(count).expect("a chunk is far below 4 GiB");
        room.acquire_many(permits).await.expect("the semaphore is never closed").forget();
        let chunk = Chunk { due: Instant::now() + one_way(), bytes: buffer[..count].to_vec() };
        if held.send(chunk).is_err() {
            return Ok(()); // The writer broke and says so itself.
        }
    }
}

async fn give_out<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut due: mpsc::UnboundedReceiver<Chunk>,
    room: &Semaphore,
) -> io::Result<()> {
    while let Some(chunk) = due.recv().await {
        let wake = chunk.due - TIMER_BIAS;
        if wake > Instant::now() {
            tokio::time::sleep_until(wake).await;
        }
        writer.write_all(&chunk.bytes).await?;
        room.add_permits(chunk.bytes.len());
    }
    writer.shutdown().await
}
