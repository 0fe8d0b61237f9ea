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
//! A zone for which no block is left is read-only from then on, and data without a place in it stay in the buffer and in the log, as does
//! the *verdict*: a slot that says so. Both outlive power cuts; a verdict that the log has no space for ([`ZoneNamespace::pronounce`]) does
//! not, and its zone comes back with everything that was promised, to fail again at its next program.
//!
//! Invariants: a zone has at most one superpage that is being filled, its last; a slot is vacant only when neither its program
//! nor a log program of it is under way; blocks of the log are erased in the order in which they were written.

mod mount;

use crate::direct::zone_save::SaveArea;
use crate::losses::Losses;
use pellucid_flash::slab::{List, NIL, Slab};
use pellucid_flash::{BlockId, Layout, Lpn, Ppa, SimTime, Status, ZoneState};
use pellucid_ftl::{LOG, Mark, Zones};
use pellucid_media::{Media, Outcome};
use std::collections::VecDeque;

/// A superpage in the buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub live: bool,
    pub zone: u32,
    pub superpage: u32,
    /// Sectors that are here.
    pub arrived: u32,
    /// When the newest write of them was submitted.
    pub written_at: SimTime,
    /// Sectors that are on their way here.
    pub coming: u32,
    /// Number of the mount that it is of: an earlier one's only if it was full then, so that the superpages behind it still count.
    pub epoch: u32,
    /// Full, or to be padded: its program is planned.
    pub programming: bool,
    /// The operation under way was not begun.
    pub skipped: bool,
    /// Its zone is being finished with it.
    pub finish: bool,
    /// It stands for no superpage, but says that its zone was reset.
    pub tombstone: bool,
    /// It stands for no superpage, but says that its zone is read-only or offline.
    pub verdict: Option<ZoneState>,
    /// Its zone has no block for it: it stays here and in the log.
    pub stranded: bool,
    /// The log cannot be read where it has it.
    pub lost: bool,
    /// True while its zone is being reset; the slot is kept until the superpages in front of it are erased.
    pub doomed: bool,
    /// Sectors in the log program of the slot that is under way.
    pub logging: Option<u32>,
    /// It must be logged (again) when it can be.
    pub wants_log: bool,
    /// Sectors that the log has, and where.
    pub logged: u32,
    pub logged_in: BlockId,
    /// Place in the save area, if it is there.
    pub saved_in: Option<u32>,
    /// Sectors that the save area has.
    pub saved: u32,
    /// Sectors that must be safe before the flush in progress goes on; 0: it does not wait.
    pub flushing: u32,
    /// Slices that are acknowledged when the superpage is on the media.
    pub acknowledge: List,
    /// Slices that are acknowledged when the log program under way ends.
    pub with_log: List,
}

impl Slot {
    /// Returns whether the slot holds a superpage, whole or in part.
    pub fn is_data(&self) -> bool {
        !self.tombstone && self.verdict.is_none()
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
    /// The first superpage that is lost: a power cut takes those behind it, too.
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
    pub slots: Slab<Slot>,
    images: Vec<u8>,
    stride: usize,
    /// Slots that may still be taken; those of actions may go beyond.
    pub vacancies: i64,
    /// Slices that wait for a slot, and those behind them.
    pub starved: List,
    pub runs: Vec<Run>,
    /// Blocks of the staging log, the oldest first, with its number from 1.
    pub log: VecDeque<BlockId>,
    pub log_first: u64,
    /// The erase of the log's oldest block is under way; until it has ended what the block held can come back.
    pub log_erasing: bool,
    pub flush: ZoneFlush,
    /// Zeros, with space for the mark.
    spare: Vec<u8>,
}

/// Flushes, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct ZoneFlush {
    pub waiting: VecDeque<u32>,
    pub running: u32,
    /// Slots that it waits for.
    pub left: u32,
    pub losses: Losses,
}

impl ZoneNamespace {
    fn forget_saved(&mut self, place: u32, media: &mut Media) {
        self.save.as_mut().expect("something was saved").clear(place, media);
    }

