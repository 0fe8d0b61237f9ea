//! Paths of programs: planned, ended, failed.

use super::blocks::Role;
use super::core::Core;
use super::mark::{self, Kind};
use super::programs::{Content, Ended, Unit};
use super::{journal, merge};
use crate::translation::{Outdated, Plan, ProgramId};
use pellucid_flash::{BlockId, Cause, Lpn, Ppa};

/// Plans the program of `lpns` as superpage `superpage` of `block`; the table names the new copies from now on.
pub(super) fn plan_host(core: &mut Core, block: BlockId, superpage: u32, kind: Kind, lpns: &[Lpn]) -> Plan {
    let layout = &core.shape.layout;
    let first = layout.ppa(block, superpage * layout.units_per_superpage);
    let (id, sequence, units) = core.programs.begin(first, Content::Host, lpns.len() as u32);
    core.blocks.program_begins(block);
    for ((ppa, &lpn), unit) in (first.0..).map(Ppa).zip(lpns).zip(units) {
        let mut old = Ppa::NONE;
        if lpn != Lpn::NONE {
            let die = core.shape.die_of_lbn(core.shape.lbn(lpn).0);
            debug_assert_eq!(layout.die_of_block(block), die, "page {} goes to another die", lpn.0);
            old = core.map.replace(lpn, ppa);
            core.blocks.refer(block);
        }
        *unit = Unit { lpn, old };
    }
    Plan { id, first, die: layout.die_of_block(block), sequence: mark::join(kind, sequence) }
}

/// Plans a program that changes nothing in the table before its end.
pub(super) fn plan_other(
    core: &mut Core,
    block: BlockId,
    superpage: u32,
    kind: Kind,
    content: Content,
    units: u32,
) -> Plan {
    let layout = &core.shape.layout;
    let first = layout.ppa(block, superpage * layout.units_per_superpage);
    let (id, sequence, _) = core.programs.begin(first, content, units);
    core.blocks.program_begins(block);
    Plan { id, first, die: layout.die_of_block(block), sequence: mark::join(kind, sequence) }
}

/// Ends a program. If it failed, the caller still has the host data and plans them again; copies of merges and metadata are planned
/// again from here. The block takes no more data, and is retired when its data have moved.
pub(super) fn ended(core: &mut Core, id: ProgramId, ok: bool) {
    let program = core.programs.end(id);
    let block = core.shape.layout.block_of(program.first);
    let die = core.shape.layout.die_of_block(block);
    core.blocks.program_ended(block);
    match program.content {
        Content::Host => host_ended(core, id, program, ok),
        Content::Merge => merge::copy_ended(core, die, ok),
        Content::Metadata => journal::metadata_ended(core, die, program.first, ok),
    }
    if !ok {
        fail_block(core, block, Cause::Retirement);
    }
    core.tally.set_map_jobs(true);
    merge::switch_when_full(core, block);
    merge::step(core, die);
}

fn host_ended(core: &mut Core, id: ProgramId, program: Ended, ok: bool) {
    for at in 0..program.units {
        // A superpage may hold a page twice: a failed one is undone from its end.
        let at = if ok { at } else { program.units - 1 - at };
        let Unit { lpn, old } = core.programs.unit(id, at);
        if lpn == Lpn::NONE {
            continue;
        }
        if ok {
            core.release(old, Outdated::Replaced);
        } else {
            undo(core, lpn, Ppa(program.first.0 + at), old);
        }
    }
}

/// Undoes the copy at `failed`, which does not exist: its successor replaces `old` instead.
fn undo(core: &mut Core, lpn: Lpn, failed: Ppa, old: Ppa) {
    let block = core.shape.layout.block_of(failed);
    if core.map.get(lpn) == failed {
        core.map.set(lpn, old);
        core.blocks.unrefer(block);
    } else if core.programs.replace_instead(failed, old) {
        core.blocks.unrefer(block);
    } else {
        // Trimmed, or overwritten by a program that has ended. Until the trim is on the media, a power cut brings the old copy back.
        let trimmed = core.map.get(lpn) == Ppa::NONE;
        core.keep_until_saved(old);
        core.release(old, if trimmed { Outdated::Trimmed } else { Outdated::Replaced });
    }
}

/// Marks `block` as failed: it accepts no more programs, its data are moved, and then it is retired. Returns
/// whether the block was not marked before.
pub(super) fn fail_block(core: &mut Core, block: BlockId, cause: Cause) -> bool {
    let role = core.blocks.role(block);
    if !core.blocks.fail(block) {
        return false;
    }
    let die = core.shape.layout.die_of_block(block);
    match role {
        Role::Data(_) | Role::Log => _ = merge::evacuate(core, block, cause),
        Role::Destination => merge::fail_merge(core, die),
        Role::Metadata => _ = journal::empty_block(core, die, block, Cause::Retirement),
        Role::Leaving | Role::Free | Role::Erasing | Role::Bad => {}
    }
    if core.die(die).merges.current().is_some_and(|merge| merge.target() == block) {
        merge::fail_merge(core, die);
    }
    true
}
