//! Fills a drive without simulating time: with the same translation and media, one operation after the other.
//!
//! A drive that has been written this way is in a state that it could have reached by commands; only the clock, the counters
//! of work and the busy times stay untouched. The drive must be at rest.
//!
//! ```text
//!  fill_unit ─► superpage full ─► place ─┬─► program ─► turns of GC, in one die after the other
//!                                        └─ no space: a step of GC in every die, until there may be some ─► again
//!  a step: the units of one sense are read ─► gathered by stream ─► superpage full ─► program ─► victim empty? ─► erase
//!  fill_end ─► GC goes on until no die needs space ─► what is gathered is padded
//! ```
//! The drive is written as by a host that always has writes waiting. GC gets the turns that it has at work ([`Preconditioner::gc_turns`]), and
//! beyond them only what the next superpage needs. Collected up to `gc_low` after every superpage, the drive would keep more blocks free than
//! one under load ever does; with little spare space its write amplification would then be many times that at work. At the end the drive rests,
//! and GC has made the space that a resting drive keeps.
//!
//! GC copies that fill no superpage wait while more can join them, as at work. Copies without space wait for an erase in their die.

use super::discards;
use super::media_side::MediaSide;
use crate::config::WritePolicy;
use crate::shared::Shared;
use pellucid_flash::{Cause, DieId, Lpn, Ppa};
use pellucid_ftl::{
    Arrival, Arrived, CopyId, GcJob, Load, MapJob, Move, Operation, Plan, Reclaim, Stream, Translation,
};
use pellucid_media::Outcome;
use std::collections::BTreeMap;

/// Why a drive could not be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("preconditioning: the drive ran out of good blocks")]
pub struct NoRoom;

/// Units on their way into a superpage of one block namespace.
#[derive(Debug, Default)]
pub struct Filler {
    pub(crate) namespace: u16,
    handle: u16,
    lpns: Vec<Lpn>,
    images: Vec<u8>,
    /// Partial superpages of log blocks by stream, and the units in them.
    parts: BTreeMap<u32, (Vec<Lpn>, Vec<u8>)>,
    part_units: usize,
    /// Flag: each unit has its own command.
    scattered: bool,
}

/// GC copies that have been read and wait for a superpage.
#[derive(Clone, Debug, Default)]
pub(super) struct Preconditioner {
    /// By die; of a die, by stream.
    dies: Vec<Vec<Batch>>,
    moves: Vec<Move>,
    /// The unit that was read last.
    image: Vec<u8>,
    /// GC makes space for metadata.
    for_map: bool,
    /// The die that has the next turn.
    turn: u32,
    /// Entries of the buffer.
    entries: u32,
    /// Pages of the superpage that is being planned.
    lpns: Vec<Lpn>,
}

/// Copies of one stream. Until they are programmed, the units that they were read from are valid.
#[derive(Clone, Debug)]
struct Batch {
    stream: Stream,
    units: Vec<(Lpn, Ppa)>,
    images: Vec<u8>,
}

impl Preconditioner {
    fn is_empty(&self) -> bool {
        self.dies.iter().flatten().all(|batch| batch.units.is_empty())
    }

    /// Takes in the unit that was read last; gives the number of its batch.
    fn add(&mut self, die: DieId, stream: Stream, lpn: Lpn, from: Ppa) -> usize {
        let at = die.0 as usize;
        if self.dies.len() <= at {
            self.dies.resize(at + 1, Vec::new());
        }
        let batches = &mut self.dies[at];
        let known = batches.iter().position(|batch| batch.stream == stream);
        let number = known.unwrap_or_else(|| {
            batches.push(Batch { stream, units: Vec::new(), images: Vec::new() });
            batches.len() - 1
        });
        batches[number].units.push((lpn, from));
        batches[number].images.extend_from_slice(&self.image);
        number
    }

    /// The batch of `die` with most units; `None`: there are none.
    fn fullest(&self, die: DieId) -> Option<usize> {
        let batches = self.dies.get(die.0 as usize)?;
        let fullest = (0..batches.len()).max_by_key(|&number| batches[number].units.len())?;
        (!batches[fullest].units.is_empty()).then_some(fullest)
    }

