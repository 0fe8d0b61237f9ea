//! Applications beside jobs and beside one another on one drive.

use pellucid_flash::SimTime;
use pellucid_lab::drive::{Onlooker, Progress, Unwatched};
use pellucid_lab::experiment::{execute, jobs};
use pellucid_report::{ApplicationReport, JobResult, Report};
use std::ops::ControlFlow;

/// Four channels of two ways, 64 MiB.
const DRIVE: &str = r#"
[drive.media]
channels = 4
ways = 2
blocks = 32
pages = 64
page_size = "4KiB"
spare_size = 64
sector_size = "4KiB"
unit_size = "4KiB"
cell = "slc"
store = "ram"
[drive.media.timing]
read = "50us"
program = "187us"
erase = "1ms"
channel_rate = "200MB/s"
[[drive.namespace]]
interface = "open-channel"
[host]
layers = []
[host.ftl]
over_provisioning = 0.5
[kv]
engine = "raw"
memory = "2MiB"
"#;

const CACHE: &str = r#"
[[job]]
name = "cache"
app = "kv"
target = "cache"
set_share = "50%"
value_size = 2000
load = 6000
nkeys = 8000
warm_up = 2000
operations = 8000
"#;

const MAIL: &str = r#"
[[job]]
name = "mail"
app = "varmail"
target = "mail"
filesystem = "in-place"
page_cache = "1m"
warm_up = 500
operations = 1500
"#;

const LOG: &str = r#"
[[job]]
name = "log"
target = "log"
rw = "write"
bs = "64k"
iodepth = 4
number_ios = 3000
"#;

fn target(name: &str, kind: &str, units: &str) -> String {
    format!("[[target]]\nname = \"{name}\"\nkind = \"{kind}\"\nunits = \"{units}\"\n")
}

/// A cache and a file server on a channel each, a log on two.
fn three() -> String {
    let targets = [
        target("cache", "application", "1 channel"),
        target("mail", "application", "1 channel"),
        target("log", "block", "rest"),
    ];
    format!("{DRIVE}{}", targets.concat())
}

fn watched(text: &str, mut onlooker: impl Onlooker) -> Result<Report, String> {
    let spec = pellucid_spec::from_str(text, "shared", &[]).map_err(|error| error.to_string())?;
    let jobs = jobs(&spec).map_err(|error| error.to_string())?;
    execute(&spec, &jobs, &|| 0.0, &mut onlooker).map(|(_, report)| report).map_err(|error| error.to_string())
}

fn run(text: &str) -> Report {
    watched(text, Unwatched).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    watched(text, Unwatched).expect_err("it cannot be")
}

fn app<'a>(report: &'a Report, job: &str) -> &'a ApplicationReport {
    report.applications.iter().find(|app| app.job == job).unwrap_or_else(|| panic!("no application {job}"))
}

fn job<'a>(report: &'a Report, name: &str) -> &'a JobResult {
    report.jobs.iter().find(|job| job.name == name).unwrap_or_else(|| panic!("no job {name}"))
}

/// Every byte that an application or a job writes is one that the drive was given, and what is programmed and erased for each adds up to what the
/// drive has programmed and erased.
#[test]
fn what_all_write_is_what_the_drive_gets() {
    let report = run(&[&three(), CACHE, MAIL, LOG].concat());
    let names: Vec<&str> = report.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["log", "cache", "mail"]);
    assert_eq!((app(&report, "cache").operations, app(&report, "mail").operations), (8000, 1500));
    assert_eq!(job(&report, "log").requests.directions.write.requests, 3000);
    for job in &report.jobs {
        assert!(job.requests.directions.write.bytes > 0, "{} wrote nothing", job.name);
        assert_eq!(
            job.requests.directions.write.errors + job.requests.directions.read.errors,
            0,
            "{}",
            job.name
        );
    }
    let written: u64 = report.jobs.iter().map(|job| job.requests.directions.write.bytes).sum();
    assert_eq!(written, report.write_amplification.host_written_bytes);
    let of_log = report.targets.iter().find(|target| target.name == "log").unwrap();
    let of_log = of_log.write_amplification.as_ref().unwrap().programmed_bytes.total();
    let programmed: u64 = report.applications.iter().map(|app| app.programmed_bytes).sum();
    assert_eq!(programmed + of_log, report.write_amplification.programmed_bytes.total());
    // All that a cache programs it has asked for itself.
    let cache = app(&report, "cache");
    assert_eq!(cache.programmed_bytes, job(&report, "cache").requests.directions.write.bytes);
    assert!(cache.erases > 0 && app(&report, "mail").erases > 0, "nothing was erased");
    let erases: u64 = report.applications.iter().map(|app| app.erases).sum();
    assert!(erases < report.gc.erased_blocks.total(), "the log erased nothing");
}

