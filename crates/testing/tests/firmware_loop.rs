//! The polling firmware: what has ended is noticed when the loop comes by, and not before. And in which order it issues, beside the
//! firmware of tasks.

use pellucid_device::{Device, Filler, FirmwareModule};
use pellucid_flash::{Command, Completion, Lba, Lpn, Nanos, Opcode, SimTime, Stage};
use pellucid_testing::swarm::tiny;

/// A turn of the loop lasts a millisecond, everything else on the processor nothing.
const SLOW: &[&str] = &[
    "firmware.model=loop",
    "firmware.turn.fixed=\"1ms\"",
    "media.timing.op_spread=0.0",
    "buffer.write=write-through",
    "buffer.retain=false",
];

fn drive(sets: &[&str]) -> Device {
    let sets: Vec<String> = sets.iter().map(|s| s.to_string()).collect();
    Device::new(&tiny(&sets)).unwrap()
}

fn run(device: &mut Device, at: SimTime, opcode: Opcode, lba: u64) -> Completion {
    let data = vec![0; 4 * device.image_bytes()];
    device.submit(at, Command::new(0, opcode, Lba(lba), 4, data));
    loop {
        if let Some(completion) = device.pop() {
            return completion;
        }
        let next = device.next_event().expect("a command in flight");
        device.advance(next);
    }
}

fn us(us: u64) -> SimTime {
    SimTime(us * 1000)
}

#[test]
fn each_end_waits_for_the_loop() {
    let mut device = drive(SLOW);
    assert_eq!(device.next_event(), None, "an idle loop makes no events");
    // Never written: no flash. The turn that begins at 1 ms takes the command at its end; the next one sees the DMA.
    let done = run(&mut device, us(300), Opcode::Read, 0);
    assert_eq!(done.completed, us(3_000));
    // DMA sensed at 6 ms and program issued; sensed a turn later, though it lasts half a millisecond.
    let done = run(&mut device, us(3_300), Opcode::Write, 0);
    assert_eq!(done.completed, us(7_000));
    // Sense, transfer and DMA each wait for the end of a turn, though they last 50, 21 and 0 us.
    let done = run(&mut device, us(10_999), Opcode::Read, 0);
    assert_eq!(done.completed, us(16_000));
    assert_eq!(done.stages.total(), done.completed - done.submitted);
    assert_eq!(device.next_event(), None, "at rest again");
}

#[test]
fn a_turn_that_takes_a_command_skips_the_scheduler() {
    let mut device = drive(SLOW);
    let command = |tag| Command::new(tag, Opcode::Read, Lba(0), 4, Vec::new());
    device.submit(us(300), command(0));
    device.submit(us(300), command(1));
    // Taken at 2 and 3 ms; the DMA of the first has long ended when the turn at 3 ms takes the second instead.
    device.advance(us(3_999));
    assert!(device.pop().is_none());
    device.advance(us(4_000));
    assert_eq!(device.pop().map(|c| c.completed), Some(us(4_000)));
}

#[test]
fn tasks_notice_at_once() {
    let mut device = drive(&["media.timing.op_spread=0.0"]);
    assert_eq!(run(&mut device, us(300), Opcode::Read, 0).completed, us(300));
}

/// The ways of the reads that end, all submitted at once: way `n` of the one channel has units `n`, `n + 4`, ...
fn ways_of_reads(sets: &[&str], units: &[u64]) -> Vec<u64> {
    let one_channel =
        ["media.channels=1", "media.ways=4", "media.timing.op_spread=0.0", "buffer.retain=false"];
    let mut device = drive(&[&one_channel, sets].concat());
    let (mut filler, image) = (Filler::default(), vec![0; 4 * device.image_bytes()]);
    (0..32).for_each(|unit| device.fill_unit(&mut filler, Lpn(unit), &image).unwrap());
    device.fill_end(&mut filler).unwrap();
    for (tag, unit) in units.iter().enumerate() {
        device.submit(us(0), Command::new(tag as u64, Opcode::Read, Lba(4 * unit), 4, Vec::new()));
    }
    let mut ways = Vec::new();
    while let Some(next) = device.next_event() {
        device.advance(next);
        while let Some(done) = device.pop() {
            ways.push(units[done.tag as usize] % 4);
        }
    }
    ways
}

const MODELS: [&str; 2] = ["firmware.model=tasks", "firmware.model=loop"];

/// Section 3.3.3: operations of the same priority are handled in a round-robin manner. Sensing takes 1 us, a transfer 21.
#[test]
fn ways_of_one_class_take_turns() {
    // All of way 0 first, then all of way 1, ...
    let units: Vec<u64> = (0..32).map(|n| n / 8 + 4 * (n % 8)).collect();
    for model in MODELS {
        let ways =
            ways_of_reads(&[model, "media.timing.read=\"1us\"", "firmware.turn.fixed=\"1us\""], &units);
        assert_eq!(ways.len(), 32, "{model}");
        for four in ways.windows(4) {
            let served = four.iter().fold(0, |served, way| served | 1 << way);
            assert_eq!(served, 0b1111, "{model}: {ways:?}");
        }
    }
}

