//! What a run says: the JSON contract, the claims, the tables.

pub mod claims;
pub mod contract;
pub mod table;
pub mod verify;
pub mod verify_table;
pub mod words;
