//! Timelines as a Perfetto trace: TrackEvent messages in Protocol Buffers.
//!
//! ```text
//!  drive ─┬─ commands ─┬─ 1 ─ 2 ─ ...   commands that overlap stand on several tracks
//!         ├─ firmware                                                       flows:
//!         ├─ host link ─┬─ to drive, to host                                  command ─► operation in its way ─► its transfers
//!         └─ channel 0 ─┬─ way 0 (plane 0 ...), way 1, ...                    command ─► its host DMA, its steps of the firmware
//!            channel 1 ...
//! ```
//! Each drive is a tree of tracks of its own, so several share one trace and one clock. Times are simulated nanoseconds since the drive was switched
//! on, as in the request log. Names and keys of annotations are interned, so an event takes some 60 bytes.
//!
//! Field numbers: perfetto.dev, "Trace packet reference"; TracePacket, TrackDescriptor, TrackEvent, DebugAnnotation, InternedData.

use super::super::log::opcode_name;
use super::super::tables::key;
use super::protobuf::Message;
use pellucid_device::{
    Activity, OperationKind, Timeline, TimelineCommand, TimelineOperation, TimelineSpan, Track,
};
use pellucid_flash::{SimTime, Stage};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// First bytes of every trace: its sequence of packets, and the category of all events.
pub const TIMELINE_BEGINNING: &[u8] = b"\x0a\x14\x50\x01\x68\x01\x62\x0e\x0a\x0c\x08\x01\x12\x08pellucid";

/// `Trace.packet`.
const PACKET: u64 = 1;
/// Number of the only sequence of packets.
const SEQUENCE: u64 = 1;
/// `sequence_flags`: the packet needs strings interned before it.
const NEEDS_INTERNED: u64 = 2;
/// `ChildTracksOrdering.EXPLICIT`: children by rank.
const BY_RANK: u64 = 3;
/// `SiblingMergeBehavior.NONE`: no two tracks are drawn as one.
const NOT_MERGED: u64 = 2;

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;

/// Bits of track numbers within a drive, below those of the drive itself.
const DRIVE: u64 = 32;
const COMMANDS: u64 = 1 << 24;
const LINK: u64 = 2 << 24;
const LINK_TO_DRIVE: u64 = LINK + 1;
const LINK_TO_HOST: u64 = LINK + 2;
const FIRMWARE: u64 = 3 << 24;
const CHANNELS: u64 = 4 << 24;
const WAYS: u64 = 5 << 24;

/// Encodes the timelines of named drives as one trace.
pub fn to_perfetto(timelines: &[(&str, &Timeline)]) -> Vec<u8> {
    let mut trace = Trace::default();
    for (at, (name, timeline)) in timelines.iter().enumerate() {
        Drive { trace: &mut trace, timeline, uuid: (at as u64 + 1) << DRIVE }.write(name, at as u64);
    }
    trace.finish()
}

/// A trace under construction.
#[derive(Default)]
struct Trace {
    descriptors: Vec<Message>,
    events: Vec<(SimTime, Message)>,
    names: Interned,
    keys: Interned,
    values: Interned,
    flows: u64,
}

/// Interned strings by number, from 1.
#[derive(Default)]
struct Interned(BTreeMap<String, u64>);

impl Interned {
    fn number(&mut self, text: &str) -> u64 {
        let next = self.0.len() as u64 + 1;
        *self.0.entry(text.into()).or_insert(next)
    }

    /// Adds the strings to `InternedData`, each as a message of a number (1) and a string (2).
    fn add_to(&self, data: Message, field: u64) -> Message {
        let one = |data: Message, (text, number): (&String, &u64)| {
            data.message(field, Message::default().number(1, *number).text(2, text))
        };
        self.0.iter().fold(data, one)
    }
}

impl Trace {
    /// Adds a track; children are in the order of their ranks.
    fn track(&mut self, uuid: u64, parent: Option<u64>, name: &str, rank: u64) {
        let track = Message::default().number(1, uuid).text(2, name);
        let track = parent.into_iter().fold(track, |track, parent| track.number(5, parent));
        let track = track.number(11, BY_RANK).number(12, rank).number(15, NOT_MERGED);
        self.descriptors.push(track);
    }

    /// Adds an event, to which `more` adds fields of `TrackEvent`.
    fn event(&mut self, at: SimTime, kind: u64, track: u64, more: impl FnOnce(Message) -> Message) {
        let event = more(Message::default().number(9, kind).number(11, track));
        self.events.push((at, event));
    }

    /// Adds a slice; `more` adds fields to its begin.
    fn slice(
        &mut self,
        (begin, end): (SimTime, SimTime),
        track: u64,
        name: &str,
        more: impl FnOnce(&mut Trace, Message) -> Message,
    ) {
        let name = self.names.number(name);
        let event = Message::default().number(9, BEGIN).number(11, track).number(3, 1).number(10, name);
        let event = more(self, event);
        self.events.push((begin, event));
        self.event(end, END, track, |event| event);
    }

