//! Nameless namespaces: their specific commands, and the log of their moves.

use super::io::{Request, Special, Volume, no};
use crate::operation::Operation;
use crate::session::Port;
use pellucid_flash::{Interface, Lba, NamelessGeometry, NamelessOp, Opcode};
use pellucid_wire::nvme::nameless::{
    MoveEntry, MovesHeader, NAMELESS_NAMESPACE, NamelessCommand, NamelessIdentity, NamelessOpcode,
};
use pellucid_wire::nvme::{Status, SubmissionEntry};

/// Parses a command whose opcode the NVM command set lacks.
pub(super) fn parse(
    entry: &SubmissionEntry,
    index: usize,
    volume: &Volume,
    nameless: &NamelessGeometry,
) -> Result<Request, Status> {
    let command = NamelessCommand::parse(entry).ok_or(no(Status::INVALID_OPCODE))?;
    let (opcode, sectors) = (command.opcode, command.sectors);
    let bytes = match opcode {
        NamelessOpcode::Write | NamelessOpcode::Read => sectors.saturating_mul(volume.sector_bytes),
        NamelessOpcode::Names => sectors * size_of::<u64>() as u32,
        NamelessOpcode::Free | NamelessOpcode::Acknowledge => 0,
    };
    // The names of a page are consecutive; those of a forced write may not be when it completes.
    let writes = opcode == NamelessOpcode::Write;
    let too_long = writes && (sectors > nameless.page_sectors || (command.force && sectors > 1));
    if bytes > super::TRANSFER_BYTES_MAX || too_long {
        return Err(no(Status::INVALID_FIELD));
    }
    let end = command.first.checked_add(sectors.into());
    if !writes && end.is_none_or(|end| end > nameless.name_sectors) {
        return Err(no(Status::LBA_OUT_OF_RANGE));
    }
    let lba = if writes { 0 } else { command.first };
    Ok(Request {
        fua: command.force,
        lba,
        sectors,
        bytes,
        ..Request::special(Special::Nameless(opcode), index)
    })
}

/// Returns true if the host sends data with the command.
pub(super) fn takes_data(opcode: NamelessOpcode) -> bool {
    opcode == NamelessOpcode::Write
}

/// Returns true if the host receives data.
pub(super) fn gives_data(opcode: NamelessOpcode) -> bool {
    matches!(opcode, NamelessOpcode::Read | NamelessOpcode::Names)
}

/// Submits a command to the drive.
pub(super) fn submit(
    request: &Request,
    opcode: NamelessOpcode,
    volume: &Volume,
    (queue, token): (u16, u64),
    data: &mut Vec<u8>,
    port: &mut Port<'_>,
) {
    let (opcode, data) = match opcode {
        NamelessOpcode::Write => (Opcode::Nameless(NamelessOp::Write), std::mem::take(data)),
        NamelessOpcode::Read => {
            (Opcode::Nameless(NamelessOp::Read), port.take_buffer(request.bytes as usize))
        }
        NamelessOpcode::Free => (Opcode::Nameless(NamelessOp::Free), Vec::new()),
        NamelessOpcode::Acknowledge => (Opcode::Nameless(NamelessOp::Acknowledge), Vec::new()),
        NamelessOpcode::Names => (Opcode::Report, Vec::new()),
    };
    let operation = Operation::new(opcode, Lba(request.lba), request.sectors, data);
    port.submit(volume.number, token, Operation { queue, fua: request.fua, ..operation });
}

/// Vendor area of Identify Namespace.
pub(super) fn identity(nameless: &NamelessGeometry) -> [u8; NamelessIdentity::BYTES] {
    let NamelessGeometry { capacity_sectors: capacity, name_sectors: names, page_sectors, .. } = *nameless;
    NamelessIdentity { kind: NAMELESS_NAMESPACE, page_sectors, capacity, names }.encode()
}

/// Builds the log page of moves.
pub(super) fn move_log(namespace: usize, port: &Port<'_>) -> Result<Vec<u8>, Status> {
    if !matches!(port.namespaces()[namespace].interface, Interface::Nameless(_)) {
        return Err(no(Status::INVALID_LOG_PAGE));
    }
    let moves = port.moves(namespace);
    let mut page = MovesHeader { count: moves.len() as u64 }.encode().to_vec();
    moves.iter().for_each(|(old, new)| page.extend(MoveEntry { old: old.0, new: new.0 }.encode()));
    Ok(page)
}
