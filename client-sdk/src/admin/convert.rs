//! Between gRPC messages and plain data.

use super::types::{
    AlterTopic, NodeInfo, RangeInfo, RecoveryInfo, RollAnnouncement, RollRecord, RollRecovery, SegmentInfo, Status,
    TopicInfo,
};
use seam_grpc as rpc;
use seam_wire::topic::{AckMode, Anticipation, Placement, TopicConfig};

/// A word or number that means nothing here.
pub(super) type Nonsense = String;

fn ack_word(ack: AckMode) -> &'static str {
    match ack {
        AckMode::Durable => "durable",
        AckMode::Replicated => "replicated",
    }
}

fn placement_word(placement: Placement) -> &'static str {
    match placement {
        Placement::Balanced => "balanced",
        Placement::RoundRobin => "round-robin",
        Placement::Sticky => "sticky",
    }
}

fn anticipation_word(anticipation: Anticipation) -> &'static str {
    match anticipation {
        Anticipation::Soft => "soft",
        Anticipation::AtOpen => "at-open",
        Anticipation::Off => "off",
    }
}

fn of_word<T: Copy>(what: &str, word: &str, all: &[T], word_of: fn(T) -> &'static str) -> Result<T, Nonsense> {
    let found = all.iter().find(|value| word_of(**value) == word);
    found.copied().ok_or_else(|| format!("{word:?} is no {what}"))
}

pub(super) fn config_to_rpc(config: &TopicConfig) -> rpc::TopicConfig {
    rpc::TopicConfig {
        ranges: config.ranges,
        replicas: config.replicas.into(),
        ack_quorum: config.ack_quorum.into(),
        ack: ack_word(config.ack).to_owned(),
        placement: placement_word(config.placement).to_owned(),
        anticipation: anticipation_word(config.anticipation).to_owned(),
        segment_bytes: config.segment_bytes,
        segment_records: config.segment_records,
        max_age_ms: config.max_age_ms,
        retention_bytes: config.retention_bytes,
        retention_ms: config.retention_ms,
    }
}

fn config_from_rpc(config: &rpc::TopicConfig) -> Result<TopicConfig, Nonsense> {
    let count = |what, number: u32| u8::try_from(number).map_err(|_| format!("{number} {what}"));
    let placements = [Placement::Balanced, Placement::RoundRobin, Placement::Sticky];
    let anticipations = [Anticipation::Soft, Anticipation::AtOpen, Anticipation::Off];
    Ok(TopicConfig {
        ranges: config.ranges,
        replicas: count("replicas", config.replicas)?,
        ack_quorum: count("replicas to ack", config.ack_quorum)?,
        ack: of_word("ack", &config.ack, &[AckMode::Durable, AckMode::Replicated], ack_word)?,
        placement: of_word("placement", &config.placement, &placements, placement_word)?,
        anticipation: of_word("anticipation", &config.anticipation, &anticipations, anticipation_word)?,
        segment_bytes: config.segment_bytes,
        segment_records: config.segment_records,
        max_age_ms: config.max_age_ms,
        retention_bytes: config.retention_bytes,
        retention_ms: config.retention_ms,
    })
}

pub(super) fn alter_to_rpc(name: &str, change: &AlterTopic) -> rpc::AlterTopicRequest {
    rpc::AlterTopicRequest {
        name: name.to_owned(),
        placement: change.placement.map(|placement| placement_word(placement).to_owned()),
        anticipation: change.anticipation.map(|anticipation| anticipation_word(anticipation).to_owned()),
        segment_bytes: change.segment_bytes,
        segment_records: change.segment_records,
        max_age_ms: change.max_age_ms,
        retention_bytes: change.retention_bytes,
        retention_ms: change.retention_ms,
    }
}

pub(super) fn topic(info: rpc::TopicInfo) -> Result<TopicInfo, Nonsense> {
    let config = info.config.ok_or_else(|| format!("topic {:?} without settings", info.name))?;
    Ok(TopicInfo {
        id: info.id,
        config: config_from_rpc(&config)?,
        name: info.name,
        ranges: info.ranges.into_iter().map(range).collect(),
    })
}

fn range(info: rpc::RangeInfo) -> RangeInfo {
    RangeInfo {
        id: info.id,
        index: info.index,
        start: info.start,
        sealed_bytes: info.sealed_bytes,
        stuck: Some(info.stuck).filter(|why| !why.is_empty()),
        segments: info.segments.into_iter().map(segment).collect(),
    }
}

