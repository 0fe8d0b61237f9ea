//! Times by page type, die and operation.

use crate::common::*;
use pellucid_flash::{BlockId, Nanos, Ppa};
use pellucid_media::{Cell, Media, MediaConfig, MediaError, Variation};

fn with_cells(cell: Cell, slc_mode: bool, read: &[u64], program: &[u64]) -> MediaConfig {
    let mut config = small();
    (config.cell, config.slc_mode) = (cell, slc_mode);
    config.timing.read_ns = read.iter().map(|&t| Nanos(t)).collect();
    config.timing.program_ns = program.iter().map(|&t| Nanos(t)).collect();
    config
}

/// Read time of each unit, and program time of each superpage, of one block.
fn table(media: &mut Media) -> (Vec<u64>, Vec<u64>) {
    let layout = media.layout().clone();
    let reads = (0..layout.units_per_block).map(|u| media.read_ns(Ppa(u)).0).collect();
    let programs = (0..layout.superpages_per_block).map(|s| media.program_ns(first(media, 0, s)).0).collect();
    (reads, programs)
}

#[test]
fn page_types_take_turns() {
    for (cell, slc_mode, read, program, reads, programs) in [
        (Cell::Slc, false, vec![5], vec![50], [5, 5, 5, 5], [50, 50, 50, 50]),
        (Cell::Qlc, true, vec![5], vec![50], [5, 5, 5, 5], [50, 50, 50, 50]),
        (Cell::Mlc, false, vec![5, 6], vec![50, 60], [5, 6, 5, 6], [50, 60, 50, 60]),
        (Cell::Tlc, false, vec![5, 6, 7], vec![50, 60, 70], [5, 6, 7, 5], [50, 60, 70, 50]),
        (Cell::Qlc, false, vec![5, 6, 7, 8], vec![50, 60, 70, 80], [5, 6, 7, 8], [50, 60, 70, 80]),
    ] {
        let mut media = open(&with_cells(cell, slc_mode, &read, &program));
        let per_unit: Vec<u64> = reads.iter().flat_map(|&t| [t; 3]).collect();
        assert_eq!(table(&mut media), (per_unit, programs.to_vec()), "{cell:?}");
        assert_eq!(media.erase_ns(BlockId(3)), Nanos(3_000));
    }
}

#[test]
fn one_shot_programs_a_word_line_in_one_time_and_reads_its_pages_in_their_own() {
    let mut config = with_cells(Cell::Tlc, false, &[5, 6, 7], &[900]);
    (config.geometry.pages, config.geometry.one_shot_pages) = (6, 3);
    let word_line = [5, 5, 5, 6, 6, 6, 7, 7, 7];
    assert_eq!(table(&mut open(&config)), (word_line.repeat(2), vec![900, 900]));
    // With two planes each page type is there twice, plane by plane, before the next type.
    (config.geometry.planes, config.geometry.multi_plane) = (2, true);
    let word_line: Vec<u64> = [5, 6, 7].iter().flat_map(|&t| [t; 6]).collect();
    assert_eq!(table(&mut open(&config)), (word_line.repeat(2), vec![900, 900]));
}

#[test]
fn a_unit_across_page_types_takes_the_largest() {
    let mut config = with_cells(Cell::Tlc, false, &[5, 9, 7], &[900]);
    (config.geometry.pages, config.geometry.one_shot_pages) = (6, 3);
    config.geometry.unit_bytes = 3072 * 3;
    assert_eq!(table(&mut open(&config)), (vec![9, 9], vec![900, 900]));
    // A unit of two pages on two planes lies on one type.
    (config.geometry.planes, config.geometry.multi_plane) = (2, true);
    config.geometry.unit_bytes = 3072 * 2;
    assert_eq!(table(&mut open(&config)), ([5, 9, 7].repeat(2), vec![900, 900]));
}

#[test]
fn multi_plane_pages_share_their_type() {
    let mut config = with_cells(Cell::Mlc, false, &[5, 6], &[50, 60]);
    (config.geometry.planes, config.geometry.multi_plane) = (2, true);
    let reads = [[5; 6], [6; 6], [5; 6], [6; 6]].concat();
    assert_eq!(table(&mut open(&config)), (reads, vec![50, 60, 50, 60]));
}

#[test]
fn dies_differ_by_a_fixed_factor_of_the_seed() {
    let mut config = with_cells(Cell::Slc, false, &[1_000_000], &[1_000_000]);
    config.timing.die_spread = 0.1;
    let mut media = open(&config);
    let near = first(&media, 0, 0);
    let far = first(&media, 8, 0);
    let times = [media.read_ns(near).0, media.read_ns(far).0];
    assert_ne!(times[0], times[1]);
    for (ppa, t) in [(near, times[0]), (far, times[1])] {
        assert!((900_000..=1_100_000).contains(&t), "{t}");
        assert_eq!([media.read_ns(ppa).0, media.program_ns(ppa).0], [t, t]);
    }
    assert_eq!(open(&config).read_ns(near).0, times[0]);
    config.seed = 2;
    assert_ne!(open(&config).read_ns(near).0, times[0]);
}

