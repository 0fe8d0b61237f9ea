//! Random errors within and beyond the strength, all small patterns of a small code, and vectors of an
//! independent codec.

use super::*;
use pellucid_flash::Rng;

fn random_bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// Flips `count` distinct bits of a code word, which excludes the padding of the parity.
fn flip_bits(rng: &mut Rng, code: &Bch, chunk: &mut [u8], parity: &mut [u8], count: usize) {
    let data_bits = 8 * chunk.len();
    let mut flipped = Vec::with_capacity(count);
    while flipped.len() < count {
        let bit = rng.below((data_bits + code.parity_bits()) as u64) as usize;
        if !flipped.contains(&bit) {
            flipped.push(bit);
            let (bytes, bit) =
                if bit < data_bits { (&mut *chunk, bit) } else { (&mut *parity, bit - data_bits) };
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
        }
    }
}

/// Decodes `patterns` random errors of up to `t` bits; every one must be corrected.
fn correct_random_patterns(code: &Bch, patterns: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut data = random_bytes(&mut rng, code.chunk_bytes());
    let mut parity = vec![0; code.parity_bytes()];
    code.encode(&data, &mut parity);
    for i in 0..patterns {
        if i % 64 == 0 {
            data = random_bytes(&mut rng, code.chunk_bytes());
            code.encode(&data, &mut parity);
        }
        let count = rng.below(code.strength() as u64 + 1) as usize;
        let (mut read, mut read_parity) = (data.clone(), parity.clone());
        flip_bits(&mut rng, code, &mut read, &mut read_parity, count);
        assert_eq!(code.decode(&mut read, &mut read_parity), Ok(count as u32), "pattern {i} of seed {seed}");
        assert!(read == data && read_parity == parity, "pattern {i} of seed {seed}: wrong bits");
    }
}

/// Counts how many of `patterns` errors of `count` bits decode to another word than the one sent. A failure must leave the word
/// untouched; a success must give a word of the code.
fn count_miscorrections(code: &Bch, count: usize, patterns: u64, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let data = random_bytes(&mut rng, code.chunk_bytes());
    let mut parity = vec![0; code.parity_bytes()];
    code.encode(&data, &mut parity);
    let mut wrong = 0;
    for _ in 0..patterns {
        let (mut read, mut read_parity) = (data.clone(), parity.clone());
        flip_bits(&mut rng, code, &mut read, &mut read_parity, count);
        let (received, received_parity) = (read.clone(), read_parity.clone());
        if code.decode(&mut read, &mut read_parity).is_ok() {
            let mut again = vec![0; code.parity_bytes()];
            code.encode(&read, &mut again);
            assert_eq!(again, read_parity, "a decoded word must belong to the code");
            wrong += 1;
        } else {
            assert!(read == received && read_parity == received_parity, "a lost word must stay untouched");
        }
    }
    wrong
}

