//! On-media format of the host FTL's metadata.
//!
//! ```text
//! out-of-band, each sector   0 logical page u32   4 signature u32 (uuid and line)   8 sequence u64
//! start, first superpage        0 "PLUCSTRT"   header   64 first sector of the line's chunk in each parallel unit, u64 each
//! end, last superpages          0 "PLUCLEND"   header   64 sequence of each data superpage u64, then page of each sector u32
//! index, behind data         as an end, of the data superpages before it; its own sectors have the logical page `INDEX`
//! header                     8 crc32c of 12..64   12 crc32c of the rest   16 uuid u64   24 line u32   28 count u32
//!                            32 sectors u32   36 first page u32   40 first sequence u64   48 last sequence u64   56 journal u32   60 zero
//! ```
//! `sectors` counts the sectors of an end's data. In a start, it is the number of addressable sectors, 0 in
//! older formats: a layer with another capacity would look for its translation pages elsewhere, and refuses
//! to start. `journal` of a start is 1 if there are translation pages, which alone hold the trims; a layer
//! that would ignore them also refuses.
//!
//! All numbers are little endian. A sector with a different signature belongs to something else.

use super::line::End;
use pellucid_flash::{BlockId, Lba, Lpn, Vector};

/// Out-of-band bytes of a sector.
pub(crate) const OOB_BYTES: usize = Vector::METADATA_BYTES;

/// Logical page that marks the sectors of an index.
pub(crate) const INDEX: Lpn = Lpn(u32::MAX - 2);

const START: &[u8; 8] = b"PLUCSTRT";
const END: &[u8; 8] = b"PLUCLEND";
const HEADER_BYTES: u64 = 64;

/// Returns the bytes of a start.
pub(crate) const fn start_bytes(units: u32) -> u64 {
    HEADER_BYTES + units as u64 * 8
}

/// Returns the bytes of an end.
pub(crate) const fn end_bytes(superpages: u32, sectors: u32) -> u64 {
    HEADER_BYTES + superpages as u64 * 8 + sectors as u64 * 4
}

/// Header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub line: BlockId,
    /// Number of parallel units in a start, or of data superpages in an end.
    pub count: u32,
    /// Number of sectors in an end; in a start, the number of addressable sectors, or 0 if unknown.
    pub sectors: u32,
    /// Logical page of the line's first sector.
    pub first_page: Lpn,
    /// Sequence number at which the line was begun, or of its first superpage.
    pub first: u64,
    /// Sequence number of the last superpage.
    pub last: u64,
    /// The target has translation pages (set in the start of a line).
    pub journal: bool,
}

