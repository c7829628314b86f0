//! The engine as the log's state machine.

use crate::engine::Engine;
use bytes::Bytes;
use metad_log::{RestoreError, StateMachine};
use std::sync::Arc;

pub struct Machine(pub Arc<Engine>);

impl StateMachine for Machine {
    fn apply(&mut self, _index: u64, command: &[u8]) -> Bytes {
        self.0.apply(command);
        // Whoever proposed it hears from the driver.
        Bytes::new()
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.snapshot()
    }

    fn restore(&mut self, _index: u64, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.0.restore(snapshot).map_err(|why| RestoreError(why.to_string()))
    }
}
