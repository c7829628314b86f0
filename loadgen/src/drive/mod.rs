//! Load on a target: a lane per topic, the generator's thread, the collectors of acks and deliveries. Decides nothing about
//! the figures; that is `measure`.

pub mod acks;
pub mod closed;
pub mod generator;
pub mod lane;
pub mod priority;
pub mod tails;
