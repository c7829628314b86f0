//! `seam consume`: a topic's records to standard output, one a line.

use super::place::{PLACES, Place};
use super::record_view::print;
use crate::args::Global;
use crate::cmd::consume_group;
use crate::output::Out;
use crate::session;
use anyhow::{Result, ensure};
use clap::Args;
use futures::FutureExt;
use seamlog::ReadFrom;

/// Print a topic's records, one a line. What retention deleted before it was read is told on standard error.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  seam consume events --from earliest                      everything there is, across all segments
  seam consume events --from latest --follow               what comes from now on
  seam consume events --from 5000 --count 10 --json        offsets, keys and headers too
  seam consume events --from 2026-11-29T12:00:00Z          from the first record of that moment on
  seam consume events --from earliest --range 0 | head
  seam consume events --group billing --follow             as a member of a group: its share of the ranges,
                                                           from where the group was, committing what it prints")]
pub struct Consume {
    pub topic: String,
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true, help = format!("Where to begin: {PLACES} [default: earliest]"))]
    pub from: Option<Place>,
    /// End after so many records.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Wait for what comes; without it, end where the topic ended at the start.
    #[arg(long, short)]
    pub follow: bool,
    /// Only this range; without it all of them, each in its own order.
    #[arg(long, value_name = "INDEX")]
    pub range: Option<u32>,
    /// Read as a member of this consumer group: each record goes to one of its members. What is printed is committed; --from
    /// counts only where nothing is committed yet. Ends with Ctrl-C after a last commit.
    #[arg(long, short, value_name = "GROUP")]
    pub group: Option<String>,
    /// With --group: a member silent for so long loses its ranges to the others [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = crate::units::parse_duration, requires = "group")]
    pub session_timeout: Option<std::time::Duration>,
}

impl Consume {
    /// # Errors
    /// No such topic or offset, or the cluster cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        if let Some(group) = self.group.clone() {
            ensure!(
                self.range.is_none(),
                "a member of a group gets its ranges from the group: leave out --range or --group"
            );
            return consume_group::run(&session::open(global)?, &group, &self, out).await;
        }
        let from = self.from.map_or(ReadFrom::Earliest, |place| place.0);
        let mut builder = session::open(global)?.consumer(&self.topic).from(from).follow(self.follow);
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
            let record = match next {
                None => break,
                Some(Err(missed)) if missed.is_passing() => {
                    out.flush()?;
                    eprintln!("seam: {missed}");
                    continue;
                }
                Some(Err(error)) => {
                    // What came before the error is the reader's.
                    out.flush()?;
                    return Err(error.into());
                }
                Some(Ok(record)) => record,
            };
            print(&record, out)?;
            left -= 1;
        }
        out.flush()
    }
}
