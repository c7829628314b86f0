//! The journal without its threads: the caller decides when the supply of files is worked on.

use std::sync::Arc;

use bytes::Bytes;

use crate::config::JournalConfig;
use crate::health::Health;
use crate::ledger::Ledger;
use crate::pool::Pool;
use crate::recover::{OpenReport, recover};
use crate::sim::SimDisk;
use crate::stats::Counters;
use crate::writer::Writer;
use crate::{Entry, Lsn, OpenError};

pub struct Engine {
    pub writer: Writer,
    pub ledger: Arc<Ledger>,
    pub pool: Arc<Pool>,
    pub counters: Arc<Counters>,
}

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
    let found = recover(disk, config, &mut |lsn, bytes| replayed.push((lsn, bytes)))?;
    let (health, counters) = (Arc::new(Health::default()), Arc::new(Counters::default()));
    let pool = Arc::new(Pool::new(Arc::new(disk.clone()), config.clone(), health, counters.clone(), found.supply));
    pool.start(found.synced_through)?;
    let next_lsn = found.report.next_lsn;
    let ledger = Arc::new(Ledger::new(found.closed, next_lsn, found.synced_through));
    let writer = Writer::new(pool.clone(), ledger.clone(), counters.clone(), found.run, next_lsn);
    Ok((Engine { writer, ledger, pool, counters }, found.report, replayed))
}

impl Engine {
    pub fn write_and_sync(&mut self, entries: &[Entry]) {
        self.writer.write(entries).unwrap();
        self.writer.sync().unwrap();
    }
}
