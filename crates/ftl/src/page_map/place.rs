//! Choice of the die and block that take the next superpage of a stream.
//!
//! ```text
//!  stream ─► shared with others? ─► die: the next in the order of placement that can take it ─► its open block, or a free one
//! ```
//! Invariant: the last free blocks of a die are kept for GC and translation pages, so that space can always be made.

use super::PageMap;
use super::full::FullDies;
use crate::block_manager::{BlockKind, OpenBlock};
use crate::policy::Forked;
use crate::translation::Stream;
use crate::{DieCandidate, Durability, FtlConfig, Isolation, Placement, PlacementPolicy, Separation};
use pellucid_flash::{BlockId, DieId, Layout, Lpn, Ppa};

/// Order in which dies take superpages, and the die whose turn it is.
#[derive(Clone, Debug)]
pub(super) struct Order {
    dies: Vec<DieId>,
    cursor: usize,
    full: FullDies,
    /// The placement from outside.
    outside: Option<Forked<dyn PlacementPolicy>>,
    /// Host data bypass the SLC cache.
    pub(super) past_cache: bool,
}

impl Order {
    pub fn new(config: &FtlConfig, layout: &Layout) -> Order {
        let dies = placement_order(config.placement, layout);
        let outside = Forked::<dyn PlacementPolicy>::of(&config.policies.placement);
        Order { full: FullDies::new(dies.len()), dies, cursor: 0, outside, past_cache: false }
    }

    /// The die whose turn it is.
    #[inline]
    pub fn next(&mut self) -> DieId {
        let die = self.dies[self.cursor];
        self.go_on_behind(self.cursor);
        die
    }

    /// Gives the turn to the die of this page's address.
    #[inline]
    pub fn turn_to(&mut self, lpn: Lpn) {
        self.cursor = lpn.0 as usize % self.dies.len();
    }

    #[inline]
    fn go_on_behind(&mut self, at: usize) {
        self.cursor = if at + 1 == self.dies.len() { 0 } else { at + 1 };
    }

    pub fn count(&self) -> usize {
        self.dies.len()
    }
}

impl FtlConfig {
    /// The stream whose open blocks `stream` uses.
    #[inline]
    pub(crate) fn shared(&self, stream: Stream) -> Stream {
        let together = self.separation == Separation::Off;
        match stream {
            Stream::Gc if together => Stream::Host,
            Stream::PlacedGc(handle) if together => Stream::Placed(handle),
            Stream::HostCold if self.separation != Separation::Frequency => Stream::Host,
            Stream::MetaMoved => Stream::Meta,
            _ => stream,
        }
    }
}

impl PageMap {
    #[inline]
    pub(crate) fn open_block(&self, die: DieId, stream: Stream) -> Option<OpenBlock> {
        self.blocks.open_block(die, stream.place())
    }

    /// The stream whose open block in `die` takes data of `stream`, and whether it has one. GC copies without a block of their own go to the
    /// host's when no block is free, as GC must come to an end.
    #[inline]
    pub(super) fn slot(&self, die: DieId, stream: Stream) -> (Stream, bool) {
        let shared = self.config.shared(stream);
        let open = self.open_block(die, shared).is_some();
        if !open && stream.is_gc_copy() && shared != Stream::Meta && self.blocks.free_count(die) == 0 {
            let other = self.last_resort(die, shared);
            return (other, self.open_block(die, other).is_some());
        }
        (shared, open)
    }

    /// An open block that GC copies may use when there is no other: of their own handle where handles are kept apart.
    #[cold]
    fn last_resort(&self, die: DieId, shared: Stream) -> Stream {
        let apart = self.config.isolation == Isolation::Persistent;
        let is_open = |s: &Stream| self.open_block(die, *s).is_some();
        if let (Stream::PlacedGc(handle), _) | (Stream::Placed(handle), true) = (shared, apart) {
            return Some(Stream::Placed(handle)).filter(is_open).unwrap_or(shared);
        }
        let placed = (1..self.config.handles).filter(|_| !apart).map(Stream::Placed);
        let others = [Stream::Gc, Stream::Host, Stream::HostCold].into_iter().chain(placed);
        others.into_iter().find(is_open).unwrap_or(shared)
    }

