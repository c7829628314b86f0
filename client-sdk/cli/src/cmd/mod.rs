//! The commands that talk to a cluster as any client does, through the SDK. One file a command; formatting beside it.

pub mod consume;
mod consume_group;
pub mod group;
pub mod nodes;
mod place;
pub mod produce;
pub mod range;
mod record_view;
pub mod roll;
pub mod topic;
mod topic_args;
mod topic_view;
