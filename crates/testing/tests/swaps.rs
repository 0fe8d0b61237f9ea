//! Parts of the Cosmos+ controller exchanged by configuration: each exchange has the effect that its mechanism predicts.

use pellucid_device::{Device, Filler};
use pellucid_flash::{Command, Lba, Lpn, Opcode, SimTime, Status};
use pellucid_lab::drive::Unwatched;
use pellucid_lab::experiment::{execute, jobs};
use pellucid_media::{Bch, BitErrorModel, Cell, PageState, Pattern};
use pellucid_report::Report;
use pellucid_testing::swarm::tiny;

/// A small Cosmos+ drive whose data lie in order.
const SMALL: &[&str] = &["media.blocks=16", "ftl.over_provisioning=0.3", "precondition.fill=1.0"];

/// Runs `job` (TOML, one table or more) on a changed Cosmos+ drive in SLC mode.
fn run(sets: &[&str], job: &str) -> Report {
    run_on("cosmos-plus-slc", sets, job)
}

fn run_on(preset: &str, sets: &[&str], job: &str) -> Report {
    let text = format!("[drive]\npreset = \"{preset}\"\n{job}");
    let sets: Vec<String> = SMALL.iter().chain(sets).map(|set| set.to_string()).collect();
    let spec = pellucid_spec::from_str(&text, "swap", &sets).unwrap_or_else(|e| panic!("{e}"));
    let jobs = jobs(&spec).unwrap_or_else(|e| panic!("{e}"));
    execute(&spec, &jobs, &|| 0.0, &mut Unwatched).unwrap_or_else(|e| panic!("{e}")).1
}

fn job(words: &str) -> String {
    let words = words.split(',').map(|word| word.split_once('=').unwrap());
    let lines = words.map(|(key, value)| format!("{key} = \"{value}\"\n"));
    format!("[[job]]\n{}", lines.collect::<String>())
}

fn read_rate(report: &Report) -> f64 {
    report.directions.read.throughput_bytes_per_second
}

fn read_mean_us(report: &Report) -> f64 {
    report.directions.read.latency.mean_ns.unwrap() / 1e3
}

/// Table 2 lets a trigger, which is short, go ahead of a transfer, which is long, so that dies sense while the channel
/// carries data. The other way round the next sense begins only when no data wait.
#[test]
fn another_priority_table_lets_dies_idle() {
    let reads = job("rw=read,bs=16k,iodepth=32,number_ios=8000");
    let published = run(&["media.ways=4"], &reads);
    let transfers_first = run(&["media.ways=4", "scheduler.priorities.read_transfer=0"], &reads);
    let ratio = read_rate(&transfers_first) / read_rate(&published);
    assert!(ratio < 0.98, "transfers first give {ratio:.3} of the throughput");
}

/// The queues of the first eight commands that end, when both queues are full and the controller works on one at a time.
fn order_of_queues(sets: &[&str]) -> Vec<u16> {
    let sets: Vec<String> =
        ["host.queues=2", "host.commands=1"].iter().chain(sets).map(|set| set.to_string()).collect();
    let mut device = Device::new(&tiny(&sets)).unwrap();
    for tag in 0..16 {
        let queue = (tag / 8) as u16;
        device.submit(
            SimTime::ZERO,
            Command { queue, ..Command::new(tag, Opcode::Read, Lba(0), 4, Vec::new()) },
        );
    }
    let mut queues = Vec::new();
    while queues.len() < 8 {
        match device.pop() {
            Some(completion) => queues.push((completion.tag / 8) as u16),
            None => device.advance(device.next_event().expect("commands in flight")),
        }
    }
    queues
}

#[test]
fn another_arbitration_shares_the_drive_differently() {
    let slow = "firmware.fetch.fixed=\"1us\"";
    for model in ["firmware.model=tasks", "firmware.model=loop"] {
        assert_eq!(order_of_queues(&[slow, model]), [0, 1, 0, 1, 0, 1, 0, 1], "{model}");
        let weights = ["host.arbitration=weighted", "host.weights=[3, 1]"];
        let weighted = order_of_queues(&[&[slow, model], &weights[..]].concat());
        assert_eq!(weighted, [0, 0, 0, 1, 0, 0, 0, 1], "{model}");
    }
}

