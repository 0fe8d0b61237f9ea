//! The binary records of `blktrace` (Linux `struct blk_io_trace`, include/uapi/linux/blktrace_api.h), version 7.
//!
//! ```text
//! 0 magic|version u32   4 sequence u32   8 time_ns u64   16 sector u64   24 bytes u32   28 action u32
//! 32 pid u32   36 device u32   40 cpu u32   44 error u16   46 pdu_len u16   48 pdu_len bytes
//! ```
//!
//! Byte order is that of the traced machine; the first record's magic number reveals it. The low half of `action` is the event, the high half a set
//! of category bits.

use super::blkparse::prefer;
use super::error::Problem;
use super::field::{Decoded, bytes, request, sectors, wrong};
use super::source::Source;
use super::{Action, BlockEvent};

pub(super) const RECORD_BYTES: usize = 48;
const MAGIC_VERSION_7: u32 = 0x6561_7407;

// Category bits, `enum blktrace_cat`, and events, `enum blktrace_act`.
const CATEGORY_READ: u32 = 1;
const CATEGORY_WRITE: u32 = 1 << 1;
const CATEGORY_FLUSH: u32 = 1 << 2;
const CATEGORY_PASSED_THROUGH: u32 = 1 << 9;
const CATEGORY_NOTIFY: u32 = 1 << 10;
const CATEGORY_DISCARD: u32 = 1 << 13;
/// Without one of these, an event of no bytes is not a request.
const CATEGORY_OF_DATA: u32 = CATEGORY_READ | CATEGORY_WRITE | CATEGORY_DISCARD;
const EVENT_QUEUE: u32 = 1;
const EVENT_ISSUE: u32 = 7;
const EVENT_COMPLETE: u32 = 8;
/// Bit 8 of the low half marks a record with a control group; it is not part of the event.
const EVENT_MASK: u32 = 0xff;

pub(super) struct Blktrace {
    event: BlockEvent,
    big_endian: bool,
}

/// Reports whether a trace begins like this format, in either byte order; ignores the version.
pub(super) fn is_blktrace(head: &[u8]) -> bool {
    matches!(head, [_, 0x74, 0x61, 0x65, ..] | [0x65, 0x61, 0x74, _, ..])
}

impl Blktrace {
    /// `head` is the first part of the trace, `event` the caller's choice.
    pub(super) fn new(head: &[u8], event: Option<BlockEvent>) -> Blktrace {
        let big_endian = head.first() == Some(&0x65);
        let mut blktrace = Blktrace { event: BlockEvent::Queue, big_endian };
        blktrace.event = event.unwrap_or_else(|| blktrace.choose(head));
        blktrace
    }

    fn choose(&self, mut head: &[u8]) -> BlockEvent {
        let mut best = None;
        while let Some((record, rest)) = head.split_at_checked(RECORD_BYTES) {
            best = prefer(best, event(self.u32(record, 28)));
            let Some(rest) = rest.get(usize::from(self.u16(record, 46))..) else { break };
            head = rest;
        }
        best.unwrap_or(BlockEvent::Queue)
    }

    /// Consumes one record. Ticks are nanoseconds.
    pub(super) fn decode(&self, source: &mut Source) -> Result<Decoded, Problem> {
        let Some(record) = source.piece(RECORD_BYTES)? else { return Ok(Decoded::End) };
        if self.u32(record, 0) != MAGIC_VERSION_7 {
            let found = format!("{:#010x}", self.u32(record, 0));
            return Err(wrong(
                "the magic number",
                found.as_bytes(),
                "0x65617407, that is blktrace version 7",
            ));
        }
        let ticks = self.u64(record, 8);
        let offset = sectors(self.u64(record, 16));
        let length = self.u32(record, 24);
        let action = self.u32(record, 28);
        let device = self.u32(record, 36);
        let payload_bytes = usize::from(self.u16(record, 46));
        if payload_bytes > 0 && source.piece(payload_bytes)?.is_none() {
            return Err(Problem::Truncated { expected_bytes: payload_bytes, found_bytes: 0 });
        }
        if event(action) != Some(self.event) {
            return Ok(Decoded::Nothing);
        }
        let category = action >> 16;
        let kind = if category & CATEGORY_DISCARD != 0 {
            Action::Trim
        } else if category & CATEGORY_WRITE != 0 {
            Action::Write
        } else {
            Action::Read
        };
        let raw = request(ticks, kind, offset, bytes(u64::from(length)), device);
        match (category & CATEGORY_FLUSH != 0, length) {
            (true, 0) => Ok(Decoded::Request(request(ticks, Action::Flush, bytes(0), bytes(0), device)?)),
            (true, _) => Ok(Decoded::FlushThen(raw?)),
            (false, 0) if category & CATEGORY_OF_DATA == 0 => Ok(Decoded::Nothing),
            (false, _) => Ok(Decoded::Request(raw?)),
        }
    }

    fn u16(&self, record: &[u8], at: usize) -> u16 {
        let raw = [record[at], record[at + 1]];
        if self.big_endian { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
    }

    fn u32(&self, record: &[u8], at: usize) -> u32 {
        let (low, high) = (u32::from(self.u16(record, at)), u32::from(self.u16(record, at + 2)));
        if self.big_endian { low << 16 | high } else { high << 16 | low }
    }

    fn u64(&self, record: &[u8], at: usize) -> u64 {
        let (low, high) = (u64::from(self.u32(record, at)), u64::from(self.u32(record, at + 4)));
        if self.big_endian { low << 32 | high } else { high << 32 | low }
    }
}

fn event(action: u32) -> Option<BlockEvent> {
    if (action >> 16) & (CATEGORY_NOTIFY | CATEGORY_PASSED_THROUGH) != 0 {
        return None;
    }
    match action & EVENT_MASK {
        EVENT_QUEUE => Some(BlockEvent::Queue),
        EVENT_ISSUE => Some(BlockEvent::Issue),
        EVENT_COMPLETE => Some(BlockEvent::Complete),
        _ => None,
    }
}
