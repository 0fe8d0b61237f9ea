//! What a server tells its log: every event, and how it is written.
//!
//! ```text
//!  Event ─► fields: name, value; a value is a word or a text ─► event=closed connection=7 peer="127.0.0.1:40000" why="finished"
//! ```
//! A word has no blank and no quote. A text is quoted as Rust quotes it. Other forms are made of [`Event::fields`].

mod fields;

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
    /// Connections can be accepted again.
    AcceptingAgain {
        /// Of which protocol.
        protocol: &'static str,
    },
    /// A peer was turned away.
    TurnedAway {
        /// Which.
        peer: String,
        /// Why.
        why: String,
    },
    /// A peer was admitted.
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
        /// The peer's address.
        peer: String,
        /// Why.
        why: String,
    },
    /// Connections came, went or were turned away so often that not each of them is in the log.
    NotLogged {
        /// Events of this kind.
        events: u64,
    },
    /// Lines of the log that nobody read in time, and that are lost.
    LinesDropped {
        /// So many.
        lines: u64,
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