    /// Sectors have arrived in a slot of a protected buffer, and are about to be acknowledged. `false`: the store that outlives the
    /// process cannot take them, so that neither they nor what comes behind them in the zone is promised.
    pub fn keep(&mut self, slot: u32, media: &mut Media) -> bool {
        let Some(area) = &mut self.save else { return true };
        let Slot { zone, superpage, arrived, epoch, saved_in, .. } = self.slots[slot];
        let mark = Mark { zone, superpage, sectors: arrived, finished: false, verdict: None, epoch };
        let images = &self.images[slot as usize * self.stride..][..self.stride];
        let place = saved_in.or_else(|| area.take());
        let ok = place.is_some_and(|place| area.save(place, mark, images, media));
        let record = &mut self.slots[slot];
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
        self.vacancies -= 1;
        let slot = self.slots.insert(Slot {
            live: true,
            zone,
            superpage,
            arrived: 0,
            written_at: SimTime::ZERO,
            coming: 0,
            epoch: self.zones.epoch(),
            programming: false,
            skipped: false,
            finish: false,
            tombstone: false,
            verdict: None,
            stranded: false,
            lost: false,
            doomed: false,
            logging: None,
            wants_log: false,
            logged: 0,
            logged_in: BlockId(u32::MAX),
            saved_in: None,
            saved: 0,
            flushing: 0,
            acknowledge: List::default(),
            with_log: List::default(),
        });
        let end = (slot as usize + 1) * self.stride;
        if self.images.len() < end {
            self.images.resize(end, 0);
        }
        self.images_mut(slot).fill(0);
        slot
    }

    /// Returns the final status of a write to a superpage on the media: it will be found again unless a superpage in front of it is lost.
    pub fn kept(&self, zone: u32, superpage: u32) -> Status {
        if superpage > self.runs[zone as usize].hole { Status::WriteFault } else { Status::Success }
    }

    /// A superpage has no place in its zone.
    pub fn strand(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.slots[slot].stranded, true) {
            self.runs[self.slots[slot].zone as usize].stranded += 1;
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
        self.known_verdict(zone).is_some_and(|slot| self.slots[slot].logged == self.slots[slot].arrived)
    }

    fn known_verdict(&self, zone: u32) -> Option<u32> {
        self.live().find(|&s| self.slots[s].zone == zone && self.slots[s].verdict.is_some())
    }

    /// Does as [`ZoneNamespace::pronounce`], however many slots the log keeps.
    fn verdict(&mut self, zone: u32, state: ZoneState) -> u32 {
        let slot = self.known_verdict(zone).unwrap_or_else(|| {
            // Not a slot that data wait for.
            self.vacancies += 1;
            self.take(zone, 0)
        });
        let record = &mut self.slots[slot];
        record.verdict = Some(state);
        // A version: what is logged of it is compared with this.
        record.arrived = if state == ZoneState::Offline { 2 } else { 1 };
        slot
    }

    /// Returns whether another slot may stay in the log for good. Partly written superpages take up to half of a log block.
    pub fn log_may_keep_more(&self) -> bool {
        let kept = self.live().filter(|&s| self.slots[s].stranded || self.slots[s].verdict.is_some()).count();
        kept + 1 < self.zones.layout_superpages_per_block() as usize / 2
    }

    /// Returns whether a slice must wait for a slot. A slot is added beyond the limit if none will become vacant by itself: after a power cut
    /// more zones can be partly written than may be active.
    pub fn is_full(&self) -> bool {
        let superpage = self.zones.superpage_sectors();
        let leaves =
            |slot: &Slot| slot.programming || (slot.coming > 0 && slot.arrived + slot.coming == superpage);
        self.vacancies <= 0 && self.live().any(|slot| leaves(&self.slots[slot]))
    }

    /// The slot is done with, and what was saved of it.
    pub fn vacate(&mut self, slot: u32, media: &mut Media) {
        debug_assert_eq!(self.slots[slot].flushing, 0, "a flush waits for slot {slot}");
        self.vacancies += 1;
        self.slots[slot].live = false;
        if let Some(place) = self.slots[slot].saved_in {
            self.forget_saved(place, media);
        }
        self.slots.release(slot);
    }

    pub fn images(&self, slot: u32) -> &[u8] {
        &self.images[slot as usize * self.stride..][..self.stride]
    }

    pub fn images_mut(&mut self, slot: u32) -> &mut [u8] {
        &mut self.images[slot as usize * self.stride..][..self.stride]
    }

    /// The slot that holds a superpage.
    pub fn find(&self, zone: u32, superpage: u32) -> Option<u32> {
        let run = &self.runs[zone as usize];
        if run.tail == NIL && run.programs == 0 && run.doomed == NIL && run.stranded == 0 {
            return None;
        }
        let mut slots = self.slots.iter().zip(0..);
        slots
            .find(|(s, _)| s.live && s.is_data() && s.zone == zone && s.superpage == superpage)
            .map(|(_, at)| at)
    }

