//! A shortened binary BCH code: corrects up to `t` wrong bits in a chunk of data and its parity together.
//!
//! Built over the smallest field GF(2^m) that has room: data bits + m t <= 2^m - 1. The generator is the
//! least common multiple of the minimal polynomials of alpha, alpha^3, ..., alpha^(2t - 1). Data come first,
//! most significant bit first, then the parity; if the parity is no whole number of bytes, the low bits of
//! its last byte are zero and not protected.
//!
//! Textbook: Lin and Costello, "Error Control Coding", 2nd ed., chapter 6.
//!
//! Invariants: a chunk and its parity are changed only by a successful decode, and then form a word of the
//! code; nothing is allocated after construction but the table of the first search for three or more errors.

use super::division::{Divider, MAX_WORDS};
use super::galois::{Field, MAX_DEGREE, MIN_DEGREE};
use super::locate::{MAX_STRENGTH, RootFinder, locator};
use super::{EccError, Uncorrectable};

/// A BCH code for chunks of one size, with its tables (about 150 KB for 13 bits in 256 bytes).
#[derive(Clone, Debug)]
pub struct Bch {
    chunk_bytes: usize,
    strength: usize,
    parity_bits: usize,
    field: Field,
    divider: Divider,
    /// Row `i`, for the `i`-th bit of the parity from its start: that bit's share of S(1), S(3), ..., S(2t -
    /// 1).
    syndrome_rows: Vec<u16>,
    roots: RootFinder,
}

impl Bch {
    /// The most bits that a code corrects.
    pub const STRENGTH_MAX: usize = MAX_STRENGTH;

    /// A code that corrects `strength` bits (1 to 128) in `chunk_bytes` bytes of data plus their parity.
    pub fn new(chunk_bytes: usize, strength: usize) -> Result<Bch, EccError> {
        if !(1..=MAX_STRENGTH).contains(&strength) {
            return Err(EccError::Strength { strength, max: MAX_STRENGTH });
        }
        let longest = |m: u32| ((1 << m) - 1 - (m as usize * strength).min((1 << m) - 1)) / 8;
        let degree = (MIN_DEGREE..=MAX_DEGREE).find(|&m| (1..=longest(m)).contains(&chunk_bytes));
        let Some(m) = degree else {
            return Err(EccError::ChunkBytes { chunk_bytes, strength, max: longest(MAX_DEGREE) });
        };
        let field = Field::new(m);
        let generator = generator(&field, strength);
        let parity_bits = generator.len() - 1;
        let mut words = vec![0u64; parity_bits.div_ceil(64)];
        for (i, _) in generator.iter().rev().skip(1).enumerate().filter(|(_, c)| **c) {
            words[i / 64] |= 1 << (63 - i % 64);
        }
        let syndrome_rows = (0..parity_bits)
            .flat_map(|i| (0..strength).map(move |j| (parity_bits - 1 - i) as u64 * (2 * j as u64 + 1)))
            .map(|exponent| field.power(exponent))
            .collect();
        let roots = RootFinder::new(m, strength, (chunk_bytes * 8 + parity_bits) as u32);
        let divider = Divider::new(&words);
        Ok(Bch { chunk_bytes, strength, parity_bits, field, divider, syndrome_rows, roots })
    }

    /// Data bytes of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Bits that can be corrected in a chunk and its parity together.
    pub fn strength(&self) -> usize {
        self.strength
    }

    /// Bits of parity.
    pub fn parity_bits(&self) -> usize {
        self.parity_bits
    }

    /// Bytes of parity.
    pub fn parity_bytes(&self) -> usize {
        self.parity_bits.div_ceil(8)
    }

    /// Writes the parity of `chunk`.
    ///
    /// # Panics
    /// If the slices are not of [`Bch::chunk_bytes`] and [`Bch::parity_bytes`].
    pub fn encode(&self, chunk: &[u8], parity: &mut [u8]) {
        self.check_sizes(chunk, parity);
        store(&self.divider.remainder(chunk), parity);
    }