#[test]
fn layers_rise_evenly_and_blocks_differ_by_the_seed() {
    let mut config = with_cells(Cell::Slc, false, &[1_000_000], &[2_000_000]);
    config.timing.variation.layer = 0.1;
    let mut media = open(&config);
    let layers = [0, 1, 2, 3].map(|superpage| first(&media, 1, superpage));
    assert_eq!(layers.map(|ppa| media.read_ns(ppa).0), [925_000, 975_000, 1_025_000, 1_075_000]);
    assert_eq!(layers.map(|ppa| media.program_ns(ppa).0), [1_850_000, 1_950_000, 2_050_000, 2_150_000]);
    assert_eq!(media.erase_ns(BlockId(1)), config.timing.erase_ns, "an erase has no layer");

    config.timing.variation = Variation { layer: 0.0, block: 0.1 };
    config.timing.erase_ns = Nanos(1_000_000);
    let mut media = open(&config);
    let blocks = |media: &mut Media| -> Vec<u64> {
        let time = |block| media.read_ns(first(media, block, 2)).0;
        (0..16).map(time).collect()
    };
    let times = blocks(&mut media);
    assert!(times.iter().all(|time| (900_000..=1_100_000).contains(time)), "{times:?}");
    assert!(
        times.iter().any(|&time| time < 950_000) && times.iter().any(|&time| time > 1_050_000),
        "{times:?}"
    );
    assert_eq!(blocks(&mut media), times, "for life");
    assert_eq!(media.erase_ns(BlockId(3)).0, times[3]);
    config.seed = 2;
    assert_ne!(blocks(&mut open(&config)), times);
}

#[test]
fn operations_differ_around_the_nominal_time() {
    let mut config = with_cells(Cell::Slc, false, &[1_000_000], &[1_000_000]);
    config.timing.op_spread = 0.2;
    let (mut media, mut twin) = (open(&config), open(&config));
    let drawn: Vec<u64> = (0..2_000).map(|_| media.read_ns(Ppa(0)).0).collect();
    assert!(drawn.iter().all(|t| (800_000..=1_200_000).contains(t)));
    assert!(drawn.iter().any(|&t| t < 850_000) && drawn.iter().any(|&t| t > 1_150_000));
    let mean = drawn.iter().sum::<u64>() / 2_000;
    assert!((990_000..1_010_000).contains(&mean), "{mean}");
    assert!(drawn.iter().all(|&t| t == twin.read_ns(Ppa(0)).0));
}

#[test]
fn operations_deviate_by_a_time_whatever_their_length() {
    let mut config = with_cells(Cell::Slc, false, &[100_000], &[1_000_000]);
    (config.timing.op_deviation_ns, config.timing.erase_ns) = (Nanos(30_000), Nanos(1_000_000));
    let mut media = open(&config);
    for (nominal, program) in [(100_000, false), (1_000_000, true)] {
        let time = |media: &mut Media| if program { media.program_ns(Ppa(0)) } else { media.read_ns(Ppa(0)) };
        let off: Vec<i64> = (0..2_000).map(|_| time(&mut media).0 as i64 - nominal).collect();
        assert!(off.iter().all(|d| d.abs() <= 30_000));
        assert!(off.iter().any(|&d| d < -25_000) && off.iter().any(|&d| d > 25_000));
        let mean = off.iter().sum::<i64>() / 2_000;
        assert!(mean.abs() < 1_500, "{mean}");
    }
}

#[test]
fn dies_are_as_fast_as_the_nominal_time_on_average() {
    let mut config = with_cells(Cell::Slc, false, &[1_000_000], &[1_000_000]);
    config.timing.die_spread = 0.1;
    for seed in 1..20 {
        config.seed = seed;
        let mut media = open(&config);
        let layout = media.layout().clone();
        let units = layout.units / layout.dies;
        let times: Vec<u64> = (0..layout.dies).map(|die| media.read_ns(Ppa(die * units)).0).collect();
        let off = times.iter().sum::<u64>().abs_diff(1_000_000 * u64::from(layout.dies));
        assert!(off <= u64::from(layout.dies), "seed {seed}: {times:?}");
    }
}

#[test]
fn times_that_do_not_fit_the_cells_are_refused() {
    let refused = |change: fn(&mut MediaConfig)| {
        let mut config = small();
        change(&mut config);
        match Media::new(&config) {
            Err(MediaError::Config { key, .. }) => key,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|c| c.timing.read_ns.truncate(1)), "timing.read_ns");
    assert_eq!(refused(|c| c.timing.program_ns.push(Nanos(1))), "timing.program_ns");
    assert_eq!(refused(|c| c.timing.die_spread = 1.0), "timing.die_spread");
    assert_eq!(refused(|c| c.timing.op_spread = f64::NAN), "timing.op_spread");
    assert_eq!(refused(|c| c.timing.variation.layer = 1.0), "variation.layer");
    assert_eq!(refused(|c| c.timing.variation.block = -0.1), "variation.block");
    assert_eq!(refused(|c| c.timing.op_deviation_ns = Nanos(u64::MAX)), "timing.op_deviation_ns");
    assert_eq!(refused(|c| c.timing.channel_bytes_per_second = 0), "timing.channel_bytes_per_second");
    assert_eq!(refused(|c| c.geometry.one_shot_pages = 4), "one_shot_pages");
    assert_eq!(refused(|c| c.geometry.one_shot_pages = 2), "timing.program_ns");
    let mut config = small();
    config.geometry.blocks = 0;
    assert_eq!(Media::new(&config).unwrap_err().to_string(), "blocks = 0: allowed: 1 to 1048576");
}
