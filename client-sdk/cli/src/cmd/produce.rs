//! `seam produce`: standard input to records, one a line.
//!
//! One thread reads lines, the producer takes them as fast as it has room, and a task collects the outcomes in order. At
//! the first record that fails nothing more is read; what was taken before still gets its outcome. A failure names its line.

use crate::args::Global;
use crate::interrupt::{Interrupted, interrupted};
use crate::output::Out;
use crate::{session, units};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::Args;
use seam_wire::batch::MAX_RECORD_BYTES;
use seamlog::{Ack, Compression, ErrorCode, Producer, Record, SendError, SendHandle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::str::FromStr;
use std::thread;
use std::time::Instant;
use tokio::sync::mpsc;

/// Lines read ahead of the producer.
const LINES_AHEAD: usize = 1024;
/// Records whose outcome is awaited; the producer's own buffer bounds their bytes.
const OUTCOMES_AHEAD: usize = 1 << 16;
const READ_BUFFER_BYTES: usize = 256 << 10;

/// Write standard input to a topic, one record a line.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  seq 100000 | seam produce events
  echo hello | seam produce events --key greeting --header lang=en
  seam produce events --range 0 < access.log")]
pub struct Produce {
    topic: String,
    /// The key of every record; records with the same key keep their order.
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// A header of every record; may be given more than once.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<Header>,
    /// Write to this range, whatever the key.
    #[arg(long, value_name = "INDEX")]
    range: Option<u32>,
    /// Trace this share of the batches, 0 to 1, through router and segd; see OTEL_EXPORTER_OTLP_ENDPOINT.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    trace_share: f64,
    /// The most a batch may take, 1KiB to 8MiB; routers may allow less. A line takes at most 1MiB, and must fit into one.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, default_value = "1MiB")]
    max_batch_bytes: u64,
    /// Compress batches with LZ4.
    #[arg(long)]
    lz4: bool,
}

/// `name=value`; the value may hold further equals signs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    name: String,
    value: String,
}

impl FromStr for Header {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = text.split_once('=').context("write NAME=VALUE")?;
        if name.is_empty() {
            bail!("a header needs a name before the equals sign");
        }
        Ok(Header { name: name.to_owned(), value: value.to_owned() })
    }
}

impl Produce {
    /// # Errors
    /// No such topic, or a record that could not be written; what was written before is reported all the same.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        let compression = if self.lz4 { Compression::Lz4 } else { Compression::None };
        let mut builder =
            session::open(global)?.producer(&self.topic).compression(compression).trace_share(self.trace_share);
        builder = builder.max_batch_bytes(usize::try_from(self.max_batch_bytes).unwrap_or(usize::MAX));
        if let Some(range) = self.range {
            builder = builder.range(range);
        }
        let producer = builder.build().await?;
        let began = Instant::now();
        let (handles, outcomes) = mpsc::channel(OUTCOMES_AHEAD);
        let collected = tokio::spawn(collect(outcomes));
        let taken = self.take_lines(&producer, handles).await;
        producer.close().await;
        let mut written = collected.await.context("collecting the outcomes panicked")?;
        let stopped = match taken {
            Ok(stopped) => stopped,
            Err(refused) => {
                written.first_failure.get_or_insert(refused);
                None
            }
        };
        self.report(&written, began, out)?;
        stopped.map_or(Ok(()), |stopped| Err(stopped.into()))
    }

    /// Hands lines to the producer until they end, one fails, or we are interrupted.
    async fn take_lines(
        &self,
        producer: &Producer,
        handles: mpsc::Sender<(u64, SendHandle)>,
    ) -> Result<Option<Interrupted>, String> {
        let mut lines = read_lines();
        let stop = interrupted().map_err(|error| format!("{error:#}"))?;
        tokio::pin!(stop);
        for number in 1.. {
            let line = tokio::select! {
                line = lines.recv() => line,
                stopped = &mut stop => return Ok(Some(stopped)),
            };
            let Some(line) = line else { break };
            let line = line.map_err(|error| format!("cannot read standard input: {error}"))?;
            let taken = producer.send(self.record(line)).await;
            let handle = taken.map_err(|error| of_line(number, &error))?;
            if handles.send((number, handle)).await.is_err() {
                break; // The collector saw a failure and has it.
            }
        }
        Ok(None)
    }

    fn record(&self, value: Vec<u8>) -> Record {
        let mut record = Record::new(value);
        if let Some(key) = &self.key {
            record = record.key(Bytes::copy_from_slice(key.as_bytes()));
        }
        self.headers.iter().fold(record, |record, header| {
            record.header(header.name.clone(), Bytes::copy_from_slice(header.value.as_bytes()))
        })
    }

    fn report(&self, written: &Written, began: Instant, out: &mut Out) -> Result<()> {
        let records: u64 = written.ranges.values().map(|span| span.records).sum();
        if out.is_json() {
            out.json(&serde_json::json!({
                "topic": self.topic, "records": records, "failed": written.failed, "seconds": began.elapsed().as_secs_f64(),
                "ranges": written.ranges.values().collect::<Vec<_>>(), "error": written.first_failure,
            }))?;
        } else {
            for span in written.ranges.values() {
                out.line(format!(
                    "{} records to range {}, offsets {} to {}",
                    span.records, span.range, span.first_offset, span.last_offset
                ))?;
            }
        }
        match &written.first_failure {
            Some(failure) => bail!("{records} records were written, {} failed: {failure}", written.failed.max(1)),
            None => Ok(()),
        }
    }
}

