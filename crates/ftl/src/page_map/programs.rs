//! Programs from plan to end: until then the map points to a copy that the media do not hold yet.
//!
//! ```text
//!  place ─► map: new copy ─► ended ─┬─ ok ─────► old copies invalid
//!           old copy stays valid    └─ failed ─► map: old copy (or the newer copy replaces it)
//! ```
//! Invariants: numbers of programs rise; following `old` from an unfinished copy leads to one that is on the media, or to none. The paths
//! (`write.rs`) keep the third: a copy is invalidated, and its block erased, only when its successor's program has ended well.

use crate::translation::ProgramId;
use pellucid_flash::{Lpn, Ppa};

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
pub(crate) struct ProgramUnit {
    pub lpn: Lpn,
    pub old: Ppa,
}

/// A planned program that has not ended, with its units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active<'a> {
    id: u32,
    first: Ppa,
    sequence: u64,
    pub units: &'a [ProgramUnit],
}

/// A program that has ended, until its units are [released](Programs::release).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// First unit of its superpage.
    pub first: Ppa,
    /// Number of its units.
    pub units: u32,
    /// GC has moved the copies that it replaces.
    pub gc: bool,
}

/// The number of the next program, and the programs that have not ended. Their ids are used again.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    sequence: u64,
    programs: Vec<Program>,
    /// Units of each program, one superpage of them.
    units: Vec<ProgramUnit>,
    idle: Vec<u32>,
    superpage: usize,
}

/// A snapshot of the programs that have not ended.
#[derive(Clone, Debug)]
pub struct Settled {
    /// First unit and number of each, in order of address.
    superpages: Vec<(u32, u32)>,
    /// First unit of the first of these superpages, and the number of units from there to the end of the last one.
    span: (u32, u32),
    /// Every program with a lower sequence number has ended.
    watermark: u64,
}

impl Settled {
    /// Sequence number below which every program has ended.
    pub fn watermark(&self) -> u64 {
        self.watermark
    }

    /// Returns whether the copy at `ppa` may be in flight, that is, lies within the range of
    /// superpages in flight.
    #[inline]
    pub fn may_hold(&self, ppa: Ppa) -> bool {
        ppa.0.wrapping_sub(self.span.0) < self.span.1
    }
}

impl Programs {
    /// Creates the state of a drive that has programmed nothing.
    pub fn new(units_per_superpage: u32) -> Programs {
        Programs {
            sequence: 1,
            programs: Vec::new(),
            units: Vec::new(),
            idle: Vec::new(),
            superpage: units_per_superpage as usize,
        }
    }

    /// Number of the next program.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Takes the number of the next program.
    #[inline]
    pub fn take_number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    /// Sets, at a mount, the number of the next program.
    pub fn go_on_from(&mut self, sequence: u64) {
        assert!(sequence >= self.sequence, "numbers of programs rise");
        self.sequence = sequence;
    }

    /// Enters a program; returns its id and its units, to be filled in.
    #[inline]
    pub fn enter(
        &mut self,
        first: Ppa,
        sequence: u64,
        units: u32,
        gc: bool,
    ) -> (ProgramId, &mut [ProgramUnit]) {
        let program = Program { first, sequence, units, active: true, gc };
        let id = self.idle.pop().unwrap_or_else(|| {
            self.programs.push(program);
            let none = ProgramUnit { lpn: Lpn::NONE, old: Ppa::NONE };
            self.units.resize(self.units.len() + self.superpage, none);
            self.programs.len() as u32 - 1
        });
        self.programs[id as usize] = program;
        let base = id as usize * self.superpage;
        (ProgramId(id), &mut self.units[base..base + units as usize])
    }

    /// The units of a program.
    #[inline]
    pub fn units(&self, id: ProgramId) -> &[ProgramUnit] {
        let base = id.0 as usize * self.superpage;
        &self.units[base..base + self.programs[id.0 as usize].units as usize]
    }

    /// A unit of a program.
    #[inline]
    pub fn unit(&self, id: ProgramId, at: u32) -> ProgramUnit {
        self.units[id.0 as usize * self.superpage + at as usize]
    }

