//! How fast the BCH codec works on this machine: `cargo run --release -p pellucid-media --example
//! ecc-throughput`.
//!
//! Rows: the code of COSMOS+ OpenSSD (13 bits in 256 bytes) and two larger ones. Columns: megabytes of data
//! per second and core for encoding and for decoding without errors, then microseconds per chunk for decoding
//! this many wrong bits. Before them: how often more wrong bits than can be corrected are mistaken for another code word. Then the scrambler
//! and the sampling of bit errors.

#![allow(clippy::print_stdout, clippy::disallowed_types, reason = "an example measures time and prints")]

use pellucid_flash::Rng;
use pellucid_media::{Bch, EccError, inject_bit_errors, scramble};
use std::hint::black_box;
use std::time::Instant;

/// Seconds per call, best of several rounds.
fn seconds_per_call(calls: u32, mut call: impl FnMut()) -> f64 {
    let round = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed().as_secs_f64() / f64::from(calls)
    };
    (0..7).map(|_| round(&mut call)).fold(f64::INFINITY, f64::min)
}

fn measure(chunk_bytes: usize, strength: usize) -> Result<(), EccError> {
    let code = Bch::new(chunk_bytes, strength)?;
    let mut rng = Rng::new(1);
    let data: Vec<u8> = (0..chunk_bytes).map(|_| rng.next_u64() as u8).collect();
    let mut parity = vec![0; code.parity_bytes()];
    let calls = (4_000_000 / chunk_bytes) as u32;
    let encode = seconds_per_call(calls, || code.encode(black_box(&data), black_box(&mut parity)));
    let mut read = data.clone();
    let clean = seconds_per_call(calls, || {
        let _ = black_box(code.decode(black_box(&mut read), &mut parity));
    });
    let rate = |seconds: f64| chunk_bytes as f64 / seconds / 1e6;
    print!(
        "{strength:3} bits in {chunk_bytes:4} B: encode {:5.0} MB/s, clean decode {:5.0} MB/s;",
        rate(encode),
        rate(clean)
    );
    for errors in [1, 2, 3, strength / 2, strength, strength + 1] {
        let seconds = seconds_per_call(calls / 20 + 1, || {
            read.copy_from_slice(&data);
            for i in 0..errors {
                read[(i * 37 + rng.below(37) as usize) % chunk_bytes] ^= 1 << rng.below(8);
            }
            let mut received = parity.clone();
            let _ = black_box(code.decode(&mut read, &mut received));
        });
        print!("  {errors} errors {:.2} us", seconds * 1e6);
    }
    println!();
    Ok(())
}

/// How often the decoder takes a chunk with more wrong bits than it can correct for another code word, against the law for random
/// words: the share of all words that lie within t bits of a code word, (sum of C(n, i) over i <= t) / 2^parity bits.
fn miscorrection(strength: usize) -> Result<(), EccError> {
    const CHUNK_BYTES: usize = 256;
    const TRIALS: u32 = 100_000;
    let code = Bch::new(CHUNK_BYTES, strength)?;
    let mut rng = Rng::new(3);
    print!("{strength:3} bits in {CHUNK_BYTES:4} B: miscorrected with");
    for errors in [strength + 1, strength + 2, 2 * strength + 1, 3 * strength] {
        let mut mistaken = 0;
        for _ in 0..TRIALS {
            // The zero word is a code word, and all are alike.
            let (mut data, mut parity) = ([0; CHUNK_BYTES], vec![0; code.parity_bytes()]);
            let mut flipped = 0;
            while flipped < errors {
                let bit = rng.below((8 * CHUNK_BYTES + code.parity_bits()) as u64) as usize;
                let (bytes, bit) = match bit.checked_sub(8 * CHUNK_BYTES) {
                    None => (&mut data[..], bit),
                    Some(bit) => (&mut parity[..], bit),
                };
                flipped += usize::from(bytes[bit / 8] & 0x80 >> (bit % 8) == 0);
                bytes[bit / 8] |= 0x80 >> (bit % 8);
            }
            mistaken += u32::from(code.decode(&mut data, &mut parity).is_ok());
        }
        print!("  {errors} errors {:.4} %", f64::from(mistaken) / f64::from(TRIALS) * 100.0);
    }
    let bits = (8 * CHUNK_BYTES + code.parity_bits()) as f64;
    let mut ways = 1.0;
    let near: f64 = (0..strength).fold(1.0, |near, i| {
        ways *= (bits - i as f64) / (i as f64 + 1.0);
        near + ways
    });
    println!("  (law: {:.2e} %)", 100.0 * near / 2f64.powi(code.parity_bits() as i32));
    Ok(())
}

fn main() -> Result<(), EccError> {
    for strength in [1, 2, 3, 4, 6, 13] {
        miscorrection(strength)?;
    }
    measure(256, 13)?;
    measure(1_024, 40)?;
    measure(4_096, 100)?;
    let mut page = vec![0; 18_048];
    let seconds = seconds_per_call(2_000, || scramble(black_box(77), black_box(&mut page)));
    println!("scrambler: {:.0} MB/s", page.len() as f64 / seconds / 1e6);
    let mut rng = Rng::new(2);
    for expected in [0.01, 1.0, 20.0, 200.0] {
        let inject =
            seconds_per_call(2_000, || _ = inject_bit_errors(&mut rng, black_box(&mut page), expected));
        println!("{expected:6} errors per page: inject {:.0} ns", inject * 1e9);
    }
    Ok(())
}
