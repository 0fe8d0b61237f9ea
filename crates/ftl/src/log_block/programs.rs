//! Programs from plan to end: until then the mapping table names a copy that the media do not hold yet.
//!
//! ```text
//!  append ─► table: new copy ─► ended ─┬─ ok ─────► references of the old copies end
//!            old copy stays referenced └─ failed ─► table: old copy (or the successor has it to replace)
//! ```
//! Copies of merges and metadata are in the same table of programs under way, but replace nothing before their merge commits, or their
//! program ends.

use crate::translation::ProgramId;
use pellucid_flash::{Lpn, Ppa};

/// Content of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Host,
    /// Copies of the merge of its die.
    Merge,
    Metadata,
}

#[derive(Clone, Copy, Debug)]
struct Program {
    first: Ppa,
    sequence: u64,
    units: u32,
    active: bool,
    content: Content,
}

/// A program that has ended. Its units stay until the next one begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// First unit of its superpage.
    pub first: Ppa,
    pub units: u32,
    pub content: Content,
}

/// A page of the host that is being programmed, and the copy that it replaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub lpn: Lpn,
    pub old: Ppa,
}

/// The number of the next program, and the programs that have not ended. Invariant: numbers rise.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    sequence: u64,
    programs: Vec<Program>,
    units: Vec<Unit>,
    idle: Vec<u32>,
    stride: usize,
}

impl Programs {
    /// Creates the state of a drive that has programmed nothing.
    pub fn new(units_per_superpage: u32) -> Programs {
        Programs {
            sequence: 1,
            programs: Vec::new(),
            units: Vec::new(),
            idle: Vec::new(),
            stride: units_per_superpage as usize,
        }
    }

    /// Number of the next program.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Sets, at a mount, the number of the next program.
    pub fn go_on_from(&mut self, sequence: u64) {
        assert!(sequence >= self.sequence, "numbers of programs rise");
        self.sequence = sequence;
    }

    /// Begins a program of so many units at `first`; returns its id, its number, and its units, to be filled in.
    pub fn begin(&mut self, first: Ppa, content: Content, units: u32) -> (ProgramId, u64, &mut [Unit]) {
        let sequence = self.sequence;
        self.sequence += 1;
        let program = Program { first, sequence, units, active: true, content };
        let id = self.idle.pop().unwrap_or_else(|| {
            self.programs.push(program);
            let none = Unit { lpn: Lpn::NONE, old: Ppa::NONE };
            self.units.resize(self.programs.len() * self.stride, none);
            self.programs.len() as u32 - 1
        });
        self.programs[id as usize] = program;
        let base = id as usize * self.stride;
        (ProgramId(id), sequence, &mut self.units[base..base + units as usize])
    }

    /// Ends a program.
    pub fn end(&mut self, id: ProgramId) -> Ended {
        let program = &mut self.programs[id.0 as usize];
        assert!(program.active, "program {} has ended before", id.0);
        program.active = false;
        self.idle.push(id.0);
        Ended { first: program.first, units: program.units, content: program.content }
    }

    /// A unit of a program.
    pub fn unit(&self, id: ProgramId, at: u32) -> Unit {
        self.units[id.0 as usize * self.stride + at as usize]
    }

    /// The lowest sequence number of a program that has not ended and whose first unit is one of `these`; the next number if all have.
    pub fn oldest(&self, these: impl Fn(Ppa) -> bool) -> u64 {
        let active = self.programs.iter().filter(|program| program.active && these(program.first));
        active.map(|program| program.sequence).min().unwrap_or(self.sequence)
    }

    /// Units of the host that are being programmed, with their places.
    pub fn host_units(&self) -> impl Iterator<Item = (Ppa, Unit)> {
        self.numbers().map(|at| (self.place(at), self.units[at])).filter(|(_, unit)| unit.lpn != Lpn::NONE)
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        let host = self.programs.iter().enumerate().filter(|(_, p)| p.active && p.content == Content::Host);
        host.flat_map(|(id, p)| id * self.stride..id * self.stride + p.units as usize)
    }

    fn place(&self, at: usize) -> Ppa {
        Ppa(self.programs[at / self.stride].first.0 + (at % self.stride) as u32)
    }

    /// Copy that the program under way that writes `ppa` replaces there; `None`: no host program writes it.
    pub fn replaced_by(&self, ppa: Ppa) -> Option<Ppa> {
        let at = |p: &Program| (p.first.0..p.first.0 + p.units).contains(&ppa.0);
        let writes = |p: &Program| p.active && p.content == Content::Host && at(p);
        let id = self.programs.iter().position(writes)?;
        Some(self.units[id * self.stride + (ppa.0 - self.programs[id].first.0) as usize].old)
    }

    /// The newest copy on the media of the page whose copy at `ppa` may be under way; [`Ppa::NONE`]: it has none there.
    pub fn on_media(&self, mut ppa: Ppa) -> Ppa {
        while ppa.is_some()
            && let Some(old) = self.replaced_by(ppa)
        {
            ppa = old;
        }
        ppa
    }

    /// Lets the unit being programmed that replaces the copy at `old` replace the one at `instead`; `false`: there is none.
    pub fn replace_instead(&mut self, old: Ppa, instead: Ppa) -> bool {
        let at = self.numbers().find(|&at| self.units[at].lpn != Lpn::NONE && self.units[at].old == old);
        if let Some(at) = at {
            self.units[at].old = instead;
        }
        at.is_some()
    }
}
