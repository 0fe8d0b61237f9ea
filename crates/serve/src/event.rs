//! What a server tells its log: every event, and how it is written.
//!
//! ```text
//!  Event ─► fields: name, value; a value is a word or a text ─► event=closed connection=7 peer="127.0.0.1:40000" why="finished"
//! ```
//! A word has no blank and no quote. A text is quoted as Rust quotes it. Other forms are made of [`Event::fields`].

use crate::engine::Time;
use crate::session::{ConnectionId, Keeps};
use pellucid_flash::{Figure, Status};
use pellucid_ftl::MountReport;
use pellucid_media::{Extent, StoreNotice};
use std::fmt::{self, Display};

/// Something that happened to a server or its drives.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A drive is served, with what it is.
    Drive(DriveFacts),
    /// A drive is served as its media are, though its description asks for preconditioning.
    NotPreconditioned {
        /// Its name.
        drive: String,
    },
    /// How a client reaches a drive.
    Reachable {
        /// Its name.
        drive: String,
        /// Over what.
        protocol: &'static str,
        /// What to open, or to type.
        how: Reach,
    },
    /// What a store can come to take of this machine.
    Store {
        /// Its drive.
        drive: String,
        /// Of memory and of the disk.
        extent: Extent,
    },
    /// What happened to a store.
    StoreNotice {
        /// Its drive.
        drive: String,
        /// What.
        notice: StoreNotice,
    },
    /// What the start of a drive found on its media.
    Mounted {
        /// Its name.
        drive: String,
        /// What was found.
        report: MountReport,
    },
    /// What the start of a layer found.
    LayerMounted {
        /// Its drive.
        drive: String,
        /// What was found, and what it cost, by the layer's own names.
        figures: Vec<Figure>,
    },
    /// A cache that keeps its items over a stop has started.
    CacheStarted {
        /// Its name.
        cache: String,
        /// Items that it found; 0 also after a crash.
        items: u64,
    },
    /// A drive cannot be started again.
    MountFailed {
        /// Its name.
        drive: String,
        /// Why.
        why: String,
    },
    /// A namespace keeps nothing over a power cut.
    PromisesNothing {
        /// Its name.
        namespace: String,
    },
    /// Connections are accepted.
    Listening {
        /// Of which protocol.
        protocol: &'static str,
        /// Where.
        address: String,
        /// The same, ready to be opened.
        uri: Option<String>,
    },
    /// The system gives no connection.
    AcceptFailed {
        /// Of which protocol.
        protocol: &'static str,
        /// What it says.
        error: String,
    },
    /// It gives connections again.
    AcceptingAgain {
        /// Of which protocol.
        protocol: &'static str,
    },
    /// A peer was not let in.
    TurnedAway {
        /// Which.
        peer: String,
        /// Why.
        why: String,
    },
    /// A peer was let in.
    Connected {
        /// Its connection.
        connection: ConnectionId,
        /// Of which protocol.
        protocol: &'static str,
        /// Which.
        peer: String,
    },
    /// A connection is gone.
    Closed {
        /// Which.
        connection: ConnectionId,
        /// Whose.
        peer: String,
        /// Why.
        why: String,
    },
    /// Connections came, went or were turned away so often that not each of them is in the log.
    NotLogged {
        /// Events of this kind.
        events: u64,
    },
    /// A connection or a block device begins to use a namespace.
    Attached {
        /// The user.
        by: User,
        /// The namespace.
        drive: String,
    },
    /// It uses the namespace no more.
    Detached {
        /// The user.
        by: User,
        /// The namespace.
        drive: String,
    },
    /// The kernel does not do what a block device needs.
    UblkFailed {
        /// What it does not do.
        step: UblkStep,
        /// What it says.
        error: String,
    },
    /// A target takes commands.
    TargetReady {
        /// Its full name.
        target: String,
        /// It cannot be kept for the next start.
        error: Option<String>,
    },
    /// A target is gone.
    TargetGone {
        /// Its full name.
        target: String,
        /// It could not start, or what is left cannot be kept for the next start.
        error: Option<String>,
    },
    /// A drive was broken on purpose.
    Fault {
        /// Its name.
        drive: String,
        /// What was done, as a plan says it.
        fault: String,
        /// What did it.
        by: By,
        /// Whether the drive takes no writes since; damage only.
        read_only: Option<bool>,
        /// It could not be done.
        error: Option<String>,
    },
    /// The power of a drive was cut.
    PowerCut {
        /// Its name.
        drive: String,
        /// Commands that were in it.
        commands_lost: usize,
        /// What did it.
        by: By,
    },
    /// The connection to a remote drive is lost.
    RemoteLost {
        /// Its address.
        remote: String,
        /// Why.
        why: String,
        /// Commands that are in doubt, or wait.
        outstanding: usize,
    },
    /// It could not be connected again.
    RemoteAway {
        /// Its address.
        remote: String,
        /// Why.
        why: String,
        /// The next try comes after so many milliseconds.
        again_ms: u64,
    },
    /// It is connected again.
    RemoteBack {
        /// Its address.
        remote: String,
        /// Commands of which it was unknown whether they were done.
        in_doubt: u32,
        /// Those that failed.
        failed: usize,
    },
    /// It is not trusted any more.
    RemoteGone {
        /// Its address.
        remote: String,
        /// Why.
        why: String,
    },
    /// A file that is served as a drive does not do what it should.
    FileFailed {
        /// Where it is.
        file: String,
        /// Why.
        why: String,
    },
    /// Requests are recorded no more.
    RecordFailed {
        /// Why.
        why: String,
    },
    /// The server is being stopped.
    Stopping {
        /// By what, in a word.
        reason: &'static str,
        /// Connections that are open.
        connections: usize,
    },
    /// A drive could not be flushed at the end.
    FlushFailed {
        /// Its name.
        drive: String,
        /// What it answered.
        status: Status,
    },
    /// A cache has written everything back and is out of use.
    CacheDetached {
        /// The drive.
        drive: String,
    },
    /// The layers of a drive could not be stopped in order.
    StopFailed {
        /// Its name.
        drive: String,
        /// Why.
        why: String,
    },
    /// The server has stopped.
    Stopped,
}

