//! Programs from plan to end: until then the map points to a copy that the media do not hold yet.
//!
//! ```text
//!  place ─► map: new copy ─► program_ended ─┬─ ok ─────► old copies invalid
//!           old copy stays valid            └─ failed ─► map: old copy (or the newer copy replaces it)
//! ```
//! Invariants: a copy is invalidated, and its block erased, only when its successor's program has ended well; following `old` from an unfinished
//! copy leads to one that is on the media, or to none.

use super::{OWNER_SHIFT, PageMap};
use crate::Placement;
use crate::block_manager::BlockState;
use crate::translation::{Outdated, Plan, ProgramId, Stream};
use pellucid_flash::{BlockId, DieId, Lpn, Ppa};

/// A planned program that has not ended.
#[derive(Clone, Copy, Debug)]
struct Program {
    first: Ppa,
    sequence: u64,
    units: u32,
    active: bool,
    /// GC is moving the copies that this program replaces.
    gc: bool,
}

/// A unit of a planned program: its page, and the copy that it replaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramUnit {
    pub(super) lpn: Lpn,
    pub(super) old: Ppa,
}

/// A planned program that has not ended, with its units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active<'a> {
    id: u32,
    first: Ppa,
    sequence: u64,
    pub(super) units: &'a [ProgramUnit],
}

/// The programs that have not ended. Their ids are used again.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    programs: Vec<Program>,
    /// Units of each program, one superpage of them.
    units: Vec<ProgramUnit>,
    idle: Vec<u32>,
    superpage: usize,
}

impl Programs {
    pub fn new(units_per_superpage: u32) -> Programs {
        Programs {
            programs: Vec::new(),
            units: Vec::new(),
            idle: Vec::new(),
            superpage: units_per_superpage as usize,
        }
    }

    /// Enters a program; returns its id and its units, to be filled in.
    #[inline]
    fn enter(&mut self, program: Program) -> (ProgramId, &mut [ProgramUnit]) {
        let id = self.idle.pop().unwrap_or_else(|| {
            self.programs.push(program);
            let none = ProgramUnit { lpn: Lpn::NONE, old: Ppa::NONE };
            self.units.resize(self.units.len() + self.superpage, none);
            self.programs.len() as u32 - 1
        });
        self.programs[id as usize] = program;
        let base = id as usize * self.superpage;
        (ProgramId(id), &mut self.units[base..base + program.units as usize])
    }

    /// Enters a program of these units; returns its id.
    pub fn plan(&mut self, first: Ppa, sequence: u64, units: &[ProgramUnit]) -> ProgramId {
        let program = Program { first, sequence, units: units.len() as u32, active: true, gc: false };
        let (id, into) = self.enter(program);
        into.copy_from_slice(units);
        id
    }

    /// The units of a program.
    #[inline]
    fn units(&self, id: ProgramId) -> &[ProgramUnit] {
        let base = id.0 as usize * self.superpage;
        &self.units[base..base + self.programs[id.0 as usize].units as usize]
    }

    /// Every program that has not ended.
    pub fn active(&self) -> impl Iterator<Item = Active<'_>> {
        (0..).zip(&self.programs).filter(|(_, p)| p.active).map(|(id, &Program { first, sequence, .. })| {
            Active { id, first, sequence, units: self.units(ProgramId(id)) }
        })
    }
}

/// A snapshot of the programs that have not ended.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    /// First unit and number of each, in order of address.
    superpages: Vec<(u32, u32)>,
    /// Every program with a lower sequence number has ended.
    pub(crate) watermark: u64,
}

impl PageMap {
    /// The lowest sequence number of a program that has not ended.
    pub(crate) fn oldest_active_program(&self) -> u64 {
        self.programs.active().map(|p| p.sequence).min().unwrap_or(u64::MAX)
    }

