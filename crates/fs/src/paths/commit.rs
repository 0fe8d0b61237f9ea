//! Committing: dirty pages and changed keys go to the log.
//!
//! A commit is built at one moment, so it holds the state after some operation. Its batches are written in any order; it is durable once they and all
//! before them have ended, and a flush that began afterwards has ended. Then, before any sync is answered, the sync record is written (`record.rs`).

use super::{append, naming};
use crate::batch::{Batch, Owner};
use crate::key::{EXTENT_BLOCKS_MAX, Extent};
use crate::objects::Core;
use crate::space::Stream;
use crate::stop::Stop;
use crate::types::{BLOCK_BYTES, Ino};

/// Run of contiguous blocks of a file.
#[derive(Clone, Copy, Debug)]
struct Settled {
    ino: Ino,
    extent: Extent,
}

/// Commits if due.
pub(crate) fn commit_if_due(core: &mut Core) -> Result<(), Stop> {
    let now = core.turn.now();
    if !core.commits.is_due(now) || core.writes.bytes() > core.life.options().memory_bytes / 2 {
        return Ok(());
    }
    let overdue = core.commits.is_overdue(now);
    commit(core)?;
    if overdue {
        core.commits.want_built();
    }
    Ok(())
}

/// Writes everything dirty except nodes of the tree.
pub(crate) fn commit(core: &mut Core) -> Result<(), Stop> {
    core.commits.begins();
    if !naming::name_pages(core) {
        core.commits.want_now();
        return Err(Stop::Room);
    }
    let pages = core.pages.dirty_list();
    if pages.is_empty() && core.catalog.changed() == 0 {
        core.commits.was_empty();
        return Ok(());
    }
    if let Err(why) = prepare(core, &pages) {
        core.commits.want_now();
        return Err(why);
    }
    let mut batches = Vec::new();
    let open = write_pages(core, &pages, &mut batches)?;
    core.pages.clear_list();
    let last = write_entries(core, open, &mut batches)?;
    append::close_batch(core, last, &mut batches);
    append::send_batches(core, batches);
    core.turn.went_on();
    core.turn.was_done();
    core.commits.was_built(core.log.newest());
    core.names.frees.committed(core.log.newest());
    Ok(())
}

/// Loads the nodes that a commit changes.
fn prepare(core: &mut Core, pages: &[u32]) -> Result<(), Stop> {
    let mut at = 0;
    while at < pages.len() {
        let (ino, first) = (core.pages.page(pages[at]).ino, core.pages.page(pages[at]).block);
        let mut end = first;
        while at < pages.len() {
            let page = core.pages.page(pages[at]);
            if page.ino != ino || page.block != end {
                break;
            }
            (end, at) = (end + 1, at + 1);
        }
        core.catalog.touch_cut(ino, first, end)?;
    }
    for at in 0..core.names.moves.cuts().len() {
        core.catalog.find(core.names.moves.cuts()[at])?;
    }
    core.catalog.add_changed(core.names.moves.take_cuts());
    Ok(())
}

/// Puts dirty pages into batches, and their addresses into the tree.
fn write_pages(core: &mut Core, pages: &[u32], batches: &mut Vec<Batch>) -> Result<Option<Batch>, Stop> {
    let mut open: Option<Batch> = None;
    let mut stream = Stream::New;
    let mut run: Option<Settled> = None;
    let mut sums = Vec::new();
    for &at in pages {
        let page = core.pages.page(at);
        let (ino, block) = (page.ino, page.block);
        let wanted = if page.moved { Stream::Moved } else { Stream::New };
        core.log.count_data(page.moved);
        if let Some(batch) = open.take_if(|batch| stream != wanted || !batch.has_space()) {
            append::close_batch(core, batch, batches);
        }
        stream = wanted;
        let mut batch = match open.take() {
            Some(batch) => batch,
            None => append::new_batch(core, stream)?,
        };
        let (data, sum) = core.pages.with_sum(at);
        let address = batch.push(Owner::Data { ino: ino.0, block }, data, sum);
        core.pages.settle(at, batch.seq);
        open = Some(batch);
        let goes_on = run.as_mut().filter(|run| {
            run.ino == ino
                && run.extent.last() + 1 == block
                && run.extent.address + run.extent.count == address
                && run.extent.count < EXTENT_BLOCKS_MAX
        });
        match goes_on {
            Some(run) => run.extent.count += 1,
            None => {
                settle_run(core, run.take(), &sums);
                sums.clear();
                run = Some(Settled { ino, extent: Extent { first: block, count: 1, address } });
            }
        }
        if core.log.data_checksums() {
            sums.push(sum);
        }
    }
    settle_run(core, run, &sums);
    Ok(open)
}

fn settle_run(core: &mut Core, run: Option<Settled>, sums: &[u32]) {
    let Some(Settled { ino, extent }) = run else { return };
    core.catalog.cut(ino, extent.first, extent.last() + 1);
    core.catalog.put_extent(ino, extent, sums);
}

/// Puts the changed keys into the header of the open batch if they fit, else into blocks of their own. Returns the last batch.
fn write_entries(core: &mut Core, open: Option<Batch>, batches: &mut Vec<Batch>) -> Result<Batch, Stop> {
    let entries = core.catalog.take_changed();
    let mut batch = match open {
        Some(batch) => batch,
        None => append::new_batch(core, Stream::New)?,
    };
    if entries.len() <= batch.inline_space() {
        batch.put_inline(&entries);
        return Ok(batch);
    }
    for piece in entries.chunks(BLOCK_BYTES) {
        while !batch.has_space_for(2) {
            append::close_batch(core, batch, batches);
            batch = append::new_batch(core, Stream::New)?;
        }
        let mut block = [0; BLOCK_BYTES];
        block[..piece.len()].copy_from_slice(piece);
        batch.push_copy(Owner::Entries, &block);
        batch.push_copy(Owner::EntriesCopy, &block);
        core.log.count_entries(2);
    }
    Ok(batch)
}
