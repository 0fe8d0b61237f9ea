//! Background work, one step at a time.

use super::{booking, checkpoint, clean, commit, drive, fetch, freeing, moves, naming};
use crate::objects::Core;
use crate::stop::Stop;

/// One step of background work.
type Step = fn(&mut Core) -> Result<(), Stop>;

/// All steps, in order. The last two write.
const STEPS: [Step; 6] = [
    naming::settle_names,
    moves::take_moves,
    reap_some,
    clean::clean,
    commit::commit_if_due,
    checkpoint::checkpoint_if_due,
];

/// Runs the background, or the unmount.
pub(crate) fn work(core: &mut Core) {
    if !core.life.writes() {
        return;
    }
    // A write may need a flash block that is being allocated.
    let steps = if drive::wants_segment(core) { STEPS.len() - 2 } else { STEPS.len() };
    for step in STEPS.into_iter().take(steps) {
        let result = step(core);
        booking::book(core);
        match result {
            Ok(()) | Err(Stop::Data | Stop::Room) => {}
            // The next operation that needs the node gets the error.
            Err(Stop::Miss(miss)) => {
                if fetch::want_node(core, miss).is_err() {
                    core.degrade();
                }
            }
            Err(Stop::Errno(_)) => core.degrade(),
        }
    }
    unmount_on(core);
}

/// Reports whether there is unrequested work to do now.
pub(crate) fn has_work(core: &Core) -> bool {
    core.orphans.next().is_some()
        || !core.cleaner.is_at_rest()
        || !core.checkpoints.is_idle()
        || naming::wants_poll(core)
}

fn reap_some(core: &mut Core) -> Result<(), Stop> {
    for _ in 0..4 {
        if core.life.is_unmounting() || !freeing::reap(core)? {
            break;
        }
    }
    Ok(())
}

fn unmount_on(core: &mut Core) {
    let busy = !core.checkpoints.is_idle()
        || !core.writes.is_idle()
        || core.commits.has_record_due()
        || !core.names.is_idle();
    if !core.life.is_unmounting() || busy {
        return;
    }
    let dirty = core.pages.dirty() + core.catalog.dirty() + core.catalog.changed();
    if dirty == 0 && core.cleaner.is_at_rest() {
        core.life.unmounted();
    } else {
        core.want_checkpoint();
    }
}
