//! Costs of the firmware's modules, and the second processor: what each costs is counted where it arises, what follows a chore waits for
//! it, steps that cost nothing wait for no processor, and the scheduler's processor works beside that of host interface and FTL.

use pellucid_device::{Device, FirmwareModule};
use pellucid_flash::{Cause, Command, Lba, Nanos, Opcode, Rng, SimTime, Stage};
use pellucid_testing::swarm::{self, tiny};

const MODELS: [&str; 2] = ["tasks", "loop"];

fn drive(sets: &[String]) -> Device {
    Device::new(&tiny(sets)).unwrap()
}

fn owned(sets: &[&str]) -> Vec<String> {
    sets.iter().map(ToString::to_string).collect()
}

fn unit(device: &Device, tag: u64, opcode: Opcode, unit: u64) -> Command {
    let sectors = device.layout().sectors_per_unit;
    let bytes = if opcode == Opcode::Write { sectors as usize * device.image_bytes() } else { 0 };
    Command::new(tag, opcode, Lba(unit * u64::from(sectors)), sectors, vec![0; bytes])
}

/// Lets the drive come to rest. Gives the end of the last command.
fn rest(device: &mut Device) -> SimTime {
    let mut last = device.now();
    loop {
        while let Some(done) = device.pop() {
            last = done.completed;
        }
        let Some(next) = device.next_event() else { return last };
        device.advance(next);
    }
}

/// Random overwrites of units, `depth` at a time.
fn overwrite(device: &mut Device, writes: u64, depth: u64) {
    let units = device.namespace(0).capacity_sectors() / u64::from(device.layout().sectors_per_unit);
    let mut rng = Rng::stream(1, "overwrite");
    for batch in 0..writes / depth {
        for tag in 0..depth {
            let command = unit(device, batch * depth + tag, Opcode::Write, rng.below(units));
            device.submit(device.now(), command);
        }
        rest(device);
    }
}

#[test]
fn garbage_collection_and_overwriting_are_paid_for_as_often_as_they_are_counted() {
    for model in MODELS {
        let busy = |step: &str, module: FirmwareModule| {
            let sets = [
                format!("firmware.model={model}"),
                format!("firmware.{step}.fixed=\"1us\""),
                "buffer.retain=false".into(),
                "buffer.entries=16".into(),
                "ftl.wear.static_gap=\"never\"".into(),
                "ftl.durability=\"volatile\"".into(),
            ];
            let mut device = drive(&sets);
            overwrite(&mut device, 6_000, 8);
            let time = device.busy().firmware_by_module()[module as usize];
            assert_eq!(device.busy().firmware(), time, "{step}: no other module works");
            (time.0 / 1_000, device)
        };
        let (victims, device) = busy("victim", FirmwareModule::Gc);
        assert_eq!(victims, device.ftl_counters().victims.iter().sum::<u64>(), "{model}");
        assert!(victims > 100, "{model}: {victims}");
        let (copies, device) = busy("copy", FirmwareModule::Gc);
        let units = device.counters().programmed_sectors[Cause::Gc as usize]
            / u64::from(device.layout().sectors_per_unit);
        // Units that were overwritten on the way are read and not programmed.
        assert!(units > 100 && copies >= units && copies < units + units / 4, "{model}: {copies} {units}");
        let (placed, device) = busy("allocate", FirmwareModule::Translation);
        let programmed: u64 = device.counters().programmed_sectors.iter().sum();
        let padding = device.counters().programmed_sectors[Cause::Padding as usize];
        assert_eq!(placed, (programmed - padding) / u64::from(device.layout().sectors_per_unit), "{model}");
        let (invalidated, device) = busy("invalidate", FirmwareModule::Translation);
        // All but the first write to each unit, and those that only the buffer has seen, some in its 16 entries still.
        let units = device.namespace(0).capacity_sectors() / u64::from(device.layout().sectors_per_unit);
        let (host, hits) = (device.counters().host_writes, device.counters().buffer_write_hits);
        assert!(
            invalidated < host && invalidated + units + hits + 16 >= host,
            "{model}: {invalidated} of {host}, {units} {hits}"
        );
    }
}

