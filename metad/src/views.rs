//! State in the words of the admin service, and settings out of them.

use crate::engine::View;
use metad_core::{Meta, NodeReport, RecoveryCause, RecoveryStats, RollRecord, TopicPatch};
use seam_grpc as rpc;
use seam_wire::SegmentId;
use seam_wire::meta::{NodeState, RollReason, SegmentState, TopicView};
use seam_wire::report::{Announcement, MarkBasis, RollCause};
use seam_wire::topic::{AckMode, Anticipation, Placement, TopicConfig};

/// A topic with its chains and candidates.
pub fn topic_info(view: &View<'_>, topic: &TopicView) -> rpc::TopicInfo {
    let meta = view.meta();
    let ranges = topic.ranges.iter().filter_map(|id| meta.range(*id)).map(|range| {
        let candidates = meta.candidates(range.id);
        let ids = meta.chain(range.id).chain(candidates);
        rpc::RangeInfo {
            id: range.id.0,
            index: range.index,
            segments: ids.filter_map(|id| segment_info(meta, id)).collect(),
            start: range.start.0,
            sealed_bytes: range.sealed_bytes,
            stuck: view.driver().stuck(view.now, meta, range.id).unwrap_or_default(),
        }
    });
    rpc::TopicInfo {
        id: topic.id.0,
        name: topic.name.clone(),
        config: Some(topic_config(&topic.config)),
        ranges: ranges.collect(),
    }
}

fn segment_info(meta: &Meta, id: SegmentId) -> Option<rpc::SegmentInfo> {
    let view = meta.segment(id)?;
    let kept = meta.kept(id).unwrap_or_default();
    let (state, start, end, next) = match &view.state {
        SegmentState::Planned => ("planned", None, None, None),
        SegmentState::Ready { .. } => ("ready", None, None, None),
        SegmentState::Open { start } => ("open", Some(start.0), None, None),
        SegmentState::Sealed { start, end, next } => ("sealed", Some(start.0), Some(end.0), Some(next.0)),
        SegmentState::Trimmed { start, end, next, .. } => ("trimmed", Some(start.0), Some(end.0), Some(next.0)),
        SegmentState::Reclaiming => ("reclaiming", None, None, None),
        SegmentState::Reclaimed => ("reclaimed", None, None, None),
    };
    Some(rpc::SegmentInfo {
        id: id.0,
        state: state.to_owned(),
        start,
        end,
        next,
        prior: view.spec.prior.map(|prior| prior.0),
        replicas: view.spec.replicas.iter().map(|node| node.0).collect(),
        ack_quorum: u32::from(view.spec.ack_quorum),
        attempt: view.spec.attempt,
        recovery: view.recovery.as_ref().map(|recovery| rpc::RecoveryInfo {
            epoch: recovery.epoch.0,
            agent: recovery.agent.0,
            candidate: recovery.candidate.0,
            loss_accepted: recovery.loss_accepted,
        }),
        bytes: kept.bytes,
        sealed_at_ms: kept.sealed_at_ms,
    })
}

pub fn node_info(report: NodeReport) -> rpc::NodeInfo {
    let state = match report.view.state {
        NodeState::Live => "live",
        NodeState::Draining => "draining",
        NodeState::Dead => "dead",
    };
    rpc::NodeInfo {
        id: report.view.id.0,
        name: report.view.name,
        addr: report.view.addr,
        domain: report.view.domain,
        state: state.to_owned(),
        incarnation: report.view.incarnation.0,
        free_bytes: report.free_bytes.unwrap_or(0),
        write_bytes_per_s: report.write_bytes_per_s,
        primaries: report.primaries,
        replicas: report.replicas,
        heartbeat_age_ms: report.heartbeat_age_ms.unwrap_or(0),
        disk_failed: report.disk_failed,
    }
}

