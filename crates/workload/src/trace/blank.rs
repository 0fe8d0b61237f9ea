//! Formats with fields separated by blanks, one request per line: FIU and MQSim.

use super::Action;
use super::error::Problem;
use super::field::{Blanks, Raw, device, number, number_u32, request, sectors, wrong};

const FIU: &str = "ts pid process lba size op major minor md5";
const MQSIM: &str = "time device lba sectors type, between blanks";

/// Ticks are nanoseconds. The name of a process may contain blanks, so the fields after it are read from the end of the line.
pub(super) fn fiu(line: &[u8]) -> Result<Raw, Problem> {
    let mut fields = Blanks::new(line, FIU);
    let ticks = fields.number("ts")?;
    fields.number("pid")?;
    let digest = fields.last("md5")?;
    if digest.len() != 32 || !digest.iter().all(u8::is_ascii_hexdigit) {
        return Err(wrong("md5", digest, "32 hexadecimal digits"));
    }
    let minor_field = fields.last("minor")?;
    let minor = number_u32("minor", minor_field)?;
    let major = number_u32("major", fields.last("major")?)?;
    let action = match fields.last("op")? {
        b"W" | b"w" => Action::Write,
        b"R" | b"r" => Action::Read,
        other => return Err(wrong("op", other, "R or W")),
    };
    let length = number("size", fields.last("size")?)?;
    let offset = number("lba", fields.last("lba")?)?;
    fields.field("process")?;
    let Some(stream) = device(major, minor) else {
        return Err(wrong("minor", minor_field, "a minor number below 2^20, with a major number below 2^12"));
    };
    request(ticks, action, sectors(offset), sectors(length), stream)
}

/// Ticks are nanoseconds. 0 writes and 1 reads, the opposite of Tencent. A comma before the blanks is accepted, so that a file with both can be read
/// when it is named MQSim; see the module's documentation.
pub(super) fn mqsim(line: &[u8]) -> Result<Raw, Problem> {
    let mut fields = Blanks::new(line, MQSIM);
    let mut next = |name| {
        let field = fields.field(name)?;
        Ok::<_, Problem>(field.strip_suffix(b",").unwrap_or(field))
    };
    let ticks = number("time", next("time")?)?;
    let stream = number_u32("device", next("device")?)?;
    let offset = number("lba", next("lba")?)?;
    let length = number("sectors", next("sectors")?)?;
    let action = match fields.field("type")? {
        b"0" => Action::Write,
        b"1" => Action::Read,
        other => return Err(wrong("type", other, "0 (write) or 1 (read)")),
    };
    fields.end()?;
    request(ticks, action, sectors(offset), sectors(length), stream)
}
