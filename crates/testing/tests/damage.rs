//! Damage done to a running drive: what it answers, and that it goes on.

use pellucid_device::Device;
use pellucid_flash::{BlockId, Cause, Command, Completion, DieId, Lba, Lpn, Opcode, SimTime, Status};
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute, jobs, parse_job};
use pellucid_media::Fault;
use pellucid_testing::swarm::tiny;

fn drive(sets: &[&str]) -> Device {
    let mut all = vec![
        "media.channels=4",
        "media.store=ram",
        "buffer.retain=false",
        "buffer.entries=8",
        "ftl.over_provisioning=0.8",
    ];
    all.extend(sets);
    Device::new(&tiny(&all.iter().map(ToString::to_string).collect::<Vec<_>>())).expect("a legal drive")
}

/// Runs one command to its end.
fn ask(device: &mut Device, opcode: Opcode, unit: u64, data: Vec<u8>) -> Completion {
    let sectors = if opcode == Opcode::Flush { 0 } else { 4 };
    let command = Command::new(0, opcode, Lba(4 * unit), sectors, data);
    device.submit(device.now(), command);
    loop {
        if let Some(completion) = device.pop() {
            return completion;
        }
        let next = device.next_event().expect("the drive owes a completion");
        device.advance(next);
    }
}

fn write(device: &mut Device, unit: u64, byte: u8) -> Status {
    ask(device, Opcode::Write, unit, vec![byte; 4096]).status
}

fn flush(device: &mut Device) -> Status {
    ask(device, Opcode::Flush, 0, Vec::new()).status
}

/// Reads a unit; returns its byte if all of its bytes are equal.
fn read(device: &mut Device, unit: u64) -> Result<u8, Status> {
    let completion = ask(device, Opcode::Read, unit, vec![0xee; 4096]);
    assert!(completion.data.iter().all(|&byte| byte == completion.data[0]), "unit {unit} is mixed");
    if completion.status == Status::Success { Ok(completion.data[0]) } else { Err(completion.status) }
}

fn filled(device: &mut Device, units: u64) {
    for unit in 0..units {
        assert_eq!(write(device, unit, unit as u8), Status::Success);
    }
    assert_eq!(flush(device), Status::Success);
}

fn rest(device: &mut Device) {
    while let Some(next) = device.next_event() {
        device.advance(next);
    }
}

#[test]
fn a_dead_die_loses_its_data_and_nothing_else() {
    let mut device = drive(&[]);
    filled(&mut device, 200);
    device.inject(device.now(), Fault::KillDie { die: DieId(1) }).expect("there are four dies");
    let lost: Vec<u64> = (0..200).filter(|&unit| read(&mut device, unit).is_err()).collect();
    assert!((40..60).contains(&lost.len()), "a quarter of the data: {}", lost.len());
    for unit in 0..200 {
        let expected = if lost.contains(&unit) { Err(Status::UnrecoveredRead) } else { Ok(unit as u8) };
        assert_eq!(read(&mut device, unit), expected, "unit {unit}");
    }
    // What was lost can be written again, elsewhere, many times over.
    for round in 0..20 {
        for &unit in &lost {
            assert_eq!(write(&mut device, unit, 100 + round), Status::Success, "{}", device.is_read_only());
        }
    }
    assert_eq!(flush(&mut device), Status::Success);
    device.power_cut().expect("the rest of the drive mounts");
    while device.pop().is_some() {}
    for unit in 0..200 {
        let expected = if lost.contains(&unit) { 119 } else { unit as u8 };
        assert_eq!(read(&mut device, unit), Ok(expected), "unit {unit}");
        assert_ne!(device.layout().die_of(device.namespace(0).locate(Lpn(unit as u32)).unwrap()).0, 1);
    }
    assert!(!device.is_read_only(), "three dies hold the capacity");
    device.check();
}

#[test]
fn a_power_cut_does_not_bring_back_what_a_dead_die_had_replaced() {
    let mut device = drive(&[]);
    filled(&mut device, 100);
    for unit in 0..100 {
        assert_eq!(write(&mut device, unit, 200), Status::Success);
    }
    assert_eq!(flush(&mut device), Status::Success);
    device.inject(device.now(), Fault::KillDie { die: DieId(2) }).unwrap();
    device.power_cut().unwrap();
    while device.pop().is_some() {}
    for unit in 0..100 {
        let found = read(&mut device, unit);
        assert!([Ok(200), Err(Status::UnrecoveredRead)].contains(&found), "unit {unit}: {found:?}");
    }
}

