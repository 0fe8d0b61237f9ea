//! The port: the only interface through which software above the line uses a drive.
//!
//! A drive in process, a drive behind a socket, and a layer above another drive (such as host translation) all have this
//! interface, so layers can be stacked. The order of calls is that of every sans-io machine here: `submit` and `advance`
//! move time forward, `pop` returns completions, `next_event` gives the time of the next call.

use crate::{
    CacheGeometry, ChunkGeometry, Command, Completion, NamelessGeometry, Notice, SimTime, ZoneGeometry,
};

/// Kind of a namespace, with its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Sectors that can be written in any order.
    Block {
        /// Size in sectors.
        sectors: u64,
        /// Placement handles; 1 where data placement is not offered.
        handles: u16,
    },
    /// Zones.
    Zoned(ZoneGeometry),
    /// Chunks.
    OpenChannel(ChunkGeometry),
    /// A cache of a larger backing store.
    Cache(CacheGeometry),
    /// Sectors named by their position, and virtual ones.
    Nameless(NamelessGeometry),
}

impl Interface {
    /// Its name in descriptions and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Interface::Block { .. } => "block",
            Interface::Zoned(_) => "zoned",
            Interface::OpenChannel(_) => "open-channel",
            Interface::Cache(_) => "cache",
            Interface::Nameless(_) => "nameless",
        }
    }

    /// Placement handles; 1 where there is no placement.
    #[inline]
    pub fn handles(&self) -> u16 {
        match self {
            Interface::Block { handles, .. } => *handles,
            _ => 1,
        }
    }

    /// Sectors that a host can name; of chunks, those of the sparse address space.
    pub fn address_sectors(&self) -> u64 {
        match self {
            Interface::Block { sectors, .. } => *sectors,
            Interface::Zoned(zones) => u64::from(zones.zones) * zones.zone_sectors,
            Interface::OpenChannel(chunks) => chunks.address_space_sectors(),
            Interface::Cache(cache) => cache.address_sectors,
            Interface::Nameless(nameless) => nameless.virtual_sectors,
        }
    }

    /// Sectors that can hold data.
    pub fn capacity_sectors(&self) -> u64 {
        match self {
            Interface::Block { sectors, .. } => *sectors,
            Interface::Zoned(zones) => u64::from(zones.zones) * zones.capacity_sectors,
            Interface::OpenChannel(chunks) => {
                let all = u64::from(chunks.parallel_units()) * u64::from(chunks.chunks);
                all * u64::from(chunks.chunk_sectors)
            }
            Interface::Cache(cache) => cache.units * u64::from(cache.unit_sectors),
            Interface::Nameless(nameless) => nameless.capacity_sectors + nameless.virtual_sectors,
        }
    }
}

/// Answer to whether data are held at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Data are held.
    pub holds: bool,
    /// End of the range known to have the same answer; sectors beyond it may also have it.
    pub until: u64,
    /// Entries that were looked at for the answer.
    pub looks: u64,
}

/// A drive as its host sees it.
pub trait Drive {
    /// Namespaces, numbered from 0. A number below this may have none; see [`Drive::interface`].
    fn namespaces(&self) -> u16;

    /// Returns the interface of `namespace`; `None` if there is no such namespace.
    fn interface(&self, namespace: u16) -> Option<Interface>;

    /// Bytes of a sector image: the size of a sector, or 4 if the drive stores stamps instead of
    /// data.
    fn image_bytes(&self) -> usize;

    /// Hands a command over at `now`, not before the last `advance`. It ends with one completion, whatever becomes of it.
    fn submit(&mut self, now: SimTime, command: Command);

    /// Runs everything that is due by `now`.
    fn advance(&mut self, now: SimTime);

    /// Acts like [`Drive::advance`], then continues from event to event up to `limit` until a completion waits for [`Drive::pop`] or a further
    /// [notice](Drive::notices) comes, so that the host learns of both in their order. Returns the time reached. For callers that have nothing
    /// to submit before the next completion; a drive may also always stop at `now`.
    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        let _ = limit;
        self.advance(now);
        now
    }

    /// When something happens next by itself; `None` at rest.
    fn next_event(&self) -> Option<SimTime>;

    /// The next completion.
    fn pop(&mut self) -> Option<Completion>;

    /// Commands that have not ended.
    fn outstanding(&self) -> usize;

    /// Completions that wait for [`Drive::pop`].
    fn completed(&self) -> usize;

    /// Notices that wait for [`Drive::pop_notice`].
    fn notices(&self) -> usize {
        0
    }

    /// The next thing that a namespace tells without being asked, with its number.
    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        None
    }
}

/// A drive that is lent.
impl<D: Drive + ?Sized> Drive for &mut D {
    fn namespaces(&self) -> u16 {
        (**self).namespaces()
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (**self).interface(namespace)
    }

    fn image_bytes(&self) -> usize {
        (**self).image_bytes()
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        (**self).submit(now, command);
    }

    fn advance(&mut self, now: SimTime) {
        (**self).advance(now);
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        (**self).advance_to_completion(now, limit)
    }

    fn next_event(&self) -> Option<SimTime> {
        (**self).next_event()
    }

    fn pop(&mut self) -> Option<Completion> {
        (**self).pop()
    }

    fn outstanding(&self) -> usize {
        (**self).outstanding()
    }

    fn completed(&self) -> usize {
        (**self).completed()
    }

    fn notices(&self) -> usize {
        (**self).notices()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        (**self).pop_notice()
    }
}
