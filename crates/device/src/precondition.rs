//! Filling a drive without simulating time: the same translation and the same media, one operation after the other.
//!
//! A drive that has been written this way is in a state that it could have reached by commands; only the clock, the counters
//! of work and the busy times stay untouched. The drive must be at rest.

use crate::device::Device;
use pellucid_flash::{DieId, Lpn, Ppa};
use pellucid_ftl::{Emptied, Plan, Stream};
use pellucid_media::{Outcome, ReadResult};

/// Why a drive could not be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "preconditioning: the drive ran out of good blocks")
    }
}

impl std::error::Error for NoRoom {}

/// Units on their way into a stripe.
#[derive(Debug, Default)]
pub struct Filler {
    handle: u16,
    lpns: Vec<Lpn>,
    images: Vec<u8>,
    moved: Vec<(Lpn, Ppa)>,
    moved_images: Vec<u8>,
}

impl Filler {
    /// One whose units carry a placement handle, which must be one of the drive's.
    pub fn placed(handle: u16) -> Filler {
        Filler { handle, ..Filler::default() }
    }
}

impl Device {
    /// Writes one mapping unit; `image` holds the sector images of the unit. Call [`Device::fill_end`] after the last.
    #[inline]
    pub fn fill_unit(&mut self, filler: &mut Filler, lpn: Lpn, image: &[u8]) -> Result<(), NoRoom> {
        debug_assert_eq!(self.active, 0, "preconditioning a drive at work");
        filler.lpns.push(lpn);
        filler.images.extend_from_slice(image);
        if filler.lpns.len() == self.layout.units_per_stripe as usize {
            self.fill_stripe(filler)
        } else {
            Ok(())
        }
    }

    /// Programs what [`Device::fill_unit`] still holds.
    pub fn fill_end(&mut self, filler: &mut Filler) -> Result<(), NoRoom> {
        if filler.lpns.is_empty() { Ok(()) } else { self.fill_stripe(filler) }
    }

    fn fill_stripe(&mut self, filler: &mut Filler) -> Result<(), NoRoom> {
        let stream = self.ftl.host_stream(filler.lpns[0], filler.handle);
        loop {
            // As after an idle time, in which an SLC cache was folded.
            self.ftl.pass_cache(true);
            let plan = self.ftl.plan_program(stream, None, &filler.lpns);
            self.ftl.pass_cache(false);
            let plan = plan.ok_or(NoRoom)?;
            let ok = self.program_now(&plan, &filler.lpns, &filler.images);
            self.collect_now(plan.die, filler)?;
            if ok {
                break;
            }
        }
        filler.lpns.clear();
        filler.images.clear();
        Ok(())
    }

    fn program_now(&mut self, plan: &Plan, lpns: &[Lpn], images: &[u8]) -> bool {
        self.media
            .program_begin(plan.first, plan.sequence)
            .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
        let unit = images.len() / lpns.len();
        for (i, (&lpn, image)) in lpns.iter().zip(images.chunks_exact(unit)).enumerate() {
            self.media.put_unit(Ppa(plan.first.0 + i as u32), lpn, image);
        }
        let ok = self.media.program_end(plan.first) == Outcome::Ok;
        self.ftl.program_ended(plan.id, ok);
        self.forget_dead();
        ok
    }

    /// Foreground collection of a die, to its end.
    fn collect_now(&mut self, die: DieId, filler: &mut Filler) -> Result<(), NoRoom> {
        self.erase_now();
        let mut stream = Stream::Collected;
        while self.ftl.wants_collection(die, false) {
            let Some(relocation) = self.ftl.next_relocation(die, false) else {
                self.move_now(die, stream, filler)?;
                self.erase_now();
                if self.ftl.next_victim_is_missing(die) {
                    return Ok(());
                }
                continue;
            };
            // All units of a victim go the same way.
            stream = relocation.stream;
            let unit = self.layout.sectors_per_unit as usize * self.image_bytes;
            let at = filler.moved.len() * unit;
            filler.moved_images.resize(at + unit, 0);
            let readable = (0..=self.config.scheduler.read_retries).any(|attempt| {
                let result = self.media.read(relocation.from, 0, &mut filler.moved_images[at..], attempt);
                matches!(result, ReadResult::Ok { .. })
            });
            match self.media.spare(relocation.from) {
                Some(spare) if readable => {
                    if spare.lpn.0 >= self.ftl.user_units() {
                        self.segment_now(self.ftl.page_of_mark(spare.lpn))?;
                    } else if self.ftl.is_current(spare.lpn, relocation.from) {
                        filler.moved.push((spare.lpn, relocation.from));
                    }
                }
                _ => self.ftl.relocation_lost(relocation.from),
            }
            if filler.moved.len() == self.layout.units_per_stripe as usize || self.ftl.victim_exhausted(die) {
                self.move_now(die, stream, filler)?;
                self.erase_now();
            }
        }
        Ok(())
    }

    /// Writes a map segment anew, as collection does instead of moving it.
    fn segment_now(&mut self, lpn: Lpn) -> Result<(), NoRoom> {
        let mut image = Vec::new();
        self.ftl.segment_image(&self.ftl.settled(), lpn.0 - self.ftl.user_units(), &mut image);
        loop {
            let plan = self.ftl.plan_program(Stream::MetaMoved, None, &[lpn]).ok_or(NoRoom)?;
            self.media
                .program_begin(plan.first, plan.sequence)
                .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
            let mark = self.ftl.segment_mark(lpn.0 - self.ftl.user_units());
            self.media.put_segment(plan.first, mark, &image);
            let ok = self.media.program_end(plan.first) == Outcome::Ok;
            self.ftl.program_ended(plan.id, ok);
            self.forget_dead();
            if ok {
                return Ok(());
            }
        }
    }

    fn move_now(&mut self, die: DieId, stream: Stream, filler: &mut Filler) -> Result<(), NoRoom> {
        while !filler.moved.is_empty() {
            let mut lpns = std::mem::take(&mut self.writes.lpns);
            lpns.clear();
            lpns.extend(filler.moved.iter().map(|m| m.0));
            let plan = self.ftl.plan_program(stream, Some(die), &lpns);
            let ok = plan.map(|plan| {
                let unit = self.layout.sectors_per_unit as usize * self.image_bytes;
                let images = std::mem::take(&mut filler.moved_images);
                let ok = self.program_now(&plan, &lpns, &images[..lpns.len() * unit]);
                filler.moved_images = images;
                ok
            });
            self.writes.lpns = lpns;
            if ok.ok_or(NoRoom)? {
                self.ftl.count_relocated(filler.moved.len() as u32);
                filler.moved.clear();
            }
        }
        Ok(())
    }

    fn erase_now(&mut self) {
        while let Some(emptied) = self.ftl.pop_emptied() {
            match emptied {
                Emptied::Erase(block, _) => {
                    self.media
                        .erase_begin(block)
                        .unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
                    let ok = self.media.erase_end(block) == Outcome::Ok;
                    self.ftl.erase_ended(block, ok);
                }
                Emptied::Retire(block) => self.media.retire(block),
            }
        }
    }

    /// Counters from zero: what was done to fill the drive is not part of what follows.
    pub fn reset_counters(&mut self) {
        self.counters = Default::default();
        (self.placement.beside, self.placement.commands) = Default::default();
        self.ftl.reset_counters();
        self.media.reset_counts();
        if self.is_watched() {
            self.watch();
        }
    }
}
