//! Copies of sectors inside an open-channel drive.
//!
//! ```text
//!  every unit whole, and in its die? ── yes ─► copyback: the array moves it, no transfer
//!                └─ no ─► read into the controller ─► all parts there ─► written as any write
//! ```
//! Invariant: nothing is written before all sources are read, and nothing at all where one of them cannot be.

use super::ChunkNamespace;
use crate::direct::bits;
use crate::front::commands::Route;
use crate::shared::Shared;
use pellucid_flash::{Lba, Status, Vector};
use pellucid_ftl::Management;

impl ChunkNamespace {
    pub(super) fn chunk_copy(&mut self, shared: &mut Shared, work: u32) {
        let sectors = shared.works[work].command.sectors;
        let dulbe = self.feedback.unwritten_is_error;
        if dulbe && (0..sectors).any(|i| self.chunk_locate(shared, work, i).is_none()) {
            return self.refuse_all(shared, work, Status::Unwritten);
        }
        if self.moves_inside_dies(shared, work) {
            return self.chunk_write(shared, work, Route::CopyProgram);
        }
        let bytes = sectors as usize;
        let command = &mut shared.works[work].command;
        command.data.resize(bytes * shared.image_bytes, 0);
        if let Some(vector) = &mut command.vector {
            vector.metadata.resize(bytes * Vector::METADATA_BYTES, 0);
        }
        let held = shared.works[work].slices_left;
        self.chunk_read(shared, work, Route::CopyRead);
        // All of it zeros: there is nothing to wait for.
        if shared.works[work].slices_left == held && !shared.works[work].copied {
            self.program_copied(shared, work);
        }
    }

    /// Returns whether every unit of a copy stays whole and in its die, so that the array can move it without a transfer.
    fn moves_inside_dies(&mut self, shared: &mut Shared, work: u32) -> bool {
        let per_unit = shared.layout.sectors_per_unit;
        // A moved unit keeps its spare area, by which a shared drive finds its chunks again.
        if !self.feedback.copyback || self.chunks.management() != Management::Host {
            return false;
        }
        let geometry = *self.chunks.geometry();
        let command = &shared.works[work].command;
        let Some(vector) = &command.vector else { return false };
        let unit_of = |lba: Lba| geometry.address(lba).map(|a| (a.group, a.unit));
        (0..command.sectors).step_by(per_unit as usize).all(|i| {
            let Some((from, 0)) = self.chunk_locate(shared, work, i) else { return false };
            let whole = (1..per_unit).all(|k| {
                i + k < command.sectors && self.chunk_locate(shared, work, i + k) == Some((from, k))
            });
            whole && unit_of(vector.addresses[i as usize]) == unit_of(vector.destinations[i as usize])
        })
    }

    /// A part of a copy is in the controller. When all of it is, the destinations are written.
    pub(crate) fn copy_read_done(&mut self, shared: &mut Shared, slice: u32) {
        let (work, stages) = (shared.slices[slice].work, shared.slices[slice].stages);
        shared.slices.release(slice);
        let record = &mut shared.works[work];
        record.slices_left -= 1;
        if record.slices_left == 0 {
            (record.stages, record.mark) = (stages, shared.now);
            record.slices_left = 1;
            self.program_copied(shared, work);
            shared.works[work].slices_left -= 1;
            if shared.works[work].slices_left == 0 {
                shared.ask_complete(work);
            }
        }
    }

    fn program_copied(&mut self, shared: &mut Shared, work: u32) {
        shared.works[work].copied = true;
        if matches!(shared.works[work].status, Status::Success | Status::HighEcc) {
            self.chunk_write(shared, work, Route::CopyProgram);
        } else {
            shared.works[work].result = bits(0, shared.works[work].command.sectors);
        }
    }
}
