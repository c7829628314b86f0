//! How a topic is shown as text for the eye. In JSON it is the SDK's own type, as it stands.

use crate::output::Out;
use crate::units;
use anyhow::Result;
use seam_wire::NodeId;
use seamlog::{AckMode, Anticipation, Placement, RangeInfo, SegmentInfo, TopicInfo};

/// One line a topic.
///
/// # Errors
/// Standard output cannot be written.
pub fn list(topics: &[TopicInfo], out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.json(&topics);
    }
    let row = |topic: &TopicInfo| {
        let config = &topic.config;
        vec![
            topic.name.clone(),
            config.ranges.to_string(),
            format!("{} of {}", config.ack_quorum, config.replicas),
            ack(config.ack).to_owned(),
            units::bytes(config.segment_bytes),
            anticipation(config.anticipation).to_owned(),
            placement(config.placement).to_owned(),
            topic.ranges.iter().map(|range| chain(range).count()).sum::<usize>().to_string(),
        ]
    };
    let rows: Vec<_> = topics.iter().map(row).collect();
    out.table(&["TOPIC", "RANGES", "ACK", "MODE", "SEGMENT", "ANTICIPATION", "PLACEMENT", "SEGMENTS"], &rows)
}

/// A topic with its chains of segments.
///
/// # Errors
/// Standard output cannot be written.
pub fn describe(topic: &TopicInfo, out: &mut Out) -> Result<()> {
    settings(topic, out)?;
    if out.is_json() {
        return Ok(());
    }
    for range in &topic.ranges {
        out.line("")?;
        let kept = units::bytes(range.sealed_bytes);
        out.line(format!("range {}, from offset {}, {kept} in sealed segments", range.index, range.start))?;
        if let Some(why) = &range.stuck {
            out.line(format!("  STUCK: {why} (`seam range accept-loss {} --range {}`)", topic.name, range.index))?;
        }
        let rows: Vec<_> = range.segments.iter().map(segment_row).collect();
        out.table(&["  SEGMENT", "STATE", "START", "END", "RECORDS", "BYTES", "REPLICAS, PRIMARY FIRST"], &rows)?;
    }
    Ok(())
}

/// What the topic is made with; in JSON, all of it.
///
/// # Errors
/// Standard output cannot be written.
pub fn settings(topic: &TopicInfo, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.json(topic);
    }
    let config = &topic.config;
    let limit = |value: u64, text: String| if value == 0 { "no limit".to_owned() } else { text };
    let replicas = format!("{}, acked once {} have it ({})", config.replicas, config.ack_quorum, ack(config.ack));
    out.line(format!("topic {}", topic.name))?;
    for (what, value) in [
        ("ranges", config.ranges.to_string()),
        ("replicas", replicas),
        ("placement", placement(config.placement).to_owned()),
        ("anticipation", anticipation(config.anticipation).to_owned()),
        ("segment bytes", units::bytes(config.segment_bytes)),
        ("segment records", limit(config.segment_records, config.segment_records.to_string())),
        ("max age", limit(config.max_age_ms, units::millis(config.max_age_ms))),
        ("retention bytes", limit(config.retention_bytes, units::bytes(config.retention_bytes))),
        ("retention age", limit(config.retention_ms, units::millis(config.retention_ms))),
    ] {
        out.line(format!("  {what:<16} {value}"))?;
    }
    Ok(())
}

fn segment_row(segment: &SegmentInfo) -> Vec<String> {
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let records = segment.start.zip(segment.end).map(|(start, end)| end.saturating_sub(start));
    let replicas: Vec<String> = segment.replicas.iter().map(|id| NodeId(*id).to_string()).collect();
    vec![
        format!("  {}", segment.id),
        segment.state.clone(),
        number(segment.start),
        number(segment.end),
        number(records),
        segment.end.map_or_else(|| "-".to_owned(), |_| units::bytes(segment.bytes)),
        replicas.join(" "),
    ]
}

/// The segments that hold, or may get, records; not the candidates.
fn chain(range: &RangeInfo) -> impl Iterator<Item = &SegmentInfo> {
    range.segments.iter().filter(|segment| matches!(segment.state.as_str(), "open" | "sealed"))
}

fn ack(ack: AckMode) -> &'static str {
    match ack {
        AckMode::Durable => "durable",
        AckMode::Replicated => "replicated",
    }
}

fn placement(placement: Placement) -> &'static str {
    match placement {
        Placement::Balanced => "balanced",
        Placement::RoundRobin => "round-robin",
        Placement::Sticky => "sticky",
    }
}

fn anticipation(anticipation: Anticipation) -> &'static str {
    match anticipation {
        Anticipation::Soft => "soft",
        Anticipation::AtOpen => "at-open",
        Anticipation::Off => "off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seamlog::TopicConfig;

    #[test]
    fn json_has_the_keys_and_the_words_of_the_flags() {
        let sealed = SegmentInfo {
            id: 4,
            state: "sealed".into(),
            start: Some(0),
            end: Some(9),
            next: Some(5),
            prior: None,
            replicas: vec![3, 1],
            ack_quorum: 2,
            attempt: 1,
            recovery: None,
            bytes: 900,
            sealed_at_ms: 1,
        };
        let topic = TopicInfo {
            id: 1,
            name: "events".into(),
            config: TopicConfig { anticipation: Anticipation::AtOpen, ..TopicConfig::default() },
            ranges: vec![RangeInfo {
                id: 2,
                index: 0,
                start: 0,
                sealed_bytes: 900,
                stuck: None,
                segments: vec![sealed],
            }],
        };
        let json = serde_json::to_value(&topic).expect("JSON");
        assert_eq!(json["config"]["anticipation"], anticipation(Anticipation::AtOpen));
        assert_eq!(json["config"]["placement"], placement(Placement::Balanced));
        assert_eq!(json["config"]["ack"], ack(AckMode::Durable));
        let segment = &json["ranges"][0]["segments"][0];
        assert_eq!(segment["replicas"], serde_json::json!([3, 1]));
        assert_eq!(
            (&segment["end"], &segment["next"], &segment["prior"]),
            (&9.into(), &5.into(), &serde_json::Value::Null)
        );
    }
}
