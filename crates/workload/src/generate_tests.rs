//! The stream against the job's settings: places, sizes, mix, ends, release times.

use super::super::{Dialect, JobBuilder, expand};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

const MIB: u64 = 1 << 20;

fn job(dialect: Dialect, keys: &str) -> Job {
    let mut builder = JobBuilder::new(dialect);
    for pair in keys.split_whitespace() {
        let (key, value) = pair.split_once('=').unwrap();
        builder.set(key, value).unwrap();
    }
    builder.build().unwrap()
}

fn native(keys: &str) -> Generator {
    Generator::new(&job(Dialect::Native, keys), 16 * MIB, 512).unwrap()
}

fn fio(keys: &str) -> Generator {
    Generator::new(&job(Dialect::Fio, keys), 16 * MIB, 512).unwrap()
}

fn lbas(generator: Generator) -> Vec<u64> {
    generator.map(|io| io.lba.0).collect()
}

fn error(keys: &str) -> String {
    Generator::new(&job(Dialect::Native, keys), 16 * MIB, 4096).unwrap_err().to_string()
}

#[test]
fn sequential_jobs_cover_the_region_in_order_and_wrap() {
    assert_eq!(lbas(native("rw=read size=32k offset=8k")), [16, 24, 32, 40, 48, 56, 64, 72]);
    assert_eq!(lbas(native("rw=write size=12k io_size=20k")), [0, 8, 16, 0, 8]);
    // The rest after the last whole block is left out.
    assert_eq!(lbas(native("rw=read size=10k number_ios=4")), [0, 8, 0, 8]);
    assert_eq!(lbas(native("rw=read size=10k")), [0, 8]);
    assert_eq!(lbas(native("rw=trim size=8k loops=2")), [0, 8, 0, 8]);
    assert!(native("rw=trim size=8k").all(|io| io.op == Opcode::Trim && io.sectors == 8));
}

#[test]
fn each_direction_of_a_sequential_mix_has_its_position() {
    let mut next = HashMap::from([(Opcode::Read, 0), (Opcode::Write, 0)]);
    for io in native("rw=rw bs=4k,8k number_ios=100") {
        let expected = next.get_mut(&io.op).unwrap();
        assert_eq!(io.lba.0, *expected);
        *expected += u64::from(io.sectors);
    }
    assert!(next.values().all(|position| *position > 0));
}

#[test]
fn the_random_map_covers_every_block_once() {
    for rw in ["randread", "randwrite", "randrw", "randtrim"] {
        let mut seen = lbas(fio(&format!("rw={rw} size=50%")));
        assert_ne!(seen[..8], [0, 8, 16, 24, 32, 40, 48, 56]);
        seen.sort_unstable();
        assert_eq!(seen, (0..2048).map(|block| block * 8).collect::<Vec<_>>(), "{rw}");
    }
    let two = lbas(fio("rw=randread loops=2"));
    assert_eq!(two.len(), 8192);
    assert_ne!(two[..4096], two[4096..], "the second pass has an order of its own");
}

#[test]
fn without_the_map_draws_are_independent() {
    let mut seen = lbas(native("rw=randread"));
    assert_eq!(seen.len(), 4096);
    seen.sort_unstable();
    seen.dedup();
    // 4096 draws of 4096 blocks hit 1 - 1/e of them, 2589 +- 20.
    assert!((2509..2669).contains(&seen.len()), "{}", seen.len());
}

#[test]
fn a_mix_follows_rwmixread() {
    let reads = native("rw=randrw rwmixread=70 number_ios=100000").filter(|io| io.op == Opcode::Read).count();
    // Standard deviation sqrt(100000 * 0.7 * 0.3) = 145; four of it.
    assert!(reads.abs_diff(70_000) < 580, "{reads}");
    assert!(native("rw=randrw rwmixwrite=100 number_ios=1000").all(|io| io.op == Opcode::Write));
}

