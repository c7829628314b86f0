//! What an operator wants to read in the log of the leader: nodes that come and go, recoveries and how they end.

use metad_core::{Command, Outcome, RollBy};

/// Tells of a command that took effect.
pub fn tell(command: &Command, outcome: &Outcome) {
    if matches!(outcome, Outcome::Refused { .. }) {
        return;
    }
    match (command, outcome) {
        (Command::RegisterNode { id, incarnation, .. }, _) => {
            tracing::info!(node = %id, %incarnation, "a node came up")
        }
        (Command::SetNodeState { id, state, .. }, _) => tracing::info!(node = %id, ?state, "a node's state changed"),
        (Command::Recover { segment, agent, .. }, Outcome::Appointed { epoch, candidate }) => {
            tracing::info!(%segment, %agent, %epoch, %candidate, "a recovery begins");
        }
        (Command::CommitRoll { segment, end, next, by: RollBy::Recovery(epoch), .. }, _) => {
            tracing::info!(%segment, %end, %next, %epoch, "recovered");
        }
        (Command::MarkReady { segment, open_on, .. }, _) => tracing::debug!(%segment, ?open_on, "ready"),
        (
            Command::CreateTopic { .. }
            | Command::AlterTopic { .. }
            | Command::DeleteTopic { .. }
            | Command::PrepareRoot { .. }
            | Command::Prepare { .. }
            | Command::AskRelease { .. }
            | Command::Released { .. }
            | Command::Recover { .. }
            | Command::CommitRoll { .. }
            | Command::ConfirmReclaimed { .. }
            | Command::Trim { .. }
            | Command::RequestRoll { .. }
            | Command::GateOpened { .. }
            | Command::RollRecorded { .. },
            _,
        ) => {}
    }
}
