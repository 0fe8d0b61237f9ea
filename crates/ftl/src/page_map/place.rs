//! Which die and block take the next stripe of a stream.
//!
//! ```text
//!  stream ─► shared with others? ─► die: the next in the order of placement that can take it ─► its open block, or a free one
//! ```
//! Invariant: the last free blocks of a die are kept for what collection and map segments need, so that room can always be made.

use super::{OpenBlock, PageMap};
use crate::translation::Stream;
use crate::{Durability, Isolation, Placement, Separation};
use pellucid_flash::{BlockId, DieId, Layout, Ppa};

impl PageMap {
    pub(crate) fn shared(&self, stream: Stream) -> Stream {
        match (self.config.separation, stream) {
            (Separation::Off, Stream::Collected | Stream::HostCold) => Stream::Host,
            (Separation::Off, Stream::PlacedCollected(handle)) => Stream::Placed(handle),
            (Separation::Collected, Stream::HostCold) => Stream::Host,
            (_, Stream::MetaMoved) => Stream::Meta,
            _ => stream,
        }
    }

    #[inline]
    pub(super) fn open_at(&self, die: DieId, stream: Stream) -> usize {
        die.0 as usize * self.places + stream.place()
    }

    #[inline]
    pub(crate) fn open_block(&self, die: DieId, stream: Stream) -> Option<OpenBlock> {
        self.open[self.open_at(die, stream)]
    }

    /// Whose open block in `die` data of `stream` go to. Relocated data without a block of their own go to the host's when
    /// no block is free, as collection must come to an end.
    #[inline]
    pub(super) fn slot(&self, die: DieId, stream: Stream) -> Stream {
        let shared = self.shared(stream);
        let last_resort = stream.is_relocation()
            && shared != Stream::Meta
            && self.open_block(die, shared).is_none()
            && self.blocks.free_count(die) == 0;
        if last_resort { self.last_resort(die, shared) } else { shared }
    }

    /// An open block that relocated data may use when there is no other: of their own handle where handles are kept apart.
    #[cold]
    fn last_resort(&self, die: DieId, shared: Stream) -> Stream {
        let apart = self.config.isolation == Isolation::Persistent;
        let is_open = |s: &Stream| self.open_block(die, *s).is_some();
        if let (Stream::PlacedCollected(handle), _) | (Stream::Placed(handle), true) = (shared, apart) {
            return Some(Stream::Placed(handle)).filter(is_open).unwrap_or(shared);
        }
        let placed = (1..self.config.handles).filter(|_| !apart).map(Stream::Placed);
        let others = [Stream::Collected, Stream::Host, Stream::HostCold].into_iter().chain(placed);
        others.into_iter().find(is_open).unwrap_or(shared)
    }

    /// Whether `die` can take a stripe of `stream` now, and if so, whose open block it goes to. The last free block of a die is
    /// kept for relocation; while it is in use by a shared open block, only relocation may write there.
    #[inline]
    pub(super) fn room(&self, die: DieId, stream: Stream) -> Option<Stream> {
        let free = self.blocks.free_count(die);
        let off = self.config.separation == Separation::Off;
        // The most frequent answer of a full drive: what host data share with relocation has no free block behind it.
        if free == 0 && off && matches!(stream, Stream::Host | Stream::HostCold | Stream::Placed(_)) {
            return None;
        }
        let shared = self.slot(die, stream);
        self.takes(die, stream, shared, free).then_some(shared)
    }

    /// Whether `die`, with `free` free blocks, can take a stripe of `stream` into the open block of `shared`.
    #[inline]
    fn takes(&self, die: DieId, stream: Stream, shared: Stream, free: u32) -> bool {
        let relocation = stream.is_relocation();
        if self.outpaced(die, shared) && !relocation && shared != Stream::Meta {
            return false;
        }
        let mixed =
            self.config.separation == Separation::Off && matches!(shared, Stream::Host | Stream::Placed(_));
        match self.open_block(die, shared) {
            Some(_) if relocation || !mixed => true,
            Some(_) => free >= self.reserve(die) + self.cut_reserve && self.segments_have_room(),
            None if relocation => free > 0,
            None if shared == Stream::Meta => free > self.reserve(die),
            None => {
                free > self.reserve(die) + self.cut_reserve
                    && self.blocks.free_total() > self.live_dies + self.meta_reserve()
            }
        }
    }

    /// Whether the next map segment needs a free block.
    pub(crate) fn segments_need_block(&self) -> bool {
        let none_open =
            || (0..self.layout.dies).all(|die| self.open_block(DieId(die), Stream::Meta).is_none());
        self.config.durability != Durability::Volatile && none_open()
    }

    /// Whether a map segment finds room without what the dies need to collect. Erases may wait for one, so that host data
    /// must not use up the open block of collection before.
    fn segments_have_room(&self) -> bool {
        self.config.durability == Durability::Volatile
            || self.blocks.free_total() > self.live_dies
            || (0..self.layout.dies).any(|die| {
                let left = |open: OpenBlock| self.layout.stripes_per_block - open.stripe;
                self.open_block(DieId(die), Stream::Meta)
                    .is_some_and(|open| left(open) >= self.meta_stripes())
            })
    }

    /// Stripes that an open block of map segments must have left to count as room: the erases that give the next block back wait for
    /// segments themselves.
    fn meta_stripes(&self) -> u32 {
        (self.layout.stripes_per_block / 4).max(1)
    }

