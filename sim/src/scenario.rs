//! A scenario: one plan, written out, kept as a file in `bugbase`. Unlike a seed it means the same for ever, whatever more is
//! drawn from seeds later.

use crate::campaign::{self, Violation};
use crate::world::Outcome;
use crate::world::plan::Plan;
use crate::world::trace::TraceMode;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scenario {
    /// What it showed, in words.
    pub what: String,
    /// The trap that has to be put back for it to break the rule; `None`: it broke it before a defect was mended.
    pub trap: Option<String>,
    /// The rule: R1 to R15, I1 to I20, or liveness.
    pub breaks: String,
    pub plan: Plan,
}

impl Scenario {
    pub fn read(file: &Path) -> Result<Scenario> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no scenario", file.display()))
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Runs it with what is active in this process: no trap, unless one was put back.
    pub fn run(&self, trace: TraceMode) -> Result<Outcome, Violation> {
        campaign::run_plan(self.plan.clone(), trace)
    }
}

/// The rule that a message says was broken: its first `R1:`, `I15:` or `liveness:`, else the line of code that panicked.
pub fn rule_of(what: &str) -> String {
    let is_name = |name: &str| {
        let numbered = name.strip_prefix(['R', 'I']).is_some_and(|number| number.parse::<u8>().is_ok());
        numbered || name == "liveness"
    };
    let words: Vec<&str> = what.split_whitespace().collect();
    let rule = words.iter().enumerate().find_map(|(nth, word)| match word.strip_suffix(':') {
        Some(name) => is_name(name).then_some(name),
        // metad's words: "R2 is broken: ...".
        None => (is_name(word) && words[nth..].get(1..3) == Some(&["is", "broken:"])).then_some(*word),
    });
    rule.unwrap_or_else(|| what.lines().next().unwrap_or_default()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::plan::FaultMode;

    #[test]
    fn a_rule_is_found_in_what_is_said_of_it() {
        let assertion = "panicked at a.rs:1:2:\nassertion `left == right` failed: R1: it was acked\n  left: 1";
        assert_eq!(rule_of(assertion), "R1");
        assert_eq!(rule_of("panicked at a.rs:1:2:\nafter Trim { range: R1 }: R2 is broken: no hole (x)"), "R2");
        assert_eq!(rule_of("panicked at a.rs:1:2:\nliveness: nothing: R1: x"), "liveness");
        assert_eq!(rule_of("panicked at a.rs:1:2:\nindex out of bounds"), "panicked at a.rs:1:2:");
    }

    #[test]
    fn a_plan_that_was_written_and_read_runs_as_before() {
        for seed in 0..8 {
            let plan = Plan::draw(seed, FaultMode::All);
            let text = serde_json::to_string(&plan).expect("plain data");
            let again: Plan = serde_json::from_str(&text).expect("its own text");
            let hash = |plan| campaign::run_plan(plan, TraceMode::Hash).expect("no rule is broken").trace_hash;
            assert_eq!(hash(plan), hash(again), "seed {seed}");
        }
    }
}
