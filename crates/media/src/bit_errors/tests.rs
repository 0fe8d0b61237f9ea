//! The shape of the model against what the paper reports, and the sampler against the distribution it promises.

use super::*;
use pellucid_flash::Rng;

const PAGE_BITS: u32 = (16_384 + 1_280) * 8;

fn page(cell: Cell, page_type: u32) -> PageState {
    PageState { cell, page_type, pe_cycles: 1_000, retention_s: 0.0, reads: 0, pattern: Pattern::Random }
}

fn expected(state: PageState) -> f64 {
    BitErrorModel::new(PAGE_BITS).expected_bit_errors(&state)
}

#[test]
fn the_scrambler_study_has_the_shape_of_the_paper() {
    let points = scrambler_study(&BitErrorModel::new(PAGE_BITS), &[100, 500, 1_000, 5_000]);
    let reduction = |pattern: &str, pe_cycles: u32| {
        let point = points.iter().find(|p| p.pattern == pattern && p.pe_cycles == pe_cycles);
        point.expect("a point of the study").reduction()
    };
    assert_eq!(points.len(), 24);
    let mut at_end: Vec<(f64, &str)> =
        STUDY_PATTERNS.map(|(name, ..)| (reduction(name, 5_000), name)).to_vec();
    at_end.sort_by(|a, b| a.0.total_cmp(&b.0));
    // "Up to 13.7 %": the pattern of the highest and the third-highest level.
    assert_eq!(at_end[5].1, "01-10");
    assert!((at_end[5].0 - 0.137).abs() < 0.001, "{at_end:?}");
    // "Almost ineffective for the 11-00 pattern", fewer errors for all others.
    assert_eq!(at_end[0].1, "11-00");
    assert!(at_end[0].0.abs() < 0.02, "{at_end:?}");
    assert!(at_end[1..].iter().all(|(r, _)| *r > 0.02), "{at_end:?}");
    // "For low P/E cycles, there was no significant difference."
    for (name, ..) in STUDY_PATTERNS {
        assert!(reduction(name, 100).abs() < 0.001 && reduction(name, 500).abs() < 0.005, "{name}");
        assert!(reduction(name, 1_000).abs() < 0.02, "{name}");
    }
}

#[test]
fn either_gray_code_gives_the_same_extremes() {
    use MlcSymbol::{S00, S01, S10, S11};
    let of = |a, b| interference::of_pattern(Pattern::Alternating(a, b));
    assert_eq!(of(S01, S10), of(S10, S01));
    assert_eq!(of(S01, S10), 2.25);
    assert_eq!(of(S11, S00), 1.25);
    assert_eq!(interference::of_pattern(Pattern::Random), 21.0 / 16.0);
    assert_eq!(of(S11, S11), 0.0);
}