/// A failure for people: where it happened, and what helps.
fn of_line(number: u64, error: &SendError) -> String {
    if error.code != ErrorCode::BatchTooLarge {
        return format!("line {number}: {error}");
    }
    let most = units::bytes(MAX_RECORD_BYTES as u64);
    format!(
        "line {number}: {error}; split the line: a record takes at most {most}, and must fit into --max-batch-bytes"
    )
}

/// What became of the records.
#[derive(Default)]
struct Written {
    ranges: BTreeMap<u32, Span>,
    failed: u64,
    first_failure: Option<String>,
}

/// What one range got.
#[derive(Serialize)]
struct Span {
    range: u32,
    records: u64,
    first_offset: u64,
    /// Inclusive. Others may have written in between.
    last_offset: u64,
}

impl Written {
    fn add(&mut self, line: u64, outcome: Result<Ack, SendError>) {
        let ack = match outcome {
            Ok(ack) => ack,
            Err(error) => {
                self.failed += 1;
                self.first_failure.get_or_insert_with(|| of_line(line, &error));
                return;
            }
        };
        let offset = ack.offset.0;
        let new = Span { range: ack.range, records: 0, first_offset: offset, last_offset: offset };
        let span = self.ranges.entry(ack.range).or_insert(new);
        span.records += 1;
        span.first_offset = span.first_offset.min(offset);
        span.last_offset = span.last_offset.max(offset);
    }
}

/// Takes the outcomes in the order of the records. After a failure it takes no new handles, but awaits those it has.
async fn collect(mut handles: mpsc::Receiver<(u64, SendHandle)>) -> Written {
    let mut written = Written::default();
    while let Some((line, handle)) = handles.recv().await {
        written.add(line, handle.await);
        if written.first_failure.is_some() {
            handles.close();
        }
    }
    written
}

/// Lines without their newline, any bytes. A thread of its own, which the process does not wait for: reading a terminal
/// cannot be interrupted.
fn read_lines() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (lines, taken) = mpsc::channel(LINES_AHEAD);
    thread::spawn(move || {
        let mut input = BufReader::with_capacity(READ_BUFFER_BYTES, io::stdin().lock());
        loop {
            let mut line = Vec::new();
            let read = input.read_until(b'\n', &mut line);
            let item = match read {
                Ok(0) => return,
                Ok(_) => {
                    line.pop_if(|byte| *byte == b'\n');
                    Ok(line)
                }
                Err(error) => Err(error),
            };
            let failed = item.is_err();
            if lines.blocking_send(item).is_err() || failed {
                return;
            }
        }
    });
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use seamlog::Offset;

    #[test]
    fn headers_parse() {
        let header: Header = "a=b=c".parse().expect("taken");
        assert_eq!((header.name.as_str(), header.value.as_str()), ("a", "b=c"));
        assert!("=b".parse::<Header>().is_err() && "ab".parse::<Header>().is_err());
    }

    #[test]
    fn outcomes_are_summed_up_by_range() {
        let mut written = Written::default();
        for (line, (range, offset)) in (1..).zip([(0, 7), (1, 3), (0, 8), (0, 9)]) {
            written.add(line, Ok(Ack { range, offset: Offset(offset) }));
        }
        let span = &written.ranges[&0];
        assert_eq!((span.records, span.first_offset, span.last_offset), (3, 7, 9));
        assert_eq!(written.ranges[&1].records, 1);
        assert!(written.first_failure.is_none());
    }

    #[test]
    fn the_first_failure_names_its_line_and_the_flag_that_helps() {
        let mut written = Written::default();
        written
            .add(7, Err(SendError::from(seam_wire::error::WireError::refused(ErrorCode::BatchTooLarge, "too much"))));
        written.add(8, Err(SendError::from(seam_wire::error::WireError::refused(ErrorCode::Unavailable, "gone"))));
        let told = written.first_failure.expect("a failure");
        assert!(told.starts_with("line 7: ") && told.contains("--max-batch-bytes"), "{told}");
        assert_eq!(written.failed, 2);
        let other = SendError::from(seam_wire::error::WireError::refused(ErrorCode::Unavailable, "gone"));
        assert!(!of_line(1, &other).contains("--max"), "a flag is named where it helps");
    }
}
