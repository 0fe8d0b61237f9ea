//! Tables of chunks: how far each chunk is written, and the out-of-band data of each write.
//!
//! ```text
//!  head    0 "PLBLCHNK"   8 crc32c of what follows   12 six words of the shape   36 epoch u64
//!  table   0 "PLBT"   4 crc32c of what follows   8 epoch u64   16 generation u64   24 chunk u32   28 writes u32
//!          32 out-of-band data of each write, in order
//! ```
//! All numbers are little endian. A table is valid only with the epoch of the head; formatting starts a new
//! epoch. Each reset gives a chunk the next generation, in the first sector of its table; further sectors are
//! valid only with the same generation. Sectors are filled in order, and the last one is rewritten with each
//! write: a block drive writes a sector as a whole or not at all.

pub(super) const HEADER_BYTES: usize = 32;
const HEAD_MAGIC: &[u8; 8] = b"PLBLCHNK";
const MAGIC: &[u8; 4] = b"PLBT";

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Encodes a head into one sector.
pub(super) fn head(shape: [u32; 6], epoch: u64, sector_bytes: usize) -> Vec<u8> {
    let mut out = vec![0; 12];
    shape.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    out.extend_from_slice(&epoch.to_le_bytes());
    let checksum = crc32c::crc32c(&out[12..]);
    out[..8].copy_from_slice(HEAD_MAGIC);
    out[8..12].copy_from_slice(&checksum.to_le_bytes());
    out.resize(sector_bytes, 0);
    out
}

/// Returns the layout and epoch of a head; `None` if the bytes are no head.
pub(super) fn parse_head(bytes: &[u8]) -> Option<([u32; 6], u64)> {
    let good = bytes.starts_with(HEAD_MAGIC) && word(bytes, 8)? == crc32c::crc32c(bytes.get(12..44)?);
    let mut shape = [0; 6];
    for (at, value) in (12..).step_by(4).zip(&mut shape) {
        *value = word(bytes, at)?;
    }
    good.then_some((shape, long(bytes, 36)?))
}

/// Header of a table sector, in front of the out-of-band data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub epoch: u64,
    pub generation: u64,
    pub chunk: u32,
    pub writes: u32,
}

/// Completes a table sector whose out-of-band data follow the space for the header.
pub(super) fn seal(sector: &mut Vec<u8>, header: Header, sector_bytes: usize) {
    sector.resize(sector_bytes, 0);
    sector[..4].copy_from_slice(MAGIC);
    sector[8..16].copy_from_slice(&header.epoch.to_le_bytes());
    sector[16..24].copy_from_slice(&header.generation.to_le_bytes());
    sector[24..28].copy_from_slice(&header.chunk.to_le_bytes());
    sector[28..32].copy_from_slice(&header.writes.to_le_bytes());
    let checksum = crc32c::crc32c(&sector[8..]);
    sector[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// Content of a table sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sector {
    /// It holds no table of this chunk.
    Other,
    Table(Header),
    /// It was a table of this chunk, and its checksum is wrong.
    Damaged,
}

/// Reads the table sector of `chunk` on a drive with this epoch. Bytes with a wrong checksum are a damaged table if the epoch and either the
/// chunk or the mark at the beginning are right: anything else may be what the drive held before its format.
pub(super) fn parse(bytes: &[u8], chunk: u32, epoch: u64) -> Sector {
    let fields = || {
        let header = Header {
            epoch: long(bytes, 8)?,
            generation: long(bytes, 16)?,
            chunk: word(bytes, 24)?,
            writes: word(bytes, 28)?,
        };
        Some((header, word(bytes, 4)? == crc32c::crc32c(bytes.get(8..)?)))
    };
    let Some((header, is_whole)) = fields() else { return Sector::Other };
    let (marked, its) = (bytes.starts_with(MAGIC), header.chunk == chunk);
    match header.epoch == epoch {
        _ if is_whole && marked && its => Sector::Table(header),
        true if marked || its => Sector::Damaged,
        _ => Sector::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_tables_come_back_and_damage_is_seen() {
        let good = head([1, 2, 3, 4, 5, 6], 7, 512);
        assert_eq!(parse_head(&good), Some(([1, 2, 3, 4, 5, 6], 7)));
        for at in 0..44 {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(parse_head(&bad), None, "byte {at}");
        }
        let header = Header { epoch: 1, generation: 2, chunk: 3, writes: 4 };
        let mut sector = vec![9; HEADER_BYTES + 64];
        seal(&mut sector, header, 512);
        assert_eq!((parse(&sector, 3, 1), sector.len()), (Sector::Table(header), 512));
        for at in 0..512 {
            let mut bad = sector.clone();
            bad[at] ^= 1;
            // Without its epoch it may be a table from before a format.
            let expected = if (8..16).contains(&at) { Sector::Other } else { Sector::Damaged };
            assert_eq!(parse(&bad, 3, 1), expected, "byte {at}");
        }
        assert_eq!(parse(&sector, 3, 2), Sector::Table(header), "of an older epoch, as its header says");
        assert_eq!(parse(&[0; 512], 0, 1), Sector::Other);
        assert_eq!((parse(&[], 0, 1), parse_head(&[0; 512])), (Sector::Other, None));
    }
}
