//! Copies to a fixed place, as merges of log blocks make them: all sources of a superpage are read, then it is programmed.
//!
//! ```text
//!  read_sources ─► one read for what a sense brings ─► take_source .. all of them ─► place_copy ─► program
//! ```
//! A copy's units are among the GC copies of its die ([`super::gc`]), which limits how many are in flight. What hosts replace meanwhile becomes
//! a hole in the superpage.

use super::gc::GcCopy;
use super::write::SuperpageUnit;
use super::{BlockNamespace, Purpose};
use crate::back::scheduler::{FlashOp, OpKind};
use crate::shared::Shared;
use pellucid_flash::slab::{List, NIL};
use pellucid_flash::{DieId, Lpn, Ppa};
use pellucid_ftl::{CopyId, Move, Stream};
use pellucid_media::ReadResult;

/// Fixed copies whose sources are being read.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixedCopies {
    reading: Vec<Reading>,
    /// Sources of the copy that is begun.
    sources: Vec<(Ppa, u32)>,
    /// Lists of copies that have been placed, used again.
    lists: Vec<Vec<Option<u32>>>,
}

#[derive(Clone, Debug)]
struct Reading {
    id: CopyId,
    die: DieId,
    /// Sources that are not here yet.
    left: u32,
    /// The GC copy at each position, or none.
    units: Vec<Option<u32>>,
}

impl FixedCopies {
    fn at(&self, id: CopyId) -> usize {
        self.reading.iter().position(|reading| reading.id == id).expect("a copy that is being read")
    }
}

impl BlockNamespace {
    /// Reads the sources of a fixed copy.
    pub(super) fn read_sources(&mut self, shared: &mut Shared, die: DieId, id: CopyId) {
        let mut sources = std::mem::take(&mut self.gc.fixed.sources);
        sources.clear();
        let found = self.translation.copy_sources(id);
        let positions = found.len();
        sources.extend(found.iter().copied().zip(0..).filter(|(from, _)| from.is_some()));
        let mut units = self.gc.fixed.lists.pop().unwrap_or_default();
        units.resize(positions, None);
        let reading = Reading { id, die, left: sources.len() as u32, units };
        self.gc.fixed.reading.push(reading);
        if sources.is_empty() {
            self.gc.fixed.sources = sources;
            return self.place_fixed(shared, id);
        }
        // Neighbours come together.
        sources.sort_unstable();
        let cause = self.translation.copy_cause(id);
        let sense = shared.sense;
        for same in sources.chunk_by(|a, b| sense.quotient(a.0.0) == sense.quotient(b.0.0)) {
            let (mut units, mut head) = (List::EMPTY, NIL);
            for &(from, position) in same {
                let moved = Move { from, cause, to: Stream::Collected, inside: false };
                let fixed = Some((id, position));
                let unit = self.gc.copies.insert(GcCopy { moved, die: die.0, fixed, ..GcCopy::default() });
                units.push_back(&mut self.gc.copies, unit);
                head = if head == NIL { unit } else { head };
                let at = self.gc.fixed.at(id);
                self.gc.fixed.reading[at].units[position as usize] = Some(unit);
            }
            let count = same.len() as u32;
            self.gc.moving[die.0 as usize] += count;
            self.gc.reading[die.0 as usize] += count;
            let owner = self.owner(Purpose::Move(head));
            let op = FlashOp::new(OpKind::Read, cause, owner, die.0, same[0].0, count, shared.now);
            let op = shared.scheduler.ops.insert(op);
            shared.ask_issue(op);
        }
        self.gc.fixed.sources = sources;
    }

    /// Takes in a source that was read; `false`: it must be read again.
    pub(super) fn take_source(
        &mut self,
        shared: &mut Shared,
        copy: u32,
        id: CopyId,
        position: u32,
        attempts: u32,
    ) -> bool {
        let GcCopy { moved: Move { from, .. }, die, .. } = self.gc.copies[copy];
        let named = shared.media.page(from);
        // Replaced meanwhile, perhaps erased: then it becomes a hole.
        if named.is_none() || self.translation.is_current(from, named) {
            match shared.media.read(from, 0, self.gc.image_mut(copy), attempts) {
                ReadResult::Ok { corrected_bits, .. } if named.is_some() => {
                    shared.corrected(self.number, corrected_bits, attempts);
                }
                _ if shared.tries_again(from, attempts) => return false,
                _ => self.lose_source(shared, id, position),
            }
        }
        self.gc.reading[die as usize] -= 1;
        let at = self.gc.fixed.at(id);
        self.gc.fixed.reading[at].left -= 1;
        if self.gc.fixed.reading[at].left == 0 {
            self.place_fixed(shared, id);
        }
        true
    }

    fn lose_source(&mut self, shared: &mut Shared, id: CopyId, position: u32) {
        if self.translation.copy_lost(id, position) {
            shared.counts(self.number).uncorrectable_reads += 1;
        }
    }

    /// All sources of a fixed copy are here: its superpage is programmed.
    fn place_fixed(&mut self, shared: &mut Shared, id: CopyId) {
        let at = self.gc.fixed.at(id);
        let Reading { mut units, die, .. } = self.gc.fixed.reading.swap_remove(at);
        // Given up since they were read: no copy may bring them back.
        for (position, &unit) in units.iter().enumerate() {
            if unit.is_some_and(|unit| shared.media.is_condemned(self.gc.copies[unit].moved.from)) {
                self.lose_source(shared, id, position as u32);
            }
        }
        let cause = self.translation.copy_cause(id);
        let mut lpns = std::mem::take(&mut self.gc.lpns);
        let plan = self.translation.place_copy(id, &mut lpns);
        let kept =
            |position: usize| plan.is_some() && lpns.get(position).is_some_and(|&lpn| lpn != Lpn::NONE);
        for (position, unit) in
            units.iter().enumerate().filter_map(|(position, unit)| Some((position, (*unit)?)))
        {
            if !kept(position) {
                self.drop_copy(unit);
            }
        }
        if let Some(plan) = plan {
            // Holes at the end are padding like any other.
            let count = lpns.iter().rposition(|&lpn| lpn != Lpn::NONE).map_or(1, |last| last + 1);
            self.reserve(shared, &plan, count as u32);
            for position in 0..count {
                let unit = match (units[position], lpns[position]) {
                    (Some(unit), lpn) if lpn != Lpn::NONE => {
                        self.gc.copies[unit].lpn = lpn;
                        self.count_copy(shared, cause);
                        SuperpageUnit::Moved(unit)
                    }
                    _ => {
                        self.count_copy(shared, pellucid_flash::Cause::Padding);
                        SuperpageUnit::Hole
                    }
                };
                self.set_unit(shared, plan.id, position, unit);
            }
            self.issue_program(shared, &plan, count as u32, cause);
        }
        self.gc.lpns = lpns;
        units.clear();
        self.gc.fixed.lists.push(units);
        self.erase_emptied(shared);
        self.start_copies(shared, die);
    }
}
