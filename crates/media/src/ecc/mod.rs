//! Error correction: redundancy that a controller adds to a page so that wrong bits can be found and corrected.
//!
//! [`Bch`] protects one chunk; [`PageEcc`] lays chunks and parity out over the data and spare area of a page.
//! COSMOS+ OpenSSD corrects 13 bits in every 256 bytes (Kwak et al., ACM TOS 16(3), 2020, section 5): 20
//! bytes of parity per chunk.
//!
//! Invariant: successful decoding returns the encoded data, as long as no chunk has more wrong bits than the code's strength.

mod bch;
mod division;
mod galois;
mod locate;
mod page;

pub use bch::Bch;
pub use page::{PageCorrection, PageEcc, PageUncorrectable};

/// More bits of a chunk are wrong than the code can correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more wrong bits than the code can correct")]
pub struct Uncorrectable;

/// Reason for refusing an error-correcting code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EccError {
    /// The number of correctable bits is out of range.
    #[error("ECC strength = {strength} bits: allowed: 1 to {max}")]
    Strength {
        /// Requested strength, in bits.
        strength: usize,
        /// Largest strength allowed, in bits.
        max: usize,
    },
    /// The chunk is empty or too long for any supported field.
    #[error("ECC chunk = {chunk_bytes} bytes: allowed: 1 to {max} with {strength} correctable bits")]
    ChunkBytes {
        /// Requested chunk size, in bytes.
        chunk_bytes: usize,
        /// Bits to be corrected.
        strength: usize,
        /// The longest chunk allowed with this strength, in bytes.
        max: usize,
    },
    /// The page is not a whole number of chunks.
    #[error("ECC chunk = {chunk_bytes} bytes: allowed: divisors of the page's {page_bytes} data bytes")]
    PageBytes {
        /// Data bytes of the page.
        page_bytes: usize,
        /// Data bytes of a chunk.
        chunk_bytes: usize,
    },
    /// The parity of all chunks does not fit the spare area.
    #[error(
        "ECC strength = {strength} bits: {chunks} chunks with {parity_bytes} bytes of parity need {} spare bytes of {spare_bytes}; {}",
        .chunks * .parity_bytes,
        with_these_chunks(*.max_strength)
    )]
    SpareBytes {
        /// Spare bytes of the page.
        spare_bytes: usize,
        /// Chunks in the page.
        chunks: usize,
        /// Parity bytes of each.
        parity_bytes: usize,
        /// Bits to be corrected in each.
        strength: usize,
        /// The largest strength that fits, in bits; 0 when none does.
        max_strength: usize,
    },
}

impl EccError {
    /// Describes the allowed values.
    pub fn allowed(&self) -> String {
        match *self {
            EccError::Strength { max, .. } => format!("1 to {max}"),
            EccError::ChunkBytes { strength, max, .. } => {
                format!("1 to {max} with {strength} correctable bits")
            }
            EccError::PageBytes { page_bytes, .. } => {
                format!("divisors of the page's {page_bytes} data bytes")
            }
            EccError::SpareBytes { max_strength: 0, .. } => {
                "larger chunks or a larger spare area, as not even 1 bit fits".into()
            }
            EccError::SpareBytes { spare_bytes, chunks, parity_bytes, max_strength, .. } => {
                let needed = chunks * parity_bytes;
                format!(
                    "1 to {max_strength} with these chunks, as {chunks} x {parity_bytes} bytes of parity would need \
                     {needed} spare bytes of {spare_bytes}"
                )
            }
        }
    }
}

fn with_these_chunks(max_strength: usize) -> String {
    match max_strength {
        0 => "allowed: larger chunks or a larger spare area, as not even 1 bit fits".into(),
        max => format!("allowed 1 to {max} with these chunks"),
    }
}
