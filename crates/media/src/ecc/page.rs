//! The layout of a protected page: data in chunks, the parity of chunk `i` at `i * parity_bytes` of the spare
//! area. Spare bytes after the last parity are free for other uses, and are neither read nor written here.

use super::{Bch, EccError};

/// The code of a page.
#[derive(Clone, Debug)]
pub struct PageEcc {
    code: Bch,
    page_bytes: usize,
    spare_bytes: usize,
}

/// Result of a successful decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCorrection {
    /// Bits corrected in the whole page.
    pub bits: u32,
    /// Bits corrected in the worst chunk: the distance to losing the page.
    pub worst_chunk_bits: u32,
}

/// At least one chunk of the page could not be corrected. Chunks that could be are; the others are untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} uncorrectable chunks, the first is chunk {}", .chunks, .first_chunk)]
pub struct PageUncorrectable {
    /// The first such chunk.
    pub first_chunk: usize,
    /// How many there are.
    pub chunks: usize,
}

impl PageEcc {
    /// A page of `page_bytes` data and `spare_bytes` spare bytes, cut into chunks of `chunk_bytes` in each of
    /// which `strength` bits can be corrected. Refused when the chunks do not divide the page or the parity
    /// does not fit.
    pub fn new(
        page_bytes: usize,
        spare_bytes: usize,
        chunk_bytes: usize,
        strength: usize,
    ) -> Result<PageEcc, EccError> {
        if chunk_bytes == 0 || page_bytes == 0 || !page_bytes.is_multiple_of(chunk_bytes) {
            return Err(EccError::PageBytes { page_bytes, chunk_bytes });
        }
        let code = Bch::new(chunk_bytes, strength)?;
        let chunks = page_bytes / chunk_bytes;
        let parity_bytes = code.parity_bytes();
        if chunks * parity_bytes > spare_bytes {
            // Rare and not hot: a precise message is worth building the smaller codes.
            let fits =
                |t: &usize| Bch::new(chunk_bytes, *t).is_ok_and(|b| b.parity_bytes() <= spare_bytes / chunks);
            let max_strength = (1..strength).rev().find(fits).unwrap_or(0);
            return Err(EccError::SpareBytes { spare_bytes, chunks, parity_bytes, strength, max_strength });
        }
        Ok(PageEcc { code, page_bytes, spare_bytes })
    }

    /// The code of one chunk.
    pub fn code(&self) -> &Bch {
        &self.code
    }

    /// Chunks in the page.
    pub fn chunks(&self) -> usize {
        self.page_bytes / self.code.chunk_bytes()
    }

    /// Spare bytes taken by parity, at the start of the spare area.
    pub fn parity_bytes(&self) -> usize {
        self.chunks() * self.code.parity_bytes()
    }

    /// Writes the parity of a page's data into its spare area.
    ///
    /// # Panics
    /// If the slices are not as long as the page's data and spare areas.
    pub fn encode(&self, data: &[u8], spare: &mut [u8]) {
        self.check_sizes(data, spare);
        let chunks = data.chunks_exact(self.code.chunk_bytes());
        for (chunk, parity) in chunks.zip(spare.chunks_exact_mut(self.code.parity_bytes())) {
            self.code.encode(chunk, parity);
        }
    }

    /// Corrects a page in place.
    ///
    /// # Panics
    /// If the slices are not as long as the page's data and spare areas.
    pub fn decode(&self, data: &mut [u8], spare: &mut [u8]) -> Result<PageCorrection, PageUncorrectable> {
        self.check_sizes(data, spare);
        let mut correction = PageCorrection::default();
        let mut failure: Option<PageUncorrectable> = None;
        let chunks = data.chunks_exact_mut(self.code.chunk_bytes());
        for (i, (chunk, parity)) in chunks.zip(spare.chunks_exact_mut(self.code.parity_bytes())).enumerate() {
            match self.code.decode(chunk, parity) {
                Ok(bits) => {
                    correction.bits += bits;
                    correction.worst_chunk_bits = correction.worst_chunk_bits.max(bits);
                }
                Err(_) => failure.get_or_insert(PageUncorrectable { first_chunk: i, chunks: 0 }).chunks += 1,
            }
        }
        failure.map_or(Ok(correction), Err)
    }