#[test]
fn trimwrite_writes_what_it_trimmed() {
    for rw in ["trimwrite", "randtrimwrite"] {
        let all: Vec<Io> = native(&format!("rw={rw} io_size=64k bsrange=4k-16k")).collect();
        for pair in all.chunks(2) {
            assert_eq!((pair[0].op, pair[1].op), (Opcode::Trim, Opcode::Write));
            assert_eq!((pair[0].lba, pair[0].sectors), (pair[1].lba, pair[1].sectors));
        }
        let written: u32 = all.chunks(2).map(|pair| pair[1].sectors).sum();
        assert!((128..160).contains(&written), "{written}");
    }
    assert_eq!(native("rw=trimwrite number_ios=5").count(), 10);
}

#[test]
fn sizes_have_their_shares() {
    let count = |keys: &str| {
        let mut counts = BTreeMap::new();
        for io in native(&format!("rw=randwrite number_ios=100000 blockalign=512 {keys}")) {
            *counts.entry(io.sectors).or_insert(0u32) += 1;
        }
        counts
    };
    // Near the end of the region only 4k fits, so it is a little more frequent; there is no third size.
    let small = "bssplit=4k/50:64k/50:128k/0 size=256k norandommap=1";
    assert_eq!(count(small).keys().copied().collect::<Vec<_>>(), [8, 128]);
    assert!(count("bsrange=4k-64k size=256k norandommap=1").keys().all(|sectors| sectors.is_multiple_of(8)));
    let split = count("bssplit=4k/60:64k/40");
    assert!(split[&8].abs_diff(60_000) < 900, "{}", split[&8]);
    assert!(split[&128].abs_diff(40_000) < 900, "{}", split[&128]);
    let range = count("bsrange=4k-18k");
    assert!((1..=4).all(|n| range[&(8 * n)].abs_diff(25_000) < 700), "{range:?}");
}

#[test]
fn percentage_random_continues_behind_the_last_io() {
    let all: Vec<Io> = native("rw=randread percentage_random=30 number_ios=100000").collect();
    let follows = |w: &[Io]| w[1].lba.0 == w[0].lba.0 + 8;
    let sequential = all.windows(2).filter(|w| follows(w)).count();
    // 70 % plus chance hits and minus wraps of 1/4096 each; standard deviation 145.
    assert!(sequential.abs_diff(70_000) < 650, "{sequential}");
    assert!(native("rw=randread percentage_random=0").zip(0..).all(|(io, n)| io.lba.0 == n * 8));
}

#[test]
fn flushes_follow_writes_and_the_end() {
    let ops = |keys: &str| native(keys).map(|io| io.op).collect::<Vec<_>>();
    use Opcode::{Flush, Write};
    assert_eq!(ops("rw=write fsync=2 number_ios=5"), [Write, Write, Flush, Write, Write, Flush, Write]);
    assert_eq!(ops("rw=write fdatasync=2 number_ios=3 end_fsync=1"), [Write, Write, Flush, Write, Flush]);
    assert_eq!(ops("rw=write fsync=2 number_ios=2 end_fsync=1"), [Write, Write, Flush]);
    assert!(!ops("rw=read fsync=1 end_fsync=1 number_ios=9").contains(&Flush));
}

#[test]
fn equal_rates_give_equal_gaps() {
    let mut generator = native("rw=randread rate_iops=3000 number_ios=3001 startdelay=1ms");
    generator.start(SimTime(500));
    for n in 0..=3000u64 {
        assert_eq!(generator.earliest(), SimTime(500 + 1_000_000 + n * 1_000_000_000 / 3000));
        assert!(generator.next().is_some());
    }
    let mut generator = native("rw=read bs=64k rate=64m number_ios=100");
    assert!(
        (0..100).all(|n| generator.earliest() == SimTime(n * 976_562 + n / 2) && generator.next().is_some())
    );
}

#[test]
fn two_rates_set_the_mix() {
    let mut generator = native("rw=randrw rate_iops=3000,1000 runtime=1s");
    let mut counts = HashMap::new();
    for io in generator.by_ref() {
        *counts.entry(io.op).or_insert(0) += 1;
    }
    assert_eq!(counts, HashMap::from([(Opcode::Read, 3000), (Opcode::Write, 1000)]));
    assert_eq!(generator.deadline(), SimTime(1_000_000_000));
}

