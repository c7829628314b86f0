//! How a record is printed: its value as it is, or all of it as one line of JSON.

use crate::output::Out;
use anyhow::Result;
use bytes::Bytes;
use seamlog::ConsumedRecord;
use serde::Serialize;

/// One line.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(record: &ConsumedRecord, out: &mut Out) -> Result<()> {
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
    use seamlog::Offset;

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