/// The model takes scrambled data for random. So they are: the interference between the cells of real,
/// scrambled pages, averaged over the rows, is that of random data, although the data are the worst pattern.
#[test]
fn scrambling_turns_the_worst_pattern_into_random_data() {
    use MlcSymbol::{S00, S01, S10, S11};
    const BYTES: usize = 4_080;
    let measure = |lsb: &[u8], msb: &[u8]| {
        let bit = |page: &[u8], i: usize| page[i / 8] >> (7 - i % 8) & 1;
        let levels: Vec<usize> = (0..8 * BYTES)
            .map(|i| match (bit(lsb, i), bit(msb, i)) {
                (1, 1) => S11.level(),
                (0, 1) => S01.level(),
                (0, _) => S00.level(),
                _ => S10.level(),
            })
            .collect();
        let pairs = levels.windows(2).map(|pair| interference::on_victim(pair[0], pair[1]));
        pairs.sum::<f64>() / (levels.len() - 1) as f64
    };
    // Cells alternate between 01 and 10: the LSB page is 0101..., the MSB page 1010...
    let (lsb, msb) = ([0x55; BYTES], [0xaa; BYTES]);
    assert!((measure(&lsb, &msb) - 2.25).abs() < 0.001);
    let mean = (0..255)
        .map(|word_line| {
            let (mut lsb, mut msb) = (lsb, msb);
            crate::scramble(2 * word_line, &mut lsb);
            crate::scramble(2 * word_line + 1, &mut msb);
            measure(&lsb, &msb)
        })
        .sum::<f64>()
        / 255.0;
    assert!((mean / (21.0 / 16.0) - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn errors_grow_with_wear_time_and_reads() {
    for cell in [Cell::Slc, Cell::Mlc, Cell::Tlc, Cell::Qlc] {
        let base = page(cell, 0);
        let mut last = 0.0;
        for pe_cycles in [0, 1, 100, 1_000, 3_000, 10_000, u32::MAX] {
            let now = expected(PageState { pe_cycles, ..base });
            assert!(
                now.is_finite() && now >= last && now <= f64::from(PAGE_BITS) / 2.0,
                "{cell:?} {pe_cycles}"
            );
            last = now;
        }
        let old = expected(PageState { retention_s: YEAR_S, ..base });
        assert!((old / expected(base) - YEAR_FACTOR).abs() < 1e-9);
        assert!(expected(PageState { retention_s: -5.0, ..base }) == expected(base));
        assert!(expected(PageState { reads: 100_000, ..base }) > expected(base));
    }
    let [slc, mlc, tlc, qlc] =
        [Cell::Slc, Cell::Mlc, Cell::Tlc, Cell::Qlc].map(|cell| expected(page(cell, 0)));
    assert!(slc < mlc && mlc < tlc && tlc < qlc);
}

#[test]
fn page_types_share_the_errors_of_a_word_line() {
    for cell in [Cell::Slc, Cell::Mlc, Cell::Tlc, Cell::Qlc] {
        let shares: Vec<f64> = (0..cell.bits()).map(|page_type| page_share(cell, page_type)).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!((mean - 1.0).abs() < 1e-12, "{cell:?}: {shares:?}");
        assert!(shares.windows(2).all(|pair| (pair[1] / pair[0] - 2.0).abs() < 1e-12));
    }
}

#[test]
fn retries_lower_the_errors_down_to_a_floor() {
    assert_eq!(after_retry(40.0, 0), 40.0);
    assert_eq!(after_retry(40.0, 1), 20.0);
    assert_eq!(after_retry(40.0, 5), 4.0);
    assert_eq!(after_retry(40.0, u32::MAX), 4.0);
}

/// Mean and variance of `n` samples.
fn moments(n: u32, mut sample: impl FnMut() -> u32) -> (f64, f64) {
    let values: Vec<f64> = (0..n).map(|_| f64::from(sample())).collect();
    let mean = values.iter().sum::<f64>() / f64::from(n);
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n))
}

#[test]
fn injected_errors_are_distinct_evenly_spread_and_as_many_as_expected() {
    let mut rng = Rng::new(3);
    let mut per_bit = [0u32; 64];
    let rounds = 50_000;
    let (mean, variance) = moments(rounds, || {
        let mut page = [0u8; 8];
        let flipped = inject_bit_errors(&mut rng, &mut page, 3.0);
        let ones: u32 = page.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(ones, flipped, "no bit may be flipped twice");
        for (bit, count) in per_bit.iter_mut().enumerate() {
            *count += u32::from(page[bit / 8] >> (bit % 8) & 1);
        }
        flipped
    });
    assert!((mean - 3.0).abs() < 0.05, "mean {mean}");
    assert!((variance - 3.0 * (1.0 - 3.0 / 64.0)).abs() < 0.1, "variance {variance}");
    let each = f64::from(rounds) * 3.0 / 64.0;
    assert!(per_bit.iter().all(|&count| (f64::from(count) - each).abs() < 5.0 * each.sqrt()), "{per_bit:?}");
    assert_eq!(inject_bit_errors(&mut rng, &mut [], 3.0), 0);
    assert_eq!(inject_bit_errors(&mut rng, &mut [0; 8], 0.0), 0);
    assert_eq!(inject_bit_errors(&mut rng, &mut [0; 8], f64::NAN), 0);
    assert_eq!(inject_bit_errors(&mut rng, &mut [0; 8], 1e9), 64);
}

/// Model, injection and codec together: a worn MLC page comes back whole, and a dead one is reported.
#[test]
fn the_codec_repairs_what_the_model_breaks() {
    let ecc = crate::PageEcc::new(16_384, 1_280, 256, 13).expect("exactly fits");
    let mut rng = Rng::new(5);
    let data: Vec<u8> = (0..16_384).map(|_| rng.next_u64() as u8).collect();
    let mut spare = vec![0; 1_280];
    ecc.encode(&data, &mut spare);
    let mut read_page = |expected: f64| {
        let mut whole = [data.as_slice(), &spare].concat();
        let flipped = inject_bit_errors(&mut rng, &mut whole, expected);
        let (read, read_spare) = whole.split_at_mut(16_384);
        (flipped, ecc.decode(read, read_spare), read == data)
    };
    let worn = expected(PageState { pe_cycles: 3_000, ..page(Cell::Mlc, 1) });
    for _ in 0..50 {
        let (flipped, result, intact) = read_page(worn);
        // Four padding bits per chunk are flipped without being part of the code.
        assert!(result.is_ok_and(|c| c.bits <= flipped && c.bits + 8 >= flipped) && intact);
    }
    assert!(read_page(2_000.0).1.is_err());
}
