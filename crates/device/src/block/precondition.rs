//! Filling a drive without simulating time: the same translation and the same media, one operation after the other.
//!
//! A drive that has been written this way is in a state that it could have reached by commands; only the clock, the counters
//! of work and the busy times stay untouched. The drive must be at rest.

use super::BlockNamespace;
use crate::shared::Shared;
use pellucid_flash::{Cause, DieId, Lpn, Ppa};
use pellucid_ftl::{
    Arrival, Arrived, CopyId, Full, GcJob, Load, MapJob, Move, Operation, Plan, Reclaim, Stream, Translation,
};
use pellucid_media::{Outcome, ReadResult};
use std::collections::BTreeMap;

/// Why a drive could not be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "preconditioning: the drive ran out of good blocks")
    }
}

impl std::error::Error for NoRoom {}

/// Units on their way into a superpage of one block namespace.
#[derive(Debug, Default)]
pub struct Filler {
    pub(crate) namespace: u16,
    handle: u16,
    lpns: Vec<Lpn>,
    images: Vec<u8>,
    /// Of log blocks: superpages that are not full, by stream, and the units in them.
    parts: BTreeMap<u32, (Vec<Lpn>, Vec<u8>)>,
    part_units: usize,
    moved: Vec<(Lpn, Ppa)>,
    moved_images: Vec<u8>,
}

