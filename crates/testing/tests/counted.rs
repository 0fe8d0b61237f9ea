//! Drives and reports count as the definitions promise, also without a page map.

use pellucid_device::Device;
use pellucid_flash::{BlockId, Cause, ChunkOp, Command, Lba, Opcode, SimTime, ZoneAction, ZoneOp};
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment;
use pellucid_report::Report;
use pellucid_spec::Spec;
use pellucid_testing::conformance::Bench;
use pellucid_testing::swarm::{TINY, tiny};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// About four wrong bits in every codeword.
const ERRING: [&str; 4] = [
    "media.spare_size=2048",
    "media.bit_errors.enabled=true",
    "media.bit_errors.factor=1.45e5",
    "ecc.code=bch",
];

fn owned(sets: &[&str]) -> Vec<String> {
    sets.iter().map(ToString::to_string).collect()
}

fn described(more: &str, sets: &[&str]) -> Spec {
    pellucid_spec::from_str(&format!("{TINY}{more}"), "tiny", &owned(sets)).unwrap_or_else(|e| panic!("{e}"))
}

fn run(spec: &Spec) -> Report {
    let jobs = experiment::jobs(spec).unwrap_or_else(|e| panic!("{e}"));
    experiment::execute(spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}")).1
}

const READS: &str = "[[job]]\nrw = 'randread'\nbs = '4k'\nnumber_ios = 400\n";

#[test]
fn senses_are_counted_without_their_retries() {
    let fault = "media.faults.list=[{kind='read-fail',die=0,block=0,superpage=2,attempts=3}]";
    let mut device = Device::new(&tiny(&owned(&["buffer.retain=false", fault]))).unwrap();
    let ask = |device: &mut Device, opcode, unit: u64| {
        let sectors = if opcode == Opcode::Flush { 0 } else { 4 };
        let data = vec![0; sectors as usize * device.image_bytes()];
        device.submit(device.now(), Command::new(0, opcode, Lba(4 * unit), sectors, data));
        while let Some(next) = device.next_event() {
            device.advance(next);
        }
        device.pop().expect("a completion");
    };
    (0..40).for_each(|unit| ask(&mut device, Opcode::Write, unit));
    ask(&mut device, Opcode::Flush, 0);
    let before = device.counters();
    (0..40).for_each(|unit| ask(&mut device, Opcode::Read, unit));
    let after = device.counters();
    let host = Cause::Host as usize;
    assert_eq!((after.reads[host] - before.reads[host], after.read_retries), (40, 3));
}

/// The probes see every codeword, so they count all bits that were corrected.
#[test]
fn bits_are_counted_in_all_units_of_a_sense() {
    for namespace in ["open-channel", "zoned"] {
        let named = format!("[[drive.namespace]]\ninterface = '{namespace}'\n");
        let sets = ERRING.map(|set| format!("drive.{set}"));
        let sets: Vec<&str> = sets.iter().map(String::as_str).chain(["drive.ecc.correctable=20"]).collect();
        let mut bench = Bench::new(&named, &sets);
        bench.write(Lba(0), 16, 1);
        while bench.step() {}
        bench.read(Lba(0), 16);
        let chunks = bench.drive.chunks_by_wrong_bits().to_vec();
        assert_eq!(chunks.last(), Some(&0), "nothing is lost");
        let bits: u64 = (0..).zip(&chunks).map(|(bits, count)| bits * count).sum();
        assert!(bits > 100, "{namespace}: {chunks:?}");
        assert_eq!(bench.drive.counters().corrected_bits, bits, "{namespace}");
    }
}

#[test]
fn what_preconditioning_reads_is_not_counted() {
    let fill = "[precondition]\nfill = 0.9\noverwrite = 2\n";
    let device = experiment::prepare(&described(fill, &ERRING), None).unwrap();
    assert!(device.erase_counts().sum::<u32>() > 0, "it has collected");
    assert_eq!(device.chunks_by_wrong_bits().iter().sum::<u64>(), 0);
}

