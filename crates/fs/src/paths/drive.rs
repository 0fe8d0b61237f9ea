//! Driving: jobs for the drive, and their ends.

use super::{fetch, naming};
use crate::batch::Header;
use crate::jobs::{Job, JobError, JobId};
use crate::objects::Core;
use crate::record::SyncRecord;
use crate::superblock::superblock;
use crate::writes::Write;

// ---- jobs

/// The next job, the most urgent first.
pub(crate) fn next_job(core: &mut Core) -> Option<Job> {
    if let Some(job) = next_library_job(core).or_else(|| naming::next_job(core)) {
        return Some(job);
    }
    if let Some((id, block, blocks)) = core.reads.next() {
        return Some(Job::Read { id: JobId(id), block, blocks });
    }
    next_write(core).or_else(|| next_flush(core)).or_else(|| naming::next_poll(core))
}

/// Reports whether a flash block must be allocated before anything is written.
pub(crate) fn wants_segment(core: &Core) -> bool {
    core.life.writes() && core.space.wants_segment(core.life.options().memory_bytes)
}

fn next_library_job(core: &mut Core) -> Option<Job> {
    if !core.space.layout().backend.is_flash() || core.library.is_being_told() {
        return None;
    }
    if core.library.take_told() {
        let id = core.turn.new_id();
        core.library.telling(id);
        return Some(Job::Keep { id: JobId(id), segments: core.space.kept() });
    }
    if core.library.is_allocating() || !wants_segment(core) {
        return None;
    }
    let id = core.turn.new_id();
    core.library.allocating(id);
    Some(Job::Allocate { id: JobId(id) })
}

fn next_write(core: &mut Core) -> Option<Job> {
    if core.writes.has_next() {
        return core.writes.next(core.turn.new_id());
    }
    next_record(core).or_else(|| next_superblock(core)).or_else(|| next_of_checkpoint(core))
}

/// Writes the sync record, if due.
fn next_record(core: &mut Core) -> Option<Job> {
    if !core.commits.take_record() {
        return None;
    }
    let place = core.space.layout().record()?;
    let record = SyncRecord {
        file_system: core.log.file_system(),
        epoch: core.log.epoch(),
        checkpoint: core.checkpoints.durable(),
        durable: core.commits.flushed_through(),
    };
    let id = core.turn.new_id();
    core.commits.recording(id);
    Some(core.writes.place(id, place, &record.encode()))
}

fn next_superblock(core: &mut Core) -> Option<Job> {
    if !core.life.writes() {
        return None;
    }
    let block = core.checkpoints.next_superblock()?;
    let superblock = core.superblock();
    Some(core.writes.place(core.turn.new_id(), block, &superblock))
}

/// Writes a copy of the picture, or discards a segment.
fn next_of_checkpoint(core: &mut Core) -> Option<Job> {
    let layout = *core.space.layout();
    let superblock = || superblock(&layout, core.log.file_system(), core.log.data_checksums());
    if let Some((address, data)) = core.checkpoints.next_copy(&layout, superblock) {
        return Some(core.writes.place(core.turn.new_id(), address, &data));
    }
    let (id, segment) = core.checkpoints.next_discard(|| core.turn.new_id())?;
    Some(Job::Discard { id: JobId(id), block: layout.address(segment, 0), blocks: layout.segment_blocks })
}

/// A flush, if something waits for one and everything before it is written.
fn next_flush(core: &mut Core) -> Option<Job> {
    if core.writes.is_flushing() {
        return None;
    }
    let through = core.log.written_through();
    let for_names = core.names.wants_flush(through, core.commits.has_hole());
    let places_written = !core.writes.has_place_writes();
    if !core.commits.wants_flush(through)
        && !core.checkpoints.wants_flush(through, places_written)
        && !for_names
    {
        return None;
    }
    core.names.naming.flush_began();
    let id = core.turn.new_id();
    core.writes.begin_flush(id, through);
    Some(Job::Flush { id: JobId(id) })
}

// ---- their ends

