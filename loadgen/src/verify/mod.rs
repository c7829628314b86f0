//! What `loadgen verify` is made of: clients that write down all they did and were told, and a hand that breaks things under
//! them. What is judged, and how, is `seam-history`; what is reported, `report::verify`.
//!
//! | module | what it is |
//! | --- | --- |
//! | `live` | how far the clients are, for whoever waits for them |
//! | `produce`, `follow`, `ask`, `read_back` | the clients: each returns its part of the history |
//! | `faults` | processes of a local cluster killed, frozen and started again |
//! | `outage` | from a kill to the next ack, found in the history |
//! | `compare` | topics and chains before and after |

pub mod ask;
pub mod compare;
pub mod faults;
pub mod follow;
pub mod live;
pub mod outage;
pub mod produce;
pub mod read_back;

/// Errors kept in words; all are counted.
const ERRORS_KEPT: usize = 20;

/// Errors that an application saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    pub count: u64,
    pub kept: Vec<String>,
}

impl Errors {
    pub fn add(&mut self, text: String) {
        tracing::warn!("{text}");
        self.count += 1;
        if self.kept.len() < ERRORS_KEPT {
            self.kept.push(text);
        }
    }

    pub fn merge(&mut self, other: Errors) {
        self.count += other.count;
        let room = ERRORS_KEPT.saturating_sub(self.kept.len());
        self.kept.extend(other.kept.into_iter().take(room));
    }
}
