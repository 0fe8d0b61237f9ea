//! Filling a drive without simulating time: the same translation and the same media, one operation after the other.
//!
//! A drive that has been written this way is in a state that it could have reached by commands; only the clock, the counters
//! of work and the busy times stay untouched. The drive must be at rest.
//!
//! ```text
//!  fill_unit ─► superpage full ─► place ─┬─► program ─► GC of its die: moves are gathered by stream ─► superpage full ─► program
//!                                        └─ no space: what is gathered is padded, GC in every die ─► again
//!  fill_end ─► padded
//! ```
//! GC copies that fill no superpage wait for the next victim, as at work.

use super::BlockNamespace;
use crate::shared::Shared;
use pellucid_flash::{Cause, DieId, Lpn, Ppa};
use pellucid_ftl::{
    Arrival, Arrived, CopyId, GcJob, Load, MapJob, Move, Operation, Plan, Reclaim, Stream, Translation,
};
use pellucid_media::{Outcome, ReadResult};
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
}

/// GC copies that have been read and wait for a superpage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    /// By die; of a die, by stream.
    dies: Vec<Vec<Batch>>,
    moves: Vec<Move>,
    /// The unit that was read last.
    image: Vec<u8>,
    /// GC makes space for metadata.
    for_map: bool,
}

/// Copies of one stream. Until they are programmed, the units that they were read from are valid.
#[derive(Clone, Debug)]
struct Batch {
    stream: Stream,
    units: Vec<(Lpn, Ppa)>,
    images: Vec<u8>,
}

impl Gathered {
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

    fn waiting(&self, die: DieId) -> usize {
        self.dies[die.0 as usize].iter().map(|batch| batch.units.len()).sum()
    }

    /// The batch of `die` with most units; `None`: there are none.
    fn fullest(&self, die: DieId) -> Option<usize> {
        let batches = self.dies.get(die.0 as usize)?;
        let fullest = (0..batches.len()).max_by_key(|&number| batches[number].units.len())?;
        (!batches[fullest].units.is_empty()).then_some(fullest)
    }
}

impl Filler {
    /// A filler of a block namespace.
    pub fn new(namespace: u16) -> Filler {
        Filler { namespace, ..Filler::default() }
    }

    /// One whose units carry a placement handle, which must be one of the namespace's.
    pub fn placed(self, handle: u16) -> Filler {
        Filler { handle, ..self }
    }
}

impl BlockNamespace {
    /// Writes one mapping unit; `image` holds its sector images.
    #[inline]
    pub fn fill_unit(
        &mut self,
        shared: &mut Shared,
        filler: &mut Filler,
        lpn: Lpn,
        image: &[u8],
    ) -> Result<(), NoRoom> {
        debug_assert_eq!(shared.active, 0, "preconditioning a drive at work");
        if let Translation::LogBlock(_) = self.translation {
            return self.fill_log(shared, filler, lpn, image);
        }
        filler.lpns.push(lpn);
        filler.images.extend_from_slice(image);
        if filler.lpns.len() == shared.layout.units_per_superpage as usize {
            self.fill_superpage(shared, filler)
        } else {
            Ok(())
        }
    }

    /// Programs what [`BlockNamespace::fill_unit`] still holds.
    pub fn fill_end(&mut self, shared: &mut Shared, filler: &mut Filler) -> Result<(), NoRoom> {
        while let Some((&log, _)) = filler.parts.first_key_value() {
            self.fill_superpage_of(shared, filler, log)?;
        }
        if !filler.lpns.is_empty() {
            self.fill_superpage(shared, filler)?;
        }
        for die in (0..shared.layout.dies).map(DieId) {
            self.pad_gathered(shared, die)?;
        }
        debug_assert!(self.gathered.is_empty());
        self.erase_now(shared)?;
        self.write_map_now(shared).map(|_| ())
    }

