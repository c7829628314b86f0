//! Topics and their chains before and after everything was killed: nothing decided may have changed, nothing may be gone.
//! So with what consumer groups had committed. What lies in the segments is compared by the history.

use crate::target::Committed;
use seamlog::{RangeInfo, SegmentInfo, TopicInfo};

/// What groups without members had committed and have not now, in words.
pub fn forgotten(before: &Committed, after: &Committed) -> Vec<String> {
    let changed = before.iter().filter(|(place, offset)| after.get(*place) != Some(*offset));
    changed
        .map(|((group, topic, range), offset)| {
            let place = (group.clone(), topic.clone(), *range);
            let now = after.get(&place).map_or_else(|| "nothing".to_owned(), u64::to_string);
            format!("group {group} had committed offset {offset} of topic {topic}, range {range}, and has {now} now")
        })
        .collect()
}

/// What differs, in words; empty when all is as it was. Chains may have grown.
pub fn differences(before: &[TopicInfo], after: &[TopicInfo]) -> Vec<String> {
    let mut found = Vec::new();
    for topic in before {
        match after.iter().find(|now| now.name == topic.name) {
            None => found.push(format!("topic {} is gone", topic.name)),
            Some(now) if now.id != topic.id || now.config != topic.config => {
                found.push(format!("topic {} had {:?}, now {:?}", topic.name, topic.config, now.config));
            }
            Some(now) => topic.ranges.iter().for_each(|range| compare_range(topic, range, now, &mut found)),
        }
    }
    let appeared = after.iter().filter(|now| before.iter().all(|topic| topic.name != now.name));
    found.extend(appeared.map(|topic| format!("topic {} appeared", topic.name)));
    found
}

fn compare_range(topic: &TopicInfo, range: &RangeInfo, now: &TopicInfo, found: &mut Vec<String>) {
    let name = format!("topic {}, range {}", topic.name, range.index);
    let Some(now) = now.ranges.iter().find(|other| other.id == range.id && other.index == range.index) else {
        found.push(format!("{name} is gone"));
        return;
    };
    for segment in chain(range) {
        let Some(is) = chain(now).find(|other| other.id == segment.id) else {
            found.push(format!("{name}: segment {} is gone", segment.id));
            continue;
        };
        let decided = segment.state == "sealed";
        let same_end = !decided || (segment.end, segment.next) == (is.end, is.next);
        if segment.start != is.start || !same_end {
            found.push(format!("{name}: {segment:?} became {is:?}"));
        }
    }
}

fn chain(range: &RangeInfo) -> impl Iterator<Item = &SegmentInfo> {
    range.segments.iter().filter(|segment| matches!(segment.state.as_str(), "open" | "sealed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seamlog::TopicConfig;

    fn segment(id: u64, start: u64, end: Option<u64>) -> SegmentInfo {
        SegmentInfo {
            id,
            state: if end.is_some() { "sealed" } else { "open" }.to_owned(),
            start: Some(start),
            end,
            next: end.map(|_| id + 1),
            prior: None,
            replicas: vec![1, 2, 3],
            ack_quorum: 2,
            attempt: 1,
            bytes: 0,
            sealed_at_ms: 0,
            recovery: None,
        }
    }

    fn topic(segments: Vec<SegmentInfo>) -> TopicInfo {
        let ranges = vec![RangeInfo { id: 1, index: 0, start: 0, sealed_bytes: 0, stuck: None, segments }];
        TopicInfo { id: 1, name: "events".to_owned(), config: TopicConfig::default(), ranges }
    }

    #[test]
    fn a_commit_that_is_gone_or_moved_is_told() {
        let place = |group: &str, offset| ((group.to_owned(), "t".to_owned(), 0), offset);
        let before = Committed::from([place("a", 5), place("b", 7), place("c", 9)]);
        let after = Committed::from([place("a", 5), place("b", 6), place("d", 1)]);
        let told = forgotten(&before, &after);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("group b") && told[0].contains("7") && told[1].contains("nothing"), "{told:?}");
    }

    #[test]
    fn growth_is_no_difference_and_all_else_is() {
        let before = [topic(vec![segment(1, 0, Some(9)), segment(2, 9, None)])];
        let grown = [topic(vec![segment(1, 0, Some(9)), segment(2, 9, Some(20)), segment(3, 20, None)])];
        assert_eq!(differences(&before, &grown), [""; 0]);
        let moved = [topic(vec![segment(1, 0, Some(8)), segment(2, 8, None)])];
        assert_eq!(differences(&before, &moved).len(), 2, "an end and a start");
        assert_eq!(differences(&before, &[topic(vec![segment(1, 0, Some(9))])]).len(), 1, "the head is gone");
        assert_eq!(differences(&before, &[]), ["topic events is gone"]);
        assert_eq!(differences(&[], &before), ["topic events appeared"]);
        let altered = TopicInfo { config: TopicConfig { ranges: 2, ..TopicConfig::default() }, ..before[0].clone() };
        assert_eq!(differences(&before, &[altered]).len(), 1);
    }
}