/// Way first, a request of 128 KiB lies on the eight ways of one channel, whose bus carries its pages one by one.
#[test]
fn another_placement_loads_one_channel() {
    let reads = job("rw=read,bs=128k,iodepth=1,number_ios=200");
    let [channels, ways] = ["channel-first", "way-first"]
        .map(|placement| read_mean_us(&run(&[&format!("ftl.placement={placement}")], &reads)));
    // Seven more page transfers of 90 us, less what eight channels cost the processor.
    assert!(ways > channels + 500.0, "channel first {channels:.0} us, way first {ways:.0} us");
}

/// A slow processor is the bottleneck; a fast one is not.
#[test]
fn another_clock_limits_the_reads() {
    let reads = job("rw=read,bs=128k,iodepth=16,number_ios=1500");
    let [slow, normal, fast] =
        ["200", "1000", "4000"].map(|mhz| read_rate(&run(&[&format!("firmware.clock_mhz={mhz}")], &reads)));
    assert!(slow < 0.9 * normal, "200 MHz {slow:.0} B/s, 1,000 MHz {normal:.0} B/s");
    assert!(fast < 1.15 * normal, "4,000 MHz {fast:.0} B/s, 1,000 MHz {normal:.0} B/s");
}

/// A link slower than the channels bounds the drive: 4 KiB at 500 MB/s, and what a unit costs beside (`dma_overhead`).
#[test]
fn another_link_bounds_the_reads() {
    let reads = job("rw=read,bs=128k,iodepth=16,number_ios=1500");
    let sets = ["host.link_rate=\"500MB/s\"", "host.dma_overhead=\"1us\""];
    let [published, slow, costly] = [&[][..], &sets[..1], &sets].map(|sets| read_rate(&run(sets, &reads)));
    assert!(published > 1.2e9, "{published:.0} B/s");
    assert!((slow / 500e6 - 1.0).abs() < 0.01, "{slow:.0} B/s");
    let unit_ns = 4096.0 / 0.5 + 1000.0;
    assert!((costly / (4096e9 / unit_ns) - 1.0).abs() < 0.01, "{costly:.0} B/s");
}

/// Table 6: eight channels of 200 MB/s ask for less than the interconnect carries; twice as many for more.
#[test]
fn another_interconnect_bounds_the_channels() {
    let reads = job("rw=read,bs=128k,iodepth=32,number_ios=3000");
    let wide = ["media.channels=16", "host.link_rate=\"8GB/s\"", "firmware.clock_mhz=8000"];
    let rate = |of: &'static str| {
        let sets: Vec<&str> = wide.into_iter().chain([of]).collect();
        read_rate(&run(&sets, &reads))
    };
    let (published, double) =
        (rate("scheduler.interconnect_rate=\"2GB/s\""), rate("scheduler.interconnect_rate=0"));
    assert!((published / 2e9 - 1.0).abs() < 0.02, "{published:.0} B/s");
    assert!(double > 2.3e9, "{double:.0} B/s without it");
    let writes = job("rw=write,bs=128k,iodepth=32,number_ios=3000");
    let narrow = run(&["scheduler.interconnect_rate=\"300MB/s\""], &writes).directions.write;
    // The last 16 MiB of 375 stay in the buffer.
    let rate = narrow.throughput_bytes_per_second * (1.0 - 16.0 / 375.0);
    assert!((rate / 300e6 - 1.0).abs() < 0.02, "{rate:.0} B/s");
}

