//! The meaning of zoned commands (NVMe Zoned Namespaces 1.1), on the [direct path](crate::direct) and the
//! [buffer of superpages](crate::direct::zone_buffer).
//!
//! ```text
//!  write    rules, write pointer moves ─► slices by superpage ─► slot (or wait) ─► DMA ─► acknowledged (write-back)
//!  append       │                                              │ superpage full ─► program ─► acknowledged (write-through, FUA)
//!               └ refused: nothing has changed                 └ FUA, flush of a part ─► staging log ─► acknowledged
//!  read     in the buffer? copied from there; else runs that one sense brings; behind the write pointer zeros
//!  reset    zone quiet ─► tombstone if the log knows it ─► erase what holds superpage 0 ─► erase the rest ─► empty
//!  finish   zone quiet ─► rest of the superpage padded, marked as the last ─► full
//! ```
//! Writes are in `zone_write.rs`, reads and reports in `zone_read.rs`, actions in `zone_actions.rs`, the staging log and flushes in
//! `zone_log.rs`: paths over the objects of [`ZoneNamespace`].
//!
//! A zone is *quiet* when none of its data are between acceptance and the media, the superpage being filled apart.

use super::zone_actions;
use super::zone_log;
use super::zone_read;
use super::zone_write;
use crate::back::operations;
use crate::back::scheduler::{FlashOp, OpKind, Owner};
use crate::direct;
use crate::direct::zone_buffer::{Purpose, ZoneNamespace};
use crate::direct::{DirectPath, Taken};
use crate::front::commands::{Route, Slice};
use crate::shared::Shared;
use pellucid_flash::{Command, Nanos, Opcode, Stage, Status, ZoneOp};

impl DirectPath for ZoneNamespace {
    /// The firmware has looked at a slice.
    fn slice_known(&mut self, shared: &mut Shared, slice: u32) {
        shared.slices[slice].book(Stage::Firmware, shared.now);
        let owner = Owner { namespace: self.number, token: Purpose::Slice(slice).token() };
        match shared.slices[slice].route {
            Route::Read => direct::issue_direct(shared, owner, slice, OpKind::Read),
            Route::Erase => direct::issue_direct(shared, owner, slice, OpKind::Erase),
            Route::Tell => self.ask_dma(shared, slice),
            Route::Stage => zone_write::stage(self, shared, slice, false),
            Route::Page | Route::Program | Route::CopyRead | Route::CopyProgram => {
                unreachable!("of another kind of namespace")
            }
        }
    }

    /// A slice's data have crossed the host link.
    fn dma_done(&mut self, shared: &mut Shared, slice: u32) {
        match shared.slices[slice].route {
            Route::Stage => zone_write::staged(self, shared, slice),
            _ => shared.slice_done(slice, Status::Success),
        }
    }
}

impl ZoneNamespace {
    /// The firmware has taken a command.
    pub fn start(&mut self, shared: &mut Shared, work: u32) {
        // Held open until all parts are started.
        shared.works[work].slices_left = 1;
        self.start_zone(shared, work);
        direct::part_done(shared, work);
    }

    /// The array starts on an operation: the media change. For how long.
    pub fn begins(&mut self, shared: &mut Shared, op: u32) -> Nanos {
        let FlashOp { kind, ppa, owner, .. } = shared.scheduler.ops[op];
        match Purpose::of(owner.token) {
            _ if kind == OpKind::Read => operations::begin_read(shared, op),
            Purpose::Stage(slot) => zone_write::stage_begins(self, shared, slot, ppa),
            Purpose::Log(slot) => zone_write::log_begins(self, shared, slot, ppa),
            Purpose::Slice(_) | Purpose::LogErase => operations::begin_erase(shared, ppa),
        }
    }

