//! metad's mind: the replicated state machine and the leader's decisions, without I/O.
//!
//! Two halves that never mix. [`Meta`] is a function of the committed log alone (R11): it reads no clock, draws no
//! number, and replaying the log gives the same bytes. [`Driver`] is what the leader of the moment knows and wants:
//! who was heard when, who asked for what. It is soft state, lost at each change of leader and derived again from
//! [`Meta`] and from reports that are repeated until answered.
//!
//! Not here: Raft, gRPC, timers, disks. See `docs/` for the roll protocol whose rules R1-R15 are asserted here.

mod command;
pub mod driver;
mod history;
mod limits;
pub mod placement;
mod state;
mod tick;

pub use command::{Command, Outcome, Refusal, RollBy};
pub use driver::{
    Admin, Answer, Driver, Effect, Input, NodeReport, ReplyId, SessionId, Step, Token, TopicPatch, Waits,
};
pub use history::{OpeningStats, RecoveryCause, RecoveryStats, RollRecord};
pub use limits::{Limits, Timing};
pub use state::{Applied, Counters, Kept, Meta, RangeView, RestoreError, Violation};
pub use tick::Tick;
