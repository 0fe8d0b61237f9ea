//! The way of commands that address the media: of open-channel and zoned namespaces.
//!
//! ```text
//!  read     slice ─► flash read ─► failed? again ─► DMA to host ─► done
//!  program  slice ─► DMA from host ─► flash program ─► done            (buffer and page map have no part in this)
//!  erase    slice ─► flash erase ─► done
//!  copy     slices ─► flash reads ─► all here ─► slices ─► flash programs ─► done
//! ```
//! A slice is what one flash operation serves: sectors that one sense brings, a stripe, or an erase unit. The data stay in the
//! command's own buffer. Which addresses are right, and what an end means, is decided by whose namespace it is:
//! [`crate::chunk_path`], [`crate::zone_path`].
//!
//! Invariants: the programs of an erase unit reach their die in the order of their addresses, because the host link and the
//! firmware serve first come, first served, and so does a die but for reads; an erase is planned only when no program of its
//! unit is under way.

use crate::device::Device;
use crate::firmware::Task;
use crate::host_interface::Direction;
use crate::scheduler::{Client, FlashOp, OpKind};
use crate::spaces::Space;
use crate::work::{Route, Slice};
use crate::write_path::add_stages;
use pellucid_flash::slab::NIL;
use pellucid_flash::{
    Cause, ChunkNotice, Command, Divisor, Layout, Lba, Lpn, Nanos, Opcode, Ppa, Stage, Status, Vector,
};
use pellucid_ftl::{ChunkPlan, Management};
use pellucid_media::{MediaConfig, ReadResult};
use std::collections::VecDeque;

/// What the direct path keeps between steps.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    /// What hosts have not been told yet, with the namespace.
    pub notices: VecDeque<(u16, ChunkNotice)>,
    /// Notices so far.
    pub notice_count: u64,
    /// Units that one sense brings: those of a stripe, of one-shot programming those of a page; with independent plane reads, of a
    /// page of one plane.
    pub sense: Divisor,
    pub chunk_plans: Vec<ChunkPlan>,
    pub refresh: crate::chunk_refresh::Refresh,
}

impl Direct {
    pub fn new(media: &MediaConfig, layout: &Layout) -> Direct {
        let geometry = &media.geometry;
        let planes = if media.independent_plane_reads && geometry.multi_plane { geometry.planes } else { 1 };
        let pages = geometry.one_shot_pages * planes;
        let whole = layout.units_per_stripe.is_multiple_of(pages);
        let sense = Divisor::new(if whole { layout.units_per_stripe / pages } else { 1 });
        Direct {
            notices: VecDeque::new(),
            notice_count: 0,
            sense,
            chunk_plans: Vec::new(),
            refresh: crate::chunk_refresh::Refresh::default(),
        }
    }
}

/// What a read found.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Bits that were corrected ...
    corrected: u32,
    /// ... the most of them in a mapping unit ...
    most: u32,
    /// ... in a chunk of the code.
    worst: u32,
    /// Sectors that could not be read, as bits of the command's addresses; the last stands for all beyond.
    failed: u64,
    /// Sectors where nothing is, likewise.
    erased: u64,
    /// Some of them were programmed well: it is not a program or a power cut that they failed for.
    rotten: bool,
}

/// The `i`-th address of a command.
#[inline]
pub(crate) fn address(command: &Command, i: u32) -> Lba {
    match &command.vector {
        Some(vector) if !vector.addresses.is_empty() => vector.addresses[i as usize],
        _ => Lba(command.lba.0 + u64::from(i)),
    }
}

/// Bits `first..first + count` of a completion's error bitmap, which has 64.
pub(crate) fn bits(first: u32, count: u32) -> u64 {
    let below = |n: u32| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    below(first + count) & !below(first)
}

impl Device {
    /// Why a command of another namespace than the block one cannot be accepted.
    pub(crate) fn refuse_direct(&self, command: &Command) -> Option<Status> {
        if !self.host.has_queue(command.queue) {
            return Some(Status::InvalidField);
        }
        match self.spaces.get(usize::from(command.namespace)) {
            Some(Space::Chunks(space)) => self.refuse_chunk(space, command),
            Some(Space::Zones(space)) => self.refuse_zone(space, command),
            Some(Space::Block) | None => Some(Status::InvalidField),
        }
    }

