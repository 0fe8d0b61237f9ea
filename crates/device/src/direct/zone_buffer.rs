//! The buffer of a zoned namespace: superpages that are being filled, and those on their way to the media.
//!
//! ```text
//!  take ─► filling ── all sectors here ─► programming ─► vacant
//!            │  ▲                            │ program failed: again, elsewhere
//!   log ─────▼──┘ (flush, FUA, power cut with protected buffers)         no block left ─► stranded: it stays in the log
//! ```
//! **The promise.** Without protection, as with a block drive: a write is acknowledged when it is in the buffer (write-back) or on the
//! media (write-through, FUA), and a flush makes everything acknowledged before it durable: full superpages are programmed, and the sectors
//! of a partly written one go to the staging log. With protection everything acknowledged is durable, because the buffer is written to the
//! log while the power fails: to blocks that are kept for this ([`Zones::reserve`]), without which writes are refused; and, for the end of
//! the process, to the save area of the media as it is filled ([`crate::direct::zone_save`]). Either way a zone that comes back holds a
//! prefix of the written data, and a reset has happened or has not.
//!
//! A zone for which no block is left becomes read-only. Its unplaced data stay in the buffer and in the log, together with the *verdict*: a
//! slot that records this state. Both survive power cuts. A verdict for which the log has no space ([`ZoneNamespace::pronounce`]) does not;
//! its zone comes back with all promised data and fails again at its next program.
//!
//! Invariants: a zone fills at most one superpage at a time, its last; a slot is vacant only when neither its program nor its log program
//! is in flight; blocks of the log are erased in the order in which they were written.

mod mount;
mod stage;
mod staging_log;

use crate::back::scheduler::Token;
use crate::direct::zone_save::SaveArea;
use crate::losses::Losses;
use pellucid_flash::slab::{List, NIL};
use pellucid_flash::{BlockId, Layout, Lpn, Ppa, Status, ZoneState};
use pellucid_ftl::{LOG, Mark, Zones};
use pellucid_media::{Media, Outcome};
pub(crate) use stage::{Slot, Stage};
pub(crate) use staging_log::StagingLog;
use std::collections::VecDeque;

/// Purpose of a flash operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::direct) enum Purpose {
    /// This slice of a command: a read, or the erase of a block of a zone.
    Slice(u32),
    /// The superpage in this slot of the buffer, on its way to its zone.
    Stage(u32),
    /// The superpage in this slot of the buffer, on its way to the staging log.
    Log(u32),
    /// A block of the staging log that is erased.
    LogErase,
}

impl Purpose {
    pub(in crate::direct) fn of(token: Token) -> Purpose {
        match token.parts() {
            (0, slice) => Purpose::Slice(slice),
            (1, slot) => Purpose::Stage(slot),
            (2, slot) => Purpose::Log(slot),
            _ => Purpose::LogErase,
        }
    }

    pub(in crate::direct) fn token(self) -> Token {
        match self {
            Purpose::Slice(slice) => Token::new(0, slice),
            Purpose::Stage(slot) => Token::new(1, slot),
            Purpose::Log(slot) => Token::new(2, slot),
            Purpose::LogErase => Token::new(3, 0),
        }
    }
}

/// Activity of a zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Slices between acceptance and arrival of their data.
    pub inbound: u32,
    /// Programs of its superpages planned and not ended.
    pub programs: u32,
    /// Log programs.
    pub logs: u32,
    /// Erases under way.
    pub erases: u32,
    /// The superpage being filled.
    pub tail: u32,
    /// The superpage that a reset has begun to forget.
    pub doomed: u32,
    /// Superpages that only the log has.
    pub stranded: u32,
    /// First lost superpage; a power cut also loses the following ones.
    pub hole: u32,
    /// The command whose action waits or is under way.
    pub action: u32,
    /// True once that action has begun.
    pub acting: bool,
    /// Number of the log block with the newest copy of one of its superpages, from 1; 0: none.
    pub logged_last: u64,
}

