//! Requests of a session to its server, whatever is served.
//!
//! ```text
//!  Session ─► Port ─► Service ─┬─ Drives   NBD, NVMe/TCP
//!                              └─ Items    memcached
//! ```
//! The control socket needs only a [`Service`].

use crate::connection::{ConnectionId, Route};
use crate::hub::Hub;
use crate::operation::{Namespace, Operation};
use crate::request::Request;
use pellucid_device::Device;
use pellucid_flash::{ChunkInfo, Completion, Held, Lba, Notice};
use pellucid_ftl::MountReport;
use pellucid_kv::{Key, What};
use serde_json::Value;

/// Answer that the sessions of a service receive.
pub type Answer<S> = <S as Service>::Answer;

/// Common part of every service, whatever it serves.
pub trait Base {
    /// State that its connections share.
    fn hub(&self) -> &Hub;

    /// Mutable access to the shared state.
    fn hub_mut(&mut self) -> &mut Hub;

    /// Wall time in nanoseconds since the start.
    fn now_ns(&self) -> u64;

    /// Bytes of data of the requests that are not answered.
    fn bytes_inside(&self) -> usize;
}

/// A service as its sessions see it.
pub trait Service {
    /// Answer to a request of a session.
    type Answer;

    /// Common part of every service.
    fn base(&self) -> &dyn Base;

    /// Mutable access to the common part.
    fn base_mut(&mut self) -> &mut dyn Base;

    /// Drops an answer whose connection is gone, and keeps its buffers for reuse.
    fn discard(&mut self, answer: Self::Answer);

    /// Answers a request on the control socket; `None`: [`Service::outcome`] has the answer later.
    ///
    /// # Errors
    /// Returns one sentence if it cannot be done.
    fn control(&mut self, by: ConnectionId, request: Request) -> Result<Option<Value>, String>;

    /// Returns a pending answer of [`Service::control`], once it is known.
    fn outcome(&mut self, _by: ConnectionId) -> Option<Result<(), String>> {
        None
    }

    /// Fills `bytes` from the system's source of randomness for keys; returns false if it has none.
    fn draw_random(&mut self, bytes: &mut [u8]) -> bool;

    /// State that its connections share.
    #[inline]
    fn hub(&self) -> &Hub {
        self.base().hub()
    }

    /// Mutable access to the shared state.
    #[inline]
    fn hub_mut(&mut self) -> &mut Hub {
        self.base_mut().hub_mut()
    }

    /// Wall time in nanoseconds since the start.
    #[inline]
    fn now_ns(&self) -> u64 {
        self.base().now_ns()
    }

    /// Bytes of data being received, in backends, or to be sent.
    #[inline]
    fn bytes_held(&self) -> usize {
        self.base().hub().bytes() + self.base().bytes_inside()
    }
}

/// State of a drive after a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutReport {
    /// Findings of its mount.
    pub mount: MountReport,
    /// Sectors whose newest acknowledged data only layers of the host held; what they held before is back.
    pub undone_host_sectors: u64,
}

/// Drives, by their namespaces. A namespace that does not exist is a panic.
pub trait Drives: Service<Answer = Completion> {
    /// The namespaces, in the order of their numbers.
    fn namespaces(&self) -> &[Namespace];

    /// Submits an operation to a drive.
    fn submit(&mut self, namespace: usize, route: Route, operation: Operation);

    /// Notes that a connection uses a namespace: until it is gone, a target is not removed.
    fn attach_to(&mut self, connection: ConnectionId, namespace: usize);

    /// Number of changes to the set of targets so far.
    fn target_changes(&self) -> u64;

    /// Reports `count` chunks of an open-channel namespace from number `first` on; empty for a remote drive.
    fn chunk_infos(&self, namespace: usize, first: u32, count: u32) -> Vec<ChunkInfo>;

    /// Unacknowledged moves of a nameless namespace, old name and new name; empty for a remote drive.
    fn moves(&self, namespace: usize) -> Vec<(Lba, Lba)>;

    /// Returns the next unsolicited notice of one of these namespaces, with the namespace.
    fn pop_notice(&mut self, namespaces: &[usize]) -> Option<(usize, Notice)>;

    /// The drive behind a namespace, with counters, wear and configuration; `None` if it is remote or a file.
    fn device(&self, namespace: usize) -> Option<&Device>;

    /// Mutable access to the drive behind a namespace; `None` if it is remote or a file.
    fn device_mut(&mut self, namespace: usize) -> Option<&mut Device>;

    /// Has the firmware of the drive behind a namespace handle an admin command, which takes processor time; does nothing if the drive
    /// is remote or a file.
    fn handle_admin(&mut self, namespace: usize);

    /// Returns true if a namespace takes no writes.
    fn is_read_only(&self, namespace: usize) -> bool;

    /// Reports whether the mapping unit of `lba` holds data on the media or in the buffer, and up to which of
    /// `sectors` the answer is equal. About `looks_max` lookups limit the search; the answer covers at least
    /// `lba`.
    fn held(&self, namespace: usize, lba: Lba, sectors: u64, looks_max: u64) -> Held;

    /// Cuts the power of the drive behind a namespace and restores it. Its operations, of all connections,
    /// end with [`pellucid_flash::Status::PowerLoss`].
    ///
    /// # Errors
    /// Fails if the drive cannot be mounted again, or is remote.
    fn power_cut(&mut self, namespace: usize) -> Result<CutReport, String>;
}

/// The items of a key-value cache.
pub trait Items: Service<Answer = pellucid_kv::Answer> {
    /// Largest accepted value, in bytes.
    fn item_max_bytes(&self) -> u32;

    /// Upper bound of the length of a key's value now; pending requests may change it.
    fn value_bytes_max(&self, key: &Key) -> usize;

    /// Reads the clock, which [`Items::now_s`] shows; returns [`Service::now_ns`].
    fn look_at_clock(&mut self) -> u64;

    /// Current second of the clock that expiry uses.
    fn now_s(&self) -> u32;

    /// Provides an empty buffer for a value.
    fn buffer(&mut self) -> Vec<u8>;

    /// Takes back the buffer of a value.
    fn give_back(&mut self, buffer: Vec<u8>);

    /// Submits a request with `bytes` of data.
    fn ask(&mut self, route: Route, key: Key, what: What, bytes: usize);

    /// Counts a request by its outcome.
    fn count(&mut self, kind: crate::memcached::Kind, outcome: &pellucid_kv::Outcome);

    /// Counts an answered request and takes its buffer back.
    fn ended(&mut self, ended: crate::memcached::Ended);

    /// The lines that answer `stats`; `what` holds the arguments behind it.
    fn statistics(&mut self, what: &[u8]) -> Vec<u8>;
}
