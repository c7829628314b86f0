//! Settings of a producer, their defaults and bounds.

use super::{Completion, Producer};
use crate::client::Client;
use crate::error::Error;
use seam_wire::batch::{Compression, MAX_BATCH_BYTES};
use seam_wire::topic::validate_user_name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Batches that may be in flight per range: as many as segd remembers of a producer.
pub const MAX_IN_FLIGHT: usize = 16;

const MAX_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) type CompletionSink = Arc<dyn Fn(Completion) + Send + Sync>;

/// Settings of a producer.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Every record goes to this range; `None`: by key.
    pub range: Option<u32>,
    pub linger: Duration,
    pub max_batch_bytes: usize,
    pub max_in_flight: usize,
    pub max_buffer_bytes: usize,
    pub compression: Compression,
    pub deadline: Duration,
    pub on_complete: Option<CompletionSink>,
    pub trace_share: f64,
}

impl Settings {
    /// Every bound. Errors name the setting.
    pub fn validate(&self) -> Result<(), Error> {
        let setting = |text: String| Err(Error::Setting(text));
        if !(1..=MAX_IN_FLIGHT).contains(&self.max_in_flight) {
            return setting(format!("max_in_flight must be 1 to {MAX_IN_FLIGHT}, not {}", self.max_in_flight));
        }
        if !(1 << 10..=MAX_BATCH_BYTES).contains(&self.max_batch_bytes) {
            return setting(format!("max_batch_bytes must be 1024 to {MAX_BATCH_BYTES}, not {}", self.max_batch_bytes));
        }
        if self.max_buffer_bytes == 0 {
            return setting("max_buffer_bytes must be above 0".to_owned());
        }
        if self.deadline.is_zero() || self.deadline > MAX_DEADLINE {
            return setting(format!("deadline must be above 0 and at most {} s", MAX_DEADLINE.as_secs()));
        }
        if !(0.0..=1.0).contains(&self.trace_share) {
            return setting(format!("trace_share must be 0 to 1, not {}", self.trace_share));
        }
        if self.linger >= self.deadline {
            return setting("linger must be below deadline: a record would end before it is sent".to_owned());
        }
        Ok(())
    }
}

/// Configures a [`Producer`].
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct ProducerBuilder {
    client: Client,
    topic: String,
    settings: Settings,
    /// It writes what Seamlog keeps for itself.
    internal: bool,
}

impl fmt::Debug for ProducerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerBuilder").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl ProducerBuilder {
    pub(crate) fn new(client: Client, topic: String) -> Self {
        let settings = Settings {
            range: None,
            linger: Duration::from_millis(1),
            max_batch_bytes: 1 << 20,
            max_in_flight: 8,
            max_buffer_bytes: 64 << 20,
            compression: Compression::None,
            deadline: Duration::from_secs(30),
            on_complete: None,
            trace_share: 0.0,
        };
        ProducerBuilder { client, topic, settings, internal: false }
    }

    /// Writes every record to the range of this index, whatever its key. Default: by key.
    pub fn range(mut self, index: u32) -> Self {
        self.settings.range = Some(index);
        self
    }

    /// How long a record may wait for others to share its batch. 0: none waits, what is queued goes together.
    /// Default 1 ms.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.settings.linger = linger;
        self
    }

    /// Largest batch, before compression. 1 KiB to 8 MiB, default 1 MiB. A larger single record is refused.
    pub fn max_batch_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_batch_bytes = bytes;
        self
    }

    /// Batches in flight per range, 1 to [`MAX_IN_FLIGHT`], default 8.
    pub fn max_in_flight(mut self, batches: usize) -> Self {
        self.settings.max_in_flight = batches;
        self
    }

    /// Bytes taken and not acknowledged yet, all ranges together. At the limit `send` waits and the others refuse.
    /// Default 64 MiB.
    pub fn max_buffer_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_buffer_bytes = bytes;
        self
    }

    /// Default none.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.settings.compression = compression;
        self
    }

    /// How long after it was taken a record has its outcome at the latest, whatever happens. Default 30 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Share of batches that begin a trace, followed through router and segd; 0 to 1, default 0. Traces go where the process
    /// sends them (`OTEL_EXPORTER_OTLP_ENDPOINT`, or a provider of its own), if its sampler keeps them. Rolls are traced
    /// whatever this says.
    pub fn trace_share(mut self, share: f64) -> Self {
        self.settings.trace_share = share;
        self
    }

    /// Called with the outcome of each record sent with [`Producer::send_due`], on a task of the producer: it must not
    /// block.
    pub fn on_complete(mut self, sink: impl Fn(Completion) + Send + Sync + 'static) -> Self {
        self.settings.on_complete = Some(Arc::new(sink));
        self
    }

    pub(crate) fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    /// Asks metad how many ranges the topic has, and starts the producer. Streams to routers are opened at once, but not
    /// waited for.
    pub async fn build(self) -> Result<Producer, Error> {
        let ProducerBuilder { client, topic, settings, internal } = self;
        if !internal {
            validate_user_name(&topic)?;
        }
        Producer::start(client, topic, settings).await
    }
}
