//! Programs from plan to end: until then the map points to a copy that the media do not hold yet.
//!
//! ```text
//!  plan_program ─► map: new copy ─► program_ended ─┬─ ok ─────► old copies invalid
//!                  old copy stays valid            └─ failed ─► map: old copy (or whoever came after has it to replace)
//! ```
//! Invariants: a copy is invalidated only when its successor's program has ended well; following `old` from an unfinished
//! copy leads to one that is on the media, or to none.

use super::{OWNER_SHIFT, PageMap};
use crate::blocks::BlockState;
use crate::translation::{Outdated, Plan, ProgramId, Stream};
use pellucid_flash::{BlockId, DieId, Lpn, Ppa};

/// A planned program that has not ended. Its units lie in `PageMap::program_units`.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) first: Ppa,
    sequence: u64,
    pub(super) units: u32,
    pub(super) active: bool,
    /// What it replaces is being moved out of victims.
    relocation: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramUnit {
    pub(super) lpn: Lpn,
    pub(super) old: Ppa,
}

/// A moment's view of the programs that have not ended.
#[derive(Clone, Debug)]
pub struct Settled {
    /// First unit and number of each, in order of address.
    stripes: Vec<(u32, u32)>,
    /// Every program with a lower sequence number has ended.
    pub(crate) watermark: u64,
}

impl PageMap {
    /// The lowest sequence number of a program that has not ended.
    pub(crate) fn oldest_active_program(&self) -> u64 {
        self.programs.iter().filter(|p| p.active).map(|p| p.sequence).min().unwrap_or(u64::MAX)
    }

    /// Plans the program of `lpns` (at most a stripe's worth, [`Lpn::NONE`] for units that lost their owner meanwhile).
    /// The map points to the new copies at once. `die`: where relocated data should go (their own die; another if it is
    /// full). `None`: no die can take data now; try again when a block was erased.
    pub fn plan_program(&mut self, stream: Stream, die: Option<DieId>, lpns: &[Lpn]) -> Option<Plan> {
        debug_assert!(!lpns.is_empty() && lpns.len() <= self.layout.units_per_stripe as usize);
        let own = die.and_then(|die| Some((die, self.room(die, stream)?)));
        let (die, shared) = match own {
            Some(own) => own,
            None if die.is_some() => self.choose_die_for_guest(stream)?,
            None if stream == Stream::MetaMoved => self.choose_die_for_segments()?,
            None => match self.place_in_cache(stream, lpns.len()) {
                Some(cached) => cached,
                None if stream == Stream::Host => self.choose_die_for_host()?,
                None => self.choose_die(|map, die| map.room(die, stream))?,
            },
        };
        let (first, block) = self.take_stripe(die, stream, shared);
        let sequence = self.sequence;
        self.sequence += 1;
        if self.handles.count() > 1 {
            self.handles.wrote(stream);
        }
        let id = self.idle_programs.pop().unwrap_or_else(|| {
            let id = self.programs.len() as u32;
            self.programs.push(Program { first, sequence, units: 0, active: false, relocation: false });
            let none = ProgramUnit { lpn: Lpn::NONE, old: Ppa::NONE };
            let length = self.program_units.len() + self.layout.units_per_stripe as usize;
            self.program_units.resize(length, none);
            id
        });
        let (units, relocation) = (lpns.len() as u32, stream.is_relocation());
        self.programs[id as usize] = Program { first, sequence, units, active: true, relocation };
        let base = id as usize * self.layout.units_per_stripe as usize;
        let mut gained = 0;
        let units = &mut self.program_units[base..base + lpns.len()];
        for ((ppa, &lpn), unit) in (first.0..).zip(lpns).zip(units) {
            let mut old = Ppa::NONE;
            if lpn != Lpn::NONE {
                old = self.map.replace(lpn, Ppa(ppa));
                self.valid[ppa as usize / 64] |= 1 << (ppa % 64);
                gained += 1;
            }
            *unit = ProgramUnit { lpn, old };
        }
        self.blocks.add_valid(block, gained);
        if relocation {
            (0..lpns.len()).for_each(|at| self.note_moving(self.program_units[base + at].old, true));
        }
        let stored = sequence | u64::from(shared.owner()) << OWNER_SHIFT;
        Some(Plan { id: ProgramId(id), first, die, sequence: stored })
    }

    /// A planned program has reached its die: what its end will touch is brought near.
    #[inline]
    pub fn program_starts(&self, id: ProgramId) {
        let base = id.0 as usize * self.layout.units_per_stripe as usize;
        let units = self.programs[id.0 as usize].units as usize;
        for unit in &self.program_units[base..base + units] {
            let word = unit.old.0 as usize / 64;
            if word < self.valid.len() {
                prefetch_index::prefetch_index(&self.valid, word);
                self.blocks.bring_near(self.layout.block_of(unit.old));
            }
        }
    }