/// Handles the end of a job: with data for a read, or an error.
pub(crate) fn ended(core: &mut Core, id: u64, outcome: Result<Vec<u8>, JobError>) {
    if core.library.told(id) {
    } else if core.reads.is_under_way(id) {
        fetch::read_ended(core, id, outcome);
    } else if core.names.is_asked(id) {
        // The job was not executed.
        core.names.moves.polled(id);
        naming::got_names(core, id, outcome.and(Err(JobError::Failed)));
    } else if !discard_ended(core, id)
        && !core.names.moves.acknowledged(id)
        && !core.names.frees.ended(id, outcome.is_ok())
    {
        write_ended(core, id, outcome.map(|_| ()));
    }
}

/// Handles an allocation: a flash block, if there was one, and the number left.
pub(crate) fn allocated(core: &mut Core, id: u64, segment: Option<u32>, left: u32) {
    if !core.library.allocated(id) {
        return;
    }
    let Some(segment) = segment.filter(|&segment| segment < core.space.layout().segments) else {
        return core.space.set_elsewhere(0);
    };
    core.space.set_elsewhere(left);
    // While only a checkpoint makes anything durable, no mount looks for data written before it.
    let at_once = core.commits.has_hole() && !core.checkpoints.is_built();
    core.space.allocated(segment, at_once);
}

/// Handles the end of a write or flush.
fn write_ended(core: &mut Core, id: u64, outcome: Result<(), JobError>) {
    if let Some(through) = core.writes.flush_ended(id) {
        return match outcome {
            Ok(()) => flushed(core, through),
            Err(_) => core.degrade(),
        };
    }
    let Some(write) = core.writes.ended(id) else { return };
    if core.commits.record_ended(id) {
        if outcome.is_err() {
            core.degrade();
        }
        return;
    }
    let Some(seq) = write.seq else {
        return place_written(core, write.address, outcome.is_ok());
    };
    core.space.queue(write.address, write.data.count() as u64, false);
    if let Err(why) = outcome {
        write_failed(core, seq, &write, why);
    }
    core.log.batch_ended(seq);
}

/// Handles a failed batch: keeps its blocks in memory until they have been written elsewhere, and stops writing its segment.
fn write_failed(core: &mut Core, seq: u64, write: &Write, why: JobError) {
    core.writes.count_failure();
    if why == JobError::ReadOnly {
        return core.degrade();
    }
    let (address, blocks) = (write.address, write.data.shared());
    core.log.keep(address, blocks);
    let header = blocks.first().and_then(|first| Header::decode(&first[..], address, core.log.file_system()));
    core.cleaner.rescue(header.iter().flat_map(Header::owners));
    core.commits.failed(seq);
    let layout = *core.space.layout();
    if layout.backend.is_flash() {
        core.space.break_off(address);
    } else {
        core.space.retire(layout.segment_of(address));
    }
    core.checkpoints.abandon();
}

/// Handles the end of a write of superblock or picture.
fn place_written(core: &mut Core, address: u64, written: bool) {
    let layout = *core.space.layout();
    if !written && layout.backend.is_flash() {
        core.checkpoints.copy_failed();
    } else if !written {
        core.degrade();
    } else if !layout.superblocks().any(|block| block == address) {
        core.checkpoints.copy_written();
    }
}

/// Handles the end of a discard; true: it was one.
fn discard_ended(core: &mut Core, id: u64) -> bool {
    let Some(segment) = core.checkpoints.discard_ended(id) else { return false };
    if core.space.layout().backend.is_flash() {
        core.space.given_back(segment);
    }
    end_checkpoint(core);
    true
}

/// Ends a checkpoint: its freed segments can be used once they are discarded.
fn end_checkpoint(core: &mut Core) {
    if core.checkpoints.end_if_discarded() {
        core.space.use_reserve();
    }
}

fn flushed(core: &mut Core, through: u64) {
    let layout = *core.space.layout();
    let has_record = layout.record().is_some();
    core.names.naming.flush_ended();
    if core.commits.flush_ended(through, has_record) {
        core.names.durable(through);
    }
    let discards = core.life.options().discard || layout.backend.is_flash();
    if let Some(confirmed) = core.checkpoints.flush_ended(through, discards) {
        core.commits.checkpointed(confirmed.seq, confirmed.changes, has_record);
        core.names.durable(confirmed.seq - 1);
        end_checkpoint(core);
    }
}
