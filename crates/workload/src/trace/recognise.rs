//! Which format a trace has, from its first part.
//!
//! Binary traces and fio logs say it themselves. Otherwise every text format is tried on the first lines: a format
//! stays a candidate while it can read them. A line that no candidate can read ends the search without a verdict on
//! it, so that reading meets the line again and reports it exactly.

use super::Format;
use super::blktrace::is_blktrace;
use super::error::Problem;
use super::field::excerpt;
use super::fio::Version;
use super::reader::LineDecoder;

const LINES_TRIED: usize = 64;
const TEXT: [Format; 7] = [
    Format::Msr,
    Format::Alibaba,
    Format::Tencent,
    Format::Fiu,
    Format::Spc,
    Format::Blkparse,
    Format::Mqsim,
];

/// The lines of the first part of a trace that hold anything. Unless it is all, the last one may be cut short and is
/// left out.
pub(super) fn lines(head: &[u8], all: bool) -> impl Iterator<Item = &[u8]> {
    let whole = match head.iter().rposition(|&byte| byte == b'\n') {
        Some(end) if !all => &head[..end],
        _ => head,
    };
    whole.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty())
}

pub(super) fn recognise(head: &[u8], all: bool, spc_lba_bytes: u64) -> Result<Format, Problem> {
    if is_blktrace(head) {
        return Ok(Format::Blktrace);
    }
    let mut lines = lines(head, all).take(LINES_TRIED).peekable();
    let first = lines.peek().copied().unwrap_or_default();
    if first.trim_ascii() == Version::Two.header().as_bytes() {
        return Ok(Format::FioV2);
    }
    if first.trim_ascii() == Version::Three.header().as_bytes() {
        return Ok(Format::FioV3);
    }
    let mut candidates = TEXT.to_vec();
    let mut begun = false;
    for line in lines {
        let mut fitting = candidates.clone();
        fitting.retain(|&format| LineDecoder::fits(format, spc_lba_bytes, line));
        if fitting.is_empty() {
            break;
        }
        begun = true;
        candidates = fitting;
    }
    match candidates[..] {
        [format] if begun => Ok(format),
        _ if begun => Err(Problem::Ambiguous(candidates)),
        _ => Err(Problem::Unrecognised(excerpt(first))),
    }
}
