//! Core of a cluster buffer: the objects that the paths use, and what several of them ask of more than one object.

use super::bypasses::Bypasses;
use super::counters::ClusterBufferCounters;
use super::ends::Ends;
use super::evictions::{Evictions, Timer};
use super::journal::Journal;
use super::port::{Port, Purpose};
use super::requests::Requests;
use super::setup::Setup;
use super::table::{Cluster, State, Table};
use pellucid_flash::{Command, Completion, Lba, Nanos, Opcode, Status};

/// Divisor of a cluster: a flush pads a cluster if the buffer has at least this share of its sectors
/// (docs/explanation/clustering.md says how much that saves).
const HURRIED_SHARE: u64 = 2;

/// Logical clock: counts writes taken and arrivals of data on the drive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock(u64);

impl Clock {
    /// Returns the number of the last event.
    #[inline]
    pub fn last(self) -> u64 {
        self.0
    }

    /// Counts an event, and returns its number.
    #[inline]
    pub fn tick(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// Objects of a cluster buffer.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub setup: Setup,
    pub table: Table,
    pub requests: Requests,
    pub port: Port,
    pub evictions: Evictions,
    pub timer: Timer,
    pub bypasses: Bypasses,
    pub ends: Ends,
    pub journal: Option<Box<Journal>>,
    pub clock: Clock,
    pub counters: ClusterBufferCounters,
}

impl Core {
    pub fn new(setup: Setup) -> Core {
        let (config, shape, image_bytes) = (&setup.config, setup.shape, setup.image_bytes);
        let journal = config.journal.zip(shape.journal).map(|(asked, region)| {
            let cluster = config.cluster_sectors;
            Box::new(Journal::new(asked, region, config.sector_bytes, image_bytes, cluster))
        });
        Core {
            table: Table::new(shape, image_bytes),
            requests: Requests::new(shape),
            port: Port::new(config.namespace, config.cpu, image_bytes, setup.evictions()),
            evictions: Evictions::new(setup.evictions()),
            timer: Timer::new(config.idle_ns, config.age_ns),
            bypasses: Bypasses::default(),
            ends: Ends::default(),
            journal,
            clock: Clock::default(),
            counters: ClusterBufferCounters::default(),
            setup,
        }
    }

    /// Answers a request.
    #[inline]
    pub fn finish(&mut self, op: u32, status: Status) {
        self.finish_unmapped(op, status, 0);
    }

    /// Answers a read of which `unmapped` sectors have no data.
    #[inline]
    pub fn finish_unmapped(&mut self, op: u32, status: Status, unmapped: u32) {
        self.requests.finish(op, status, self.port.now(), unmapped);
    }

    /// Sends a flush to the drive.
    pub fn send_flush(&mut self, op: u32, purpose: Purpose) {
        self.port.send(op, purpose, Nanos::ZERO, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
    }

    /// Returns the journal where it is known to be one.
    pub fn its_journal(&mut self) -> &mut Journal {
        self.journal.as_mut().expect("a buffer with a journal")
    }

    // ---- what a cluster or a request may do

    /// Returns the number of the last write that must leave the buffer now; `None` if none must.
    #[inline]
    pub fn barrier(&self) -> Option<u64> {
        match self.ends.is_draining() || self.ends.is_paused() {
            true => Some(u64::MAX),
            false => self.requests.last_barrier(),
        }
    }

    /// Reports whether the buffer holds few sectors of a cluster.
    pub fn is_small(&self, cluster: &Cluster) -> bool {
        u64::from(cluster.valid) * HURRIED_SHARE < u64::from(self.setup.shape.length(cluster.number))
    }

    /// Reports whether a flush leaves this cluster to the journal.
    pub fn is_for_journal(&self, cluster: &Cluster) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.journals())
            && !self.ends.is_stopping()
            && !self.ends.is_paused()
            && self.is_small(cluster)
    }

    /// Reports whether a cluster must stay in the buffer because the current group is making it
    /// durable: neither an eviction nor a trim, which the drive may lose, may remove it.
    #[inline]
    pub fn is_pinned(&self, cluster: &Cluster) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.pins(cluster.oldest))
    }

    /// Reports whether a bypassing command in flight overlaps the clusters of a request.
    #[inline]
    pub fn is_passed_by(&self, op: u32) -> bool {
        if self.bypasses.is_empty() {
            return false;
        }
        let (first, last) = self.requests.clusters(op);
        self.bypasses.overlaps(first, last)
    }

    /// Reports whether a cluster must not be evicted now, because a command bypasses it or is the next to do
    /// so.
    pub fn is_blocked(&self, cluster: u64) -> bool {
        let next = self.requests.first_waiting().filter(|&op| !self.requests.is_buffered(op));
        let is_next = next.is_some_and(|op| {
            let (first, last) = self.requests.clusters(op);
            (first..=last).contains(&cluster)
        });
        is_next || self.bypasses.overlaps(cluster, cluster)
    }

    /// Returns the clusters that can be evicted.
    pub fn residents(&self) -> impl Iterator<Item = (u32, &Cluster)> {
        let may = |cluster: &Cluster| {
            cluster.state == State::Resident && !self.is_pinned(cluster) && !self.is_blocked(cluster.number)
        };
        self.table.used().filter(move |(_, cluster)| may(cluster))
    }

    /// Reports whether the buffer is empty and no command bypasses it.
    pub fn is_empty(&self) -> bool {
        self.table.held() == 0 && !self.requests.has_waiting() && self.bypasses.is_empty()
    }

    /// Computes the time at which the oldest cluster reaches its maximum age.
    pub fn find_age(&mut self) {
        let residents = self.table.used().filter(|(_, cluster)| cluster.state == State::Resident);
        self.timer.find_age(residents.map(|(_, cluster)| cluster));
    }

    // ---- what reads and bypasses share

    /// Replaces sectors of the answer with those in the buffer; returns their number.
    pub fn overlay(&mut self, op: u32) -> u32 {
        if self.table.held() == 0 {
            return 0;
        }
        let command = self.requests.command_mut(op);
        let replaced = self.table.overlay(command.lba.0, &mut command.data);
        self.counters.overlaid(replaced);
        replaced
    }

    /// Takes the sectors of a completion into its request.
    pub fn take_data(&mut self, op: u32, completion: &mut Completion) {
        self.requests.put_data(op, std::mem::take(&mut completion.data));
    }
}