    fn check_sizes(&self, data: &[u8], spare: &[u8]) {
        assert_eq!(data.len(), self.page_bytes, "the data area of this page");
        assert_eq!(spare.len(), self.spare_bytes, "the spare area of this page");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;

    #[test]
    fn a_cosmos_page_survives_its_errors_and_keeps_the_rest_of_the_spare_area() {
        let ecc = PageEcc::new(16_384, 1_664, 256, 13).expect("64 x 20 bytes fit 1,664");
        assert_eq!((ecc.chunks(), ecc.parity_bytes()), (64, 1_280));
        let mut rng = Rng::new(3);
        let data: Vec<u8> = (0..16_384).map(|_| rng.next_u64() as u8).collect();
        let mut spare = vec![0x5a; 1_664];
        ecc.encode(&data, &mut spare);
        assert!(spare[1_280..].iter().all(|&b| b == 0x5a));
        let (mut read, mut read_spare) = (data.clone(), spare.clone());
        for bit in 0..13 {
            read[7 * 256 + 11 * bit] ^= 1 << (bit % 8);
        }
        read[9 * 256] ^= 0x81;
        read_spare[63 * 20] ^= 0x10;
        let correction = ecc.decode(&mut read, &mut read_spare);
        assert_eq!(correction, Ok(PageCorrection { bits: 16, worst_chunk_bits: 13 }));
        assert_eq!((read, read_spare), (data, spare));
    }

    #[test]
    fn a_lost_chunk_is_named_and_the_others_are_corrected() {
        let ecc = PageEcc::new(2_048, 64, 512, 4).expect("4 x 7 bytes fit 64");
        let mut data = vec![0xc3; 2_048];
        let mut spare = vec![0; 64];
        ecc.encode(&data, &mut spare);
        data[100] ^= 1; // chunk 0: one bit
        for byte in &mut data[1_024..1_044] {
            *byte ^= 0x42; // chunk 2: forty bits
        }
        let damaged = data[1_024..1_536].to_vec();
        assert_eq!(ecc.decode(&mut data, &mut spare), Err(PageUncorrectable { first_chunk: 2, chunks: 1 }));
        assert!(data[..1_024].iter().all(|&b| b == 0xc3));
        assert_eq!(data[1_024..1_536], damaged);
    }

    #[test]
    fn codes_that_do_not_fit_are_refused_with_the_numbers() {
        let message =
            |page, spare, chunk, t| PageEcc::new(page, spare, chunk, t).err().map(|e| e.to_string());
        assert_eq!(
            message(16_384, 1_200, 256, 13).as_deref(),
            Some(
                "ECC strength = 13 bits: 64 chunks with 20 bytes of parity need 1280 spare bytes of 1200; \
                 allowed 1 to 12 with these chunks"
            )
        );
        assert_eq!(
            message(16_384, 64, 256, 13).as_deref(),
            Some(
                "ECC strength = 13 bits: 64 chunks with 20 bytes of parity need 1280 spare bytes of 64; \
                 allowed: larger chunks or a larger spare area, as not even 1 bit fits"
            )
        );
        assert_eq!(
            message(16_384, 1_664, 300, 13).as_deref(),
            Some("ECC chunk = 300 bytes: allowed: divisors of the page's 16384 data bytes")
        );
        assert_eq!(message(16_384, 1_664, 0, 13).map(|m| m.starts_with("ECC chunk = 0 bytes")), Some(true));
        assert_eq!(
            message(16_384, 1_664, 256, 0).as_deref(),
            Some("ECC strength = 0 bits: allowed: 1 to 128")
        );
        assert_eq!(
            message(16_384, 1_664, 16_384, 13).as_deref(),
            Some("ECC chunk = 16384 bytes: allowed: 1 to 8165 with 13 correctable bits")
        );
    }
}
