//! Format NVM: discards everything in the namespaces, one operation at a time, so that other requests are not
//! delayed. Discarded data stay discarded after a power cut: resets are durable when they end, trims after
//! the flush that follows.

use super::core::Core;
use crate::nvme::io::Volume;
use crate::nvme::slots::Work;
use crate::operation::Operation;
use crate::session::Port;
use pellucid_flash::{ChunkGeometry, ChunkOp, ChunkState, Interface, Lba, Opcode, ZoneAction, ZoneOp};
use pellucid_wire::nvme::AdminOpcode;

/// Sectors discarded in one operation.
const SECTORS: u64 = 1 << 20;
/// Chunks whose states are read together.
const CHUNKS: u32 = 256;

/// Submits the next discard, or ends the format.
pub(super) fn go_on(core: &mut Core, index: u16, port: &mut Port<'_>) {
    let slot = core.slots.get(index);
    let &Work::Format { mut nsid, last, mut next } = slot.work() else { return };
    while slot.status().is_success()
        && let Some(volume) = (nsid as usize).checked_sub(1).and_then(|n| core.member.volumes().get(n))
    {
        if let Some(operation) = discard(volume, &mut next, port) {
            slot.format(nsid, last, next);
            slot.submitted(1);
            return port.submit(volume.number, index.into(), operation);
        }
        (nsid, next) = (if nsid == last { u32::MAX } else { nsid + 1 }, 0);
    }
    end(core, index, last, port);
}

fn end(core: &mut Core, index: u16, last: u32, port: &mut Port<'_>) {
    let slot = core.slots.get(index);
    let (cid, status) = (slot.cid(), slot.status());
    if !status.is_success() {
        core.note_error(cid, status, AdminOpcode::FormatNvm.raw(), last, 0);
    }
    if let Some(id) = core.member.admin_of()
        && let Some((controller, Some(subsystem))) = core.target.borrow_mut().get(id)
    {
        subsystem.history.format_end(controller.id, last, status.raw(), port.now_ns());
    }
    core.finish(index, 0, port);
}

/// Next operation of a namespace whose sectors before `next` are discarded; `None` if none is left.
fn discard(volume: &Volume, next: &mut u64, port: &Port<'_>) -> Option<Operation> {
    match volume.set {
        Interface::Zoned(_) => {
            let reset =
                Operation::new(Opcode::Zone(ZoneOp::Change(ZoneAction::ResetAll)), Lba(0), 0, Vec::new());
            (std::mem::replace(next, 1) == 0).then_some(reset)
        }
        Interface::OpenChannel(chunks) => {
            let start = written_chunk(volume, &chunks, next, port)?;
            Some(Operation::new(Opcode::Chunk(ChunkOp::Reset), start, 0, Vec::new()))
        }
        // `next` counts sectors.
        _ => {
            let left = volume.sectors.checked_sub(*next)?;
            let (start, sectors) = (*next, left.min(SECTORS));
            // One beyond the last means that the flush is done too.
            *next += sectors.max(1);
            Some(match left {
                0 => Operation::flush(),
                _ => Operation::new(Opcode::Trim, Lba(start), sectors as u32, Vec::new()),
            })
        }
    }
}

/// Finds the next chunk to reset: a free chunk needs no reset, and an offline chunk does not accept
/// one.
fn written_chunk(volume: &Volume, chunks: &ChunkGeometry, next: &mut u64, port: &Port<'_>) -> Option<Lba> {
    let all = u64::from(chunks.parallel_units()) * u64::from(chunks.chunks);
    while *next < all {
        let count = (all - *next).min(CHUNKS.into()) as u32;
        let infos = port.chunk_infos(volume.number, *next as u32, count);
        let found = infos.iter().position(|info| matches!(info.state, ChunkState::Closed | ChunkState::Open));
        *next += found.map_or(u64::from(count), |at| at as u64 + 1);
        if let Some(info) = found.and_then(|at| infos.get(at)) {
            return Some(info.start);
        }
    }
    None
}