pub fn roll_record(meta: &Meta, record: &RollRecord) -> rpc::RollRecord {
    let (stats, opening, gate) = (&record.stats, &record.opening, &record.gate);
    let trace = meta.segment(record.segment).and_then(|segment| segment.trace);
    rpc::RollRecord {
        range: record.range.0,
        segment: record.segment.0,
        next: record.next.0,
        start: record.start.0,
        end: record.end.0,
        by_recovery: record.by_recovery,
        not_ready: stats.not_ready,
        appends_waited: stats.appends_waited,
        overrun_bytes: stats.overrun_bytes,
        soft_mark_bytes: stats.soft_mark_bytes,
        bytes: stats.bytes,
        rate_bytes_per_s: stats.rate_bytes_per_s,
        announce_us: record.announce_us(),
        commit_us: opening.commit_us,
        open_us: opening.open_us,
        ready_us: record.ready_us,
        slack_us: stats.ready_to_switch_us,
        switch_us: stats.switch_wait_us,
        seal_us: stats.seal_us,
        begin_us: stats.begin_us,
        gate_us: gate.gate_us,
        record_us: record.record_us,
        announce_to_ready_us: stats.announce_to_ready_us,
        placement_us: opening.placement_us,
        record_after_us: stats.record_after_us,
        first_append_us: gate.first_append_us,
        first_commit_us: gate.first_commit_us,
        first_delivery_us: gate.first_delivery_us,
        switched_by: stats.switched_by.map(cause_word).unwrap_or_default().to_owned(),
        announced: stats.announced.as_ref().map(announcement),
        recovery: record.recovery.as_ref().map(recovery),
        trace_id: trace.map(|trace| format!("{:032x}", trace.trace_id)).unwrap_or_default(),
    }
}

fn cause_word(cause: RollCause) -> &'static str {
    match cause {
        RollCause::Bytes => "bytes",
        RollCause::Records => "records",
        RollCause::Age => "age",
        RollCause::Asked(RollReason::Operator) => "operator",
        RollCause::Asked(RollReason::Drain) => "drain",
        RollCause::Asked(RollReason::ReplicaLost) => "replica-lost",
    }
}

fn announcement(announced: &Announcement) -> rpc::RollAnnouncement {
    let Announcement { cause, basis, hard, mark, fill, lead, rate_per_s, roll_latency_us, safety } = *announced;
    let basis = match basis {
        MarkBasis::Lead => "lead",
        MarkBasis::Floor => "floor",
        MarkBasis::Unmeasured => "unmeasured",
        MarkBasis::AtOpen => "at-open",
        MarkBasis::Off => "off",
    };
    let (cause, basis) = (cause_word(cause).to_owned(), basis.to_owned());
    rpc::RollAnnouncement { cause, basis, hard, mark, fill, lead, rate_per_s, roll_latency_us, safety }
}

fn recovery(recovery: &RecoveryStats) -> rpc::RollRecovery {
    let cause = match recovery.cause {
        None => "",
        Some(RecoveryCause::Silent) => "silent",
        Some(RecoveryCause::SessionBroken) => "session-broken",
        Some(RecoveryCause::Restarted) => "restarted",
        Some(RecoveryCause::DiskFailed) => "disk-failed",
        Some(RecoveryCause::Stalled) => "stalled",
    };
    let stats = &recovery.stats;
    rpc::RollRecovery {
        epoch: recovery.epoch.0,
        agent: recovery.agent.0,
        cause: cause.to_owned(),
        detect_us: recovery.detect_us,
        wait_us: recovery.wait_us,
        appoint_us: recovery.appoint_us,
        work_us: recovery.work_us,
        fence_us: stats.fence_us,
        begin_us: stats.begin_us,
        safe_us: stats.safe_us,
        promised: stats.promised.into(),
        copied_records: stats.copied_records,
    }
}

fn topic_config(config: &TopicConfig) -> rpc::TopicConfig {
    let ack = match config.ack {
        AckMode::Durable => "durable",
        AckMode::Replicated => "replicated",
    };
    let placement = match config.placement {
        Placement::Balanced => "balanced",
        Placement::RoundRobin => "round-robin",
        Placement::Sticky => "sticky",
    };
    let anticipation = match config.anticipation {
        Anticipation::Soft => "soft",
        Anticipation::AtOpen => "at-open",
        Anticipation::Off => "off",
    };
    rpc::TopicConfig {
        ranges: config.ranges,
        replicas: u32::from(config.replicas),
        ack_quorum: u32::from(config.ack_quorum),
        ack: ack.to_owned(),
        placement: placement.to_owned(),
        anticipation: anticipation.to_owned(),
        segment_bytes: config.segment_bytes,
        segment_records: config.segment_records,
        max_age_ms: config.max_age_ms,
        retention_bytes: config.retention_bytes,
        retention_ms: config.retention_ms,
    }
}

