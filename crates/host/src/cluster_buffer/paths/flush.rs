//! Flushes from above, and stops, of a buffer without a journal.

use crate::cluster_buffer::core::Core;
use crate::cluster_buffer::port::Purpose;
use crate::cluster_buffer::table::State;
use pellucid_flash::Status;
use pellucid_flash::slab::NIL;

pub(in crate::cluster_buffer) fn start(core: &mut Core, op: u32) {
    if !core.setup.is_paper() {
        return join(core, op);
    }
    if core.table.failed() > 0 {
        core.table.retry_all();
        return core.finish(op, Status::WriteFault);
    }
    core.send_flush(op, Purpose::Flush);
}

/// Makes a request wait, as a flush does, for all earlier writes.
pub(super) fn join(core: &mut Core, op: u32) {
    core.table.retry_all();
    core.requests.wait_for_flush(op, core.clock.last());
}

/// Ends the first flushes if their writes have left the buffer.
#[inline]
pub(in crate::cluster_buffer) fn go_on(core: &mut Core) {
    while let Some(barrier) = core.requests.first_barrier() {
        let (mut refused, mut waits) = (false, false);
        for (_, cluster) in core.table.used().filter(|(_, cluster)| cluster.oldest <= barrier) {
            let failed = cluster.state == State::Failed;
            (refused, waits) = (refused | failed, waits | !failed);
        }
        if waits {
            return;
        }
        let op = core.requests.next_flush().expect("a flush waits");
        if refused {
            core.finish(op, Status::WriteFault);
        } else {
            core.send_flush(op, Purpose::Flush);
        }
    }
}

/// Flushes the drive for a stop, once everything has left the buffer.
#[inline]
pub(in crate::cluster_buffer) fn stop_goes_on(core: &mut Core) {
    if core.ends.is_draining() && core.journal.is_none() && core.is_empty() {
        core.ends.flush();
        core.send_flush(NIL, Purpose::Stop);
    }
}