    /// Gathers a unit with others of its log block. As many wait as the data buffer would hold; then the fullest superpage is padded.
    fn fill_log(
        &mut self,
        shared: &mut Shared,
        filler: &mut Filler,
        lpn: Lpn,
        image: &[u8],
    ) -> Result<(), NoRoom> {
        let Stream::Log(log) = self.translation.stream(lpn, filler.handle) else {
            unreachable!("log blocks")
        };
        let (lpns, images) = filler.parts.entry(log).or_default();
        lpns.push(lpn);
        images.extend_from_slice(image);
        filler.part_units += 1;
        if lpns.len() == shared.layout.units_per_superpage as usize {
            return self.fill_superpage_of(shared, filler, log);
        }
        if filler.part_units < self.buffer.count() as usize {
            return Ok(());
        }
        let fullest = filler.parts.iter().max_by_key(|(_, (lpns, _))| lpns.len());
        let fullest = fullest.map_or(log, |(&log, _)| log);
        self.fill_superpage_of(shared, filler, fullest)
    }

    fn fill_superpage_of(
        &mut self,
        shared: &mut Shared,
        filler: &mut Filler,
        log: u32,
    ) -> Result<(), NoRoom> {
        let Some((lpns, images)) = filler.parts.remove(&log) else { return Ok(()) };
        filler.part_units -= lpns.len();
        loop {
            let Ok(plan) = self.translation.place(Stream::Log(log), None, &lpns) else {
                self.make_space(shared)?;
                continue;
            };
            let ok = self.program_now(shared, &plan, &lpns, &images);
            self.collect_now(shared, plan.die)?;
            if ok {
                return Ok(());
            }
        }
    }

    /// Carries out a fixed copy.
    fn copy_now(&mut self, shared: &mut Shared, die: DieId, (id, cause): (CopyId, Cause), sources: &[Ppa]) {
        let unit = shared.layout.sectors_per_unit as usize * shared.image_bytes;
        let mut images = std::mem::take(&mut self.gathered.image);
        images.resize(sources.len() * unit, 0);
        let mut lpns = std::mem::take(&mut self.writes.lpns);
        lpns.clear();
        for (&from, image) in sources.iter().zip(images.chunks_exact_mut(unit)) {
            let moved = Move { from, cause, to: Stream::Merge(id), inside: false };
            let arrived = from.is_some().then(|| self.read_now(shared, &moved, image));
            lpns.push(if let Some(Arrived::Keep(lpn)) = arrived { lpn } else { Lpn::NONE });
        }
        if let Ok(plan) = self.translation.place(Stream::Merge(id), Some(die), &lpns) {
            self.program_now(shared, &plan, &lpns, &images);
        }
        (self.writes.lpns, self.gathered.image) = (lpns, images);
    }

    /// Reads a unit that GC wants; what becomes of it.
    fn read_now(&mut self, shared: &mut Shared, moved: &Move, image: &mut [u8]) -> Arrived {
        let named = shared.media.spare(moved.from).map(|spare| spare.lpn);
        let readable = (0..=shared.config.scheduler.read_retries)
            .any(|attempt| matches!(shared.media.read(moved.from, 0, image, attempt), ReadResult::Ok { .. }));
        let arrival = match readable {
            _ if !self.translation.is_current(moved.from, named) => Arrival::Outdated,
            true => Arrival::Read,
            false => Arrival::Unreadable,
        };
        self.translation.arrived(moved, named, arrival)
    }

    fn fill_superpage(&mut self, shared: &mut Shared, filler: &mut Filler) -> Result<(), NoRoom> {
        let stream = self.translation.stream(filler.lpns[0], filler.handle);
        loop {
            // As after an idle time, in which an SLC cache was folded.
            self.translation.pass_cache(true);
            let plan = self.translation.place(stream, None, &filler.lpns);
            self.translation.pass_cache(false);
            let Ok(plan) = plan else {
                self.make_space(shared)?;
                continue;
            };
            let ok = self.program_now(shared, &plan, &filler.lpns, &filler.images);
            self.translation.checkpoint();
            self.collect_now(shared, plan.die)?;
            self.write_map_now(shared)?;
            if ok {
                break;
            }
        }
        filler.lpns.clear();
        filler.images.clear();
        Ok(())
    }

