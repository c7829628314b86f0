//! The report: the JSON contract, the claims that are judged on it, and the table for people.

pub mod claims;
pub mod contract;
pub mod table;
pub mod words;
