//! Writing records of the state, and the commits that follow.

use super::calls::{self, Wait};
use super::commands::What;
use super::config::MonitorError;
use super::records::Commit;
use super::ring::Want;
use super::{Monitor, level, route};
use pellucid_flash::{ChunkOp, Command, Completion, Drive, Opcode, Status, Vector};

/// Notes a change of the state, with a commit that follows when the change is on the media, or at once if it never will be.
pub(super) fn changed_then<D: Drive>(monitor: &mut Monitor<D>, commit: Commit) {
    monitor.records.changed_then(commit);
    if monitor.records.is_dead() {
        commit_due(monitor);
    }
}

/// Executes commits whose records are safe, or never will be.
fn commit_due<D: Drive>(monitor: &mut Monitor<D>) {
    while let Some(commit) = monitor.records.next_due() {
        match commit {
            Commit::Place { app, block, chunk } if !monitor.records.is_dead() => {
                if let Some(namespace) = monitor.namespaces.get_mut(app) {
                    namespace.place(block, chunk);
                }
            }
            Commit::Place { .. } => {}
            Commit::Answer(op) => {
                let mut ended = monitor.commands.take_kept(op);
                if monitor.records.is_dead() {
                    ended.status = Status::ChunkOffline;
                }
                route::finish(monitor, op, ended);
            }
            Commit::Moved => level::moved(monitor),
        }
    }
}

/// Waits until the state is on the media.
pub(super) fn save_by<D: Drive>(
    monitor: &mut Monitor<D>,
    wait: &mut impl Wait<D>,
) -> Result<(), MonitorError> {
    let number = monitor.records.changed();
    route::pump(monitor);
    calls::run(monitor, wait, |monitor| monitor.records.is_safe(number) || monitor.records.is_dead())?;
    match monitor.records.is_safe(number) {
        true => Ok(()),
        false => Err(MonitorError::NoState),
    }
}

/// Counts the erase of a block in a LUN.
pub(super) fn count_erase<D: Drive>(monitor: &mut Monitor<D>, lun: u32) {
    monitor.state.count_erase(lun);
    monitor.records.count_erase(monitor.state.shown());
}

/// Starts a record, if one is due.
pub(super) fn save<D: Drive>(monitor: &mut Monitor<D>) {
    let Some(number) = monitor.records.wanted() else { return };
    let wants = monitor.records.begin(monitor.state.encode(&monitor.geometry, number));
    for (ring, want) in wants.into_iter().enumerate() {
        carry_out(monitor, ring, want);
    }
}

/// Does what a ring needs.
fn carry_out<D: Drive>(monitor: &mut Monitor<D>, ring: usize, want: Want) {
    match want {
        Want::Written | Want::Dead => {
            monitor.records.ring_done(want == Want::Written);
            commit_due(monitor);
        }
        Want::Reset(chunk) => {
            let command = calls::own(monitor, Opcode::Chunk(ChunkOp::Reset), chunk, 0, 0, Vec::new());
            calls::send(monitor, What::Record { ring, pages: 0 }, command);
        }
        Want::Write { chunk, page, from } => {
            let (pages, command) = record_write(monitor, chunk, page, from);
            calls::send(monitor, What::Record { ring, pages }, command);
        }
    }
}

/// A write of pages of the record, starting at `from`, to page `page` of a chunk; and their number.
fn record_write<D: Drive>(monitor: &mut Monitor<D>, chunk: u32, page: u32, from: u32) -> (u32, Command) {
    let sectors = monitor.geometry.write_min_sectors;
    let (pages, mut data) = monitor.records.pages(from);
    if monitor.keeps_stamps() {
        monitor.records.keep_pages(chunk, page, &data);
        data = vec![0; (pages * sectors) as usize * monitor.drive.image_bytes()];
    }
    let mut command = calls::own(monitor, Opcode::Write, chunk, page * sectors, pages * sectors, data);
    let metadata = b"flash monitor   ".repeat((pages * sectors) as usize);
    command.vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
    (pages, command)
}

/// Handles the end of a command of a ring.
pub(super) fn ended<D: Drive>(monitor: &mut Monitor<D>, ring: usize, pages: u32, completion: &Completion) {
    let ok = completion.status == Status::Success;
    let want = match completion.opcode {
        Opcode::Chunk(ChunkOp::Reset) => monitor.records.reset_ended(ring, ok),
        _ => monitor.records.write_ended(ring, pages, ok),
    };
    carry_out(monitor, ring, want);
}
