//! The commands that talk to a cluster as any client does, through the SDK. One file a command; formatting beside it.

pub mod consume;
pub mod nodes;
pub mod produce;
pub mod roll;
pub mod topic;
mod topic_args;
mod topic_view;
