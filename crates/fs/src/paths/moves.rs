//! Moving names: blocks moved by the drive get their new names, and the log records them. Names that no file has are freed.

use super::{append, booking, room};
use crate::batch::put_entry;
use crate::jobs::JobError;
use crate::key::{Extent, Fields, Key, Kind, sum_of};
use crate::names::{Owner, runs};
use crate::objects::Core;
use crate::space::Stream;
use crate::stop::Stop;
use crate::types::{Errno, Ino};
use std::collections::BTreeSet;

/// Moves per record, which must fit into the header of a batch.
const RECORD_MOVES: usize = 100;
/// In the drive's report: a name without data, and a virtual block.
const NOTHING: u64 = u64::MAX;
const VIRTUAL: u64 = u64::MAX - 1;

/// Handles moves: old and new names of blocks.
pub(crate) fn got_moves(core: &mut Core, moves: &[(u64, u64)]) {
    for &(old, new) in moves {
        // Freeing an old name also frees the new one.
        if !core.names.moves.was_reported(old, new) && !core.names.frees.moved(old, new) {
            core.names.moves.tell(old, new);
        }
    }
}

/// Applies the new names of moved blocks, and records them in the log.
pub(crate) fn take_moves(core: &mut Core) -> Result<(), Stop> {
    if core.names.moves.waiting() == 0 || !core.names.moves.is_reported() {
        return Ok(());
    }
    // The drive keeps old names until the next mount, where nothing waits; further writes would make it move more.
    if core.life.is_unmounting() && !core.names.naming.is_active() {
        return Ok(());
    }
    let able = moves_able(core);
    if able == 0 {
        core.cleaner.ask(core.space.layout().for_cleaner());
        core.want_checkpoint();
        return Ok(());
    }
    let mut later = Vec::new();
    let mut batch: Vec<(Option<Owner>, u64, u64)> = Vec::new();
    while batch.len() < able
        && let Some((old, new)) = core.names.moves.next()
    {
        if let Some(owner) = core.names.owners.get(old) {
            batch.push((Some(owner), old, new));
        } else if core.names.frees.is_dropped(old) {
            batch.push((None, old, new));
        } else if core.names.naming.has_name(old) {
            // The name is in no extent yet.
            later.push((old, new));
        }
        // For freed or ending names, freeing the old name also frees the new one.
    }
    let result = touch_moves(core, &batch);
    if result.is_err() {
        later.extend(batch.iter().map(|&(_, old, new)| (old, new)));
        batch.clear();
    }
    later.into_iter().for_each(|(old, new)| core.names.moves.tell(old, new));
    if !batch.is_empty() {
        record_moves(core, &batch)?;
    }
    result
}

/// Number of moves that can be recorded now, given what they make dirty.
fn moves_able(core: &Core) -> usize {
    // A batch of two headers, and the blocks at the end of a segment that are too few for one.
    let room = core.space.room().saturating_sub(room::need(core) + 7);
    let mut able = RECORD_MOVES.min(core.names.moves.waiting());
    while able > 0 && 2 * room::nodes_of_pages(core, able as u64) + 2 > room {
        able /= 2;
    }
    able
}

fn touch_moves(core: &mut Core, batch: &[(Option<Owner>, u64, u64)]) -> Result<(), Stop> {
    for &(owner, ..) in batch {
        if let Some((ino, block)) = owner {
            core.catalog.touch_cut(ino, block, block + 1)?;
        }
    }
    Ok(())
}

fn record_moves(core: &mut Core, batch: &[(Option<Owner>, u64, u64)]) -> Result<(), Stop> {
    let mut log_batch = append::new_batch(core, Stream::New)?;
    let (mut entries, seq) = (Vec::new(), log_batch.seq);
    for &(owner, old, new) in batch {
        let dropped = core.names.frees.rename(old, new, seq);
        for (ino, block) in owner.into_iter().chain(dropped) {
            let value = [old.to_le_bytes(), new.to_le_bytes()].concat();
            put_entry(&mut entries, Key::new(ino.0, Kind::Moved, block), Some(&value));
            // A mount cuts the durable extent at both ends of the block, so the next commit must contain the present content there.
            core.names.moves.add_cut(Key::extent(ino, block.saturating_sub(1)));
            core.names.moves.add_cut(Key::extent(ino, block));
        }
    }
    let owned = batch.iter().filter_map(|&(owner, _, new)| Some((owner?, new)));
    for ((ino, block), new, count) in runs(owned) {
        rename_blocks(core, ino, block, count, new);
    }
    booking::book_moves(core);
    log_batch.put_inline(&entries);
    let mut closed = Vec::new();
    append::close_batch(core, log_batch, &mut closed);
    append::send_batches(core, closed);
    core.commits.moves_recorded(seq);
    core.names.moves.recorded(seq, batch.iter().map(|&(_, old, _)| old).collect());
    if core.commits.has_hole() {
        core.want_checkpoint();
    }
    core.turn.went_on();
    core.turn.was_done();
    Ok(())
}

/// Renames blocks of a file, whose paths were loaded.
fn rename_blocks(core: &mut Core, ino: Ino, block: u64, count: u64, name: u64) {
    let sums: Vec<u32> = (block..block + count)
        .map_while(|block| {
            let (_, extent, place) = core.catalog.present(|catalog| catalog.extent_at(ino, block))?;
            sum_of(core.catalog.value(place), block.checked_sub(extent.first)?)
        })
        .collect();
    core.catalog.cut(ino, block, block + count);
    let address = core.space.layout().address_of(name);
    core.catalog.put_extent(ino, Extent { first: block, count, address }, &sums);
}

/// Applies a record of a move at the mount.
pub(crate) fn apply_move(core: &mut Core, key: Key, value: &[u8]) -> Result<(), Stop> {
    let mut f = Fields(value);
    let (Some(old), Some(new)) = (f.u64(), f.u64()) else { return Err(Errno::Io.into()) };
    let (ino, block) = (Ino(key.object()), key.offset());
    core.catalog.touch_cut(ino, block, block + 1)?;
    if core.catalog.run_at(ino, block)?.address == core.space.layout().address_of(old) {
        rename_blocks(core, ino, block, 1, new);
    }
    Ok(())
}

/// Handles the drive's report: moved blocks get their new names, and names that no file has are freed.
pub(crate) fn take_report(core: &mut Core, report: Result<Vec<u64>, JobError>) {
    // Without the report, unowned names are not freed.
    let Ok(report) = report else { return };
    // The report includes everything told before.
    core.names.moves.forget_told();
    let (mut garbage, mut recorded, mut targets) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (name, &now) in (0u64..).zip(&report) {
        let is_owned = core.names.owners.get(name).is_some();
        if now == NOTHING || now == VIRTUAL {
            continue;
        }
        if now != name {
            targets.insert(now);
            core.names.moves.add_reported(name, now);
        }
        match is_owned {
            true if now != name => core.names.moves.tell(name, now),
            true => {}
            // The move is recorded, and its acknowledgement was lost.
            false if now != name && core.names.owners.get(now).is_some() => recorded.push(name),
            false => garbage.push(name),
        }
    }
    let newest = core.log.newest();
    if !recorded.is_empty() {
        core.names.moves.found_recorded(newest, recorded);
    }
    garbage.retain(|name| !targets.contains(name));
    for name in garbage {
        core.names.frees.drop_found(name, newest);
    }
    if !core.commits.has_hole() {
        core.names.frees.be_short();
    }
}