#[test]
fn the_same_seed_brings_the_same_report() {
    let text = [&three(), CACHE, MAIL, LOG].concat();
    let first = run(&text).to_json(false);
    for _ in 0..3 {
        assert_eq!(run(&text).to_json(false), first);
    }
    let other = run(&text.replace("[kv]", "[run]\nseed = 2\n[kv]"));
    assert_ne!(other.to_json(false), first);
}

/// Applications on channels of their own take as long, and leave as much on the flash, whatever happens on the others.
#[test]
fn an_application_is_not_disturbed_from_other_channels() {
    let both = run(&[&three(), CACHE, MAIL, LOG].concat());
    // The clock of a filled drive is further, from which a cache learns how fast it is written.
    let filled = format!("{}fill = 1\n", target("mail", "block", "1 channel"));
    let cache =
        run(&[&three(), CACHE].concat().replace(&target("mail", "application", "1 channel"), &filled));
    assert_eq!(app(&both, "cache"), app(&cache, "cache"));
    // Beside the cache its host FTL would have time while the cache warms up; and it goes on behind its end, while the run does.
    let raw =
        three().replace(&target("cache", "application", "1 channel"), &target("cache", "raw", "1 channel"));
    let seen = |report: &Report| ApplicationReport {
        programmed_bytes: 0,
        write_amplification: None,
        erases: 0,
        copies: Vec::new(),
        ..app(report, "mail").clone()
    };
    assert_eq!(seen(&run(&[&raw, MAIL, LOG].concat())), seen(&run(&[&raw, MAIL].concat())));
}

/// On one channel a cache waits for what a log sends over it.
#[test]
fn an_application_is_disturbed_on_its_own_channel() {
    // Both dies of one slow channel.
    let drive = DRIVE.replace("200MB/s", "30MB/s");
    let shared = format!("{drive}{}{}", target("cache", "application", "0-0"), target("log", "block", "1-1"));
    let log = LOG.replace("number_ios = 3000", "number_ios = 20000");
    let alone = run(&[&shared, CACHE].concat());
    let beside = run(&[&shared, CACHE, &log].concat());
    let mean = |report: &Report| app(report, "cache").latency.mean_ns.unwrap();
    assert!(mean(&beside) > 1.05 * mean(&alone), "{} is not above {}", mean(&beside), mean(&alone));
}

/// An application on a target works as one that has the drive for itself.
#[test]
fn a_seat_is_as_good_as_the_whole_drive() {
    let mail = MAIL.replace("target = \"mail\"\n", "");
    // Which writes a measurement of half a second begins and ends with, and which checkpoint of the map, are worth 3 % either way.
    let ratios = (1..=8).map(|seed| {
        let filled = format!("{DRIVE}[precondition]\nfill = 1\n[run]\nseed = {seed}\n");
        let layered = run(&[&filled.replace("layers = []", "layers = [\"host-ftl\"]"), &mail[..]].concat());
        let seated = run(&[&filled, &target("mail", "application", "rest"), MAIL].concat());
        let (layered, seated) = (app(&layered, "mail"), app(&seated, "mail"));
        assert_eq!(seated.settings, layered.settings);
        assert_eq!(seated.operations, layered.operations);
        seated.operations_per_second.unwrap() / layered.operations_per_second.unwrap()
    });
    let mean = ratios.sum::<f64>() / 8.0;
    assert!((mean - 1.0).abs() < 0.02, "{mean}");
}

/// Ends a run after some looks.
struct Cut {
    looks: u32,
    at: SimTime,
}

