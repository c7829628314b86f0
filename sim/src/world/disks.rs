//! What happens to the disks under segd processes: syncs and their ends, errors, and disks that are lost and replaced.

use super::World;
use super::disk::Disk;
use super::event::{Act, Proc, What};
use super::rng::Rng;
use super::sectors::Sectors;
use super::sometimes::Sometimes;
use seam_wire::SegmentId;
use segd_core::io::Input;

/// However slow a disk is, a sync ends: what lasts longer is a failed disk, and another fault.
const SYNC_AT_MOST_US: u64 = 1_500_000;

impl World {
    /// An empty disk takes the place of the one that was there. Its process is down.
    pub(super) fn lose_disk(&mut self, n: u8) {
        self.stats.disks_lost += 1;
        let youngest = self.youngest();
        let disk = self.new_disk(n);
        let segd = self.segd(n);
        segd.disk = disk;
        segd.disk_failed = false;
        segd.lost_through = Some(youngest);
    }

    /// The youngest segment that was planned so far.
    pub(super) fn youngest(&self) -> SegmentId {
        SegmentId(self.metad.meta.next_segment().0.saturating_sub(1))
    }

    pub(super) fn new_disk(&mut self, n: u8) -> Disk {
        self.disks_made += 1;
        let lane = 1_000 + 256 * self.disks_made + u64::from(n);
        let sectors = self.plan.disk.sectors.then(|| Box::new(Sectors::new(Rng::new(self.plan.seed, lane))));
        Disk::new(sectors)
    }

    /// The journal failed, for this life of the process. Somebody starts it anew, and the disk is as good as ever.
    pub(super) fn journal_fails(&mut self, n: u8) {
        if !self.segd(n).journal_failed && !self.segd(n).disk_failed {
            self.segd(n).journal_failed = true;
            self.stats.reached.hit(Sometimes::JournalFails);
            let at = self.now + self.dice(Proc::Segd(n)).between(1_000, 500_000);
            let life = self.state(Proc::Segd(n)).life;
            self.act_at(at, Act::Renew { node: n, life });
            self.segd_input(n, Input::JournalFailed);
        }
    }

    /// A sync failed. The process lives on and says so; its disk acks nothing any more.
    pub(super) fn fail_disk(&mut self, n: u8) {
        if self.runs(Proc::Segd(n)) && !self.segd(n).disk_failed {
            self.segd(n).disk_failed = true;
            self.segd_input(n, Input::JournalFailed);
        }
    }

    pub(super) fn tell_completed(&mut self, n: u8) {
        if let Some(token) = self.segd(n).disk.completed() {
            self.segd_input(n, Input::Persisted { token });
        }
    }

    pub(super) fn start_sync(&mut self, n: u8) {
        let plan = self.plan.disk.clone();
        let dice = self.dice(Proc::Segd(n));
        let mut latency = dice.between(plan.sync_min_us, plan.sync_max_us);
        if dice.chance(plan.slow_ppm) {
            latency += dice.between(0, plan.slow_us);
        }
        let segd = self.segd(n);
        let (begun, slow) = (segd.disk.begin_sync(), segd.slow);
        let Ok(entries) = begun else { return self.at(self.now + 1, Proc::Segd(n), What::JournalFailed) };
        let latency = (latency * slow).min(SYNC_AT_MOST_US);
        self.at(self.now + latency, Proc::Segd(n), What::Synced { entries });
    }
}
