//! The BCH codec against code words of an independent implementation, made by `tools/ecc_vectors.py`.

use pellucid_media::{Bch, Uncorrectable};

const VECTORS: &str = include_str!("data/ecc-vectors.txt");

struct Vector {
    strength: usize,
    data: Vec<u8>,
    parity: Vec<u8>,
    flipped: Vec<usize>,
    /// Bits that the oracle corrected; `None` when it gave up.
    corrected: Option<u32>,
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex")).collect()
}

fn vectors() -> impl Iterator<Item = Vector> {
    VECTORS.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let flipped = fields[5].split(',').filter(|f| *f != "-").map(|f| f.parse().expect("a position"));
        Vector {
            strength: fields[1].parse().expect("a strength"),
            data: from_hex(fields[3]),
            parity: from_hex(fields[4]),
            flipped: flipped.collect(),
            corrected: fields[6].parse::<i32>().expect("a count").try_into().ok(),
        }
    })
}

#[test]
fn parity_and_corrections_agree_with_the_oracle() {
    let mut lost = 0;
    for (i, vector) in vectors().enumerate() {
        let code = Bch::new(vector.data.len(), vector.strength).expect("a code of the list");
        let mut parity = vec![0; code.parity_bytes()];
        code.encode(&vector.data, &mut parity);
        assert_eq!(parity, vector.parity, "parity of vector {i}");

        let mut data = vector.data.clone();
        for &bit in &vector.flipped {
            let data_bits = 8 * data.len();
            let (bytes, bit) =
                if bit < data_bits { (&mut data, bit) } else { (&mut parity, bit - data_bits) };
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
        }
        let damaged = data.clone();
        let decoded = code.decode(&mut data, &mut parity);
        assert_eq!(decoded, vector.corrected.ok_or(Uncorrectable), "vector {i}");
        let within = vector.flipped.len() <= vector.strength;
        match decoded {
            Ok(_) if within => assert!(data == vector.data && parity == vector.parity, "vector {i}"),
            Ok(_) => {} // both implementations agree on the same wrong word
            Err(_) => {
                lost += 1;
                assert!(!within && data == damaged, "vector {i}");
            }
        }
    }
    assert!(lost >= 5, "only {lost} vectors lie beyond the strength");
}