impl Onlooker for &mut Cut {
    fn look(&mut self, _device: Option<&pellucid_device::Device>, progress: Progress) -> ControlFlow<()> {
        self.looks -= u32::from(self.looks > 0);
        self.at = progress.simulated;
        if self.looks == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A run that is cut ends all that takes part in it, and reports what was done until then.
#[test]
fn a_cut_ends_all_and_keeps_what_was_done() {
    let text = [&three(), CACHE, MAIL, LOG].concat();
    let long = text
        .replace("operations = 8000", "operations = 8000000")
        .replace("number_ios = 3000", "number_ios = 3000000");
    for looks in [1, 40] {
        let mut cut = Cut { looks, at: SimTime::ZERO };
        let report = watched(&long, &mut cut).unwrap_or_else(|error| panic!("{looks}: {error}"));
        assert!(cut.at > SimTime::ZERO, "nobody has looked");
        assert!(app(&report, "cache").operations < 8_000_000, "{looks}");
        let log = job(&report, "log").requests.directions.write.requests;
        assert!(log < 3_000_000, "{looks}: {log}");
        let written: u64 = report.jobs.iter().map(|job| job.requests.directions.write.bytes).sum();
        assert_eq!(written, report.write_amplification.host_written_bytes, "{looks}");
    }
}

#[test]
fn what_cannot_work_side_by_side_is_refused() {
    let of = |parts: &[&str]| refused(&parts.concat());
    let base = three();
    let says = |sentence: String, expected: &str| assert!(sentence.contains(expected), "{sentence}");
    says(
        of(&[&base, CACHE, LOG]),
        "target mail: kind: allowed: application where one job with app works on it",
    );
    says(
        of(&[&base, CACHE, MAIL, &LOG.replace("target = \"log\"", "target = \"mail\"")]),
        "target mail: kind",
    );
    let block =
        base.replace(&target("mail", "application", "1 channel"), &target("mail", "block", "1 channel"));
    let writer = LOG.replace("target = \"log\"", "target = \"mail\"");
    says(of(&[&block, CACHE, MAIL, &writer]), "its data there belong to job mail");
    let reader = writer.replace("rw = \"write\"", "rw = \"randread\"");
    assert_eq!(run(&[&block, CACHE, MAIL, &reader].concat()).jobs.len(), 3);
    says(
        of(&[&block, CACHE, MAIL, &MAIL.replace("name = \"mail\"", "name = \"more\"")]),
        "job mail has this one",
    );
    says(
        of(&[&base, CACHE, MAIL, &format!("{LOG}stonewall = true\n")]),
        "stonewall = 1: allowed: none beside an application",
    );
    says(of(&[&base, CACHE, MAIL, &format!("{LOG}wait_for = \"mail\"\n")]), "wait_for");
    let raw = base.replace(&target("mail", "application", "1 channel"), &target("mail", "raw", "1 channel"));
    says(of(&[&raw, CACHE, MAIL, LOG]), "block");
    let filled = base.replacen("units = \"1 channel\"\n", "units = \"1 channel\"\nfill = 0.5\n", 1);
    says(of(&[&filled, CACHE, MAIL, LOG]), "target cache: fill: allowed: 0 with app = kv");
}

/// An application that fails ends the run with its own sentence, and all others with it.
#[test]
fn a_failure_of_one_ends_all() {
    let broken = CACHE.replace("app = \"kv\"", "app = \"kv\"\nrequests = \"file:/nowhere/at-all.csv\"");
    let broken = broken.replace("set_share = \"50%\"\nvalue_size = 2000\nload = 6000\nnkeys = 8000\n", "");
    assert!(refused(&[&three(), &broken, MAIL, LOG].concat()).contains("requests"));
    // The graph fits into memory, which is found out when it has been prepared.
    let graph = "[[job]]\nname = \"rank\"\napp = \"pagerank\"\nengine = \"policy\"\ntarget = \"cache\"\nedges = 10000\ngraph_memory = \"64m\"\n";
    let sentence = refused(&[&three(), graph, MAIL, LOG].concat());
    assert!(sentence.contains("graph_memory"), "{sentence}");
}
