//! What came of each bug, as lines.

use super::Caught;
use serde::Serialize;

/// One bug, and what found it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: &'static str,
    pub what: &'static str,
    pub caught: Caught,
    /// The rule that broke, or the line of code that noticed; empty when nothing did.
    pub breaks: String,
    /// The words of it.
    pub said: String,
    pub seconds: f64,
}

impl Row {
    pub fn is_caught(&self) -> bool {
        !matches!(self.caught, Caught::Nobody { .. })
    }

    pub fn line(&self) -> String {
        let how = match &self.caught {
            Caught::Campaign { seeds: 1, .. } => "campaign, 1 seed".to_owned(),
            Caught::Campaign { seeds, .. } => format!("campaign, {seeds} seeds"),
            Caught::Model { config, states } => format!("model ({config}), {states} states"),
            Caught::Nobody { seeds } => format!("NOT CAUGHT in {seeds} seeds"),
        };
        format!("| {} | {} | {how} | {} |", self.name, self.what, self.breaks)
    }
}

/// A table, as in the documents.
pub fn text(rows: &[Row]) -> String {
    let mut text = String::from("| bug | what is broken | caught by | what broke |\n| --- | --- | --- | --- |\n");
    rows.iter().for_each(|row| text += &(row.line() + "\n"));
    text
}