    /// Returns the stream whose open block can take a superpage of `stream` in `die` now; `None`: no space. The last free block of a die
    /// is kept for GC copies; while it is in use by a shared open block, only GC may write there.
    #[inline]
    pub(crate) fn space(&self, die: DieId, stream: Stream) -> Option<Stream> {
        let free = self.blocks.free_count(die);
        let off = self.config.separation == Separation::Off;
        // The most frequent answer of a full drive: the open block that host data share with GC copies has no free block behind it.
        if free == 0 && off && matches!(stream, Stream::Host | Stream::HostCold | Stream::Placed(_)) {
            return None;
        }
        let (shared, open) = self.slot(die, stream);
        let takes = match stream.is_gc_copy() {
            true => open || free > 0,
            false => self.takes(die, (shared, open), free),
        };
        takes.then_some(shared)
    }

    /// Returns whether `die`, with `free` free blocks, can take a superpage that is no GC copy for `shared`, which has an open block if `open`.
    #[inline]
    fn takes(&self, die: DieId, (shared, open): (Stream, bool), free: u32) -> bool {
        let of_map = shared == Stream::Meta;
        if !of_map && self.gc.outpaced(&self.blocks, die, shared) {
            return false;
        }
        let mixed =
            self.config.separation == Separation::Off && matches!(shared, Stream::Host | Stream::Placed(_));
        match open {
            true if !mixed => true,
            true => free >= self.gc.reserve(die) + self.gc.cut_reserve && self.map_has_space(),
            false if of_map => free > self.gc.reserve(die),
            false => free > self.gc.reserve(die) + self.gc.cut_reserve && self.has_blocks_to_spare(),
        }
    }

    /// Returns whether host data may take one of the free blocks of the drive: one block per die is kept. A die that copies out of a
    /// victim may be using its own block, which the victim gives back; without this reserve, dies with free blocks would wait until all
    /// others have one too. The blocks are needed only where erases may wait for translation pages.
    fn has_blocks_to_spare(&self) -> bool {
        let waits = self.config.durability != Durability::Volatile;
        let coming = if waits { 0 } else { self.gc.all_coming_back() };
        self.blocks.free_total() + coming > self.blocks.live_dies() + self.config.common_blocks()
    }

    /// Returns whether a translation page finds space beyond the GC reserve of the dies. Erases may wait for one, so host data must not
    /// use up the open block of GC first.
    fn map_has_space(&self) -> bool {
        self.config.durability == Durability::Volatile
            || self.blocks.free_total() > self.blocks.live_dies()
            || (0..self.layout.dies).any(|die| {
                let left = |open: OpenBlock| self.layout.superpages_per_block - open.superpage;
                self.open_block(DieId(die), Stream::Meta)
                    .is_some_and(|open| left(open) >= self.meta_superpages())
            })
    }

    /// Superpages that an open block of translation pages must have left to count as free space: the erases that free the next block wait
    /// for translation pages themselves.
    fn meta_superpages(&self) -> u32 {
        (self.layout.superpages_per_block / 4).max(1)
    }

    /// As [`PageMap::space`], for copies out of another die's full blocks: the GC reserve of `die` stays whole.
    fn space_beyond_reserve(&self, die: DieId, stream: Stream) -> Option<Stream> {
        let (shared, open) = self.slot(die, stream);
        (self.blocks.free_count(die) >= self.gc.reserve(die) + u32::from(!open)).then_some(shared)
    }

    /// Die and stream for copies from the full blocks of another die.
    pub(super) fn choose_die_for_foreign(&mut self, stream: Stream) -> Option<(DieId, Stream)> {
        let last = |map: &PageMap, die: DieId| {
            let (shared, open) = map.slot(die, stream);
            (map.blocks.free_count(die) > u32::from(!open)).then_some(shared)
        };
        self.choose_die(|map, die| map.space_beyond_reserve(die, stream)).or_else(|| self.choose_die(last))
    }

    /// Die and stream for translation pages that GC waits for: they leave each die its reserve, if they can.
    pub(super) fn choose_die_for_map(&mut self) -> Option<(DieId, Stream)> {
        let unclaimed = |map: &PageMap, die: DieId| {
            let claimed = map.gc.outgoing(die).len() as u32;
            map.space(die, Stream::MetaMoved).filter(|_| map.blocks.free_count(die) > claimed)
        };
        self.choose_die(|map, die| map.space(die, Stream::Meta))
            .or_else(|| self.choose_die(unclaimed))
            .or_else(|| self.choose_die(|map, die| map.space(die, Stream::MetaMoved)))
    }

