//! A state machine that remembers everything, and lets the test look.

use bytes::Bytes;
use metad_log::{RestoreError, StateMachine};
use parking_lot::Mutex;
use std::sync::Arc;

/// What one life of a member's state machine went through.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    commands: Vec<(u64, Vec<u8>)>,
    restored_at: Vec<u64>,
    last_index: u64,
}

impl Seen {
    /// Commands with their indexes, from the beginning of the log.
    pub fn commands(&self) -> Vec<(u64, Vec<u8>)> {
        self.0.lock().commands.clone()
    }

    pub fn count(&self) -> usize {
        self.0.lock().commands.len()
    }

    /// Indexes of the snapshots that this life was given.
    pub fn restored_at(&self) -> Vec<u64> {
        self.0.lock().restored_at.clone()
    }

    /// The whole state as bytes.
    pub fn state(&self) -> Vec<u8> {
        postcard::to_allocvec(&self.0.lock().commands).unwrap()
    }
}

pub struct Recorder(pub Seen);

impl StateMachine for Recorder {
    fn apply(&mut self, index: u64, command: &[u8]) -> Bytes {
        let mut seen = self.0.0.lock();
        assert!(index > seen.last_index, "index {index} applied after {}", seen.last_index);
        seen.last_index = index;
        seen.commands.push((index, command.to_vec()));
        Bytes::from(format!("{}:{}", seen.commands.len(), String::from_utf8_lossy(command)))
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.state()
    }

    fn restore(&mut self, index: u64, snapshot: &[u8]) -> Result<(), RestoreError> {
        let mut seen = self.0.0.lock();
        seen.commands = postcard::from_bytes(snapshot).map_err(|why| RestoreError(why.to_string()))?;
        seen.last_index = index;
        seen.restored_at.push(index);
        Ok(())
    }
}
