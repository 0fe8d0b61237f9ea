//! Appending: batches at the heads of the log, sent to the drive.

use crate::batch::Batch;
use crate::objects::Core;
use crate::space::Stream;
use crate::stop::Stop;

/// Opens a batch at the head of a stream.
pub(crate) fn new_batch(core: &mut Core, stream: Stream) -> Result<Batch, Stop> {
    let now_s = core.turn.now_s();
    let Some((address, limit)) = core.space.place(stream, now_s) else {
        // Accepted data always have space; if not, no more changes are accepted.
        core.degrade();
        return Err(Stop::Room);
    };
    Ok(Batch::new(core.log.begin_batch(), address, limit))
}

/// Books the batch's blocks at the head.
pub(crate) fn close_batch(core: &mut Core, batch: Batch, closed: &mut Vec<Batch>) {
    let blocks = core.space.layout().padded(batch.blocks());
    core.space.took(batch.address, blocks);
    core.space.queue(batch.address, blocks.into(), true);
    core.log.batch_closed(batch.seq);
    closed.push(batch);
}

/// Sends batches to the drive; the last one ends a commit.
pub(crate) fn send_batches(core: &mut Core, mut batches: Vec<Batch>) {
    if let Some(first) = batches.first_mut() {
        first.begin_commit();
    }
    if let Some(last) = batches.last_mut() {
        last.end_commit();
    }
    for batch in batches {
        let (seq, address) = (batch.seq, batch.address);
        let padded = core.space.layout().padded(batch.blocks());
        let blocks = batch.seal(core.log.identity(), core.commits.flushed_through(), padded);
        core.writes.send(seq, address, blocks);
    }
}