/// Written through, a page waits for its transfer (90 us) and its program (486 us).
#[test]
fn another_buffer_has_writes_wait_for_their_program() {
    let writes = job("rw=write,bs=16k,iodepth=1,number_ios=500");
    let [back, through] = ["write-back", "write-through"].map(|write| {
        let report = run(&[&format!("buffer.write={write}")], &writes);
        report.directions.write.latency.mean_ns.unwrap() / 1e3
    });
    let more = through - back;
    assert!((550.0..700.0).contains(&more), "written back {back:.0} us, through {through:.0} us");
}

/// Section 7.4: a word line of TLC takes little longer than a page of MLC, and three times its data cross the channel.
#[test]
fn another_flash_module_uses_the_channels_more() {
    let writes = job("rw=write,bs=128k,iodepth=16,number_ios=3000");
    let [mlc, tlc] = ["cosmos-plus", "cosmos-plus-tlc"]
        .map(|preset| run_on(preset, &[], &writes).utilisation.mean_channel().unwrap());
    let ratio = tlc / mlc;
    assert!((1.3..3.0).contains(&ratio), "MLC {mlc:.3}, TLC {tlc:.3}");
}

/// Four channels can share a key-equation solver that is fast enough. One that is too slow bounds the drive: chunks of
/// 256 bytes, 2 us each, four channels: 512 MB/s on eight channels with two solvers are 256 MB/s.
#[test]
fn a_shared_solver_costs_little_until_it_is_the_bottleneck() {
    let reads = job("rw=read,bs=128k,iodepth=16,number_ios=1500");
    let own = read_rate(&run(&["scheduler.solver.channels=1"], &reads));
    let shared = read_rate(&run(&["scheduler.solver.channels=4"], &reads));
    let slow = read_rate(&run(&["scheduler.solver.channels=4", "scheduler.solver.time=\"2us\""], &reads));
    assert!((shared / own - 1.0).abs() < 0.02, "own {own:.0} B/s, shared {shared:.0} B/s");
    assert!((slow / 256e6 - 1.0).abs() < 0.03, "{slow:.0} B/s");
}

/// Units of a drive that are written and read, and what reading them found.
const UNITS: u32 = 3_000;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    lost: u32,
    corrected_bits: u64,
}

/// Writes every unit (bytes by its number) and reads each once. `forked`: each time on the drive as it was when all were
/// written, so that a loss and the repair of its block leave the other reads alone.
fn read_each(sets: &[&str], forked: bool, byte: impl Fn(u32) -> u8) -> Found {
    let large = ["media.blocks=220", "media.spare_size=1024", "buffer.retain=false", "buffer.entries=8"];
    let errors =
        ["media.bit_errors.enabled=true", "ecc.code=bch", "ecc.chunk=256", "scheduler.read_retries=0"];
    let sets: Vec<String> = [&large[..], &errors, sets].concat().iter().map(ToString::to_string).collect();
    let mut device = Device::new(&tiny(&sets)).unwrap_or_else(|e| panic!("{e}"));
    let (mut filler, sectors) = (Filler::default(), device.layout().sectors_per_unit as usize);
    for unit in 0..UNITS {
        let image = vec![byte(unit); sectors * device.image_bytes()];
        device.fill_unit(&mut filler, Lpn(unit), &image).expect("there is room");
    }
    device.fill_end(&mut filler).expect("there is room");
    let mut found = Found { lost: 0, corrected_bits: 0 };
    for unit in 0..UNITS {
        let mut fork = forked.then(|| device.clone());
        let device = fork.as_mut().unwrap_or(&mut device);
        let before = device.counters().corrected_bits;
        let lba = Lba(u64::from(unit) * sectors as u64);
        device.submit(device.now(), Command::new(0, Opcode::Read, lba, sectors as u32, Vec::new()));
        let status = loop {
            match device.pop() {
                Some(completion) => break completion.status,
                None => device.advance(device.next_event().expect("a command in flight")),
            }
        };
        found.lost += u32::from(status == Status::UnrecoveredRead);
        assert!(matches!(status, Status::Success | Status::UnrecoveredRead), "{status:?}");
        found.corrected_bits += device.counters().corrected_bits - before;
    }
    found
}

