//! Checksums of a segment.
//!
//! ```text
//!   the segment's bytes │ crc32c of each 16 KiB of them │ bytes (u64)   fnv1a of the segment's name (u64)   crc32c of all from the sums on
//! ```
//! Numbers are little endian. The name is covered so that one segment's file is not taken for another's.

use pellucid_flash::{FNV_BASIS, fnv1a};
use std::io;

/// Bytes of the trailer after the checksums.
const END_BYTES: u64 = 20;

/// Checksums of a growing segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    /// Checksum of each block; the last block may be partial.
    sums: Vec<u32>,
    bytes: u64,
}

impl Sums {
    /// Bytes of a block: checksums are few, and small reads read little beyond their range.
    pub const BLOCK_BYTES: u64 = 16 << 10;

    /// Returns the length of the segment so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds the next bytes of the segment.
    pub fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let held = self.bytes % Sums::BLOCK_BYTES;
            let (part, rest) = data.split_at(data.len().min((Sums::BLOCK_BYTES - held) as usize));
            let before = if held == 0 { 0 } else { self.sums.pop().expect("a block was begun") };
            self.sums.push(crc32c::crc32c_append(before, part));
            self.bytes += part.len() as u64;
            data = rest;
        }
    }

    /// Seals the segment `name`.
    pub fn seal(self, name: &str) -> Trailer {
        Trailer { sums: self, name: fnv1a(FNV_BASIS, name.bytes()) }
    }
}

/// Trailer of a sealed segment.
#[derive(Clone, Debug)]
pub(crate) struct Trailer {
    sums: Sums,
    name: u64,
}

impl Trailer {
    /// Returns the length of the segment.
    pub fn bytes(&self) -> u64 {
        self.sums.bytes
    }

    /// Encodes the trailer as it follows the segment's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut encoded: Vec<u8> = self.sums.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        encoded.extend(self.sums.bytes.to_le_bytes());
        encoded.extend(self.name.to_le_bytes());
        let sum = crc32c::crc32c(&encoded);
        encoded.extend(sum.to_le_bytes());
        encoded
    }

    /// Reads the trailer of the segment `name` from a file of the given length. The inner error describes the
    /// damage.
    pub fn read(
        name: &str,
        file_bytes: u64,
        read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<Result<Trailer, String>> {
        let cut = || Ok(Err("it does not end with its checksums".into()));
        let Some(at) = file_bytes.checked_sub(END_BYTES) else { return cut() };
        let mut end = [0; END_BYTES as usize];
        read(at, &mut end)?;
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| end[at + byte]));
        let (bytes, own) = (long(0), long(8));
        let blocks = bytes.div_ceil(Sums::BLOCK_BYTES);
        if bytes > file_bytes || bytes + 4 * blocks + END_BYTES != file_bytes {
            return cut();
        }
        let mut sums = vec![0; 4 * blocks as usize];
        read(bytes, &mut sums)?;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&sums), &end[..16]);
        if sum.to_le_bytes() != end[16..] {
            return Ok(Err("its checksums are not those that were written".into()));
        }
        if own != fnv1a(FNV_BASIS, name.bytes()) {
            return Ok(Err("it is another segment".into()));
        }
        let sums = sums.as_chunks::<4>().0.iter().map(|sum| u32::from_le_bytes(*sum)).collect();
        Ok(Ok(Trailer { sums: Sums { sums, bytes }, name: own }))
    }

    /// Checks whole blocks that begin at byte `from`. The error locates the damage.
    pub fn check(&self, from: u64, blocks: &[u8]) -> Result<(), String> {
        let first = (from / Sums::BLOCK_BYTES) as usize;
        for (block, bytes) in (first..).zip(blocks.chunks(Sums::BLOCK_BYTES as usize)) {
            if self.sums.sums.get(block) != Some(&crc32c::crc32c(bytes)) {
                let at = block as u64 * Sums::BLOCK_BYTES;
                return Err(format!("its bytes from {at} on are not those that were written"));
            }
        }
        Ok(())
    }
}
