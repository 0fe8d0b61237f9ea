//! Garbage collection: a victim is read, its live sectors are written elsewhere, and it is erased.
//!
//! ```text
//!   acknowledged:   read ─► write ─► tell ─► (acknowledged, checkpoint) ─► erase
//!   prototype:      read ─► erase ─► write ─► tell
//! ```
//! Sectors that cannot be read stay in place, and so does their block.

use super::core::Core;
use super::link::TAG_RESET;
use super::read;
use crate::Content;
use pellucid_flash::{
    BlockId, ChunkOp, Command, Completion, Migration, Opcode, Ppa, SimTime, Status, Vector,
};

/// Most reads of a victim under way at once.
const READS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Read,
    /// The victim is being erased.
    Erase,
    Write,
}

/// A victim that is being moved.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    block: BlockId,
    phase: Phase,
    units: Vec<Ppa>,
    images: Vec<u8>,
    /// Units that could not be read.
    unread: Vec<bool>,
    next: usize,
    under_way: u32,
    /// When the victim was chosen.
    since: SimTime,
}

pub(super) fn continue_gc(core: &mut Core) {
    if core.victim.is_none() {
        let Some((block, units)) = core.engine.next_victim() else { return };
        let images = vec![0; units.len() * core.image_bytes];
        let unread = vec![false; units.len()];
        let (phase, since) = (Phase::Read, core.now);
        core.victim = Some(Victim { block, phase, units, images, unread, next: 0, under_way: 0, since });
    }
    let Some(mut victim) = core.victim.take() else { return };
    if victim.phase == Phase::Read {
        read_victim(core, &mut victim);
        if victim.under_way == 0 {
            victim.next = 0;
            let all = !victim.unread.contains(&true);
            let erase_first = all && core.config.migration == Migration::Prototype;
            victim.phase = if erase_first { Phase::Erase } else { Phase::Write };
            if erase_first {
                core.flushes.changed();
                core.engine.take_out();
            }
            core.progress.note();
        }
    }
    if victim.phase == Phase::Write && victim.under_way == 0 && victim.next == victim.units.len() {
        if core.engine.victim_done() {
            core.issue.renew(victim.block, core.now);
        }
        core.tally.pause(victim.since, core.now);
        core.progress.note();
        return;
    }
    core.victim = Some(victim);
}

fn read_victim(core: &mut Core, victim: &mut Victim) {
    while victim.next < victim.units.len() && victim.under_way < READS {
        let read = core.reads.begin(None);
        let end = victim.units.len().min(victim.next + Vector::ADDRESSES_MAX);
        for at in victim.next..end {
            core.reads.add(read, victim.units[at], at as u32);
        }
        (victim.next, victim.under_way) = (end, victim.under_way + 1);
        read::send_read(core, read, true);
    }
}

/// Records the read of a unit of the victim; `None`: it could not be read.
pub(super) fn victim_read(core: &mut Core, unit: u32, data: Option<&[u8]>) {
    let victim = core.victim.as_mut().expect("a victim is being read");
    match data {
        Some(data) => victim.images[unit as usize * core.image_bytes..][..data.len()].copy_from_slice(data),
        None => victim.unread[unit as usize] = true,
    }
}

pub(super) fn victim_read_ended(core: &mut Core) {
    core.victim.as_mut().expect("a victim is being read").under_way -= 1;
}

/// Returns whether units of the victim wait to be written; skips units that are no longer needed.
pub(super) fn has_copies(core: &mut Core) -> bool {
    let Some(victim) = core.victim.as_mut().filter(|victim| victim.phase == Phase::Write) else {
        return false;
    };
    while let Some(&unit) = victim.units.get(victim.next) {
        if !victim.unread[victim.next] && core.engine.is_wanted(unit) {
            return true;
        }
        victim.next += 1;
        core.progress.note();
    }
    false
}

/// The next units of the victim, as many as fit into a page.
pub(super) fn take_copies(core: &mut Core, contents: &mut Vec<Content>, data: &mut Vec<u8>) {
    while contents.len() < core.shape.layout.units_per_superpage as usize && has_copies(core) {
        let victim = core.victim.as_mut().expect("it has copies");
        contents.push(Content::Copy(victim.units[victim.next]));
        data.extend_from_slice(&victim.images[victim.next * core.image_bytes..][..core.image_bytes]);
        victim.next += 1;
    }
    core.victim.as_mut().expect("it has copies").under_way += 1;
}

/// Records that a page of copies is on the media.
pub(super) fn copies_ended(core: &mut Core) {
    core.victim.as_mut().expect("copies have a victim").under_way -= 1;
}

/// The image of a sector that is off the media while its block is erased.
pub(super) fn taken(core: &Core, ppa: Ppa) -> &[u8] {
    let victim = core.victim.as_ref().expect("what is taken has a victim");
    let at = victim.units.binary_search(&ppa).expect("it is the victim's");
    &victim.images[at * core.image_bytes..][..core.image_bytes]
}

/// Erases blocks that may be erased, unless they are being read.
pub(super) fn erase(core: &mut Core) {
    let mut later = Vec::new();
    while let Some((block, is_good)) = core.engine.next_erase() {
        if !is_good {
            victim_erased(core, block);
        } else if core.reads.is_read(&core.shape.layout, block) {
            later.push(block);
        } else {
            let lba = core.shape.sector(core.shape.layout.ppa(block, 0));
            core.link.send(Command::new(
                TAG_RESET | u64::from(block.0),
                Opcode::Chunk(ChunkOp::Reset),
                lba,
                0,
                Vec::new(),
            ));
        }
    }
    later.into_iter().for_each(|block| core.engine.erase_later(block));
}

pub(super) fn reset_ended(core: &mut Core, block: u32, completion: &Completion) {
    core.flushes.changed();
    core.engine.erased(BlockId(block), completion.status == Status::Success);
    // Names of a victim last until its sectors have been moved.
    if core.victim.as_ref().is_none_or(|victim| victim.block.0 != block) {
        core.issue.renew(BlockId(block), core.now);
    }
    victim_erased(core, BlockId(block));
}

/// Records that a block is free or retired: if it is the victim, its units can be written now.
fn victim_erased(core: &mut Core, block: BlockId) {
    core.progress.note();
    if let Some(victim) =
        core.victim.as_mut().filter(|victim| victim.block == block && victim.phase == Phase::Erase)
    {
        victim.phase = Phase::Write;
    }
}
