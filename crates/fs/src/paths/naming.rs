//! Naming: the drive names dirty pages, and files get these names (`names/`).

use super::{booking, moves};
use crate::block::Blocks;
use crate::jobs::{Job, JobError, JobId};
use crate::key::Extent;
use crate::names::{Names, Owner, runs};
use crate::objects::Core;
use crate::stop::Stop;
use crate::types::{BLOCK_BYTES, Ino};

/// Maximum blocks of a nameless write.
const WRITE_BLOCKS: usize = 64;

/// Nameless writes consist of whole blocks.
const _: () = assert!(BLOCK_BYTES == 4096);

/// Names all dirty pages, for a commit; true: they are named and durable.
pub(crate) fn name_pages(core: &mut Core) -> bool {
    if !core.space.has_names() {
        return true;
    }
    let naming = &mut core.names.naming;
    if !naming.is_named() {
        return false;
    }
    if core.pages.dirty() > 0 {
        let list = core.pages.dirty_list();
        naming.begin(list.iter().map(|&at| (core.pages.page(at).ino, core.pages.page(at).block)));
        core.turn.went_on();
        return false;
    }
    if naming.is_unflushed() {
        naming.await_flush();
        return false;
    }
    naming.end();
    true
}

/// Puts new names into the extents of their files.
pub(crate) fn settle_names(core: &mut Core) -> Result<(), Stop> {
    while let Some((owners, names)) = core.names.naming.take_written() {
        let result = settle_written(core, &owners, &names);
        if result.is_err() {
            core.names.naming.give_back(owners, names);
            return result;
        }
        booking::book(core);
        core.names.naming.settled();
        core.turn.went_on();
    }
    Ok(())
}

fn settle_written(core: &mut Core, owners: &[Owner], names: &[u64]) -> Result<(), Stop> {
    let runs = runs(owners.iter().copied().zip(names.iter().copied()));
    for &((ino, block), _, count) in &runs {
        core.catalog.touch_cut(ino, block, block + count)?;
    }
    for &((ino, first), name, count) in &runs {
        let mut sums = Vec::new();
        let (mut at, mut start) = (first, first);
        while at < first + count {
            let page = core.pages.find(ino, at).filter(|&page| core.pages.page(page).dirty);
            match page {
                Some(page) => {
                    if core.log.data_checksums() {
                        sums.push(core.pages.with_sum(page).1);
                    }
                    core.pages.settle(page, 0);
                }
                None => {
                    // The block was dropped while it was being written: the name never was in an extent.
                    core.names.frees.free(name + (at - first));
                    settle_named(core, (ino, start, at), name + (start - first), &sums);
                    sums.clear();
                    start = at + 1;
                }
            }
            at += 1;
        }
        settle_named(core, (ino, start, at), name + (start - first), &sums);
    }
    Ok(())
}

fn settle_named(core: &mut Core, (ino, first, end): (Ino, u64, u64), name: u64, sums: &[u32]) {
    if first < end {
        core.catalog.cut(ino, first, end);
        let address = core.space.layout().address_of(name);
        core.catalog.put_extent(ino, Extent { first, count: end - first, address }, sums);
    }
}

/// The next nameless write, or maintenance of names.
pub(crate) fn next_job(core: &mut Core) -> Option<Job> {
    if !core.space.has_names() {
        return None;
    }
    if core.names.naming.may_send()
        && let Some(job) = next_write(core)
    {
        return Some(job);
    }
    if core.names.moves.wants_report() && !core.life.is_mounting() {
        let id = core.turn.new_id();
        core.names.moves.asking(id);
        return Some(Job::Names { id: JobId(id) });
    }
    next_acknowledge(core).or_else(|| next_free(core))
}

fn next_write(core: &mut Core) -> Option<Job> {
    let (mut owners, mut blocks) = (Vec::new(), Vec::new());
    while owners.len() < WRITE_BLOCKS
        && let Some((ino, block)) = core.names.naming.next()
    {
        // Other pages were dropped meanwhile.
        if let Some(at) = core.pages.find(ino, block).filter(|&at| core.pages.page(at).dirty) {
            blocks.push(core.pages.with_sum(at).0);
            owners.push((ino, block));
        }
    }
    if owners.is_empty() {
        if core.names.naming.is_active() {
            core.turn.went_on();
        }
        return None;
    }
    let id = core.turn.new_id();
    core.names.naming.sending(id, owners);
    Some(Job::NamelessWrite { id: JobId(id), data: Blocks::new(blocks) })
}

/// Acknowledges moves that are durably recorded and whose old names are not being read.
fn next_acknowledge(core: &mut Core) -> Option<Job> {
    let layout = *core.space.layout();
    let reads = &core.reads;
    let names = core.names.moves.take_acknowledged(|name| !reads.overlaps(layout.address_of(name)));
    if names.is_empty() {
        return None;
    }
    let id = core.turn.new_id();
    core.names.moves.acknowledging(id);
    Some(Job::Acknowledge { id: JobId(id), names })
}

fn next_free(core: &mut Core) -> Option<Job> {
    if !core.names.frees.has_next() {
        return None;
    }
    let id = core.turn.new_id();
    let Names { moves, frees, .. } = &mut core.names;
    let names = frees.begin(id, |name| moves.new_name(name));
    moves.retain(|old| !frees.is_freeing(old));
    Some(Job::Free { id: JobId(id), names })
}

/// Reports whether the drive should be asked for moves.
pub(crate) fn wants_poll(core: &Core) -> bool {
    let writes = core.names.naming.is_sending() || core.writes.is_writing();
    core.space.has_names() && writes && !core.names.moves.is_polling()
}

/// A job that ends when something was moved, if anything may wait for it. It comes last.
pub(crate) fn next_poll(core: &mut Core) -> Option<Job> {
    if !wants_poll(core) {
        return None;
    }
    let id = core.turn.new_id();
    core.names.moves.polling(id);
    Some(Job::Moves { id: JobId(id) })
}

/// Handles the names from a nameless write or the report.
pub(crate) fn got_names(core: &mut Core, id: u64, names: Result<Vec<u64>, JobError>) {
    if core.names.moves.report_came(id) {
        return moves::take_report(core, names);
    }
    let Some(owners) = core.names.naming.sent(id) else { return };
    match names {
        Ok(names) if names.len() == owners.len() => core.names.naming.got_names(owners, names),
        Err(JobError::ReadOnly) => core.degrade(),
        _ => {
            core.writes.count_failure();
            // Acknowledgements free space.
            if core.names.naming.failed(core.names.acknowledges()) {
                core.degrade();
            }
        }
    }
}