#[test]
fn with_too_few_dies_left_the_drive_is_read_only() {
    let mut device = drive(&[]);
    filled(&mut device, 200);
    for die in 0..3 {
        device.inject(device.now(), Fault::KillDie { die: DieId(die) }).unwrap();
    }
    assert!(device.is_read_only());
    assert_eq!(write(&mut device, 0, 1), Status::ReadOnly);
    let readable = (0..200).filter(|&unit| read(&mut device, unit) == Ok(unit as u8)).count();
    assert!((40..60).contains(&readable), "{readable}");
    device.power_cut().expect("what is left can be read");
    while device.pop().is_some() {}
    assert!(device.is_read_only());
    assert_eq!((0..200).filter(|&unit| read(&mut device, unit) == Ok(unit as u8)).count(), readable);
}

#[test]
fn a_slow_die_takes_as_many_times_as_long() {
    let mut device = drive(&[]);
    filled(&mut device, 8);
    let latency = |device: &mut Device| {
        let completion = ask(device, Opcode::Read, 0, vec![0; 4096]);
        (completion.stages.get(pellucid_flash::Stage::Media).0, completion.completed - completion.submitted)
    };
    let (sense, whole) = latency(&mut device);
    assert_eq!(sense, 50_000);
    let die = device.layout().die_of(device.namespace(0).locate(Lpn(0)).unwrap());
    device.inject(device.now(), Fault::SlowDie { die, factor: 3.0 }).unwrap();
    let (slow_sense, slow_whole) = latency(&mut device);
    assert_eq!((slow_sense, slow_whole.0), (150_000, whole.0 + 100_000));
    device.inject(device.now(), Fault::SlowDie { die, factor: 1.0 }).unwrap();
    assert_eq!(latency(&mut device), (sense, whole));
}

#[test]
fn programs_and_erases_fail_as_often_as_asked() {
    let mut device = drive(&[]);
    device.inject(SimTime::ZERO, Fault::FailPrograms { count: 3 }).unwrap();
    filled(&mut device, 60);
    rest(&mut device);
    assert_eq!(device.counters().program_failures, 3);
    assert!((0..60).all(|unit| read(&mut device, unit) == Ok(unit as u8)));
    assert_eq!(device.bad_blocks(), (0, 3), "their blocks are retired");
    device.inject(device.now(), Fault::FailErases { count: 2 }).unwrap();
    for round in 0..60 {
        filled(&mut device, 60);
        assert_eq!(write(&mut device, 60, round), Status::Success);
    }
    assert_eq!(device.counters().erase_failures, 2);
    assert_eq!(device.bad_blocks(), (0, 5));
    assert!((0..60).all(|unit| read(&mut device, unit) == Ok(unit as u8)));
}

#[test]
fn a_spent_drive_is_read_only_and_stays_so() {
    let mut device = drive(&[]);
    filled(&mut device, 60);
    device.inject(device.now(), Fault::WearOut).unwrap();
    assert_eq!(write(&mut device, 3, 9), Status::ReadOnly);
    device.power_cut().unwrap();
    while device.pop().is_some() {}
    assert_eq!((write(&mut device, 3, 9), read(&mut device, 3)), (Status::ReadOnly, Ok(3)));
}

#[test]
fn a_block_that_loses_data_is_emptied_and_retired() {
    let fault = "media.faults.list=[{ kind = \"read-fail\", die = 0, block = 0, superpage = 2 }]";
    let mut device = drive(&[fault, "scheduler.read_retries=2"]);
    // Enough to close the first block of every die.
    filled(&mut device, 4 * 16 * 2);
    let at_place = |device: &Device, superpage: u32| {
        let place = device.layout().ppa(BlockId(0), superpage);
        (0..128).find(|&unit| device.namespace(0).locate(Lpn(unit)) == Some(place)).map(u64::from)
    };
    let lost = at_place(&device, 2).expect("the third page of the first block holds data");
    let neighbour = at_place(&device, 3).expect("and so does the fourth");
    assert_eq!(read(&mut device, lost), Err(Status::UnrecoveredRead));
    rest(&mut device);
    assert_eq!(device.counters().read_retries, 4, "for the host, and once more to save what was there");
    let now_at = device.namespace(0).locate(Lpn(neighbour as u32)).unwrap();
    assert_ne!(device.layout().block_of(now_at), BlockId(0), "what can be read has left");
    assert_eq!(read(&mut device, neighbour), Ok(neighbour as u8));
    assert_eq!(device.bad_blocks(), (0, 0), "it still holds what was lost");
    assert_eq!(write(&mut device, lost, 77), Status::Success);
    assert_eq!(flush(&mut device), Status::Success);
    rest(&mut device);
    assert_eq!((device.bad_blocks(), read(&mut device, lost)), ((0, 1), Ok(77)));
}

