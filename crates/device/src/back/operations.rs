//! Flash operations of every origin: their path into the queue of their die, and what the media say of their beginning and end.

use crate::probes;
use crate::shared::Shared;
use pellucid_flash::{BlockId, Cause, Nanos, Ppa, Stage};
use pellucid_media::{Health, Media, Outcome};

/// Repeats a read at the page's current address.
pub(crate) fn retry(shared: &mut Shared, op: u32, ppa: Ppa) {
    let record = &mut shared.scheduler.ops[op];
    let namespace = record.owner.namespace;
    record.book(Stage::Media, shared.now);
    record.attempts += 1;
    let moved = record.ppa != ppa;
    if moved {
        record.ppa = ppa;
        record.die = shared.layout.die_of(ppa).0;
    }
    shared.counts(namespace).read_retries += 1;
    if !moved {
        return shared.scheduler.enqueue_again(shared.now, op, &mut shared.events);
    }
    // It moved: in line behind the program that takes it there.
    shared.ask_issue(op);
}

/// The data of a read are in the controller, and the firmware knows.
#[inline]
pub(crate) fn data_arrives(shared: &mut Shared, op: u32) {
    shared.media.set_now(shared.now);
    let record = &mut shared.scheduler.ops[op];
    record.book(Stage::Firmware, shared.now);
    let (cause, first, namespace) = (record.cause, record.attempts == 0, record.owner.namespace);
    let counters = shared.counts(namespace);
    counters.reads[cause as usize] += u64::from(first);
    counters.media_operations += 1;
}

/// The array starts on a read. For how long.
#[inline]
pub(crate) fn begin_read(shared: &mut Shared, op: u32) -> Nanos {
    let record = &shared.scheduler.ops[op];
    let extra = if record.attempts > 0 { shared.config.scheduler.retry_ns } else { Nanos::ZERO };
    shared.media.read_ns(record.ppa) + extra
}

/// The array starts on the erase of the block that begins at `first`. For how long.
pub(crate) fn begin_erase(shared: &mut Shared, first: Ppa) -> Nanos {
    let block = shared.layout.block_of(first);
    shared.media.erase_begin(block).unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
    shared.media.erase_ns(block)
}

/// The array has erased a block of a namespace; whether well.
pub(crate) fn end_erase(shared: &mut Shared, namespace: u16, block: BlockId, cause: Cause) -> bool {
    let was_good = shared.media.array().health(block) == Health::Good;
    let ok = shared.media.erase_end(block) == Outcome::Ok;
    shared.counts(namespace).media_operations += 1;
    shared.counts(namespace).erases[cause as usize] += u64::from(ok);
    shared.counts(namespace).erase_failures += u64::from(!ok);
    match ok {
        true => probes::observe_erase(shared, block),
        false if was_good => probes::observe_bad(shared, block),
        false => {}
    }
    ok
}

/// Retires a block from use. Its contents stay readable.
pub(crate) fn retire_block(shared: &mut Shared, block: BlockId) {
    if shared.media.array().health(block) == Health::Good {
        probes::observe_bad(shared, block);
    }
    shared.media.retire(block);
}

/// The array has programmed a superpage that is full of data of one cause, for a namespace without a page map; whether well.
pub(crate) fn end_full_superpage(shared: &mut Shared, namespace: u16, first: Ppa, cause: Cause) -> bool {
    let ok = shared.media.program_end(first) == Outcome::Ok;
    let sectors = shared.layout.units_per_superpage * shared.layout.sectors_per_unit;
    shared.counts(namespace).media_operations += 1;
    shared.counts(namespace).programs[cause as usize] += 1;
    shared.counts(namespace).programmed_sectors[cause as usize] += u64::from(sectors);
    shared.counts(namespace).program_failures += u64::from(!ok);
    ok
}

/// Its die is free and its number may be used again; until then the record can be read.
#[inline]
pub(crate) fn let_go(shared: &mut Shared, op: u32) {
    shared.scheduler.release(shared.now, op, &mut shared.events);
    probes::observe_operation(shared, op);
    shared.scheduler.ops.release(op);
}

/// Counts what error correction did for a read of a namespace that succeeded after `attempts` failures.
#[inline]
pub(crate) fn corrected(shared: &mut Shared, namespace: u16, bits: u32, attempts: u32) {
    if bits == 0 && attempts == 0 {
        return;
    }
    let counters = shared.counts(namespace);
    counters.corrected_bits += u64::from(bits);
    counters.corrected_reads += u64::from(attempts > 0);
}

/// Returns whether a read that failed `attempts` times is tried again.
#[inline]
pub(crate) fn tries_again(shared: &Shared, ppa: Ppa, attempts: u32) -> bool {
    attempts < shared.config.scheduler.read_retries && !shared.media.is_lost(ppa)
}

/// Erases blocks during a mount, which takes no simulated time.
pub(crate) fn erase_now(media: &mut Media, block: BlockId) -> bool {
    media.erase_begin(block).unwrap_or_else(|e| panic!("our own translation broke a rule: {e}"));
    media.erase_end(block) == Outcome::Ok
}
