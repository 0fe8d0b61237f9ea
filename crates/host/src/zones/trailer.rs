//! Trailer of a batch: the out-of-band data of the batch's sectors, in the sector after them.
//!
//! ```text
//!  zone    [ data ... data | trailer ][ data ... data | trailer ] ...
//!  trailer 0 "PLZT"   4 crc32c of what follows   8 zone u32   12 batch u32   16 16 bytes for each data sector, in order
//!           then, where it fits, the batch before: 4 crc32c as in its own trailer   4 16 bytes for each of its data sectors
//! ```
//! All numbers are little endian; the rest of the sector is zero and not covered by a checksum. An unreadable
//! trailer loses nothing, because the next one repeats it; only the last one of a zone is not yet repeated.
//! The content of a padded batch, or of one written before a start, is not repeated. After a power cut, a
//! zone holds a prefix of its writes. So a batch with a trailer is complete, and one without is not.

use pellucid_flash::Vector;

const MAGIC: &[u8; 4] = b"PLZT";
const HEADER_BYTES: usize = 16;

/// Returns the maximum sectors of a batch, including its trailer, for this sector size.
pub(super) const fn batch_sectors_max(sector_bytes: u32) -> u32 {
    1 + (sector_bytes.saturating_sub(HEADER_BYTES as u32)) / Vector::METADATA_BYTES as u32
}

/// Returns the checksum of a batch's out-of-band data.
fn checksum(zone: u32, batch: u32, metadata: &[u8]) -> u32 {
    let place = crc32c::crc32c_append(crc32c::crc32c(&zone.to_le_bytes()), &batch.to_le_bytes());
    crc32c::crc32c_append(place, metadata)
}

/// Appends a trailer as a whole sector. `before` is the out-of-band data of the previous batch, if it is
/// known.
pub(super) fn put(
    out: &mut Vec<u8>,
    sector_bytes: usize,
    (zone, batch): (u32, u32),
    metadata: &[u8],
    before: Option<&[u8]>,
) {
    let from = out.len();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&checksum(zone, batch, metadata).to_le_bytes());
    out.extend_from_slice(&zone.to_le_bytes());
    out.extend_from_slice(&batch.to_le_bytes());
    out.extend_from_slice(metadata);
    if let Some(before) = before.filter(|before| out.len() - from + 4 + before.len() <= sector_bytes) {
        out.extend_from_slice(&checksum(zone, batch - 1, before).to_le_bytes());
        out.extend_from_slice(before);
    }
    out.resize(from + sector_bytes, 0);
}

/// Returns the out-of-band data of a batch of `sectors` data sectors; `None` if this is not its trailer.
pub(super) fn parse(bytes: &[u8], zone: u32, batch: u32, sectors: u32) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let end = HEADER_BYTES + sectors as usize * Vector::METADATA_BYTES;
    let good = bytes.starts_with(MAGIC)
        && word(4)? == crc32c::crc32c(bytes.get(8..end)?)
        && (word(8)?, word(12)?) == (zone, batch);
    good.then(|| &bytes[HEADER_BYTES..end])
}

/// Returns the out-of-band data of the batch before this trailer's, as [`parse`] does.
pub(super) fn parse_before(bytes: &[u8], zone: u32, batch: u32, sectors: u32) -> Option<&[u8]> {
    parse(bytes, zone, batch, sectors)?;
    let length = sectors as usize * Vector::METADATA_BYTES;
    let from = HEADER_BYTES + length;
    let crc = u32::from_le_bytes(bytes.get(from..from + 4)?.try_into().ok()?);
    let before = bytes.get(from + 4..from + 4 + length)?;
    (crc == checksum(zone, batch.checked_sub(1)?, before)).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_comes_back_and_damage_is_seen() {
        let metadata: Vec<u8> = (0..3 * 16).collect();
        let mut bytes = vec![9];
        put(&mut bytes, 512, (7, 3), &metadata, None);
        let bytes = &bytes[1..];
        assert_eq!(bytes.len(), 512);
        assert_eq!(parse(bytes, 7, 3, 3), Some(&metadata[..]));
        assert_eq!(parse_before(bytes, 7, 3, 3), None);
        assert_eq!(parse(bytes, 8, 3, 3), None);
        assert_eq!(parse(bytes, 7, 2, 3), None);
        assert_eq!(parse(bytes, 7, 3, 4), None);
        assert_eq!(parse(&[0; 512], 0, 0, 3), None);
        assert_eq!(parse(&bytes[..40], 7, 3, 3), None);
        for at in 0..16 + metadata.len() {
            let mut bad = bytes.to_vec();
            bad[at] ^= 1;
            assert_eq!(parse(&bad, 7, 3, 3), None, "a flipped bit in byte {at}");
        }
    }

    #[test]
    fn the_longest_batch_has_a_trailer_of_one_sector() {
        for sector in [512u32, 4096] {
            let data = batch_sectors_max(sector) - 1;
            let mut bytes = Vec::new();
            let metadata = vec![1; data as usize * 16];
            put(&mut bytes, sector as usize, (0, 1), &metadata, Some(&metadata));
            assert_eq!(bytes.len() as u32, sector);
            assert!(parse(&bytes, 0, 1, data).is_some() && parse_before(&bytes, 0, 1, data).is_none());
        }
    }

    #[test]
    fn a_trailer_repeats_the_one_before_where_it_fits() {
        let [own, before] = [1u8, 2].map(|value| vec![value; 3 * 16]);
        let mut bytes = Vec::new();
        put(&mut bytes, 512, (7, 3), &own, Some(&before));
        assert_eq!(bytes.len(), 512);
        assert_eq!(parse(&bytes, 7, 3, 3), Some(&own[..]));
        assert_eq!(parse_before(&bytes, 7, 3, 3), Some(&before[..]));
        assert_eq!(parse_before(&bytes, 7, 4, 3), None);
        for at in 0..16 + own.len() + 4 + before.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert_eq!(parse_before(&bad, 7, 3, 3), None, "a flipped bit in byte {at}");
        }
    }
}
