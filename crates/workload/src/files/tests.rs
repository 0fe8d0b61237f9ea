//! Checks file sizes against their distribution, the file system against its invariants, and the page
//! cache for stale data.

use super::source::RequestKind;
use super::*;
use pellucid_flash::{Rng, SimTime};
use std::collections::BTreeMap;

#[test]
fn sizes_have_the_mean_and_variance_of_the_gamma_law() {
    let gamma = Gamma::with_mean(131_072.0, 1.5);
    let mut rng = Rng::new(1);
    let count = 200_000;
    let drawn: Vec<f64> = (0..count).map(|_| gamma.draw(&mut rng)).collect();
    let mean = drawn.iter().sum::<f64>() / f64::from(count);
    let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(count);
    assert!((mean / 131_072.0 - 1.0).abs() < 0.01, "mean {mean}");
    // Variance is mean^2 / shape.
    assert!((variance / (131_072f64.powi(2) / 1.5) - 1.0).abs() < 0.03, "variance {variance}");
}

/// The mean is the requested one; half of the sizes are below 3 KB, as with Linux's own mean.
#[test]
fn sources_have_the_mean_and_the_tail_of_their_law() {
    let mut rng = Rng::new(1);
    let law = SourceSizes::with_mean(SourceSizes::LINUX_MEAN);
    let drawn: Vec<f64> = (0..400_000).map(|_| law.draw(&mut rng)).collect();
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    assert!((mean / SourceSizes::LINUX_MEAN - 1.0).abs() < 0.01, "mean {mean}");
    let share = |below: f64| drawn.iter().filter(|&&bytes| bytes < below).count() as f64 / drawn.len() as f64;
    assert!((share(2600.0) - 0.5).abs() < 0.02, "{}", share(2600.0));
    assert!((share(72_000.0) - 0.99).abs() < 0.002, "{}", share(72_000.0));
    let twice = SourceSizes::with_mean(2.0 * SourceSizes::LINUX_MEAN);
    let (a, b) = (law.draw(&mut Rng::new(7)), twice.draw(&mut Rng::new(7)));
    assert!((b / a - 2.0).abs() < 1e-9);
}

#[test]
fn files_get_blocks_of_their_own_and_give_them_back() {
    let mut layout = Layout::new(200_000, 500, 20).unwrap();
    let before = layout.free_blocks();
    let mut rng = Rng::new(2);
    let (mut new, mut refused) = (Vec::new(), 0);
    let mut sizes = vec![0; 500];
    for round in 0..20_000 {
        let file = rng.below(500) as u32;
        if rng.chance(0.4) {
            layout.free(file, &mut new);
            if rng.chance(0.1) {
                layout.reuse(layout.freed());
            }
            assert_eq!(new.iter().map(|extent| extent.count).sum::<u32>(), sizes[file as usize]);
            sizes[file as usize] = 0;
        } else {
            let count = rng.below(400) as u32;
            match layout.grow(file, count, &mut new) {
                Ok(()) => sizes[file as usize] += count,
                Err(LayoutError) => refused += 1,
            }
        }
        assert_eq!(layout.blocks_of(file), sizes[file as usize]);
        if round % 500 == 0 {
            layout.check();
        }
    }
    for file in 0..500 {
        layout.free(file, &mut new);
    }
    layout.reuse(layout.freed());
    layout.check();
    assert_eq!(layout.free_blocks(), before);
    assert!(Layout::new(40, 10, 20).is_err(), "too small for anything");
    assert!(refused < 20_000);
}

/// A group whose runs are shorter than a file is skipped, though it is near, while another can hold the file in one piece.
#[test]
fn an_aged_group_is_passed_over_for_files_longer_than_its_runs() {
    const GROUP: u32 = 32_768;
    let mut layout = Layout::new(3 * GROUP, 1_100, 20).unwrap();
    let mut new = Vec::new();
    let group_of = |new: &[Extent]| new.iter().map(|extent| extent.block / GROUP).collect::<Vec<u32>>();
    (0..1_000).for_each(|file| layout.grow(file, 32, &mut new).unwrap());
    assert_eq!(group_of(&new), [0], "the set fits into the group of its directories");
    (0..1_000).step_by(2).for_each(|file| layout.free(file, &mut new));
    layout.reuse(layout.freed());
    layout.check();
    layout.grow(1_001, 20, &mut new).unwrap();
    assert_eq!(group_of(&new), [0], "short enough for the runs that are there");
    layout.grow(1_002, 64, &mut new).unwrap();
    assert_eq!(group_of(&new), [1], "in one piece, in the next group");
    // Once no other group has a long run, the first group with enough blocks gives pieces, until the rest fits elsewhere in one piece.
    (1_003..1_007).for_each(|file| layout.grow(file, 15_300, &mut new).unwrap());
    layout.grow(1_007, 8_000, &mut new).unwrap();
    let (last, pieces) = group_of(&new).split_last().map(|(&last, pieces)| (last, pieces.to_vec())).unwrap();
    assert!(last == 2 && pieces.len() > 100 && pieces.iter().all(|&group| group == 0), "{pieces:?}, {last}");
    layout.check();
}