    /// Plans the program of `lpns` (at most a superpage's worth, [`Lpn::NONE`] for units that lost their owner meanwhile).
    /// The map points to the new copies at once. `near`: these are GC copies, which should go to this die; another if it is
    /// full. `None`: no die can take data now; try again when a block was erased.
    pub fn place(&mut self, stream: Stream, near: Option<DieId>, lpns: &[Lpn]) -> Option<Plan> {
        debug_assert!(!lpns.is_empty() && lpns.len() <= self.layout.units_per_superpage as usize);
        if self.config.placement == Placement::Address {
            self.placement.turn_to(lpns[0]);
        }
        let own = near.and_then(|die| Some((die, self.space(die, stream)?)));
        let (die, shared) = match own {
            Some(own) => own,
            None if near.is_some() => self.choose_die_for_foreign(stream)?,
            None if stream == Stream::MetaMoved => self.choose_die_for_map()?,
            None => match self.place_in_cache(stream) {
                Some(cached) => cached,
                None => self.choose_die_for_new(stream, lpns[0])?,
            },
        };
        let (first, block) = self.take_superpage(die, stream, shared);
        let sequence = self.sequence;
        self.set_sequence(sequence + 1);
        if self.handles.count() > 1 {
            self.handles.wrote(stream);
        }
        self.count_placed(if shared == Stream::Cached { shared } else { stream }, lpns.len() as u32);
        if near.is_some() {
            self.count_copied(lpns.len() as u32);
        }
        let (count, gc) = (lpns.len() as u32, stream.is_gc_copy());
        let (id, units) = self.programs.enter(Program { first, sequence, units: count, active: true, gc });
        let mut gained = 0;
        for ((ppa, &lpn), unit) in (first.0..).zip(lpns).zip(units) {
            let mut old = Ppa::NONE;
            if lpn != Lpn::NONE {
                let valid;
                (old, valid) = self.table.supersede(lpn, Ppa(ppa), gc);
                gained += u32::from(valid);
            }
            *unit = ProgramUnit { lpn, old };
        }
        self.blocks.add_valid(block, gained);
        if gc {
            for unit in self.programs.units(id) {
                self.gc.note_moving(unit.old, true);
            }
        }
        let stored = sequence | u64::from(shared.owner()) << OWNER_SHIFT;
        Some(Plan { id, first, die, sequence: stored })
    }

    /// A planned program has reached its die: prefetches what its end will touch.
    #[inline]
    pub fn program_started(&self, id: ProgramId) {
        for unit in self.programs.units(id) {
            if self.table.prefetch_valid(unit.old) {
                self.blocks.prefetch(self.layout.block_of(unit.old));
            }
        }
    }

    /// Ends a program. If it succeeded, the copies it replaced are invalid now. If it failed (`ok == false`), the map points back to the
    /// old copies, and the block takes no more data and is retired when empty. The caller still has the data and must plan them again, GC
    /// copies as well as host writes; translation pages are planned again by [`PageMap::next_map_job`].
    pub fn program_ended(&mut self, id: ProgramId, ok: bool) {
        let Program { first, units, gc, .. } = self.programs.programs[id.0 as usize];
        self.programs.programs[id.0 as usize].active = false;
        let block = self.layout.block_of(first);
        let base = id.0 as usize * self.programs.superpage;
        for i in 0..units {
            // A superpage may hold a page twice (moved twice from one copy): a failed one is undone from its end.
            let i = if ok { i } else { units - 1 - i };
            let ProgramUnit { lpn, old } = self.programs.units[base + i as usize];
            if lpn == Lpn::NONE {
                continue;
            }
            if gc {
                self.gc.note_moving(old, false);
            }
            if ok {
                self.entry_changed(lpn, gc.then_some(if old.is_some() { old } else { first }));
                self.invalidate(old, Outdated::Replaced);
                if lpn.0 < self.user_units && self.has_regions() {
                    self.region_changed(self.page_of(lpn));
                }
            } else {
                self.undo(lpn, Ppa(first.0 + i), old);
            }
            if lpn.0 >= self.user_units {
                self.pages.ended(lpn.0 - self.user_units, ok);
                self.region_written(lpn.0 - self.user_units, ok);
            }
        }
        self.blocks.settled(block, !ok, self.sequence);
        self.gc.went_on(&mut self.blocks, block);
        if !ok {
            self.fail_block(block);
        }
        self.programs.idle.push(id.0);
    }

    /// The page of a unit of a planned program.
    pub(crate) fn page_of_unit(&self, id: ProgramId, position: u32) -> Lpn {
        self.programs.units(id)[position as usize].lpn
    }

