//! `loadgen replay`: a real file through the cluster and back, compared byte for byte, as a stream. The records are the bytes
//! of the file and nothing else, so that `seam consume` gives the file back too.

use crate::clock::Clock;
use crate::commands::progress::Progress;
use crate::commands::rolls::Rolls;
use crate::commands::{CommandError, durability};
use crate::report::contract::{Claim, Config, Environment, Replay, Report, SCHEMA, Throughput};
use crate::report::words;
use crate::target::{AppendError, Consumer, Producer, Target, TopicSpec};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A record that is not delivered this long after the one before ends the comparison.
const PATIENCE: Duration = Duration::from_secs(30);
/// The history of rolls is asked for this often, as the cluster remembers a bounded number.
const HISTORY_PERIOD: Duration = Duration::from_secs(2);
/// Chunks read ahead of the producer.
const READ_AHEAD: usize = 64;

/// Settings of `loadgen replay`; the command line explains each.
#[derive(Clone, Debug)]
pub struct ReplaySettings {
    pub input: PathBuf,
    pub topic: String,
    pub spec: TopicSpec,
    pub record_bytes: usize,
    /// Appends in flight.
    pub window: usize,
    pub min_rolls: u64,
}

/// What one side of the replay found.
#[derive(Debug, Default)]
struct Side {
    bytes: u64,
    records: u64,
    crc32c: u32,
    errors: Vec<String>,
    error_count: u64,
    first_difference: Option<u64>,
}

impl Side {
    fn error(&mut self, text: String) {
        self.error_count += 1;
        if self.errors.len() < crate::drive::acks::ERRORS_KEPT {
            self.errors.push(text);
        }
    }

    fn count(&mut self, value: &[u8]) {
        self.crc32c = crc32c::crc32c_append(self.crc32c, value);
        self.bytes += value.len() as u64;
        self.records += 1;
    }
}

pub async fn run<T: Target>(
    target: &T,
    settings: &ReplaySettings,
    environment: Environment,
) -> Result<Report, CommandError> {
    let clock = Clock::start();
    let topic = &settings.topic;
    let start = prepare(target, settings).await?;
    let input_bytes = std::fs::metadata(&settings.input).map_err(file_error(&settings.input))?.len();
    let expected = input_bytes.div_ceil(settings.record_bytes as u64);
    let open = CommandError::target(format!("opening topic {topic}"));
    let producer = target.producer(topic).await.map_err(open)?;
    let open = CommandError::target(format!("opening a tail of {topic}"));
    let mut consumer = target.consumer(topic, start).await.map_err(open)?;
    let progress = Progress::new(expected);
    let (chunks, back) = (chunks(settings)?, chunks(settings)?);
    let mut rolls = Rolls::default();
    let began = Instant::now();
    let (sent, received) = tokio::join!(
        send(&producer, chunks, settings.window),
        receive(target, topic, &mut consumer, back, (start, expected), &mut rolls, &progress),
    );
    let took_s = began.elapsed().as_secs_f64();
    let history = CommandError::target(format!("reading the rolls of {topic}"));
    rolls.settle(target, topic).await.map_err(history)?;
    let replay = Replay {
        topic: topic.clone(),
        input_bytes: sent.bytes,
        output_bytes: received.bytes,
        records: received.records,
        rolls: rolls.between(start, start + expected).len() as u64,
        identical: received.first_difference.is_none()
            && sent.bytes == received.bytes
            && sent.crc32c == received.crc32c,
        first_difference: received.first_difference,
        input_crc32c: format!("{:08x}", sent.crc32c),
        output_crc32c: format!("{:08x}", received.crc32c),
        errors_seen_by_application: sent.error_count + received.error_count,
        errors: sent.errors.into_iter().chain(received.errors).collect(),
    };
    let spec = &settings.spec;
    let mut report = Report {
        schema: SCHEMA,
        command: "replay".to_owned(),
        config: Config {
            record_bytes: settings.record_bytes as u64,
            segment_bytes: spec.segment_bytes,
            replicas: spec.replicas.into(),
            ack_quorum: spec.ack_quorum.into(),
            ack: spec.ack.clone(),
            producers: 1,
            consumers: 1,
            placement: spec.placement.clone(),
            anticipation: spec.anticipation.clone(),
            duration_s: clock.now_us() as f64 / 1e6,
            ..Config::default()
        },
        environment,
        throughput: Throughput {
            records_per_s: received.records as f64 / took_s,
            mib_per_s: received.bytes as f64 / f64::from(1 << 20) / took_s,
        },
        ..Report::default()
    };
    report.environment.durability = durability(&spec.ack, spec.ack_quorum.into(), spec.replicas.into());
    report.claims = claims(&replay, settings.min_rolls);
    report.replay = Some(replay);
    Ok(report)
}