fn small(personality: Personality) -> FilesConfig {
    FilesConfig {
        files: 400,
        file_bytes: 24 << 10,
        threads: 12,
        // Small enough that pages are evicted all the time.
        page_cache_bytes: 3 << 20,
        runtime: Some(Nanos::from_secs(15)),
        ..FilesConfig::new(personality)
    }
}

/// A drive with a random time per request, which remembers the version of each block.
struct Drive {
    rng: Rng,
    now: SimTime,
    disk: BTreeMap<u32, u32>,
    under_way: BTreeMap<(SimTime, u32), (RequestKind, Extent, Vec<u32>)>,
    moving: BTreeMap<u32, RequestKind>,
    log: Vec<(u64, u32, u32)>,
}

/// Runs a file set to its end. Every read of the drive finds the last written version; each block has at most one request in
/// flight.
fn drive(config: &FilesConfig) -> (Files, Vec<(u64, u32, u32)>) {
    let mut files = Files::new(config, 400 << 20).unwrap();
    let mut drive = Drive {
        rng: Rng::new(9),
        now: SimTime::ZERO,
        disk: BTreeMap::new(),
        under_way: BTreeMap::new(),
        moving: BTreeMap::new(),
        log: Vec::new(),
    };
    let journal = files.layout().journal();
    let in_journal = |block: u32| (journal.block..journal.block + journal.count).contains(&block);
    let mut steps = 0u32;
    loop {
        let next = files.next(drive.now);
        steps += 1;
        if steps.is_multiple_of(4_096) {
            files.check();
        }
        match next {
            FilesNext::Now(request) => {
                let Extent { block, count } = request.extent;
                let blocks = block..block + count;
                drive.log.push((drive.now.0, block, count));
                let mut versions = Vec::new();
                for block in blocks.clone().filter(|&block| !in_journal(block)) {
                    assert!(
                        drive.moving.insert(block, request.kind).is_none(),
                        "two requests for block {block}"
                    );
                    if request.kind == RequestKind::Read {
                        let newest = files.newest.get(&block).copied().unwrap_or(0);
                        let there = drive.disk.get(&block).copied().unwrap_or(0);
                        // A block not written since its allocation has no content.
                        assert!(
                            newest == there || newest == 0,
                            "block {block}: {there} is read, {newest} was written"
                        );
                    } else {
                        versions.push(files.page_cache().version(block).expect("a page that is written"));
                    }
                }
                let time = 1_000_000 + drive.rng.below(9_000_000);
                let at = SimTime(drive.now.0 + time);
                drive.under_way.insert((at, request.token), (request.kind, request.extent, versions));
                continue;
            }
            FilesNext::End => return (files, drive.log),
            FilesNext::At(at) => {
                let first = drive.under_way.first_key_value().map(|(&(at, _), _)| at);
                drive.now = first.map_or(at, |first| first.min(at));
            }
            FilesNext::Blocked => {
                drive.now = drive.under_way.first_key_value().expect("nothing to wait for").0.0;
            }
        }
        while let Some((&(at, token), _)) = drive.under_way.first_key_value()
            && at <= drive.now
        {
            let (kind, extent, versions) = drive.under_way.remove(&(at, token)).unwrap();
            for (block, version) in (extent.block..).zip(versions) {
                drive.disk.insert(block, version);
            }
            if kind != RequestKind::Flush && !in_journal(extent.block) {
                (extent.block..extent.block + extent.count).for_each(|block| {
                    drive.moving.remove(&block);
                });
            }
            files.completed(token, at);
        }
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_page_cache_is_never_old() {
    for personality in Personality::ALL {
        for picks in [Picks::Together, Picks::Apart, Picks::Random] {
            let mut config = small(personality);
            config.host.picks = picks;
            let (files, log) = drive(&config);
            files.check();
            let report = files.report(SimTime(u64::MAX));
            assert!(report.operations > 1_500, "{personality:?}: {} operations", report.operations);
            assert!(log.len() > 500, "{personality:?}: {} requests", log.len());
            assert!(report.page_hit_ratio.is_some_and(|ratio| ratio < 0.99), "{report:?}");
            assert!(report.refused < report.operations / 100, "{report:?}");
        }
    }
}

/// Threads share a rotation, so every file is read equally often; separate rotations would cluster them.
#[test]
fn threads_share_a_rotation() {
    for (picks, most) in [(Picks::Together, 1), (Picks::Apart, usize::MAX)] {
        let mut config = FilesConfig { file_bytes: 12 << 10, ..small(Personality::Webserver) };
        config.host.picks = picks;
        let (files, log) = drive(&config);
        let first_block = |file: u32| files.layout().extents(file).first().map(|extent| extent.block);
        let firsts: BTreeMap<u32, u32> =
            (0..config.files).filter_map(|file| Some((first_block(file)?, file))).collect();
        let mut reads = vec![0; config.files as usize];
        for (_, block, count) in log {
            firsts.range(block..block + count).for_each(|(_, &file)| reads[file as usize] += 1);
        }
        let spread = reads.iter().max().unwrap() - reads.iter().min().unwrap();
        let is_even = spread <= 1;
        assert_eq!(is_even, most == 1, "{picks:?}: {spread} reads between files");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_seed_decides_everything() {
    let config = small(Personality::Fileserver);
    let (one, other) = (drive(&config), drive(&config));
    assert_eq!(one.1, other.1);
    assert_eq!(one.0.report(SimTime::MAX), other.0.report(SimTime::MAX));
    let third = drive(&FilesConfig { seed: 2, ..config });
    assert_ne!(one.1, third.1);
}

/// The published mixes: per round, each operation occurs as often as in filebench's loop, and varmail syncs twice.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn operations_are_mixed_as_published() {
    for (personality, operation, in_a_round) in [
        (Personality::Fileserver, "create", 1.0),
        (Personality::Fileserver, "open", 2.0),
        (Personality::Webserver, "read_whole", 10.0),
        (Personality::Webserver, "append_log", 1.0),
        (Personality::Varmail, "fsync", 2.0),
        (Personality::Varmail, "append", 2.0),
    ] {
        let (files, _) = drive(&small(personality));
        let report = files.report(SimTime::MAX);
        let round = personality.operations().len() as f64;
        let of = report.by_operation.iter().find(|of| of.operation == operation).unwrap();
        let share = of.latency.count as f64 / report.operations as f64;
        assert!(
            (share * round / in_a_round - 1.0).abs() < 0.05,
            "{personality:?} {operation}: {share} of {report:?}"
        );
    }
}

#[test]
fn an_fsync_waits_for_its_commit() {
    let (files, _) = drive(&small(Personality::Varmail));
    let report = files.report(SimTime::MAX);
    let fsync = report.by_operation.iter().find(|of| of.operation == "fsync").unwrap();
    // Data, journal, flush, commit block, flush: five requests of at least 1 ms, one after the other.
    assert!(fsync.latency.min_ns.unwrap() >= 4_000_000, "{fsync:?}");
    assert!(report.commits > 100 && report.commits <= fsync.latency.count, "{report:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let config =
        FilesConfig { files: 10_000, file_bytes: 128 << 10, ..FilesConfig::new(Personality::Fileserver) };
    let error = Files::new(&config, 256 << 20).unwrap_err();
    assert!(error.contains("10000 files of 128 KiB"), "{error}");
    // The file set needs more than the drive has.
    let numbers: Vec<u64> = error.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [_, _, needed, there] = numbers[..] else { panic!("{error}") };
    assert!((900..1100).contains(&needed) && (200..256).contains(&there), "{error}");
    // Space for data does not imply space for all inodes of one directory.
    let config =
        FilesConfig { files: 1 << 20, file_bytes: 1 << 10, ..FilesConfig::new(Personality::Varmail) };
    let error = Files::new(&config, 64 << 30).unwrap_err();
    assert!(error.contains("directories of 1048576 files"), "{error}");
}