/// Section 3.3.2: operations of different commands interleave, each way's in the order in which they came.
#[test]
fn a_command_whose_way_is_free_passes_those_that_wait() {
    for model in MODELS {
        assert_eq!(ways_of_reads(&[model], &[0, 4, 8, 1]), [0, 1, 0, 0], "{model}");
    }
}

#[test]
fn a_host_dma_costs_the_processor_by_its_units() {
    let units = |unit: &str| {
        let unit = format!("host.dma_unit={unit}");
        let mut device = drive(&["firmware.model=loop", "firmware.poll.fixed=\"10us\"", &unit]);
        run(&mut device, us(300), Opcode::Read, 0).stages.get(Stage::Firmware)
    };
    // Four sectors of 1 KiB: eight units against two.
    assert_eq!(units("512").0 - units("2048").0, 60_000);
}

/// One channel of eight ways, transfers of 21 us, a loop of 10 us.
fn one_channel(sets: &[&str]) -> Device {
    let common = [
        "firmware.model=loop",
        "firmware.turn.fixed=\"10us\"",
        "media.channels=1",
        "media.ways=8",
        "media.timing.op_spread=0.0",
        "buffer.write=write-through",
        "buffer.retain=false",
    ];
    drive(&[&common, sets].concat())
}

/// Submits 32 requests of a unit at once; the tags in the order of completion, and how long it takes.
fn all_at_once(device: &mut Device, opcode: Opcode) -> (Vec<u64>, Nanos) {
    let sectors = device.layout().sectors_per_unit;
    let began = device.now();
    for tag in 0..32 {
        let data = vec![0; sectors as usize * device.image_bytes()];
        let lba = Lba(tag * u64::from(sectors));
        device.submit(began, Command::new(tag, opcode, lba, sectors, data));
    }
    let (mut order, mut last) = (Vec::new(), began);
    while let Some(next) = device.next_event() {
        device.advance(next);
        while let Some(done) = device.pop() {
            last = done.completed;
            order.push(done.tag);
        }
    }
    (order, last - began)
}

fn time_of_all(opcode: Opcode, queue: &str) -> Nanos {
    let mut device = one_channel(&[&format!("scheduler.queue={queue}")]);
    let (_, written) = all_at_once(&mut device, Opcode::Write);
    if opcode == Opcode::Write { written } else { all_at_once(&mut device, opcode).1 }
}

#[test]
fn a_controller_that_holds_control_words_lets_no_channel_stand_still() {
    // Without room the next transfer waits for the loop.
    let (held, not) = (time_of_all(Opcode::Read, "4"), time_of_all(Opcode::Read, "0"));
    assert!(held < not, "{held:?} {not:?}");
}

#[test]
fn a_controller_takes_words_while_data_go_to_a_die() {
    let (held, not) = (time_of_all(Opcode::Write, "16"), time_of_all(Opcode::Write, "0"));
    assert!(held < not, "{held:?} {not:?}");
}

#[test]
fn a_way_is_asked_too_early_while_its_command_waits_in_the_controller() {
    let channel_time = |queue: &str, status: &str| {
        let sets = [format!("scheduler.queue={queue}"), format!("media.timing.status=\"{status}\"")];
        let mut device = one_channel(&[&sets[0], &sets[1]]);
        all_at_once(&mut device, Opcode::Write);
        device.busy().channels()[0]
    };
    // A check of no time is none at all.
    let checks = |queue| (channel_time(queue, "1us").0 - channel_time(queue, "0ns").0) / 1000;
    // Without a queue a command is carried out when it is issued: one check for each of 32 programs.
    assert_eq!(checks("0"), 32);
    assert!(checks("16") > 32, "{}", checks("16"));
}

#[test]
fn a_request_waits_for_the_entry_that_it_evicts_where_entries_stay() {
    let in_order = |retain: &str| {
        let mut device = drive(&[
            "firmware.model=loop",
            "firmware.turn.fixed=\"1us\"",
            "media.timing.op_spread=0.5",
            "buffer.write=write-back",
            "buffer.entries=16",
            "buffer.dirty_high=1.0",
            retain,
        ]);
        all_at_once(&mut device, Opcode::Write).0.is_sorted()
    };
    // Elsewhere an entry that is free goes to the request that has waited longest.
    assert!(in_order("buffer.retain=false") && !in_order("buffer.retain=true"));
}

#[test]
fn a_read_has_ended_when_its_error_information_is_read() {
    let stages = |arrival: &str| {
        let mut device =
            drive(&["firmware.model=loop", "media.timing.op_spread=0.0", "buffer.retain=false", arrival]);
        run(&mut device, us(0), Opcode::Write, 0);
        let began = device.now();
        run(&mut device, began, Opcode::Flush, 0);
        let began = device.now();
        run(&mut device, began, Opcode::Read, 0).stages
    };
    let (without, with) = (stages("firmware.arrival.fixed=0"), stages("firmware.arrival.fixed=\"7us\""));
    assert_eq!(with.get(Stage::Transfer), without.get(Stage::Transfer) + Nanos(7_000));
    assert_eq!(with.get(Stage::Firmware), without.get(Stage::Firmware));
}

