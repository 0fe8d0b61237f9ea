//! The path of a command from an application's addresses to the drive's, and of its completion back.

use super::calls::{own, send};
use super::commands::What;
use super::records::Commit;
use super::{Monitor, level, save, spares};
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Lba, Opcode, SimTime,
    StageTimes, Status,
};

/// Processes completions until everything is done at this moment, and starts due work.
pub(super) fn pump<D: Drive>(monitor: &mut Monitor<D>) {
    loop {
        let mut moved = false;
        while let Some(completion) = monitor.drive.pop() {
            ended(monitor, completion);
            moved = true;
        }
        level::level(monitor);
        save::save(monitor);
        if !moved {
            return;
        }
    }
}

// ---- down

/// Sends an application's command to the drive, holds it, or refuses it.
pub(super) fn route<D: Drive>(monitor: &mut Monitor<D>, submitted: SimTime, mut command: Command) {
    let app = command.namespace;
    let Some(namespace) = monitor.namespaces.get_mut(app) else {
        return monitor.commands.put_up(command.refused(submitted, Status::InvalidField));
    };
    if monitor.leveller.holds(app, namespace.view(), &command) {
        return monitor.leveller.hold(submitted, command);
    }
    if command.opcode == Opcode::Report {
        return report(monitor, submitted, command);
    }
    if let Err((status, addresses)) = namespace.view().to_drive(&mut command) {
        if status == Status::LbaOutOfRange {
            namespace.count_refused(addresses.count_ones().max(1));
        }
        let refused = command.refused(submitted, status);
        return monitor.commands.put_up(Completion { result: addresses, ..refused });
    }
    let geometry = &monitor.geometry;
    let chunk = geometry.address(command.lba).map_or(0, |at| geometry.chunk_number(at));
    let epoch = monitor.namespaces.begin(app);
    let op = monitor.commands.begin(app, &command, submitted, epoch);
    monitor.commands.set_chunk(op, chunk);
    let command = Command { tag: op.into(), namespace: monitor.namespace, ..command };
    monitor.drive.submit(monitor.now, command);
}

/// Starts a report, which is assembled from one report per LUN.
fn report<D: Drive>(monitor: &mut Monitor<D>, submitted: SimTime, mut command: Command) {
    let app = command.namespace;
    let namespace = monitor.namespaces.get_mut(app).expect("it is open");
    let view = namespace.view();
    let own = view.geometry();
    let first = own.address(command.lba).map(|address| own.chunk_number(address));
    let inside = |first: &u32| u64::from(*first) + u64::from(command.sectors) <= view.chunks().into();
    let Some(first) = first.filter(inside) else {
        namespace.count_refused(1);
        return monitor.commands.put_up(command.refused(submitted, Status::LbaOutOfRange));
    };
    if command.sectors == 0 || command.vector.is_some() {
        return monitor.commands.put_up(command.refused(submitted, Status::InvalidField));
    }
    command.data.clear();
    command.data.resize(command.sectors as usize * ChunkInfo::BYTES, 0);
    let epoch = monitor.namespaces.begin(app);
    let op = monitor.commands.begin(app, &command, submitted, epoch);
    monitor.commands.set_report(op, first, command.refused(submitted, Status::Success));
    ask_parts(monitor, op);
}

/// Requests reports from each LUN with blocks of the report.
fn ask_parts<D: Drive>(monitor: &mut Monitor<D>, report: u32) {
    let op = monitor.commands.get(report);
    let view = monitor.namespaces.get(op.app()).expect("it has a command").view();
    // LUN, first and last chunk.
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for block in op.first()..op.first() + op.sectors() {
        let chunk = view.chunk_on_drive(block).expect("each block is a chunk");
        let lun = chunk / monitor.geometry.chunks;
        match runs.iter_mut().rev().find(|run| run.0 == lun) {
            Some(run) => (run.1, run.2) = (run.1.min(chunk), run.2.max(chunk)),
            None => runs.push((lun, chunk, chunk)),
        }
    }
    monitor.commands.ask(report, runs.len() as u32);
    for (_, from, to) in runs {
        let part = own(monitor, Opcode::Report, from, 0, to - from + 1, Vec::new());
        send(monitor, What::Part(report), part);
    }
}

// ---- up

