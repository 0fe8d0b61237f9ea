//! `--timeline`: the file is decoded here by itself, and compared with the log of requests and with the report.

use crate::common::Folder;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const WORK: [&str; 9] = ["--rw", "randrw", "--bs", "4k", "--iodepth", "8", "--number-ios", "3000", "--quiet"];

/// A field of a message in Protocol Buffers.
#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// A message, by the numbers of its fields.
#[derive(Clone, Debug, Default)]
struct Message(BTreeMap<u64, Vec<Field>>);

impl Message {
    fn decode(mut bytes: &[u8]) -> Message {
        let mut message = Message::default();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => Field::Number(u64::from_le_bytes(taken(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Field::Bytes(taken(&mut bytes, length).to_vec())
                }
                other => panic!("wire type {other}"),
            };
            message.0.entry(key >> 3).or_default().push(field);
        }
        message
    }

    fn all(&self, field: u64) -> impl Iterator<Item = &Field> {
        self.0.get(&field).into_iter().flatten()
    }

    fn number(&self, field: u64) -> Option<u64> {
        self.all(field).next().map(|field| match field {
            Field::Number(value) => *value,
            Field::Bytes(_) => panic!("no number"),
        })
    }

    fn numbers(&self, field: u64) -> Vec<u64> {
        let number = |field: &Field| match field {
            Field::Number(value) => *value,
            Field::Bytes(_) => panic!("no number"),
        };
        self.all(field).map(number).collect()
    }

    fn messages(&self, field: u64) -> impl Iterator<Item = Message> {
        self.all(field).map(|field| match field {
            Field::Bytes(bytes) => Message::decode(bytes),
            Field::Number(_) => panic!("no message"),
        })
    }

    fn text(&self, field: u64) -> String {
        match self.all(field).next() {
            Some(Field::Bytes(bytes)) => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("no text: {other:?}"),
        }
    }
}

fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = taken(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// A slice of a trace.
#[derive(Clone, Debug)]
struct Slice {
    /// Names of its track and of those above it.
    track: String,
    /// Slices around it.
    depth: usize,
    begin: u64,
    end: u64,
    name: String,
    flows: Vec<u64>,
    numbers: BTreeMap<String, u64>,
    words: BTreeMap<String, String>,
}

/// Texts that a trace has interned, by number.
fn interned(packets: &[Message], field: u64) -> BTreeMap<u64, String> {
    let data = packets.iter().flat_map(|packet| packet.messages(12));
    let texts = data.flat_map(|data| data.messages(field).collect::<Vec<_>>());
    texts.map(|text| (text.number(1).unwrap(), text.text(2))).collect()
}

/// The slices of a trace in the order of their ends, by what Perfetto's documentation says of TrackEvent.
fn slices(folder: &Folder, file: &str) -> Vec<Slice> {
    let trace = Message::decode(&std::fs::read(folder.path(file)).expect("the trace"));
    let packets: Vec<Message> = trace.messages(1).collect();
    assert!(packets.iter().all(|packet| packet.number(10) == Some(1)), "one sequence of packets");
    assert_eq!(packets[0].number(13), Some(1), "it begins with nothing interned");
    let (names, keys, values) = (interned(&packets, 2), interned(&packets, 3), interned(&packets, 29));
    let mut tracks: BTreeMap<u64, String> = BTreeMap::new();
    for track in packets.iter().flat_map(|packet| packet.messages(60)) {
        let name = match track.number(5) {
            None => track.text(2),
            Some(parent) => format!("{}/{}", tracks[&parent], track.text(2)),
        };
        assert_eq!(tracks.insert(track.number(1).unwrap(), name), None, "a track for each number");
    }
    let mut open: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    let (mut slices, mut last) = (Vec::new(), 0);
    for packet in packets.iter().filter(|packet| packet.number(8).is_some()) {
        let at = packet.number(8).unwrap();
        assert!(at >= last, "in the order of time");
        last = at;
        let event = packet.messages(11).next().expect("an event");
        let stack = open.entry(event.number(11).unwrap()).or_default();
        match event.number(9) {
            Some(1) => {
                let annotations: Vec<Message> = event.messages(4).collect();
                let key = |one: &Message| keys[&one.number(1).unwrap()].clone();
                stack.push(Slice {
                    track: tracks[&event.number(11).unwrap()].clone(),
                    depth: stack.len(),
                    begin: at,
                    end: 0,
                    name: names[&event.number(10).unwrap()].clone(),
                    flows: event.numbers(47),
                    numbers: annotations.iter().filter_map(|one| Some((key(one), one.number(3)?))).collect(),
                    words: annotations
                        .iter()
                        .filter_map(|one| Some((key(one), values[&one.number(17)?].clone())))
                        .collect(),
                });
            }
            Some(2) => slices.push(Slice { end: at, ..stack.pop().expect("a begin") }),
            Some(3) => {}
            other => panic!("event of type {other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    slices
}

fn is_command(slice: &&Slice) -> bool {
    slice.track.contains("/commands/")
}

fn is_way(slice: &&Slice) -> bool {
    slice.track.contains("/way ") && slice.depth == 0
}

fn run(folder: &Folder, more: &[&str]) -> String {
    folder.run(&[&["run", "tiny.toml"], &WORK[..], more].concat()).answer()
}

#[test]
fn requests_are_those_of_the_log_and_reach_their_operations() {
    let folder = Folder::with_drive();
    run(&folder, &["--timeline", "t.pftrace", "--log", "log.csv"]);
    let slices = slices(&folder, "t.pftrace");
    let log = std::fs::read_to_string(folder.path("log.csv")).unwrap();
    let mut logged: Vec<(u64, u64, String, u64, u64)> = Vec::new();
    for line in log.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse().unwrap();
        logged.push((number(0), number(1), fields[2].into(), number(3), number(4)));
    }
    let commands: Vec<&Slice> = slices.iter().filter(is_command).collect();
    let mut found: Vec<_> = commands
        .iter()
        .map(|one| (one.begin, one.end, one.name.clone(), one.numbers["lba"], one.numbers["sectors"]))
        .collect();
    logged.sort();
    found.sort();
    assert_eq!(found, logged);
    for one in &commands {
        let of_stage = |(key, _): &(&String, &u64)| key.ends_with("_ns") && *key != "latency_ns";
        let stages: u64 = one.numbers.iter().filter(of_stage).map(|(_, ns)| ns).sum();
        assert_eq!((stages, one.numbers["latency_ns"]), (one.end - one.begin, one.end - one.begin));
    }
    // Every operation for the host but the last ones leads back to a request, and every read that waited for the media to operations.
    let of_commands: BTreeSet<u64> = commands.iter().flat_map(|one| one.flows.iter().copied()).collect();
    let last = slices.iter().map(|slice| slice.end).max().unwrap();
    let ways: Vec<&Slice> = slices.iter().filter(is_way).collect();
    let of_host = ways.iter().filter(|one| one.words["cause"] == "host" && one.end + 4_000_000 < last);
    assert!(of_host.clone().count() > 1_000);
    assert!(of_host.into_iter().all(|one| one.flows.iter().any(|flow| of_commands.contains(flow))));
    let of_ways: BTreeMap<u64, &Slice> =
        ways.iter().flat_map(|one| one.flows.iter().map(move |flow| (*flow, *one))).collect();
    let mut followed = 0;
    for one in commands.iter().filter(|one| one.name == "read") {
        for way in one.flows.iter().filter_map(|flow| of_ways.get(flow)) {
            assert_eq!((way.name.as_str(), way.words["cause"].as_str()), ("read", "host"));
            assert!(way.end <= one.end && way.end > one.begin, "{way:?} for {one:?}");
            followed += 1;
        }
    }
    assert!(followed > 500, "{followed} reads");
    assert!(ways.iter().any(|one| one.words["cause"] == "gc" && one.flows.is_empty()), "GC is nobody's");
}

#[test]
fn nothing_overlaps_and_times_sum_to_those_of_the_report() {
    let folder = Folder::with_drive();
    // Of this drive the firmware and the link take time, too.
    let sets = ["--set", "firmware.fetch.cycles=500", "--set", "host.link_rate=500MB/s"];
    run(&folder, &[&["--timeline", "t.pftrace", "--report", "r"][..], &sets].concat());
    let report: Value =
        serde_json::from_slice(&std::fs::read(folder.path("r/report.json")).unwrap()).unwrap();
    let mut busy: BTreeMap<String, u64> = BTreeMap::new();
    let mut until: BTreeMap<(String, usize), u64> = BTreeMap::new();
    let mut slices = slices(&folder, "t.pftrace");
    slices.sort_by_key(|slice| slice.begin);
    for slice in &slices {
        let last = until.insert((slice.track.clone(), slice.depth), slice.end).unwrap_or(0);
        assert!(last <= slice.begin, "{slice:?} begins before {last}");
        if slice.depth == 0 {
            *busy.entry(slice.track.clone()).or_default() += slice.end - slice.begin;
        }
    }
    let whole = report["simulated_seconds"].as_f64().unwrap() * 1e9;
    let check = |track: &str, share: &Value| {
        let found = busy.get(&format!("tiny/{track}")).copied().unwrap_or(0) as f64 / whole;
        let share = share.as_f64().unwrap();
        assert!((found - share).abs() < 1e-9 && share > 0.001, "{track}: {found} and {share}");
    };
    let used = &report["utilisation"];
    for channel in 0..2 {
        check(&format!("channel {channel}"), &used["channels"][channel]);
        for way in 0..2 {
            check(&format!("channel {channel}/way {way}"), &used["dies"][channel][way]);
        }
    }
    check("firmware", &used["firmware"]);
    check("host link/to drive", &used["link_to_drive"]);
    check("host link/to host", &used["link_to_host"]);
    let page = std::fs::read_to_string(folder.path("r/index.html")).unwrap();
    let figures: Value =
        serde_json::from_slice(&std::fs::read(folder.path("r/figures.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        figures.as_array().unwrap().iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    for name in ["channels-and-ways", "active-channels-and-ways", "outstanding-commands"] {
        assert!(names.contains(&name) && page.contains(&format!("data-figure=\"{name}\"")), "{name}");
    }
}

#[test]
#[cfg_attr(quick, ignore = "slow")]
fn a_timeline_changes_nothing_and_drives_stand_side_by_side() {
    let folder = Folder::with_drive();
    let results = |text: String| text.split("\nwhere ").skip(1).collect::<Vec<_>>().join("\n");
    let with = results(run(&folder, &["--timeline", "t.pftrace"]));
    assert!(!with.is_empty());
    assert_eq!(with, results(run(&folder, &[])));
    let drives = ["compare", "tiny.toml", "tiny.toml,ftl.victim=fifo", "--timeline", "both.pftrace"];
    folder.run(&[&drives[..], &WORK].concat()).answer();
    let slices = slices(&folder, "both.pftrace");
    let roots: BTreeSet<&str> = slices.iter().map(|slice| slice.track.split('/').next().unwrap()).collect();
    assert_eq!(roots.into_iter().collect::<Vec<_>>(), ["victim=fifo", "victim=greedy"]);
}

#[test]
fn windows_and_bounds_choose_what_is_recorded() {
    let folder = Folder::with_drive();
    run(&folder, &["--timeline", "t.pftrace", "--timeline-window", "10ms..12ms"]);
    let part = slices(&folder, "t.pftrace");
    let (commands, parts): (Vec<_>, Vec<_>) = part.iter().partition(is_command);
    let window = 10_000_000..=12_000_000u64;
    assert!(parts.iter().all(|one| window.contains(&one.begin) && window.contains(&one.end)));
    assert!(parts.len() > 20 && commands.iter().all(|one| one.begin < 12_000_000 && one.end >= 10_000_000));
    run(&folder, &["--timeline", "t.pftrace", "--timeline-slower", "3ms"]);
    let slow = slices(&folder, "t.pftrace");
    let commands: Vec<&Slice> = slow.iter().filter(is_command).collect();
    assert!(!commands.is_empty() && commands.iter().all(|one| one.end - one.begin >= 3_000_000));
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let folder = Folder::with_drive();
    folder.write("mine", "not a trace");
    let refused = [
        (&["--timeline", "t", "--timeline-window", "5ms..5ms"][..], "a later end"),
        (&["--timeline", "t", "--timeline-window", "5ms"], "FROM..TO"),
        (&["--timeline", "t", "--timeline-window", "5..6ms"], "allowed: a duration"),
        (&["--timeline", "t", "--timeline-slower", "soon"], "allowed: a duration"),
        (&["--timeline-slower", "1ms"], "--timeline-slower: allowed: with --timeline FILE"),
        (&["--timeline", "t", "--seeds", "3"], "allowed: one of them"),
        (&["--timeline", "mine"], "--force"),
        (&["--timeline", "t", "--log", "t"], "another name"),
    ];
    for (options, expected) in refused {
        let done = folder.run(&[&["run", "tiny.toml"], &WORK[..], options].concat());
        assert_eq!(done.status, 2, "{options:?}: {}", done.stderr);
        assert!(done.stderr.contains(expected), "{options:?}: {}", done.stderr);
    }
    assert!(!folder.path("t").exists());
    let nothing = ["--timeline", "t", "--timeline-window", "5h.."];
    let done = folder.run(&[&["run", "tiny.toml"], &WORK[..], &nothing].concat());
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(done.stderr.contains("--timeline-window 5h..: the run was over"), "{}", done.stderr);
    assert!(!folder.path("t").exists());
    let slow = ["--timeline", "t", "--timeline-slower", "5h"];
    let done = folder.run(&[&["run", "tiny.toml"], &WORK[..], &slow].concat());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stderr.contains("nothing was recorded"), "{}", done.stderr);
    // Work that its runtime ends is not begun.
    let timed = ["--rw", "randwrite", "--runtime", "10ms", "--ramp-time", "1ms"];
    let done = folder.run(&[&["run", "tiny.toml"], &timed[..], &nothing].concat());
    assert!(done.status == 2 && done.stdout.is_empty(), "{} {}", done.status, done.stdout);
    assert!(done.stderr.contains("the run is over at the latest 11.0 ms after"), "{}", done.stderr);
    assert!(!folder.path("t").exists());
}