    /// The next die in the order of placement that has space, and the result of `space` for it.
    #[inline]
    pub(super) fn choose_die(
        &mut self,
        space: impl Fn(&PageMap, DieId) -> Option<Stream>,
    ) -> Option<(DieId, Stream)> {
        self.shuffle();
        for _ in 0..self.placement.count() {
            let die = self.placement.next();
            if let Some(shared) = space(self, die) {
                return Some((die, shared));
            }
            self.gc.turned_away(&self.blocks, die);
        }
        None
    }

    /// Die and stream for new data of `stream`, of which `page` comes first.
    #[inline]
    pub(super) fn choose_die_for_new(&mut self, stream: Stream, page: Lpn) -> Option<(DieId, Stream)> {
        if self.placement.outside.is_some()
            && stream != Stream::Meta
            && let Some(chosen) = self.outside_die(stream, page)
        {
            return Some(chosen);
        }
        match stream {
            Stream::Host => self.choose_die_for_host(),
            _ => self.choose_die(|map, die| map.space(die, stream)),
        }
    }

    /// The choice of a placement from outside, among the dies that have space.
    #[cold]
    fn outside_die(&mut self, stream: Stream, page: Lpn) -> Option<(DieId, Stream)> {
        let mut policy = self.placement.outside.take()?;
        let (mut candidates, mut streams) = (Vec::new(), Vec::new());
        for die in (0..self.layout.dies).map(DieId) {
            match self.space(die, stream) {
                Some(shared) => {
                    candidates.push(DieCandidate {
                        die,
                        channel: die.0 / self.layout.dies_per_channel,
                        way: die.0 % self.layout.dies_per_channel,
                        free_blocks: self.blocks.free_count(die),
                    });
                    streams.push(shared);
                }
                None => self.gc.turned_away(&self.blocks, die),
            }
        }
        let chosen =
            if candidates.is_empty() { None } else { policy.choose(&candidates, page, self.sequence) };
        self.placement.outside = Some(policy);
        chosen.map(|at| (candidates[at].die, streams[at]))
    }

    /// Chooses a die, as [`PageMap::choose_die`], for [`Stream::Host`]: dies without space are not asked again before they may have some.
    #[inline]
    fn choose_die_for_host(&mut self) -> Option<(DieId, Stream)> {
        self.placement.full.bring_to((self.blocks.changes(), self.blocks.live_dies()));
        self.shuffle();
        while let Some(at) = self.placement.full.next_unknown(self.placement.cursor) {
            let die = self.placement.dies[at];
            if let Some(shared) = self.space(die, Stream::Host) {
                self.placement.go_on_behind(at);
                return Some((die, shared));
            }
            self.placement.full.note(at);
            self.gc.turned_away(&self.blocks, die);
        }
        None
    }

    #[inline]
    fn shuffle(&mut self) {
        if self.config.placement == Placement::Random {
            self.placement.cursor = self.rng.below(self.placement.count() as u64) as usize;
        }
    }

    /// Panics where a die that is recorded as full has space.
    pub(super) fn check_full(&self) {
        let Order { dies, full, .. } = &self.placement;
        if full.is_of((self.blocks.changes(), self.blocks.live_dies())) {
            for (at, &die) in dies.iter().enumerate().filter(|&(at, _)| full.knows(at)) {
                assert_eq!(
                    self.space(die, Stream::Host),
                    None,
                    "die {}, at {at} of the order, has space",
                    die.0
                );
            }
        }
    }

    /// The next superpage of the open block of `shared`, for data of `stream`.
    #[inline]
    pub(super) fn take_superpage(&mut self, die: DieId, stream: Stream, shared: Stream) -> (Ppa, BlockId) {
        let (cache, meta) = (shared == Stream::Cached, shared == Stream::Meta);
        let superpages = self.superpages_of_kind(cache, meta);
        let listed = !meta && self.config.list_superpages() > 0;
        let taken = self.blocks.take_superpage(die, shared.place(), (superpages, listed), || BlockKind {
            cache,
            most_worn: stream == Stream::Worn,
            meta,
            owner: shared.owner(),
            stream: if stream == Stream::Worn { stream } else { shared }.observed(),
        });
        if listed {
            self.note_full(taken.1);
        }
        taken
    }
}

fn placement_order(placement: Placement, layout: &Layout) -> Vec<DieId> {
    let (channels, per_channel) = (layout.channels, layout.dies_per_channel);
    match placement {
        Placement::ChannelFirst | Placement::Address => (0..per_channel)
            .flat_map(|way| (0..channels).map(move |channel| DieId(channel * per_channel + way)))
            .collect(),
        Placement::WayFirst | Placement::Random => (0..layout.dies).map(DieId).collect(),
    }
}
