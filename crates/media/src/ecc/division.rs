//! Division of a data polynomial by the generator: the remainder is the parity.
//!
//! Bytes and bits are processed most significant first, so the first bit of the data is the highest
//! coefficient. A remainder of `bits` bits is left-justified in 64-bit words: the top bit of word 0 is the
//! coefficient of x^(bits - 1).
//!
//! Eight data bytes are divided at once: their contribution is the XOR of eight table rows, one per byte.
//! Rows are as wide as the remainder, rounded up to one of [`WIDTHS`] words, so that the compiler unrolls
//! them. Invariant: bits beyond `bits` are zero in every row and so in every remainder.

/// Row widths that are compiled, in 64-bit words.
const WIDTHS: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// The widest remainder in 64-bit words.
pub(super) const MAX_WORDS: usize = 32;
/// Rows: eight bytes with 256 values each.
const ROWS: usize = 8 * 256;

/// A generator polynomial ready to divide by.
#[derive(Clone, Debug)]
pub(super) struct Divider {
    width: usize,
    /// Row `256 j + b`: the remainder of byte `b` at the `j`-th place of eight, `width` words each.
    rows: Vec<u64>,
}

impl Divider {
    /// `generator`: the left-justified coefficients below the leading one, at most [`MAX_WORDS`] words.
    pub(super) fn new(generator: &[u64]) -> Divider {
        let width = WIDTHS.into_iter().find(|&w| w >= generator.len()).unwrap_or(MAX_WORDS);
        let mut divisor = generator.to_vec();
        divisor.resize(width, 0);
        let mut rows = vec![0; ROWS * width];
        // x^bits leaves the generator's lower part; every further factor x is one step of the shift register.
        let mut power = divisor.clone();
        for place in (0..8).rev() {
            for bit in 0..8 {
                for value in (0..256).filter(|value| value >> bit & 1 == 1) {
                    let row = &mut rows[(256 * place + value) * width..][..width];
                    row.iter_mut().zip(&power).for_each(|(word, p)| *word ^= p);
                }
                step(&mut power, &divisor);
            }
        }
        Divider { width, rows }
    }

    /// The remainder of `data * x^bits`; words beyond the generator's width are zero.
    #[inline]
    pub(super) fn remainder(&self, data: &[u8]) -> [u64; MAX_WORDS] {
        match self.width {
            1 => self.divide::<1>(data),
            2 => self.divide::<2>(data),
            3 => self.divide::<3>(data),
            4 => self.divide::<4>(data),
            6 => self.divide::<6>(data),
            8 => self.divide::<8>(data),
            12 => self.divide::<12>(data),
            16 => self.divide::<16>(data),
            24 => self.divide::<24>(data),
            _ => self.divide::<32>(data),
        }
    }

    fn divide<const W: usize>(&self, data: &[u8]) -> [u64; MAX_WORDS] {
        let rows: &[[u64; W]; ROWS] =
            self.rows.as_chunks().0.try_into().expect("the constructor made all rows of this width");
        let mut state = [0u64; W];
        let (words, tail) = data.as_chunks::<8>();
        for word in words {
            let bytes = (state[0] ^ u64::from_be_bytes(*word)).to_be_bytes();
            let mut next = [0u64; W];
            next[..W - 1].copy_from_slice(&state[1..]);
            for place in 0..8 {
                let row = &rows[256 * place + usize::from(bytes[place])];
                for i in 0..W {
                    next[i] ^= row[i];
                }
            }
            state = next;
        }
        for byte in tail {
            let row = &rows[256 * 7 + usize::from((state[0] >> 56) as u8 ^ byte)];
            for i in 0..W {
                let carried = if i + 1 < W { state[i + 1] >> 56 } else { 0 };
                state[i] = (state[i] << 8 | carried) ^ row[i];
            }
        }
        let mut remainder = [0; MAX_WORDS];
        remainder[..W].copy_from_slice(&state);
        remainder
    }
}

/// Multiplies the left-justified remainder by x.
fn step(power: &mut [u64], divisor: &[u64]) {
    let leaves = power[0] >> 63 == 1;
    for i in 0..power.len() {
        let carried = power.get(i + 1).map_or(0, |next| next >> 63);
        power[i] = power[i] << 1 | carried;
    }
    if leaves {
        power.iter_mut().zip(divisor).for_each(|(p, d)| *p ^= d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Rng;

    /// Bit by bit, with the shift register alone.
    fn slow_remainder(generator: &[u64], data: &[u8]) -> Vec<u64> {
        let mut state = vec![0; generator.len()];
        for byte in data {
            for bit in (0..8).rev() {
                state[0] ^= u64::from(byte >> bit & 1) << 63;
                step(&mut state, generator);
            }
        }
        state
    }

    #[test]
    fn table_division_agrees_with_the_shift_register() {
        let mut rng = Rng::new(7);
        for words in 1..=MAX_WORDS {
            for bits_unused in [0, 1, 17, 63] {
                let mut generator: Vec<u64> = (0..words).map(|_| rng.next_u64()).collect();
                generator[words - 1] &= u64::MAX << bits_unused;
                let divider = Divider::new(&generator);
                for len in [0, 1, 7, 8, 9, 40, 61] {
                    let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                    let remainder = divider.remainder(&data);
                    assert_eq!(
                        remainder[..words],
                        slow_remainder(&generator, &data),
                        "{words} words, {len} bytes"
                    );
                    assert!(remainder[words..].iter().all(|&word| word == 0));
                }
            }
        }
    }
}