impl Filler {
    /// Of a block namespace.
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
        if filler.lpns.len() == shared.layout.units_per_stripe as usize {
            self.fill_stripe(shared, filler)
        } else {
            Ok(())
        }
    }

    /// Programs what [`BlockNamespace::fill_unit`] still holds.
    pub fn fill_end(&mut self, shared: &mut Shared, filler: &mut Filler) -> Result<(), NoRoom> {
        while let Some((&log, _)) = filler.parts.first_key_value() {
            self.fill_superpage_of(shared, filler, log)?;
        }
        if filler.lpns.is_empty() { Ok(()) } else { self.fill_stripe(shared, filler) }
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
        if lpns.len() == shared.layout.units_per_stripe as usize {
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
                let mut went_on = false;
                for die in (0..shared.layout.dies).map(DieId) {
                    went_on |= self.collect_now(shared, die, filler)?;
                }
                if went_on || self.translation.take_released() {
                    continue;
                }
                return Err(NoRoom);
            };
            let ok = self.program_now(shared, &plan, &lpns, &images);
            self.collect_now(shared, plan.die, filler)?;
            if ok {
                return Ok(());
            }
        }
    }

    /// Carries out a fixed copy.
    fn copy_now(
        &mut self,
        shared: &mut Shared,
        filler: &mut Filler,
        die: DieId,
        (id, cause): (CopyId, Cause),
        sources: &[Ppa],
    ) {
        let unit = shared.layout.sectors_per_unit as usize * shared.image_bytes;
        filler.moved_images.resize(sources.len() * unit, 0);
        let mut lpns = std::mem::take(&mut self.writes.lpns);
        lpns.clear();
        for (&from, image) in sources.iter().zip(filler.moved_images.chunks_exact_mut(unit)) {
            let moved = Move { from, cause, to: Stream::Merge(id), inside: false };
            let arrived = from.is_some().then(|| self.read_now(shared, &moved, image));
            lpns.push(if let Some(Arrived::Keep(lpn)) = arrived { lpn } else { Lpn::NONE });
        }
        if let Ok(plan) = self.translation.place(Stream::Merge(id), Some(die), &lpns) {
            self.program_now(shared, &plan, &lpns, &filler.moved_images);
        }
        self.writes.lpns = lpns;
        filler.moved_images.clear();
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

    fn fill_stripe(&mut self, shared: &mut Shared, filler: &mut Filler) -> Result<(), NoRoom> {
        let stream = self.translation.stream(filler.lpns[0], filler.handle);
        loop {
            // As after an idle time, in which an SLC cache was folded.
            self.translation.pass_cache(true);
            let plan = self.translation.place(stream, None, &filler.lpns);
            self.translation.pass_cache(false);
            let plan = plan.map_err(|Full { .. }| NoRoom)?;
            let ok = self.program_now(shared, &plan, &filler.lpns, &filler.images);
            self.collect_now(shared, plan.die, filler)?;
            self.write_map_now(shared)?;
            if ok {
                break;
            }
        }
        filler.lpns.clear();
        filler.images.clear();
        Ok(())
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

    /// Foreground GC of a die, to its end; whether there was any.
    fn collect_now(&mut self, shared: &mut Shared, die: DieId, filler: &mut Filler) -> Result<bool, NoRoom> {
        let mut some = self.erase_now(shared)?;
        let (mut stream, mut missed) = (Stream::Collected, false);
        let mut moves = Vec::new();
        loop {
            match self.translation.next_gc(die, Load::Busy) {
                None => {
                    self.move_now(shared, die, stream, filler)?;
                    // A victim that has been read to its end is followed by another one, if there is one.
                    let erased = self.erase_now(shared)?;
                    some |= erased;
                    if !erased && missed {
                        break;
                    }
                    missed = true;
                    continue;
                }
                Some(GcJob::Copy { id, cause, sources }) => {
                    let sources = sources.to_vec();
                    self.copy_now(shared, filler, die, (id, cause), &sources);
                }
                Some(GcJob::Move(some)) => moves.extend_from_slice(some),
            }
            (some, missed) = (true, false);
            for (at, moved) in moves.iter().enumerate() {
                let unit = shared.layout.sectors_per_unit as usize * shared.image_bytes;
                let start = filler.moved.len() * unit;
                filler.moved_images.resize(start + unit, 0);
                let mut images = std::mem::take(&mut filler.moved_images);
                let arrived = self.read_now(shared, moved, &mut images[start..]);
                filler.moved_images = images;
                match arrived {
                    Arrived::Keep(lpn) => {
                        // All units of a victim go the same way.
                        stream = moved.to;
                        filler.moved.push((lpn, moved.from));
                    }
                    Arrived::Metadata => _ = self.write_map_now(shared)?,
                    Arrived::Drop | Arrived::Lost => {}
                }
                let full = filler.moved.len() == shared.layout.units_per_stripe as usize;
                if full || (at + 1 == moves.len() && self.translation.gc_rests(die)) {
                    self.move_now(shared, die, stream, filler)?;
                    self.erase_now(shared)?;
                }
            }
            moves.clear();
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
                MapJob::NeedsSpace => return Err(NoRoom),
            };
            shared
                .media
                .program_begin(plan.first, plan.sequence)
                .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
            for unit in 0..units {
                let (mark, content) = self.translation.metadata(plan.id, unit);
                shared.media.put_segment(Ppa(plan.first.0 + unit), mark, content);
            }
            let ok = shared.media.program_end(plan.first) == Outcome::Ok;
            self.translation.ended(Operation::Program(plan.id), ok);
            self.forget_outdated(shared);
            some = true;
        }
        Ok(some)
    }

    fn move_now(
        &mut self,
        shared: &mut Shared,
        die: DieId,
        stream: Stream,
        filler: &mut Filler,
    ) -> Result<(), NoRoom> {
        while !filler.moved.is_empty() {
            let mut lpns = std::mem::take(&mut self.writes.lpns);
            lpns.clear();
            lpns.extend(filler.moved.iter().map(|m| m.0));
            let plan = self.translation.place(stream, Some(die), &lpns);
            let ok = plan.ok().map(|plan| {
                let unit = shared.layout.sectors_per_unit as usize * shared.image_bytes;
                let images = std::mem::take(&mut filler.moved_images);
                let ok = self.program_now(shared, &plan, &lpns, &images[..lpns.len() * unit]);
                filler.moved_images = images;
                ok
            });
            self.writes.lpns = lpns;
            if ok.ok_or(NoRoom)? {
                filler.moved.clear();
            }
        }
        Ok(())
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
                Reclaim::AwaitsTrims if self.write_map_now(shared)? => {}
                Reclaim::AwaitsTrims => break,
            }
            some = true;
        }
        Ok(some)
    }
}
