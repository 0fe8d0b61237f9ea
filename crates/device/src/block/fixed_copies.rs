//! Copies to a fixed place, as merges of log blocks make them: all sources of a superpage are read, then it is programmed.
//!
//! ```text
//!  read_sources ─► one read for what a sense brings ─► source_arrived .. all of them ─► place ─► program
//! ```
//! A copy's units are among the GC copies of its die ([`super::gc`]), which limits how many are in flight. What hosts replace meanwhile becomes
//! a hole in the superpage.

use super::BlockNamespace;
use super::superpages::SuperpageUnit;
use crate::shared::Shared;
use pellucid_flash::{Cause, DieId, Lpn, Ppa};
use pellucid_ftl::{Arrival, Arrived, CopyId, Move, Stream};

/// Fixed copies whose sources are being read.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixedCopies {
    reading: Vec<Reading>,
    /// Sources of the copy that is begun, with their positions; how many positions there are.
    sources: Vec<(Ppa, usize)>,
    positions: usize,
    /// Sources that one sense brings.
    moves: Vec<Move>,
    /// Lists of copies that have been placed, used again.
    lists: Vec<Vec<Option<u32>>>,
}

#[derive(Clone, Debug)]
struct Reading {
    id: CopyId,
    cause: Cause,
    die: DieId,
    /// Sources that are not here yet.
    left: u32,
    /// The GC copy at each position, or none.
    units: Vec<Option<u32>>,
}

impl FixedCopies {
    fn of(&mut self, id: CopyId) -> &mut Reading {
        let at = self.reading.iter().position(|reading| reading.id == id);
        &mut self.reading[at.expect("a copy that is being read")]
    }

    /// The sources of the copy that begins, by position.
    pub fn take_in(&mut self, sources: &[Ppa]) {
        self.sources.clear();
        self.sources.extend(sources.iter().copied().zip(0..).filter(|(from, _)| from.is_some()));
        self.positions = sources.len();
        // Neighbours come together.
        self.sources.sort_unstable();
    }

    /// This unit of a copy is no longer needed.
    pub fn drop_source(&mut self, id: CopyId, unit: u32) {
        self.of(id).units.iter_mut().filter(|held| **held == Some(unit)).for_each(|held| *held = None);
    }
}

impl BlockNamespace {
    /// Reads the sources that were taken in.
    pub(super) fn read_sources(&mut self, shared: &mut Shared, die: DieId, id: CopyId, cause: Cause) {
        let mut units = self.gc.fixed.lists.pop().unwrap_or_default();
        units.resize(self.gc.fixed.positions, None);
        let sources = std::mem::take(&mut self.gc.fixed.sources);
        let reading = Reading { id, cause, die, left: sources.len() as u32, units };
        self.gc.fixed.reading.push(reading);
        let mut moves = std::mem::take(&mut self.gc.fixed.moves);
        let sense = shared.sense;
        for same in sources.chunk_by(|a, b| sense.quotient(a.0.0) == sense.quotient(b.0.0)) {
            let to = Stream::Merge(id);
            moves.clear();
            moves.extend(same.iter().map(|&(from, _)| Move { from, cause, to, inside: false }));
            let head = self.gc.enter(die, &moves);
            let mut unit = head;
            for &(_, position) in same {
                self.gc.fixed.of(id).units[position] = Some(unit);
                unit = self.gc.copies[unit].next;
            }
            self.read_copies(shared, die, head, same.len() as u32);
        }
        let none = sources.is_empty();
        (self.gc.fixed.sources, self.gc.fixed.moves) = (sources, moves);
        if none {
            self.place_fixed(shared, id);
        }
    }

    /// A source has been read, or is not needed any more.
    pub(super) fn source_arrived(&mut self, shared: &mut Shared, id: CopyId) {
        let reading = self.gc.fixed.of(id);
        reading.left -= 1;
        if reading.left == 0 {
            self.place_fixed(shared, id);
        }
    }

    /// All sources of a fixed copy are here: its superpage is programmed.
    fn place_fixed(&mut self, shared: &mut Shared, id: CopyId) {
        let at = self.gc.fixed.reading.iter().position(|reading| reading.id == id);
        let at = at.expect("a copy that is being read");
        let Reading { cause, mut units, die, .. } = self.gc.fixed.reading.swap_remove(at);
        let mut lpns = std::mem::take(&mut self.gc.lpns);
        lpns.clear();
        for held in &mut units {
            *held = held.filter(|&unit| self.still_needed(shared, unit));
            lpns.push(held.map_or(Lpn::NONE, |unit| self.gc.copies[unit].lpn));
        }
        match self.translation.place(Stream::Merge(id), Some(die), &lpns) {
            Err(_) => units.iter().flatten().for_each(|&unit| self.drop_copy(unit)),
            Ok(plan) => {
                // Holes at the end are padding like any other.
                let count = lpns.iter().rposition(|&lpn| lpn != Lpn::NONE).map_or(1, |last| last + 1);
                self.superpages.enter(&plan, count as u32);
                for (position, held) in units[..count].iter().enumerate() {
                    let (cause, unit) = match held {
                        Some(unit) => (cause, SuperpageUnit::Moved(*unit)),
                        None => (Cause::Padding, SuperpageUnit::Hole),
                    };
                    self.count_copy(shared, cause);
                    self.superpages.set(plan.id, position, unit);
                }
                self.issue_program(shared, &plan, count as u32, cause);
            }
        }
        self.gc.lpns = lpns;
        units.clear();
        self.gc.fixed.lists.push(units);
        self.erase_emptied(shared);
        self.start_copies(shared, die);
    }

    /// Returns whether a unit that was read must still be copied; drops it otherwise.
    fn still_needed(&mut self, shared: &mut Shared, unit: u32) -> bool {
        let (moved, lpn) = (self.gc.copies[unit].moved, self.gc.copies[unit].lpn);
        let given_up = shared.media.is_lost(moved.from);
        // Given up since it was read: no copy may bring it back.
        if given_up && self.translation.arrived(&moved, Some(lpn), Arrival::Unreadable) == Arrived::Lost {
            shared.counts(self.number).uncorrectable_reads += 1;
        }
        let needed = !given_up && self.translation.is_current(moved.from, Some(lpn));
        if !needed {
            self.drop_copy(unit);
        }
        needed
    }
}
