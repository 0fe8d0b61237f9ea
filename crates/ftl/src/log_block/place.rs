//! Paths of host data: streams, log blocks.

use super::core::Core;
use super::mark::Kind;
use super::write::plan_host;
use super::{Scheme, bast, blocks, cache, fast, merge};
use crate::translation::{Plan, Stream};
use pellucid_flash::{BlockId, Cause, DieId, Lpn};

/// The stream of a host write of `lpn`.
#[inline]
pub(super) fn stream(core: &mut Core, lpn: Lpn) -> Stream {
    Stream::Log(match core.shape.scheme {
        Scheme::Bast => core.shape.lbn(lpn).0,
        Scheme::Fast => fast::stream(core, lpn),
    })
}

/// The die whose merges make space for a stream.
pub(super) fn die_of_stream(core: &Core, stream: Stream) -> Option<DieId> {
    match (stream, core.shape.scheme) {
        (Stream::Log(group), Scheme::Bast) => Some(core.shape.die_of_lbn(group)),
        (Stream::Log(group), Scheme::Fast) => Some(DieId(group / fast::STREAMS)),
        _ => None,
    }
}

/// Binds a destination for data of one stream.
pub(super) fn place(core: &mut Core, stream: Stream, lpns: &[Lpn]) -> Option<Plan> {
    debug_assert!(!lpns.is_empty() && lpns.len() <= core.shape.layout.units_per_superpage as usize);
    match (stream, core.shape.scheme) {
        (Stream::Log(lbn), Scheme::Bast) => bast::place(core, lbn, lpns),
        (Stream::Log(group), Scheme::Fast) => fast::place(core, group, lpns),
        (Stream::Merge(copy), _) => merge::place_copy(core, copy, lpns),
        _ => panic!("{stream:?} is no stream of log blocks"),
    }
}

/// Returns whether a log block accepts another superpage. Closes a log block that was begun too
/// long ago.
pub(super) fn takes_more(core: &mut Core, die: DieId, log: usize) -> bool {
    let sequence = core.programs.sequence();
    let state = &mut core.dies[die.0 as usize];
    state.logs.takes_more(&core.shape, log, sequence) && !state.is_dead()
}

/// Opens a log block of `die`, if that leaves the free blocks that a merge and metadata need. Returns its position among the log
/// blocks.
pub(super) fn open_log(core: &mut Core, die: DieId, owner: Option<u32>) -> Option<usize> {
    let destination = u32::from(!core.has_destination(die));
    // With one log block a drive that has lost blocks still works.
    let in_its_place = u32::from(!core.die(die).logs.all().is_empty());
    let kept = core.metadata_reserve(die) + destination + in_its_place;
    if core.die(die).is_dead() || !cache::takes_log(core, die) {
        return None;
    }
    if core.blocks.free(die) <= kept {
        cache::make_room_if_full(core, die);
        return None;
    }
    let block = core.blocks.take(die, blocks::Role::Log, false)?;
    let sequence = core.programs.sequence();
    Some(core.die_mut(die).logs.open(block, owner, sequence))
}

/// Plans the next superpage of a log block.
pub(super) fn append(core: &mut Core, die: DieId, log: usize, lpns: &[Lpn]) -> Plan {
    let logs = &mut core.dies[die.0 as usize].logs;
    let (block, next, owner) = (logs.at(log).block(), logs.at(log).next(), logs.at(log).owner());
    logs.used(log, core.programs.sequence());
    logs.grew(&core.shape, block, lpns);
    let kind = if owner.is_some() { Kind::Owned } else { Kind::Random };
    plan_host(core, block, next, kind, lpns)
}

/// Requests the merge of a log block, because host data need its place.
pub(super) fn want_merge(core: &mut Core, block: BlockId) {
    let state = core.die_of(block);
    // One at a time: the next is requested when this one was not enough.
    if !state.is_dead() && !state.merges.evacuates_for(Cause::Gc) {
        merge::evacuate(core, block, Cause::Gc);
    }
}