    /// The firmware has taken such a command.
    pub(crate) fn start_direct(&mut self, work: u32) {
        // Held open until all parts are started.
        self.works[work].slices_left = 1;
        match self.spaces[usize::from(self.works[work].command.namespace)] {
            Space::Chunks(_) => self.start_chunk(work),
            Space::Zones(_) => self.start_zone(work),
            Space::Block => unreachable!("served by the page map"),
        }
        self.part_done(work);
    }

    /// A part of a command that is no slice is done. The last part completes the command.
    pub(crate) fn part_done(&mut self, work: u32) {
        let record = &mut self.works[work];
        record.slices_left -= 1;
        if record.slices_left == 0 {
            record.stages.add(Stage::Media, self.now - record.mark);
            record.mark = self.now;
            self.ask(Task::Complete(work));
        }
    }

    /// The worst status of a command's parts is its own. `failed`: bits of the addresses concerned.
    pub(crate) fn merge_status(&mut self, work: u32, status: Status, failed: u64) {
        let record = &mut self.works[work];
        let worse = match record.status {
            Status::Success => true,
            Status::HighEcc => status != Status::Success,
            _ => false,
        };
        if worse {
            record.status = status;
        }
        let listed = record.command.vector.as_ref().is_some_and(|v| !v.addresses.is_empty());
        if status != Status::Success && listed {
            record.result |= failed;
        }
    }

    /// Makes a slice and lets it start. `number`: the chunk or zone concerned.
    pub(crate) fn direct_slice(
        &mut self,
        work: u32,
        route: Route,
        (ppa, first): (Ppa, u32),
        (data_at, sectors): (u32, u32),
        number: u32,
    ) {
        let record = &mut self.works[work];
        record.slices_left += 1;
        let stages = record.stages;
        let slice = self.slices.insert(Slice {
            work,
            lpn: Lpn(number),
            first,
            sectors,
            data_at,
            zero: false,
            through: true,
            moved: false,
            primary: true,
            delivered: false,
            route,
            entry: ppa.0,
            mark: self.now,
            stages,
            next: NIL,
        });
        self.ask(Task::Slice(slice));
    }

    /// The firmware has looked at a slice.
    pub(crate) fn place_direct(&mut self, slice: u32) {
        match self.slices[slice].route {
            Route::Read | Route::CopyRead => self.issue_direct(slice, OpKind::Read),
            Route::Erase => self.issue_direct(slice, OpKind::Erase),
            Route::CopyProgram => {
                let moved = self.works[self.slices[slice].work].command.data.is_empty();
                self.issue_direct(slice, if moved { OpKind::Copyback } else { OpKind::Program });
            }
            Route::Program | Route::Tell => self.ask(Task::Dma(slice)),
            Route::Stage => self.stage(slice, false),
            Route::Page => unreachable!("goes through the buffer"),
        }
    }

    fn issue_direct(&mut self, slice: u32, kind: OpKind) {
        let record = &self.slices[slice];
        let ppa = Ppa(record.entry);
        let copies = matches!(record.route, Route::CopyRead | Route::CopyProgram);
        // What a host has moved is its collection.
        let cause = if copies { Cause::Collection } else { Cause::Host };
        let units = self.layout.units_of(record.first + record.sectors);
        let die = self.layout.die_of(ppa).0;
        let op = FlashOp::new(kind, cause, Client::Direct(slice), die, ppa, units, self.now);
        let op = self.scheduler.ops.insert(op);
        self.ask(Task::Issue(op));
    }