/// What a drive is, at the start of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveFacts {
    /// The namespace's name.
    pub name: String,
    /// The preset, file or remote address that it comes from.
    pub from: String,
    /// Its interface.
    pub kind: &'static str,
    /// Its size.
    pub capacity_bytes: u64,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Where its data are.
    pub store: String,
    /// What it has after a power cut.
    pub keeps: Keeps,
    /// How its time goes.
    pub time: Time,
}

/// How a drive is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By a client that takes this.
    Uri(String),
    /// By typing this.
    Command(String),
}

/// The user of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// A connection.
    Connection(ConnectionId),
    /// The kernel of this machine, by this block device.
    Device(String),
}

/// What broke a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// This connection of the control socket.
    Control(ConnectionId),
    /// A plan, when the drive had had so many operations.
    Plan {
        /// As it was written.
        text: String,
        /// Operations.
        operations: u64,
    },
    /// A program that has the drives in its hands.
    Owner,
}

/// What the kernel does for a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UblkStep {
    /// Starting that of this namespace.
    Start {
        /// The namespace.
        drive: String,
    },
    /// Stopping one.
    Stop,
    /// Deleting that of this namespace.
    Delete {
        /// The namespace.
        drive: String,
    },
}

/// A value of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Without blanks and quotes.
    Word(String),
    /// Anything.
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