#[test]
fn an_entry_is_evicted_for_each_page_that_comes_to_a_full_buffer() {
    for model in MODELS {
        let sets = [
            format!("firmware.model={model}"),
            "firmware.evict.fixed=\"1us\"".into(),
            "buffer.entries=8".into(),
        ];
        let mut device = drive(&sets);
        for n in 0..40 {
            let command = unit(&device, n, Opcode::Read, n);
            device.submit(device.now(), command);
            rest(&mut device);
        }
        assert_eq!(
            device.busy().firmware_by_module()[FirmwareModule::Buffer as usize],
            Nanos(32_000),
            "{model}"
        );
    }
}

#[test]
fn a_discard_pays_for_each_page_that_it_unmaps() {
    let discard = |step: &str| {
        let mut device = drive(&[format!("firmware.{step}.fixed=\"1us\"")]);
        for n in [0, 1, 2, 5] {
            let command = unit(&device, n, Opcode::Write, n);
            device.submit(device.now(), command);
        }
        device.submit(device.now(), Command::new(9, Opcode::Flush, Lba(0), 0, Vec::new()));
        rest(&mut device);
        let before = device.busy().firmware();
        let sectors = 8 * device.layout().sectors_per_unit;
        device.submit(device.now(), Command::new(10, Opcode::Trim, Lba(0), sectors, Vec::new()));
        rest(&mut device);
        (device.busy().firmware().0 - before.0) / 1_000
    };
    assert_eq!((discard("lookup"), discard("invalidate")), (8, 4));
}

/// All steps and modules of a drive cost something.
fn costly(model: &str, processors: u32) -> Vec<String> {
    let steps = [
        "fetch",
        "slice",
        "lookup",
        "entry",
        "evict",
        "translate",
        "allocate",
        "invalidate",
        "depend",
        "victim",
        "copy",
        "dma",
        "issue",
        "status",
        "arrival",
        "complete",
    ];
    let mut sets: Vec<String> = steps.iter().map(|step| format!("firmware.{step}.fixed=\"3us\"")).collect();
    sets.extend([format!("firmware.model={model}"), format!("firmware.processors={processors}")]);
    sets.extend(owned(&["media.timing.op_spread=0.0", "buffer.write=write-through", "buffer.retain=false"]));
    sets
}

/// One request after the other leaves nothing to do side by side: what one processor hands over to the other is not begun before
/// the chores that belong to it have ended.
#[test]
fn a_single_request_takes_as_long_with_two_processors() {
    for model in MODELS {
        let took = |processors| {
            let mut device = drive(&costly(model, processors));
            let mut times = Vec::new();
            for opcode in [Opcode::Write, Opcode::Read] {
                let began = device.now();
                let command = unit(&device, 0, opcode, 3);
                device.submit(began, command);
                times.push(rest(&mut device) - began);
            }
            times
        };
        assert_eq!(took(1), took(2), "{model}");
    }
}

#[test]
fn many_requests_are_done_sooner_with_two_processors() {
    for model in MODELS {
        let took = |processors| {
            let mut device = drive(&costly(model, processors));
            (0..64).for_each(|n| {
                let command = unit(&device, n, Opcode::Read, n);
                device.submit(SimTime::ZERO, command);
            });
            let end = rest(&mut device);
            let busy: u64 = device.busy().firmware_by_module().iter().map(|time| time.0).sum();
            (end.0, busy)
        };
        let ((one, one_busy), (two, two_busy)) = (took(1), took(2));
        assert_eq!(one_busy, two_busy, "{model}: the work is the same");
        assert!(two < one * 9 / 10, "{model}: {two} of {one}");
        assert!(two >= one_busy / 2, "{model}: no more than two work at once");
    }
}

