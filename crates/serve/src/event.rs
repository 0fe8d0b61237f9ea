//! The events that a server writes to its log, and their format.
//!
//! ```text
//!  Event ─► fields: name, value; a value is a word or a text ─► event=closed connection=7 peer="127.0.0.1:40000" why="finished"
//! ```
//! A word has no blanks and no quotes. A text is quoted as in Rust. Other formats are built from
//! [`Event::fields`].

mod fields;

use crate::engine::Time;
use pellucid_flash::{Figure, Status};
use pellucid_ftl::MountReport;
use pellucid_media::{Extent, StoreNotice};
use pellucid_target::connection::ConnectionId;
use pellucid_target::operation::Keeps;
use std::fmt::{self, Display};

/// Something that happened to a server or its drives.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A drive is served, with these properties.
    Drive(DriveFacts),
    /// A drive is served with its media unchanged, although its description asks for preconditioning.
    NotPreconditioned {
        /// Name of the drive.
        drive: String,
    },
    /// A drive is new: no file of media was there.
    MediaMade {
        /// Name of the drive.
        drive: String,
        /// The file that was made.
        file: String,
    },
    /// A client can reach a drive in this way.
    Reachable {
        /// Name of the drive.
        drive: String,
        /// Protocol of the access.
        protocol: &'static str,
        /// URI to open, or command to type.
        how: Reach,
    },
    /// All listeners are open, and the log has said how each drive is reached.
    Ready,
    /// A store may grow to this extent on this machine.
    Store {
        /// Drive of the store.
        drive: String,
        /// Largest memory and disk use.
        extent: Extent,
    },
    /// A store reports a notice.
    StoreNotice {
        /// Drive of the store.
        drive: String,
        /// The notice.
        notice: StoreNotice,
    },
    /// The start of a drive found this state on its media.
    Mounted {
        /// Name of the drive.
        drive: String,
        /// Report of the mount.
        report: MountReport,
    },
    /// The start of a layer found this state.
    LayerMounted {
        /// Drive of the layer.
        drive: String,
        /// Findings and cost, under the layer's own names.
        figures: Vec<Figure>,
    },
    /// The start of a layer did something that its user should know.
    LayerNotice {
        /// Drive of the layer.
        drive: String,
        /// The notice, as a sentence.
        why: &'static str,
    },
    /// A cache that keeps its items across a stop has started.
    CacheStarted {
        /// Name of the cache.
        cache: String,
        /// Items found; 0 also after a crash.
        items: u64,
    },
    /// A drive cannot be restarted.
    MountFailed {
        /// Name of the drive.
        drive: String,
        /// Reason.
        why: String,
    },
    /// A namespace keeps nothing across a power cut.
    PromisesNothing {
        /// Name of the namespace.
        namespace: String,
    },
    /// A protocol accepts connections.
    Listening {
        /// Protocol of the listener.
        protocol: &'static str,
        /// Address of the listener.
        address: String,
        /// Address as a URI, ready to be opened.
        uri: Option<String>,
    },
    /// The system fails to accept a connection.
    AcceptFailed {
        /// Protocol of the listener.
        protocol: &'static str,
        /// Error of the system.
        error: String,
    },
    /// A protocol accepts connections again.
    AcceptingAgain {
        /// Protocol of the listener.
        protocol: &'static str,
    },
    /// A peer was turned away.
    TurnedAway {
        /// Address of the peer.
        peer: String,
        /// Reason.
        why: String,
    },
    /// A peer was admitted.
    Connected {
        /// Number of its connection.
        connection: ConnectionId,
        /// Protocol of the connection.
        protocol: &'static str,
        /// Address of the peer.
        peer: String,
    },
    /// A connection is gone.
    Closed {
        /// Number of the connection.
        connection: ConnectionId,
        /// Address of the peer.
        peer: String,
        /// Reason.
        why: String,
    },
    /// Connections came, went or were turned away too often to log each of them.
    NotLogged {
        /// Number of events not logged.
        events: u64,
    },
    /// Log lines were dropped because the reader was too slow.
    LinesDropped {
        /// Number of lines.
        lines: u64,
    },
    /// A connection or a block device begins to use a namespace.
    Attached {
        /// User of the namespace.
        by: User,
        /// Name of the namespace.
        drive: String,
    },
    /// A connection or a block device no longer uses a namespace.
    Detached {
        /// User of the namespace.
        by: User,
        /// Name of the namespace.
        drive: String,
    },
    /// The kernel fails a step that a block device needs.
    UblkFailed {
        /// Step that failed.
        step: UblkStep,
        /// Error of the kernel.
        error: String,
    },
    /// A target takes commands.
    TargetReady {
        /// Full name of the target.
        target: String,
        /// Error if the target cannot be kept for the next start.
        error: Option<String>,
    },
    /// A target is gone.
    TargetGone {
        /// Full name of the target.
        target: String,
        /// Error if the target could not start, or if the remaining ones cannot be kept for the next start.
        error: Option<String>,
    },
    /// An application of the flash library got LUNs of its own.
    AppAllocated {
        /// Full name of the application.
        application: String,
        /// Its LUNs, as CHANNEL/LUN.
        luns: Vec<String>,
    },
    /// The LUNs of an application are free again; its data are lost.
    AppReleased {
        /// Full name of the application.
        application: String,
    },
    /// A fault was injected into a drive.
    Fault {
        /// Name of the drive.
        drive: String,
        /// Action, in the notation of plans.
        fault: String,
        /// Originator of the fault.
        by: By,
        /// Read-only state of the drive after damage; `None` for other faults.
        read_only: Option<bool>,
        /// Error if the action could not be done.
        error: Option<String>,
    },
    /// The server stops, and a planned fault has not struck.
    FaultNotStruck {
        /// Name of the drive.
        drive: String,
        /// Text of the planned fault.
        fault: String,
        /// Operations that the drive had received.
        operations: u64,
    },
    /// The power of a drive was cut.
    PowerCut {
        /// Name of the drive.
        drive: String,
        /// Commands that were in flight.
        commands_lost: usize,
        /// Sectors whose newest acknowledged data only layers of the host held.
        undone_host_sectors: u64,
        /// Originator of the power cut.
        by: By,
    },
    /// The connection to a remote drive is lost.
    RemoteLost {
        /// Address of the drive.
        remote: String,
        /// Reason.
        why: String,
        /// Commands that are in doubt or wait.
        outstanding: usize,
    },
    /// A remote drive could not be reconnected.
    RemoteAway {
        /// Address of the drive.
        remote: String,
        /// Reason.
        why: String,
        /// Milliseconds until the next attempt.
        again_ms: u64,
    },
    /// A remote drive is connected again.
    RemoteBack {
        /// Address of the drive.
        remote: String,
        /// Commands whose outcome was unknown.
        in_doubt: u32,
        /// Commands in doubt that failed.
        failed: usize,
    },
    /// A remote drive is no longer trusted.
    RemoteGone {
        /// Address of the drive.
        remote: String,
        /// Reason.
        why: String,
    },
    /// A file that is served as a drive fails.
    FileFailed {
        /// Path of the file.
        file: String,
        /// Reason.
        why: String,
    },
    /// Recording of requests has stopped.
    RecordFailed {
        /// Reason.
        why: String,
    },
    /// The server is stopping.
    Stopping {
        /// Cause of the stop, in one word.
        reason: &'static str,
        /// Number of open connections.
        connections: usize,
    },
    /// The server has been stopping for a while and still waits.
    StillStopping {
        /// Seconds since it began to stop.
        seconds: u64,
        /// Number of open connections.
        connections: usize,
        /// Names of the drives that have commands to finish or state to store.
        drives: Vec<String>,
    },
    /// The final flush of a drive failed.
    FlushFailed {
        /// Name of the drive.
        drive: String,
        /// Status of the flush.
        status: Status,
    },
    /// A cache has data that its drive cannot read, and nobody else has.
    CacheLost {
        /// Name of the drive.
        drive: String,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// A cache has written everything back and is out of use.
    CacheDetached {
        /// Name of the drive.
        drive: String,
    },
    /// A cluster buffer is empty, and writes pass it by.
    FirePaused {
        /// Name of the drive.
        drive: String,
    },
    /// A cluster buffer takes writes again.
    FireResumed {
        /// Name of the drive.
        drive: String,
    },
    /// A cache has stopped with blocks that its backing store has only in an older version.
    CacheDirty {
        /// Name of the drive.
        drive: String,
        /// How many.
        blocks: u64,
    },
    /// The layers of a drive could not be stopped in order.
    StopFailed {
        /// Name of the drive.
        drive: String,
        /// Reason.
        why: String,
    },
    /// The server has stopped.
    Stopped,
}

