//! `seam range`: the way out for a range whose head's end no answer can decide.

use crate::args::Global;
use crate::output::Out;
use crate::session;
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use seamlog::{Admin, RangeInfo, SegmentInfo};

/// What can be done about one range of a topic.
#[derive(Clone, Debug, Subcommand)]
pub enum RangeCommand {
    /// Give up what no replica of a stuck range can tell of, so that it goes on. Cannot be undone.
    #[command(after_help = "\
A range is stuck when too many replicas of its head are lost, or do not know where their tails end: nobody can say any more which
records were acked. `seam topic describe` says so. Bring the nodes back if you can; nothing is lost then.

Otherwise this fixes the end at what the replicas that answer hold, and goes on behind a gap entry: every later offset lies above
all that were ever shown, and readers are told which offsets were given up. Nodes that come back later do not change it.

Examples:
  seam range accept-loss events --range 0                                  say what would be given up
  seam range accept-loss events --range 0 --i-accept-the-loss-of 17        give it up; 17 is the segment")]
    AcceptLoss {
        topic: String,
        /// Which range of it.
        #[arg(long, value_name = "INDEX")]
        range: u32,
        /// Do it. The segment that is stuck, as the command without this flag names it.
        #[arg(long, value_name = "SEGMENT")]
        i_accept_the_loss_of: Option<u64>,
    },
}

impl RangeCommand {
    /// # Errors
    /// No such topic or range, one that is not stuck, or metad cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        let RangeCommand::AcceptLoss { topic, range, i_accept_the_loss_of } = self;
        let admin = session::open(global)?.admin();
        let Some(segment) = i_accept_the_loss_of else {
            return warn(&admin, &topic, range, global).await;
        };
        let accepted = admin.accept_loss(&topic, range, segment).await?;
        if out.is_json() {
            return out.json(
                &serde_json::json!({ "topic": topic, "range": range, "segment": segment, "accepted": accepted }),
            );
        }
        out.line(format!("{topic}, range {range}: what nobody can tell of segment {segment} is given up"))?;
        out.line(format!(
            "segment {} follows behind a gap entry; `seam topic describe {topic}` shows when it is open",
            accepted.candidate
        ))
    }
}

/// Says what would be given up, and fails: nothing was.
async fn warn(admin: &Admin, topic: &str, range: u32, global: &Global) -> Result<()> {
    let described = admin.describe_topic(topic).await?;
    let of = described.ranges.iter().find(|it| it.index == range);
    let of =
        of.with_context(|| format!("topic {topic:?} has ranges 0 to {}, not {range}", described.ranges.len() - 1))?;
    let (Some(why), Some(head)) = (&of.stuck, head(of)) else {
        bail!("range {range} of {topic:?} is not stuck: there is nothing to give up");
    };
    let start = head.start.unwrap_or_default();
    let config = global.config.display();
    bail!(
        "range {range} of {topic:?} is stuck: {why}\n\
         Records at offset {start} and above that no replica which answers holds would be lost for ever, acked ones among them.\n\
         To give them up, say so: seam --config {config} range accept-loss {topic} --range {range} \
         --i-accept-the-loss-of {}",
        head.id
    )
}

/// The open segment of the chain.
fn head(range: &RangeInfo) -> Option<&SegmentInfo> {
    range.segments.iter().find(|segment| segment.state == "open")
}