    /// Corrects `chunk` and `parity` in place and returns how many bits were wrong. On [`Uncorrectable`] both
    /// are untouched. More than `t` wrong bits are detected unless the word happens to be within `t` bits of
    /// another codeword, which for random errors has a probability below 1/t!.
    ///
    /// # Panics
    /// If the slices are not of [`Bch::chunk_bytes`] and [`Bch::parity_bytes`].
    pub fn decode(&self, chunk: &mut [u8], parity: &mut [u8]) -> Result<u32, Uncorrectable> {
        self.check_sizes(chunk, parity);
        // A word and its remainder differ by the remainder of the errors, all zero for a word of the code.
        let mut difference = self.divider.remainder(chunk);
        let mut wrong = 0;
        for (i, (word, piece)) in difference.iter_mut().zip(parity.chunks(8)).enumerate() {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            let used = (self.parity_bits - 64 * i).min(64) as u32;
            *word ^= u64::from_be_bytes(bytes) & u64::MAX << (64 - used);
            wrong |= *word;
        }
        let corrected = if wrong == 0 { 0 } else { self.correct(&difference, chunk, parity)? };
        // Padding bits are no part of the code; leave them as encoding does.
        if !self.parity_bits.is_multiple_of(8)
            && let Some(last) = parity.last_mut()
        {
            *last &= u8::MAX << (8 - self.parity_bits % 8);
        }
        Ok(corrected)
    }

    fn check_sizes(&self, chunk: &[u8], parity: &[u8]) {
        assert_eq!(chunk.len(), self.chunk_bytes, "a chunk of this code");
        assert_eq!(parity.len(), self.parity_bytes(), "the parity of this code");
    }

    /// Finds and flips the wrong bits behind a non-zero remainder.
    #[cold]
    fn correct(
        &self,
        difference: &[u64; MAX_WORDS],
        chunk: &mut [u8],
        parity: &mut [u8],
    ) -> Result<u32, Uncorrectable> {
        let syndromes = self.syndromes(difference);
        let (locator, degree) = locator(&self.field, &syndromes, self.strength).ok_or(Uncorrectable)?;
        let mut positions = [0; MAX_STRENGTH];
        if !self.roots.find(&self.field, &locator, degree, &mut positions) {
            return Err(Uncorrectable);
        }
        let data_bits = 8 * self.chunk_bytes;
        for &position in &positions[..degree] {
            // Position 0 is the last bit of the parity.
            let bit = data_bits + self.parity_bits - 1 - position as usize;
            let (bytes, bit) =
                if bit < data_bits { (&mut *chunk, bit) } else { (&mut *parity, bit - data_bits) };
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
        }
        Ok(degree as u32)
    }

    /// S(1) to S(2t): the error polynomial, known modulo the generator, at the generator's roots.
    fn syndromes(&self, difference: &[u64; MAX_WORDS]) -> [u16; 2 * MAX_STRENGTH] {
        let t = self.strength;
        let mut odd = [0u16; MAX_STRENGTH];
        let odd = &mut odd[..t];
        for (i, mut word) in difference.iter().copied().enumerate() {
            while word != 0 {
                let bit = word.leading_zeros() as usize;
                let row = &self.syndrome_rows[(64 * i + bit) * t..][..t];
                odd.iter_mut().zip(row).for_each(|(sum, share)| *sum ^= share);
                word ^= 1 << (63 - bit);
            }
        }
        let mut syndromes = [0; 2 * MAX_STRENGTH];
        for (j, &s) in odd.iter().enumerate() {
            syndromes[2 * j] = s;
            // Squaring is linear in characteristic 2: S(2i) = S(i)^2, and S(i) has been stored before.
            let half = syndromes[j];
            syndromes[2 * j + 1] = self.field.multiply(half, half);
        }
        syndromes
    }
}

/// Writes left-justified words as bytes.
fn store(words: &[u64; MAX_WORDS], parity: &mut [u8]) {
    for (piece, word) in parity.chunks_mut(8).zip(words) {
        let bytes = word.to_be_bytes();
        piece.copy_from_slice(&bytes[..piece.len()]);
    }
}

/// The coefficients of the generator polynomial, constant term first.
fn generator(field: &Field, strength: usize) -> Vec<bool> {
    let order = field.order() as usize;
    let mut is_root = vec![false; order];
    let mut product: Vec<u16> = vec![1];
    for odd in (1..2 * strength).step_by(2) {
        // The conjugates alpha^odd, alpha^(2 odd), ... are the roots of one minimal polynomial.
        let mut exponent = odd % order;
        while !is_root[exponent] {
            is_root[exponent] = true;
            let root = field.power(exponent as u64);
            product.insert(0, 0); // times x ...
            for i in 0..product.len() - 1 {
                product[i] ^= field.multiply(root, product[i + 1]); // ... minus the root
            }
            exponent = 2 * exponent % order;
        }
    }
    debug_assert!(product.iter().all(|&c| c <= 1), "conjugate roots multiply to a binary polynomial");
    product.into_iter().map(|c| c == 1).collect()
}

#[cfg(test)]
mod tests;