#[test]
fn poisson_gaps_are_exponential() {
    let mut generator = native("rw=randread rate_iops=10000 rate_process=poisson number_ios=100000");
    let mut times = Vec::new();
    while let (at, Some(_)) = (generator.earliest().0, generator.next()) {
        times.push(at as f64);
    }
    let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt();
    let long = gaps.iter().filter(|gap| **gap > 200_000.0).count() as f64 / n;
    // Mean 100 us; standard errors 0.32 %, for the deviation 0.45 %; e^-2 of the gaps are longer than twice
    // the mean.
    assert!((mean / 1e5 - 1.0).abs() < 0.013, "{mean}");
    assert!((deviation / 1e5 - 1.0).abs() < 0.02, "{deviation}");
    assert!((long - (-2.0f64).exp()).abs() < 0.005, "{long}");
}

#[test]
fn thinking_begins_when_all_have_completed() {
    let mut generator = native("rw=read thinktime=50us thinktime_blocks=2 number_ios=4");
    assert_eq!(generator.earliest(), SimTime(0));
    generator.next();
    assert_eq!(generator.earliest(), SimTime(0));
    generator.next();
    assert_eq!(generator.earliest(), SimTime::MAX);
    generator.completed(SimTime(100));
    assert_eq!(generator.earliest(), SimTime::MAX);
    generator.completed(SimTime(300));
    assert_eq!(generator.earliest(), SimTime(50_300));
}

#[test]
fn the_deadline_counts_delay_ramp_and_runtime() {
    let mut generator = native("rw=read startdelay=1s ramp_time=2s runtime=3s rate_iops=10");
    generator.start(SimTime(7));
    assert_eq!(generator.deadline(), SimTime(6_000_000_007));
    assert_eq!(generator.by_ref().count(), 50, "five seconds of ten");
    assert_eq!(native("rw=read").deadline(), SimTime::MAX);
}

#[test]
fn equal_jobs_give_equal_streams_and_clones_of_a_job_do_not() {
    let keys = "rw=randrw bssplit=4k/50:16k/50 random_distribution=zipf:1.1 rate_iops=1000 \
        rate_process=poisson number_ios=1000";
    let stream = |mut generator: Generator| {
        let mut all = Vec::new();
        while let (at, Some(io)) = (generator.earliest(), generator.next()) {
            all.push((at, io));
        }
        all
    };
    assert_eq!(stream(native(keys)), stream(native(keys)));
    assert_ne!(stream(native(keys)), stream(native(&format!("{keys} randseed=1"))));
    let jobs = expand(vec![job(Dialect::Native, &format!("{keys} numjobs=2 stonewall=1"))]);
    let streams: Vec<_> =
        jobs.iter().map(|job| stream(Generator::new(job, 16 * MIB, 512).unwrap())).collect();
    assert_ne!(streams[0], streams[1]);
    assert_eq!((jobs[0].stonewall, jobs[1].stonewall), (true, false));
    // A clone in the middle of the stream continues as the original does.
    let mut original = native(keys);
    original.by_ref().take(500).for_each(drop);
    assert_eq!(stream(original.clone()), stream(original));
}

#[test]
fn clones_start_at_their_increment() {
    let jobs = expand(vec![job(Dialect::Native, "rw=read offset=1m offset_increment=2m size=1m numjobs=3")]);
    let first = |job: &Job| Generator::new(job, 16 * MIB, 512).unwrap().next().unwrap().lba.0;
    assert_eq!(jobs.iter().map(first).collect::<Vec<_>>(), [2048, 6144, 10_240]);
}