    /// Blocks of the drive, beside one in each die, that host data leave free: collection may wait for a map segment.
    pub(crate) fn meta_reserve(&self) -> u32 {
        u32::from(self.config.durability != Durability::Volatile)
    }

    /// As [`PageMap::room`], for data that another die's full blocks have to leave, without touching what this one needs to
    /// collect.
    fn guest_room(&self, die: DieId, stream: Stream) -> Option<Stream> {
        let shared = self.slot(die, stream);
        let open = self.open_block(die, shared).is_some();
        (self.blocks.free_count(die) >= self.reserve(die) + u32::from(!open)).then_some(shared)
    }

    /// Where data go that have to leave the full blocks of another die.
    pub(super) fn choose_die_for_guest(&mut self, stream: Stream) -> Option<(DieId, Stream)> {
        let last = |map: &PageMap, die: DieId| {
            let shared = map.slot(die, stream);
            let open = map.open_block(die, shared).is_some();
            (map.blocks.free_count(die) > u32::from(!open)).then_some(shared)
        };
        self.choose_die(|map, die| map.guest_room(die, stream)).or_else(|| self.choose_die(last))
    }

    /// Where map segments go that garbage collection waits for: they leave each die its reserve, if they can.
    pub(super) fn choose_die_for_segments(&mut self) -> Option<(DieId, Stream)> {
        let unclaimed = |map: &PageMap, die: DieId| {
            let claimed = map.outgoing(die).len() as u32;
            map.room(die, Stream::MetaMoved).filter(|_| map.blocks.free_count(die) > claimed)
        };
        self.choose_die(|map, die| map.room(die, Stream::Meta))
            .or_else(|| self.choose_die(unclaimed))
            .or_else(|| self.choose_die(|map, die| map.room(die, Stream::MetaMoved)))
    }

    /// Whether relocated data of `stream` can go to `die` now.
    pub fn has_room(&self, die: DieId, stream: Stream) -> bool {
        self.room(die, stream).is_some()
    }

    /// The next die in the order of placement that has room, and what `room` says of it.
    #[inline]
    pub(super) fn choose_die(
        &mut self,
        room: impl Fn(&PageMap, DieId) -> Option<Stream>,
    ) -> Option<(DieId, Stream)> {
        if self.config.placement == Placement::Random {
            self.cursor = self.rng.below(self.order.len() as u64) as usize;
        }
        for _ in 0..self.order.len() {
            let die = self.order[self.cursor];
            self.cursor = if self.cursor + 1 == self.order.len() { 0 } else { self.cursor + 1 };
            if let Some(shared) = room(self, die) {
                return Some((die, shared));
            }
            self.turned_away(die);
        }
        None
    }

    /// As [`PageMap::choose_die`], for [`Stream::Host`]: dies without room are not asked again before they may have some.
    #[inline]
    pub(super) fn choose_die_for_host(&mut self) -> Option<(DieId, Stream)> {
        self.full.bring_to((self.blocks.changes(), self.live_dies));
        if self.config.placement == Placement::Random {
            self.cursor = self.rng.below(self.order.len() as u64) as usize;
        }
        while let Some(at) = self.full.next_unknown(self.cursor) {
            let die = self.order[at];
            if let Some(shared) = self.room(die, Stream::Host) {
                self.cursor = if at + 1 == self.order.len() { 0 } else { at + 1 };
                return Some((die, shared));
            }
            self.full.note(at);
            self.turned_away(die);
        }
        None
    }

    /// Panics where a die has room that is said to have none.
    pub(super) fn check_full(&self) {
        if self.full.is_of((self.blocks.changes(), self.live_dies)) {
            for (at, &die) in self.order.iter().enumerate().filter(|&(at, _)| self.full.knows(at)) {
                assert_eq!(
                    self.room(die, Stream::Host),
                    None,
                    "die {}, at {at} of the order, has room",
                    die.0
                );
            }
        }
    }

    /// The next stripe of the open block of `shared`, for data of `stream`.
    #[inline]
    pub(super) fn take_stripe(&mut self, die: DieId, stream: Stream, shared: Stream) -> (Ppa, BlockId) {
        let at = self.open_at(die, shared);
        let OpenBlock { block, stripe } = match self.open[at] {
            Some(open) => open,
            None => {
                let taken = match shared {
                    Stream::Cached => self.blocks.take_cache(die),
                    _ => self.blocks.take(die, stream == Stream::Worn),
                };
                let block = taken.expect("there is room");
                self.blocks.set_kind(block, shared == Stream::Meta, shared.owner());
                OpenBlock { block, stripe: 0 }
            }
        };
        let last = stripe + 1 == self.stripes_of(block);
        self.open[at] = (!last).then_some(OpenBlock { block, stripe: stripe + 1 });
        self.blocks.planned(block, last);
        (self.layout.ppa(block, stripe * self.layout.units_per_stripe), block)
    }
}

pub(super) fn placement_order(placement: Placement, layout: &Layout) -> Vec<DieId> {
    let (channels, per_channel) = (layout.channels, layout.dies_per_channel);
    match placement {
        Placement::ChannelFirst => (0..per_channel)
            .flat_map(|way| (0..channels).map(move |channel| DieId(channel * per_channel + way)))
            .collect(),
        Placement::WayFirst | Placement::Random => (0..layout.dies).map(DieId).collect(),
    }
}
