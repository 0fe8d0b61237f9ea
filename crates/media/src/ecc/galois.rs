//! Arithmetic in the binary fields GF(2^m), 5 <= m <= 16.
//!
//! An element is the bit pattern of a polynomial in a root `alpha` of the field's defining polynomial: the
//! numerically smallest primitive polynomial of degree m (m = 12: x^12 + x^6 + x^4 + x + 1). Primitive means
//! that the powers of `alpha` run through every element but zero, which the constructor verifies by walking
//! them; so products become sums of logarithms. Invariant: `log` and `exp` are inverse to each other on the
//! non-zero elements.

/// Smallest supported field degree.
pub(super) const MIN_DEGREE: u32 = 5;
/// Largest supported field degree: an element is a `u16`.
pub(super) const MAX_DEGREE: u32 = 16;

/// Tables of one field.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Number of non-zero elements, 2^m - 1, the order of `alpha`.
    order: u32,
    /// `alpha^i` for `i` in `0..2 * order`: twice round, so that a sum of two logarithms needs no reduction.
    exp: Vec<u16>,
    /// The logarithm of every non-zero element; entry 0 is never used.
    log: Vec<u16>,
    /// `half[y^2 + y] = y` for even `y`, [`NO_SOLUTION`] where no `y` exists.
    half: Vec<u16>,
}

/// Odd, so never a stored (even) solution.
const NO_SOLUTION: u16 = u16::MAX;

impl Field {
    /// The field of degree `m`, which must be in [`MIN_DEGREE`]`..=`[`MAX_DEGREE`].
    pub(super) fn new(m: u32) -> Field {
        debug_assert!((MIN_DEGREE..=MAX_DEGREE).contains(&m));
        let order = (1u32 << m) - 1;
        let exp = smallest_primitive_powers(m);
        let mut log = vec![0u16; order as usize + 1];
        for (i, &element) in exp.iter().take(order as usize).enumerate() {
            log[usize::from(element)] = i as u16;
        }
        let mut field = Field { order, exp, log, half: vec![NO_SOLUTION; order as usize + 1] };
        for y in (0..=order).step_by(2) {
            let y = y as u16;
            let image = field.multiply(y, y) ^ y;
            field.half[usize::from(image)] = y;
        }
        field
    }

    /// 2^m - 1.
    pub(super) fn order(&self) -> u32 {
        self.order
    }

    /// `alpha^i` for any `i`.
    pub(super) fn power(&self, i: u64) -> u16 {
        self.exp[(i % u64::from(self.order)) as usize]
    }

    /// `alpha^i` for `i` below the order.
    #[inline]
    pub(super) fn power_below(&self, i: u32) -> u16 {
        self.exp[i as usize]
    }

    /// The logarithm of a non-zero element.
    #[inline]
    pub(super) fn log(&self, a: u16) -> u32 {
        debug_assert_ne!(a, 0);
        u32::from(self.log[usize::from(a)])
    }

    /// `a * b`.
    #[inline]
    pub(super) fn multiply(&self, a: u16, b: u16) -> u16 {
        if a == 0 || b == 0 {
            return 0;
        }
        self.exp[(self.log(a) + self.log(b)) as usize]
    }

    /// `a / b`; `b` must not be zero.
    #[inline]
    pub(super) fn divide(&self, a: u16, b: u16) -> u16 {
        if a == 0 {
            return 0;
        }
        self.exp[(self.log(a) + self.order - self.log(b)) as usize]
    }

    /// The two distinct roots of `x^2 + b x + c` with `b` and `c` not zero, or `None` when they lie outside
    /// the field. With `x = b y` this is `y^2 + y = c / b^2`, whose solutions are `y` and `y + 1`.
    pub(super) fn quadratic_roots(&self, b: u16, c: u16) -> Option<[u16; 2]> {
        let y = self.half[usize::from(self.divide(c, self.multiply(b, b)))];
        (y != NO_SOLUTION).then(|| [self.multiply(b, y), self.multiply(b, y ^ 1)])
    }
}

/// The powers of `alpha`, twice round, for the smallest primitive polynomial of degree `m`.
fn smallest_primitive_powers(m: u32) -> Vec<u16> {
    let order = (1usize << m) - 1;
    let top = 1u32 << m;
    let mut powers = Vec::with_capacity(2 * order);
    // A polynomial without constant term is a multiple of x; so only odd ones can be primitive.
    for polynomial in (top + 1..2 * top).step_by(2) {
        powers.clear();
        let mut element = 1u32;
        loop {
            powers.push(element as u16);
            element <<= 1;
            if element & top != 0 {
                element ^= polynomial;
            }
            if element == 1 {
                break;
            }
        }
        if powers.len() == order {
            break;
        }
    }
    debug_assert_eq!(powers.len(), order, "a primitive polynomial exists for every degree");
    powers.extend_from_within(..);
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schoolbook product modulo the polynomial, which `alpha^m` reveals.
    fn slow_product(field: &Field, m: u32, a: u16, b: u16) -> u16 {
        let polynomial = u64::from(field.power(u64::from(m))) | 1 << m;
        let mut product = 0u64;
        for i in 0..16 {
            product ^= if b >> i & 1 == 1 { u64::from(a) << i } else { 0 };
        }
        for i in (m..32).rev() {
            product ^= if product >> i & 1 == 1 { polynomial << (i - m) } else { 0 };
        }
        product as u16
    }

    #[test]
    fn products_agree_with_the_schoolbook_and_quotients_undo_them() {
        for m in MIN_DEGREE..=MAX_DEGREE {
            let field = Field::new(m);
            let mask = field.order() as u16;
            let mut rng = pellucid_flash::Rng::new(u64::from(m));
            for _ in 0..2_000 {
                let (a, b) = (rng.next_u64() as u16 & mask, rng.next_u64() as u16 & mask);
                let product = field.multiply(a, b);
                assert_eq!(product, slow_product(&field, m, a, b), "m {m}: {a} * {b}");
                if b != 0 {
                    assert_eq!(field.divide(product, b), a);
                }
            }
        }
    }

    #[test]
    fn defining_polynomials_are_the_known_smallest_primitive_ones() {
        // Peterson and Weldon, Error-Correcting Codes, appendix C, list the primitive polynomials.
        for (m, polynomial) in
            [(5, 0x25), (8, 0x11d), (12, 0x1053), (13, 0x201b), (14, 0x402b), (16, 0x1002d)]
        {
            let field = Field::new(m);
            assert_eq!(u32::from(field.power(u64::from(m))) | 1 << m, polynomial, "degree {m}");
        }
    }

    #[test]
    fn quadratic_roots_are_found_exactly_when_they_exist() {
        let field = Field::new(8);
        for b in 1..=255u16 {
            for c in 1..=255u16 {
                let value = |x: u16| field.multiply(x, x) ^ field.multiply(b, x) ^ c;
                let expected: Vec<u16> = (0..=255).filter(|&x| value(x) == 0).collect();
                let mut found = field.quadratic_roots(b, c).map_or(vec![], |roots| roots.to_vec());
                found.sort_unstable();
                assert_eq!(found, expected, "x^2 + {b} x + {c}");
            }
        }
    }
}