    /// Copies of `die` that wait.
    fn waiting(&self, die: DieId) -> usize {
        self.dies.get(die.0 as usize).map_or(0, |batches| batches.iter().map(|batch| batch.units.len()).sum())
    }
}

impl Filler {
    /// A filler of a block namespace.
    pub fn new(namespace: u16) -> Filler {
        Filler { namespace, ..Filler::default() }
    }

    /// Switches to one command per unit, as when a host overwrites at random. Until then, commands have the drive's preferred size, as in a
    /// sequential fill.
    pub fn scatter(&mut self) {
        self.scattered = true;
    }

    /// One whose units carry a placement handle, which must be one of the namespace's.
    pub fn placed(self, handle: u16) -> Filler {
        Filler { handle, ..self }
    }
}

impl Preconditioner {
    /// Writes one mapping unit; `image` holds its sector images. The buffer has `entries`.
    #[inline]
    pub(super) fn fill_unit(
        &mut self,
        side: &mut MediaSide,
        shared: &mut Shared,
        entries: u32,
        filler: &mut Filler,
        lpn: Lpn,
        image: &[u8],
    ) -> Result<(), NoRoom> {
        debug_assert_eq!(shared.fetched.active(), 0, "preconditioning a drive at work");
        self.entries = entries;
        if let Translation::LogBlock(_) = side.translation {
            return self.fill_log(side, shared, filler, lpn, image);
        }
        filler.lpns.push(lpn);
        filler.images.extend_from_slice(image);
        let superpage = shared.layout.units_per_superpage as usize;
        if filler.lpns.len() >= superpage.min(self.host_units_max(shared, filler)) {
            self.fill_superpage(side, shared, filler)
        } else {
            Ok(())
        }
    }

    /// Units of host data that wait together at most: a drive that writes through gathers only what its commands bring at once.
    fn host_units_max(&self, shared: &Shared, filler: &Filler) -> usize {
        let entries = self.entries as usize;
        match shared.config.buffer.write {
            WritePolicy::WriteThrough if filler.scattered => {
                entries.min(shared.config.host.commands_max as usize)
            }
            WritePolicy::WriteThrough | WritePolicy::WriteBack => entries,
        }
    }

    /// Programs what [`Preconditioner::fill_unit`] still holds.
    pub(super) fn fill_end(
        &mut self,
        side: &mut MediaSide,
        shared: &mut Shared,
        filler: &mut Filler,
    ) -> Result<(), NoRoom> {
        while let Some((&log, _)) = filler.parts.first_key_value() {
            self.fill_superpage_of(side, shared, filler, log)?;
        }
        if !filler.lpns.is_empty() {
            self.fill_superpage(side, shared, filler)?;
        }
        for die in (0..shared.layout.dies).map(DieId) {
            while self.step_gc(side, shared, die)
                || self.erase_now(side, shared)?
                || self.write_map_now(side, shared)?
            {}
        }
        if self.is_empty() { Ok(()) } else { Err(NoRoom) }
    }

    /// Gathers a unit with others of its log block. As many wait as would at work; then the fullest superpage is padded.
    fn fill_log(
        &mut self,
        side: &mut MediaSide,
        shared: &mut Shared,
        filler: &mut Filler,
        lpn: Lpn,
        image: &[u8],
    ) -> Result<(), NoRoom> {
        let Stream::Log(log) = side.translation.stream(lpn, filler.handle) else {
            unreachable!("log blocks")
        };
        let (lpns, images) = filler.parts.entry(log).or_default();
        lpns.push(lpn);
        images.extend_from_slice(image);
        filler.part_units += 1;
        if lpns.len() == shared.layout.units_per_superpage as usize {
            return self.fill_superpage_of(side, shared, filler, log);
        }
        if filler.part_units < self.host_units_max(shared, filler) {
            return Ok(());
        }
        let fullest = filler.parts.iter().max_by_key(|(_, (lpns, _))| lpns.len());
        let fullest = fullest.map_or(log, |(&log, _)| log);
        self.fill_superpage_of(side, shared, filler, fullest)
    }