    fn count(&mut self, event: Message, key: &str, value: u64) -> Message {
        event.message(4, Message::default().number(1, self.keys.number(key)).number(3, value))
    }

    fn word(&mut self, event: Message, key: &str, value: &str) -> Message {
        let (key, value) = (self.keys.number(key), self.values.number(value));
        event.message(4, Message::default().number(1, key).number(17, value))
    }

    fn next_flow(&mut self) -> u64 {
        self.flows += 1;
        self.flows
    }

    /// Returns the packets: interned strings, tracks, then events in the order of their times.
    fn finish(mut self) -> Vec<u8> {
        let interned = self.names.add_to(Message::default(), 2);
        let interned = self.values.add_to(self.keys.add_to(interned, 3), 29);
        let packet = |packet: Message| packet.number(10, SEQUENCE).number(13, NEEDS_INTERNED);
        let mut bytes = TIMELINE_BEGINNING.to_vec();
        let mut add = |packet: Message| bytes.extend(Message::default().message(PACKET, packet).into_bytes());
        add(packet(Message::default()).message(12, interned));
        for track in self.descriptors {
            add(packet(Message::default()).message(60, track));
        }
        // The sort is stable: of events of one track at the same time, a slice's end stays before the next one's begin.
        self.events.sort_by_key(|&(at, _)| at);
        for (at, event) in self.events {
            add(packet(Message::default().number(8, at.0)).message(11, event));
        }
        bytes
    }
}

struct Drive<'a> {
    trace: &'a mut Trace,
    timeline: &'a Timeline,
    /// Number of the drive's track; those of its parts follow.
    uuid: u64,
}

impl Drive<'_> {
    fn write(mut self, name: &str, rank: u64) {
        self.trace.track(self.uuid, None, name, rank);
        self.parts();
        let flows = self.flows();
        self.commands(&flows);
        self.spans(&flows);
        if self.timeline.is_full {
            let name = self.trace.names.number("the record is full: nothing later is in it");
            self.trace
                .event(self.timeline.to, INSTANT, self.uuid, |event| event.number(3, 1).number(10, name));
        }
    }

    /// Adds the tracks of the parts.
    fn parts(&mut self) {
        let (uuid, timeline) = (self.uuid, self.timeline);
        let mut track = |number: u64, parent: u64, name: &str, rank: u64| {
            self.trace.track(uuid + number, Some(uuid + parent), name, rank);
        };
        track(COMMANDS, 0, "commands", 0);
        match timeline.processors {
            1 => track(FIRMWARE, 0, "firmware", 1),
            _ => {
                track(FIRMWARE + 1, 0, "firmware: host interface and FTL", 1);
                track(FIRMWARE, 0, "firmware: scheduler", 1);
            }
        }
        track(LINK, 0, "host link", 2);
        track(LINK_TO_DRIVE, LINK, "to drive", 0);
        track(LINK_TO_HOST, LINK, "to host", 1);
        for channel in 0..timeline.channels {
            let number = CHANNELS + u64::from(channel);
            track(number, 0, &format!("channel {channel}"), 3 + u64::from(channel));
            for way in 0..timeline.ways {
                for plane in 0..timeline.planes {
                    let die = channel * timeline.ways + way;
                    let name = match timeline.planes {
                        1 => format!("way {way}"),
                        _ => format!("way {way} plane {plane}"),
                    };
                    let rank = u64::from(way * timeline.planes + plane);
                    track(self::number(Track::Way { die, plane }, timeline), number, &name, rank);
                }
            }
        }
    }

    /// Numbers a flow for each command, and one for each pair of an operation and a command that it serves.
    fn flows(&mut self) -> Flows {
        let of_commands = self.timeline.commands.iter().map(|_| self.trace.next_flow()).collect();
        let of_operation = |operation: &TimelineOperation| {
            operation.commands.iter().map(|&command| (command, self.trace.next_flow())).collect()
        };
        Flows { of_commands, of_operations: self.timeline.operations.iter().map(of_operation).collect() }
    }

    /// Adds the commands, each on the first track without an earlier overlapping command.
    fn commands(&mut self, flows: &Flows) {
        let mut served: Vec<Vec<u64>> = vec![Vec::new(); self.timeline.commands.len()];
        for (command, flow) in flows.of_operations.iter().flatten() {
            served[*command as usize].push(*flow);
        }
        let (mut busy, mut idle, mut tracks) = (BinaryHeap::new(), BinaryHeap::new(), 0u64);
        for (at, command) in self.timeline.commands.iter().enumerate() {
            while let Some(&Reverse((ends, track))) = busy.peek()
                && ends <= command.submitted
            {
                busy.pop();
                idle.push(Reverse(track));
            }
            let track = idle.pop().map_or_else(
                || {
                    tracks += 1;
                    let (uuid, name) = (self.uuid + COMMANDS, format!("command {tracks}"));
                    self.trace.track(uuid + tracks, Some(uuid), &name, tracks);
                    tracks
                },
                |Reverse(track)| track,
            );
            busy.push(Reverse((command.completed, track)));
            let all = std::iter::once(flows.of_commands[at]).chain(served[at].iter().copied());
            let all: Vec<u64> = all.collect();
            self.command(self.uuid + COMMANDS + track, command, &all);
        }
    }

    fn command(&mut self, track: u64, command: &TimelineCommand, flows: &[u64]) {
        let time = (command.submitted, command.completed);
        self.trace.slice(time, track, opcode_name(command.opcode), |trace, event| {
            let mut event = trace.count(event, "lba", command.lba.0);
            event = trace.count(event, "sectors", command.sectors.into());
            event = trace.count(event, "namespace", command.namespace.into());
            event = trace.word(event, "status", command.status.name());
            event = trace.count(event, "latency_ns", (command.completed - command.submitted).0);
            for stage in Stage::ALL {
                let ns = command.stages.get(stage).0;
                if ns > 0 {
                    event = trace.count(event, &format!("{}_ns", key(stage.name())), ns);
                }
            }
            flows.iter().fold(event, |event, flow| event.fixed(47, *flow))
        });
    }

    /// Adds the spans of all components, in the order in which slices of a track nest.
    fn spans(&mut self, flows: &Flows) {
        let spans = &self.timeline.spans;
        let mut at = 0;
        while at < spans.len() {
            let outer = &spans[at];
            let within = spans[at + 1..].iter().take_while(|span| {
                span.track == outer.track && span.activity.is_within() && span.begin < outer.end
            });
            let within = within.count();
            self.span(outer, &spans[at + 1..][..within], flows);
            at += 1 + within;
        }
    }

    /// Adds a span, and the spans nested in it.
    fn span(&mut self, span: &TimelineSpan, within: &[TimelineSpan], flows: &Flows) {
        let track = self.uuid + number(span.track, self.timeline);
        let operation = span.operation.map(|at| &self.timeline.operations[at as usize]);
        let name = self.trace.names.number(&name(span, operation));
        let event = Message::default().number(9, BEGIN).number(11, track).number(3, 1).number(10, name);
        let mut event = match operation {
            Some(operation) => annotated(self.trace, event, operation),
            None => event,
        };
        let goes_on = !matches!(span.activity, Activity::Firmware(_));
        if let Some(at) = span.operation.filter(|_| goes_on) {
            event = flows.of_operations[at as usize]
                .iter()
                .fold(event, |event, (_, flow)| event.fixed(47, *flow));
        }
        if let Some(command) = span.command {
            event = event.fixed(47, flows.of_commands[command as usize]);
        }
        self.trace.events.push((span.begin, event));
        for inner in within {
            let what = self::name(inner, operation);
            self.trace.slice((inner.begin, inner.end), track, &what, |_, event| event);
        }
        self.trace.event(span.end, END, track, |event| event);
    }
}