/// Each attempt to read is drawn by itself: a drive without retries fails as many reads as the description says, and a page that
/// failed once can be read again.
#[test]
fn a_read_that_failed_says_nothing_of_the_next() {
    let mut device = drive(&["media.faults.read_fail=0.02", "scheduler.read_retries=0"]);
    filled(&mut device, 100);
    let rounds = 100;
    let failed: Vec<usize> = (0..100)
        .map(|unit| (0..rounds).filter(|_| read(&mut device, unit) != Ok(unit as u8)).count())
        .collect();
    let all: usize = failed.iter().sum();
    assert!((100..400).contains(&all), "{all} of 10,000 reads failed, 200 are drawn");
    assert!(failed.iter().all(|&failed| failed < 15), "failures of each page: {failed:?}");
    device.check();
}

/// A drive whose fresh pages have about four wrong bits in each chunk of 256 bytes, which are really decoded.
fn erring(sets: &[&str]) -> Device {
    let errors = [
        "media.spare_size=512",
        "media.bit_errors.enabled=true",
        "media.bit_errors.factor=1.45e5",
        "ecc.code=bch",
        "ecc.chunk=256",
        "ecc.data=real",
        "ftl.copyback=false",
    ];
    drive(&[&errors[..], sets].concat())
}

#[test]
fn a_block_that_is_nearly_lost_is_written_anew() {
    for (refresh_above, due) in [("10", true), ("\"never\"", false)] {
        let mut device = erring(&["ecc.correctable=20", &format!("ecc.refresh_above={refresh_above}")]);
        filled(&mut device, 200);
        let places = |device: &Device| {
            (0..200).map(|unit| device.namespace(0).locate(Lpn(unit)).unwrap()).collect::<Vec<_>>()
        };
        let before = places(&device);
        // The unit that is nearest to being lost, and its block, are found by reading.
        for unit in 0..200 {
            assert_eq!(read(&mut device, unit), Ok(unit as u8));
        }
        rest(&mut device);
        let refreshed = device.counters().programmed_sectors[Cause::Refresh as usize];
        let erased = device.counters().erases[Cause::Refresh as usize];
        assert_eq!(
            (refreshed > 0, erased > 0, places(&device) != before),
            (due, due, due),
            "{refreshed} {erased}"
        );
        assert_eq!(device.counters().uncorrectable_reads, 0);
        if due {
            // Whole blocks, and only those: what had not to move is where it was.
            let block = |ppa| device.layout().block_of(ppa);
            let left: Vec<BlockId> =
                (0..200).filter(|&u| places(&device)[u] != before[u]).map(|u| block(before[u])).collect();
            assert!((0..200).all(|u| left.contains(&block(before[u])) == (places(&device)[u] != before[u])));
            assert_eq!(refreshed, 4 * left.len() as u64);
            assert!(left.len() < 200 && device.media().array().erase_count(left[0]) == 1);
        }
        assert!((0..200).all(|unit| read(&mut device, unit) == Ok(unit as u8)));
        device.check();
    }
}

/// Every codeword that is read stands in the histogram with its wrong bits, corrected ones too.
#[test]
fn chunks_are_counted_by_their_wrong_bits() {
    for data in ["drawn", "real", "checked"] {
        let mut device = erring(&["ecc.correctable=20", &format!("ecc.data={data}")]);
        filled(&mut device, 100);
        assert_eq!(device.chunks_by_wrong_bits(), [0; 22]);
        (0..100).for_each(|unit| assert_eq!(read(&mut device, unit), Ok(unit as u8)));
        let chunks = device.chunks_by_wrong_bits();
        assert_eq!(chunks.iter().sum::<u64>(), 16 * 100);
        let bits: u64 = (0u64..).zip(chunks).map(|(bits, n)| bits * n).sum();
        assert_eq!((bits, chunks[21]), (device.counters().corrected_bits, 0));
        assert!(chunks[4] > 10 * chunks[12] && chunks[0] < 100, "{chunks:?}");
    }
    let mut lossy = erring(&["ecc.correctable=3", "scheduler.read_retries=0"]);
    filled(&mut lossy, 20);
    (0..20).for_each(|unit| _ = read(&mut lossy, unit));
    let lost = lossy.chunks_by_wrong_bits()[4];
    assert!(lost > 100, "{lost} of 320 chunks have more than three");
    assert!(drive(&[]).chunks_by_wrong_bits().is_empty(), "no model, no count");
}

