//! Code, scrambler and bit errors on the path of the data.

use crate::common::*;
use pellucid_flash::{BlockId, Lpn, Ppa, Rng, SimTime};
use pellucid_media::{
    BitErrors, Ecc, EccData, Fault, Integrity, Media, MediaConfig, Outcome, ReadResult, StoreKind,
};

/// 8 bits in 256 bytes: 12 chunks a page of the small drive need 12 x 12 bytes.
fn guarded(data: EccData, factor: f64) -> MediaConfig {
    let mut config = small();
    config.geometry.spare_bytes = 256;
    config.integrity = Integrity {
        ecc: Some(Ecc { chunk_bytes: 256, correctable: 8, data }),
        scrambler: true,
        bit_errors: Some(BitErrors { factor, retry_factor: 0.5, retry_floor: 0.1 }),
        retry: None,
        cycles: 3_000,
    };
    config
}

fn content(unit: u32) -> Vec<u8> {
    let mut rng = Rng::new(unit.into());
    (0..1024).map(|_| rng.next_u64() as u8).collect()
}

/// Programs the first `superpages` superpages of a block with [`content`].
fn fill(media: &mut Media, block: u32, superpages: u32) {
    for superpage in 0..superpages {
        let start = first(media, block, superpage);
        media.program_begin(start, u64::from(start.0) + 1).expect("in order");
        for unit in start.0..start.0 + media.layout().units_per_superpage {
            media.put_unit(Ppa(unit), Lpn(unit), &content(unit));
        }
        assert_eq!(media.program_end(start), Outcome::Ok);
    }
}

fn filled(config: &MediaConfig) -> Media {
    let mut media = open(config);
    fill(&mut media, 0, 4);
    media
}

/// Reads the block again and again; data returned as good must be the stored data.
fn read_all(media: &mut Media, rounds: u32) -> Vec<ReadResult> {
    let mut results = Vec::new();
    for round in 0..rounds {
        for unit in 0..12 {
            let mut data = vec![0xee; 1024];
            let result = media.read(Ppa(unit), 0, &mut data, round % 3);
            match result {
                ReadResult::Ok { .. } => assert!(data == content(unit), "unit {unit} came back wrong"),
                _ => assert!(data.iter().all(|&byte| byte == 0), "a lost unit gives nothing away"),
            }
            results.push(result);
        }
    }
    results
}

fn lost(results: &[ReadResult]) -> usize {
    results.iter().filter(|&&result| result == ReadResult::Uncorrectable).count()
}

#[test]
fn drawn_real_and_checked_give_the_same_verdicts() {
    // From hardly any error to a loss in nearly every unit.
    for factor in [1.0, 10.0, 30.0, 60.0] {
        let run = |data| {
            let mut media = filled(&guarded(data, factor));
            (read_all(&mut media, 200), media.miscorrected_chunks())
        };
        let (drawn, _) = run(EccData::Drawn);
        let (real, miscorrected) = run(EccData::Real);
        assert_eq!(drawn, real, "factor {factor}");
        assert_eq!((real, miscorrected), run(EccData::Checked), "factor {factor}");
        let lost = lost(&drawn);
        match factor as u32 {
            1 => assert_eq!(lost, 0),
            60 => assert!(lost > 500, "{lost} of 2400"),
            _ => {}
        }
    }
}

#[test]
fn parts_of_a_unit_are_decoded_like_the_whole() {
    let mut media = filled(&guarded(EccData::Real, 20.0));
    let mut corrected = 0;
    for round in 0..200 {
        let (unit, sector) = (round % 12, round / 12 % 2);
        let mut data = vec![0; 512];
        if let ReadResult::Ok { corrected_bits, .. } = media.read(Ppa(unit), sector, &mut data, 0) {
            assert_eq!(data, content(unit)[512 * sector as usize..][..512]);
            corrected += corrected_bits;
        }
    }
    assert!(corrected > 200, "{corrected}");
}

/// Wrong bits are wrong again at the next read; a retry corrects some of them, and the rest were wrong before.
#[test]
fn a_second_read_finds_what_the_first_found() {
    let mut media = filled(&guarded(EccData::Real, 20.0));
    let mut retry_helped = 0;
    for unit in 0..12 {
        let mut data = vec![0; 1024];
        let first = media.read(Ppa(unit), 0, &mut data, 0);
        assert_eq!(media.read(Ppa(unit), 0, &mut data, 0), first);
        let retried = media.read(Ppa(unit), 0, &mut data, 1);
        match (first, retried) {
            (ReadResult::Ok { corrected_bits: before, .. }, ReadResult::Ok { corrected_bits: after, .. }) => {
                assert!(after <= before, "unit {unit}: {before}, then {after}");
            }
            (ReadResult::Uncorrectable, ReadResult::Ok { .. }) => retry_helped += 1,
            (ReadResult::Uncorrectable, ReadResult::Uncorrectable) => {}
            other => panic!("unit {unit}: {other:?}"),
        }
    }
    assert!(retry_helped > 0, "some unit has too many errors at first and few enough with other thresholds");
}

