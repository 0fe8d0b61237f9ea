//! Checks the disk against a plain model, its numbers against published ones, and its power cuts.

use super::*;
use pellucid_flash::{Lba, Nanos, Rng};
use std::collections::BTreeMap;

/// A small disk with the times of a large one.
fn small() -> DiskConfig {
    DiskConfig {
        sectors: 1 << 20,
        zones: 2,
        heads: 2,
        write_cache_bytes: 64 << 10,
        ..DiskConfig::caviar_black()
    }
}

fn images(lba: u64, sectors: u64, version: u32) -> Vec<u8> {
    (lba..lba + sectors)
        .flat_map(|at| (version ^ (at as u32).wrapping_mul(0x9e37_79b9)).to_le_bytes())
        .collect()
}

fn version(lba: u64, image: &[u8]) -> u32 {
    let stamp = u32::from_le_bytes(image.try_into().unwrap());
    if stamp == 0 { 0 } else { stamp ^ (lba as u32).wrapping_mul(0x9e37_79b9) }
}

/// Runs the disk until it is idle, and returns the completions.
fn settle(disk: &mut Disk) -> Vec<Completion> {
    let mut ended = Vec::new();
    loop {
        while let Some(completion) = disk.pop() {
            assert_eq!(
                completion.stages.total(),
                completion.completed - completion.submitted,
                "{completion:?}"
            );
            ended.push(completion);
        }
        let Some(next) = disk.next_event() else { return ended };
        disk.advance(next);
        disk.check();
    }
}

fn one(disk: &mut Disk, opcode: Opcode, lba: u64, sectors: u32, data: Vec<u8>) -> Completion {
    disk.submit(disk.now(), Command::new(1, opcode, Lba(lba), sectors, data));
    settle(disk).pop().expect("a command ends")
}

/// Versions of one sector that a host knows.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The newest version that is certainly there after a power cut.
    durable: u32,
    /// The newest that was acknowledged.
    acknowledged: u32,
    newest: u32,
}

#[derive(Clone, Debug)]
enum Asked {
    Write { lba: u64, sectors: u64, version: u32, fua: bool },
    Read { lba: u64, oldest: Vec<u32> },
    Flush(BTreeMap<u64, u32>),
}

/// Random commands, many at a time, with flushes, forced writes and power cuts, beside what a host knows.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn it_is_a_disk_as_a_host_knows_one() {
    for seed in 0..12 {
        let cache = [0, 16 << 10, 64 << 10][seed as usize % 3];
        let mut disk = Disk::new(&DiskConfig { write_cache_bytes: cache, ..small() }).unwrap();
        let mut rng = Rng::stream(seed, "disk");
        let mut known: BTreeMap<u64, Known> = BTreeMap::new();
        let mut asked: BTreeMap<u64, Asked> = BTreeMap::new();
        let (mut tag, mut given, mut lost_one) = (0, 0, false);
        for _ in 0..4_000 {
            let (lba, sectors) = (rng.below(2_000) * 7, 1 + rng.below(40));
            tag += 1;
            let (command, ask) = match rng.below(100) {
                0..50 => {
                    given += 1;
                    for at in lba..lba + sectors {
                        known.entry(at).or_default().newest = given;
                    }
                    let fua = rng.chance(0.1);
                    let command = Command::new(
                        tag,
                        Opcode::Write,
                        Lba(lba),
                        sectors as u32,
                        images(lba, sectors, given),
                    );
                    (Command { fua, ..command }, Asked::Write { lba, sectors, version: given, fua })
                }
                50..90 => {
                    let oldest = (lba..lba + sectors).map(|at| known.get(&at).map_or(0, |k| k.acknowledged));
                    let data = vec![0xff; sectors as usize * 4];
                    let command = Command::new(tag, Opcode::Read, Lba(lba), sectors as u32, data);
                    (command, Asked::Read { lba, oldest: oldest.collect() })
                }
                90..99 => {
                    let acknowledged = known.iter().map(|(&at, k)| (at, k.acknowledged)).collect();
                    (Command::new(tag, Opcode::Flush, Lba(0), 0, Vec::new()), Asked::Flush(acknowledged))
                }
                _ => {
                    cut(&mut disk, &mut known);
                    asked.clear();
                    lost_one = true;
                    continue;
                }
            };
            asked.insert(tag, ask);
            disk.submit(disk.now(), command);
            let until = disk.now() + Nanos(rng.below(8_000_000));
            disk.advance(until);
            disk.check();
            while let Some(completion) = disk.pop() {
                judge(&completion, asked.remove(&completion.tag).unwrap(), &mut known);
            }
        }
        for completion in settle(&mut disk) {
            judge(&completion, asked.remove(&completion.tag).unwrap(), &mut known);
        }
        assert!(asked.is_empty() && lost_one, "every command ends");
    }
}