    /// Bytes and way of a slice over the host link.
    pub(crate) fn direct_transfer(&self, slice: u32) -> (u64, Direction) {
        let record = &self.slices[slice];
        let command = &self.works[record.work].command;
        if command.opcode == Opcode::Report {
            return (command.data.len() as u64, Direction::Tx);
        }
        let metadata = command.vector.as_ref().is_some_and(|v| !v.metadata.is_empty());
        let beside = if metadata { Vector::METADATA_BYTES as u64 } else { 0 };
        let bytes = u64::from(record.sectors) * (u64::from(self.layout.sector_bytes) + beside);
        let inward = matches!(record.route, Route::Program | Route::Stage);
        (bytes, if inward { Direction::Rx } else { Direction::Tx })
    }

    /// A slice's data have crossed the host link.
    pub(crate) fn direct_transferred(&mut self, slice: u32) {
        match self.slices[slice].route {
            Route::Program => self.issue_direct(slice, OpKind::Program),
            Route::Stage => self.staged(slice),
            _ => self.slice_done(slice, Status::Success),
        }
    }

    /// The array starts on a program or an erase.
    pub(crate) fn direct_begins(&mut self, slice: u32, kind: OpKind, ppa: Ppa) -> Nanos {
        if kind == OpKind::Erase {
            let block = self.layout.block_of(ppa);
            self.media.erase_begin(block).unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
            return self.media.erase_ns(block);
        }
        match self.begin_chunk_program(slice, ppa) {
            Some(time) => time,
            None => {
                // Never begun: there is no end to ask the media for.
                self.slices[slice].zero = true;
                Nanos::ZERO
            }
        }
    }

    /// A program or an erase has ended, and the firmware knows.
    pub(crate) fn direct_ended(&mut self, op: u32, slice: u32) {
        let FlashOp { kind, cause, ppa, .. } = self.scheduler.ops[op];
        let ok = match kind {
            OpKind::Erase => self.end_direct_erase(self.layout.block_of(ppa), cause),
            _ if self.slices[slice].zero => false,
            _ => {
                let ok = self.end_full_stripe(ppa, cause);
                self.counters.copybacks += u64::from(ok && kind == OpKind::Copyback);
                ok
            }
        };
        let stages = self.let_go(op);
        add_stages(&mut self.slices[slice], &stages, self.now);
        let zoned = self.slices[slice].route == Route::Erase && self.is_zoned(slice);
        match kind {
            OpKind::Erase if zoned => self.zone_block_erased(slice, ppa, ok),
            OpKind::Erase => self.chunk_erased(slice, ppa, ok),
            _ => self.chunk_programmed(slice, ok),
        }
        self.slice_done(slice, Status::Success);
    }

    /// The data of a read are in the controller.
    pub(crate) fn direct_arrived(&mut self, op: u32, slice: u32) {
        let FlashOp { ppa, attempts, .. } = self.scheduler.ops[op];
        if let Some(place) = self.moved_to(slice) {
            self.slices[slice].entry = place.0;
            return self.retry(op, place);
        }
        let Taken { corrected, most, worst, mut failed, erased, rotten } = self.take_in(slice, ppa, attempts);
        if erased != 0 && self.misses(slice, ppa) {
            failed |= erased;
        }
        if failed != 0 && self.tries_again(ppa, attempts) {
            return self.retry(op, ppa);
        }
        self.tap_operation(op);
        add_stages(&mut self.slices[slice], &self.scheduler.ops[op].stages, self.now);
        self.scheduler.ops.release(op);
        self.counters.uncorrectable_reads += u64::from(failed != 0);
        self.counters.corrected_reads += u64::from(failed == 0 && attempts > 0);
        self.counters.corrected_bits += u64::from(corrected);
        let zoned = self.is_zoned(slice);
        if zoned {
            self.look_after_zone(slice, worst, rotten);
        } else if worst > 0 || rotten {
            let Slice { work, data_at, .. } = self.slices[slice];
            let command = &self.works[work].command;
            let (namespace, lba) = (command.namespace, address(command, data_at));
            let number = self.chunk_space(work).chunks.number(lba).expect("it was read");
            self.look_after(namespace, number, worst, rotten);
        }
        let status = match zoned {
            true if failed != 0 => {
                self.merge_status(self.slices[slice].work, Status::UnrecoveredRead, 0);
                Status::UnrecoveredRead
            }
            true => Status::Success,
            false => self.judge_read(slice, failed, most, attempts),
        };
        if self.slices[slice].route == Route::CopyRead {
            return self.copy_read_done(slice);
        }
        if status == Status::UnrecoveredRead {
            self.slice_done(slice, Status::Success);
        } else {
            self.ask(Task::Dma(slice));
        }
    }

