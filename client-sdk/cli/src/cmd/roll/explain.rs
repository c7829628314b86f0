//! `seam roll explain`: how the last rolls and recoveries went, phase by phase, from what metad keeps with the chain.

use super::timeline::Timeline;
use super::{waterfall, why};
use crate::args::Global;
use crate::output::Out;
use crate::session;
use anyhow::{Result, bail};
use clap::Args;
use seamlog::{RollRecord, TopicInfo};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Show how the last rolls went: each phase on one timeline, the critical path, and why it began when it did.
///
/// Durations are measured on one clock each and chained; clocks of different machines are never compared. Where only the sum
/// of a message's two ways is known, it is split evenly. Needs no trace collector.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  seam roll explain events
  seam roll explain events --range 0 --last 5
  seam roll explain events --json | jq '.[].phases[] | select(.critical)'")]
pub struct Explain {
    topic: String,
    /// Only this range of it.
    #[arg(long, value_name = "INDEX")]
    range: Option<u32>,
    /// How many rolls of each range, the newest; 0: all that are kept.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    last: u32,
}

impl Explain {
    /// # Errors
    /// No such topic or range, or metad cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        let admin = session::open(global)?.admin();
        let topic = admin.describe_topic(&self.topic).await?;
        if let Some(index) = self.range.filter(|index| topic.ranges.iter().all(|range| range.index != *index)) {
            bail!("topic {:?} has no range {index}; its ranges are 0 to {}", self.topic, topic.ranges.len() - 1);
        }
        let places = Places::of(&topic);
        let mut rolls = admin.roll_history(&self.topic, self.last).await?;
        rolls.retain(|roll| self.range.is_none_or(|index| places.range(roll.range) == Some(index)));
        if out.is_json() {
            let told: Vec<Value> = rolls.iter().map(|roll| self.json(roll, &places)).collect();
            return out.json(&told);
        }
        if rolls.is_empty() {
            return out.line(format!("{}: no roll is recorded yet", self.topic));
        }
        for (index, roll) in rolls.iter().enumerate() {
            if index > 0 {
                out.line("")?;
            }
            self.show(roll, &places, out)?;
        }
        Ok(())
    }

    fn show(&self, roll: &RollRecord, places: &Places, out: &mut Out) -> Result<()> {
        let range = places.range(roll.range).map_or_else(|| format!("with id {}", roll.range), |i| i.to_string());
        let (from, to) = (places.primary(roll.segment), places.primary(roll.next));
        let (segment, next) = (roll.segment, roll.next);
        out.line(format!(
            "{} range {range}: segment {segment} ({from}) to {next} ({to}) at offset {}",
            self.topic, roll.end
        ))?;
        match &roll.recovery {
            Some(recovery) => out.line(format!("  {}", why::recovered(recovery)))?,
            None => {
                out.line(format!("  {}", why::announced(roll)))?;
                out.line(format!("  {}", why::switched(roll)))?;
            }
        }
        if !roll.trace_id.is_empty() {
            out.line(format!("  trace {}", roll.trace_id))?;
        }
        waterfall::draw(&Timeline::of(roll, places), out)
    }

    fn json(&self, roll: &RollRecord, places: &Places) -> Value {
        let line = Timeline::of(roll, places);
        json!({
            "topic": self.topic,
            "range": places.range(roll.range),
            "segment": roll.segment,
            "next": roll.next,
            "start": roll.start,
            "end": roll.end,
            "by_recovery": roll.by_recovery,
            "why": roll.recovery.as_ref().map_or_else(|| why::announced(roll), why::recovered),
            "switched_by": roll.switched_by,
            "not_ready": roll.not_ready,
            "appends_waited": roll.appends_waited,
            "overrun_bytes": roll.overrun_bytes,
            "announced": roll.announced,
            "recovery": roll.recovery,
            "trace_id": roll.trace_id,
            "critical_path_us": line.total_us,
            "phases": line.phases,
        })
    }
}

/// Where segments lie, and which range is which.
#[derive(Clone, Debug, Default)]
pub struct Places {
    primaries: BTreeMap<u64, u32>,
    ranges: BTreeMap<u64, u32>,
}

impl Places {
    fn of(topic: &TopicInfo) -> Places {
        let segments = topic.ranges.iter().flat_map(|range| &range.segments);
        Places {
            primaries: segments.filter_map(|it| it.replicas.first().map(|node| (it.id, *node))).collect(),
            ranges: topic.ranges.iter().map(|range| (range.id, range.index)).collect(),
        }
    }

    fn range(&self, id: u64) -> Option<u32> {
        self.ranges.get(&id).copied()
    }

    pub fn node(&self, id: u32) -> String {
        format!("segd-{id}")
    }

    /// The primary of a segment; a segment that is gone has none any more.
    pub fn primary(&self, segment: u64) -> String {
        self.primaries.get(&segment).map_or_else(|| format!("primary of {segment}"), |node| self.node(*node))
    }
}