    fn fill_superpage_of(
        &mut self,
        side: &mut MediaSide,
        shared: &mut Shared,
        filler: &mut Filler,
        log: u32,
    ) -> Result<(), NoRoom> {
        let Some((lpns, images)) = filler.parts.remove(&log) else { return Ok(()) };
        filler.part_units -= lpns.len();
        loop {
            let Ok(plan) = side.translation.place(Stream::Log(log), None, &lpns) else {
                self.make_space(side, shared)?;
                continue;
            };
            let ok = program_now(side, shared, &plan, &lpns, &images);
            self.take_turns(side, shared)?;
            if ok {
                return Ok(());
            }
        }
    }

    /// Carries out a fixed copy.
    fn copy_now(
        &mut self,
        side: &mut MediaSide,
        shared: &mut Shared,
        die: DieId,
        (id, cause): (CopyId, Cause),
        sources: &[Ppa],
    ) {
        let unit = shared.layout.sectors_per_unit as usize * shared.image_bytes;
        let mut images = std::mem::take(&mut self.image);
        images.resize(sources.len() * unit, 0);
        let mut lpns = std::mem::take(&mut self.lpns);
        lpns.clear();
        for (&from, image) in sources.iter().zip(images.chunks_exact_mut(unit)) {
            let moved = Move { from, cause, to: Stream::Merge(id), inside: false };
            let arrived = from.is_some().then(|| read_now(side, shared, &moved, image));
            lpns.push(if let Some(Arrived::Keep(lpn)) = arrived { lpn } else { Lpn::NONE });
        }
        if let Ok(plan) = side.translation.place(Stream::Merge(id), Some(die), &lpns) {
            program_now(side, shared, &plan, &lpns, &images);
        }
        (self.lpns, self.image) = (lpns, images);
    }

    fn fill_superpage(
        &mut self,
        side: &mut MediaSide,
        shared: &mut Shared,
        filler: &mut Filler,
    ) -> Result<(), NoRoom> {
        let stream = side.translation.stream(filler.lpns[0], filler.handle);
        loop {
            // As after an idle time, in which an SLC cache was folded.
            side.translation.pass_cache(true);
            let plan = side.translation.place(stream, None, &filler.lpns);
            side.translation.pass_cache(false);
            let Ok(plan) = plan else {
                self.make_space(side, shared)?;
                continue;
            };
            let ok = program_now(side, shared, &plan, &filler.lpns, &filler.images);
            side.translation.checkpoint();
            self.take_turns(side, shared)?;
            self.write_map_now(side, shared)?;
            if ok {
                break;
            }
        }
        filler.lpns.clear();
        filler.images.clear();
        Ok(())
    }

    /// Runs GC after a host superpage: gives each die, one after the other, its turns for that time, and erases finished blocks. If only
    /// the die that took the data had its turns, it would free its own space and take all later data.
    fn take_turns(&mut self, side: &mut MediaSide, shared: &mut Shared) -> Result<(), NoRoom> {
        for _ in 0..self.gc_turns(shared) {
            self.step_gc(side, shared, DieId(self.turn));
            self.turn = (self.turn + 1) % shared.layout.dies;
        }
        self.erase_now(side, shared).map(|_| ())
    }

    /// GC steps over all dies per host superpage: while the host's superpages in flight are written, each die gets one turn.
    fn gc_turns(&self, shared: &Shared) -> u32 {
        let under_way = match shared.config.buffer.write {
            WritePolicy::WriteThrough => shared.config.host.commands_max,
            WritePolicy::WriteBack => self.entries / shared.layout.units_per_superpage,
        };
        shared.layout.dies / under_way.clamp(1, shared.layout.dies)
    }

