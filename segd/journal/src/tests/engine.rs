//! The journal without its threads, as these tests open it.

use std::sync::Arc;

use bytes::Bytes;

use crate::config::JournalConfig;
pub use crate::engine::Engine;
use crate::recover::OpenReport;
use crate::sim::SimDisk;
use crate::{Entry, Lsn, OpenError};

pub type Replayed = Vec<(Lsn, Bytes)>;

/// Files of four blocks, so that a few entries fill one.
pub fn small_config() -> JournalConfig {
    JournalConfig {
        file_bytes: 5 * 4096,
        max_entry_bytes: 3 * 4096,
        queue_bytes: 64 << 10,
        keep_files: 3,
        fill_pause: std::time::Duration::ZERO,
        ..JournalConfig::new("unused")
    }
}

pub fn open(disk: &SimDisk, config: &JournalConfig) -> Result<(Engine, OpenReport, Replayed), OpenError> {
    let mut replayed = Vec::new();
    let (engine, report) = Engine::open(Arc::new(disk.clone()), config, |lsn, bytes| replayed.push((lsn, bytes)))?;
    Ok((engine, report, replayed))
}

impl Engine {
    pub fn write_and_sync(&mut self, entries: &[Entry]) {
        self.writer.write(entries).unwrap();
        self.writer.sync().unwrap();
    }
}
