//! Copies to a fixed place, as merges of log blocks make them: all sources of a superpage are read, then it is programmed.
//!
//! ```text
//!  read_sources ─► one read for what a sense brings ─► source_arrived .. all of them ─► place ─► program
//! ```
//! A copy's units are among the GC copies of its die ([`super::gc`]), which limits how many are in flight. What hosts replace meanwhile becomes
//! a hole in the superpage.

use super::media_side::MediaSide;
use super::superpages::SuperpageUnit;
use super::{erases, gc, programs};
use crate::shared::Shared;
use pellucid_flash::{Cause, DieId, Lpn, Ppa};
use pellucid_ftl::{Arrival, CopyId, Move, Stream};

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
    /// Pages of the superpage that is being planned.
    lpns: Vec<Lpn>,
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

    /// Units of the copy that begins.
    pub fn taken_in(&self) -> usize {
        self.sources.len()
    }

    /// This unit of a copy is no longer needed.
    pub fn drop_source(&mut self, id: CopyId, unit: u32) {
        self.of(id).units.iter_mut().filter(|held| **held == Some(unit)).for_each(|held| *held = None);
    }
}

/// Reads the sources that were taken in.
pub(super) fn read_sources(side: &mut MediaSide, shared: &mut Shared, die: DieId, id: CopyId, cause: Cause) {
    let mut units = side.fixed.lists.pop().unwrap_or_default();
    units.resize(side.fixed.positions, None);
    let sources = std::mem::take(&mut side.fixed.sources);
    let reading = Reading { id, cause, die, left: sources.len() as u32, units };
    side.fixed.reading.push(reading);
    let mut moves = std::mem::take(&mut side.fixed.moves);
    let sense = shared.sense;
    for same in sources.chunk_by(|a, b| sense.quotient(a.0.0) == sense.quotient(b.0.0)) {
        let to = Stream::Merge(id);
        moves.clear();
        moves.extend(same.iter().map(|&(from, _)| Move { from, cause, to, inside: false }));
        let head = side.gc.enter(die, &moves);
        let mut unit = head;
        for &(_, position) in same {
            side.fixed.of(id).units[position] = Some(unit);
            unit = side.gc.copy(unit).next_of_sense();
        }
        gc::read_copies(side, shared, die, head, same.len() as u32);
    }
    let none = sources.is_empty();
    (side.fixed.sources, side.fixed.moves) = (sources, moves);
    if none {
        place_fixed(side, shared, id);
    }
}

/// A source has been read, or is not needed any more.
pub(super) fn source_arrived(side: &mut MediaSide, shared: &mut Shared, id: CopyId) {
    let reading = side.fixed.of(id);
    reading.left -= 1;
    if reading.left == 0 {
        place_fixed(side, shared, id);
    }
}

/// All sources of a fixed copy are here: its superpage is programmed.
fn place_fixed(side: &mut MediaSide, shared: &mut Shared, id: CopyId) {
    let at = side.fixed.reading.iter().position(|reading| reading.id == id);
    let at = at.expect("a copy that is being read");
    let Reading { cause, mut units, die, .. } = side.fixed.reading.swap_remove(at);
    let mut lpns = std::mem::take(&mut side.fixed.lpns);
    lpns.clear();
    for held in &mut units {
        *held = held.filter(|&unit| still_needed(side, shared, unit));
        lpns.push(held.map_or(Lpn::NONE, |unit| side.gc.copy(unit).lpn()));
    }
    match side.translation.place(Stream::Merge(id), Some(die), &lpns) {
        Err(_) => units.iter().flatten().for_each(|&unit| gc::drop_copy(side, unit)),
        Ok(plan) => {
            // Holes at the end are padding like any other.
            let count = lpns.iter().rposition(|&lpn| lpn != Lpn::NONE).map_or(1, |last| last + 1);
            side.superpages.enter(&plan, count as u32);
            for (position, held) in units[..count].iter().enumerate() {
                let (cause, unit) = match held {
                    Some(unit) => (cause, SuperpageUnit::Moved(*unit)),
                    None => (Cause::Padding, SuperpageUnit::Hole),
                };
                gc::count_copy(side, shared, cause);
                side.superpages.set(plan.id, position, unit);
            }
            programs::issue_program(side, shared, &plan, count as u32, cause);
        }
    }
    side.fixed.lpns = lpns;
    units.clear();
    side.fixed.lists.push(units);
    erases::erase_emptied(side, shared);
    gc::start_copies(side, shared, die);
}

/// Returns whether a unit that was read must still be copied; drops it otherwise.
fn still_needed(side: &mut MediaSide, shared: &mut Shared, unit: u32) -> bool {
    let (moved, lpn) = (side.gc.copy(unit).moved(), side.gc.copy(unit).lpn());
    let given_up = shared.media.is_lost(moved.from);
    // Given up since it was read: no copy may bring it back. The read that failed is counted.
    if given_up {
        side.translation.arrived(&moved, Some(lpn), Arrival::Unreadable);
    }
    let needed = !given_up && side.translation.is_current(moved.from, Some(lpn));
    if !needed {
        gc::drop_copy(side, unit);
    }
    needed
}