/// With a weak code many lost chunks lie close to another code word.
#[test]
fn miscorrection_is_found_out_and_counted() {
    let mut config = guarded(EccData::Real, 60.0);
    config.integrity.ecc = Some(Ecc { chunk_bytes: 256, correctable: 2, data: EccData::Real });
    let mut media = filled(&config);
    let results = read_all(&mut media, 300);
    assert!(lost(&results) > 1_000);
    assert!(media.miscorrected_chunks() > 100, "{}", media.miscorrected_chunks());
}

/// As many blocks as one die has: enough units to average out chance, as every unit has weak cells of its own.
const BLOCKS: u32 = 8;

fn die_filled(config: &MediaConfig) -> Media {
    let mut media = open(config);
    (0..BLOCKS).for_each(|block| fill(&mut media, block, 4));
    media
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn errors_grow_with_wear_time_and_reads_and_shrink_with_retries() {
    let bits = |media: &mut Media, attempt: u32| {
        let mut sum = 0;
        for unit in 0..12 * BLOCKS {
            match media.read(Ppa(unit), 0, &mut [], attempt) {
                ReadResult::Ok { corrected_bits, .. } => sum += corrected_bits,
                other => panic!("{other:?}"),
            }
        }
        sum
    };
    let config = |cycles| {
        let mut config = guarded(EccData::Drawn, 1.0);
        config.integrity.ecc = Some(Ecc { chunk_bytes: 1024, correctable: 100, data: EccData::Drawn });
        config.geometry.spare_bytes = 1024;
        config.integrity.cycles = cycles;
        config
    };
    let fresh = bits(&mut die_filled(&config(0)), 0);
    let mut media = die_filled(&config(6_000));
    let worn = bits(&mut media, 0);
    assert!(worn > 100 && worn > 20 * fresh, "{fresh} {worn}");
    let mut old = media.clone();
    old.elapse(365 * 86_400);
    let aged = bits(&mut old, 0);
    assert!((6 * worn..12 * worn).contains(&aged), "{worn} {aged}: nine times in a year");
    let retried = bits(&mut old, 1);
    assert!((aged * 2 / 5..aged * 3 / 5).contains(&retried), "{aged} {retried}: half");
    // Time passes while the drive works.
    let mut waited = media.clone();
    waited.set_now(SimTime(365 * 86_400 * 1_000_000_000));
    let waited = bits(&mut waited, 0);
    assert!((aged * 4 / 5..aged * 6 / 5).contains(&waited), "{aged} {waited}");
    // Rewritten: young again, in a block with one more erase.
    for block in 0..BLOCKS {
        assert_eq!(erase(&mut old, block), Outcome::Ok);
        fill(&mut old, block, 4);
    }
    let renewed = bits(&mut old, 0);
    assert!((worn * 3 / 5..worn * 7 / 5).contains(&renewed), "{worn} {renewed}");
    // A million reads disturb as much as a year does at the rated cycles, and more beyond.
    for round in 0..300_000 * BLOCKS {
        media.read(Ppa(round % BLOCKS * 12), 0, &mut [], 0);
    }
    assert!(bits(&mut media, 0) > 2 * worn);
}

#[test]
fn injected_errors_hit_the_die_that_was_named() {
    let mut media = open(&guarded(EccData::Drawn, 1.0));
    fill(&mut media, 0, 4);
    fill(&mut media, 8, 4);
    let die = pellucid_flash::DieId(1);
    media.inject(Fault::BitErrors { die: Some(die), factor: 1e5 }).expect("there are two dies");
    let other = Ppa(8 * 12);
    assert_eq!(media.read(other, 0, &mut [], 0), ReadResult::Uncorrectable);
    assert!(matches!(media.read(Ppa(0), 0, &mut [], 0), ReadResult::Ok { .. }));
    media.inject(Fault::BitErrors { die: None, factor: 0.0 }).unwrap();
    assert_eq!(media.read(other, 0, &mut [], 0), GOOD);
}

#[test]
fn a_clone_reads_the_same_errors() {
    let mut media = filled(&guarded(EccData::Real, 30.0));
    read_all(&mut media, 3);
    let mut clone = media.clone();
    assert_eq!(read_all(&mut media, 50), read_all(&mut clone, 50));
}

#[test]
fn snapshots_keep_age_reads_and_code_words() {
    let config = guarded(EccData::Real, 1.0);
    let mut media = filled(&config);
    media.elapse(100 * 86_400);
    read_all(&mut media, 100);
    let mut bytes = Vec::new();
    media.export(&config, &mut bytes).unwrap();
    let mut copy = Media::import(&config, &mut bytes.as_slice()).unwrap();
    let mut again = Vec::new();
    copy.export(&config, &mut again).unwrap();
    assert!(bytes == again);
    let results = read_all(&mut copy, 100);
    assert!(results.iter().any(|&result| result != GOOD), "a hundred days are not forgotten");
    let mut other = config.clone();
    other.integrity.scrambler = false;
    let refused = Media::import(&other, &mut bytes.as_slice()).unwrap_err().to_string();
    assert_eq!(refused, "drive.media.ecc.scrambler = 0: allowed: 1, as in the image");
}

#[test]
fn the_file_holds_scrambled_code_words_and_checked_reads_find_damage_to_it() {
    let image = TempPath::new("integrity");
    let config = |data, factor| MediaConfig { store: image.config().store, ..guarded(data, factor) };
    drop(filled(&config(EccData::Real, 1.0)));
    let mut file = std::fs::read(image.path()).unwrap();
    let whole = content(0);
    assert!(!file.windows(64).any(|part| part == &whole[..64]), "plain data in the image");
    // Damage three bits of one chunk of the first unit, and many of one of the second.
    let mut media = open(&config(EccData::Real, 0.0));
    let images_at = u64::from_le_bytes(file[88..96].try_into().unwrap()) as usize;
    assert_eq!(read_all(&mut media, 1), [GOOD; 12]);
    drop(media);
    let stored = 1024 + 4 * 12;
    file[images_at + 300] ^= 0x29;
    file[images_at + stored + 256..][..40].fill(0x55);
    std::fs::write(image.path(), &file).unwrap();
    let mut media = open(&config(EccData::Checked, 0.0));
    let mut data = vec![0; 1024];
    let corrected = ReadResult::Ok { corrected_bits: 3, worst_chunk_bits: 3 };
    assert_eq!((media.read(Ppa(0), 0, &mut data, 0), data == whole), (corrected, true));
    assert_eq!(media.read(Ppa(1), 0, &mut data, 0), ReadResult::Uncorrectable);
    assert_eq!(media.read(Ppa(2), 0, &mut data, 0), GOOD);
}

/// A drive reads a damaged unit many times before it gives it up: the log has a line for the unit, not for each read.
#[test]
fn a_damaged_unit_is_reported_once() {
    let image = TempPath::new("once");
    let config = MediaConfig { store: image.config().store, ..guarded(EccData::Drawn, 0.0) };
    drop(filled(&config));
    let mut file = std::fs::read(image.path()).unwrap();
    let images_at = u64::from_le_bytes(file[88..96].try_into().unwrap()) as usize;
    file[images_at + 1024] ^= 1;
    file[images_at + 2 * 1024] ^= 1;
    std::fs::write(image.path(), &file).unwrap();
    let mut media = open(&config);
    let mut data = vec![0; 1024];
    for (unit, attempt) in [(1, 0), (1, 1), (2, 0), (1, 2), (2, 1)] {
        assert_eq!(media.read(Ppa(unit), 0, &mut data, attempt), ReadResult::Uncorrectable);
    }
    let told: Vec<_> =
        std::iter::from_fn(|| media.store_mut().notice()).map(|notice| notice.to_string()).collect();
    assert_eq!(
        told.iter().filter(|line| line.contains("cannot be read: its checksum is wrong")).count(),
        2,
        "{told:?}"
    );
}

#[test]
fn an_image_is_bound_to_its_code() {
    let image = TempPath::new("bound");
    let plain = MediaConfig { store: image.config().store, ..guarded(EccData::Drawn, 1.0) };
    drop(filled(&plain));
    let coded = MediaConfig { store: plain.store.clone(), ..guarded(EccData::Real, 1.0) };
    let refusal = |config: &MediaConfig| Media::new(config).unwrap_err().to_string();
    assert!(
        refusal(&coded)
            .contains("ecc.chunk (0: data are stored without code words) is 0 in the image and 256"),
        "{}",
        refusal(&coded)
    );
    // A plain image does not depend on the code that counts its errors either.
    let mut other = plain.clone();
    other.integrity = Integrity::default();
    drop(open(&other));
    std::fs::remove_file(image.path()).unwrap();
    drop(filled(&coded));
    let mut weaker = coded.clone();
    weaker.integrity.ecc = Some(Ecc { chunk_bytes: 256, correctable: 7, data: EccData::Real });
    assert!(refusal(&weaker).contains("ecc.correctable is 8 in the image and 7"), "{}", refusal(&weaker));
    assert!(refusal(&plain).contains("is 256 in the image and 0"), "{}", refusal(&plain));
}

#[test]
fn codes_that_do_not_fit_are_refused_by_key() {
    let refusal = |change: fn(&mut MediaConfig)| {
        let mut config = guarded(EccData::Drawn, 1.0);
        change(&mut config);
        Media::new(&config).unwrap_err().to_string()
    };
    assert_eq!(
        refusal(|c| c.geometry.spare_bytes = 100),
        "ecc.correctable = 8: allowed: 1 to 5 with these chunks, as 12 x 12 bytes of parity would need 144 spare \
         bytes of 100"
    );
    assert_eq!(
        refusal(|c| c.integrity.ecc = Some(Ecc { chunk_bytes: 256, correctable: 0, data: EccData::Drawn })),
        "ecc.correctable = 0: allowed: 1 to 128"
    );
    assert_eq!(
        refusal(|c| c.integrity.ecc = Some(Ecc { chunk_bytes: 256, correctable: 129, data: EccData::Drawn })),
        "ecc.correctable = 129: allowed: 1 to 128"
    );
    assert_eq!(
        refusal(|c| c.integrity.ecc = Some(Ecc { chunk_bytes: 1000, correctable: 8, data: EccData::Drawn })),
        "ecc.chunk = 1000: allowed: divisors of the page's 3072 data bytes"
    );
    assert_eq!(
        refusal(|c| c.integrity.ecc = Some(Ecc { chunk_bytes: 1536, correctable: 1, data: EccData::Drawn })),
        "ecc.chunk = 1536: allowed: a divisor of the mapping unit's 1024 bytes"
    );
    assert_eq!(
        refusal(|c| c.integrity.ecc = None),
        "bit_errors.enabled = true: allowed: false, or true with an error-correcting code"
    );
    assert_eq!(
        refusal(|c| {
            c.store = StoreKind::None;
            c.integrity.ecc = Some(Ecc { chunk_bytes: 256, correctable: 8, data: EccData::Real });
        }),
        "ecc.data = real, or checked: allowed: drawn, or real and checked with a store that keeps the data"
    );
}

/// Without a scrambler the errors depend on the data: the worst pattern of Kwak et al., section 7.3, against random data.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn without_a_scrambler_the_pattern_decides() {
    let bits = |scrambler: bool, lsb: u8, msb: u8, seed: u64| {
        let mut config = guarded(EccData::Drawn, 10.0);
        config.integrity.scrambler = scrambler;
        config.integrity.cycles = 5_000;
        config.integrity.ecc = Some(Ecc { chunk_bytes: 1024, correctable: 100, data: EccData::Drawn });
        config.geometry.spare_bytes = 1024;
        config.seed = seed;
        let mut media = open(&config);
        for superpage in 0..4 * BLOCKS {
            let start = first(&media, superpage / 4, superpage % 4);
            media.program_begin(start, u64::from(superpage) + 1).expect("in order");
            for unit in start.0..start.0 + 3 {
                let byte = if superpage % 2 == 0 { lsb } else { msb };
                media.put_unit(Ppa(unit), Lpn(unit), &[byte; 1024]);
            }
            assert_eq!(media.program_end(start), Outcome::Ok);
        }
        let mut sum = 0u64;
        for unit in 0..12 * BLOCKS {
            match media.read(Ppa(unit), 0, &mut [], 0) {
                ReadResult::Ok { corrected_bits, .. } => sum += u64::from(corrected_bits),
                other => panic!("{other:?}"),
            }
        }
        sum as f64
    };
    let mean = |scrambler, lsb, msb| (0..40).map(|seed| bits(scrambler, lsb, msb, seed)).sum::<f64>();
    // Cells alternate between 01 and 10, and between 11 and 00.
    let worst = 1.0 - mean(true, 0x55, 0xaa) / mean(false, 0x55, 0xaa);
    assert!((worst - 0.137).abs() < 0.02, "{worst}");
    let none = 1.0 - mean(true, 0xaa, 0xaa) / mean(false, 0xaa, 0xaa);
    assert!(none.abs() < 0.02, "{none}");
}

#[test]
fn new_media_can_have_cycles_behind_them() {
    let mut media = open(&guarded(EccData::Drawn, 1.0));
    assert_eq!(media.array().erase_count(BlockId(5)), 3_000);
    assert_eq!(erase(&mut media, 5), Outcome::Ok);
    assert_eq!(media.array().erase_count(BlockId(5)), 3_001);
}
