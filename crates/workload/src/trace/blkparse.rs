//! The text of `blkparse` in its default format, `%D %2c %8s %5T.%9t %5p %2a %3d ` and then, by action,
//! `sector + nsectors [process]`.
//!
//! Every event line is parsed up to its action; only lines with the chosen action are parsed further. The summary
//! after the events (`CPU0 (sda):` or `Total (sda):`) ends the trace.

use super::error::Problem;
use super::field::{Blanks, Decoded, device, number, request, seconds_as_ns, sectors, wrong};
use super::{Action, BlockEvent};

const LAYOUT: &str =
    "major,minor cpu sequence seconds.nanoseconds pid action rwbs sector + nsectors [process]";

pub(super) struct Blkparse {
    event: BlockEvent,
}

struct Head<'a> {
    ticks: u64,
    stream: u32,
    action: &'a [u8],
}

impl Blkparse {
    pub(super) fn new(event: BlockEvent) -> Blkparse {
        Blkparse { event }
    }

    /// Ticks are nanoseconds.
    pub(super) fn decode(&self, line: &[u8]) -> Result<Decoded, Problem> {
        if is_notice(line) {
            return Ok(Decoded::Nothing);
        }
        if is_summary(line) {
            return Ok(Decoded::End);
        }
        let mut fields = Blanks::new(line, LAYOUT);
        let head = head(&mut fields)?;
        if event(head.action) != Some(self.event) {
            return Ok(Decoded::Nothing);
        }
        let rwbs = fields.field("rwbs")?;
        let (sector, count) = match fields.optional() {
            None => (0, 0),
            Some(process) if process.starts_with(b"[") => (0, 0),
            Some(field) => match fields.optional() {
                // `bytes (command) [process]`: a command passed through to the device.
                Some(command) if command.starts_with(b"(") => return Ok(Decoded::Nothing),
                Some(b"+") => (number("sector", field)?, fields.number("nsectors")?),
                Some(other) if !other.starts_with(b"[") => {
                    return Err(wrong("the word after sector", other, "+"));
                }
                Some(_) => (number("sector", field)?, 0),
                // The line is truncated.
                None => return fields.field("+").map(|_| Decoded::Nothing),
            },
        };
        let (flush, kind) = meaning(rwbs);
        // A lone flush is a write of no sectors. Anything else without sectors counts as an empty request.
        match (flush, kind.filter(|_| !flush || count > 0)) {
            (true, Some(action)) => {
                let raw = request(head.ticks, action, sectors(sector), sectors(count), head.stream)?;
                Ok(Decoded::FlushThen(raw))
            }
            (false, Some(action)) => Ok(Decoded::Request(request(
                head.ticks,
                action,
                sectors(sector),
                sectors(count),
                head.stream,
            )?)),
            (true, None) => {
                Ok(Decoded::Request(request(head.ticks, Action::Flush, sectors(0), sectors(0), head.stream)?))
            }
            (false, None) => Ok(Decoded::Nothing),
        }
    }
}

/// The first event in the order `Q`, `D`, `C` that occurs in `lines`; `Q` if there is none.
pub(super) fn choose<'a>(lines: impl Iterator<Item = &'a [u8]>) -> BlockEvent {
    let mut best = None;
    for line in lines {
        if is_summary(line) {
            break;
        }
        let Ok(head) = head(&mut Blanks::new(line, LAYOUT)) else { continue };
        best = prefer(best, event(head.action));
    }
    best.unwrap_or(BlockEvent::Queue)
}

/// The earlier of two events in the life of a request.
pub(super) fn prefer(best: Option<BlockEvent>, seen: Option<BlockEvent>) -> Option<BlockEvent> {
    let rank = |event: &BlockEvent| match event {
        BlockEvent::Queue => 0,
        BlockEvent::Issue => 1,
        BlockEvent::Complete => 2,
    };
    best.into_iter().chain(seen).min_by_key(rank)
}

/// Lines that older versions print before the events.
fn is_notice(line: &[u8]) -> bool {
    line.starts_with(b"Input file ")
}

fn is_summary(line: &[u8]) -> bool {
    line.starts_with(b"Total (") || (line.starts_with(b"CPU") && line.get(3).is_some_and(u8::is_ascii_digit))
}

fn head<'a>(fields: &mut Blanks<'a>) -> Result<Head<'a>, Problem> {
    let stream = device_number(fields.field("major,minor")?)?;
    fields.number("cpu")?;
    fields.number("sequence")?;
    let ticks = seconds_as_ns("seconds.nanoseconds", fields.field("seconds.nanoseconds")?)?;
    fields.number("pid")?;
    Ok(Head { ticks, stream, action: fields.field("action")? })
}

fn device_number(field: &[u8]) -> Result<u32, Problem> {
    let comma = field.iter().position(|&byte| byte == b',');
    let parts = comma.map(|at| (&field[..at], &field[at + 1..]));
    parts
        .and_then(|(major, minor)| {
            let part = |digits| u32::try_from(number("major,minor", digits).ok()?).ok();
            device(part(major)?, part(minor)?)
        })
        .ok_or_else(|| wrong("major,minor", field, "a device number such as 8,0"))
}

fn event(action: &[u8]) -> Option<BlockEvent> {
    match action {
        b"Q" => Some(BlockEvent::Queue),
        b"D" => Some(BlockEvent::Issue),
        b"C" => Some(BlockEvent::Complete),
        _ => None,
    }
}

/// Reports whether a flush comes first, and the operation. The letters after the operation (F: force unit access, A, S, M) are ignored.
fn meaning(rwbs: &[u8]) -> (bool, Option<Action>) {
    let (flush, operation) = match rwbs {
        [b'F', rest @ ..] => (true, rest.first()),
        _ => (false, rwbs.first()),
    };
    let action = match operation {
        Some(b'R') => Some(Action::Read),
        Some(b'W') => Some(Action::Write),
        Some(b'D') => Some(Action::Trim),
        _ => None,
    };
    (flush, action)
}