fn signature(uuid: u64, line: BlockId) -> u32 {
    let mixed = (uuid ^ u64::from(line.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}

/// Appends the out-of-band data of one sector.
#[inline]
pub(crate) fn put_oob(out: &mut Vec<u8>, uuid: u64, line: BlockId, page: Lpn, sequence: u64) {
    let mut oob = [0; OOB_BYTES];
    oob[..4].copy_from_slice(&page.0.to_le_bytes());
    oob[4..8].copy_from_slice(&signature(uuid, line).to_le_bytes());
    oob[8..].copy_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&oob);
}

/// Returns the logical page and sequence number of a sector of `line`; `None` if the sector belongs to
/// something else.
#[inline]
pub(crate) fn parse_oob(bytes: &[u8], uuid: u64, line: BlockId) -> Option<(Lpn, u64)> {
    (word(bytes, 4)? == signature(uuid, line)).then_some(())?;
    Some((Lpn(word(bytes, 0)?), long(bytes, 8)?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Makes a record of header and body, with checksums.
fn record(magic: &[u8; 8], uuid: u64, header: &Header, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES as usize + body.len());
    out.extend_from_slice(magic);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
    out.extend_from_slice(&uuid.to_le_bytes());
    for value in [header.line.0, header.count, header.sectors, header.first_page.0] {
        out.extend_from_slice(&value.to_le_bytes());
    }
    for value in [header.first, header.last] {
        out.extend_from_slice(&value.to_le_bytes());
    }
    out.extend_from_slice(&u32::from(header.journal).to_le_bytes());
    out.resize(HEADER_BYTES as usize, 0);
    let crc = crc32c::crc32c(&out[12..]);
    out[8..12].copy_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(body);
    out
}

fn parse_header(bytes: &[u8], magic: &[u8; 8], uuid: u64) -> Option<Header> {
    let bytes = bytes.get(..HEADER_BYTES as usize)?;
    let good = bytes.starts_with(magic)
        && word(bytes, 8)? == crc32c::crc32c(&bytes[12..])
        && long(bytes, 16)? == uuid;
    good.then_some(())?;
    Some(Header {
        line: BlockId(word(bytes, 24)?),
        count: word(bytes, 28)?,
        sectors: word(bytes, 32)?,
        first_page: Lpn(word(bytes, 36)?),
        first: long(bytes, 40)?,
        last: long(bytes, 48)?,
        journal: word(bytes, 56)? == 1,
    })
}

/// Returns the body of a record of `length` bytes, if it is intact.
fn body(bytes: &[u8], length: u64) -> Option<&[u8]> {
    let body = bytes.get(HEADER_BYTES as usize..usize::try_from(length).ok()?)?;
    (crc32c::crc32c(body) == word(bytes, 12)?).then_some(body)
}

/// Encodes the start of a line: its chunks, by parallel unit, and the sequence number at which it was begun.
pub(crate) fn start(
    uuid: u64,
    line: BlockId,
    sequence: u64,
    (user_sectors, journal): (u32, bool),
    chunks: impl ExactSizeIterator<Item = Lba>,
) -> Vec<u8> {
    let count = chunks.len() as u32;
    let (sectors, first_page) = (user_sectors, Lpn::NONE);
    let header = Header { line, count, sectors, first_page, first: sequence, last: sequence, journal };
    let body: Vec<u8> = chunks.flat_map(|lba| lba.0.to_le_bytes()).collect();
    record(START, uuid, &header, &body)
}

/// Decodes the header of a start.
pub(crate) fn parse_start_header(bytes: &[u8], uuid: u64) -> Option<Header> {
    parse_header(bytes, START, uuid)
}

/// Decodes a start, with the line's chunks.
pub(crate) fn parse_start(bytes: &[u8], uuid: u64, units: u32) -> Option<(Header, Vec<Lba>)> {
    let header = parse_start_header(bytes, uuid).filter(|h| h.count == units)?;
    let body = body(bytes, start_bytes(units))?;
    let chunks = (0..units as usize).map(|unit| Some(Lba(long(body, unit * 8)?)));
    Some((header, chunks.collect::<Option<_>>()?))
}

/// Encodes the end of a line.
pub(crate) fn end(uuid: u64, line: BlockId, content: &End) -> Vec<u8> {
    let header = Header {
        line,
        count: content.sequences.len() as u32,
        sectors: content.pages.len() as u32,
        first_page: content.pages.first().copied().unwrap_or(Lpn::NONE),
        first: content.sequences.first().copied().unwrap_or(0),
        last: content.sequences.last().copied().unwrap_or(0),
        journal: false,
    };
    let sequences = content.sequences.iter().flat_map(|sequence| sequence.to_le_bytes());
    let body: Vec<u8> = sequences.chain(content.pages.iter().flat_map(|page| page.0.to_le_bytes())).collect();
    record(END, uuid, &header, &body)
}

/// Decodes the header of an end, which suffices for the line's sequence numbers.
pub(crate) fn parse_end_header(
    bytes: &[u8],
    uuid: u64,
    line: BlockId,
    superpages: u32,
    sectors: u32,
) -> Option<Header> {
    let fits = |h: &Header| h.line == line && h.count == superpages && h.sectors == sectors;
    parse_header(bytes, END, uuid).filter(fits)
}

/// Decodes an end.
pub(crate) fn parse_end(
    bytes: &[u8],
    uuid: u64,
    line: BlockId,
    superpages: u32,
    sectors: u32,
) -> Option<End> {
    parse_end_header(bytes, uuid, line, superpages, sectors)?;
    let body = body(bytes, end_bytes(superpages, sectors))?;
    let sequences = (0..superpages as usize).map(|i| long(body, i * 8)).collect::<Option<_>>()?;
    let pages = (0..sectors as usize).map(|i| Some(Lpn(word(body, superpages as usize * 8 + i * 4)?)));
    Some(End { sequences, pages: pages.collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damage_is_seen() {
        let line = BlockId(7);
        let chunks = [Lba(64), Lba(1 << 33)];
        let bytes = start(5, line, 9, (1000, true), chunks.into_iter());
        assert_eq!(bytes.len() as u64, start_bytes(2));
        let (header, back) = parse_start(&bytes, 5, 2).expect("intact");
        assert_eq!((header.line, header.first, header.sectors, back), (line, 9, 1000, chunks.to_vec()));
        assert_eq!(parse_start_header(&bytes[..64], 5), Some(header));
        assert!(header.journal && header.count == 2);
        assert_eq!(parse_start(&bytes, 6, 2), None);
        assert_eq!(parse_start(&bytes, 5, 3), None);
        let content = End { sequences: vec![3, 9], pages: vec![Lpn(1), Lpn::NONE, Lpn(4), Lpn(0)] };
        let good = end(5, line, &content);
        let back = parse_end(&good, 5, line, 2, 4).expect("intact");
        assert_eq!((back.sequences, back.pages), (content.sequences, content.pages));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(parse_end(&bad, 5, line, 2, 4).is_none(), "a flipped bit in byte {at}");
        }
    }

    #[test]
    fn sectors_of_others_are_not_ours() {
        let mut bytes = Vec::new();
        put_oob(&mut bytes, 5, BlockId(2), Lpn(77), 1 << 40);
        assert_eq!(parse_oob(&bytes, 5, BlockId(2)), Some((Lpn(77), 1 << 40)));
        assert_eq!(parse_oob(&bytes, 5, BlockId(3)), None);
        assert_eq!(parse_oob(&bytes, 4, BlockId(2)), None);
        assert_eq!(parse_oob(&[0; 16], 5, BlockId(2)), None);
    }
}
