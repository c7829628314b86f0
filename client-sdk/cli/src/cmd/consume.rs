//! `seam consume`: a topic's records to standard output, one a line.

use crate::args::Global;
use crate::output::Out;
use crate::session;
use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Args;
use futures::FutureExt;
use seamlog::{ConsumedRecord, Offset, ReadFrom};
use serde::Serialize;
use std::str::FromStr;

/// Print a topic's records, one a line.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  seam consume events --from earliest                      everything there is, across all segments
  seam consume events --from latest --follow               what comes from now on
  seam consume events --from 5000 --count 10 --json        offsets, keys and headers too
  seam consume events --from earliest --range 0 | head")]
pub struct Consume {
    topic: String,
    /// Where to begin: earliest, latest, or an offset.
    #[arg(long, value_name = "WHERE", default_value = "earliest")]
    from: From,
    /// End after so many records.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Wait for what comes; without it, end where the topic ended at the start.
    #[arg(long, short)]
    follow: bool,
    /// Only this range; without it all of them, each in its own order.
    #[arg(long, value_name = "INDEX")]
    range: Option<u32>,
}

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct From(ReadFrom);

impl FromStr for From {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(From(match text {
            "earliest" => ReadFrom::Earliest,
            "latest" => ReadFrom::Latest,
            offset => ReadFrom::Offset(Offset(offset.parse().context("write earliest, latest, or an offset")?)),
        }))
    }
}

impl Consume {
    /// # Errors
    /// No such topic or offset, or the cluster cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        let mut builder = session::open(global)?.consumer(&self.topic).from(self.from.0).follow(self.follow);
        if let Some(range) = self.range {
            builder = builder.range(range);
        }
        let mut consumer = builder.build().await?;
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            let next = match consumer.next().now_or_never() {
                Some(next) => next,
                None => {
                    // Nothing at hand: show what there is before waiting for more.
                    out.flush()?;
                    consumer.next().await
                }
            };
            let Some(record) = next else { break };
            print(&record?, out)?;
            left -= 1;
        }
        out.flush()
    }
}

fn print(record: &ConsumedRecord, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.json_line(&RecordJson::from(record));
    }
    out.bytes_line(record.value.as_deref().unwrap_or_default())
}

#[derive(Serialize)]
struct RecordJson<'a> {
    range: u32,
    offset: u64,
    timestamp_ms: i64,
    key: Option<Content<'a>>,
    value: Option<Content<'a>>,
    headers: Vec<HeaderJson<'a>>,
}

#[derive(Serialize)]
struct HeaderJson<'a> {
    name: &'a str,
    value: Content<'a>,
}

/// Text where it is text, else hexadecimal under a key that says so.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Bytes { hex: String },
}

impl<'a> std::convert::From<&'a Bytes> for Content<'a> {
    fn from(bytes: &'a Bytes) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Content::Text(text),
            Err(_) => Content::Bytes { hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect() },
        }
    }
}

impl<'a> std::convert::From<&'a ConsumedRecord> for RecordJson<'a> {
    fn from(record: &'a ConsumedRecord) -> Self {
        let headers = record.headers.iter().map(|(name, value)| HeaderJson { name, value: value.into() });
        RecordJson {
            range: record.range,
            offset: record.offset.0,
            timestamp_ms: record.timestamp_ms,
            key: record.key.as_ref().map(Into::into),
            value: record.value.as_ref().map(Into::into),
            headers: headers.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_begin_is_a_word_or_an_offset() {
        assert_eq!("earliest".parse::<From>().expect("taken"), From(ReadFrom::Earliest));
        assert_eq!("latest".parse::<From>().expect("taken"), From(ReadFrom::Latest));
        assert_eq!("5000".parse::<From>().expect("taken"), From(ReadFrom::Offset(Offset(5000))));
        let error = format!("{:#}", "-1".parse::<From>().expect_err("refused"));
        assert!(error.contains("earliest, latest, or an offset"), "{error}");
    }

    #[test]
    fn a_record_in_json_is_text_where_it_can_be() {
        let record = ConsumedRecord {
            range: 1,
            offset: Offset(7),
            timestamp_ms: 3,
            key: None,
            value: Some(Bytes::from_static(b"hello")),
            headers: vec![("raw".into(), Bytes::from_static(&[0xff, 0x00]))],
        };
        let json = serde_json::to_value(RecordJson::from(&record)).expect("JSON");
        let expected = serde_json::json!({
            "range": 1, "offset": 7, "timestamp_ms": 3, "key": null, "value": "hello",
            "headers": [{ "name": "raw", "value": { "hex": "ff00" } }],
        });
        assert_eq!(json, expected);
    }
}