#[test]
fn a_retry_saves_the_same_units_each_time() {
    let mut device =
        erring(&["ecc.correctable=10", "scheduler.read_retries=1", "media.bit_errors.retry_factor=0.3"]);
    filled(&mut device, 200);
    let round = |device: &mut Device| {
        let retried = |device: &mut Device, unit| {
            let before = device.counters().read_retries;
            assert_eq!(read(device, unit), Ok(unit as u8));
            device.counters().read_retries - before
        };
        (0..200).map(|unit| retried(device, unit)).collect::<Vec<_>>()
    };
    let first = round(&mut device);
    let saved = first.iter().sum::<u64>();
    // 16 chunks, each with more than 10 of 4.0 expected with a chance of 0.3 %.
    assert!((1..30).contains(&saved), "{saved}");
    assert_eq!(device.counters().corrected_reads, saved);
    assert_eq!(round(&mut device), first, "the same cells are wrong again");
    assert_eq!(device.counters().corrected_reads, 2 * saved);
    // Without the retry these are lost, and only these.
    let mut strict = erring(&["ecc.correctable=10", "scheduler.read_retries=0"]);
    filled(&mut strict, 200);
    let lost: Vec<bool> = (0..200).map(|unit| read(&mut strict.clone(), unit).is_err()).collect();
    assert_eq!(lost, first.iter().map(|&retries| retries > 0).collect::<Vec<_>>());
}

#[test]
fn impossible_damage_is_refused_and_does_nothing() {
    let mut device = drive(&[]);
    let refusal = |device: &mut Device, fault| device.inject(SimTime::ZERO, fault).unwrap_err().to_string();
    assert_eq!(refusal(&mut device, Fault::KillDie { die: DieId(4) }), "die = 4: allowed: 0 to 3");
    let slow = Fault::SlowDie { die: DieId(0), factor: 0.0 };
    assert_eq!(refusal(&mut device, slow), "slow_die = 0: allowed: a factor from 0.001 to 1,000,000");
    let errors = Fault::BitErrors { die: None, factor: 2.0 };
    assert!(refusal(&mut device, errors).contains("drive.media.bit_errors.enabled = true"));
    assert!(!device.media().failures().is_dead(DieId(0)));
}

/// A drive made anew from what `device` has on its media, but for the translation page that begins with the places of these units: it cannot
/// be read.
fn without_segment(device: &Device, units: std::ops::Range<u32>) -> Device {
    let mut bytes = Vec::new();
    device.media().export(&device.config().media, &mut bytes).expect("media in memory");
    let entry = |unit| device.namespace(0).locate(Lpn(unit)).map_or(0, |ppa| ppa.0 + 1);
    let mut said = 0u64.to_le_bytes().to_vec();
    said.extend(units.flat_map(|unit| entry(unit).to_le_bytes()));
    let at: Vec<usize> = (0..bytes.len() - said.len()).filter(|&at| bytes[at..].starts_with(&said)).collect();
    assert!(!at.is_empty(), "no such translation page");
    at.into_iter().for_each(|at| bytes[at] ^= 1);
    let media =
        pellucid_media::Media::import(&device.config().media, &mut &bytes[..]).expect("the same shape");
    Device::restore(device.config(), media).expect("a legal drive")
}

