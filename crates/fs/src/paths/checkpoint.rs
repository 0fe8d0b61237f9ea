//! Building a checkpoint: the nodes of the tree are logged, then a picture of everything else is written to one of two places (`checkpoints.rs`).

use super::{append, booking, commit};
use crate::batch::{Batch, Owner};
use crate::objects::Core;
use crate::picture::Picture;
use crate::space::Stream;
use crate::stop::Stop;

/// Makes a checkpoint if one is wanted and possible now.
pub(crate) fn checkpoint_if_due(core: &mut Core) -> Result<(), Stop> {
    let hole = core.commits.has_hole() && core.commits.has_syncs();
    let due = core.checkpoints.is_wanted() || hole;
    if !due || core.checkpoints.is_built() || core.cleaner.is_rescuing() {
        return Ok(());
    }
    if core.writes.bytes() > core.life.options().memory_bytes / 2 || !has_place(core) {
        return Ok(());
    }
    commit::commit(core)?;
    write_nodes(core)?;
    booking::book(core);
    let layout = *core.space.layout();
    let dead: Vec<u32> = core.space.dead().collect();
    core.space.refill();
    if !layout.backend.is_flash() {
        dead.iter().for_each(|&segment| core.space.reserve_dead(segment));
    }
    core.cleaner.checkpoint_is_built();
    let picture = picture(core);
    let image = picture.encode(core.log.file_system(), &layout);
    core.checkpoints.built(&picture, image, core.commits.changes(), dead);
    core.turn.went_on();
    Ok(())
}

/// Reports whether a checkpoint has a place to be written to. On flash, takes one if necessary.
fn has_place(core: &mut Core) -> bool {
    let layout = *core.space.layout();
    if !layout.backend.is_flash() || !core.checkpoints.needs_segment(&layout) {
        return true;
    }
    let taken = core.space.take_for_checkpoints();
    taken.inspect(|&segment| core.checkpoints.take_segment(segment)).is_some()
}

/// Writes the dirty nodes of the tree.
fn write_nodes(core: &mut Core) -> Result<(), Stop> {
    let mut closed: Vec<Batch> = Vec::new();
    let mut open: Option<Batch> = None;
    for dirty in core.catalog.dirty_nodes() {
        if let Some(batch) = open.take_if(|batch| !batch.has_space()) {
            append::close_batch(core, batch, &mut closed);
        }
        let mut batch = match open.take() {
            Some(batch) => batch,
            None => append::new_batch(core, Stream::New)?,
        };
        let address = batch.next_address();
        let block = core.catalog.settle(dirty, address, batch.seq);
        batch.push_copy(Owner::Node { low: dirty.low, level: dirty.level }, block);
        core.space.add_live(address, 1);
        core.log.count_node();
        open = Some(batch);
    }
    if let Some(batch) = open {
        append::close_batch(core, batch, &mut closed);
    }
    append::send_batches(core, closed);
    Ok(())
}

fn picture(core: &Core) -> Picture {
    let (root, level) = core.catalog.root();
    Picture {
        number: core.checkpoints.number() + 1,
        epoch: core.log.epoch(),
        seq: core.log.seq(),
        root,
        level,
        node_count: core.catalog.node_count(),
        new_ino: core.catalog.new_ino(),
        allocated: core.catalog.allocated(),
        segments: core.space.segments().to_vec(),
        reserve: core.space.reserve(),
    }
}