    /// A program ended. `Ok`: the copies it replaced are invalid now. Failed (`ok == false`): the map points back to
    /// the old copies, the block takes no more data and is retired when empty; the caller still has the data and must
    /// plan them again, relocations as well as host writes.
    pub fn program_ended(&mut self, id: ProgramId, ok: bool) {
        let Program { first, units, relocation, .. } = self.programs[id.0 as usize];
        self.programs[id.0 as usize].active = false;
        let block = self.layout.block_of(first);
        let base = id.0 as usize * self.layout.units_per_stripe as usize;
        for i in 0..units {
            // A stripe may hold a page twice (moved twice from one copy): a failed one is undone from its end.
            let i = if ok { i } else { units - 1 - i };
            let ProgramUnit { lpn, old } = self.program_units[base + i as usize];
            if lpn == Lpn::NONE {
                continue;
            }
            if relocation {
                self.note_moving(old, false);
            }
            if ok {
                self.invalidate(old, Outdated::Replaced);
                if lpn.0 >= self.user_units {
                    self.segments.saved(lpn.0 - self.user_units);
                }
            } else {
                self.undo(lpn, Ppa(first.0 + i), old);
            }
        }
        self.blocks.settled(block, !ok, self.sequence);
        self.collection_went_on(block);
        if !ok {
            self.fail_block(block);
        }
        self.idle_programs.push(id.0);
    }

    /// What failed in `block` was one of several parts that can be replaced: it is emptied and erased like any other victim
    /// instead of being retired. Call right after [`PageMap::program_ended`] has reported the failure.
    pub fn forgive(&mut self, block: BlockId) {
        debug_assert!(self.blocks.state(block) == BlockState::Full || self.blocks.is_settled(block));
        self.blocks.forgive(block);
    }

    /// The copy at `failed` does not exist: whoever replaced it replaces `old` instead.
    fn undo(&mut self, lpn: Lpn, failed: Ppa, old: Ppa) {
        if self.lookup(lpn) == failed {
            self.set_map(lpn, old);
            // Collection has perhaps passed it by, as it had a successor.
            if old.is_some() && self.blocks.state(self.layout.block_of(old)) == BlockState::Victim {
                let block = self.layout.block_of(old);
                self.collections[self.layout.die_of_block(block).0 as usize].revisit(block);
            }
        } else {
            let stride = self.layout.units_per_stripe as usize;
            let successor = self.programs.iter().enumerate().filter(|(_, p)| p.active).find_map(|(id, p)| {
                let units = id * stride..id * stride + p.units as usize;
                units
                    .into_iter()
                    .find(|&u| self.program_units[u].lpn == lpn && self.program_units[u].old == failed)
            });
            match successor {
                Some(unit) => self.program_units[unit].old = old,
                // Trimmed, or overwritten by a program that has ended: then nobody needs the old copy either. (Until the
                // trim is on the media the old copy is what a power cut brings back.)
                None => {
                    let trimmed = self.lookup(lpn) == Ppa::NONE;
                    self.keep_until_saved(old);
                    self.invalidate(old, if trimmed { Outdated::Trimmed } else { Outdated::Replaced });
                }
            }
        }
        self.invalidate(failed, Outdated::Replaced);
    }

    /// Closes a block early: it takes no more data, and is emptied and retired.
    pub(crate) fn fail_block(&mut self, block: BlockId) {
        let die = self.layout.die_of_block(block);
        let first = die.0 as usize * self.places;
        for slot in &mut self.open[first..first + self.places] {
            if slot.is_some_and(|open| open.block == block) {
                *slot = None;
            }
        }
        self.blocks.close_early(block, self.sequence);
        self.collections[die.0 as usize].retire(block);
        self.collection_went_on(block);
    }

    /// Where the page at `ppa` can be read now: there, or while its program has not ended the copy that this one replaces.
    /// [`Ppa::NONE`]: it has none on the media yet.
    #[inline]
    pub fn copy_on_media(&self, ppa: Ppa) -> Ppa {
        match self.blocks.in_flight(self.layout.block_of(ppa)) {
            0 => ppa,
            _ => self.replaced_by(ppa),
        }
    }

    fn replaced_by(&self, mut ppa: Ppa) -> Ppa {
        let stride = self.layout.units_per_stripe as usize;
        let written = |ppa: Ppa| {
            let mut active = self.programs.iter().enumerate().filter(|(_, p)| p.active);
            active.find(|(_, p)| (p.first.0..p.first.0 + p.units).contains(&ppa.0))
        };
        while let Some((id, program)) = written(ppa) {
            ppa = self.program_units[id * stride + (ppa.0 - program.first.0) as usize].old;
        }
        ppa
    }

    /// Which copies are surely on the media at this moment; for writing map segments.
    pub fn settled(&self) -> Settled {
        let active = || self.programs.iter().enumerate().filter(|(_, p)| p.active);
        let mut stripes: Vec<(u32, u32)> = active().map(|(id, p)| (p.first.0, id as u32)).collect();
        stripes.sort_unstable();
        let watermark = active().map(|(_, p)| p.sequence).min().unwrap_or(self.sequence);
        Settled { stripes, watermark }
    }

    /// The address of `lpn`'s newest copy that is on the media.
    pub(crate) fn settled_copy(&self, settled: &Settled, lpn: Lpn) -> Ppa {
        let mut ppa = self.lookup(lpn);
        // A chain of unfinished copies leads back to a finished one.
        while ppa.is_some() && self.blocks.in_flight(self.layout.block_of(ppa)) > 0 {
            let unit = ppa.0 % self.layout.units_per_stripe;
            let Ok(at) = settled.stripes.binary_search_by_key(&(ppa.0 - unit), |s| s.0) else { break };
            let program = settled.stripes[at].1 as usize;
            ppa = self.program_units[program * self.layout.units_per_stripe as usize + unit as usize].old;
        }
        ppa
    }
}