    /// There is no space for host data: nothing is gathered any longer, and GC works in every die.
    fn make_space(&mut self, shared: &mut Shared) -> Result<(), NoRoom> {
        let mut went_on = self.translation.take_released();
        for die in (0..shared.layout.dies).map(DieId) {
            went_on |= self.pad_gathered(shared, die)?;
            went_on |= self.collect_now(shared, die)?;
        }
        if went_on { Ok(()) } else { Err(NoRoom) }
    }

    fn program_now(&mut self, shared: &mut Shared, plan: &Plan, lpns: &[Lpn], images: &[u8]) -> bool {
        shared
            .media
            .program_begin(plan.first, plan.sequence)
            .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
        let unit = images.len() / lpns.len();
        let units = lpns.iter().zip(images.chunks_exact(unit)).enumerate();
        for (i, (&lpn, image)) in units.filter(|(_, (lpn, _))| **lpn != Lpn::NONE) {
            shared.media.put_unit(Ppa(plan.first.0 + i as u32), lpn, image);
        }
        let ok = shared.media.program_end(plan.first) == Outcome::Ok;
        self.translation.ended(Operation::Program(plan.id), ok);
        self.forget_outdated(shared);
        ok
    }

    /// Foreground GC of a die, until it needs no more space; whether there was any.
    fn collect_now(&mut self, shared: &mut Shared, die: DieId) -> Result<bool, NoRoom> {
        let mut some = self.erase_now(shared)?;
        let mut missed = false;
        loop {
            match self.translation.next_gc(die, Load::Busy) {
                // Most often there is nothing to do.
                None if !some => return Ok(false),
                None => {
                    // A victim that has been read to its end is followed by another one, if there is one.
                    let written = self.write_map_now(shared)?;
                    let erased = self.erase_now(shared)?;
                    some |= erased;
                    if !written && !erased && missed {
                        return Ok(some);
                    }
                    missed = true;
                    continue;
                }
                Some(GcJob::Copy { id, cause, sources }) => {
                    let sources = sources.to_vec();
                    self.copy_now(shared, die, (id, cause), &sources);
                }
                Some(GcJob::Move(moves)) => {
                    let mut list = std::mem::take(&mut self.gathered.moves);
                    list.extend_from_slice(moves);
                    for moved in &list {
                        self.gather(shared, die, moved)?;
                    }
                    list.clear();
                    self.gathered.moves = list;
                }
            }
            (some, missed) = (true, false);
        }
    }

    /// Reads a unit of a victim; a superpage of them is programmed.
    fn gather(&mut self, shared: &mut Shared, die: DieId, moved: &Move) -> Result<(), NoRoom> {
        let mut image = std::mem::take(&mut self.gathered.image);
        image.resize(shared.layout.sectors_per_unit as usize * shared.image_bytes, 0);
        let arrived = self.read_now(shared, moved, &mut image);
        self.gathered.image = image;
        match arrived {
            Arrived::Keep(lpn) => {
                let batch = self.gathered.add(die, moved.to, lpn, moved.from);
                let superpage = shared.layout.units_per_superpage as usize;
                if self.gathered.dies[die.0 as usize][batch].units.len() == superpage {
                    self.move_now(shared, die, batch)?;
                } else if self.gathered.waiting(die)
                    >= superpage * self.config.ftl.gc_parallel.max(1) as usize
                    && let Some(fullest) = self.gathered.fullest(die)
                {
                    self.move_now(shared, die, fullest)?;
                }
            }
            // Written when its victim has been read to its end, with others.
            Arrived::Metadata | Arrived::Drop | Arrived::Lost => {}
        }
        Ok(())
    }