#[test]
fn what_does_not_fit_the_drive_is_refused() {
    for (keys, text) in [
        ("bs=512", "bs = 512: allowed: multiples of the sector, 4096 bytes"),
        ("bsrange=1k-8k", "bsrange = 1024: allowed: multiples of the sector, 4096 bytes"),
        ("bssplit=4k/50:6k/50", "bssplit = 6144: allowed: multiples of the sector, 4096 bytes"),
        ("blockalign=1k rw=randread", "blockalign = 1024: allowed: multiples of the sector, 4096 bytes"),
        ("offset=1k", "offset = 1024: allowed: a multiple of the sector, 4096 bytes"),
        ("offset=16m", "offset = 16777216: allowed: places before the end of the drive, 16777216 bytes"),
        ("offset=100%", "offset = 100%: allowed: places before the end of the drive, 16777216 bytes"),
        (
            "size=12m offset=8m",
            "size = 12582912: allowed: at most 8388608 bytes, from the offset to the end of the drive",
        ),
        ("bs=32m", "size = 100%: allowed: at least one block of 33554432 bytes before the end of the drive"),
        (
            "rw=randread random_distribution=zoned_abs:50/1m:50/64m",
            "random_distribution = zoned: allowed: zones that fit into the region of 4096 blocks (zone 2 \
             ends at 16640)",
        ),
    ] {
        assert_eq!(error(keys), text);
    }
    // An unused direction is not checked.
    assert!(Generator::new(&job(Dialect::Native, "rw=read bs=4k,512"), MIB, 4096).is_ok());
}

fn any_job() -> impl Strategy<Value = String> {
    let rw = prop::sample::select(Pattern::NAMES.map(|(name, _)| name).to_vec());
    let sizes = prop::sample::select(vec![
        "bs=4k",
        "bs=8k,4k,12k",
        "bs=512",
        "bsrange=4k-64k",
        "bsrange=512-9k,4k-8k",
        "bssplit=4k/60:64k/40",
        "bssplit=512/1:12k/99,64k",
    ]);
    let law = prop::sample::select(vec![
        "random",
        "zipf:0.5",
        "zipf:1.2",
        "pareto:0.2",
        "normal:30",
        "zoned:50/20:50/80",
        "random,zipf:1,normal:5",
    ]);
    let extras = prop::sample::select(vec![
        "loops=1",
        "blockalign=512",
        "blockalign=28k",
        "fsync=3",
        "percentage_random=50",
        "rate_iops=100,200",
        "rate=1m rate_process=poisson",
        "thinktime=5us",
        "end_fsync=1",
    ]);
    (rw, sizes, law, extras, 0..2u8, 0..100u8, 1..=100u8, any::<u64>()).prop_map(
        |(rw, sizes, law, extras, map, offset, size, seed)| {
            format!(
                "rw={rw} {sizes} random_distribution={law} {extras} norandommap={map} offset={offset}% \
                 size={size}% \
                 randseed={seed} io_size=3m"
            )
        },
    )
}

proptest! {
    #[test]
    fn no_io_leaves_the_drive(keys in any_job(), sectors in 1u64..40_000) {
        let capacity = sectors * 512 + 100;
        let job = job(Dialect::Native, &keys);
        let Ok(generator) = Generator::new(&job, capacity, 512) else { return Ok(()) };
        let mut total = 0;
        for io in generator.take(2000) {
            if io.op == Opcode::Flush {
                prop_assert_eq!((io.lba.0, io.sectors), (0, 0));
            } else {
                prop_assert!(io.sectors > 0);
                prop_assert!(io.lba.0 + u64::from(io.sectors) <= sectors, "{io:?}");
            }
            total += 1;
        }
        prop_assert!(total > 0);
    }

    #[test]
    fn io_stays_in_its_region(keys in any_job(), start in 0u64..100, length in 128u64..1000) {
        let keys = format!("{keys} offset={} size={}", start * 512, length * 512);
        let Ok(generator) = Generator::new(&job(Dialect::Fio, &keys), 16 * MIB, 512) else { return Ok(()) };
        for io in generator.take(2000).filter(|io| io.op != Opcode::Flush) {
            prop_assert!(io.lba.0 >= start && io.lba.0 + u64::from(io.sectors) <= start + length, "{io:?}");
        }
    }
}