    /// Returns the last slot in front of a superpage that is on its way to the media.
    pub fn programmed_before(&self, zone: u32, superpage: u32) -> Option<u32> {
        let run = &self.runs[zone as usize];
        if run.programs == 0 && run.stranded == 0 {
            return None;
        }
        let before = self.live().filter(|&at| {
            let slot = &self.slots[at];
            let to_log = slot.logging.is_some() || slot.wants_log;
            let coming = slot.programming || (slot.stranded && to_log && slot.logged < slot.arrived);
            slot.zone == zone && slot.superpage < superpage && coming
        });
        before.max_by_key(|&at| self.slots[at].superpage)
    }

    /// Live slots.
    pub fn live(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().zip(0..).filter(|(slot, _)| slot.live).map(|(_, at)| at)
    }

    /// Returns the spare-area mark of a slot that is programmed with this many sectors.
    pub fn mark(&self, slot: u32, sectors: u32) -> Mark {
        let Slot { zone, superpage, finish, verdict, epoch, .. } = self.slots[slot];
        let sectors = if verdict.is_some() { 0 } else { sectors };
        Mark { zone, superpage, sectors, finished: finish, verdict, epoch }
    }

    /// Gives a begun superpage its content: that of a slot, with the mark in the first unit's spare area.
    pub fn put(&mut self, slot: u32, lpn: Lpn, mark: Mark, first: Ppa, media: &mut Media, layout: &Layout) {
        let unit = self.stride / layout.units_per_superpage as usize;
        for (i, images) in self.images(slot).chunks_exact(unit).enumerate() {
            media.put_unit(Ppa(first.0 + i as u32), lpn, images);
        }
        self.spare[..Mark::BYTES].copy_from_slice(&mark.encode());
        media.put_metadata(first, &self.spare);
    }

    /// Logs a slot in no simulated time; `false`: there is no space.
    pub fn log_now(&mut self, slot: u32, media: &mut Media, layout: &Layout) -> bool {
        let arrived = self.slots[slot].arrived;
        while let Some((first, fresh)) = self.zones.log_place(true) {
            let block = layout.block_of(first);
            if fresh {
                self.log.push_back(block);
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
        let number = self.log.iter().position(|&b| b == block).map_or(0, |at| self.log_first + at as u64);
        let record = &mut self.slots[slot];
        (record.logged, record.logged_in) = (sectors, block);
        if record.verdict.is_none() {
            self.runs[record.zone as usize].logged_last = number;
        }
    }

    /// Returns whether the log could bring back data of a zone that is reset now, so that it needs a tombstone.
    pub fn needs_tombstone(&self, zone: u32) -> bool {
        let logged = self.runs[zone as usize].logged_last;
        logged != 0 && logged >= self.log_first - u64::from(self.log_erasing)
    }

    /// Power fails and the buffer is protected: everything that arrived goes to the log, if it is neither there nor saved.
    pub fn save(&mut self, media: &mut Media, layout: &Layout) {
        let is_needed = |slot: &Slot| !slot.tombstone && slot.logged.max(slot.saved) < slot.arrived;
        let mut slots: Vec<u32> = self.live().filter(|&s| is_needed(&self.slots[s])).collect();
        self.zones.reserve(0);
        // Programs may have been planned in the log's block that never began.
        self.zones.log_close();
        slots.sort_by_key(|&s| (self.slots[s].zone, self.slots[s].superpage));
        for slot in slots {
            // A zone that is being finished is not finished yet.
            self.slots[slot].finish = false;
            self.log_now(slot, media, layout);
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        let runs = self.runs.len() * size_of::<Run>();
        self.zones.memory_bytes() + (runs + self.images.len()) as u64 + self.slots.memory_bytes()
    }

    pub fn check(&self) {
        self.zones.check();
        for slot in self.live() {
            let record = &self.slots[slot];
            assert!(record.arrived <= self.zones.superpage_sectors(), "slot {slot}: {record:?}");
            let filling = !(record.programming || record.finish || record.doomed || record.stranded);
            let filling = filling && record.is_data();
            let tail = self.runs[record.zone as usize].tail;
            let coming = self.runs[record.zone as usize].inbound > 0;
            let excused = coming || record.logging.is_some();
            assert!(!filling || tail == slot || excused, "slot {slot} is no zone's last: {record:?}");
        }
    }
}
