//! A call: the work before and after each operation.

use super::{booking, fetch};
use crate::objects::Core;
use crate::stop::Stop;
use crate::types::{Errno, Step, Time};

/// Runs an operation. If blocks that it needs are not in memory, it changes nothing and requests
/// them.
pub(crate) fn run<T>(
    core: &mut Core,
    now: Time,
    operation: impl FnOnce(&mut Core) -> Result<T, Stop>,
) -> Result<Step<T>, Errno> {
    core.turn.at(now);
    trim(core);
    let result = operation(core);
    booking::book(core);
    let result = if core.life.is_mounting() { Err(Stop::Room) } else { result };
    match result {
        Ok(value) => {
            core.turn.was_done();
            Ok(Step::Done(value))
        }
        Err(Stop::Errno(errno)) => {
            core.turn.was_done();
            Err(errno)
        }
        Err(Stop::Miss(miss)) => fetch::want_node(core, miss).map(|()| Step::Wait),
        Err(Stop::Data | Stop::Room) => Ok(Step::Wait),
    }
}

/// Evicts data that exceed the memory limit, but only after an operation is done: data that it waits for stay until
/// then.
pub(crate) fn trim(core: &mut Core) {
    let most = core.life.frames();
    if !core.turn.take_done() {
        return;
    }
    if core.catalog.resident() + core.pages.resident() <= most {
        return;
    }
    let unwritten = core.log.written_through() + 1;
    let nodes = (most / 2).max(most.saturating_sub(core.pages.resident()));
    core.catalog.trim(nodes, unwritten);
    core.pages.trim(most.saturating_sub(core.catalog.resident()), unwritten);
}
