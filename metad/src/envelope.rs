//! A command as it stands in the log: with the mark of who proposed it, so that its answer finds the way back.

use bytes::Bytes;
use metad_core::{Command, Token};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// First byte of an entry. Raised when the layout changes.
const FORMAT: u8 = 1;

/// One life of one member, drawn at random at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin(pub u64);

/// An entry. Only `command` means anything to the state (R11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub origin: Origin,
    pub token: u64,
    pub command: Command,
}

/// An entry this build cannot read.
#[derive(Debug, Error)]
pub enum EnvelopeError {
    #[error("a log entry of format {0:?}, this build reads {FORMAT}; run the build that wrote it")]
    Format(Option<u8>),
    #[error("a log entry does not parse: {0}; run the build that wrote it")]
    Decode(postcard::Error),
}

impl Envelope {
    pub fn new(origin: Origin, token: Token, command: Command) -> Self {
        Envelope { origin, token: token.0, command }
    }

    pub fn encode(&self) -> Bytes {
        postcard::to_extend(self, vec![FORMAT]).map(Bytes::from).expect("plain data in memory always encodes")
    }

    pub fn decode(bytes: &[u8]) -> Result<Envelope, EnvelopeError> {
        match bytes.split_first() {
            Some((&FORMAT, body)) => postcard::from_bytes(body).map_err(EnvelopeError::Decode),
            other => Err(EnvelopeError::Format(other.map(|(format, _)| *format))),
        }
    }

    /// The driver's token, if it was this life of this member that proposed.
    pub fn token_of(&self, origin: Origin) -> Option<Token> {
        (self.origin == origin).then_some(Token(self.token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seam_wire::SegmentId;

    #[test]
    fn the_token_is_for_its_own_life_alone() {
        let command = Command::AskRelease { segment: SegmentId(7) };
        let envelope = Envelope::new(Origin(1), Token(9), command);
        let read = Envelope::decode(&envelope.encode()).unwrap();
        assert_eq!(read, envelope);
        assert_eq!(read.token_of(Origin(1)), Some(Token(9)));
        assert_eq!(read.token_of(Origin(2)), None);
        assert!(Envelope::decode(&[]).is_err());
        assert!(Envelope::decode(&[FORMAT + 1, 0, 0]).is_err());
    }
}
