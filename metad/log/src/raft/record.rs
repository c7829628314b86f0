//! What the member's journal holds: one record per entry, and what else must survive a crash.
//!
//! The first byte says which; the rest is postcard. The journal frames, checks and orders the records.

use super::types::{Entry, LogId, Vote};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;

/// One record of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// An entry at the end of the log. `committed` rides along so that it needs no sync of its own: after a restart the
    /// state machine starts that far on.
    Entry { committed: Option<LogId>, entry: Entry },
    /// The vote, durable before it is answered.
    Vote(Vote),
    /// Entries after this one are gone: another leader's log won.
    Truncate { after: Option<LogId> },
    /// What holds for the log as a whole, repeated at each purge so that the journal can drop all that came before.
    Base { vote: Option<Vote>, purged: Option<LogId>, committed: Option<LogId> },
}

impl Record {
    pub fn encode(&self) -> io::Result<Bytes> {
        postcard::to_allocvec(self).map(Bytes::from).map_err(io::Error::other)
    }

    pub fn decode(bytes: &[u8]) -> io::Result<Record> {
        postcard::from_bytes(bytes).map_err(|why| {
            io::Error::new(io::ErrorKind::InvalidData, format!("a record of the metadata log does not parse: {why}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::types::{Command, Types};
    use openraft::EntryPayload;
    use openraft::testing::log_id;

    #[test]
    fn records_survive_the_round_trip() {
        let id = log_id::<Types>(3, 1, 7);
        let entry = Entry { log_id: id, payload: EntryPayload::Normal(Command(Bytes::from_static(b"set"))) };
        let records = [
            Record::Entry { committed: Some(log_id::<Types>(2, 1, 6)), entry },
            Record::Vote(Vote::new(4, 2)),
            Record::Truncate { after: None },
            Record::Base { vote: Some(Vote::new_committed(4, 2)), purged: Some(id), committed: Some(id) },
        ];
        for record in records {
            let bytes = record.encode().unwrap();
            assert_eq!(Record::decode(&bytes).unwrap(), record);
            assert!(Record::decode(&bytes[..bytes.len() - 1]).is_err(), "a cut record is an error, never another one");
        }
    }
}