    /// Programs what is gathered of a die; whether there was anything.
    fn pad_gathered(&mut self, shared: &mut Shared, die: DieId) -> Result<bool, NoRoom> {
        let mut some = false;
        while let Some(fullest) = self.gathered.fullest(die) {
            self.move_now(shared, die, fullest)?;
            some = true;
        }
        Ok(some)
    }

    /// Programs the metadata that translation wants written; whether there were any.
    fn write_map_now(&mut self, shared: &mut Shared) -> Result<bool, NoRoom> {
        let mut some = false;
        while let Some(job) = self.translation.next_map_job() {
            let (plan, units) = match job {
                MapJob::Program { plan, units, .. } => (plan, units),
                MapJob::Read { page, .. } => {
                    self.translation.ended(Operation::Read(page), true);
                    continue;
                }
                // GC comes back here when it needs space for metadata itself.
                MapJob::NeedsSpace if self.gathered.for_map => return Ok(some),
                MapJob::NeedsSpace => {
                    self.gathered.for_map = true;
                    let made = self.make_space(shared);
                    self.gathered.for_map = false;
                    made?;
                    continue;
                }
            };
            shared
                .media
                .program_begin(plan.first, plan.sequence)
                .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
            for unit in 0..units {
                let (mark, content) = self.translation.metadata(plan.id, unit);
                shared.media.put_translation_page(Ppa(plan.first.0 + unit), mark, content);
            }
            let ok = shared.media.program_end(plan.first) == Outcome::Ok;
            self.translation.ended(Operation::Program(plan.id), ok);
            self.forget_outdated(shared);
            some = true;
        }
        Ok(some)
    }

    /// Programs a batch of `die`, as far as it is still needed.
    fn move_now(&mut self, shared: &mut Shared, die: DieId, batch: usize) -> Result<(), NoRoom> {
        let Batch { stream, units, images } = &mut self.gathered.dies[die.0 as usize][batch];
        let (stream, mut units, mut images) = (*stream, std::mem::take(units), std::mem::take(images));
        let bytes = shared.layout.sectors_per_unit as usize * shared.image_bytes;
        let mut lpns = std::mem::take(&mut self.writes.lpns);
        let mut done = Ok(());
        loop {
            lpns.clear();
            for (at, &(lpn, from)) in units.iter().enumerate() {
                if self.translation.is_current(from, Some(lpn)) {
                    images.copy_within(at * bytes..(at + 1) * bytes, lpns.len() * bytes);
                    lpns.push(lpn);
                }
            }
            units.retain(|&(lpn, from)| self.translation.is_current(from, Some(lpn)));
            if units.is_empty() {
                break;
            }
            let Ok(plan) = self.translation.place(stream, Some(die), &lpns) else {
                done = Err(NoRoom);
                break;
            };
            if self.program_now(shared, &plan, &lpns, &images[..lpns.len() * bytes]) {
                break;
            }
        }
        units.clear();
        images.clear();
        self.writes.lpns = lpns;
        let kept = &mut self.gathered.dies[die.0 as usize][batch];
        (kept.units, kept.images) = (units, images);
        done?;
        self.erase_now(shared).map(|_| ())
    }

    /// Erases what can be erased; whether there was anything.
    fn erase_now(&mut self, shared: &mut Shared) -> Result<bool, NoRoom> {
        let mut some = false;
        while let Some(job) = self.translation.next_erase() {
            match job {
                Reclaim::Erase(block, _) => {
                    shared
                        .media
                        .erase_begin(block)
                        .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
                    let ok = shared.media.erase_end(block) == Outcome::Ok;
                    self.translation.ended(Operation::Erase(block), ok);
                }
                Reclaim::Retire(block) => shared.media.retire(block),
                Reclaim::Evict(_) => unreachable!("caches are not preconditioned"),
                Reclaim::AwaitsTrims if self.write_map_now(shared)? => {}
                Reclaim::AwaitsTrims => break,
            }
            some = true;
        }
        Ok(some)
    }
}