/// The names and values of an event, in order.
pub type Fields = Vec<(&'static str, Value)>;

fn word(name: &'static str, value: impl Display) -> (&'static str, Value) {
    (name, Value::Word(value.to_string()))
}

fn text(name: &'static str, value: impl Display) -> (&'static str, Value) {
    (name, Value::Text(value.to_string()))
}

const KEEPS_NOTHING: &str = "durability = volatile: hosts are told of no flush and no forced writes; \
                             a power cut and a restart may undo whatever was written";
const AS_MEDIA_ARE: &str =
    "a drive in service starts as its media are; an image by pellucid age, served instead, is preconditioned";

impl Event {
    /// The word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Drive(_) => "drive",
            Event::NotPreconditioned { .. } => "not-preconditioned",
            Event::Reachable { .. } => "reachable",
            Event::Store { .. } => "store",
            Event::StoreNotice { notice: StoreNotice::Damaged { .. }, .. } => "store-damaged",
            Event::StoreNotice { notice: StoreNotice::Refused { .. }, .. } => "store-refused",
            Event::StoreNotice { notice: StoreNotice::CutOff { .. }, .. } => "store-cut-off",
            Event::StoreNotice { notice: StoreNotice::Recovered { .. }, .. } => "store-recovered",
            Event::StoreNotice { notice: StoreNotice::Blank { .. }, .. } => "store-blank",
            Event::StoreNotice { notice: StoreNotice::Exposed { .. }, .. } => "store-exposed",
            Event::Mounted { .. } | Event::LayerMounted { .. } => "mounted",
            Event::CacheStarted { .. } => "cache-started",
            Event::MountFailed { .. } => "mount-failed",
            Event::PromisesNothing { .. } => "promises-nothing",
            Event::Listening { .. } => "listening",
            Event::AcceptFailed { .. } => "accept-failed",
            Event::AcceptingAgain { .. } => "accepting-again",
            Event::TurnedAway { .. } => "turned-away",
            Event::Connected { .. } => "connected",
            Event::Closed { .. } => "closed",
            Event::NotLogged { .. } => "not-logged",
            Event::Attached { .. } => "attached",
            Event::Detached { .. } => "detached",
            Event::UblkFailed { step: UblkStep::Start { .. }, .. } => "ublk-start-failed",
            Event::UblkFailed { step: UblkStep::Stop, .. } => "ublk-stop-failed",
            Event::UblkFailed { step: UblkStep::Delete { .. }, .. } => "ublk-delete-failed",
            Event::TargetReady { .. } => "target-ready",
            Event::TargetGone { .. } => "target-gone",
            Event::Fault { .. } => "fault",
            Event::PowerCut { .. } => "power-cut",
            Event::RemoteLost { .. } => "remote-lost",
            Event::RemoteAway { .. } => "remote-away",
            Event::RemoteBack { .. } => "remote-back",
            Event::RemoteGone { .. } => "remote-gone",
            Event::FileFailed { .. } => "file-failed",
            Event::RecordFailed { .. } => "record-failed",
            Event::Stopping { .. } => "stopping",
            Event::FlushFailed { .. } => "flush-failed",
            Event::StopFailed { .. } => "stop-failed",
            Event::CacheDetached { .. } => "cache-detached",
            Event::Stopped => "stopped",
        }
    }

    /// What belongs to it.
    pub fn fields(&self) -> Fields {
        match self {
            Event::Drive(facts) => facts.fields(),
            Event::NotPreconditioned { drive } => vec![text("drive", drive), text("why", AS_MEDIA_ARE)],
            Event::Reachable { drive, protocol, how } => vec![
                text("drive", drive),
                word("protocol", protocol),
                match how {
                    Reach::Uri(uri) => text("uri", uri),
                    Reach::Command(command) => text("command", command),
                },
            ],
            Event::Store { drive, extent: Extent { memory_max, reserved, file_max } } => {
                let mut fields = vec![text("drive", drive), word("memory_max_bytes", memory_max)];
                if *file_max > 0 {
                    fields.push(word("file_max_bytes", file_max));
                    fields.push(word("file_reserved_bytes", reserved));
                }
                fields
            }
            Event::StoreNotice { drive, notice } => vec![text("drive", drive), text("why", notice)],
            Event::Mounted { drive, report } => {
                let mut fields = mounted(drive, report);
                fields.push(word("headers", report.header_reads));
                fields
            }
            Event::LayerMounted { drive, figures } => {
                let figures = figures.iter().map(|figure| word(figure.name, figure.value));
                std::iter::once(text("drive", drive)).chain(figures).collect()
            }
            Event::CacheDetached { drive } => vec![text("drive", drive)],
            Event::MountFailed { drive, why } | Event::StopFailed { drive, why } => {
                vec![text("drive", drive), text("why", why)]
            }
            Event::PromisesNothing { namespace } => {
                vec![text("namespace", namespace), text("why", KEEPS_NOTHING)]
            }
            Event::Listening { protocol, address, uri } => {
                let mut fields = vec![word("protocol", protocol), text("address", address)];
                fields.extend(uri.as_ref().map(|uri| text("uri", uri)));
                fields
            }
            Event::AcceptFailed { protocol, error } => vec![word("protocol", protocol), text("error", error)],
            Event::AcceptingAgain { protocol } => vec![word("protocol", protocol)],
            Event::TurnedAway { peer, why } => vec![text("peer", peer), text("why", why)],
            Event::Connected { connection, protocol, peer } => {
                vec![word("connection", connection), word("protocol", protocol), text("peer", peer)]
            }
            Event::CacheStarted { cache, items } => vec![text("cache", cache), word("items", items)],
            Event::NotLogged { events } => vec![word("events", events)],
            Event::Closed { connection, peer, why } => {
                vec![word("connection", connection), text("peer", peer), text("why", why)]
            }
            Event::Attached { by, drive } | Event::Detached { by, drive } => match by {
                User::Connection(connection) => vec![word("connection", connection), text("drive", drive)],
                User::Device(device) => vec![text("drive", drive), text("device", device)],
            },
            Event::UblkFailed { step, error } => match step {
                UblkStep::Start { drive } | UblkStep::Delete { drive } => {
                    vec![text("drive", drive), text("error", error)]
                }
                UblkStep::Stop => vec![text("error", error)],
            },
            Event::TargetReady { target, error } | Event::TargetGone { target, error } => {
                let mut fields = vec![text("target", target)];
                fields.extend(error.as_ref().map(|error| text("error", error)));
                fields
            }
            Event::Fault { drive, fault, by, read_only, error } => {
                let mut fields = vec![text("drive", drive)];
                fields.extend(by.fields(fault));
                fields.extend(read_only.map(|read_only| word("read_only", read_only)));
                fields.extend(error.as_ref().map(|error| text("error", error)));
                fields
            }
            Event::PowerCut { drive, commands_lost, by } => {
                let mut fields = vec![text("drive", drive), word("commands_lost", commands_lost)];
                fields.extend(by.fields("power-cut"));
                fields
            }
            Event::RemoteLost { remote, why, outstanding } => {
                vec![text("remote", remote), text("why", why), word("outstanding", outstanding)]
            }
            Event::RemoteAway { remote, why, again_ms } => {
                vec![text("remote", remote), text("why", why), word("again_ms", again_ms)]
            }
            Event::RemoteBack { remote, in_doubt, failed } => {
                vec![text("remote", remote), word("in_doubt", in_doubt), word("failed", failed)]
            }
            Event::RemoteGone { remote, why } => vec![text("remote", remote), text("why", why)],
            Event::FileFailed { file, why } => vec![text("file", file), text("why", why)],
            Event::RecordFailed { why } => vec![text("why", why)],
            Event::Stopping { reason, connections } => {
                vec![word("reason", reason), word("connections", connections)]
            }
            Event::FlushFailed { drive, status } => {
                vec![text("drive", drive), word("status", format_args!("{status:?}"))]
            }
            Event::Stopped => Vec::new(),
        }
    }
}

