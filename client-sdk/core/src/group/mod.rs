//! Consumer groups. A group is a log: a topic of one range in which members write what they do, and which each of them folds
//! into the same state. There is no coordinator that could fail.
//!
//! | module | is |
//! | --- | --- |
//! | [`entry`] | what stands in the log |
//! | [`state`] | the fold: members, generation, owners, committed offsets |
//! | [`assign`] | who gets which range |
//! | [`replay`] | the fold from a log whose beginning may be gone |
//! | [`watch`] | who was silent for too long |
//! | [`member`] | one member: joins, lives, commits, hands over, leaves |

pub mod assign;
pub mod entry;
pub mod member;
pub mod replay;
pub mod state;
pub mod watch;

/// Names of the topics that hold groups begin so; the group's name follows.
pub const TOPIC_PREFIX: &str = "seam.group.";

/// The topic that holds the group's log.
pub fn topic_of(group: &str) -> String {
    format!("{TOPIC_PREFIX}{group}")
}

/// The group whose log the topic holds, if it holds one.
pub fn group_of(topic: &str) -> Option<&str> {
    topic.strip_prefix(TOPIC_PREFIX)
}