fn ended<D: Drive>(monitor: &mut Monitor<D>, completion: Completion) {
    let op = completion.tag as u32;
    let (what, sectors) = monitor.commands.take(op);
    match what {
        What::Command => command_ended(monitor, op, completion),
        What::Part(report) => part_ended(monitor, report, sectors, &completion),
        What::Look { op, at } => looked(monitor, op, at, &completion),
        What::Call(at) => monitor.calls.answer(at, completion),
        What::Record { ring, pages } => save::ended(monitor, ring, pages, &completion),
        What::Level(of) => level::ended(monitor, of, completion),
        What::Nothing => {}
    }
}

fn command_ended<D: Drive>(monitor: &mut Monitor<D>, op: u32, completion: Completion) {
    if completion.opcode == Opcode::Chunk(ChunkOp::Reset) {
        return reset_ended(monitor, op, completion);
    }
    let command = monitor.commands.get(op);
    if let (Some(namespace), Status::Success | Status::HighEcc) =
        (monitor.namespaces.get_mut(command.app()), completion.status)
    {
        namespace.count_done(completion.opcode, command.sectors());
    }
    finish(monitor, op, completion);
}

/// Passes the completion up.
pub(super) fn finish<D: Drive>(monitor: &mut Monitor<D>, op: u32, mut completion: Completion) {
    // A report already has the application's addresses.
    if completion.opcode != Opcode::Report
        && let Some(namespace) = monitor.namespaces.get(monitor.commands.get(op).app())
    {
        namespace.view().give_back(&mut completion);
    }
    let (app, epoch) = monitor.commands.end(op, monitor.now, completion);
    monitor.namespaces.end(app, epoch);
}

/// Handles the drive's report on `chunks` chunks.
fn part_ended<D: Drive>(monitor: &mut Monitor<D>, report: u32, chunks: u32, part: &Completion) {
    let op = monitor.commands.get(report);
    let (app, first, count) = (op.app(), op.first(), op.sectors());
    let is_last = monitor.commands.answered(report);
    let whole = monitor.commands.kept_mut(report);
    whole.completed = part.completed;
    match (monitor.namespaces.get(app), part.status) {
        (_, Status::Success) if part.data.len() != chunks as usize * ChunkInfo::BYTES => {
            whole.status = Status::InvalidField;
        }
        (Some(namespace), Status::Success) => {
            let (view, own) = (namespace.view(), namespace.view().geometry());
            for info in part.data.as_chunks().0.iter().filter_map(ChunkInfo::decode) {
                let Some(address) = monitor.geometry.address(info.start) else { continue };
                let chunk = monitor.geometry.chunk_number(address);
                let Some(block) = view.chunk_in_view(chunk) else { continue };
                let asked = (first..first + count).contains(&block);
                if !asked || view.chunk_on_drive(block) != Some(chunk) {
                    continue;
                }
                let packed = pack(ChunkInfo { start: own.lba(own.chunk_at(block)), ..info });
                whole.data[(block - first) as usize * ChunkInfo::BYTES..][..ChunkInfo::BYTES]
                    .copy_from_slice(&packed);
            }
        }
        (_, status) => whole.status = status,
    }
    if !is_last {
        return;
    }
    // A block that has moved meanwhile is requested again.
    let is_missing = whole.data.iter().step_by(ChunkInfo::BYTES).any(|&state| state == 0);
    if whole.status == Status::Success && is_missing {
        return ask_parts(monitor, report);
    }
    let whole = monitor.commands.take_kept(report);
    finish(monitor, report, whole);
}

fn pack(info: ChunkInfo) -> Vec<u8> {
    let mut packed = Vec::with_capacity(ChunkInfo::BYTES);
    info.encode(&mut packed);
    packed
}

// ---- erases, and blocks that cannot be erased

/// Chunk of an address of a reset; `single`: the address of a reset without a list.
fn reset_chunk(geometry: &ChunkGeometry, single: u32, completion: &Completion, at: u32) -> u32 {
    let listed = completion.vector.as_ref().and_then(|vector| vector.addresses.get(at as usize));
    let number = |&lba: &Lba| geometry.address(lba).map(|address| geometry.chunk_number(address));
    listed.and_then(number).unwrap_or(single)
}

