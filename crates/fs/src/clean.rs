//! The cleaner, and other background work.
//!
//! A victim's headers name the owners of its blocks; the tree says which of these live. A live block is read and made dirty: the next
//! commit writes it elsewhere, the next checkpoint frees the segment. Blocks whose write failed are moved in the same way.

use super::Fs;
use super::batch::{Header, Owner};
use super::block::SharedBlock;
use super::jobs::JobError;
use super::log::State;
use super::mount::{CleanerPolicy, Phase};
use super::stop::Stop;
use super::types::{Ino, Time};
use pellucid_flash::Nanos;
use std::collections::VecDeque;

/// A step of what goes on in the background.
type BackgroundStep = fn(&mut Fs) -> Result<(), Stop>;

/// All of them, in order.
const STEPS: [BackgroundStep; 6] =
    [Fs::settle_names, Fs::take_moves, Fs::reap_some, Fs::clean, Fs::commit_if_due, Fs::checkpoint_if_due];

/// Blocks that a step looks at.
const STEP: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Victim {
    segment: u32,
    /// When it was chosen.
    since: Time,
    /// Where its next header is.
    next: u32,
    /// Number of blocks from there on that were searched for a copy without finding one.
    ahead: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cleaner {
    victim: Option<Victim>,
    moving: VecDeque<(u64, Owner)>,
    /// Blocks whose write failed are among these.
    rescues: bool,
    /// Segments cleaned since the last checkpoint: what lived in them is dirty.
    cleaned: Vec<u32>,
    /// Blocks that an operation waits for, beside what is dirty already.
    asked: u64,
}

impl Cleaner {
    /// Returns whether blocks that lie nowhere are still to be moved.
    pub fn is_rescuing(&self) -> bool {
        self.rescues
    }

    pub fn is_at_rest(&self) -> bool {
        self.moving.is_empty() && self.victim.is_none()
    }

    /// Gives up a victim; blocks that lie nowhere are moved all the same.
    pub fn stop(&mut self) {
        self.victim = None;
        if !self.rescues {
            self.moving.clear();
        }
    }

    /// An operation needs this many blocks of the log: the cleaner does not rest before they are there.
    pub fn ask(&mut self, blocks: u64) {
        self.asked = blocks;
    }

    pub fn checkpoint_is_built(&mut self) {
        self.cleaned.clear();
    }
}

impl Fs {
    /// Goes on with whatever is under way.
    pub(super) fn work(&mut self) {
        match self.phase {
            Phase::Mounting(_) => return self.mount_on(),
            Phase::Ready | Phase::Unmounting => {}
            _ => return,
        }
        // What is written may need a flash block that is being handed out.
        let steps = if self.wants_segment() { STEPS.len() - 2 } else { STEPS.len() };
        for step in STEPS.into_iter().take(steps) {
            let result = step(self);
            self.bury();
            match result {
                Ok(()) | Err(Stop::Data | Stop::Room) => {}
                // The next step that needs it is told so.
                Err(Stop::Miss(miss)) => {
                    if self.want_node(miss).is_err() {
                        self.degrade();
                    }
                }
                Err(Stop::Errno(_)) => self.degrade(),
            }
        }
        self.unmount_on();
    }

    fn reap_some(&mut self) -> Result<(), Stop> {
        for _ in 0..4 {
            if matches!(self.phase, Phase::Unmounting) || !self.reap()? {
                break;
            }
        }
        Ok(())
    }

    /// Below so many segments without contents the cleaner works. An operation that waits has to find its blocks among them, whatever
    /// the size of a segment.
    pub(super) fn low_water(&self) -> usize {
        let asked = match self.cleaner.asked {
            0 => 0,
            asked => (self.need() + asked).div_ceil(self.log.layout.segment_blocks.into()) as usize,
        };
        asked.max(self.log.layout.spare() as usize / 2 + 2)
    }

    pub(super) fn has_background_work(&self) -> bool {
        self.orphans.next().is_some()
            || !self.cleaner.moving.is_empty()
            || self.cleaner.victim.is_some()
            || !self.checkpointing.is_idle()
            || self.nameless_wants_time()
    }

    fn clean(&mut self) -> Result<(), Stop> {
        for _ in 0..STEP {
            let Some(&(address, owner)) = self.cleaner.moving.front() else { break };
            match self.move_block(address, owner) {
                // What cannot be read stays where it is.
                Ok(()) | Err(Stop::Errno(_)) => {
                    self.progress = true;
                    self.cleaner.moving.pop_front();
                }
                Err(Stop::Miss(miss)) => {
                    if self.want_node(miss).is_err() {
                        self.cleaner.moving.pop_front();
                    }
                    return Ok(());
                }
                Err(other) => return Err(other),
            }
        }
        if !self.cleaner.moving.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.cleaner.rescues) {
            self.progress = true;
            // Once they are dirty, memory has them.
            self.log.forget_lost();
            self.want_checkpoint();
        }
        match self.cleaner.victim {
            Some(victim) => self.read_victim(victim),
            None => self.choose_victim(),
        }
    }

    /// Makes a block dirty if it lives at an address.
    fn move_block(&mut self, address: u64, owner: Owner) -> Result<(), Stop> {
        match owner {
            Owner::Data { ino, block } => {
                let run = self.catalog.run_at(Ino(ino), block)?;
                if run.address != address {
                    return Ok(());
                }
                let ino = Ino(ino);
                match self.pages.find(ino, block) {
                    Some(page) => self.pages.make_dirty(page, true),
                    None => {
                        self.want_data(ino, block, address, run.end - 1)?;
                        if !self.pages.has(ino, block) {
                            return Err(Stop::Data);
                        }
                        return self.move_block(address, owner);
                    }
                }
                self.dirty_since.get_or_insert(self.now);
                Ok(())
            }
            Owner::Node { low, level } => Ok(self.catalog.move_node(low, level, address)?),
            Owner::Entries | Owner::EntriesCopy => Ok(()),
        }
    }

    /// Reads the next header of the victim.
    fn read_victim(&mut self, victim: Victim) -> Result<(), Stop> {
        let segment = self.log.segments[victim.segment as usize];
        if victim.next >= segment.written || segment.live == 0 {
            self.progress = true;
            self.reads.forget_raw();
            self.cleaner.victim = None;
            self.cleaner.cleaned.push(victim.segment);
            self.counters.cleaned += 1;
            self.counters.pauses.record(Nanos(self.now.since(victim.since)));
            return Ok(());
        }
        let address = self.log.layout.address(victim.segment, victim.next);
        let mut ahead = victim.ahead;
        let wanted = self.want_header(address, segment.written - victim.next, &mut ahead);
        self.cleaner.victim = Some(Victim { ahead, ..victim });
        let Some(header) = wanted else { return Ok(()) };
        self.progress = true;
        match header {
            Some(header) => {
                self.cleaner.moving.extend(header.owners());
                let next = victim.next + self.log.layout.padded(header.blocks);
                self.cleaner.victim = Some(Victim { next, ahead: 0, ..victim });
            }
            None => {
                // Without its header, and the copy of that, the owners of the blocks are unknown: the segment stays as it is.
                self.log.retire(victim.segment);
                self.cleaner.victim = None;
            }
        }
        Ok(())
    }

    /// The header at an address, or else its copy among the next `blocks`; `ahead`: in how many of these there is none. `None`: it is being
    /// read.
    pub(super) fn want_header(
        &mut self,
        address: u64,
        blocks: u32,
        ahead: &mut u32,
    ) -> Option<Option<Header>> {
        while *ahead < blocks {
            let at = address + u64::from(*ahead);
            let block = self.want_raw(at, 1)?;
            let decode = |block: &[u8]| match *ahead {
                0 => Header::decode(block, at, self.file_system),
                _ => Header::decode_copy(block, at, self.file_system)
                    .filter(|header| header.address == address),
            };
            let found = block.as_deref().and_then(decode);
            if found.is_some() {
                return Some(found);
            }
            *ahead += 1;
        }
        Some(None)
    }

    fn choose_victim(&mut self) -> Result<(), Stop> {
        let low = self.low_water();
        let unused = self.log.unused();
        let unmounts = matches!(self.phase, Phase::Unmounting);
        if unused >= low || unmounts || self.checkpointing.is_built() {
            return Ok(());
        }
        let dead = self.log.dead().count() + self.cleaner.cleaned.len();
        if dead >= (low / 2).max(2) {
            self.want_checkpoint();
            return Ok(());
        }
        // Of names the cleaner makes no page dirty.
        if self.pages.dirty() > self.options.frames() / 8 && !self.has_names() {
            self.commits.want_now();
            return Ok(());
        }
        let each = self.log.layout.segment_blocks;
        let now_s = (self.now.0 / 1_000_000_000).max(0) as u64;
        let scarce = unused < low / 2 + 1;
        let score = |segment: u32| {
            let s = &self.log.segments[segment as usize];
            let used = f64::from(s.live) / f64::from(each);
            let age = if scarce || self.options.cleaner == CleanerPolicy::Greedy {
                1
            } else {
                1 + now_s.saturating_sub(s.age_s.into())
            };
            (1.0 - used) * age as f64 / (1.0 + used)
        };
        let eligible = (0..self.log.layout.segments).filter(|&segment| {
            let s = &self.log.segments[segment as usize];
            s.state == State::Closed
                && s.live > 0
                && s.live + 2 < each
                && !self.cleaner.cleaned.contains(&segment)
                && !self.commits.writes_to(segment, &self.log)
        });
        let best = eligible.max_by(|&a, &b| score(a).total_cmp(&score(b)));
        match best {
            Some(segment) => {
                let live = u64::from(self.log.segments[segment as usize].live);
                if self.log.room() < self.need() + 2 * live + 2 * u64::from(each) + 8
                    && (dead > 0 || self.pages.dirty() + self.catalog.dirty() > 0)
                {
                    self.want_checkpoint();
                } else {
                    self.progress = true;
                    self.cleaner.victim = Some(Victim { segment, since: self.now, next: 0, ahead: 0 });
                }
            }
            None if dead > 0 || self.pages.dirty() + self.catalog.dirty() > 0 => self.want_checkpoint(),
            None => {}
        }
        Ok(())
    }

    /// A batch could not be written: its blocks are kept in memory until they lie elsewhere, and its segment is written no more.
    pub(super) fn write_failed(&mut self, seq: u64, address: u64, blocks: &[SharedBlock], why: JobError) {
        self.counters.write_failures += 1;
        if why == JobError::ReadOnly {
            return self.degrade();
        }
        self.keep_blocks(address, blocks);
        let header = blocks.first().and_then(|first| Header::decode(&first[..], address, self.file_system));
        if let Some(header) = header {
            self.cleaner.moving.extend(header.owners());
        }
        self.cleaner.rescues = true;
        self.commits.failed(seq);
        if self.log.layout.backend.is_flash() {
            self.log.break_off(address);
        } else {
            self.log.retire(self.log.layout.segment_of(address));
        }
        self.checkpointing.abandon();
    }
}
