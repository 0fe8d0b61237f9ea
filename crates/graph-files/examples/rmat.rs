//! Writes a random graph with realistic degrees to standard output: R-MAT (Chakrabarti, Zhan, Faloutsos, SDM
//! 2004) with Graph 500's parameters (a, b, c, d = 0.57, 0.19, 0.19, 0.05).
//!
//! `cargo run --release -p pellucid-graph-files --example rmat -- SCALE EDGES_OF_A_VERTEX SEED [text|binary|weighted] > edges.txt`

use pellucid_flash::Rng;
use std::io::{self, BufWriter, Write};

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u64| {
        words.get(at).map_or(otherwise, |word| word.parse().unwrap_or_else(|_| panic!("{word} is no number")))
    };
    let (scale, each, seed) = (number(0, 16), number(1, 16), number(2, 1));
    assert!((1..=31).contains(&scale), "scale {scale}; allowed: 1 to 31");
    let format = words.get(3).map_or("text", String::as_str);
    let mut rng = Rng::new(seed);
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    for _ in 0..each << scale {
        let (mut from, mut to) = (0_u32, 0_u32);
        for _ in 0..scale {
            let quadrant = rng.below(100);
            let (down, right) = (quadrant >= 76, (57..76).contains(&quadrant) || quadrant >= 95);
            (from, to) = (2 * from + u32::from(down), 2 * to + u32::from(right));
        }
        match format {
            "binary" => {
                out.write_all(&from.to_le_bytes())?;
                out.write_all(&to.to_le_bytes())?;
            }
            "weighted" => writeln!(out, "{from} {to} {}", 1 + rng.below(100))?,
            _ => writeln!(out, "{from}\t{to}")?,
        }
    }
    out.flush()
}
