//! The journal without its threads: the caller decides when it writes, syncs and works on the supply of files. For simulators
//! and tests, on the simulated disk, where every run must repeat; the services use [`crate::Journal`].

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::config::JournalConfig;
use crate::disk::Disk;
use crate::health::Health;
use crate::ledger::Ledger;
use crate::pool::Pool;
use crate::recover::{OpenReport, recover};
use crate::stats::Counters;
use crate::writer::Writer;
use crate::{Entry, JournalError, Lsn, OpenError};

/// Writer, ledger and pool of one open journal. After an error nothing of it may be used again.
pub struct Engine {
    pub(crate) writer: Writer,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) pool: Arc<Pool>,
    #[cfg(test)]
    pub(crate) counters: Arc<Counters>,
}

impl Engine {
    /// As [`crate::Journal::open_on`].
    pub fn open(
        disk: Arc<dyn Disk>,
        config: &JournalConfig,
        mut replay: impl FnMut(Lsn, Bytes),
    ) -> Result<(Engine, OpenReport), OpenError> {
        config.validate()?;
        let found = recover(&*disk, config, &mut replay)?;
        let (health, counters) = (Arc::new(Health::default()), Arc::new(Counters::default()));
        let pool = Arc::new(Pool::new(disk, config.clone(), health, counters.clone(), found.supply));
        pool.start(found.synced_through)?;
        let next_lsn = found.report.next_lsn;
        let ledger = Arc::new(Ledger::new(found.closed, next_lsn, found.synced_through));
        let writer = Writer::new(pool.clone(), ledger.clone(), counters.clone(), found.run, next_lsn);
        let engine = Engine {
            writer,
            ledger,
            pool,
            #[cfg(test)]
            counters,
        };
        Ok((engine, found.report))
    }

    /// Writes entries, in order, in as few groups as the files allow.
    pub fn write(&mut self, entries: &[Entry]) -> io::Result<()> {
        self.writer.write(entries)
    }

    /// Makes everything written durable.
    pub fn sync(&mut self) -> io::Result<()> {
        self.writer.sync()
    }

    /// Everything before `before` is no longer needed.
    pub fn release(&self, before: Lsn) {
        self.ledger.release(before, &self.pool);
    }

    /// Does one piece of the work that waits for the supply of files; `false` if there is none.
    pub fn supply(&self) -> Result<bool, JournalError> {
        self.pool.work_once()
    }
}
