//! Reads of translation pages, for maps stored in flash.
//!
//! ```text
//!  entry needs its address ─► cached? ─── yes ─────────────────────────────────────────────► fill, or pack
//!                               │ no: it waits ─► MapJob::Read ─► flash read ─► looked up again ─┘
//!  translation page to be merged ─────────────────────┘                └─► MapJob::Program
//! ```
//! All that wait for one page share its read. Invariant: an entry waits at most once.

use super::core::Core;
use super::{flush, read, write};
use crate::back::operations;
use crate::back::scheduler::FlashOp;
use crate::probes;
use crate::shared::Shared;
use pellucid_flash::{Cause, Lpn, Stage};
use pellucid_ftl::{Located, MapPage, Operation};
use pellucid_media::ReadResult;

/// Next step of an entry when its address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It is filled, for this cause and this command.
    Fill(Cause, u32),
    /// It goes to the media.
    Leave,
}

/// An entry that waits for a translation page.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    page: MapPage,
    entry: u32,
    then: Then,
}

/// Entries that wait for translation pages, in order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapReads {
    waiting: Vec<Waiting>,
    /// Entries whose translation page has come.
    known: Vec<Waiting>,
}

/// Makes an entry wait for the translation page with its address; the entry resumes automatically.
pub(super) fn await_map(core: &mut Core, shared: &mut Shared, entry: u32, page: MapPage, then: Then) {
    let record = &mut core.buffer[entry];
    record.await_address(true);
    let now = shared.now;
    for list in [record.waiters().for_fill(), record.waiters().for_program()] {
        list.for_each(&mut shared.slices, |slice| slice.book(Stage::Buffer, now));
    }
    // It will join a superpage.
    if then == Then::Leave {
        core.queue.begin_fill();
    }
    core.map_reads.waiting.push(Waiting { page, entry, then });
}

/// Handles the arrival of a translation page in the controller: repeats the lookups that wait for
/// it, which then continue.
pub(super) fn map_page_arrived(core: &mut Core, shared: &mut Shared, op: u32, page: MapPage) {
    let FlashOp { ppa, attempts, .. } = shared.scheduler.ops[op];
    // One that was written anew meanwhile was in the controller for that.
    let lpn = Lpn(core.side.user_units() + page.0);
    let current = core.side.translation.peek(lpn) == Located::At(ppa);
    let readable = match shared.media.read(ppa, 0, &mut [], attempts) {
        ReadResult::Ok { corrected_bits, .. } => {
            operations::corrected(shared, core.side.number(), corrected_bits, attempts);
            true
        }
        _ if current && operations::tries_again(shared, ppa, attempts) => {
            return operations::retry(shared, op, ppa);
        }
        _ => !current,
    };
    shared.counts(core.side.number()).uncorrectable_reads += u64::from(!readable);
    probes::observe_operation(shared, op);
    if probes::is_observed(shared) {
        tell_served(core, shared, op, page);
    }
    let stages = shared.scheduler.ops[op].stages;
    shared.scheduler.ops.release(op);
    core.side.translation.ended(Operation::Read(page), readable);
    let mut known = std::mem::take(&mut core.map_reads.known);
    for waiting in core.map_reads.waiting.extract_if(.., |waiting| waiting.page == page) {
        let located = core.side.translation.lookup(core.buffer[waiting.entry].lpn());
        debug_assert!(!matches!(located, Located::NeedsMap(_)), "its page was read");
        known.push(waiting);
    }
    for Waiting { entry, then, .. } in known.drain(..) {
        let record = &mut core.buffer[entry];
        record.await_address(false);
        let now = shared.now;
        for list in [record.waiters().for_fill(), record.waiters().for_program()] {
            list.for_each(&mut shared.slices, |slice| slice.add_stages(&stages, now));
        }
        if then == Then::Leave {
            core.queue.end_fill();
        }
        match then {
            Then::Fill(cause, work) => {
                // Entries that went on before may have moved or trimmed it.
                let located = core.side.translation.peek(core.buffer[entry].lpn());
                read::fill_from(core, shared, entry, located, cause, work);
            }
            Then::Leave => leave(core, shared, entry),
        }
    }
    core.map_reads.known = known;
    flush::continue_flush(core, shared);
}

/// Reports the commands that waited for a translation page to observers of the drive.
#[cold]
fn tell_served(core: &Core, shared: &mut Shared, op: u32, page: MapPage) {
    for waiting in core.map_reads.waiting.iter().filter(|waiting| waiting.page == page) {
        let record = &core.buffer[waiting.entry];
        probes::observe_served(shared, op, record.waiters().for_fill(), None);
        let leaves = waiting.then == Then::Leave;
        probes::observe_served(
            shared,
            op,
            record.waiters().for_program(),
            leaves.then(|| core.side.stored_at(record.lpn())),
        );
    }
}

/// An entry whose address is known goes to the media, if it still has to.
fn leave(core: &mut Core, shared: &mut Shared, entry: u32) {
    let record = &core.buffer[entry];
    let leaves =
        record.sectors().dirty() != 0 && record.is_wanted() && record.sectors().valid() == shared.full;
    match leaves && !record.is_occupied() {
        true => write::pack_known(core, shared, entry),
        false => write::settle(core, shared, entry),
    }
}
