//! Group: the flushes that end together, with one flush of the drive and one or several records.
//!
//! ```text
//!  Gathering: what is not for the journal leaves ─► Flushing: the drive ─► Appending: a record of the rest ─┬─► answered, Gathering
//!       ▲                                                                    more is due, or space is short │
//!       └───────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! Invariant: one flush of the drive or one record is under way.

use super::cost::{Costs, Way};
use super::record::Record;
use pellucid_flash::{Nanos, SimTime};

/// Flushes that end together: the last write before them, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Flushes {
    pub barrier: u64,
    pub count: usize,
}

/// Progress of a group of flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Clusters that are not for the journal leave the buffer.
    #[default]
    Gathering,
    /// The drive is flushed, which makes their data durable.
    Flushing(Flushes),
    /// A record is being written.
    Appending(Flushes),
}

/// Group of flushes under way.
#[derive(Clone, Debug)]
pub(in super::super) struct Group {
    phase: Phase,
    /// Path of the current group; `None` until it is chosen.
    way: Option<Way>,
    /// Record under way; it has sectors of `written` clusters, and was sent at `sent`.
    under_way: Record,
    written: usize,
    sent: SimTime,
    costs: Costs,
}

impl Group {
    pub fn new() -> Group {
        Group {
            phase: Phase::Gathering,
            way: None,
            under_way: Record::default(),
            written: 0,
            sent: SimTime::ZERO,
            costs: Costs::default(),
        }
    }

    /// Reports whether clusters are still to leave the buffer.
    pub fn is_gathering(&self) -> bool {
        self.phase == Phase::Gathering
    }

    /// Reports whether the path of the group is to be chosen.
    pub fn may_choose(&self) -> bool {
        self.way.is_none() && self.is_gathering()
    }

    pub fn choose(&mut self, way: Way) {
        assert!(self.may_choose(), "the path of a group is chosen once");
        self.way = Some(way);
    }

    /// Returns the cheaper path for `clusters` clusters that would take `units` units of a record.
    pub fn cheaper(&mut self, clusters: u32, units: u32) -> Way {
        self.costs.choose(clusters, units)
    }

    /// Reports whether the group journals.
    pub fn journals(&self) -> bool {
        self.way == Some(Way::Journal)
    }

    /// Reports whether a cluster whose oldest unsafe write is `oldest` must stay in the buffer, because the group makes it durable.
    pub fn pins(&self, oldest: u64) -> bool {
        match self.phase {
            Phase::Flushing(flushes) | Phase::Appending(flushes) => oldest <= flushes.barrier,
            Phase::Gathering => false,
        }
    }

    pub fn flush(&mut self, flushes: Flushes) {
        assert!(self.is_gathering(), "a group is flushed twice");
        self.phase = Phase::Flushing(flushes);
    }

    /// Returns the flushes of the group whose drive was flushed.
    pub fn flushed(&self) -> Flushes {
        let Phase::Flushing(flushes) = self.phase else { unreachable!("it was flushed") };
        flushes
    }

    /// Notes that a record with sectors of `written` clusters is sent.
    pub fn append(&mut self, record: Record, written: usize, now: SimTime) {
        self.phase = Phase::Appending(self.flushed());
        (self.under_way, self.written, self.sent) = (record, written, now);
    }

    /// Returns the record under way.
    pub fn record(&self) -> &Record {
        &self.under_way
    }

    /// Ends the write of the record; returns it, and the flushes of the group.
    pub fn appended(&mut self, ok: bool, now: SimTime) -> (Record, Flushes) {
        let Phase::Appending(flushes) = self.phase else { unreachable!("it was written") };
        if ok {
            self.costs.journalled(self.written, self.under_way.units, now - self.sent);
        }
        (std::mem::take(&mut self.under_way), flushes)
    }

    /// Gathers clusters again, and chooses the path anew.
    pub fn gather(&mut self) {
        (self.phase, self.way) = (Phase::Gathering, None);
    }

    /// Notes the time in which a cluster with few sectors was drained.
    pub fn drained(&mut self, took: Nanos) {
        self.costs.drained(took);
    }

    /// Notes the time in which a journalled cluster was evicted for lack of space.
    pub fn retired(&mut self, took: Nanos) {
        self.costs.retired(took);
    }
}