    /// Handles a lack of space for host data: runs GC steps in all dies, which work concurrently, until there may be space.
    fn make_space(&mut self, side: &mut MediaSide, shared: &mut Shared) -> Result<(), NoRoom> {
        loop {
            let (mut went_on, mut freed) = (false, side.translation.take_released());
            for die in (0..shared.layout.dies).map(DieId) {
                went_on |= self.step_gc(side, shared, die);
                freed |= self.erase_now(side, shared)?;
            }
            if freed | side.translation.take_released() {
                return Ok(());
            }
            if !went_on && !self.write_map_now(side, shared)? {
                return Err(NoRoom);
            }
        }
    }

    /// A step of GC in `die`: programs copies that wait for no others, or else reads the units of one sense, or carries out a fixed copy.
    /// Returns whether there was anything to do, and space for it.
    fn step_gc(&mut self, side: &mut MediaSide, shared: &mut Shared, die: DieId) -> bool {
        if side.translation.may_reap(die) {
            side.translation.reap(die);
        }
        let copies_max = shared.layout.units_per_superpage * side.ftl().gc_parallel.max(1);
        if self.waiting(die) >= copies_max as usize {
            return self.program_fullest(side, shared, die);
        }
        // A victim that has been read to its end is followed by another one, if there is one, at the next call.
        let moved = side.translation.wants_gc(die, Load::Busy)
            && (self.move_next(side, shared, die) || self.move_next(side, shared, die));
        moved || self.program_fullest(side, shared, die)
    }

    fn move_next(&mut self, side: &mut MediaSide, shared: &mut Shared, die: DieId) -> bool {
        match side.translation.next_gc(die, Load::Busy) {
            None => return false,
            Some(GcJob::Copy { id, cause, sources }) => {
                let sources = sources.to_vec();
                self.copy_now(side, shared, die, (id, cause), &sources);
            }
            Some(GcJob::Move(moves)) => {
                let mut list = std::mem::take(&mut self.moves);
                list.extend_from_slice(moves);
                for moved in &list {
                    self.gather(side, shared, die, moved);
                }
                list.clear();
                self.moves = list;
            }
        }
        true
    }

    /// Reads a unit of a victim; a superpage of them is programmed.
    fn gather(&mut self, side: &mut MediaSide, shared: &mut Shared, die: DieId, moved: &Move) {
        let mut image = std::mem::take(&mut self.image);
        image.resize(shared.layout.sectors_per_unit as usize * shared.image_bytes, 0);
        let arrived = read_now(side, shared, moved, &mut image);
        self.image = image;
        match arrived {
            Arrived::Keep(lpn) => {
                let batch = self.add(die, moved.to, lpn, moved.from);
                let superpage = shared.layout.units_per_superpage as usize;
                if self.dies[die.0 as usize][batch].units.len() >= superpage {
                    self.program_batch(side, shared, die, batch, false);
                }
            }
            // Written when its victim has been read to its end, with others.
            Arrived::Metadata | Arrived::Drop | Arrived::Lost => {}
        }
    }

    /// Programs a superpage of the copies of `die` that wait, padded if need be; whether there were any, and space for them.
    fn program_fullest(&mut self, side: &mut MediaSide, shared: &mut Shared, die: DieId) -> bool {
        self.fullest(die).is_some_and(|batch| self.program_batch(side, shared, die, batch, true))
    }

    /// Programs the metadata that translation wants written; whether there were any.
    fn write_map_now(&mut self, side: &mut MediaSide, shared: &mut Shared) -> Result<bool, NoRoom> {
        let mut some = false;
        while let Some(job) = side.translation.next_map_job() {
            let (plan, units) = match job {
                MapJob::Program { plan, units, .. } => (plan, units),
                MapJob::Read { page, .. } => {
                    side.translation.ended(Operation::Read(page), true);
                    continue;
                }
                // GC comes back here when it needs space for metadata itself.
                MapJob::NeedsSpace if self.for_map => return Ok(some),
                MapJob::NeedsSpace => {
                    self.for_map = true;
                    let made = self.make_space(side, shared);
                    self.for_map = false;
                    made?;
                    continue;
                }
            };
            shared
                .media
                .program_begin(plan.first, plan.sequence)
                .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
            for unit in 0..units {
                let (mark, content) = side.translation.metadata(plan.id, unit);
                shared.media.put_translation_page(Ppa(plan.first.0 + unit), mark, content);
            }
            let ok = shared.media.program_end(plan.first) == Outcome::Ok;
            side.translation.ended(Operation::Program(plan.id), ok);
            discards::forget_outdated(side, shared);
            some = true;
        }
        Ok(some)
    }