/// Time that each of `count` reads, which come at random so that the processor has this load, spends with the firmware, and the time that
/// the single server of 10 us has for the same arrivals (Lindley's recursion).
fn at_load(load: f64, step: &str, count: usize) -> (Vec<u64>, Vec<u64>) {
    const STEP_NS: u64 = 10_000;
    let mut sets = owned(&[
        "media.timing.read=\"1us\"",
        "media.timing.program=\"2us\"",
        "media.timing.channel_rate=\"2GB/s\"",
        "media.timing.op_spread=0.0",
        "host.commands=1000",
        "buffer.retain=false",
    ]);
    sets.push(format!("firmware.{step}.fixed={STEP_NS}ns"));
    let mut device = drive(&sets);
    let units = device.namespace(0).capacity_sectors() / u64::from(device.layout().sectors_per_unit);
    for n in 0..units {
        let command = unit(&device, n, Opcode::Write, n);
        device.submit(device.now(), command);
        rest(&mut device);
    }
    device.submit(device.now(), Command::new(units, Opcode::Flush, Lba(0), 0, Vec::new()));
    rest(&mut device);
    let mut rng = Rng::stream(1, "arrivals");
    let (mut here, mut server) = (vec![0; count], Vec::new());
    let mut note = |device: &mut Device| {
        while let Some(done) = device.pop() {
            here[done.tag as usize] = done.stages.get(Stage::Firmware).0;
        }
    };
    let mut now = device.now();
    let mut is_free = now;
    for tag in 0..count as u64 {
        now += Nanos((-(1.0 - rng.unit_f64()).ln() * STEP_NS as f64 / load) as u64);
        while let Some(next) = device.next_event().filter(|&next| next <= now) {
            device.advance(next);
            note(&mut device);
        }
        let command = unit(&device, tag, Opcode::Read, rng.below(units));
        device.submit(now, command);
        is_free = is_free.max(now) + Nanos(STEP_NS);
        server.push((is_free - now).0);
    }
    while let Some(next) = device.next_event() {
        device.advance(next);
        note(&mut device);
    }
    (here, server)
}

/// Only the step that costs something waits for the processor: its server is M/D/1, with a mean of `1 + load / (2 (1 - load))` steps.
#[test]
fn a_processor_with_one_step_that_costs_something_is_a_queue_with_one_server() {
    for (load, theory) in [(0.5, 15_000.0), (0.8, 30_000.0), (0.9, 55_000.0)] {
        let (here, server) = at_load(load, "fetch", 60_000);
        let mean = here.iter().sum::<u64>() as f64 / here.len() as f64;
        assert!((mean / theory - 1.0).abs() < 0.06, "load {load}: {mean:.0} ns, theory {theory}");
        let other = here.iter().zip(&server).filter(|(here, server)| here != server).count();
        assert_eq!(other, 0, "load {load}: reads that do not wait as long as at one server");
    }
}

/// While it handles an admin command, the processor does nothing else.
#[test]
fn a_command_waits_for_an_admin_command() {
    for model in MODELS {
        let done = |admin: &str, processors: u32| {
            let mut sets = owned(&["firmware.fetch.fixed=\"1us\"", "firmware.turn.fixed=\"1us\""]);
            sets.extend([format!("firmware.model={model}"), format!("firmware.processors={processors}")]);
            sets.push(format!("firmware.admin.fixed={admin}"));
            let mut device = drive(&sets);
            device.handle_admin(SimTime(5_000));
            let command = unit(&device, 0, Opcode::Read, 0);
            device.submit(SimTime(6_000), command);
            let end = rest(&mut device);
            (end.0, device.busy().firmware_by_module()[FirmwareModule::Admin as usize].0)
        };
        for processors in [1, 2] {
            let (free, costly) = (done("0", processors), done("\"50us\"", processors));
            assert_eq!((free.1, costly.1), (0, 50_000), "{model}");
            assert!(costly.0 > 55_000 && costly.0 < free.0 + 55_000, "{model}: {costly:?} {free:?}");
        }
    }
}

/// Drives whose dies die and whose operations fail while they work, with every module at a cost.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn damaged_drives_with_costly_modules_never_return_a_wrong_sector() {
    let mut ran = 0;
    for seed in 0..60 {
        let mut rng = Rng::stream(seed, "firmware modules");
        let mut sets = vec![format!("firmware.processors={}", 1 + rng.below(2))];
        for step in
            ["lookup", "entry", "evict", "translate", "allocate", "invalidate", "depend", "victim", "copy"]
        {
            if rng.chance(0.6) {
                sets.push(format!("firmware.{step}.fixed={}ns", 100 + rng.below(4_000)));
            }
        }
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        ran += u32::from(swarm::run_harder_seed_with(seed, &sets, 600));
    }
    assert!(ran > 50, "{ran} of 60");
}
