//! The superpages of planned programs: the unit at each position, from plan to end.
//!
//! ```text
//!  plan ─► enter ─► set, position by position ─► units: the program begins, and gives them to the media ─► end
//! ```
//! Invariants: a program has at least one unit, and at most a superpage of them; positions beyond its count are never read.

use pellucid_flash::{Lpn, Ppa};
use pellucid_ftl::{Plan, ProgramId, Stream};

/// Content of one unit in the superpage of a planned program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuperpageUnit {
    Entry(u32),
    Moved(u32),
    /// Nothing, because the superpage has a fixed place.
    Hole,
    /// Metadata from [`pellucid_ftl::Translation::metadata`].
    Metadata,
    Copyback {
        from: Ppa,
        lpn: Lpn,
        to: Stream,
    },
}

/// A planned program.
#[derive(Clone, Copy, Debug, Default)]
struct Planned {
    sequence: u64,
    count: usize,
}

/// Units and sequence number of every planned program, by its id.
#[derive(Clone, Debug)]
pub(super) struct Superpages {
    programs: Vec<Planned>,
    units: Vec<SuperpageUnit>,
    superpage: usize,
    /// Units of the program that ended last.
    ended: Vec<SuperpageUnit>,
}

impl Superpages {
    /// Makes space for superpages of this many units.
    pub fn new(units_per_superpage: u32) -> Superpages {
        let superpage = units_per_superpage as usize;
        Superpages { programs: Vec::new(), units: Vec::new(), superpage, ended: Vec::new() }
    }

    /// A program of `count` units was planned.
    ///
    /// # Panics
    /// When it has no unit, or more than a superpage has.
    #[inline]
    pub fn enter(&mut self, plan: &Plan, count: u32) {
        let (id, count) = (plan.id.0 as usize, count as usize);
        assert!(count > 0 && count <= self.superpage, "a program of {count} units");
        if self.programs.len() <= id {
            self.programs.resize(id + 1, Planned::default());
            self.units.resize((id + 1) * self.superpage, SuperpageUnit::Metadata);
        }
        self.programs[id] = Planned { sequence: plan.sequence, count };
    }

    /// Puts a unit at a position of a program.
    #[inline]
    pub fn set(&mut self, id: ProgramId, position: usize, unit: SuperpageUnit) {
        self.units[id.0 as usize * self.superpage + position] = unit;
    }

    /// The units of a program.
    #[inline]
    pub fn units(&self, id: ProgramId) -> &[SuperpageUnit] {
        let from = id.0 as usize * self.superpage;
        &self.units[from..from + self.programs[id.0 as usize].count]
    }

    /// A program has ended, so its id may be given to the next one; gives the number of its units.
    #[inline]
    pub fn end(&mut self, id: ProgramId) -> usize {
        let from = id.0 as usize * self.superpage;
        let count = self.programs[id.0 as usize].count;
        self.ended.clear();
        self.ended.extend_from_slice(&self.units[from..from + count]);
        count
    }

    /// The unit at a position of the program that [ended](Superpages::end) last.
    #[inline]
    pub fn ended(&self, position: usize) -> SuperpageUnit {
        self.ended[position]
    }

    /// The sequence number of a program.
    #[inline]
    pub fn sequence(&self, id: ProgramId) -> u64 {
        self.programs[id.0 as usize].sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::DieId;

    fn plan(id: u32, sequence: u64) -> Plan {
        Plan { id: ProgramId(id), first: Ppa(0), die: DieId(0), sequence }
    }

    /// Ids are used in any order and reused; a shorter program does not expose remains of a longer one.
    #[test]
    fn each_program_has_its_own_units() {
        let mut superpages = Superpages::new(2);
        superpages.enter(&plan(3, 30), 2);
        superpages.set(ProgramId(3), 0, SuperpageUnit::Entry(7));
        superpages.set(ProgramId(3), 1, SuperpageUnit::Moved(8));
        superpages.enter(&plan(0, 31), 1);
        superpages.set(ProgramId(0), 0, SuperpageUnit::Hole);
        assert_eq!(superpages.units(ProgramId(3)), [SuperpageUnit::Entry(7), SuperpageUnit::Moved(8)]);
        assert_eq!((superpages.sequence(ProgramId(3)), superpages.sequence(ProgramId(0))), (30, 31));
        superpages.enter(&plan(3, 32), 1);
        superpages.set(ProgramId(3), 0, SuperpageUnit::Metadata);
        assert_eq!(superpages.units(ProgramId(3)), [SuperpageUnit::Metadata]);
        assert_eq!(superpages.units(ProgramId(0)), [SuperpageUnit::Hole]);
    }

    #[test]
    #[should_panic = "a program of 3 units"]
    fn a_superpage_does_not_hold_more() {
        Superpages::new(2).enter(&plan(0, 1), 3);
    }
}