/// Each step alone takes time, so its module alone has worked: as long as the step takes, as often as there was cause.
#[test]
fn the_time_of_the_processor_is_booked_to_the_module_that_works() {
    use FirmwareModule::*;
    const COMMANDS: u64 = 6;
    // Three writes and three reads of one slice each: three programs, three reads. The loop issues a read twice (sense,
    // transfer), sees both end, and then the host DMA; with tasks the hardware goes on from sense to transfer to DMA by itself.
    for (model, flash, dma_ends) in [("tasks", 3 + 3, 3), ("loop", 3 + 2 * 3, 3 + 3)] {
        let steps = [
            ("fetch", Fetch, COMMANDS),
            ("slice", Slice, COMMANDS),
            ("lookup", Buffer, COMMANDS),
            ("entry", Buffer, COMMANDS),
            ("translate", Translation, 3),
            ("allocate", Translation, 3),
            // Of each command's host DMA, and of each flash operation, however often the loop issues it.
            ("depend", Dependency, COMMANDS + 6),
            ("dma", Dma, COMMANDS),
            ("issue", Issue, flash),
            ("status", Status, dma_ends + flash),
            ("arrival", Status, 3),
            ("complete", Complete, COMMANDS),
        ];
        for ((step, module, times), processors) in steps.into_iter().flat_map(|step| [(step, 1), (step, 2)]) {
            let [model_key, cost, processors] = [
                format!("firmware.model={model}"),
                format!("firmware.{step}.fixed=\"7us\""),
                format!("firmware.processors={processors}"),
            ];
            let mut device =
                drive(&[&model_key, &cost, &processors, "buffer.write=write-through", "buffer.retain=false"]);
            for (n, opcode) in
                [Opcode::Write, Opcode::Read].into_iter().cycle().take(COMMANDS as usize).enumerate()
            {
                run(&mut device, us(10_000 * n as u64), opcode, 4 * (n as u64 / 2));
            }
            while let Some(next) = device.next_event() {
                device.advance(next);
            }
            let busy = device.busy().firmware_by_module();
            let expected = FirmwareModule::ALL.map(|m| Nanos(if m == module { 7_000 * times } else { 0 }));
            assert_eq!(busy, expected, "{model}: {step}, {processors}");
        }
    }
}

#[test]
fn looks_of_the_loop_are_the_status_checkers_and_turns_are_the_fetchers() {
    let busy = |cost: &str| {
        let sets = ["firmware.model=loop", cost, "buffer.write=write-through", "buffer.retain=false"];
        let mut device = drive(&sets);
        run(&mut device, us(300), Opcode::Write, 0);
        // A transfer of read data has a flag in memory.
        run(&mut device, us(10_000), Opcode::Read, 0);
        let busy = device.busy().firmware_by_module();
        FirmwareModule::ALL.map(|module| busy[module as usize] > Nanos::ZERO)
    };
    let only = |module| FirmwareModule::ALL.map(|m| m == module);
    assert_eq!(busy("firmware.turn.fixed=\"1us\""), only(FirmwareModule::Fetch));
    assert_eq!(busy("firmware.visit.fixed=\"1us\""), only(FirmwareModule::Status));
    assert_eq!(busy("firmware.word.fixed=\"1us\""), only(FirmwareModule::Status));
}

#[test]
fn a_host_dma_that_reads_the_hosts_memory_takes_longer() {
    let took = |opcode, request: &str| {
        let mut device = drive(&["media.timing.op_spread=0.0", "buffer.write=write-through", request]);
        run(&mut device, us(0), Opcode::Write, 0);
        let began = device.now();
        run(&mut device, began, opcode, 0).completed - began
    };
    let [without, with] = ["host.dma_request=0", "host.dma_request=\"7us\""];
    assert_eq!(took(Opcode::Write, with), took(Opcode::Write, without) + Nanos::from_us(7));
    assert_eq!(took(Opcode::Read, with), took(Opcode::Read, without));
}

#[test]
fn draining_varies_from_nothing_to_twice_its_mean() {
    let reads = |spread: &str| -> Vec<u64> {
        let mut device =
            drive(&["media.timing.op_spread=0.0", "buffer.retain=false", "scheduler.drain=\"10us\"", spread]);
        run(&mut device, us(0), Opcode::Write, 0);
        let command = Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new());
        device.submit(device.now(), command);
        while let Some(next) = device.next_event() {
            device.advance(next);
        }
        while device.pop().is_some() {}
        let one = |_| {
            let began = device.now();
            (run(&mut device, began, Opcode::Read, 0).completed - began).0
        };
        (0..200).map(one).collect()
    };
    let same = reads("scheduler.drain_spread=0.0");
    assert!(same.iter().all(|&ns| ns == same[0]));
    let varied = reads("scheduler.drain_spread=1.0");
    let (least, most) = (varied.iter().min().unwrap(), varied.iter().max().unwrap());
    assert!(*least >= same[0] - 10_000 && *most <= same[0] + 10_000);
    assert!(most - least > 18_000, "{least} to {most} of {}", same[0]);
}