fn reset_ended<D: Drive>(monitor: &mut Monitor<D>, op: u32, completion: Completion) {
    let count = completion.vector.as_ref().map_or(0, |vector| vector.addresses.len()).max(1) as u32;
    let scalar = completion.vector.as_ref().is_none_or(|vector| vector.addresses.is_empty());
    let (app, single) = (monitor.commands.get(op).app(), monitor.commands.get(op).chunk());
    let mut looks = Vec::new();
    for at in 0..count {
        let failed = match scalar {
            true => completion.status != Status::Success,
            false => completion.result >> at & 1 != 0,
        };
        let chunk = reset_chunk(&monitor.geometry, single, &completion, at);
        if !failed && matches!(completion.status, Status::Success | Status::ChunkOffline) {
            let lun = chunk / monitor.geometry.chunks;
            save::count_erase(monitor, lun);
            let (erases, shown) = (monitor.state.erases(lun), monitor.state.shown());
            monitor.leveller.note_erase(lun, erases.is_multiple_of(shown.into()));
            if let Some(namespace) = monitor.namespaces.get_mut(app) {
                namespace.count_erase();
            }
        }
        if failed && completion.status == Status::ChunkOffline {
            looks.push((at, chunk));
        }
    }
    if looks.is_empty() || monitor.records.is_dead() {
        return finish(monitor, op, completion);
    }
    monitor.commands.keep(op, completion);
    monitor.commands.ask(op, looks.len() as u32);
    for (at, chunk) in looks {
        let look = own(monitor, Opcode::Report, chunk, 0, 1, Vec::new());
        send(monitor, What::Look { op, at }, look);
    }
}

/// Handles the drive's report on a chunk that could not be erased. Replaces an offline chunk.
fn looked<D: Drive>(monitor: &mut Monitor<D>, op: u32, at: u32, look: &Completion) {
    let single = monitor.commands.get(op).chunk();
    let chunk = reset_chunk(&monitor.geometry, single, monitor.commands.kept(op), at);
    let is_last = monitor.commands.answered(op);
    let info = look.data.first_chunk().and_then(ChunkInfo::decode);
    if look.status == Status::Success && info.is_some_and(|info| info.state == ChunkState::Offline) {
        replace(monitor, op, at, chunk);
    }
    if is_last {
        save::changed_then(monitor, Commit::Answer(op));
    }
}

/// Replaces a block, named by address `at` of a reset, by a spare.
fn replace<D: Drive>(monitor: &mut Monitor<D>, op: u32, at: u32, chunk: u32) {
    let app = monitor.commands.get(op).app();
    let Some(namespace) = monitor.namespaces.get(app) else { return };
    let Some(block) = namespace.view().chunk_in_view(chunk) else { return };
    let spare = spares::replace(monitor, chunk);
    let namespace = monitor.namespaces.get_mut(app).expect("it is open");
    namespace.count_failed_block(spare.is_some());
    let Some(spare) = spare else { return };
    let own = namespace.view().geometry();
    let ended = monitor.commands.kept_mut(op);
    ended.result &= !(1 << at);
    if ended.result == 0 {
        ended.status = Status::Success;
    }
    // The reported state of the block is that of the spare.
    let told = ended.vector.as_mut().map(|vector| &mut vector.metadata);
    if let Some(told) =
        told.and_then(|told| told.as_chunks_mut::<{ ChunkInfo::BYTES }>().0.get_mut(at as usize))
    {
        let info = ChunkInfo {
            state: ChunkState::Free,
            wear_index: 0,
            start: own.lba(own.chunk_at(block)),
            sectors: own.chunk_sectors,
            write_pointer: 0,
        };
        told.copy_from_slice(&pack(info));
    }
    save::changed_then(monitor, Commit::Place { app, block, chunk: spare });
}

/// Handles a power cut: answers all commands in flight, and does nothing else.
pub(super) fn forget<D: Drive>(monitor: &mut Monitor<D>) {
    while let Some(completion) = monitor.drive.pop() {
        let op = completion.tag as u32;
        if monitor.commands.is_with_drive(op) {
            finish(monitor, op, completion);
        }
    }
    for (op, opcode, submitted) in monitor.commands.lost() {
        let command = Command::new(0, opcode, Lba(0), 0, Vec::new());
        let mut lost = command.refused(submitted, Status::PowerLoss);
        lost.stages = StageTimes::default();
        finish(monitor, op, lost);
    }
    for (submitted, command) in monitor.leveller.forget() {
        let lost = command.refused(submitted, Status::PowerLoss);
        monitor.commands.put_up(Completion { completed: monitor.now, ..lost });
    }
    monitor.commands.forget();
    monitor.records.forget();
    monitor.namespaces.forget();
}
