//! Diffie-Hellman over the finite fields of RFC 7919: makes a response useless to an eavesdropper.
//!
//! ```text
//!   x by chance ─► g^x ─► the other side        the other side's g^y ─► checked ─► (g^y)^x, as long as the modulus
//! ```
//! Invariants: operations with an exponent take the same time for all exponents of a group; public values of
//! the other side that would make the result predictable (0, 1, p - 1 or above) are refused.

use super::{NoRandomness, Random, draw};
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};
use pellucid_wire::nvme::auth::DhGroup;
use std::sync::OnceLock;

/// Bits of an exponent: more than RFC 7919 (section 5.2) requires in its largest group.
const EXPONENT_BITS: u32 = 512;
/// Generator of all these groups.
const GENERATOR: u64 = 2;

/// A group other than null.
#[derive(Debug)]
struct Field {
    bytes: usize,
    params: BoxedMontyParams,
    /// p - 1.
    last: BoxedUint,
}

impl Field {
    fn new(line: &str) -> Field {
        let digit = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).expect("hexadecimal digits");
        let modulus: Vec<u8> = (0..line.len()).step_by(2).map(digit).collect();
        let bits = modulus.len() as u32 * 8;
        let modulus = BoxedUint::from_be_slice(&modulus, bits).expect("as many bits as there are bytes");
        let last = modulus.wrapping_sub(BoxedUint::one_with_precision(bits));
        let odd = Odd::new(modulus).into_option().expect("a prime above 2");
        Field { bytes: bits as usize / 8, params: BoxedMontyParams::new(odd), last }
    }

    /// Finds the field of a group; `None`: the null group.
    fn of(group: DhGroup) -> Option<&'static Field> {
        static FIELDS: OnceLock<Vec<Field>> = OnceLock::new();
        let lines = || include_str!("ffdhe.txt").lines().filter(|line| !line.starts_with('#'));
        let fields = FIELDS.get_or_init(|| lines().map(Field::new).collect());
        fields.iter().find(|field| field.bytes == group.bytes())
    }

    fn bits(&self) -> u32 {
        self.bytes as u32 * 8
    }

    fn power(&self, base: BoxedUint, exponent: &BoxedUint) -> BoxedUint {
        BoxedMontyForm::new(base, &self.params).pow_bounded_exp(exponent, EXPONENT_BITS).retrieve()
    }

    fn encode(&self, number: &BoxedUint) -> Vec<u8> {
        let bytes = number.to_be_bytes();
        bytes[bytes.len() - self.bytes..].to_vec()
    }
}

/// One side's half of an exchange.
pub(super) struct KeyPair {
    field: &'static Field,
    exponent: BoxedUint,
    public: Vec<u8>,
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPair(..)")
    }
}

impl KeyPair {
    /// Draws a new pair; `Ok(None)` for the null group.
    ///
    /// # Errors
    /// Fails without randomness.
    pub fn draw(group: DhGroup, random: Random<'_>) -> Result<Option<KeyPair>, NoRandomness> {
        let Some(field) = Field::of(group) else { return Ok(None) };
        let mut bytes = [0; EXPONENT_BITS as usize / 8];
        draw(&mut bytes, random)?;
        Ok(Some(KeyPair::new(field, &bytes)))
    }

    fn new(field: &'static Field, exponent: &[u8]) -> KeyPair {
        let exponent =
            BoxedUint::from_be_slice(exponent, EXPONENT_BITS).expect("as many bits as there are bytes");
        let generator = BoxedUint::from(GENERATOR).resize(field.bits());
        let public = field.encode(&field.power(generator, &exponent));
        KeyPair { field, exponent, public }
    }

