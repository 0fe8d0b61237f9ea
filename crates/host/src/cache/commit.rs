//! Commits: what flushes make durable, and the order of their steps.
//!
//! ```text
//!  flush ─► flush of the flash and of the backing store ─► block backend: records, by force ─► answered
//! ```
//! One commit runs at a time; flushes that arrive meanwhile share the next. Records of blocks that became
//! clean have their own commit, which needs no flush before it.

use super::Flushes;
use super::core::{Core, Effect};
use super::op::{Part, Purpose, Side};
use super::records::Records;
use pellucid_flash::Status;
use pellucid_flash::slab::NIL;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Flush,
    Records,
}

/// The current commit, and the operations waiting for the next.
#[derive(Clone, Debug)]
pub(super) struct Commits {
    phase: Phase,
    /// Operations that wait for the next commit.
    waiting: Vec<u32>,
    /// Operations of the commit under way.
    ops: Vec<u32>,
    /// Number of flushes, and then of record sectors, under way.
    left: u32,
    failed: Option<Status>,
    /// True for the flash, and for the backing store, if it was written since its last flush began.
    changed: [bool; 2],
    /// Records of clean blocks need writing.
    wanted: bool,
    /// The next commit flushes both drives, for a stop.
    everything: bool,
}

impl Default for Commits {
    fn default() -> Commits {
        Commits {
            phase: Phase::Idle,
            waiting: Vec::new(),
            ops: Vec::new(),
            left: 0,
            failed: None,
            // Writes of an earlier life may not be on the media.
            changed: [true; 2],
            wanted: false,
            everything: false,
        }
    }
}

impl Commits {
    /// Adds an operation to the next commit.
    pub fn wait(&mut self, op: u32) {
        self.waiting.push(op);
    }

    /// Notes what the next commit must make durable.
    #[inline]
    pub fn note(&mut self, effect: Effect) {
        match effect {
            Effect::FlashChanged => self.changed[0] = true,
            Effect::BackingChanged => self.changed[1] = true,
            Effect::RecordsWanted => self.wanted = true,
            Effect::Dirtied | Effect::Full(_) => {}
        }
    }

    /// Makes the next commit flush both drives, for a stop.
    pub fn flush_all(&mut self) {
        (self.everything, self.changed, self.failed) = (true, [true; 2], None);
    }

    /// Reports whether the last commit failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Reports whether no commit runs or waits.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && !self.is_due()
    }

    /// Reports whether the next commit can begin.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.phase == Phase::Idle && (!self.waiting.is_empty() || self.wanted || self.everything)
    }

    /// Begins a commit. Returns whether it has ended already.
    pub fn begin(&mut self, core: &mut Core, records: &mut Records) -> bool {
        assert!(self.is_due() && self.ops.is_empty() && self.left == 0, "one commit at a time");
        self.wanted = false;
        self.failed = None;
        std::mem::swap(&mut self.waiting, &mut self.ops);
        self.phase = Phase::Flush;
        let everything = std::mem::take(&mut self.everything);
        if self.ops.is_empty() && !everything {
            return self.begin_records(core, records);
        }
        core.blocks.begin_flush();
        let changed = std::mem::take(&mut self.changed);
        for (side, purpose) in [(Side::Flash, Purpose::FlushFlash), (Side::Backing, Purpose::FlushBacking)] {
            let is_frozen = core.ends.is_read_only() && side == Side::Flash;
            if !changed[usize::from(side == Side::Backing)] || is_frozen {
                continue;
            }
            let reached = match core.shape.config.flushes {
                Flushes::Both => true,
                Flushes::Flash => side == Side::Flash,
                Flushes::None => false,
            };
            if !reached && !everything {
                self.changed[usize::from(side == Side::Backing)] = true;
                continue;
            }
            if side == Side::Backing {
                core.blocks.begin_flush_below(core.requests.now());
            }
            self.left += 1;
            core.requests.send_flush(side, Part { op: NIL, purpose, ..Part::default() });
        }
        self.left == 0 && self.begin_records(core, records)
    }

    /// Handles the end of a flush. Returns whether the commit has ended.
    pub fn flushed(
        &mut self,
        core: &mut Core,
        records: &mut Records,
        purpose: Purpose,
        status: Status,
    ) -> bool {
        assert!(self.phase == Phase::Flush && self.left > 0, "a flush ends that no commit waits for");
        let is_backing = purpose == Purpose::FlushBacking;
        if status != Status::Success {
            self.failed.get_or_insert(status);
            self.changed[usize::from(is_backing)] = true;
        }
        match (is_backing, status) {
            (true, Status::Success) => core.blocks.flushed_below(),
            (true, _) => core.requests.count().backing_write_failed(),
            (false, Status::Success) => {}
            (false, _) => core.requests.count().flash_write_failed(),
        }
        self.left -= 1;
        self.left == 0 && self.begin_records(core, records)
    }

    /// Queues the records of data that both drives have flushed. Returns whether the commit has ended, as there are none.
    fn begin_records(&mut self, core: &mut Core, records: &mut Records) -> bool {
        self.phase = Phase::Records;
        if !core.shape.is_ssc() && !core.ends.is_read_only() {
            self.left = records.queue_commit(core, self.failed.is_none());
        }
        self.left == 0
    }

    /// Notes that a record sector was written. Returns whether the commit has ended.
    pub fn record_written(&mut self, status: Status) -> bool {
        if status != Status::Success {
            self.failed.get_or_insert(status);
        }
        if self.phase != Phase::Records {
            return false;
        }
        assert!(self.left > 0, "a record was written that no commit waits for");
        self.left -= 1;
        self.left == 0
    }

    /// Ends the commit. Returns its operations, and the error of all; [`Commits::put_ops`] brings the empty list back.
    pub fn end(&mut self) -> (Vec<u32>, Option<Status>) {
        assert!(self.phase == Phase::Records && self.left == 0, "all records are written");
        self.phase = Phase::Idle;
        (std::mem::take(&mut self.ops), self.failed)
    }

    pub fn put_ops(&mut self, ops: Vec<u32>) {
        assert!(ops.is_empty() && self.ops.is_empty(), "no commit began meanwhile");
        self.ops = ops;
    }
}