/// A completion beside what the host was promised.
fn judge(completion: &Completion, asked: Asked, known: &mut BTreeMap<u64, Known>) {
    assert_eq!(completion.status, Status::Success);
    match asked {
        Asked::Write { lba, sectors, version, fua } => {
            for at in lba..lba + sectors {
                let sector = known.entry(at).or_default();
                // The disk may finish writes under way in any order; these are serialised by version below.
                sector.acknowledged = sector.acknowledged.max(version.min(sector.newest));
                if fua {
                    sector.durable = sector.durable.max(version);
                }
            }
        }
        Asked::Read { lba, oldest } => {
            for ((at, image), oldest) in (lba..).zip(completion.data.chunks(4)).zip(oldest) {
                let read = version(at, image);
                let newest = known.get(&at).map_or(0, |k| k.newest);
                // Writes that overlap under way may end in either order, so only what is older than all of them is stale.
                assert!(read <= newest, "sector {at}: {read} was never written, {newest} is the newest");
                assert!(read > 0 || oldest == 0, "sector {at}: blank, {oldest} was acknowledged");
            }
        }
        Asked::Flush(acknowledged) => {
            for (at, version) in acknowledged {
                let sector = known.entry(at).or_default();
                sector.durable = sector.durable.max(version);
            }
        }
    }
}

/// After a power cut each sector that was flushed holds something, and what is there is the state from then on.
fn cut(disk: &mut Disk, known: &mut BTreeMap<u64, Known>) {
    disk.power_cut();
    disk.check();
    while let Some(completion) = disk.pop() {
        assert!(matches!(completion.status, Status::PowerLoss | Status::Success));
    }
    assert_eq!(disk.outstanding(), 0);
    for (&at, sector) in known.iter_mut() {
        let mut image = [0; 4];
        disk.on_platters(at, &mut image);
        let there = version(at, &image);
        assert!(
            there <= sector.newest && (there > 0 || sector.durable == 0),
            "sector {at}: {there} of {sector:?}"
        );
        *sector = Known { durable: there, acknowledged: there, newest: there };
    }
}

/// One command at a time, so every version is certain: nothing acknowledged is ever read older, and nothing flushed is lost, wherever
/// the power is cut.
#[test]
fn flushed_writes_survive_every_power_cut() {
    let mut rng = Rng::stream(3, "disk cuts");
    let mut disk = Disk::new(&small()).unwrap();
    let mut durable: BTreeMap<u64, u32> = BTreeMap::new();
    let mut newest: BTreeMap<u64, u32> = BTreeMap::new();
    let mut lost = 0;
    for given in 1..600u32 {
        let (lba, sectors) = (rng.below(60) * 16, 1 + rng.below(30));
        let ended =
            one_until_done(&mut disk, Opcode::Write, lba, sectors as u32, images(lba, sectors, given));
        assert_eq!(ended.status, Status::Success);
        newest.extend((lba..lba + sectors).map(|at| (at, given)));
        if rng.chance(0.2) {
            assert_eq!(one_until_done(&mut disk, Opcode::Flush, 0, 0, Vec::new()).status, Status::Success);
            durable.clone_from(&newest);
        }
        let read =
            one_until_done(&mut disk, Opcode::Read, lba, sectors as u32, vec![0; sectors as usize * 4]);
        assert_eq!(read.data, images(lba, sectors, given), "an acknowledged write is read");
        if rng.chance(0.15) {
            // At any moment of what the disk does by itself.
            disk.advance(disk.now() + Nanos(rng.below(30_000_000)));
            disk.power_cut();
            for (&at, &newest) in &newest {
                let mut image = [0; 4];
                disk.on_platters(at, &mut image);
                let there = version(at, &image);
                let least = durable.get(&at).copied().unwrap_or(0);
                assert!((least..=newest).contains(&there), "sector {at}: {there}, of {least} to {newest}");
                lost += u32::from(there < newest);
            }
            for at in newest.keys().copied().collect::<Vec<_>>() {
                let mut image = [0; 4];
                disk.on_platters(at, &mut image);
                newest.insert(at, version(at, &image));
            }
            durable.clone_from(&newest);
        }
    }
    assert!(lost > 100, "power cuts that lose nothing test nothing: {lost}");
}

