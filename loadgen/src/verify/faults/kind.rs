//! The faults, by name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One way to break a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    KillPrimary,
    KillFollower,
    /// The primary of a candidate that was just reported ready.
    KillReadySuccessor,
    /// The primary of a segment that was just begun.
    KillBegunSuccessor,
    /// The primary, and then the agent that recovers its segment, as soon as it is appointed.
    KillAgent,
    KillMetadLeader,
    /// Each router in turn.
    KillRouter,
    /// Every process at once; then all are started.
    KillAll,
    /// The primary is frozen, comes back, and finds that it is a zombie.
    PausePrimary,
}

impl Kind {
    /// In the order in which `all` plays them.
    pub const ALL: [Kind; 9] = [
        Kind::KillPrimary,
        Kind::KillFollower,
        Kind::KillReadySuccessor,
        Kind::KillBegunSuccessor,
        Kind::KillAgent,
        Kind::KillMetadLeader,
        Kind::KillRouter,
        Kind::KillAll,
        Kind::PausePrimary,
    ];

    /// As on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::KillPrimary => "kill-primary",
            Kind::KillFollower => "kill-follower",
            Kind::KillReadySuccessor => "kill-ready-successor",
            Kind::KillBegunSuccessor => "kill-begun-successor",
            Kind::KillAgent => "kill-agent",
            Kind::KillMetadLeader => "kill-metad-leader",
            Kind::KillRouter => "kill-router",
            Kind::KillAll => "kill-all",
            Kind::PausePrimary => "pause-primary",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// `kill-primary,kill-router`, or `all`. Errors name what would do.
pub fn parse_kinds(text: &str) -> Result<Vec<Kind>, String> {
    let mut kinds = Vec::new();
    for word in text.split(',') {
        match Kind::ALL.into_iter().find(|kind| kind.name() == word) {
            Some(kind) => kinds.push(kind),
            None if word == "all" => kinds.extend(Kind::ALL),
            None => {
                let names: Vec<&str> = Kind::ALL.into_iter().map(Kind::name).collect();
                return Err(format!("{word:?} is no fault; there are {} and all", names.join(", ")));
            }
        }
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in Kind::ALL {
            assert_eq!(parse_kinds(kind.name()), Ok(vec![kind]));
            assert_eq!(serde_json::to_value(kind).expect("a word"), kind.name());
        }
        assert_eq!(parse_kinds("kill-router,kill-agent"), Ok(vec![Kind::KillRouter, Kind::KillAgent]));
        assert_eq!(parse_kinds("all").map(|all| all.len()), Ok(Kind::ALL.len()));
        assert!(parse_kinds("kill-primry").expect_err("no such fault").contains("kill-primary, kill-follower"));
    }
}