pub(crate) const IDLE: Run = Run {
    inbound: 0,
    programs: 0,
    logs: 0,
    erases: 0,
    tail: NIL,
    doomed: NIL,
    stranded: 0,
    hole: u32::MAX,
    action: NIL,
    acting: false,
    logged_last: 0,
};

/// A zoned namespace.
#[derive(Clone, Debug)]
pub(crate) struct ZoneNamespace {
    pub number: u16,
    pub zones: Zones,
    pub protected: bool,
    /// Save area that follows a protected buffer as it is filled, in a store that outlives the process.
    save: Option<SaveArea>,
    pub stage: Stage,
    /// Slices that wait for a slot, and those behind them.
    pub starved: List,
    pub runs: Vec<Run>,
    pub log: StagingLog,
    pub flush: ZoneFlush,
    /// Zeros, with space for the mark.
    spare: Vec<u8>,
}

/// Flushes, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct ZoneFlush {
    waiting: VecDeque<u32>,
    /// The command of the flush in progress.
    running: u32,
    /// Slots that it waits for.
    left: u32,
    losses: Losses,
}

impl ZoneFlush {
    /// No flush.
    fn new() -> ZoneFlush {
        ZoneFlush { waiting: VecDeque::new(), running: NIL, left: 0, losses: Losses::default() }
    }

    /// A flush waits for its turn.
    pub fn wait(&mut self, work: u32) {
        self.waiting.push_back(work);
    }

    /// The next flush begins, if none is in progress. It is held until [`ZoneFlush::end_part`] says that every slot has been asked.
    pub fn begin(&mut self) -> Option<u32> {
        if self.running != NIL {
            return None;
        }
        let work = self.waiting.pop_front()?;
        (self.running, self.left) = (work, 1);
        Some(work)
    }

    /// The flush in progress waits for another slot.
    pub fn await_slot(&mut self) {
        debug_assert!(self.running != NIL, "no flush is in progress");
        self.left += 1;
    }

    /// Something that the flush in progress waited for has ended. Returns the flush if it was the last.
    pub fn end_part(&mut self) -> Option<u32> {
        self.left -= 1;
        (self.left == 0).then(|| std::mem::replace(&mut self.running, NIL))
    }

    /// The command of the flush in progress.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Losses of acknowledged data, which flushes have to report.
    pub fn losses(&mut self) -> &mut Losses {
        &mut self.losses
    }
}

impl ZoneNamespace {
    fn forget_saved(&mut self, place: u32, media: &mut Media) {
        self.save.as_mut().expect("something was saved").clear(place, media);
    }

    /// Saves sectors that have arrived in a slot of a protected buffer, before they are acknowledged. `false`: the persistent store
    /// cannot take them, so neither they nor any later data of the zone are guaranteed.
    pub fn keep(&mut self, slot: u32, media: &mut Media) -> bool {
        let Some(area) = &mut self.save else { return true };
        let Slot { zone, superpage, arrived, epoch, saved_in, .. } = self.stage[slot];
        let mark = Mark { zone, superpage, sectors: arrived, finished: false, verdict: None, epoch };
        let images = self.stage.images(slot);
        let place = saved_in.or_else(|| area.take());
        let ok = place.is_some_and(|place| area.save(place, mark, images, media));
        let record = &mut self.stage[slot];
        record.saved_in = place;
        if ok {
            record.saved = arrived;
        } else {
            let run = &mut self.runs[zone as usize];
            run.hole = run.hole.min(superpage);
        }
        ok
    }

    /// A slot for a superpage of which nothing is here yet.
    pub fn take(&mut self, zone: u32, superpage: u32) -> u32 {
        self.stage.take(zone, superpage, self.zones.epoch())
    }

    /// Returns the final status of a write to a superpage on the media: it will be found again unless a superpage in front of it is lost.
    pub fn kept(&self, zone: u32, superpage: u32) -> Status {
        if superpage > self.runs[zone as usize].hole { Status::WriteFault } else { Status::Success }
    }

