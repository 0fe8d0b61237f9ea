//! `pellucid demo`: one drive in a minute. Fill it, overwrite it and watch garbage collection, cut its power, look at what survived,
//! write a report; each step with the command that does the same.

use crate::args::Global;
use crate::failure::Failure;
use crate::film::{self, Filmed};
use crate::output;
use crate::precondition::MemoryOptions;
use crate::progress::Bar;
use crate::provenance;
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_flash::{Command, Lba, Opcode, Status};
use pellucid_lab::drive::{fill_images, version_of};
use pellucid_lab::experiment::{self, execute_on, parse_job};
use pellucid_report::Report;
use pellucid_spec::{Fill, Overwrite, Precondition, Spec};
use pellucid_text::format::{bytes, count, duration, percent, significant};
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The drive: a Cosmos+ board with fewer dies, which is filled in a second.
const PRESET: &str = "cosmos-plus";
const SETS: [&str; 4] = ["media.channels=2", "media.ways=2", "media.blocks=64", "ftl.durability=journal"];
/// Rounds of overwriting, and requests of each: the first fits into the erased blocks.
const ROUNDS: u32 = 6;
const REQUESTS: u32 = 3_000;
const WORK: &str = "rw=randwrite,bs=16k,iodepth=16";
/// Writes before and behind the flush; fewer than the drive's buffer holds.
const WRITES: u64 = 200;
/// Default directory of the results.
const DIRECTORY: &str = "demo-report";

const EXAMPLES: &str = "\
Examples:
  pellucid demo
  pellucid demo --report my-report --no-pause";

/// Walk through one drive in a minute: fill it, watch garbage collection, cut its power, look at the report
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Demo {
    /// Do not wait for the Enter key between steps; without a terminal the demo never waits
    #[arg(long)]
    no_pause: bool,
}

/// The walk: what is said, and where it stops for the reader.
struct Walk {
    steps: u32,
    pauses: bool,
}

impl Walk {
    /// Begins a step with its title and the command that does the same.
    fn step(&mut self, title: &str, commands: &[String]) -> Result<(), Failure> {
        if self.pauses && self.steps > 0 {
            output::print("\nEnter goes on ")?;
            std::io::stdin().lock().read_line(&mut String::new())?;
        }
        self.steps += 1;
        let lines: String = commands.iter().map(|command| format!("   $ {command}\n")).collect();
        Ok(output::print(&format!("\n{}. {title}\n{lines}", self.steps))?)
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        Ok(output::print(&format!("   {text}\n"))?)
    }
}

impl Demo {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let attended = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let mut walk = Walk { steps: 0, pauses: attended && !self.no_pause };
        let directory = global.report.clone().unwrap_or_else(|| PathBuf::from(DIRECTORY));
        let mut kept = output::claim(Some(&directory), global)?;
        let spec = drive()?;
        MemoryOptions::default().check(&spec, global)?;
        output::print(
            "One drive in a minute. Simulated time is the drive's own; nothing here touches a disk of yours.\n",
        )?;
        let mut device = fill(&mut walk, &spec, global)?;
        let mut report = overwrite(&mut walk, &mut device, &spec, global)?;
        cut_power(&mut walk, &mut device)?;
        let work = format!("{} --number-ios {REQUESTS}", options(WORK));
        let again = format!(
            "pellucid run full.pellucid {work} --report {} --film",
            output::quoted(&name(&directory))
        );
        walk.step("Write a report: figures of the last round, as a page, JSON and CSV", &[again])?;
        report.workload.command_line = output::command_line();
        report.provenance = Some(provenance::of(&spec, &[], &report.seeds)?);
        if let Some(kept) = &mut kept {
            kept.replace(&report.files(Path::new("")))?;
        }
        walk.say(&format!(
            "{} opens in any browser, without a network; {} plays what each block held.",
            name(&directory.join("index.html")),
            name(&directory.join("film.html"))
        ))?;
        walk.say("The command writes the same of round 1: full.pellucid is the drive before it.")?;
        let next = [
            format!("pellucid show {PRESET} --explain"),
            format!("pellucid compare {PRESET} jasmine --rw randwrite --bs 4k --number-ios 20000"),
            "pellucid --help".to_owned(),
        ];
        Ok(output::print(&output::next(global, &next))?)
    }
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

/// A job as the options of `pellucid run`.
fn options(job: &str) -> String {
    let option = |pair: &str| format!("--{}", pair.replacen('=', " ", 1));
    job.split(',').map(option).collect::<Vec<_>>().join(" ")
}

fn sets() -> String {
    SETS.iter().map(|set| format!(" --set {set}")).collect()
}

fn drive() -> Result<Spec, Failure> {
    let sets = SETS.map(String::from);
    let mut spec = pellucid_spec::load(PRESET, &sets)?;
    let (fill, overwrite) = (Fill::Share(1.0), Overwrite::Capacities(0.0));
    spec.precondition = Precondition { fill, overwrite, shelf_days: 0.0, ..spec.precondition };
    let mut job = parse_job(WORK, "job");
    job.pairs.extend(parse_job(&format!("number_ios={REQUESTS}"), "job").pairs);
    spec.jobs = vec![job];
    Ok(spec)
}

fn fill(walk: &mut Walk, spec: &Spec, global: &Global) -> Result<Device, Failure> {
    let command = format!("pellucid age {PRESET}{} --fill 100% --overwrite 0 -o full.pellucid", sets());
    walk.step("Make a drive, and fill it", &[command])?;
    let mut bar = Bar::new(global, None);
    bar.say("filling the drive");
    let aged = experiment::age(spec, &mut bar)?;
    bar.clear();
    let blocks = aged.device.free_blocks();
    walk.say(&format!(
        "{}: {} of data, written in order once.",
        spec.drive_name,
        bytes(aged.capacity_bytes as f64)
    ))?;
    walk.say(&format!(
        "{} erased blocks are left: what is not sold, so that the drive can clean up.",
        count(blocks.into())
    ))?;
    Ok(aged.device)
}