#[test]
fn the_default_code_has_the_parameters_of_the_paper() {
    let code = Bch::new(256, 13).expect("fits GF(2^12)");
    assert_eq!((code.parity_bits(), code.parity_bytes()), (156, 20));
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn up_to_t_random_errors_are_corrected() {
    let code = Bch::new(256, 13).expect("fits");
    correct_random_patterns(&code, 200_000, 1);
}

/// Repeats the test above with 10 million patterns, about a minute in a release build.
#[test]
#[ignore = "ten million patterns; run in release"]
fn up_to_t_random_errors_are_corrected_ten_million_times() {
    let code = Bch::new(256, 13).expect("fits");
    correct_random_patterns(&code, 10_000_000, 2);
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn codes_of_other_shapes_correct_their_strength() {
    for (chunk_bytes, strength) in [
        (1, 1),
        (1, 3),
        (2, 2),
        (16, 2),
        (100, 5),
        (257, 7),
        (512, 8),
        (1_000, 33),
        (1_024, 40),
        (4_096, 100),
    ] {
        let code = Bch::new(chunk_bytes, strength).expect("fits");
        correct_random_patterns(&code, if chunk_bytes > 512 { 300 } else { 3_000 }, chunk_bytes as u64);
    }
}

#[test]
fn the_largest_codes_can_be_built_and_the_next_ones_are_refused() {
    let code = Bch::new(7_935, 128).expect("63,480 + 2,048 bits fit 65,535");
    assert_eq!(code.parity_bits(), 2_048);
    correct_random_patterns(&code, 20, 5);
    assert_eq!(
        Bch::new(7_936, 128).err(),
        Some(EccError::ChunkBytes { chunk_bytes: 7_936, strength: 128, max: 7_935 })
    );
    assert!(matches!(Bch::new(usize::MAX, 1), Err(EccError::ChunkBytes { .. })));
    assert!(matches!(Bch::new(0, 1), Err(EccError::ChunkBytes { .. })));
    assert_eq!(Bch::new(256, 129).err(), Some(EccError::Strength { strength: 129, max: 128 }));
}

/// Every pattern of up to three bits of a small code with t = 3: by linearity, on the zero word.
#[test]
fn every_pattern_of_a_small_code_is_corrected() {
    let code = Bch::new(8, 3).expect("fits GF(2^7)");
    let bits = 64 + code.parity_bits();
    let flip = |word: &mut [u8], bit: usize| word[bit / 8] ^= 0x80 >> (bit % 8);
    for a in 0..bits {
        for b in a..bits {
            for c in b..bits {
                let mut word = [0u8; 11]; // 64 data bits end on a byte, so the parity follows at once
                flip(&mut word, a);
                flip(&mut word, b);
                flip(&mut word, c);
                let expected: u32 = word.iter().map(|byte| byte.count_ones()).sum();
                let (chunk, parity) = word.split_at_mut(8);
                assert_eq!(code.decode(chunk, parity), Ok(expected), "bits {a}, {b}, {c}");
                assert_eq!(word, [0; 11]);
            }
        }
    }
}

#[test]
fn padding_bits_are_ignored_and_cleared() {
    let code = Bch::new(256, 13).expect("fits");
    let (mut chunk, mut parity) = (vec![0; 256], vec![0; 20]);
    parity[19] = 0x0f;
    assert_eq!(code.decode(&mut chunk, &mut parity), Ok(0));
    assert_eq!(parity[19], 0);
}

/// Beyond t errors a word is mistaken for another when it lies within t bits of it. Random words do so with
/// the share of the space that the spheres fill, sum over i <= t of C(n, i), over 2^parity_bits.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn miscorrections_beyond_t_are_as_rare_as_the_theory_says() {
    for (chunk_bytes, strength, patterns) in [(16, 2, 200_000u64), (64, 3, 200_000)] {
        let code = Bch::new(chunk_bytes, strength).expect("fits");
        let n = (8 * chunk_bytes + code.parity_bits()) as f64;
        let mut term = 1.0;
        let mut sphere = 1.0;
        for i in 0..strength {
            term *= (n - i as f64) / (i as f64 + 1.0);
            sphere += term;
        }
        let expected = sphere / 2f64.powi(code.parity_bits() as i32);
        let measured = count_miscorrections(&code, strength + 3, patterns, 9) as f64 / patterns as f64;
        assert!((0.9..1.1).contains(&(measured / expected)), "t {strength}: {measured} against {expected}");
    }
    let code = Bch::new(256, 13).expect("fits");
    // Theory: 4e-14. None is expected in any run of this size.
    assert_eq!(count_miscorrections(&code, 14, 20_000, 10), 0);
    assert_eq!(count_miscorrections(&code, 40, 20_000, 11), 0);
}

/// Ten million words with one wrong bit too many, about a minute in a release build.
#[test]
#[ignore = "ten million patterns; run in release"]
fn no_word_just_beyond_t_is_mistaken_in_ten_million() {
    let code = Bch::new(256, 13).expect("fits");
    assert_eq!(count_miscorrections(&code, 14, 10_000_000, 12), 0);
}