/// Runs until the command has ended; the disk's background work stays in progress.
fn one_until_done(disk: &mut Disk, opcode: Opcode, lba: u64, sectors: u32, data: Vec<u8>) -> Completion {
    disk.submit(disk.now(), Command::new(9, opcode, Lba(lba), sectors, data));
    loop {
        if let Some(completion) = disk.pop() {
            return completion;
        }
        let next = disk.next_event().expect("a command under way");
        disk.advance(next);
        disk.check();
    }
}

#[test]
fn unreadable_sectors_are_mended_by_writes_and_dead_ones_are_told_of() {
    let mut disk = Disk::new(&small()).unwrap();
    disk.spoil(100..102);
    let read = |disk: &mut Disk, lba| one(disk, Opcode::Read, lba, 4, vec![0; 16]);
    let failed = read(&mut disk, 99);
    assert_eq!(failed.status, Status::UnrecoveredRead);
    assert!(failed.completed - failed.submitted >= disk.config().retry);
    assert_eq!(read(&mut disk, 96).status, Status::Success);
    assert_eq!(one(&mut disk, Opcode::Write, 100, 2, images(100, 2, 1)).status, Status::Success);
    assert_eq!(read(&mut disk, 99).status, Status::Success);
    disk.kill(200..201);
    assert_eq!(one(&mut disk, Opcode::Write, 200, 1, images(200, 1, 2)).status, Status::Success, "cached");
    assert_eq!(one(&mut disk, Opcode::Flush, 0, 0, Vec::new()).status, Status::WriteFault);
    assert_eq!(one(&mut disk, Opcode::Flush, 0, 0, Vec::new()).status, Status::Success, "it has been told");
    assert_eq!(read(&mut disk, 198).status, Status::UnrecoveredRead);
}