/// Overwrites at random, round by round, and gives the report of the last one.
fn overwrite(walk: &mut Walk, device: &mut Device, spec: &Spec, global: &Global) -> Result<Report, Failure> {
    let command = format!("pellucid run full.pellucid {} --number-ios {REQUESTS}", options(WORK));
    walk.step("Overwrite it at random, and watch garbage collection (GC) begin", &[command])?;
    walk.say("round   programmed per host byte   GC copies   blocks erased   valid in victims   write p99")?;
    let mut last = None;
    for round in 1..=ROUNDS {
        let bar = Bar::new(global, Some(REQUESTS.into()));
        let mut spec = spec.clone();
        spec.run.seed = round.into();
        let jobs = experiment::jobs(&spec)?;
        let began = Instant::now();
        let mut filmed = Filmed::new(&bar, (round == ROUNDS).then(|| film::recorder(1)));
        let mut report =
            execute_on(device, &spec, &jobs, None, &|| began.elapsed().as_secs_f64(), &mut filmed)?;
        report.film = filmed.finish(&spec.drive_name)?;
        bar.clear();
        walk.say(&row(round, &report))?;
        last = Some(report);
    }
    walk.say("An erased block is needed for every block written: GC copies what is still valid in a victim, and erases it.")?;
    last.ok_or_else(|| Failure::work(anyhow!("no round was run")))
}

fn row(round: u32, report: &Report) -> String {
    let none = || "-".to_string();
    format!(
        "{round:5}   {:>24}   {:>9}   {:>13}   {:>16}   {:>9}",
        report.write_amplification.total.map_or_else(none, significant),
        count(report.gc.copied_units),
        count(report.gc.erased_blocks.total()),
        report.gc.victim_valid_share.map_or_else(none, percent),
        report.directions.write.latency.p99_ns.map_or_else(none, |ns| duration(ns as f64)),
    )
}

/// Writes, flushes, writes again, cuts the power, and reads everything.
fn cut_power(walk: &mut Walk, device: &mut Device) -> Result<(), Failure> {
    let serve = format!(
        "pellucid serve {PRESET}{} --set media.store=ram --nbd 10809 --control demo.control &",
        sets()
    );
    walk.step("Cut its power", &[serve, "pellucid power-cut --control demo.control".into()])?;
    let sectors = device.layout().sectors_per_unit;
    let at = |unit: u64| Lba(unit * u64::from(sectors));
    let write = |device: &mut Device, units: std::ops::Range<u64>| {
        for unit in units {
            let mut data = vec![0; sectors as usize * device.image_bytes()];
            let image_bytes = device.image_bytes();
            fill_images(&mut data, image_bytes, at(unit), VERSION);
            ended(device, Command::new(unit, Opcode::Write, at(unit), sectors, data))?;
        }
        Ok::<(), Failure>(())
    };
    write(device, 0..WRITES)?;
    ended(device, Command::new(0, Opcode::Flush, Lba(0), 0, Vec::new()))?;
    write(device, WRITES..2 * WRITES)?;
    walk.say(&format!("{WRITES} writes, a flush, {WRITES} more writes; the drive has answered all of them. Now the power goes."))?;
    device.power_cut().map_err(Failure::work)?;
    let mount = device.last_mount().map_or(String::new(), |(_, time)| duration(time.0 as f64));
    walk.say(&format!("It comes back in {mount}: its mapping table is read from the journal in flash."))?;
    walk.step("Look at what survived", &["nbdcopy nbd://127.0.0.1:10809 copy.img".into()])?;
    let flushed = survivors(device, sectors, 0..WRITES)?;
    let buffered = survivors(device, sectors, WRITES..2 * WRITES)?;
    walk.say(&format!("{flushed} of {WRITES} writes before the flush are there."))?;
    walk.say(&format!(
        "{buffered} of {WRITES} writes behind it are there: an answer promises nothing before a flush."
    ))?;
    Ok(())
}

/// Version of the stamps that are written.
const VERSION: u32 = 1_000_000;

/// Hands a command to the drive, and waits for its end.
fn ended(device: &mut Device, command: Command) -> Result<Vec<u8>, Failure> {
    device.submit(device.now(), command);
    loop {
        if let Some(completion) = device.pop() {
            return match completion.status {
                Status::Success => Ok(completion.data),
                status => Err(Failure::work(anyhow!("the drive answered {}", status.name()))),
            };
        }
        let next = device.next_event().ok_or_else(|| Failure::work(anyhow!("the drive owes an answer")))?;
        device.advance(next);
    }
}

/// Units that hold what was written last.
fn survivors(device: &mut Device, sectors: u32, units: std::ops::Range<u64>) -> Result<u64, Failure> {
    let mut found = 0;
    for unit in units {
        let lba = Lba(unit * u64::from(sectors));
        let image_bytes = device.image_bytes();
        let data = ended(
            device,
            Command::new(unit, Opcode::Read, lba, sectors, vec![0; sectors as usize * image_bytes]),
        )?;
        let is_there = |(at, image): (u64, &[u8])| version_of(Lba(lba.0 + at), image) == Some(VERSION);
        found += u64::from((0..).zip(data.chunks_exact(image_bytes)).all(is_there));
    }
    Ok(found)
}