fn mounted(drive: &str, report: &MountReport) -> Fields {
    vec![
        text("drive", drive),
        word("segments", report.map_page_reads),
        word("replayed", report.replay_reads),
        word("mapped", report.mapped_units),
        word("lost", report.lost_units),
    ]
}

impl By {
    /// What was done, and by whom.
    fn fields(&self, fault: &str) -> Fields {
        match self {
            By::Control(connection) => vec![text("fault", fault), word("connection", connection)],
            By::Plan { text: plan, operations } => vec![text("fault", plan), word("operations", operations)],
            By::Owner => Vec::new(),
        }
    }
}

impl DriveFacts {
    fn fields(&self) -> Fields {
        let time = match self.time {
            Time::Instant => "instant".to_owned(),
            Time::Paced { dilation: 1.0 } => "paced".to_owned(),
            Time::Paced { dilation } => format!("x{dilation}"),
        };
        vec![
            text("drive", &self.name),
            text("from", &self.from),
            word("kind", self.kind),
            word("capacity_bytes", self.capacity_bytes),
            word("sector_bytes", self.sector_bytes),
            text("store", &self.store),
            word("keeps", self.keeps.name()),
            word("time_mode", time),
        ]
    }
}

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
        let cut = Event::PowerCut { drive: "one".into(), commands_lost: 3, by };
        assert_eq!(
            cut.to_string(),
            r#"event=power-cut drive="one" commands_lost=3 fault="power-cut@2s" operations=5"#
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
