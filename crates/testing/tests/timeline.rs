//! Timelines are a side band: recorded or not, a drive does the same; and what they say agrees with what the drive counts.

use pellucid_device::{Device, OperationKind, Timeline, TimelineCommand, TimelineSpan, Track};
use pellucid_flash::{Cause, Nanos, Opcode, Rng, SimTime, Stage};
use pellucid_lab::drive::{Onlooker, Progress, TimelinePart};
use pellucid_lab::experiment;
use pellucid_report::Report;
use pellucid_spec::Spec;
use pellucid_testing::swarm::{TINY, random_sets};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

const JOB: &str = r#"
[[job]]
rw = "randrw"
bs = "4k"
iodepth = 8
number_ios = 4000
"#;

pub const ALL: TimelinePart = TimelinePart {
    window: (Nanos::ZERO, Nanos(u64::MAX)),
    slower_than: Nanos::ZERO,
    entries_max: 10_000_000,
};

/// Lets a run record a timeline.
#[derive(Default)]
struct Record {
    part: Option<TimelinePart>,
    timeline: Option<Timeline>,
}

impl Onlooker for Record {
    fn timeline(&mut self) -> Option<TimelinePart> {
        self.part
    }

    fn keep_timeline(&mut self, timeline: Timeline) {
        self.timeline = Some(timeline);
    }