    /// Where the first unit of a read lies now, if its chunk has been written anew meanwhile.
    fn moved_to(&self, slice: u32) -> Option<Ppa> {
        let Slice { work, data_at, entry, .. } = self.slices[slice];
        let command = &self.works[work].command;
        let Space::Chunks(space) = &self.spaces[usize::from(command.namespace)] else { return None };
        if space.chunks.management() == Management::Host {
            return None;
        }
        let (place, _) = space.chunks.locate(address(command, data_at))?;
        (place != Ppa(entry)).then_some(place)
    }

    /// A read of a zone found its data near to being lost, or beyond (`lost`): the zone should be reset, and its host says when.
    fn look_after_zone(&mut self, slice: u32, worst_chunk_bits: u32, lost: bool) {
        let near = self.config.scheduler.refresh_above.is_some_and(|most| worst_chunk_bits > most);
        if !(near || lost) {
            return;
        }
        let Slice { work, lpn, entry, .. } = self.slices[slice];
        let namespace = self.works[work].command.namespace;
        if let Some(block) = self.zone_space(namespace).zones.distrust(lpn.0, Ppa(entry), lost) {
            self.retire_block(block);
        }
    }

    fn is_zoned(&self, slice: u32) -> bool {
        let namespace = self.works[self.slices[slice].work].command.namespace;
        matches!(self.spaces[usize::from(namespace)], Space::Zones(_))
    }

    /// Whether a zone should have data where a read found none: their program was given up, and not because of a reset.
    fn misses(&mut self, slice: u32, ppa: Ppa) -> bool {
        let Slice { work, lpn, .. } = self.slices[slice];
        let namespace = self.works[work].command.namespace;
        self.is_zoned(slice) && self.zone_space(namespace).zones.holds(lpn.0, ppa)
    }

    /// Moves what the media give for a read to the command's buffers.
    fn take_in(&mut self, slice: u32, ppa: Ppa, attempts: u32) -> Taken {
        let Slice { work, first, sectors, data_at, .. } = self.slices[slice];
        let (image, spare) = (self.image_bytes, Vector::METADATA_BYTES);
        let command = &mut self.works[work].command;
        let metadata = command.vector.as_mut().map(|v| &mut v.metadata).filter(|m| !m.is_empty());
        let (mut metadata, mut taken) = (metadata, Taken::default());
        let (mut unit, mut sector, mut done) = (ppa, first, 0);
        while done < sectors {
            let here = (self.layout.sectors_per_unit - sector).min(sectors - done);
            let at = (data_at + done) as usize;
            let out = match command.data.is_empty() {
                true => &mut [][..],
                false => &mut command.data[at * image..(at + here as usize) * image],
            };
            match self.media.read(unit, sector, out, attempts) {
                ReadResult::Ok { corrected_bits, worst_chunk_bits } => {
                    taken.corrected += corrected_bits;
                    taken.most = taken.most.max(corrected_bits);
                    taken.worst = taken.worst.max(worst_chunk_bits);
                }
                ReadResult::Uncorrectable => {
                    taken.failed |= bits((at as u32).min(63), here);
                    taken.rotten |= self.media.is_programmed(unit);
                }
                ReadResult::Erased => taken.erased |= bits((at as u32).min(63), here),
            }
            if let Some(metadata) = &mut metadata {
                let out = &mut metadata[at * spare..(at + here as usize) * spare];
                if !self.media.metadata(unit, sector, out) {
                    taken.failed |= bits((at as u32).min(63), here);
                }
            }
            (unit, sector, done) = (Ppa(unit.0 + 1), 0, done + here);
        }
        taken
    }
}