#[test]
fn what_it_cannot_do_it_refuses() {
    let mut disk = Disk::new(&small()).unwrap();
    let end = disk.config().sectors;
    assert_eq!(one(&mut disk, Opcode::Read, end - 1, 2, Vec::new()).status, Status::LbaOutOfRange);
    assert_eq!(one(&mut disk, Opcode::Read, u64::MAX, 2, Vec::new()).status, Status::LbaOutOfRange);
    assert_eq!(one(&mut disk, Opcode::Read, 0, 0, Vec::new()).status, Status::InvalidField);
    assert_eq!(one(&mut disk, Opcode::Write, 0, 2, vec![0; 4]).status, Status::InvalidField);
    assert_eq!(one(&mut disk, Opcode::Trim, 0, 8, Vec::new()).status, Status::InvalidOpcode);
    for bad in [
        DiskConfig { zones: 0, ..small() },
        DiskConfig { inner_rate: 0, ..small() },
        DiskConfig { sectors: 100, ..small() },
        DiskConfig { seek_track: Nanos::from_secs(1), ..small() },
        DiskConfig { heads: 0, ..small() },
    ] {
        assert!(Disk::new(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_write_of_zeros_is_read_as_zeros() {
    let mut disk = Disk::new(&small()).unwrap();
    one(&mut disk, Opcode::Write, 10, 4, images(10, 4, 5));
    one(&mut disk, Opcode::WriteZeroes, 11, 2, Vec::new());
    let read = one(&mut disk, Opcode::Read, 10, 4, vec![9; 16]);
    let mut expected = images(10, 4, 5);
    expected[4..12].fill(0);
    assert_eq!(read.data, expected);
}

/// The layout: every address has one place, addresses grow with track and sector, and outer tracks are longer.
#[test]
fn places_are_in_order_and_tracks_get_shorter() {
    let config = small();
    let shape = Shape::new(&config);
    let mut before = shape.place(0);
    for lba in 1..config.sectors {
        let place = shape.place(lba);
        let next = match before.sector + 1 == before.track_sectors {
            true => (before.track + 1, 0),
            false => (before.track, before.sector + 1),
        };
        assert_eq!((place.track, place.sector), next, "sector {lba}");
        assert!(place.track_sectors <= before.track_sectors);
        before = place;
    }
    for (lba, sectors) in [(0, 1), (5, 10_000), (3_000, 3_000), (999_000, 7)] {
        let time = shape.transfer(lba, sectors);
        assert_eq!(shape.passed(lba, sectors, time), sectors);
        assert!(shape.passed(lba, sectors, Nanos(time.0 - 2)) < sectors);
    }
}

/// The mean time of `count` random operations on the first `sectors` sectors, with `depth` outstanding.
fn mean_time(disk: &mut Disk, opcode: Opcode, size: u32, sectors: u64, depth: usize, count: u32) -> f64 {
    let mut rng = Rng::stream(1, "disk times");
    let (mut submitted, mut done, mut begun) = (0, 0, disk.now());
    // A write cache has to fill before its pace is that of the arm.
    let warm = count / 4;
    while done < count {
        while submitted < count && disk.outstanding() < depth {
            let lba = rng.below(sectors / u64::from(size)) * u64::from(size);
            let data = if opcode == Opcode::Write { vec![1; size as usize * 4] } else { Vec::new() };
            disk.submit(disk.now(), Command::new(1, opcode, Lba(lba), size, data));
            submitted += 1;
        }
        let next = disk.next_event().unwrap();
        disk.advance(next);
        while disk.pop().is_some() {
            done += 1;
            if done == warm {
                begun = disk.now();
            }
        }
    }
    (disk.now() - begun).as_secs_f64() / f64::from(count - warm)
}

/// Data sheet: 7,200 rpm, so 4.2 ms of mean latency; a mean seek of 8.9 ms; 138 MB/s sustained.
#[test]
fn its_times_are_those_of_the_data_sheet() {
    let config = DiskConfig::caviar_black();
    let mut disk = Disk::new(&config).unwrap();
    let all = config.sectors;
    let random = mean_time(&mut disk, Opcode::Read, 8, all, 1, 2_000);
    let expected = 8.9e-3 + 4.17e-3;
    assert!(
        (random / expected - 1.0).abs() < 0.05,
        "one random read takes {random} s, {expected} s expected"
    );
    for (from, rate) in [(0, 138e6), (all - (64 << 20) / 512, 66e6)] {
        for opcode in [Opcode::Read, Opcode::Write] {
            let mut disk = Disk::new(&config).unwrap();
            let mut ended = SimTime::ZERO;
            let mut begun = SimTime::ZERO;
            for chunk in 0..(64 << 20) / (128 << 10) {
                let data = if opcode == Opcode::Write { vec![1; 256 * 4] } else { Vec::new() };
                let lba = from + chunk * 256;
                ended = one_until_done(&mut disk, opcode, lba, 256, data).completed;
                if chunk == 0 {
                    begun = ended;
                }
            }
            if opcode == Opcode::Write {
                ended = one_until_done(&mut disk, Opcode::Flush, 0, 0, Vec::new()).completed;
            }
            let measured = f64::from(64 << 20) / (ended - begun).as_secs_f64();
            assert!((measured / rate - 1.0).abs() < 0.05, "{opcode:?} in order: {measured} B/s for {rate}");
        }
    }
}

/// Small reads in order, one at a time, take what command and link take: the arm reads on while they come from the buffer.
#[test]
fn reads_in_order_do_not_wait_for_the_arm() {
    let config = DiskConfig::caviar_black();
    let mut disk = Disk::new(&config).unwrap();
    let reads: u32 = (64 << 20) / 4096;
    let mut ended = SimTime::ZERO;
    for read in 0..reads {
        ended = one_until_done(&mut disk, Opcode::Read, u64::from(read) * 8, 8, Vec::new()).completed;
    }
    let each = config.command + Nanos(4096 * 1_000_000_000 / config.link_rate);
    let least = f64::from(reads) * each.as_secs_f64();
    let measured = ended.as_secs_f64();
    assert!(measured >= least && measured < 1.05 * least, "{measured} s for {least} s of commands and link");
    assert!(disk.counters().operations < 10, "{} operations of the arm", disk.counters().operations);
}

/// A queue lets the arm choose an order: 32 outstanding reads end more than twice as quickly as one by one.
#[test]
fn a_queue_shortens_the_way_of_the_arm() {
    let config = DiskConfig::caviar_black();
    let time =
        |depth| mean_time(&mut Disk::new(&config).unwrap(), Opcode::Read, 8, config.sectors, depth, 3_000);
    let (one, many) = (time(1), time(32));
    assert!(one / many > 2.0, "{one} s alone, {many} s of 32");
}
