//! Layers in service: how a cache is taken out of use, and a cluster buffer paused.

use super::Core;
use crate::drive::Layers;
use crate::event::Event;
use pellucid_target::connection::ConnectionId;

/// Begins to write everything back from a cache, as requested on the control socket; `give_up_lost`: but what the flash cannot read.
/// [`detach_outcome`] returns the result.
///
/// # Errors
/// Fails if the drive is not a cache.
pub(super) fn detach(
    core: &mut Core,
    by: ConnectionId,
    drive: usize,
    give_up_lost: bool,
) -> Result<(), String> {
    core.submit_waiting();
    if !core.drive_mut(drive).layers_mut().begin_detach(give_up_lost) {
        let name = core.register.name(drive);
        return Err(format!("{name}: it is no cache; allowed: a drive that pellucid cache serves"));
    }
    core.detaching.add(by, drive);
    Ok(())
}

/// Outcome of the detach that a connection waits for, returned once; `None` while it is pending.
fn detach_outcome(core: &mut Core, by: ConnectionId) -> Option<Result<(), String>> {
    let backends = core.desk.engine.backends();
    let detached = |drive: usize| backends[drive].cache().and_then(|cache| cache.detached());
    let (drive, outcome) = core.detaching.end(by, detached)?;
    if outcome.is_ok() {
        core.log(Event::CacheDetached { drive: core.register.name(drive).to_owned() });
    }
    Some(outcome)
}

/// Has the cluster buffer of a drive write what it holds, and pass later writes by, as requested on the
/// control socket. [`pause_outcome`] returns the result.
///
/// # Errors
/// Fails if the drive has no cluster buffer.
pub(super) fn pause(core: &mut Core, by: ConnectionId, drive: usize) -> Result<(), String> {
    change_buffer(core, drive, |layers| layers.pause())?;
    core.pausing.add(by, drive);
    Ok(())
}

/// Has the cluster buffer of a drive take writes again.
///
/// # Errors
/// Fails if the drive has no cluster buffer.
pub(super) fn resume(core: &mut Core, drive: usize) -> Result<(), String> {
    change_buffer(core, drive, |layers| layers.resume())?;
    core.log(Event::FireResumed { drive: core.register.name(drive).to_owned() });
    Ok(())
}

fn change_buffer(core: &mut Core, drive: usize, change: fn(Layers<'_>) -> bool) -> Result<(), String> {
    core.submit_waiting();
    if change(core.drive_mut(drive).layers_mut()) {
        return Ok(());
    }
    Err(format!(
        "{}: it has no cluster buffer; allowed: a drive that pellucid fire serves, or with host.layers = [\"cluster-buffer\"]",
        core.register.name(drive)
    ))
}

/// Outcome of the pause that a connection waits for, returned once; `None` while it is pending.
fn pause_outcome(core: &mut Core, by: ConnectionId) -> Option<Result<(), String>> {
    let backends = core.desk.engine.backends();
    let paused = |drive: usize| backends[drive].cluster_buffer().and_then(|buffer| buffer.paused());
    let (drive, outcome) = core.pausing.end(by, paused)?;
    if outcome.is_ok() {
        core.log(Event::FirePaused { drive: core.register.name(drive).to_owned() });
    }
    Some(outcome)
}

/// Outcome that a connection waits for, returned once; `None` while it is pending.
pub(super) fn outcome(core: &mut Core, by: ConnectionId) -> Option<Result<(), String>> {
    detach_outcome(core, by).or_else(|| pause_outcome(core, by))
}

/// Forgets what a connection that is gone waited for.
pub(super) fn forget(core: &mut Core, connection: ConnectionId) {
    core.detaching.forget(connection);
    core.pausing.forget(connection);
}