/// The chance of more than `most` wrong bits among `bits`, each with chance `p`.
fn chance_of_more(bits: usize, p: f64, most: u32) -> f64 {
    let first = (1.0 - p).powi(bits as i32);
    let mut term = first;
    let up_to = (1..=most).fold(first, |sum, k| {
        term *= (bits as f64 - f64::from(k) + 1.0) / f64::from(k) * p / (1.0 - p);
        sum + term
    });
    1.0 - up_to
}

/// Each code loses as many pages as the binomial law says of its length and its strength: a stronger one fewer, and a longer one
/// of the same parity fewer too, because errors even out in it.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn another_code_loses_as_many_pages_as_its_strength_and_chunk_say() {
    let fresh = PageState {
        cell: Cell::Slc,
        page_type: 0,
        pe_cycles: 0,
        retention_s: 0.0,
        reads: 0,
        pattern: Pattern::Random,
    };
    // Three wrong bits in 2,120.
    let p = 3.0 / 2_120.0;
    let factor = p * 1e6 / BitErrorModel::new(1_000_000).expected_bit_errors(&fresh);
    let mut losses = Vec::new();
    for (chunk, strength) in [(256, 6), (256, 8), (512, 12), (512, 16), (1024, 24), (256, 20)] {
        let found = read_each(
            &[
                &format!("media.bit_errors.factor={factor:?}"),
                &format!("ecc.chunk={chunk}"),
                &format!("ecc.correctable={strength}"),
            ],
            true,
            |unit| unit as u8,
        );
        let bits = 8 * chunk + Bch::new(chunk, strength).unwrap().parity_bits();
        let (chunks, pages) = ((4096 / chunk) as i32, f64::from(UNITS));
        let lost = 1.0 - (1.0 - chance_of_more(bits, p, strength as u32)).powi(chunks);
        let (expected, sigma) = (lost * pages, (lost * (1.0 - lost) * pages).sqrt());
        let lost = f64::from(found.lost);
        assert!((lost - expected).abs() < 4.0 * sigma + 1.0, "{chunk}/{strength}: {lost}, not {expected:.1}");
        if strength == 20 {
            let expected = p * bits as f64 * f64::from(chunks) * pages;
            let corrected = found.corrected_bits as f64;
            assert!((corrected - expected).abs() < 4.0 * expected.sqrt(), "{corrected}, not {expected:.0}");
        }
        losses.push(found.lost);
    }
    assert!(losses[0] > 5 * losses[1] && losses[0] > 5 * losses[2] && losses[0] > 1_000, "{losses:?}");
}

/// Cells alternate between 01 and 10, the worst pattern of section 7.3: only a scrambler hides it from the cells.
#[test]
fn without_a_scrambler_the_data_decide_about_the_errors() {
    let corrected = |scrambler: bool, [lsb, msb]: [u8; 2]| {
        let sets = [
            "media.cell=mlc",
            "media.timing.read=\"50us,70us\"",
            "media.timing.program=\"400us,900us\"",
            "media.store=ram",
            "media.cycles=5000",
            "media.bit_errors.factor=6",
            "ecc.chunk=1024",
            "ecc.correctable=70",
            &format!("ecc.scrambler={scrambler}"),
            // One die, so that the pages of a word line are neighbours.
            "media.channels=1",
            "media.blocks=440",
        ];
        let found = read_each(&sets, false, |unit| if unit % 2 == 0 { lsb } else { msb });
        assert_eq!(found.lost, 0);
        found.corrected_bits as f64
    };
    let (worst, mild) = ([0x55, 0xaa], [0xaa, 0xaa]);
    assert_eq!(corrected(true, worst), corrected(true, mild), "scrambled, all data are alike");
    let saved = 1.0 - corrected(true, worst) / corrected(false, worst);
    assert!((saved - 0.137).abs() < 0.02, "{saved:.3} of the errors");
    let saved = 1.0 - corrected(true, mild) / corrected(false, mild);
    assert!(saved.abs() < 0.02, "{saved:.3} of the errors");
}