fn placement(word: &str) -> Result<Placement, String> {
    match word {
        "balanced" => Ok(Placement::Balanced),
        "round-robin" => Ok(Placement::RoundRobin),
        "sticky" => Ok(Placement::Sticky),
        other => Err(format!("placement {other:?} is not balanced, round-robin or sticky")),
    }
}

fn anticipation(word: &str) -> Result<Anticipation, String> {
    match word {
        "soft" => Ok(Anticipation::Soft),
        "at-open" => Ok(Anticipation::AtOpen),
        "off" => Ok(Anticipation::Off),
        other => Err(format!("anticipation {other:?} is not soft, at-open or off")),
    }
}

/// The settings asked for. A zero or an empty word stands for the default; the bounds are checked by the driver.
pub fn read_config(asked: Option<rpc::TopicConfig>) -> Result<TopicConfig, String> {
    let mut config = TopicConfig::default();
    let Some(asked) = asked else { return Ok(config) };
    if asked.ranges > 0 {
        config.ranges = asked.ranges;
    }
    let small =
        |name: &str, value: u32| u8::try_from(value).map_err(|_| format!("{name} must be at most 7, not {value}"));
    if asked.replicas > 0 {
        config.replicas = small("replicas", asked.replicas)?;
        // The default quorum must fit fewer replicas.
        config.ack_quorum = config.ack_quorum.min(config.replicas);
    }
    if asked.ack_quorum > 0 {
        config.ack_quorum = small("ack quorum", asked.ack_quorum)?;
    }
    config.ack = match asked.ack.as_str() {
        "" | "durable" => AckMode::Durable,
        "replicated" => AckMode::Replicated,
        other => return Err(format!("ack {other:?} is not durable or replicated")),
    };
    if !asked.placement.is_empty() {
        config.placement = placement(&asked.placement)?;
    }
    if !asked.anticipation.is_empty() {
        config.anticipation = anticipation(&asked.anticipation)?;
    }
    if asked.segment_bytes > 0 {
        config.segment_bytes = asked.segment_bytes;
    }
    config.segment_records = asked.segment_records;
    config.max_age_ms = asked.max_age_ms;
    config.retention_bytes = asked.retention_bytes;
    config.retention_ms = asked.retention_ms;
    Ok(config)
}

/// The settings to change.
pub fn read_patch(asked: &rpc::AlterTopicRequest) -> Result<TopicPatch, String> {
    Ok(TopicPatch {
        placement: asked.placement.as_deref().map(placement).transpose()?,
        anticipation: asked.anticipation.as_deref().map(anticipation).transpose()?,
        segment_bytes: asked.segment_bytes,
        segment_records: asked.segment_records,
        max_age_ms: asked.max_age_ms,
        retention_bytes: asked.retention_bytes,
        retention_ms: asked.retention_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_the_words() {
        let config = TopicConfig {
            ranges: 4,
            replicas: 5,
            ack_quorum: 3,
            ack: AckMode::Replicated,
            placement: Placement::RoundRobin,
            anticipation: Anticipation::AtOpen,
            segment_bytes: 1 << 20,
            segment_records: 1000,
            max_age_ms: 60_000,
            retention_bytes: 10 << 30,
            retention_ms: 604_800_000,
        };
        assert_eq!(read_config(Some(topic_config(&config))), Ok(config));
        assert_eq!(read_config(Some(rpc::TopicConfig::default())), Ok(TopicConfig::default()));
        assert_eq!(read_config(None), Ok(TopicConfig::default()));
    }

    #[test]
    fn unknown_words_and_oversized_numbers_are_refused() {
        let bad = rpc::TopicConfig { placement: "random".to_owned(), ..rpc::TopicConfig::default() };
        assert!(read_config(Some(bad)).unwrap_err().contains("random"));
        let bad = rpc::TopicConfig { replicas: 300, ..rpc::TopicConfig::default() };
        assert!(read_config(Some(bad)).unwrap_err().contains("300"));
        let bad = rpc::AlterTopicRequest { anticipation: Some("later".to_owned()), ..Default::default() };
        assert!(read_patch(&bad).unwrap_err().contains("later"));
    }

    #[test]
    fn one_replica_alone_has_a_quorum_of_one() {
        let one = rpc::TopicConfig { replicas: 1, ..rpc::TopicConfig::default() };
        assert_eq!(read_config(Some(one)).unwrap().validate(), Ok(()));
    }
}