#[test]
fn chunks_and_zones_have_free_blocks_and_a_capacity() {
    for (namespace, capacity) in [
        ("interface = 'open-channel'\n", 24 * 64 * 1024),
        ("interface = 'open-channel'\nmanagement = 'shared'\nspare_blocks = 1\n", 20 * 64 * 1024),
        ("interface = 'zoned'\nspare_blocks = 1\n", 20 * 64 * 1024),
    ] {
        let mut bench = Bench::new(&format!("[[drive.namespace]]\n{namespace}"), &[]);
        let snapshot = bench.drive.snapshot();
        assert_eq!((snapshot.free_blocks, snapshot.blocks), (24, 24), "{namespace}");
        assert_eq!(snapshot.capacity_bytes, capacity, "{namespace}");
        bench.write(Lba(0), 8, 1);
        assert_eq!(bench.drive.free_blocks(), 23, "{namespace}");
        bench.drive.check();
    }
}

#[test]
fn blocks_that_go_bad_are_counted_in_every_kind_of_namespace() {
    let reset = Opcode::Zone(ZoneOp::Change(ZoneAction::Reset));
    for (namespace, fault, opcode) in [
        (
            "'open-channel'\nmanagement = 'shared'\nspare_blocks = 2",
            "program_fail=0.5",
            Opcode::Chunk(ChunkOp::Reset),
        ),
        ("'open-channel'", "erase_fail=1", Opcode::Chunk(ChunkOp::Reset)),
        ("'zoned'", "erase_fail=1", reset),
        ("'block'", "program_fail=0.5", Opcode::Trim),
    ] {
        let fault = format!("drive.media.faults.{fault}");
        let mut bench =
            Bench::new(&format!("[[drive.namespace]]\ninterface = {namespace}\n"), &[fault.as_str()]);
        for i in 0..8 {
            bench.write(Lba(8 * i), 8, i);
        }
        bench.run(Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()));
        bench.run(Command::new(0, opcode, Lba(0), 0, Vec::new()));
        while bench.step() {}
        let bad = bench.drive.bad_blocks().1;
        assert!(bad > 0, "{namespace}");
        assert_eq!(bench.drive.counters().retired_blocks, u64::from(bad), "{namespace}");
    }
}

/// Mounting erases what a cut has left half written, and retires what it may not erase.
#[test]
fn wear_is_known_after_a_power_cut_too() {
    let mut erased = 0;
    for namespace in ["'open-channel'\nmanagement = 'shared'\nspare_blocks = 2", "'zoned'"] {
        let mut bench = Bench::new(&format!("[[drive.namespace]]\ninterface = {namespace}\n"), &[]);
        bench.drive.watch();
        for round in 0..12 {
            let chunk = Lba(64 * (round % 4));
            bench.submit(Command::new(0, Opcode::Write, chunk, 8, vec![7; 8 * 1024]));
            while bench.drive.busy().dies_at_work() == 0 && bench.step() {}
            for _ in 0..round % 5 {
                bench.step();
            }
            bench.power_cut();
            let probes = bench.drive.snapshot().probes.expect("watched");
            let mut blocks = BTreeMap::new();
            bench.drive.erase_counts().for_each(|erases| *blocks.entry(erases).or_default() += 1);
            assert_eq!(probes.blocks_by_erases, blocks, "{namespace}, round {round}");
        }
        erased += bench.drive.erase_counts().sum::<u32>();
    }
    assert!(erased > 0);
}

/// Data are as old as their program, also on a drive that has not been read for long.
#[test]
fn data_that_were_just_written_are_fresh() {
    for namespace in ["open-channel", "zoned", "block"] {
        let wrong_bits = |days: u64| {
            let named = format!("[[drive.namespace]]\ninterface = '{namespace}'\n");
            let sets = ERRING.map(|set| format!("drive.{set}"));
            let sets = sets.iter().map(String::as_str).chain(["drive.buffer.retain=false"]);
            let mut drive = Bench::new(&named, &sets.collect::<Vec<_>>()).drive;
            let written = SimTime(days * 86_400_000_000_000);
            for (tag, opcode, fua) in [(0, Opcode::Write, true), (1, Opcode::Read, false)] {
                let command = Command::new(tag, opcode, Lba(0), 8, vec![0; 8 * 1024]);
                drive.submit(drive.now().max(written), Command { fua, ..command });
                while let Some(next) = drive.next_event() {
                    drive.advance(next);
                }
            }
            (0..).zip(drive.chunks_by_wrong_bits()).map(|(bits, count)| bits * count).sum::<u64>()
        };
        assert!(wrong_bits(0) > 0, "{namespace}");
        assert_eq!(wrong_bits(100), wrong_bits(0), "{namespace}");
    }
}