    /// Ends a program. Its units stay until it is released.
    #[inline]
    pub fn end(&mut self, id: ProgramId) -> Ended {
        let program = &mut self.programs[id.0 as usize];
        assert!(program.active, "program {} has ended before", id.0);
        program.active = false;
        Ended { first: program.first, units: program.units, gc: program.gc }
    }

    /// Gives the id of an ended program to the next one.
    #[inline]
    pub fn release(&mut self, id: ProgramId) {
        debug_assert!(!self.programs[id.0 as usize].active, "program {} has not ended", id.0);
        self.idle.push(id.0);
    }

    /// Redirects the copy of `lpn` that was to replace the one at `failed`, so that it replaces `old`; `false`: no such
    /// copy is in flight.
    pub fn inherit(&mut self, lpn: Lpn, failed: Ppa, old: Ppa) -> bool {
        let replaces = |unit: &ProgramUnit| unit.lpn == lpn && unit.old == failed;
        let mut active = self.active();
        let successor = active.find_map(|p| Some((p.id as usize, p.units.iter().position(replaces)?)));
        drop(active);
        let Some((id, at)) = successor else { return false };
        self.units[id * self.superpage + at].old = old;
        true
    }

    /// Every program that has not ended.
    pub fn active(&self) -> impl Iterator<Item = Active<'_>> {
        (0..).zip(&self.programs).filter(|(_, p)| p.active).map(|(id, &Program { first, sequence, .. })| {
            Active { id, first, sequence, units: self.units(ProgramId(id)) }
        })
    }

    /// The lowest sequence number of a program that has not ended.
    pub fn oldest_active(&self) -> Option<u64> {
        self.active().map(|p| p.sequence).min()
    }

    /// Returns whether one of the `units` copies from `first` on is being replaced by a program that has not ended: a power cut would
    /// restore this copy, clean or not. ([`Ppa::NONE`] is beyond all units.)
    pub fn replace_any(&self, first: Ppa, units: u32) -> bool {
        let lies_there = |unit: &ProgramUnit| unit.old.0.wrapping_sub(first.0) < units;
        self.active().any(|program| program.units.iter().any(lies_there))
    }

    /// The newest copy on the media of the page whose copy at `ppa` may be in flight; [`Ppa::NONE`]: it has none there.
    pub fn replaced_by(&self, mut ppa: Ppa) -> Ppa {
        let written = |ppa: Ppa| {
            let holds = |p: &Active| (p.first.0..p.first.0 + p.units.len() as u32).contains(&ppa.0);
            self.active().find(holds)
        };
        while let Some(program) = written(ppa) {
            ppa = program.units[(ppa.0 - program.first.0) as usize].old;
        }
        ppa
    }

    /// Snapshot of the copies that are surely on the media now; for writing translation pages.
    pub fn settled(&self) -> Settled {
        let mut superpages: Vec<(u32, u32)> = self.active().map(|p| (p.first.0, p.id)).collect();
        superpages.sort_unstable();
        let span = match (superpages.first(), superpages.last()) {
            (Some(&(first, _)), Some(&(last, _))) => (first, last - first + self.superpage as u32),
            _ => (0, 0),
        };
        Settled { superpages, span, watermark: self.oldest_active().unwrap_or(self.sequence) }
    }

    /// The newest copy that is on the media of a page whose newest copy is at `ppa`. `in_flight`: its block has programs that have not
    /// ended.
    pub fn settled_copy(&self, settled: &Settled, mut ppa: Ppa, in_flight: impl Fn(Ppa) -> bool) -> Ppa {
        // A chain of unfinished copies leads back to a finished one.
        while settled.may_hold(ppa) && in_flight(ppa) {
            let unit = ppa.0 % self.superpage as u32;
            let Ok(at) = settled.superpages.binary_search_by_key(&(ppa.0 - unit), |s| s.0) else { break };
            ppa = self.unit(ProgramId(settled.superpages[at].1), unit).old;
        }
        ppa
    }
}
