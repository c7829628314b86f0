//! The ten checks, a file each. Each reads the index and adds what it finds; none depends on another's findings.

pub mod chain;
pub mod committed;
pub mod content;
pub mod contiguous;
pub mod gaps;
pub mod known;
pub mod monotone;
pub mod present;
pub mod real_time;
pub mod session;

use crate::history::{Delivery, History};
use crate::violation::Source;

/// Every delivery of every reader, the final read last.
fn readers(history: &History) -> impl Iterator<Item = (Source, &Delivery)> {
    let tails = history
        .tails
        .iter()
        .flat_map(|tail| tail.deliveries().map(move |delivery| (Source::Tail(tail.client), delivery)));
    tails.chain(history.final_read.deliveries.iter().map(|delivery| (Source::FinalRead, delivery)))
}