    /// A superpage has no place in its zone.
    pub fn strand(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.stage[slot].stranded, true) {
            self.runs[self.stage[slot].zone as usize].stranded += 1;
        }
    }

    /// Takes the slot, to be logged, that records `zone` as `state` for good. `None`: the log already keeps so many slots that one log
    /// block could not take them all over; the media will fail the zone again after a power cut.
    pub fn pronounce(&mut self, zone: u32, state: ZoneState) -> Option<u32> {
        let known = self.known_verdict(zone).is_some();
        (known || self.log_may_keep_more()).then(|| self.verdict(zone, state))
    }

    /// Returns whether the log holds the verdict on a zone.
    pub fn is_recorded(&self, zone: u32) -> bool {
        self.known_verdict(zone).is_some_and(|slot| self.stage[slot].logged == self.stage[slot].arrived)
    }

    fn known_verdict(&self, zone: u32) -> Option<u32> {
        self.stage.live().find(|&s| self.stage[s].zone == zone && self.stage[s].verdict.is_some())
    }

    /// Does as [`ZoneNamespace::pronounce`], however many slots the log keeps.
    fn verdict(&mut self, zone: u32, state: ZoneState) -> u32 {
        let epoch = self.zones.epoch();
        let slot = self.known_verdict(zone).unwrap_or_else(|| self.stage.take_beside(zone, epoch));
        let record = &mut self.stage[slot];
        record.verdict = Some(state);
        // A version: what is logged of it is compared with this.
        record.arrived = if state == ZoneState::Offline { 2 } else { 1 };
        slot
    }

    /// Returns whether another slot may stay in the log for good. Partly written superpages take up to half of a log block.
    pub fn log_may_keep_more(&self) -> bool {
        let kept =
            self.stage.live().filter(|&s| self.stage[s].stranded || self.stage[s].verdict.is_some()).count();
        kept + 1 < self.zones.layout_superpages_per_block() as usize / 2
    }

    /// Returns whether a slice must wait for a slot. If no slot will become vacant without it, one is added beyond the limit: after a power
    /// cut, more zones can be partly written than may be active.
    pub fn is_full(&self) -> bool {
        let superpage = self.zones.superpage_sectors();
        let leaves =
            |slot: &Slot| slot.programming || (slot.coming > 0 && slot.arrived + slot.coming == superpage);
        self.stage.is_full() && self.stage.live().any(|slot| leaves(&self.stage[slot]))
    }

    /// The slot is done with, and what was saved of it.
    pub fn vacate(&mut self, slot: u32, media: &mut Media) {
        if let Some(place) = self.stage[slot].saved_in {
            self.forget_saved(place, media);
        }
        self.stage.vacate(slot);
    }

    /// The slot that holds a superpage.
    pub fn find(&self, zone: u32, superpage: u32) -> Option<u32> {
        let run = &self.runs[zone as usize];
        if run.tail == NIL && run.programs == 0 && run.doomed == NIL && run.stranded == 0 {
            return None;
        }
        let holds = |slot: &Slot| slot.is_data() && slot.zone == zone && slot.superpage == superpage;
        self.stage.live().find(|&slot| holds(&self.stage[slot]))
    }

    /// Returns the last slot in front of a superpage that is on its way to the media.
    pub fn programmed_before(&self, zone: u32, superpage: u32) -> Option<u32> {
        let run = &self.runs[zone as usize];
        if run.programs == 0 && run.stranded == 0 {
            return None;
        }
        let before = self.stage.live().filter(|&at| {
            let slot = &self.stage[at];
            let to_log = slot.logging.is_some() || slot.wants_log;
            let coming = slot.programming || (slot.stranded && to_log && slot.logged < slot.arrived);
            slot.zone == zone && slot.superpage < superpage && coming
        });
        before.max_by_key(|&at| self.stage[at].superpage)
    }

    /// Returns the spare-area mark of a slot that is programmed with this many sectors.
    pub fn mark(&self, slot: u32, sectors: u32) -> Mark {
        let Slot { zone, superpage, finish, verdict, epoch, .. } = self.stage[slot];
        let sectors = if verdict.is_some() { 0 } else { sectors };
        Mark { zone, superpage, sectors, finished: finish, verdict, epoch }
    }

    /// Gives a begun superpage its content: that of a slot, with the mark in the first unit's spare area.
    pub fn put(&mut self, slot: u32, lpn: Lpn, mark: Mark, first: Ppa, media: &mut Media, layout: &Layout) {
        let unit = self.stage.stride() / layout.units_per_superpage as usize;
        for (i, images) in self.stage.images(slot).chunks_exact(unit).enumerate() {
            media.put_unit(Ppa(first.0 + i as u32), lpn, images);
        }
        self.spare[..Mark::BYTES].copy_from_slice(&mark.encode());
        media.put_metadata(first, &self.spare);
    }

    /// Logs a slot in no simulated time; `false`: there is no space.
    pub fn log_now(&mut self, slot: u32, media: &mut Media, layout: &Layout) -> bool {
        let arrived = self.stage[slot].arrived;
        while let Some((first, fresh)) = self.zones.log_place(true) {
            let block = layout.block_of(first);
            if fresh {
                self.log.begin(block);
            }
            let sequence = self.zones.next_sequence();
            if self.write_now(slot, (LOG, sequence), self.mark(slot, arrived), first, media, layout) {
                self.note_logged(slot, arrived, block);
                return true;
            }
            media.retire(block);
            self.zones.log_failed(block);
        }
        false
    }

    fn write_now(
        &mut self,
        slot: u32,
        (lpn, sequence): (Lpn, u64),
        mark: Mark,
        first: Ppa,
        media: &mut Media,
        layout: &Layout,
    ) -> bool {
        media
            .program_begin(first, sequence)
            .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
        self.put(slot, lpn, mark, first, media, layout);
        media.program_end(first) == Outcome::Ok
    }

    /// The log has `sectors` of a slot, in `block`.
    pub fn note_logged(&mut self, slot: u32, sectors: u32, block: BlockId) {
        let number = self.log.number_of(block);
        let record = &mut self.stage[slot];
        (record.logged, record.logged_in) = (sectors, block);
        if record.verdict.is_none() {
            self.runs[record.zone as usize].logged_last = number;
        }
    }

    /// Returns whether the log could bring back data of a zone that is reset now, so that it needs a tombstone.
    pub fn needs_tombstone(&self, zone: u32) -> bool {
        self.log.may_hold(self.runs[zone as usize].logged_last)
    }

    /// Power fails and the buffer is protected: everything that arrived goes to the log, if it is neither there nor saved.
    pub fn save(&mut self, media: &mut Media, layout: &Layout) {
        let is_needed =
            |slot: &Slot| !slot.tombstone && !slot.leaving && slot.logged.max(slot.saved) < slot.arrived;
        let slots = self.stage.in_order(is_needed);
        self.zones.reserve(0);
        // Programs may have been planned in the log's block that never began.
        self.zones.log_close();
        for slot in slots {
            // A zone that is being finished is not finished yet.
            self.stage[slot].finish = false;
            self.log_now(slot, media, layout);
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        let runs = self.runs.len() * size_of::<Run>();
        self.zones.memory_bytes() + runs as u64 + self.stage.memory_bytes()
    }

    pub fn check(&self) {
        self.zones.check();
        for slot in self.stage.live() {
            let record = &self.stage[slot];
            assert!(record.arrived <= self.zones.superpage_sectors(), "slot {slot}: {record:?}");
            let filling = !(record.programming || record.leaving || record.doomed || record.stranded);
            let filling = filling && record.is_data();
            let tail = self.runs[record.zone as usize].tail;
            let coming = self.runs[record.zone as usize].inbound > 0;
            let excused = coming || record.logging.is_some();
            assert!(!filling || tail == slot || excused, "slot {slot} is no zone's last: {record:?}");
        }
    }
}