#[test]
fn a_map_segment_that_cannot_be_read_brings_back_no_trimmed_data() {
    let mut device = drive(&[]);
    filled(&mut device, 100);
    assert_eq!(ask(&mut device, Opcode::Trim, 0, Vec::new()).status, Status::Success);
    let done = [flush(&mut device), write(&mut device, 50, 7), flush(&mut device)];
    assert_eq!(done, [Status::Success; 3]);
    let mut device = without_segment(&device, 0..9);
    let seen = |device: &mut Device| [0, 1, 50, 150].map(|unit| read(device, unit));
    let lost = Err(Status::UnrecoveredRead);
    assert_eq!(
        seen(&mut device),
        [lost, lost, Ok(7), Ok(0)],
        "what is newer than the translation page counts"
    );
    assert!(
        [(0, true), (50, true), (150, false)]
            .iter()
            .all(|&(u, mapped)| device.namespace(0).is_mapped(Lpn(u)) == mapped)
    );

    // Part of a unit needs the rest of it.
    device.submit(device.now(), Command::new(0, Opcode::Write, Lba(4), 1, vec![9; 1024]));
    rest(&mut device);
    while device.pop().is_some() {}
    assert_eq!((flush(&mut device), read(&mut device, 1)), (Status::WriteFault, lost));
    device.power_cut().expect("it mounts");
    assert_eq!(seen(&mut device), [lost, lost, Ok(7), Ok(0)]);
    for round in 0..40 {
        (2..100).for_each(|unit| assert_eq!(write(&mut device, unit, round), Status::Success));
    }
    assert_eq!(flush(&mut device), Status::Success);
    device.power_cut().expect("it mounts");
    assert_eq!(
        seen(&mut device),
        [lost, lost, Ok(39), Ok(0)],
        "no copy is left, and no zeros take its place"
    );

    assert_eq!([write(&mut device, 1, 5), flush(&mut device)], [Status::Success; 2]);
    assert_eq!(ask(&mut device, Opcode::Trim, 0, Vec::new()).status, Status::Success);
    assert_eq!(seen(&mut device), [Ok(0), Ok(5), Ok(39), Ok(0)]);
    device.check();
}

/// The content of a translation page is in memory: one that GC cannot read is written anew, and takes no block with it.
#[test]
fn translation_pages_that_cannot_be_read_cost_nothing() {
    let superpage = |at: usize| {
        let (die, block, superpage) = (at / 384, at / 16 % 24, at % 16);
        format!("{{ kind = \"read-fail\", die = {die}, block = {block}, superpage = {superpage} }}")
    };
    let all: Vec<String> = (0..4 * 384).map(superpage).collect();
    let list = format!("media.faults.list=[{}]", all.join(", "));
    let mut device =
        drive(&[&list, "media.unit_size=1024", "ftl.victim=fifo", "ftl.checkpoint_every=1000000"]);
    let mut come_and_go = |unit| {
        for opcode in [Opcode::Write, Opcode::Flush, Opcode::Trim, Opcode::Flush] {
            let data = if opcode == Opcode::Write { vec![1; 4096] } else { Vec::new() };
            assert_eq!(ask(&mut device, opcode, unit, data).status, Status::Success);
        }
    };
    // A translation page has 252 pages of 1,024 bytes. One is written again and again; the others are moved.
    (0..10).for_each(|page| come_and_go(63 * page));
    (0..2000).for_each(|_| come_and_go(0));
    rest(&mut device);
    assert!(device.counters().read_retries > 0, "no translation page was read");
    assert_eq!((device.counters().uncorrectable_reads, device.bad_blocks()), (0, (0, 0)));
    device.check();
}

/// A read of GC that brings many units is one read: tried again, corrected or failed once. Beside these only reads of what is known to be
/// lost, which the host sees as errors, end without a retry.
#[test]
fn reads_that_needed_a_retry_are_counted_by_operation() {
    const DRIVE: &str = r#"
[drive.media]
channels = 2
ways = 2
dies = 2
planes = 2
multi_plane = true
page_size = "8KiB"
pages = 32
cell = "mlc"
blocks = 32
[drive.media.timing]
read = ["50us", "70us"]
program = ["200us", "900us"]
erase = "3ms"
channel_rate = "400MB/s"
[drive.media.faults]
read_fail = 0.1
[drive.scheduler]
read_retries = 1
[drive.ftl]
over_provisioning = 0.6
[precondition]
fill = 1.0
"#;
    let mut spec = pellucid_spec::from_str(DRIVE, "planes", &[]).unwrap_or_else(|e| panic!("{e}"));
    spec.jobs = vec![parse_job("rw=randread,bs=4k,number_ios=5000", "test")];
    let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    let (_, report) = execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}"));
    let media = &report.media;
    let ended = media.corrected_reads + media.uncorrectable_reads;
    assert!(report.gc.copied_units > 1000, "blocks are emptied: {:?}", report.gc);
    assert!(media.corrected_reads <= media.read_retries, "{media:?}");
    assert!(ended <= media.read_retries + report.directions.read.errors, "{media:?}");
}
