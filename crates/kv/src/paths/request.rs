//! Requests: executed at once or queued, in order for each key.

use super::{evict, get, items, store, write};
use crate::flash::Purpose;
use crate::item::{self, Head};
use crate::objects::Core;
use crate::requests::{Flow, Found, Request};
use crate::{Ask, Outcome, What};

/// Accepts a request.
pub(crate) fn take(core: &mut Core, mut ask: Ask) {
    if core.clock.pass(ask.time_s) {
        get::drop_all(core);
    }
    if core.health.rests() && core.health.tries(core.clock.now()) {
        core.flash.try_again();
    }
    let hash = item::hash(core.config.seed, ask.key.as_bytes());
    if matches!(ask.what, What::FlushAll { .. }) {
        if core.requests.waiting() > 0 {
            // A flush of all items waits until all earlier requests are done.
            let request = core.requests.add(ask, hash);
            return core.requests.wait(request, false);
        }
    } else if core.requests.is_locked(hash) {
        let request = core.requests.add(ask, hash);
        return core.requests.queue(hash, request);
    }
    match attempt(core, &mut ask, hash, None) {
        Flow::Done(outcome) => core.answer(ask.tag, outcome),
        flow => {
            let locks = !matches!(ask.what, What::Get(_));
            let request = core.requests.add(ask, hash);
            if locks {
                core.requests.lock(hash);
            }
            suspend(core, request, flow, false);
        }
    }
    go_on(core);
}

/// Executes a request as far as possible. `found`: the item read for it.
fn attempt(core: &mut Core, ask: &mut Ask, hash: u64, found: Option<Found>) -> Flow {
    match &mut ask.what {
        What::Get(get) => get::get(core, *get, &ask.key, hash),
        What::Touch { expires_s } => Flow::Done(get::touch(core, hash, *expires_s)),
        What::Delete { cas, invalidate, emptied } => {
            get::delete(core, &ask.key, hash, *cas, *invalidate, *emptied)
        }
        What::Arithmetic { .. } => store::arithmetic(core, ask, hash, found),
        What::FlushAll { at_s } => Flow::Done(get::flush_all(core, *at_s)),
        What::Store(store) => {
            let flow = store::store(core, &ask.key, store, hash, found);
            if matches!(flow, Flow::Done(_)) {
                let value = std::mem::take(&mut store.value);
                core.answers.give_back(value);
            }
            flow
        }
    }
}

/// Suspends a request until a buffer is free or its read ends. `first`: before others that wait.
fn suspend(core: &mut Core, request: u32, flow: Flow, first: bool) {
    match flow {
        Flow::Done(_) => unreachable!("it has been answered"),
        Flow::Wait if first => core.requests.wait(request, true),
        Flow::Wait => {
            core.counters.count(|counts| &mut counts.waits);
            core.requests.wait(request, false);
        }
        Flow::Read { place, cas, bytes, item } => {
            core.requests.read_begins(request, place, cas, item);
            items::read_item(core, place, bytes, Purpose::Request(request));
        }
    }
}

/// Resumes a suspended request. `false`: it still waits for a buffer.
fn resume(core: &mut Core, request: u32, found: Option<Found>, first: bool) -> bool {
    let Request { hash, place, cas, .. } = *core.requests.get(request);
    let mut ask = core.requests.take_ask(request);
    let mut kept = core.requests.take_slot(request);
    let before = (!kept.is_empty()).then_some(Found { place, cas, slot: &kept });
    let flow = attempt(core, &mut ask, hash, found.or(before));
    if let Flow::Done(outcome) = flow {
        let locked = !matches!(ask.what, What::Get(_) | What::FlushAll { .. });
        core.answer(ask.tag, outcome);
        core.requests.remove(request);
        if locked {
            unlock(core, hash);
        }
        return true;
    }
    let waits = matches!(flow, Flow::Wait);
    if let (true, Some(found)) = (waits, found) {
        kept.clear();
        kept.extend_from_slice(found.slot);
    }
    core.requests.give_ask(request, ask);
    if waits {
        core.requests.keep_slot(request, kept);
    }
    suspend(core, request, flow, first);
    !waits
}

/// Releases the lock of an ended request: later requests to the key continue, up to the next one that takes
/// several steps.
fn unlock(core: &mut Core, hash: u64) {
    while let Some(request) = core.requests.next_locked(hash) {
        let mut ask = core.requests.take_ask(request);
        match attempt(core, &mut ask, hash, None) {
            Flow::Done(outcome) => {
                core.answer(ask.tag, outcome);
                core.requests.remove(request);
            }
            flow => {
                let holds = !matches!(ask.what, What::Get(_));
                core.requests.give_ask(request, ask);
                suspend(core, request, flow, false);
                if holds {
                    return;
                }
            }
        }
    }
}

/// Does everything possible now: writes, evictions, waiting requests. Called at the end of every event.
#[inline]
pub(crate) fn go_on(core: &mut Core) {
    if core.slabs.waiting() == 0 && core.requests.waiting() == 0 && core.evictions.count() == 0 {
        return;
    }
    go_on_slowly(core);
}

fn go_on_slowly(core: &mut Core) {
    loop {
        write::start_writes(core);
        evict::make_room(core);
        if core.slabs.waiting() > 0 && core.flash.engine().is_ready() {
            // A victim without reads or items to keep leaves at once; no later event would report its place.
            continue;
        }
        let before = (core.requests.waiting(), core.slabs.waiting());
        if before.0 > 0 {
            run_waiting(core);
        }
        // A request may have filled a slab, or closed one so that a buffer becomes free.
        if before == (core.requests.waiting(), core.slabs.waiting()) {
            return;
        }
    }
}

/// Resumes requests that wait for buffers.
fn run_waiting(core: &mut Core) {
    while let Some(request) = core.requests.next_waiting() {
        if !resume(core, request, None, true) {
            return;
        }
    }
}

/// Handles the item read for a request; `None`: the read failed.
pub(crate) fn request_read(core: &mut Core, request: u32, slot: Option<&[u8]>) {
    let Request { place, cas, hash, .. } = *core.requests.get(request);
    let whole = !matches!(core.requests.get(request).ask.what, What::Get(get) if get.without_value);
    let good = slot.and_then(|slot| {
        let head = Head::decode(slot).filter(|head| head.cas as u32 == cas)?;
        (!whole || head.checked_value(slot).is_some()).then_some((slot, head))
    });
    let Some((slot, head)) = good else {
        items::damaged(core, hash, place, cas);
        if let What::Get(_) = core.requests.get(request).ask.what {
            core.counters.count(|counts| &mut counts.misses_damaged);
            end_get(core, request, Outcome::Miss);
        } else {
            resume(core, request, None, false);
        }
        return;
    };
    match core.requests.get(request).ask.what {
        What::Get(get) => {
            if head.key(slot) != core.requests.get(request).ask.key.as_bytes() {
                core.counters.count(|counts| &mut counts.misses_collided);
                return end_get(core, request, Outcome::Miss);
            }
            let mut item = core.requests.take_item(request);
            get::fill_item(core, &mut item, &head, slot, !get.without_value);
            get::hit(core, place.slab, false);
            end_get(core, request, Outcome::Item(item));
        }
        _ => {
            resume(core, request, Some(Found { place, cas, slot }), false);
        }
    }
}

/// Ends a get that read flash.
fn end_get(core: &mut Core, request: u32, outcome: Outcome) {
    core.counters.add(|counts| &mut counts.gets, u64::from(outcome == Outcome::Miss));
    core.answer(core.requests.get(request).ask.tag, outcome);
    core.requests.remove(request);
}
