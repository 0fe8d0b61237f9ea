//! Slots of the buffer of a zoned namespace: superpages that are being filled, or on their way to the media.
//!
//! Invariants: a live slot keeps its images until it is vacated; the number of live slots equals the number taken and not yet
//! vacated; slots of verdicts do not count against the limit.

use pellucid_flash::slab::{List, Slab};
use pellucid_flash::{BlockId, SimTime, ZoneState};
use std::ops::{Index, IndexMut};

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
    /// Its superpage is on the media: it is vacated when its log program has ended.
    pub leaving: bool,
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

/// The slots, and the images of their sectors.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    slots: Slab<Slot>,
    /// Images of all slots, one after the other.
    images: Vec<u8>,
    /// Bytes of the images of a slot.
    stride: usize,
    /// Slots that may still be taken; those of actions may go beyond.
    vacancies: i64,
}

impl Index<u32> for Stage {
    type Output = Slot;

    #[inline]
    fn index(&self, slot: u32) -> &Slot {
        &self.slots[slot]
    }
}

impl IndexMut<u32> for Stage {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot]
    }
}

impl Stage {
    /// Slots for `places` superpages of `stride` bytes each.
    pub fn new(places: u32, stride: usize) -> Stage {
        Stage { slots: Slab::default(), images: Vec::new(), stride, vacancies: places.into() }
    }

    /// A slot for a superpage of which nothing is here yet, in a mount of number `epoch`.
    pub fn take(&mut self, zone: u32, superpage: u32, epoch: u32) -> u32 {
        self.vacancies -= 1;
        let slot = self.slots.insert(Slot {
            live: true,
            zone,
            superpage,
            epoch,
            logged_in: BlockId(u32::MAX),
            ..Slot::default()
        });
        let end = (slot as usize + 1) * self.stride;
        if self.images.len() < end {
            self.images.resize(end, 0);
        }
        self.images_mut(slot).fill(0);
        slot
    }

    /// As [`Stage::take`], for what data do not wait for.
    pub fn take_beside(&mut self, zone: u32, epoch: u32) -> u32 {
        self.vacancies += 1;
        self.take(zone, 0, epoch)
    }

    /// The slot is done with.
    pub fn vacate(&mut self, slot: u32) {
        debug_assert_eq!(self.slots[slot].flushing, 0, "a flush waits for slot {slot}");
        self.vacancies += 1;
        self.slots[slot].live = false;
        self.slots.release(slot);
    }

    /// Returns whether all places are taken.
    pub fn is_full(&self) -> bool {
        self.vacancies <= 0
    }

    /// Live slots.
    pub fn live(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().zip(0..).filter(|(slot, _)| slot.live).map(|(_, at)| at)
    }

    /// Live slots that `is_of` chooses, in the order of zones and superpages.
    pub fn in_order(&self, is_of: impl Fn(&Slot) -> bool) -> Vec<u32> {
        let mut slots: Vec<u32> = self.live().filter(|&slot| is_of(&self.slots[slot])).collect();
        slots.sort_by_key(|&slot| (self.slots[slot].zone, self.slots[slot].superpage));
        slots
    }

    /// Images of the sectors of a slot.
    pub fn images(&self, slot: u32) -> &[u8] {
        &self.images[slot as usize * self.stride..][..self.stride]
    }

    /// As [`Stage::images`], to fill them.
    pub fn images_mut(&mut self, slot: u32) -> &mut [u8] {
        &mut self.images[slot as usize * self.stride..][..self.stride]
    }

    /// Bytes of the images of a slot.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        self.images.len() as u64 + self.slots.memory_bytes()
    }
}