    /// Public value g^x, for the other side.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Computes the shared value; `None` if the other side's value is invalid.
    pub fn agree(&self, other: &[u8]) -> Option<Vec<u8>> {
        if other.len() != self.field.bytes {
            return None;
        }
        let other = BoxedUint::from_be_slice(other, self.field.bits()).ok()?;
        // The other side's value is public, so the comparison need not take constant time.
        let is_sound = other > BoxedUint::one_with_precision(self.field.bits()) && other < self.field.last;
        is_sound.then(|| self.field.encode(&self.field.power(other, &self.exponent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_wire::nvme::auth::AuthHash;
    use ring::rand::{SecureRandom, SystemRandom};

    const GROUPS: [DhGroup; 5] =
        [DhGroup::Ffdhe2048, DhGroup::Ffdhe3072, DhGroup::Ffdhe4096, DhGroup::Ffdhe6144, DhGroup::Ffdhe8192];

    /// In these groups 2 has order (p - 1) / 2; a wrong digit would break this.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn moduli_are_those_of_the_groups() {
        for group in GROUPS {
            let field = Field::of(group).expect("a group");
            let half = field.last.shr_vartime(1).expect("a shift by one");
            let two = BoxedMontyForm::new(BoxedUint::from(GENERATOR).resize(field.bits()), &field.params);
            assert_eq!(two.pow(&half).retrieve(), BoxedUint::one_with_precision(field.bits()), "{group:?}");
        }
        assert!(Field::of(DhGroup::Null).is_none());
    }

    /// Columns of the vectors: see `tools/dhchap_vectors.py`, which also recomputes the primes.
    #[test]
    fn exchanges_are_those_of_an_independent_implementation() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dh-vectors.txt");
        let text = std::fs::read_to_string(path).expect("the vectors");
        let bytes = |hex: &str| -> Vec<u8> {
            let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
            (0..hex.len()).step_by(2).map(digit).collect()
        };
        let mut seen = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split(' ').collect();
            let [group, exponent, other, public, hash, challenge, augmented] = columns[..] else {
                panic!("{line}")
            };
            let raw = |text: &str| text.parse::<u8>().expect("a number");
            let field = Field::of(DhGroup::from_raw(raw(group)).expect("a group")).expect("not null");
            let pair = KeyPair::new(field, &bytes(exponent));
            let digest = ring::digest::digest(&ring::digest::SHA256, pair.public());
            assert_eq!(digest.as_ref(), bytes(public), "group {group}");
            let shared = pair.agree(&bytes(other)).expect("a value");
            let hash = AuthHash::from_raw(raw(hash)).expect("a hash");
            let found = super::super::augmented(hash, Some(&shared), &bytes(challenge));
            assert_eq!(found, bytes(augmented), "group {group}, {hash:?}");
            seen += 1;
        }
        assert_eq!(seen, 15, "five groups with three hashes");
    }

    #[test]
    fn both_sides_agree() {
        for group in GROUPS {
            let mut random = |bytes: &mut [u8]| SystemRandom::new().fill(bytes).is_ok();
            let mut draw = || KeyPair::draw(group, &mut random).expect("randomness").expect("a group");
            let (a, b, c) = (draw(), draw(), draw());
            let shared = a.agree(b.public()).expect("a value");
            assert_eq!(shared.len(), group.bytes());
            assert_eq!(Some(&shared), b.agree(a.public()).as_ref(), "{group:?}");
            assert_ne!(Some(shared), c.agree(b.public()), "{group:?}");
        }
    }

    #[test]
    fn values_that_give_the_secret_away_are_refused() {
        let group = DhGroup::Ffdhe2048;
        let field = Field::of(group).expect("a group");
        let pair = KeyPair::new(field, &[7; EXPONENT_BITS as usize / 8]);
        let number = |number: BoxedUint| field.encode(&number);
        let one = BoxedUint::one_with_precision(field.bits());
        let modulus = field.last.wrapping_add(&one);
        for bad in [
            number(BoxedUint::zero_with_precision(field.bits())),
            number(one.clone()),
            number(field.last.clone()),
            number(modulus),
            vec![0xFF; group.bytes()],
            vec![2; group.bytes() - 1],
        ] {
            assert_eq!(pair.agree(&bad), None);
        }
        assert!(pair.agree(&number(field.last.wrapping_sub(&one))).is_some());
    }
}
