//! Reads whose thresholds do not fit the cells: which fail, how often, and how that changes.

use crate::common::{erase, open, program, small};
use pellucid_flash::{Nanos, Ppa};
use pellucid_media::{
    BitErrors, Ecc, EccData, Integrity, Media, MediaConfig, ReadResult, ReadRetry, SlcBlocks,
};

const YEAR_S: u64 = 365 * 86_400;

fn config(cycles: u32) -> MediaConfig {
    let integrity = Integrity { retry: Some(ReadRetry { factor: 1.0 }), cycles, ..Integrity::default() };
    MediaConfig { integrity, ..small() }
}

fn fill(media: &mut Media, block: u32, superpages: u32) {
    for superpage in 0..superpages {
        program(media, block, superpage, 1, u64::from(superpage));
    }
}

/// One die of the small drive, full.
fn filled(config: &MediaConfig) -> Media {
    let mut media = open(config);
    (0..8).for_each(|block| fill(&mut media, block, 4));
    media
}

/// Counts the retries until a unit is read.
fn retries(media: &mut Media, unit: u32) -> u32 {
    let mut failed = |attempt: &u32| media.read(Ppa(unit), 0, &mut [], *attempt) == ReadResult::Uncorrectable;
    (0..1_000).find(|attempt| !failed(attempt)).expect("it ends")
}

fn all(media: &mut Media) -> Vec<u32> {
    (0..8 * 12).map(|unit| retries(media, unit)).collect()
}

#[test]
fn a_read_fails_until_its_thresholds_fit_and_then_gives_its_data() {
    let mut media = filled(&config(3_000));
    assert_eq!(all(&mut media), [0; 96], "fresh data");
    media.elapse(YEAR_S);
    let old = all(&mut media);
    let sum: u32 = old.iter().sum();
    assert!((3 * 96 - 30..3 * 96 + 30).contains(&sum), "three on average: {old:?}");
    assert_eq!(all(&mut media), old, "again the same");
    let mut out = vec![0; 1024];
    assert_eq!(media.read(Ppa(5), 0, &mut out, old[5] - 1), ReadResult::Uncorrectable);
    assert!(out.iter().all(|&byte| byte == 0));
    let good = ReadResult::Ok { corrected_bits: 0, worst_chunk_bits: 0 };
    assert_eq!(media.read(Ppa(5), 0, &mut out, old[5]), good);
    assert!(out.iter().any(|&byte| byte != 0));
    erase(&mut media, 0);
    fill(&mut media, 0, 4);
    assert_eq!(all(&mut media)[..12], [0; 12], "written anew");
}

#[test]
fn retries_grow_with_wear_time_and_reads() {
    let sum = |cycles: u32, seconds: u64, reads: u32| {
        let mut media = filled(&config(cycles));
        media.elapse(seconds);
        for read in 0..8 * reads {
            media.read(Ppa(read % 8 * 12), 0, &mut [], 0);
        }
        all(&mut media).iter().sum::<u32>()
    };
    let by_wear = [0, 1_000, 3_000].map(|cycles| sum(cycles, YEAR_S / 4, 0));
    let by_time = [0, 86_400, YEAR_S].map(|seconds| sum(3_000, seconds, 0));
    let by_reads = [0, 50_000, 200_000].map(|reads| sum(3_000, 86_400, reads));
    for found in [by_wear, by_time, by_reads] {
        assert!(found.is_sorted_by(|a, b| a < b), "{by_wear:?} {by_time:?} {by_reads:?}");
    }
}

#[test]
fn blocks_in_slc_mode_need_none() {
    let mut config = config(3_000);
    (config.geometry.one_shot_pages, config.timing.program_ns) = (2, vec![Nanos(900)]);
    config.slc_blocks = Some(SlcBlocks { blocks: 1, read_ns: Nanos(20), program_ns: Nanos(100) });
    let mut media = open(&config);
    fill(&mut media, 0, 1);
    fill(&mut media, 1, 2);
    media.elapse(YEAR_S);
    let mut found = |units: std::ops::Range<u32>| units.map(|unit| retries(&mut media, unit)).sum::<u32>();
    assert_eq!(found(0..6), 0);
    assert!(found(12..24) > 0);
}

/// A page with too many wrong bits stays uncorrectable, whatever the thresholds; code and retries count a read only once.
#[test]
fn bit_errors_judge_behind_the_last_step() {
    let mut config = config(3_000);
    config.geometry.spare_bytes = 256;
    config.integrity.ecc = Some(Ecc { chunk_bytes: 256, correctable: 2, data: EccData::Drawn });
    config.integrity.bit_errors = Some(BitErrors { factor: 1e4, retry_factor: 1.0, retry_floor: 1.0 });
    let mut media = filled(&config);
    media.elapse(YEAR_S);
    assert!((0..40).all(|attempt| media.read(Ppa(0), 0, &mut [], attempt) == ReadResult::Uncorrectable));
}
