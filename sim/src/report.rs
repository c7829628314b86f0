//! What a campaign says of itself: a table for people, JSON for what is added up later. A long campaign is run in parts, each
//! a file; `sim sum` puts the parts together.

use crate::campaign::Summary;
use crate::world::plan::FaultMode;
use crate::world::sometimes::Sometimes;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// From so many seeds on, a campaign that never met what it should have fails.
pub const NOT_VACUOUS_FROM: u64 = 1_000;

/// One campaign, or one part of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Of the sources; with a `+` if they were changed since.
    pub commit: String,
    pub faults: FaultMode,
    /// The first seed of each part.
    pub from: Vec<u64>,
    pub seconds: f64,
    #[serde(flatten)]
    pub summary: Summary,
}

impl Report {
    /// Fails on a broken rule, and on a campaign that is long enough and saw too little.
    pub fn verdict(&self) -> Result<()> {
        let summary = &self.summary;
        if !summary.violations.is_empty() {
            bail!("{} of {} seeds broke a rule", summary.violations.len(), summary.seeds);
        }
        let never = summary.never_seen(self.faults);
        if summary.seeds >= NOT_VACUOUS_FROM && !never.is_empty() {
            bail!("the campaign never saw: {}", never.join("; "));
        }
        Ok(())
    }

    /// Parts of one campaign: on one commit, no seed twice.
    pub fn sum(files: &[PathBuf]) -> Result<Report> {
        let mut parts = files.iter().map(|file| read(file)).collect::<Result<Vec<Report>>>()?;
        parts.sort_by_key(|part| part.from.clone());
        let mut end = 0;
        let mut sum: Option<Report> = None;
        for part in parts {
            let first = part.from.first().copied().unwrap_or(0);
            if part.from.len() != 1 || first < end {
                bail!("the part from {:?} is a sum itself, or runs seeds of the one before it again", part.from);
            }
            end = first + part.summary.seeds;
            match &mut sum {
                None => sum = Some(part),
                Some(sum) => {
                    if sum.commit != part.commit || sum.faults != part.faults {
                        bail!(
                            "parts of {} and of {}, or with other faults, are no one campaign",
                            sum.commit,
                            part.commit
                        );
                    }
                    sum.from.extend(part.from);
                    sum.seconds += part.seconds;
                    sum.summary.add(part.summary);
                }
            }
        }
        sum.context("name the files of the parts")
    }
}

fn read(file: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no report of `sim run --json`", file.display()))
}

/// The commit of the sources that this was built from, if they lie here.
pub fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|lines| !lines.is_empty());
    if changed { format!("{commit}+") } else { commit }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { seeds, stats, in_seeds, violations } = &self.summary;
        writeln!(f, "{:<58} {:>14} {:>10}", "state", "times", "in seeds")?;
        for state in Sometimes::ALL {
            let (times, in_seeds) = (stats.reached.count(*state), in_seeds.count(*state));
            writeln!(f, "{:<58} {times:>14} {in_seeds:>10}", state.words())?;
        }
        let counts = serde_json::to_value(stats).map_err(|_| fmt::Error)?;
        for (name, count) in counts.as_object().into_iter().flatten().filter(|(_, count)| count.is_u64()) {
            writeln!(f, "{:<58} {:>14}", name.replace('_', " "), count)?;
        }
        let hours = stats.simulated_us as f64 / 3.6e9;
        let rate = *seeds as f64 * 60.0 / self.seconds.max(0.001);
        write!(
            f,
            "commit {}: {seeds} seeds, {} events, {hours:.1} simulated hours in {:.1} s ({rate:.0} seeds a minute), {} violations",
            self.commit,
            stats.events,
            self.seconds,
            violations.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Violation;

    fn part(from: u64, commit: &str) -> Report {
        let mut summary = Summary { seeds: 10, ..Summary::default() };
        summary.stats.acks = 7;
        summary.stats.reached.hit(Sometimes::Straggler);
        Report { commit: commit.to_owned(), faults: FaultMode::All, from: vec![from], seconds: 1.5, summary }
    }

    fn sum(parts: &[Report], name: &str) -> Result<Report> {
        let dir = std::env::temp_dir().join(format!("sim-sum-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let files: Vec<PathBuf> = (0..parts.len()).map(|n| dir.join(format!("{n}.json"))).collect();
        for (part, file) in parts.iter().zip(&files) {
            std::fs::write(file, serde_json::to_vec(part)?)?;
        }
        let sum = Report::sum(&files);
        std::fs::remove_dir_all(&dir)?;
        sum
    }

    #[test]
    fn parts_of_one_campaign_add_up() {
        let all = sum(&[part(10, "a"), part(0, "a")], "adds").expect("they fit");
        assert_eq!((all.summary.seeds, all.summary.stats.acks, all.from), (20, 14, vec![0, 10]));
        assert_eq!(all.summary.stats.reached.count(Sometimes::Straggler), 2);
    }

    #[test]
    fn parts_that_do_not_belong_together_are_refused() {
        assert!(sum(&[part(0, "a"), part(10, "b")], "commits").is_err());
        assert!(sum(&[part(0, "a"), part(5, "a")], "overlap").is_err());
    }

    #[test]
    fn a_long_campaign_that_saw_too_little_fails_and_a_short_one_does_not() {
        let mut report = part(0, "a");
        assert!(report.verdict().is_ok());
        report.summary.seeds = NOT_VACUOUS_FROM;
        assert!(report.verdict().is_err());
        report.summary.seeds = 10;
        report.summary.violations.push(Violation { seed: 3, what: "R1".to_owned() });
        assert!(report.verdict().is_err());
    }
}
