//! Recognises the format of a trace from its first part.
//!
//! Binary traces and fio logs identify themselves. Otherwise every text format is tried on the first lines: a format stays a candidate while it can
//! read them. A line that no candidate can read ends the search without a verdict, so that reading meets the line again and reports it exactly.

use super::Format;
use super::blktrace::is_blktrace;
use super::columns::{Columns, is_names};
use super::error::Problem;
use super::field::excerpt;
use super::fio::Version;
use super::reader::LineDecoder;
use super::vscsi::is_vscsi;

const LINES_TRIED: usize = 64;
const TEXT: [Format; 8] = [
    Format::Msr,
    Format::Alibaba,
    Format::Tencent,
    Format::Fiu,
    Format::Spc,
    Format::Blkparse,
    Format::Mqsim,
    Format::Systor,
];

/// The non-blank lines of the first part of a trace. Unless it is the whole trace, the last line may be cut short and is omitted.
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
    if is_vscsi(head) {
        return Ok(Format::Vscsi);
    }
    let lines: Vec<&[u8]> = lines(head, all).take(LINES_TRIED).collect();
    let first = lines.first().copied().unwrap_or_default();
    if first.trim_ascii() == Version::Two.header().as_bytes() {
        return Ok(Format::FioV2);
    }
    if first.trim_ascii() == Version::Three.header().as_bytes() {
        return Ok(Format::FioV3);
    }
    let remarks = lines.iter().take_while(|line| is_remark(line)).count();
    let lines = &lines[remarks..];
    match lines {
        [names, lines @ ..] if is_names(names) => below_names(names, lines, spc_lba_bytes),
        _ => by_lines(lines, spc_lba_bytes),
    }
}

/// Reports whether a line is a comment before the first record.
pub(super) fn is_remark(line: &[u8]) -> bool {
    line.trim_ascii_start().first() == Some(&b'#')
}

/// Recognises a trace by its column names. With blanks, the number and order of fields suffice: no two formats share them.
fn below_names(names: &[u8], lines: &[&[u8]], spc_lba_bytes: u64) -> Result<Format, Problem> {
    let named = TEXT
        .into_iter()
        .find(|&format| Columns::of(format, spc_lba_bytes).is_some_and(|columns| columns.are_in(names)));
    let unknown = || Problem::UnknownNames(excerpt(names));
    match named {
        Some(format) => Ok(format),
        None if names.contains(&b',') => Err(unknown()),
        None => by_lines(lines, spc_lba_bytes).map_err(|_| unknown()),
    }
}

fn by_lines(lines: &[&[u8]], spc_lba_bytes: u64) -> Result<Format, Problem> {
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
        _ => Err(none_fits(lines, spc_lba_bytes)),
    }
}

/// Explains the first line: a malformed field is named if the line has the fields of a format.
fn none_fits(lines: &[&[u8]], spc_lba_bytes: u64) -> Problem {
    let first = lines.first().copied().unwrap_or_default();
    let nearly =
        TEXT.into_iter().filter_map(|format| match LineDecoder::problem(format, spc_lba_bytes, first) {
            Some(problem @ (Problem::Field { .. } | Problem::Extent { .. }))
                if has_fields_of(format, first) =>
            {
                Some((format, problem.to_string()))
            }
            _ => None,
        });
    let nearly: Vec<(Format, String)> = nearly.collect();
    if nearly.is_empty() { Problem::Unrecognised(excerpt(first)) } else { Problem::Nearly(nearly) }
}

/// Reports whether a line has the number of fields and the separators of a format.
fn has_fields_of(format: Format, line: &[u8]) -> bool {
    let commas = line.iter().filter(|&&byte| byte == b',').count();
    let words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).count();
    match format {
        Format::Msr => commas == 6,
        Format::Systor => commas == 5,
        // SPC may have more, which are ignored.
        Format::Alibaba | Format::Tencent | Format::Spc => commas == 4,
        Format::Mqsim => commas == 0 && words == 5,
        Format::Fiu => commas == 0 && words >= 9,
        // `8,0`, and at least six more fields.
        Format::Blkparse => commas == 1 && words >= 7,
        _ => false,
    }
}