    fn look(&mut self, _: Option<&Device>, _: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

fn run(spec: &Spec, part: Option<TimelinePart>) -> (Device, Report, Option<Timeline>) {
    let jobs = experiment::jobs(spec).unwrap_or_else(|e| panic!("{e}"));
    let mut record = Record { part, timeline: None };
    let (device, report) =
        experiment::execute(spec, &jobs, &|| 0.0, &mut record).unwrap_or_else(|e| panic!("{e}"));
    (device, report, record.timeline)
}

pub fn recorded(spec: &Spec, part: TimelinePart) -> (Report, Timeline) {
    let (_, report, timeline) = run(spec, Some(part));
    (report, timeline.expect("a timeline"))
}

fn tiny(seed: u64) -> Spec {
    let sets = random_sets(&mut Rng::stream(seed, "drive"));
    pellucid_spec::from_str(&format!("{TINY}{JOB}"), "tiny", &sets)
        .unwrap_or_else(|e| panic!("seed {seed}: {e}"))
}

fn preset(name: &str, sets: &[&str], job: &str) -> Spec {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let text = format!("[drive]\npreset = \"{name}\"\n[[job]]\n{job}");
    pellucid_spec::from_str(&text, name, &sets).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A firmware loop, a drive that suspends programs for reads, and one with log blocks; the first two with a host link that takes time.
fn presets() -> [Spec; 3] {
    let job = "rw = \"randrw\"\nbs = \"4k\"\niodepth = 32\nsize = \"64m\"\nnumber_ios = 8000";
    [
        preset("cosmos-plus", &[], job),
        preset("datacenter-tlc", &["scheduler.suspend=true"], job),
        preset("netbook-ssd", &[], job),
    ]
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_recorded_drive_gives_the_same_report_bit_for_bit() {
    for (i, spec) in (0..30).map(tiny).chain(presets()).enumerate() {
        let ((plain, report, none), (recorded, other, timeline)) = (run(&spec, None), run(&spec, Some(ALL)));
        assert!(none.is_none() && timeline.is_some_and(|timeline| !timeline.spans.is_empty()));
        assert!(report.to_json(false) == other.to_json(false), "drive {i}: the reports differ");
        if plain.layout().units < 1 << 12 {
            assert!(format!("{plain:?}") == format!("{recorded:?}"), "drive {i}: the states differ");
        }
    }
}

/// The spans of each track; those within others apart.
fn by_track(timeline: &Timeline) -> BTreeMap<Track, [Vec<&TimelineSpan>; 2]> {
    let mut tracks: BTreeMap<Track, [Vec<&TimelineSpan>; 2]> = BTreeMap::new();
    for span in &timeline.spans {
        tracks.entry(span.track).or_default()[usize::from(span.activity.is_within())].push(span);
    }
    tracks
}

fn sum(spans: &[&TimelineSpan]) -> f64 {
    spans.iter().map(|span| (span.end - span.begin).0).sum::<u64>() as f64
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn nothing_overlaps_and_busy_times_are_those_of_the_report() {
    for (i, spec) in (0..30).map(tiny).chain(presets()).enumerate() {
        let (report, timeline) = recorded(&spec, ALL);
        let tracks = by_track(&timeline);
        for (track, [outer, inner]) in &tracks {
            for spans in [outer, inner] {
                let overlap = spans.windows(2).find(|pair| pair[0].end > pair[1].begin);
                assert_eq!(overlap, None, "drive {i}, {track:?}");
            }
            let within = |inner: &&&TimelineSpan| {
                outer.iter().any(|outer| outer.begin <= inner.begin && inner.end <= outer.end)
            };
            assert_eq!(inner.iter().find(|inner| !within(inner)), None, "drive {i}, {track:?}");
        }
        let simulated = report.simulated_seconds * 1e9;
        let busy = |track: Track| tracks.get(&track).map_or(0.0, |[outer, _]| sum(outer)) / simulated;
        let check = |track: Track, share: Option<f64>| {
            let (found, told) = (busy(track), share.unwrap_or(0.0));
            assert!((found - told).abs() < 1e-9, "drive {i}, {track:?}: {found} and {told}");
        };
        let used = &report.utilisation;
        (0..).zip(&used.channels).for_each(|(channel, share)| check(Track::Channel(channel), Some(*share)));
        if timeline.planes == 1 {
            (0..).zip(used.dies.iter().flatten()).for_each(|(die, share)| {
                check(Track::Way { die, plane: 0 }, Some(*share));
            });
        }
        check(Track::Firmware(0), used.firmware);
        check(Track::LinkToDrive, used.link_to_drive);
        check(Track::LinkToHost, used.link_to_host);
    }
}

/// First begin and last end of the spans of each operation in channels and ways.
fn times_of_operations(timeline: &Timeline) -> Vec<(SimTime, SimTime)> {
    let mut times = vec![(SimTime(u64::MAX), SimTime::ZERO); timeline.operations.len()];
    for span in timeline.spans.iter().filter(|span| !matches!(span.track, Track::Firmware(_))) {
        if let Some(at) = span.operation {
            let time = &mut times[at as usize];
            *time = (time.0.min(span.begin), time.1.max(span.end));
        }
    }
    times
}

/// An operation for the host serves requests that were submitted before it began. (One that goes on when the run ends has told nobody
/// yet; a program that is repeated after a failure is not told what it programs.)
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn operations_know_their_requests() {
    let mut served = [0; 2];
    for (i, spec) in (0..30).map(tiny).chain(presets()).enumerate() {
        let (report, timeline) = recorded(&spec, ALL);
        assert_eq!(timeline.commands.len() as u64, report.requests, "drive {i}");
        let times = times_of_operations(&timeline);
        for (operation, (begin, end)) in timeline.operations.iter().zip(times) {
            let read = operation.kind == OperationKind::Read;
            let failed = !read && report.media.program_failures > 0;
            if operation.cause != Cause::Host || failed || end.0 + 1_000_000 > timeline.to.0 {
                continue;
            }
            assert!(!operation.commands.is_empty(), "drive {i}: {operation:?} {begin:?} {end:?}");
            served[usize::from(read)] += 1;
            for &at in &operation.commands {
                let command = &timeline.commands[at as usize];
                assert!(command.submitted <= begin || read, "drive {i}: {operation:?} for {command:?}");
                assert!(command.submitted <= end && (command.opcode == Opcode::Read) == read, "drive {i}");
            }
        }
    }
    assert!(served[0] > 1_000 && served[1] > 10_000, "programs and reads: {served:?}");
}

/// A read that waited for the media reaches the operations that brought its data, which were over before it was.
#[test]
#[cfg_attr(quick, ignore = "slow")]
fn reads_reach_their_operations() {
    let job = "rw = \"randread\"\nbs = \"64k\"\niodepth = 32\nsize = \"64m\"\nnumber_ios = 3000\n[precondition]\nfill = 1.0";
    let planes = ["media.independent_plane_reads=true"];
    let specs = [
        preset("cosmos-plus", &["media.blocks=64"], job),
        preset("datacenter-tlc", &["media.blocks=64"], job),
        preset("datacenter-tlc", &[&["media.blocks=64"][..], &planes].concat(), job),
        preset("jasmine", &["media.blocks=64"], job),
    ];
    for (i, spec) in specs.iter().enumerate() {
        let (_, timeline) = recorded(spec, ALL);
        let times = times_of_operations(&timeline);
        let mut last = vec![None; timeline.commands.len()];
        for (operation, (_, end)) in timeline.operations.iter().zip(&times) {
            for &at in &operation.commands {
                last[at as usize] = last[at as usize].max(Some(*end));
            }
        }
        let waited = |stage: Stage, command: &TimelineCommand| command.stages.get(stage) > Nanos::ZERO;
        let mut reads = 0;
        for (command, last) in timeline.commands.iter().zip(last).filter(|(one, _)| waited(Stage::Media, one))
        {
            assert!(last.is_some_and(|last| last <= command.completed), "drive {i}: {command:?}, {last:?}");
            reads += 1;
        }
        assert!(reads > 500, "drive {i}: {reads} reads waited for the media");
    }
}

/// A window has the spans of its time, cut at its ends, and whole requests.
#[test]
fn a_window_is_the_part_of_the_whole() {
    for (i, spec) in [tiny(3), presets()[0].clone()].iter().enumerate() {
        let (report, whole) = recorded(spec, ALL);
        let after = |share: f64| Nanos((report.simulated_seconds * 1e9 * share) as u64);
        let window = (after(0.3), after(0.4));
        let (_, part) = recorded(spec, TimelinePart { window, ..ALL });
        let (from, to) = (whole.from + window.0, whole.from + window.1);
        assert_eq!((part.from, part.to, part.is_full), (from, to, false), "drive {i}");
        let cut = whole.spans.iter().filter_map(|span| {
            let (begin, end) = (span.begin.max(from), span.end.min(to));
            (begin < end).then_some((span.track, span.activity, begin, end))
        });
        let found = part.spans.iter().map(|span| (span.track, span.activity, span.begin, span.end));
        assert_eq!(found.collect::<Vec<_>>(), cut.collect::<Vec<_>>(), "drive {i}");
        let overlaps = whole.commands.iter().filter(|one| one.submitted < to && one.completed >= from);
        assert!(part.commands.iter().eq(overlaps), "drive {i}");
        assert!(part.commands.len() > 10 && part.commands.len() < whole.commands.len() / 2, "drive {i}");
    }
}

/// Slow requests are kept whole, with everything that happened meanwhile, and nothing else.
#[test]
fn slow_requests_keep_what_happened_meanwhile() {
    let spec = tiny(3);
    let (_, whole) = recorded(&spec, ALL);
    let mut latencies: Vec<Nanos> = whole.commands.iter().map(|one| one.completed - one.submitted).collect();
    latencies.sort_unstable();
    let slower_than = latencies[latencies.len() * 99 / 100];
    let (_, part) = recorded(&spec, TimelinePart { slower_than, ..ALL });
    let slow: Vec<_> =
        whole.commands.iter().filter(|one| one.completed - one.submitted >= slower_than).collect();
    assert!(part.commands.iter().eq(slow.iter().copied()));
    let meanwhile =
        |span: &&TimelineSpan| slow.iter().any(|one| one.submitted < span.end && span.begin < one.completed);
    let kept = whole.spans.iter().filter(meanwhile).count();
    assert_eq!(part.spans.len(), kept);
    assert!(kept > 100 && kept < whole.spans.len() / 2, "{kept} of {}", whole.spans.len());
}

/// A full record ends, says so, and is the beginning of the whole.
#[test]
fn a_full_record_says_where_it_ends() {
    let spec = presets()[0].clone();
    let (_, whole) = recorded(&spec, ALL);
    let (_, part) = recorded(&spec, TimelinePart { entries_max: 70_000, ..ALL });
    assert!(part.is_full && !whole.is_full && part.to < whole.to);
    assert!(part.entries() > 60_000 && part.entries() <= 71_000, "{}", part.entries());
    let begun = whole.spans.iter().filter(|span| span.begin < part.to).count();
    assert_eq!(part.spans.len(), begun);
}