    /// A program or an erase has ended.
    pub fn ended(&mut self, shared: &mut Shared, op: u32) {
        match Purpose::of(shared.scheduler.ops[op].owner.token) {
            Purpose::Stage(slot) => zone_write::stage_ended(self, shared, op, slot),
            Purpose::Log(slot) => zone_log::log_ended(self, shared, op, slot),
            Purpose::LogErase => zone_log::log_erased(self, shared, op),
            Purpose::Slice(slice) => {
                let FlashOp { cause, ppa, .. } = shared.scheduler.ops[op];
                let ok = operations::end_erase(shared, self.number, shared.layout.block_of(ppa), cause);
                operations::let_go(shared, op);
                let stages = shared.scheduler.ops[op].stages;
                shared.slices[slice].add_stages(&stages, shared.now);
                zone_actions::zone_block_erased(self, shared, slice, ppa, ok);
                shared.slice_done(slice, Status::Success);
            }
        }
    }

    /// The data of a read are in the controller.
    pub fn arrived(&mut self, shared: &mut Shared, op: u32) {
        let FlashOp { ppa, attempts, owner, .. } = shared.scheduler.ops[op];
        let Purpose::Slice(slice) = Purpose::of(owner.token) else {
            unreachable!("a read that serves a program")
        };
        let Slice { work, number: zone, place, .. } = shared.slices[slice];
        let Taken { corrected, worst, mut failed, erased, rotten, .. } =
            direct::take_in(shared, slice, ppa, attempts);
        // A zone should have data where a read found none: their program was given up, and not because of a reset.
        if erased != 0 && self.zones.holds(zone, ppa) {
            failed |= erased;
        }
        if failed != 0 && operations::tries_again(shared, ppa, attempts) {
            return operations::retry(shared, op, ppa);
        }
        direct::end_direct_read(shared, op, slice, corrected, failed != 0);
        // Near to being lost, or beyond: the zone should be reset, and its host says when.
        let near = shared.config.scheduler.refresh_above.is_some_and(|most| worst > most);
        if (near || rotten)
            && let Some(block) = self.zones.distrust(zone, place.units(), rotten)
        {
            operations::retire_block(shared, block);
        }
        if failed != 0 {
            shared.works[work].merge_status(Status::UnrecoveredRead, 0);
            shared.slice_done(slice, Status::Success);
        } else {
            self.ask_dma(shared, slice);
        }
    }

    /// Returns why a command's fields are refused, if they are; its zone is checked when it is fetched.
    pub fn refuse(&self, shared: &Shared, command: &Command) -> Option<Status> {
        if !shared.host.has_queue(command.queue) {
            return Some(Status::InvalidField);
        }
        let bytes = command.sectors as usize * shared.image_bytes;
        let ok = match command.opcode {
            Opcode::Read => command.sectors >= 1 && (command.data.is_empty() || command.data.len() == bytes),
            Opcode::Write | Opcode::Zone(ZoneOp::Append) => {
                command.sectors >= 1 && command.data.len() == bytes
            }
            Opcode::Report => command.sectors >= 1,
            Opcode::Zone(ZoneOp::Change(_)) => command.sectors == 0,
            Opcode::Flush => true,
            _ => return Some(Status::InvalidOpcode),
        };
        if !ok || command.vector.is_some() {
            return Some(Status::InvalidField);
        }
        let found = self.zones.zone_of(command.lba);
        let inside = match (command.opcode, found) {
            (Opcode::Flush, _) => true,
            (_, None) => false,
            (Opcode::Report, Some((zone, _))) => {
                u64::from(zone) + u64::from(command.sectors) <= u64::from(self.zones.geometry().zones)
            }
            _ => command.lba.0 + u64::from(command.sectors) <= self.zones.sectors(),
        };
        (!inside).then_some(Status::LbaOutOfRange)
    }

    /// A zoned command has been taken.
    pub(crate) fn start_zone(&mut self, shared: &mut Shared, work: u32) {
        match shared.works[work].command.opcode {
            Opcode::Read => zone_read::zone_read(self, shared, work),
            Opcode::Write | Opcode::Zone(ZoneOp::Append) => zone_write::zone_write(self, shared, work),
            Opcode::Zone(ZoneOp::Change(action)) => zone_actions::zone_action(self, shared, work, action),
            Opcode::Report => zone_read::zone_report(self, shared, work),
            Opcode::Flush => zone_log::zone_flush(self, shared, work),
            _ => unreachable!("refused at submission"),
        }
    }
}