struct Flows {
    of_commands: Vec<u64>,
    /// Commands served by each operation, each with its flow.
    of_operations: Vec<Vec<(u32, u64)>>,
}

fn annotated(trace: &mut Trace, event: Message, operation: &TimelineOperation) -> Message {
    let event = trace.word(event, "cause", operation.cause.name());
    let event = trace.count(event, "namespace", operation.namespace.into());
    let event = trace.count(event, "first_unit", operation.first.0.into());
    match operation.kind {
        OperationKind::Erase => event,
        _ => trace.count(event, "units", operation.units.into()),
    }
}

/// Returns the number of a part's track.
fn number(track: Track, timeline: &Timeline) -> u64 {
    match track {
        Track::Firmware(processor) => FIRMWARE + u64::from(processor),
        Track::LinkToDrive => LINK_TO_DRIVE,
        Track::LinkToHost => LINK_TO_HOST,
        Track::Channel(channel) => CHANNELS + u64::from(channel),
        Track::Way { die, plane } => WAYS + u64::from(die * timeline.planes + plane),
    }
}

/// Returns the name of a slice in the viewer.
fn name(span: &TimelineSpan, operation: Option<&TimelineOperation>) -> String {
    let kind = operation.map_or("", |operation| operation.kind.name());
    match span.activity {
        Activity::Operation => kind.into(),
        Activity::Array => "array".into(),
        Activity::Suspension => "suspension".into(),
        Activity::Exchange => "channel".into(),
        Activity::Command if kind == OperationKind::Program.name() => "program: command and data".into(),
        Activity::Command => format!("{kind}: command"),
        Activity::StatusCheck => format!("{kind}: status check"),
        Activity::Data => format!("{kind}: data"),
        Activity::HostDma => "host DMA".into(),
        Activity::Firmware(module) => module.name().into(),
    }
}