/// Properties of a drive when the server starts.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveFacts {
    /// Name of the namespace.
    pub name: String,
    /// Preset, file or remote address of the drive.
    pub from: String,
    /// Interface of the namespace.
    pub kind: &'static str,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Bytes per sector.
    pub sector_bytes: u32,
    /// Location of its data.
    pub store: String,
    /// Data kept across a power cut.
    pub keeps: Keeps,
    /// Time mode of the drive.
    pub time: Time,
}

/// Way to reach a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// URI for a client.
    Uri(String),
    /// Command to type.
    Command(String),
}

/// The user of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// A connection.
    Connection(ConnectionId),
    /// A block device of this machine's kernel, by its path.
    Device(String),
}

/// The originator of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A connection of the control socket.
    Control(ConnectionId),
    /// A plan.
    Plan {
        /// Text of the planned fault.
        text: String,
        /// Operations that the drive had received.
        operations: u64,
    },
    /// A program that owns the drives.
    Owner,
}

/// A step of the kernel for a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UblkStep {
    /// Start a device.
    Start {
        /// Name of the namespace.
        drive: String,
    },
    /// Stop a device.
    Stop,
    /// Delete a device.
    Delete {
        /// Name of the namespace.
        drive: String,
    },
}

/// A value of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text without blanks and quotes.
    Word(String),
    /// Arbitrary text.
    Text(String),
}