    /// Programs a superpage of a batch of `die`, as far as it is still needed. Less than a superpage waits unless it may be padded. Returns
    /// whether the batch is smaller now.
    fn program_batch(
        &mut self,
        side: &mut MediaSide,
        shared: &mut Shared,
        die: DieId,
        batch: usize,
        padded: bool,
    ) -> bool {
        let Batch { stream, units, images } = &mut self.dies[die.0 as usize][batch];
        let (stream, mut units, mut images) = (*stream, std::mem::take(units), std::mem::take(images));
        let before = units.len();
        let bytes = shared.layout.sectors_per_unit as usize * shared.image_bytes;
        let mut lpns = std::mem::take(&mut self.lpns);
        loop {
            // Overwritten since they were read: nothing to move.
            let mut kept = 0;
            for at in 0..units.len() {
                let (lpn, from) = units[at];
                if side.translation.is_current(from, Some(lpn)) {
                    if kept < at {
                        images.copy_within(at * bytes..(at + 1) * bytes, kept * bytes);
                        units[kept] = units[at];
                    }
                    kept += 1;
                }
            }
            units.truncate(kept);
            images.truncate(kept * bytes);
            let count = kept.min(shared.layout.units_per_superpage as usize);
            if count == 0 || (!padded && count < shared.layout.units_per_superpage as usize) {
                break;
            }
            lpns.clear();
            lpns.extend(units[..count].iter().map(|&(lpn, _)| lpn));
            let Ok(plan) = side.translation.place(stream, Some(die), &lpns) else { break };
            if program_now(side, shared, &plan, &lpns, &images[..count * bytes]) {
                if count == units.len() {
                    units.clear();
                    images.clear();
                } else {
                    units.drain(..count);
                    images.drain(..count * bytes);
                }
                break;
            }
        }
        self.lpns = lpns;
        let smaller = units.len() < before;
        self.dies[die.0 as usize][batch] = Batch { stream, units, images };
        smaller
    }

    /// Erases all erasable blocks; returns whether there were any.
    fn erase_now(&mut self, side: &mut MediaSide, shared: &mut Shared) -> Result<bool, NoRoom> {
        let mut some = false;
        while let Some(job) = side.translation.next_erase() {
            match job {
                Reclaim::Erase(block, _) => {
                    shared
                        .media
                        .erase_begin(block)
                        .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
                    let ok = shared.media.erase_end(block) == Outcome::Ok;
                    side.translation.ended(Operation::Erase(block), ok);
                }
                Reclaim::Retire(block) => shared.media.retire(block),
                Reclaim::Evict(_) => unreachable!("caches are not preconditioned"),
                Reclaim::AwaitsTrims if self.write_map_now(side, shared)? => {}
                Reclaim::AwaitsTrims => break,
            }
            some = true;
        }
        Ok(some)
    }
}

/// Reads a unit that GC wants; what becomes of it.
fn read_now(side: &mut MediaSide, shared: &mut Shared, moved: &Move, image: &mut [u8]) -> Arrived {
    let (readable, named) = shared.media.read_named(moved.from, image, shared.config.scheduler.read_retries);
    let arrival = match readable {
        _ if !side.translation.is_current(moved.from, named) => Arrival::Outdated,
        true => Arrival::Read,
        false => Arrival::Unreadable,
    };
    side.translation.arrived(moved, named, arrival)
}

fn program_now(side: &mut MediaSide, shared: &mut Shared, plan: &Plan, lpns: &[Lpn], images: &[u8]) -> bool {
    let outcome = shared
        .media
        .program(plan.first, plan.sequence, lpns, images)
        .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
    let ok = outcome == Outcome::Ok;
    side.translation.ended(Operation::Program(plan.id), ok);
    discards::forget_outdated(side, shared);
    ok
}