    /// Tells translation that a failure in `block` affected one of several replaceable parts: the block is emptied and erased like any
    /// other victim instead of being retired. Call right after [`PageMap::program_ended`] has reported the failure.
    pub fn forgive(&mut self, block: BlockId) {
        debug_assert!(self.blocks.state(block) == BlockState::Full || self.blocks.is_settled(block));
        self.blocks.forgive(block);
    }

    /// Undoes the copy at `failed`, which does not exist: its successor replaces `old` instead.
    fn undo(&mut self, lpn: Lpn, failed: Ppa, old: Ppa) {
        if self.copy_of(lpn) == failed {
            self.table.set(lpn, old);
            self.cleaned_meanwhile(lpn, old);
            // GC may have skipped it, as it had a successor.
            if old.is_some() && self.blocks.state(self.layout.block_of(old)) == BlockState::Victim {
                self.gc.revisit(self.layout.block_of(old));
            }
        } else {
            let replaces = |unit: &ProgramUnit| unit.lpn == lpn && unit.old == failed;
            let mut active = self.programs.active();
            let successor = active.find_map(|p| Some((p.id as usize, p.units.iter().position(replaces)?)));
            drop(active);
            match successor {
                Some((id, at)) => self.programs.units[id * self.programs.superpage + at].old = old,
                // Trimmed, or overwritten by a program that has ended: then the old copy is not needed either. (Until the trim is on the
                // media, a power cut brings the old copy back.)
                None => {
                    let trimmed = self.copy_of(lpn) == Ppa::NONE;
                    self.keep_until_saved(old);
                    self.invalidate(old, if trimmed { Outdated::Trimmed } else { Outdated::Replaced });
                }
            }
        }
        self.invalidate(failed, Outdated::Replaced);
    }

    /// Closes a block early: it takes no more data, and is emptied and retired.
    pub(crate) fn fail_block(&mut self, block: BlockId) {
        self.blocks.close_failed(block, self.sequence);
        self.gc.retire(block);
        self.gc.went_on(&mut self.blocks, block);
    }

    /// Returns whether a copy in `block` is being replaced by a program that has not ended: a power cut brings this copy back, clean or
    /// not.
    pub(super) fn is_being_replaced(&self, block: BlockId) -> bool {
        let lies_there = |unit: &ProgramUnit| unit.old.is_some() && self.layout.block_of(unit.old) == block;
        self.programs.active().any(|program| program.units.iter().any(lies_there))
    }

    /// Place where the data of the page at `ppa` can be read now: there, or, until its program has ended, in the copy that this one
    /// replaces.
    /// [`Ppa::NONE`]: it has none on the media yet.
    #[inline]
    pub fn readable(&self, ppa: Ppa) -> Ppa {
        match self.blocks.in_flight(self.layout.block_of(ppa)) {
            0 => ppa,
            _ => self.replaced_by(ppa),
        }
    }

    fn replaced_by(&self, mut ppa: Ppa) -> Ppa {
        let written = |ppa: Ppa| {
            let holds = |p: &Active| (p.first.0..p.first.0 + p.units.len() as u32).contains(&ppa.0);
            self.programs.active().find(holds)
        };
        while let Some(program) = written(ppa) {
            ppa = program.units[(ppa.0 - program.first.0) as usize].old;
        }
        ppa
    }

    /// Snapshot of the copies that are surely on the media now; for writing translation pages.
    pub(crate) fn settled(&self) -> Settled {
        let mut superpages: Vec<(u32, u32)> = self.programs.active().map(|p| (p.first.0, p.id)).collect();
        superpages.sort_unstable();
        let watermark = self.programs.active().map(|p| p.sequence).min().unwrap_or(self.sequence);
        Settled { superpages, watermark }
    }

    /// The address of `lpn`'s newest copy that is on the media.
    pub(crate) fn settled_copy(&self, settled: &Settled, lpn: Lpn) -> Ppa {
        let mut ppa = self.copy_of(lpn);
        // A chain of unfinished copies leads back to a finished one.
        while ppa.is_some() && self.blocks.in_flight(self.layout.block_of(ppa)) > 0 {
            let unit = ppa.0 % self.layout.units_per_superpage;
            let Ok(at) = settled.superpages.binary_search_by_key(&(ppa.0 - unit), |s| s.0) else { break };
            ppa = self.programs.units
                [settled.superpages[at].1 as usize * self.programs.superpage + unit as usize]
                .old;
        }
        ppa
    }
}
