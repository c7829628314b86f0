//! One state: N's primary and replicas, the successors' primaries, the agents, metad, the network.

use super::config::{Config, MetadKind};
use super::ghost::Ghost;
use super::layout::{EPOCHS, Layout, M, N, P_NODE, REPLICAS, SITES, SPARE, START, SUCCESSORS};
use super::message::{Msg, Net, Records};
use super::metad::{Facts, Metad};
use super::shared::Shared;
use super::site::{Done, Site};
use seam_wire::meta::Binder;
use seam_wire::{Epoch, NodeId, Offset, SegmentId};
use segd_core::handoff::Handoff;
use segd_core::primary::Primary;
use segd_core::recovery::Agent;
use segd_core::replica::{Replica, WriteRequest};

/// N's primary in one life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    pub machine: Primary,
    pub handoff: Handoff,
    /// What stands at `START` and after, as this life sees it.
    pub log: Records,
    pub begin_sent: bool,
    pub life: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub sites: [Shared<Site>; REPLICAS],
    /// `None`: its process ended.
    pub writer: Option<Shared<Writer>>,
    pub successors: [Option<Shared<Primary>>; SUCCESSORS],
    /// M's replicas in a chain. They fail in no configuration, and hear everything at once.
    pub m_replicas: Option<Shared<Vec<Replica>>>,
    pub agents: [Option<Shared<Agent>>; EPOCHS],
    /// Epochs whose agent's process ended, by bit.
    pub fallen: u8,
    pub metad: Shared<Metad>,
    pub facts: Facts,
    pub net: Net,
    pub ghost: Shared<Ghost>,
    pub crashes: u8,
    pub lost_disks: u8,
}

/// The primary of a candidate, open on all its replicas.
pub fn ready(layout: &Layout, segment: SegmentId) -> Primary {
    let spec = layout.spec(segment);
    let mut machine = Primary::new(&spec, layout.gate(segment));
    spec.replicas.iter().for_each(|node| {
        machine.opened(*node);
    });
    machine
}

/// What a primary knows of its candidates when it is told.
pub fn tell_candidate(handoff: &mut Handoff, layout: &Layout, segment: SegmentId) {
    let spec = layout.spec(segment);
    handoff.update(segment, spec.attempt, spec.primary(), spec.replicas.len(), spec.replicas.len());
    handoff.answers(segment, true);
}

fn first_writer(layout: &Layout) -> Writer {
    let spec = layout.spec(N);
    let mut machine = Primary::new(&spec, layout.open_gate());
    spec.replicas.iter().for_each(|node| {
        machine.opened(*node);
    });
    machine.begin(spec.prior, Binder::Primary, START).expect("R13: begun by its binder");
    let mut handoff = Handoff::default();
    tell_candidate(&mut handoff, layout, M);
    Writer { machine, handoff, log: Records::default(), begin_sent: false, life: 0 }
}

impl World {
    /// N is open and empty, M (and the spare) stand ready and have asked for N's seal entry.
    pub fn first(config: &Config) -> World {
        let layout = &config.layout;
        let mut watchers = vec![(layout.spec(M).primary(), M)];
        if layout.release {
            watchers.push((layout.spec(SPARE).primary(), SPARE));
        }
        let mut sites = SITES.map(|_| Site::new(watchers.clone()));
        let mut writer = first_writer(layout);
        // A primary's own replica has its start with the begin.
        let request = WriteRequest { epoch: Epoch::PRIMARY, start: START, base: START, next: START, seal: None };
        sites[0].write(request, Records::default());
        if let Done::Stored { stored: Some(stored), .. } = sites[0].synced(0) {
            writer.machine.stored(P_NODE, stored.durable_end, stored.sealed);
        }
        let mut successors = [const { None }; SUCCESSORS];
        successors[layout.slot(M)] = Some(Shared::new(ready(layout, M)));
        if layout.has_spare() {
            successors[layout.slot(SPARE)] = Some(Shared::new(ready(layout, SPARE)));
        }
        let m_replicas = layout.chain.then(|| {
            let mut replicas = vec![Replica::new(M); usize::from(layout.ack_quorum)];
            let k = layout.spec(SPARE).primary();
            replicas.iter_mut().for_each(|replica| {
                replica.subscribe(k, SPARE);
            });
            Shared::new(replicas)
        });
        let metad = match config.metad {
            MetadKind::Real => Metad::real(layout),
            MetadKind::Register => Metad::register(),
        };
        let mut net = Net::default();
        if config.all_frames {
            let records = Records::default();
            net.insert(Msg::Replicate { epoch: Epoch::PRIMARY, base: START, records, seal: None });
        }
        if layout.release {
            net.insert(Msg::SpareReady);
        }
        World {
            sites: sites.map(Shared::new),
            writer: Some(Shared::new(writer)),
            successors,
            m_replicas,
            agents: [const { None }; EPOCHS],
            fallen: 0,
            facts: metad.facts(),
            metad: Shared::new(metad),
            net,
            ghost: Shared::new(Ghost::default()),
            crashes: config.crashes,
            lost_disks: config.lost_disks,
        }
    }

    pub fn site(&self, node: NodeId) -> &Site {
        &self.sites[node.0 as usize - 1]
    }

    pub fn agent(&self, epoch: Epoch) -> Option<&Agent> {
        self.agents.get((epoch.0 as usize).wrapping_sub(1))?.as_deref()
    }

    /// Disks of N that hold this record, and those that were lost.
    pub fn holders(&self, offset: Offset, record: u8) -> (usize, usize) {
        let holds = self.sites.iter().filter(|site| site.record(offset) == Some(record)).count();
        (holds, self.sites.iter().filter(|site| site.lost).count())
    }
}
