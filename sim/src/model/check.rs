//! Runs one configuration through the checker, and tells what came of it.

use super::config::Config;
use super::properties::witness_name;
use super::roll::Roll;
use super::step::Action;
use segd_core::traps::{self, Trap};
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Instant;

/// What was found.
pub struct Report {
    pub config: Config,
    /// States generated, one an edge.
    pub states: usize,
    pub unique: usize,
    pub depth: usize,
    pub seconds: f64,
    /// Every reachable state was seen.
    pub exhausted: bool,
    pub failures: Vec<Failure>,
    /// What was to be seen and was not.
    pub unseen: Vec<&'static str>,
}

/// A property that does not hold, and how it comes to that.
pub struct Failure {
    pub property: &'static str,
    pub path: Vec<Action>,
    /// Of a failed assertion: its words.
    pub said: Option<String>,
}

/// When to stop before the end.
pub enum Until {
    /// Not before every state was seen.
    Exhausted,
    /// So many states were generated.
    Generated(usize),
    /// Any property failed, or so many states were generated.
    AnyFailed(usize),
    /// All of these properties failed, or so many states were generated.
    Failed(Vec<&'static str>, usize),
}

/// One trap a process: the switch in the machines is global.
pub fn check(config: Config, trap: Trap, until: Until, threads: usize) -> Report {
    traps::activate(trap);
    let begun = Instant::now();
    let mut builder = Roll::new(config, trap).checker().threads(threads);
    builder = match &until {
        Until::Exhausted => builder.finish_when(HasDiscoveries::AnyFailures),
        Until::Generated(bound) | Until::AnyFailed(bound) => {
            builder.finish_when(HasDiscoveries::AnyFailures).target_state_count(*bound)
        }
        Until::Failed(names, bound) => {
            let names: BTreeSet<&'static str> = names.iter().copied().collect();
            builder.finish_when(HasDiscoveries::AllOf(names)).target_state_count(*bound)
        }
    };
    let bound = match until {
        Until::Exhausted => usize::MAX,
        Until::Generated(bound) | Until::AnyFailed(bound) | Until::Failed(_, bound) => bound,
    };
    match until {
        // Breadth first finds the shortest ways; depth first keeps few states in memory.
        Until::Exhausted => tell(config, bound, begun, &builder.spawn_dfs().join()),
        Until::Generated(_) | Until::AnyFailed(_) | Until::Failed(..) => {
            tell(config, bound, begun, &builder.spawn_bfs().join())
        }
    }
}

fn tell(config: Config, bound: usize, begun: Instant, checker: &impl Checker<Roll>) -> Report {
    let found = checker.discoveries();
    let roll = checker.model();
    let is_failure = |name: &str| roll.property(leak(roll, name)).expectation != Expectation::Sometimes;
    let mut failures: Vec<Failure> = found
        .iter()
        .filter(|(name, _)| is_failure(name))
        .map(|(property, path)| {
            let path = path.clone().into_actions();
            Failure { property, said: last_words(roll, &path), path }
        })
        .collect();
    failures.sort_by_key(|failure| (failure.path.len(), failure.property));
    let unseen = config.witnesses.iter().map(|w| witness_name(*w)).filter(|name| !found.contains_key(name)).collect();
    Report {
        config,
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        seconds: begun.elapsed().as_secs_f64(),
        exhausted: failures.is_empty() && checker.state_count() < bound,
        failures,
        unseen,
    }
}

fn leak(roll: &Roll, name: &str) -> &'static str {
    roll.properties().into_iter().find(|property| property.name == name).map_or("", |property| property.name)
}

/// The assertion that the last step of a path breaks.
fn last_words(roll: &Roll, path: &[Action]) -> Option<String> {
    let mut w = roll.init_states().pop()?;
    let mut last = None;
    for action in path {
        (w, last) = roll.try_step(&w, *action);
    }
    last
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.exhausted { "exhausted" } else { "bounded" };
        let verdict = if self.failures.is_empty() { "holds" } else { "FAILS" };
        let Report { states, unique, depth, seconds, .. } = self;
        let name = self.config.name;
        writeln!(
            f,
            "{name:<20} {verdict} {end:<9} states {states:>10} unique {unique:>10} depth {depth:>3} {seconds:>7.1} s, {:.0} unique a minute",
            *unique as f64 / seconds * 60.0
        )?;
        for failure in &self.failures {
            writeln!(f, "  broken: {}, {} steps", failure.property, failure.path.len())?;
            for (nth, action) in failure.path.iter().enumerate() {
                writeln!(f, "    {:>3} {action:?}", nth + 1)?;
            }
            if let Some(said) = &failure.said {
                writeln!(f, "    {said}")?;
            }
        }
        for name in &self.unseen {
            writeln!(f, "  not reached: {name}")?;
        }
        Ok(())
    }
}
