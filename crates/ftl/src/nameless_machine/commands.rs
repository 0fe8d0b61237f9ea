//! Commands of the application: which are refused, and their beginning.

use super::core::Core;
use super::ends::finish;
use super::{read, write};
use crate::Name;
use pellucid_flash::{Command, Lba, Lpn, NamelessGeometry, NamelessOp, Opcode, Ppa, Status};

/// Reason for refusing a command of a namespace, if any; `core` may refuse writes, or everything.
pub(super) fn refuse(core: &Core, command: &Command) -> Option<Status> {
    let geometry = core.geometry();
    let (writes, limit) = match command.opcode {
        Opcode::Write | Opcode::Trim | Opcode::WriteZeroes => (true, geometry.virtual_sectors),
        Opcode::Read => (false, geometry.virtual_sectors),
        Opcode::Nameless(NamelessOp::Write) => (true, u64::MAX),
        Opcode::Nameless(NamelessOp::Free | NamelessOp::Acknowledge) => (true, geometry.name_sectors),
        Opcode::Nameless(NamelessOp::Read) | Opcode::Report => (false, geometry.name_sectors),
        Opcode::Flush => (false, u64::MAX),
        _ => return Some(Status::InvalidOpcode),
    };
    if core.health.failure().is_some() || (writes && core.health.refuses_writes()) {
        return Some(Status::ReadOnly);
    }
    if command.opcode == Opcode::Flush {
        return None;
    }
    let bytes = command.sectors as usize * core.image_bytes;
    let carries = match command.opcode {
        Opcode::Write | Opcode::Nameless(NamelessOp::Write) => true,
        Opcode::Read | Opcode::Nameless(NamelessOp::Read) => !command.data.is_empty(),
        _ => false,
    };
    let listed = command.vector.as_ref().map_or(&[][..], |vector| &vector.addresses);
    let may_list = matches!(command.opcode, Opcode::Nameless(_));
    let lists = listed.is_empty() || (may_list && listed.len() == command.sectors as usize);
    let named = command.opcode != Opcode::Nameless(NamelessOp::Write)
        || command.vector.is_some()
        || command.sectors == 1
        || (command.sectors <= geometry.page_sectors && !command.fua);
    let carried = !carries || command.data.len() == bytes;
    if command.sectors == 0 || !lists || !named || !carried {
        return Some(Status::InvalidField);
    }
    if command.opcode == Opcode::Nameless(NamelessOp::Write) {
        let known = |lba: &Lba| *lba == NamelessGeometry::NAMELESS || lba.0 < geometry.virtual_sectors;
        return (!listed.iter().all(known)).then_some(Status::LbaOutOfRange);
    }
    let inside = match listed.is_empty() {
        true => command.lba.0.checked_add(command.sectors.into()).is_some_and(|end| end <= limit),
        false => listed.iter().all(|lba| lba.0 < limit),
    };
    (!inside).then_some(Status::LbaOutOfRange)
}

/// Begins a request.
pub(super) fn begin(core: &mut Core, request: u32) {
    core.progress.note();
    match core.requests.command(request).opcode {
        Opcode::Read | Opcode::Nameless(NamelessOp::Read) => read::start_read(core, request),
        Opcode::Write | Opcode::Nameless(NamelessOp::Write) => write::start_write(core, request),
        Opcode::Flush => core.flushes.wait(request),
        Opcode::Report => report(core, request),
        _ => change(core, request),
    }
}

/// Trims, frees and acknowledgements: they take effect at once, and are durable with the next checkpoint.
fn change(core: &mut Core, request: u32) {
    let command = core.requests.command(request);
    let listed = command.vector.as_ref().map_or(&[][..], |vector| &vector.addresses);
    let count = if listed.is_empty() { command.sectors as usize } else { listed.len() };
    let (mut known, submitted) = (0, core.requests.sent(request));
    for i in 0..count {
        let address = if listed.is_empty() { command.lba.0 + i as u64 } else { listed[i].0 } as u32;
        known += u64::from(match command.opcode {
            Opcode::Nameless(_) if core.issues_later(Ppa(address), submitted) => false,
            Opcode::Nameless(NamelessOp::Free) => core.engine.free(Ppa(address)),
            Opcode::Nameless(NamelessOp::Acknowledge) => core.engine.acknowledge(Ppa(address)),
            _ => {
                core.engine.trim(Lpn(address));
                true
            }
        });
    }
    let missing = command.opcode == Opcode::Nameless(NamelessOp::Free) && known < count as u64;
    let fua = command.fua;
    core.flushes.changed();
    core.requests.set_result(request, known);
    core.requests.set_status(request, missing.then_some(Status::Unwritten));
    if fua && !missing {
        core.flushes.wait(request);
    } else {
        finish(core, request);
    }
}

/// Answers a request for the current targets of names.
fn report(core: &mut Core, request: u32) {
    let mut command = core.requests.take_command(request);
    command.data.clear();
    let submitted = core.requests.sent(request);
    for name in command.lba.0..command.lba.0 + u64::from(command.sectors) {
        let now = match core.name(Ppa(name as u32), submitted) {
            Name::Unknown => NamelessGeometry::NAMELESS.0,
            Name::Virtual => NamelessGeometry::VIRTUAL.0,
            Name::Here | Name::Leaving => name,
            Name::Moved(new) => new.0.into(),
        };
        command.data.extend_from_slice(&now.to_le_bytes());
    }
    core.requests.put_command(request, command);
    finish(core, request);
}
