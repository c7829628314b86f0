//! The watch of metad's views, at those who watch: opened at one member, resumed at another by version.

use super::World;
use super::event::{Proc, What};
use super::net::{Frame, PipeId};
use seam_wire::meta::MetaUpdate;

#[derive(Debug, Default)]
pub struct Watcher {
    pub pipe: Option<PipeId>,
    pub version: u64,
    member: u8,
}

impl Watcher {
    /// Whether this update is news from the member that is watched.
    pub fn takes(&mut self, pipe: PipeId, update: &MetaUpdate) -> bool {
        let news = self.pipe == Some(pipe) && (update.version > self.version || update.reset);
        if news {
            self.version = update.version;
        }
        news
    }
}

impl World {
    fn watcher(&mut self, who: Proc) -> Option<&mut Watcher> {
        match who {
            Proc::Segd(n) => Some(&mut self.segds[usize::from(n)].watcher),
            Proc::Router(n) => Some(&mut self.routers[usize::from(n)].watcher),
            Proc::Metad(_) | Proc::Client(_) => None,
        }
    }

    pub(super) fn open_watch(&mut self, who: Proc) {
        let members = self.plan.sizes.metads;
        let turn = u8::try_from(self.dice(who).below(u64::from(members))).expect("below a u8");
        let Some(watcher) = self.watcher(who).filter(|watcher| watcher.pipe.is_none()) else { return };
        watcher.member = (watcher.member + 1 + turn) % members;
        let (member, after) = (watcher.member, watcher.version);
        let pipe = self.open_pipe(who, Proc::Metad(member));
        if let Some(watcher) = self.watcher(who) {
            watcher.pipe = Some(pipe);
        }
        self.send(pipe, who, Frame::Watch { after });
    }

    /// If it was the watch that broke, it is opened again soon.
    pub(super) fn watch_gone(&mut self, who: Proc, pipe: PipeId) {
        let Some(watcher) = self.watcher(who) else { return };
        if watcher.pipe == Some(pipe) {
            watcher.pipe = None;
            let at = self.now + self.dice(who).between(1_000, 20_000);
            self.at(at, who, What::Watch);
        }
    }
}
