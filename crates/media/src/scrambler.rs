//! The data scrambler: page bytes XOR a pseudo-random stream that depends on the row address alone.
//!
//! After Kwak et al., "COSMOS+ OpenSSD", ACM TOS 16(3), 2020, section 3.2 and Fig. 6: an 8-bit linear
//! feedback shift register (LFSR) seeded by the row address, XORed with the data in units of bytes. The paper
//! does not name the feedback polynomial or how often the register is clocked per byte. Assumed: x^8 + x^6 +
//! x^5 + x^4 + 1, whose period is the longest possible (255 states), and eight clocks per byte, so that
//! neighbouring bytes share no bits.
//!
//! Invariants: the register is never zero (a zero register stays zero and would leave the data unchanged);
//! scrambling twice restores the data. As 8 and 255 are coprime, every seed walks the same cycle of 255 bytes
//! from a different starting point, so one table serves all rows.

/// Length of the cycle in bytes.
const PERIOD: usize = 255;

/// Register states in output order, for two periods, so that a whole period can be taken from any start.
const STREAM: [u8; 2 * PERIOD] = stream();

/// Position of a register state in the cycle; entry 0 is never used.
const START: [u8; 256] = starts();

/// One clock of the Fibonacci register: shift left, feed back bits 7, 5, 4 and 3 (exponents 8, 6, 5, 4 of its polynomial).
const fn clock(state: u8) -> u8 {
    let feedback = (state >> 7 ^ state >> 5 ^ state >> 4 ^ state >> 3) & 1;
    state << 1 | feedback
}

const fn stream() -> [u8; 2 * PERIOD] {
    let mut bytes = [0; 2 * PERIOD];
    let mut state = 1;
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = state;
        let mut clocks = 0;
        while clocks < 8 {
            state = clock(state);
            clocks += 1;
        }
        i += 1;
    }
    bytes
}

const fn starts() -> [u8; 256] {
    let mut starts = [0; 256];
    let mut i = 0;
    while i < PERIOD {
        starts[STREAM[i] as usize] = i as u8;
        i += 1;
    }
    starts
}

/// The register's seed for a row: `1 + row mod 255`. It is never zero, takes every other value, and differs
/// between adjacent rows, so that equal data in neighbouring word lines look different.
pub fn scrambler_seed(row: u32) -> u8 {
    (row % PERIOD as u32) as u8 + 1
}

/// Scrambles the bytes of a row in place, or undoes it: both are the same XOR.
pub fn scramble(row: u32, page: &mut [u8]) {
    scramble_from(row, 0, page);
}

/// As [`scramble`], for the bytes of a row from `offset` on.
pub(crate) fn scramble_from(row: u32, offset: usize, page: &mut [u8]) {
    let start = (usize::from(START[usize::from(scrambler_seed(row))]) + offset) % PERIOD;
    let key = &STREAM[start..start + PERIOD];
    for piece in page.chunks_mut(PERIOD) {
        for (byte, key) in piece.iter_mut().zip(key) {
            *byte ^= key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;

    /// The register itself, clocked bit by bit.
    fn reference(seed: u8, len: usize) -> Vec<u8> {
        let mut state = seed;
        let mut bytes = Vec::with_capacity(len);
        for _ in 0..len {
            bytes.push(state);
            for _ in 0..8 {
                let bit = [8, 6, 5, 4].iter().fold(0, |sum, tap| sum ^ (state >> (tap - 1) & 1));
                state = state << 1 | bit;
            }
        }
        bytes
    }

    #[test]
    fn every_seed_gives_the_stream_of_the_register() {
        let mut seen = [false; 256];
        for row in 0..600 {
            let seed = scrambler_seed(row);
            seen[usize::from(seed)] = true;
            let mut page = vec![0; 1_000];
            scramble(row, &mut page);
            assert_eq!(page, reference(seed, 1_000), "row {row}");
        }
        assert!(!seen[0], "a zero register never moves");
        assert!(seen[1..].iter().all(|&s| s));
    }

    #[test]
    fn parts_of_a_row_scramble_like_the_whole() {
        let mut whole = vec![7; 2_000];
        let mut parts = whole.clone();
        scramble(9, &mut whole);
        for (i, part) in parts.chunks_mut(300).enumerate() {
            scramble_from(9, 300 * i, part);
        }
        assert_eq!(parts, whole);
    }

    #[test]
    fn scrambling_twice_is_the_identity() {
        let mut rng = Rng::new(1);
        for len in [0, 1, 7, 254, 255, 256, 511, 16_384 + 1_664] {
            let page: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let row = rng.next_u64() as u32;
            let mut twice = page.clone();
            scramble(row, &mut twice);
            assert!(len == 0 || twice != page, "{len} bytes stayed as they were");
            scramble(row, &mut twice);
            assert_eq!(twice, page);
        }
    }

    /// Constant data come out with half of the bits set and with all four 2-bit symbols equally frequent, for
    /// every seed.
    #[test]
    fn constant_data_become_balanced() {
        for row in 0..255 {
            for fill in [0x00, 0xff, 0xaa, 0x55] {
                let mut page = vec![fill; 16_320]; // 64 whole periods
                scramble(row, &mut page);
                let ones: u32 = page.iter().map(|b| b.count_ones()).sum();
                let share = f64::from(ones) / (8.0 * 16_320.0);
                assert!(
                    (0.497..0.503).contains(&share),
                    "row {row}, fill {fill:#x}: {share} of the bits are ones"
                );
                let mut symbols = [0u32; 4];
                for byte in &page {
                    for shift in [0, 2, 4, 6] {
                        symbols[usize::from(byte >> shift & 3)] += 1;
                    }
                }
                let quarter = 16_320.0;
                assert!(symbols.iter().all(|&n| (f64::from(n) / quarter - 1.0).abs() < 0.02), "{symbols:?}");
            }
        }
    }
}