/// Creates the topic unless it is there. Returns the offset at which the replay will begin.
async fn prepare<T: Target>(target: &T, settings: &ReplaySettings) -> Result<u64, CommandError> {
    let topic = &settings.topic;
    let fail = || CommandError::target(format!("preparing topic {topic}"));
    if target.topic_exists(topic).await.map_err(fail())? {
        return target.end_offset(topic).await.map_err(fail());
    }
    target.create_topic(topic, &settings.spec).await.map_err(fail())?;
    Ok(0)
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> CommandError {
    CommandError::file(path.display().to_string())
}

/// The file in records, read by a thread of its own, as far ahead as the channel allows.
fn chunks(settings: &ReplaySettings) -> Result<mpsc::Receiver<std::io::Result<Bytes>>, CommandError> {
    let mut file = std::fs::File::open(&settings.input).map_err(file_error(&settings.input))?;
    let record_bytes = settings.record_bytes;
    let (tx, rx) = mpsc::channel(READ_AHEAD);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut record = Vec::with_capacity(record_bytes);
            match (&mut file).take(record_bytes as u64).read_to_end(&mut record) {
                Ok(0) => return,
                Ok(_) => {
                    if tx.blocking_send(Ok(record.into())).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    // The receiver may be gone; then nobody is left to tell.
                    let _ = tx.blocking_send(Err(error));
                    return;
                }
            }
        }
    });
    Ok(rx)
}

async fn send<P: Producer>(producer: &P, mut chunks: mpsc::Receiver<std::io::Result<Bytes>>, window: usize) -> Side {
    let mut side = Side::default();
    let mut open = FuturesUnordered::new();
    loop {
        while open.len() >= window.max(1) {
            settle(&mut side, open.next().await);
        }
        match chunks.recv().await {
            Some(Ok(chunk)) => {
                side.count(&chunk);
                open.push(producer.submit(chunk, Instant::now()));
            }
            Some(Err(error)) => {
                side.error(format!("reading the input: {error}"));
                break;
            }
            None => break,
        }
    }
    while let Some(ack) = open.next().await {
        settle(&mut side, Some(ack));
    }
    side
}

fn settle(side: &mut Side, ack: Option<Result<u64, AppendError>>) {
    if let Some(Err(error)) = ack {
        side.error(format!("append: {error}"));
    }
}

/// Reads the records back and compares each with the same stretch of the file, read anew.
async fn receive<T: Target>(
    target: &T,
    topic: &str,
    consumer: &mut T::Consumer,
    mut chunks: mpsc::Receiver<std::io::Result<Bytes>>,
    (start, expected): (u64, u64),
    rolls: &mut Rolls,
    progress: &Progress,
) -> Side {
    let mut side = Side::default();
    let mut asked = Instant::now();
    while side.records < expected {
        let delivered = match tokio::time::timeout(PATIENCE, consumer.next()).await {
            Ok(Ok(Some(delivered))) => delivered,
            Ok(Ok(None)) => {
                side.error("the tail ended before the file did".to_owned());
                break;
            }
            Ok(Err(error)) => {
                side.error(format!("tail: {error}"));
                break;
            }
            Err(_) => {
                side.error(format!("no record for {PATIENCE:?}, {} of {expected} read", side.records));
                break;
            }
        };
        if delivered.offset != start + side.records {
            side.error(format!("offset {} where {} was due", delivered.offset, start + side.records));
        }
        match chunks.recv().await {
            Some(Ok(chunk)) => compare(&mut side, &chunk, &delivered.value),
            Some(Err(error)) => {
                side.error(format!("reading the input again: {error}"));
                break;
            }
            None => {
                side.first_difference.get_or_insert(side.bytes);
            }
        }
        side.count(&delivered.value);
        progress.step(1);
        if asked.elapsed() >= HISTORY_PERIOD {
            asked = Instant::now();
            if let Err(error) = rolls.update(target, topic).await {
                tracing::warn!(%error, "the history of rolls could not be read; it is asked for again");
            }
        }
    }
    side
}

fn compare(side: &mut Side, want: &[u8], got: &[u8]) {
    if want != got {
        let equal = want.iter().zip(got).take_while(|(a, b)| a == b).count() as u64;
        side.first_difference.get_or_insert(side.bytes + equal);
    }
}

fn claims(replay: &Replay, min_rolls: u64) -> Vec<Claim> {
    let identical = match replay.first_difference {
        None if replay.identical => format!("{} came back as they went", words::bytes(replay.output_bytes)),
        None => format!("{} of {} bytes came back", replay.output_bytes, replay.input_bytes),
        Some(at) => format!("first difference at byte {at}"),
    };
    let claim = |name: &str, holds: bool, evidence: String| Claim {
        name: name.to_owned(),
        metad_rtt_ms: None,
        holds,
        inconclusive: false,
        evidence,
    };
    let errors = replay.errors_seen_by_application;
    vec![
        claim("identical", replay.identical, identical),
        claim("no_errors", errors == 0, format!("{errors} errors seen by the application")),
        claim("enough_rolls", replay.rolls >= min_rolls, format!("{} rolls, {min_rolls} wanted", replay.rolls)),
    ]
}

/// The result as printed.
pub fn render(report: &Report, replay: &Replay) -> String {
    let mut out = format!(
        "{} in {} records over {} rolls, {:.2} MiB/s, CRC-32C in {} out {}\n",
        words::bytes(replay.input_bytes),
        replay.records,
        replay.rolls,
        report.throughput.mib_per_s,
        replay.input_crc32c,
        replay.output_crc32c
    );
    for claim in &report.claims {
        out.push_str(&format!(
            "  {}  {}: {}\n",
            if claim.holds { "holds" } else { "FAILS" },
            claim.name,
            claim.evidence
        ));
    }
    replay.errors.iter().for_each(|e| out.push_str(&format!("  {e}\n")));
    out
}