/// No part is busy for longer than the elapsed time, whatever is under way or booked.
#[test]
fn busy_times_are_those_that_have_passed() {
    let base = ["buffer.entries=8", "host.link_rate=\"20MB/s\"", "media.timing.channel_rate=\"20MB/s\""];
    let steps = ["fetch", "slice", "issue", "status", "complete", "turn", "poll"];
    let steps: Vec<String> = steps.map(|step| format!("firmware.{step}.fixed=\"40us\"")).into();
    for model in ["tasks", "loop"] {
        let model = format!("firmware.model={model}");
        let sets: Vec<&str> = base.into_iter().chain(steps.iter().map(String::as_str)).collect();
        let mut device = Device::new(&tiny(&owned(&[&sets[..], &[model.as_str()]].concat()))).unwrap();
        for tag in 0..96 {
            let opcode = if tag % 2 == 0 { Opcode::Write } else { Opcode::Read };
            let data = vec![0; 16 * device.image_bytes()];
            device.submit(SimTime::ZERO, Command::new(tag, opcode, Lba(8 * tag), 16, data));
        }
        let mut cut = false;
        while let Some(next) = device.next_event() {
            device.advance(next);
            let passed = device.now() - SimTime::ZERO;
            let parts =
                [device.busy().channels(), device.busy().dies(), device.busy().link().to_vec()].concat();
            for busy in parts.into_iter().chain([device.busy().firmware()]) {
                assert!(busy <= passed, "{model}: {busy:?} of {passed:?}");
            }
            if !cut && device.counters().programs.iter().sum::<u64>() > 20 {
                cut = true;
                let before = (device.busy().channels(), device.busy().link(), device.busy().firmware());
                device.power_cut().unwrap();
                assert_eq!(
                    (device.busy().channels(), device.busy().link(), device.busy().firmware()),
                    before
                );
            }
        }
        assert!(cut && device.busy().channels().iter().all(|busy| busy.0 > 0), "{model}");
    }
}

/// Under a layer of the host the drive writes, too: blocks of chunks that are nearly lost anew.
#[test]
fn the_time_series_has_all_that_was_programmed() {
    let layers = "[[drive.namespace]]\ninterface = 'open-channel'\nmanagement = 'shared'\nspare_blocks = 8\n\
                  [host]\nlayers = ['host-ftl']\n[host.ftl]\nover_provisioning = 2.0\n";
    let job = "[[job]]\nrw = 'randrw'\nbs = '4k'\niodepth = 4\nnumber_ios = 4000\n";
    let sets = ["media.blocks=60", "ecc.correctable=60", "ecc.refresh_above=8", "precondition.fill=1"];
    let report = run(&described(&format!("{layers}{job}"), &[&ERRING[..], &sets].concat()));
    let (all, series) = (&report.write_amplification, &report.series);
    assert!(all.programmed_bytes[Cause::Refresh] > 0, "{:?}", all.programmed_bytes);
    let sum = |bytes: &[u64]| bytes.iter().sum::<u64>();
    let programmed = sum(&series.programmed_host_bytes) + sum(&series.programmed_other_bytes);
    assert_eq!(programmed, all.programmed_bytes_total);
    assert_eq!(sum(&series.host_written_bytes), all.host_written_bytes);
}

