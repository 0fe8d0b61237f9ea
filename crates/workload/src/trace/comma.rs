//! Formats with fields separated by commas: MSR Cambridge, Alibaba, Tencent, SPC, SYSTOR '17.

use super::Action;
use super::error::Problem;
use super::field::{Bytes, Commas, Decoded, Raw, bytes, request, seconds_as_ns, sectors, wrong};

const MSR: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
const ALIBABA: &str = "device_id,opcode,offset,length,timestamp";
const TENCENT: &str = "Timestamp,Offset,Size,IOType,VolumeID";
const SYSTOR: &str = "Timestamp,Response,IOType,LUN,Offset,Size";
const SPC: &str = "ASU,LBA,Size,Opcode,Timestamp[,...]";

/// Ticks are 100 ns (Windows file time).
pub(super) fn msr(line: &[u8]) -> Result<Raw, Problem> {
    let mut fields = Commas::new(line, MSR);
    let ticks = fields.number("Timestamp")?;
    fields.field("Hostname")?;
    let stream = fields.number_u32("DiskNumber")?;
    let kind = fields.field("Type")?;
    let action = if kind.eq_ignore_ascii_case(b"Write") {
        Action::Write
    } else if kind.eq_ignore_ascii_case(b"Read") {
        Action::Read
    } else {
        return Err(wrong("Type", kind, "Read or Write"));
    };
    let offset = fields.number("Offset")?;
    let length = fields.number("Size")?;
    fields.number("ResponseTime")?;
    fields.end()?;
    request(ticks, action, bytes(offset), bytes(length), stream)
}

/// Ticks are microseconds.
pub(super) fn alibaba(line: &[u8]) -> Result<Raw, Problem> {
    let mut fields = Commas::new(line, ALIBABA);
    let stream = fields.number_u32("device_id")?;
    let action = letter("opcode", fields.field("opcode")?)?;
    let offset = fields.number("offset")?;
    let length = fields.number("length")?;
    let ticks = fields.number("timestamp")?;
    fields.end()?;
    request(ticks, action, bytes(offset), bytes(length), stream)
}

/// Ticks are seconds. 0 reads and 1 writes, the opposite of MQSim.
pub(super) fn tencent(line: &[u8]) -> Result<Raw, Problem> {
    let mut fields = Commas::new(line, TENCENT);
    let ticks = fields.number("Timestamp")?;
    let offset = fields.number("Offset")?;
    let length = fields.number("Size")?;
    let action = match fields.field("IOType")? {
        b"0" => Action::Read,
        b"1" => Action::Write,
        other => return Err(wrong("IOType", other, "0 (read) or 1 (write)")),
    };
    let stream = fields.number_u32("VolumeID")?;
    fields.end()?;
    request(ticks, action, sectors(offset), sectors(length), stream)
}

/// Ticks are nanoseconds. Fields after the fifth are vendor specific.
pub(super) fn spc(line: &[u8], lba_bytes: u64) -> Result<Raw, Problem> {
    let mut fields = Commas::new(line, SPC);
    let stream = fields.number_u32("ASU")?;
    let lba = fields.number("LBA")?;
    let length = fields.number("Size")?;
    let action = letter("Opcode", fields.field("Opcode")?)?;
    let ticks = seconds_as_ns("Timestamp", fields.field("Timestamp")?)?;
    request(ticks, action, Bytes { count: lba, unit_bytes: lba_bytes }, bytes(length), stream)
}

/// Ticks are nanoseconds. A line without an operation is an unanswered request of unknown kind.
pub(super) fn systor(line: &[u8]) -> Result<Decoded, Problem> {
    let mut fields = Commas::new(line, SYSTOR);
    let ticks = seconds_as_ns("Timestamp", fields.field("Timestamp")?)?;
    fields.field("Response")?;
    let kind = fields.field("IOType")?;
    let action = if kind.is_empty() { None } else { Some(letter("IOType", kind)?) };
    let stream = fields.number_u32("LUN")?;
    let offset = fields.number("Offset")?;
    let length = fields.number("Size")?;
    fields.end()?;
    let Some(action) = action else { return Ok(Decoded::Nothing) };
    request(ticks, action, bytes(offset), bytes(length), stream).map(Decoded::Request)
}

fn letter(name: &'static str, field: &[u8]) -> Result<Action, Problem> {
    match field {
        b"R" | b"r" => Ok(Action::Read),
        b"W" | b"w" => Ok(Action::Write),
        _ => Err(wrong(name, field, "R or W")),
    }
}