fn segment(info: rpc::SegmentInfo) -> SegmentInfo {
    let rpc::SegmentInfo { id, state, start, end, next, prior, replicas, .. } = info;
    let rpc::SegmentInfo { ack_quorum, attempt, recovery, bytes, sealed_at_ms, .. } = info;
    let recovery = recovery.map(|rpc::RecoveryInfo { epoch, agent, candidate, loss_accepted }| RecoveryInfo {
        epoch,
        agent,
        candidate,
        loss_accepted,
    });
    SegmentInfo { id, state, start, end, next, prior, replicas, ack_quorum, attempt, recovery, bytes, sealed_at_ms }
}

pub(super) fn node(info: rpc::NodeInfo) -> NodeInfo {
    let rpc::NodeInfo { id, name, addr, domain, state, incarnation, .. } = info;
    NodeInfo {
        id,
        name,
        addr,
        domain,
        state,
        incarnation,
        free_bytes: info.free_bytes,
        write_bytes_per_s: info.write_bytes_per_s,
        primaries: info.primaries,
        replicas: info.replicas,
        heartbeat_age_ms: info.heartbeat_age_ms,
        disk_failed: info.disk_failed,
    }
}

pub(super) fn roll(roll: rpc::RollRecord) -> RollRecord {
    RollRecord {
        range: roll.range,
        segment: roll.segment,
        next: roll.next,
        start: roll.start,
        end: roll.end,
        by_recovery: roll.by_recovery,
        not_ready: roll.not_ready,
        appends_waited: roll.appends_waited,
        overrun_bytes: roll.overrun_bytes,
        soft_mark_bytes: roll.soft_mark_bytes,
        bytes: roll.bytes,
        rate_bytes_per_s: roll.rate_bytes_per_s,
        announce_us: roll.announce_us,
        commit_us: roll.commit_us,
        open_us: roll.open_us,
        ready_us: roll.ready_us,
        slack_us: roll.slack_us,
        switch_us: roll.switch_us,
        seal_us: roll.seal_us,
        begin_us: roll.begin_us,
        gate_us: roll.gate_us,
        record_us: roll.record_us,
        announce_to_ready_us: roll.announce_to_ready_us,
        placement_us: roll.placement_us,
        record_after_us: roll.record_after_us,
        first_append_us: roll.first_append_us,
        first_commit_us: roll.first_commit_us,
        first_delivery_us: roll.first_delivery_us,
        switched_by: roll.switched_by,
        announced: roll.announced.map(announcement),
        recovery: roll.recovery.map(recovery),
        trace_id: roll.trace_id,
    }
}

fn announcement(announced: rpc::RollAnnouncement) -> RollAnnouncement {
    let rpc::RollAnnouncement { cause, basis, hard, mark, fill, lead, rate_per_s, roll_latency_us, safety } = announced;
    RollAnnouncement { cause, basis, hard, mark, fill, lead, rate_per_s, roll_latency_us, safety }
}

fn recovery(recovery: rpc::RollRecovery) -> RollRecovery {
    let rpc::RollRecovery { epoch, agent, cause, detect_us, wait_us, appoint_us, work_us, .. } = recovery;
    RollRecovery {
        epoch,
        agent,
        cause,
        detect_us,
        wait_us,
        appoint_us,
        work_us,
        fence_us: recovery.fence_us,
        begin_us: recovery.begin_us,
        safe_us: recovery.safe_us,
        promised: recovery.promised,
        copied_records: recovery.copied_records,
    }
}

pub(super) fn status(status: rpc::StatusResponse) -> Status {
    Status {
        name: status.name,
        leader: status.leader,
        term: status.term,
        version: status.version,
        log_bytes: status.log_bytes,
        candidates_made: status.candidates_made,
        candidates_used: status.candidates_used,
        candidates_reclaimed: status.candidates_reclaimed,
        candidates_open: status.candidates_open,
        members: status.members,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_they_went() {
        for placement in [Placement::Balanced, Placement::RoundRobin, Placement::Sticky] {
            for anticipation in [Anticipation::Soft, Anticipation::AtOpen, Anticipation::Off] {
                for ack in [AckMode::Durable, AckMode::Replicated] {
                    let config = TopicConfig { placement, anticipation, ack, ..TopicConfig::default() };
                    assert_eq!(config_from_rpc(&config_to_rpc(&config)), Ok(config));
                }
            }
        }
    }

    #[test]
    fn an_unknown_word_is_told() {
        let config = rpc::TopicConfig { ack: "maybe".to_owned(), ..config_to_rpc(&TopicConfig::default()) };
        assert!(config_from_rpc(&config).unwrap_err().contains("maybe"));
    }
}
