//! Timeline of a drive: the activity of each channel, way, host link and processor over time, and the commands that it served.
//!
//! ```text
//!  before the clock moves ──► look at channels, ways and processor ─► a span for what has changed ─┐
//!  a host DMA is booked ────► a span ──────────────────────────────────────────────────────────────┼─► Timeline
//!  an operation serves a slice, data are stored or programmed ─► the commands of an operation ─────┤   (plain data)
//!  a command completes ─────► the command ─────────────────────────────────────────────────────────┘
//! ```
//! Recording is off by default and is a side band like the [probes](crate::Probes): nothing in the drive reads it, so a recorded drive
//! does the same as another one, to the nanosecond.
//!
//! Invariants: spans of one channel, of one direction of the link and of a processor do not overlap, nor do operations of one way; the
//! spans of a track sum to what the drive counts as its busy time in the window (with independent plane reads a way has a track for
//! each plane, and their union does).

mod recorder;

pub(crate) use recorder::{Recorder, Stored};

use crate::firmware::FirmwareModule;
use crate::probes::OperationKind;
use pellucid_flash::{Cause, Lba, Nanos, Opcode, Ppa, SimTime, StageTimes, Status};

/// The part of a drive's work that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineWindow {
    /// Begin of the window.
    pub from: SimTime,
    /// End of the window.
    pub to: SimTime,
    /// Commands that took less are left out, and all that happened while no slower one was in the drive; 0: none is.
    pub slower_than: Nanos,
    /// Spans and commands that are kept at most. When there are more, the window ends.
    pub entries_max: usize,
}

/// A part of the drive that does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// A processor of the firmware; of two, 0 is the scheduler's.
    Firmware(u32),
    /// The host link, from host to drive.
    LinkToDrive,
    /// The host link, from drive to host.
    LinkToHost,
    /// A channel, by number.
    Channel(u32),
    /// A way, by the number of its die; with independent plane reads one of its planes.
    Way {
        /// Number of the die.
        die: u32,
        /// Number of the plane; 0 without independent plane reads.
        plane: u32,
    },
}

/// Activity of a part during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A way works on an operation: from its first command on the channel until it has left the way. The other activities of a way
    /// lie within such a span.
    Operation,
    /// The array senses, programs or erases.
    Array,
    /// The array suspends an operation.
    Suspension,
    /// The way exchanges data with its channel.
    Exchange,
    /// A channel carries the command of an operation; of a program, its data too.
    Command,
    /// A channel carries a status check.
    StatusCheck,
    /// A channel carries the data of a read.
    Data,
    /// The host link carries the data of a slice.
    HostDma,
    /// The processor works for a module.
    Firmware(FirmwareModule),
}

/// An interval in which a part did one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineSpan {
    /// The part.
    pub track: Track,
    /// Its activity.
    pub activity: Activity,
    /// Begin, not before that of the window.
    pub begin: SimTime,
    /// End, not after that of the window.
    pub end: SimTime,
    /// The flash operation that it was for, as an index of [`Timeline::operations`].
    pub operation: Option<u32>,
    /// The command that it was for, as an index of [`Timeline::commands`]; of the link and the processor.
    pub command: Option<u32>,
}

/// A flash operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineOperation {
    /// Its kind.
    pub kind: OperationKind,
    /// Its cause.
    pub cause: Cause,
    /// The namespace that asked for it.
    pub namespace: u16,
    /// Its first mapping unit on the media.
    pub first: Ppa,
    /// Mapping units that cross the channel.
    pub units: u32,
    /// Commands whose data it read or programmed, as indexes of [`Timeline::commands`]; none for operations of GC, map and journal.
    pub commands: Vec<u32>,
}

/// A command of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineCommand {
    /// Its operation.
    pub opcode: Opcode,
    /// Its namespace.
    pub namespace: u16,
    /// Its first sector.
    pub lba: Lba,
    /// Number of its sectors.
    pub sectors: u32,
    /// How it ended.
    pub status: Status,
    /// When it was submitted, perhaps before the window.
    pub submitted: SimTime,
    /// When it completed, perhaps after the window.
    pub completed: SimTime,
    /// Where its time went.
    pub stages: StageTimes,
}

/// A finished record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Begin of the window.
    pub from: SimTime,
    /// End of the window; the end of the record where that came first.
    pub to: SimTime,
    /// The record was full before the end of the window, which therefore ends at [`Timeline::to`].
    pub is_full: bool,
    /// Channels of the drive.
    pub channels: u32,
    /// Ways of each channel.
    pub ways: u32,
    /// Tracks of a way: 1, or with independent plane reads its planes.
    pub planes: u32,
    /// Processors of the firmware.
    pub processors: u32,
    /// All spans in the order of tracks, then of their begin; a way's operation before its parts.
    pub spans: Vec<TimelineSpan>,
    /// Operations that spans name.
    pub operations: Vec<TimelineOperation>,
    /// Commands that overlap the window and completed, in the order of their submission.
    pub commands: Vec<TimelineCommand>,
}

impl Timeline {
    /// Spans and commands.
    pub fn entries(&self) -> usize {
        self.spans.len() + self.commands.len()
    }

    /// Busy spans of components, each counted once: all spans except those nested in an operation of
    /// a way.
    pub fn busy_spans(&self) -> impl Iterator<Item = &TimelineSpan> {
        self.spans.iter().filter(|span| !span.activity.is_within())
    }
}

impl Activity {
    /// Returns whether spans of this activity lie within one of an operation.
    pub fn is_within(self) -> bool {
        matches!(self, Activity::Array | Activity::Suspension | Activity::Exchange)
    }
}