/// Data on a shelf age, under layers and in files as in a bare drive.
#[test]
fn data_lie_on_the_shelf_under_layers_and_in_files_too() {
    let layers = "[[drive.namespace]]\ninterface = 'open-channel'\n\
                  [host]\nlayers = ['host-ftl']\n[host.ftl]\nover_provisioning = 2.0\n";
    let bits = |more: &str, sets: &[&str]| {
        let sets = [&ERRING[..], &["media.blocks=60", "ecc.correctable=60"], sets].concat();
        let report = run(&described(&format!("{more}{READS}"), &sets));
        assert_eq!(report.directions.read.errors, 0);
        report.media.corrected_bits
    };
    for more in ["", layers] {
        let filled = ["precondition.fill=1"];
        let fresh = bits(more, &filled);
        let aged = bits(more, &[filled[0], "precondition.shelf_days=365"]);
        assert!(aged > 4 * fresh && fresh > 0, "{fresh} bits, and {aged} after a year");
    }
    let file = Scratch::new("shelf");
    let store = format!("media.store=file:{}", file.0.display());
    let fresh = bits("", &[&store, "precondition.fill=1"]);
    let aged = bits("", &[&store, "precondition.shelf_days=365"]);
    assert!(aged > 4 * fresh, "{fresh} bits, and {aged} after a year");
}

#[test]
fn a_report_says_what_the_drive_has() {
    let one = run(&described(READS, &[]));
    let more = run(&described(READS, &["buffer.read_entries=100"]));
    assert_eq!(more.drive.memory_bytes - one.drive.memory_bytes, 100 * 4096);
    let dense = run(&described(READS, &["media.cell=qlc", "media.mode=slc"]));
    assert!(dense.drive.summary.contains("QLC in SLC mode"), "{}", dense.drive.summary);
    // As much is spare of a third of the drive as of all of it.
    let part =
        "[[drive.namespace]]\ninterface = 'block'\nblocks = 20\n[[drive.namespace]]\ninterface = 'zoned'\n";
    let part = run(&described(&format!("{part}{READS}"), &["media.blocks=60", "media.spare_size=1024"]));
    let spare = |report: &Report| report.drive.summary.split(", ").last().unwrap().to_string();
    assert_eq!(spare(&part), spare(&one), "{}", part.drive.summary);
}

/// A file that is there no more when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("pellucid-counted-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A file knows how long its media were in use, also if they were only read in the end.
#[test]
fn data_in_a_file_do_not_grow_younger() {
    let file = Scratch::new("age");
    let store = format!("media.store=file:{}", file.0.display());
    let made =
        || Device::new(&tiny(&owned(&[&ERRING[..], &["buffer.retain=false", &store]].concat()))).unwrap();
    let bits_corrected = |device: &mut Device, opcode, at: SimTime| {
        let before = device.counters().corrected_bits;
        let command = Command::new(0, opcode, Lba(0), 4, vec![7; 4096]);
        device.submit(device.now().max(at), Command { fua: opcode == Opcode::Write, ..command });
        while let Some(next) = device.next_event() {
            device.advance(next);
        }
        device.counters().corrected_bits - before
    };
    let mut device = made();
    bits_corrected(&mut device, Opcode::Write, SimTime::ZERO);
    let fresh = bits_corrected(&mut device, Opcode::Read, SimTime::ZERO);
    let old = bits_corrected(&mut device, Opcode::Read, SimTime(400 * 86_400_000_000_000));
    assert!(old > 2 * fresh && fresh > 0, "{fresh} {old}");
    drop(device);
    let reopened = bits_corrected(&mut made(), Opcode::Read, SimTime::ZERO);
    assert!(reopened > 2 * fresh, "{fresh} {old} {reopened}");
}

/// With the bad blocks of a drive that was refused, it would refuse the next description, too.
#[test]
fn a_refused_drive_leaves_no_file_behind() {
    let file = Scratch::new("refused");
    let store = format!("media.store=file:{}", file.0.display());
    let made = |sets: &[&str]| Device::new(&tiny(&owned(&[&[&*store], sets].concat())));
    assert!(made(&["media.faults.factory_bad=0.9"]).is_err());
    assert!(!file.0.exists());
    let mut drive = made(&["media.faults.factory_bad=0.01"]).expect("the next one can be made");
    let write = Command::new(0, Opcode::Write, Lba(0), 4, vec![7; 4096]);
    drive.submit(SimTime::ZERO, Command { fua: true, ..write });
    while let Some(next) = drive.next_event() {
        drive.advance(next);
    }
    drop(drive);
    assert!(made(&["ftl.durability=volatile"]).is_err(), "the file is another drive's");
    let drive = made(&[]).expect("and is there still");
    assert!((0..48).any(|block| drive.media().array().next_superpage(BlockId(block)) > 0));
}