impl Value {
    /// The value itself, unquoted.
    pub fn as_str(&self) -> &str {
        match self {
            Value::Word(text) | Value::Text(text) => text,
        }
    }
}

/// Names and values of an event, in order.
pub type Fields = Vec<(&'static str, Value)>;

impl Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event={}", self.name())?;
        self.fields().iter().try_for_each(|(name, value)| match value {
            Value::Word(word) => write!(f, " {name}={word}"),
            Value::Text(text) => write!(f, " {name}={text:?}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let connection = ConnectionId::new(7);
        let closed = Event::Closed { connection, peer: "unix:/a b".into(), why: "say \"no\"".into() };
        assert_eq!(closed.to_string(), r#"event=closed connection=7 peer="unix:/a b" why="say \"no\"""#);
        assert_eq!(Event::Stopped.to_string(), "event=stopped");
        let by = By::Plan { text: "power-cut@2s".into(), operations: 5 };
        let cut = Event::PowerCut { drive: "one".into(), commands_lost: 3, undone_host_sectors: 5, by };
        assert_eq!(
            cut.to_string(),
            r#"event=power-cut drive="one" commands_lost=3 undone_host_sectors=5 fault="power-cut@2s" operations=5"#
        );
        let fault = Event::Fault {
            drive: "one".into(),
            fault: "slow-die=3x10".into(),
            by: By::Control(connection),
            read_only: Some(false),
            error: None,
        };
        assert_eq!(
            fault.to_string(),
            r#"event=fault drive="one" fault="slow-die=3x10" connection=7 read_only=false"#
        );
    }
}
