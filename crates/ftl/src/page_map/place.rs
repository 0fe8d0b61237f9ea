//! Choice of the die and block that take the next superpage of a stream.
//!
//! ```text
//!  stream ─► shared with others? ─► die: the next in the order of placement that can take it ─► its open block, or a free one
//! ```
//! [`Space`] says what a die can take, and changes nothing; [`Placement`] owns the turn.
//!
//! Invariants: the last free blocks of a die are kept for GC and translation pages, so that space can always be made; a die that is
//! recorded as full has no space for host data.

use super::core::{Core, Shape};
use super::full::{FullDies, Spare};
use super::table::Table;
use crate::block_manager::{BlockKind, BlockManager, BlockState, OpenBlock};
use crate::gc::Gc;
use crate::policy::Forked;
use crate::translation::Stream;
use crate::{DieCandidate, FtlConfig, Isolation, Placement as Order, PlacementPolicy, Separation};
use pellucid_flash::{BlockId, DieId, Layout, Lpn, Ppa, Rng};

/// Parts that placement works on.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    pub shape: &'a Shape,
    pub blocks: &'a mut BlockManager,
    pub gc: &'a mut Gc,
    pub rng: &'a mut Rng,
}

impl Ground<'_> {
    #[inline]
    fn space(&self) -> Space<'_> {
        Space::new(self.shape, self.blocks, self.gc)
    }

    #[inline]
    fn turned_away(&mut self, die: DieId) {
        self.gc.turned_away(self.blocks, die);
    }
}

/// Order in which dies take superpages, and the die whose turn it is.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    dies: Vec<DieId>,
    /// Place of each die in that order.
    places: Vec<u32>,
    cursor: usize,
    is_random: bool,
    is_by_address: bool,
    full: FullDies,
    /// The placement from outside.
    outside: Option<Forked<dyn PlacementPolicy>>,
}

impl Placement {
    /// Creates the order of dies that is configured; the first one has the turn.
    pub fn new(config: &FtlConfig, layout: &Layout) -> Placement {
        let dies = placement_order(config.placement, layout);
        let mut places = vec![0; dies.len()];
        (0..).zip(&dies).for_each(|(place, die)| places[die.0 as usize] = place);
        Placement {
            places,
            full: FullDies::new(dies.len()),
            dies,
            cursor: 0,
            is_random: config.placement == Order::Random,
            is_by_address: config.placement == Order::Address,
            outside: Forked::<dyn PlacementPolicy>::of(&config.policies.placement),
        }
    }

    /// Gives the turn to the die of this page's address, if addresses place data.
    #[inline]
    pub fn turn_to(&mut self, lpn: Lpn) {
        if self.is_by_address {
            self.cursor = lpn.0 as usize % self.dies.len();
        }
    }

    /// The die whose turn it is.
    #[inline]
    fn next(&mut self) -> DieId {
        let die = self.dies[self.cursor];
        self.go_on_behind(self.cursor);
        die
    }

    #[inline]
    fn go_on_behind(&mut self, at: usize) {
        self.cursor = if at + 1 == self.dies.len() { 0 } else { at + 1 };
    }

    #[inline]
    fn shuffle(&mut self, rng: &mut Rng) {
        if self.is_random {
            self.cursor = rng.below(self.dies.len() as u64) as usize;
        }
    }

    /// Die and stream for GC copies from the full blocks of another die.
    pub fn choose_for_foreign(&mut self, ground: &mut Ground<'_>, stream: Stream) -> Option<(DieId, Stream)> {
        let last = |space: Space<'_>, die: DieId| {
            let (shared, open) = space.slot(die, stream);
            (space.blocks.free_count(die) > u32::from(!open)).then_some(shared)
        };
        self.choose(ground, |space, die| space.beyond_reserve(die, stream))
            .or_else(|| self.choose(ground, last))
    }

    /// Die and stream for translation pages that GC waits for: they leave each die its reserve, if they can.
    pub fn choose_for_map(&mut self, ground: &mut Ground<'_>) -> Option<(DieId, Stream)> {
        let unclaimed = |space: Space<'_>, die: DieId| {
            let claimed = space.gc.victims().of(die).len() as u32;
            space.of(die, Stream::MetaMoved).filter(|_| space.blocks.free_count(die) > claimed)
        };
        self.choose(ground, |space, die| space.of(die, Stream::Meta))
            .or_else(|| self.choose(ground, unclaimed))
            .or_else(|| self.choose(ground, |space, die| space.of(die, Stream::MetaMoved)))
    }

    /// Chooses die and stream for new data of `stream`, starting with `page`. `sequence`: number of the
    /// program.
    #[inline]
    pub fn choose_for_new(
        &mut self,
        ground: &mut Ground<'_>,
        stream: Stream,
        page: Lpn,
        sequence: u64,
    ) -> Option<(DieId, Stream)> {
        if self.outside.is_some()
            && stream != Stream::Meta
            && let Some(chosen) = self.outside_choice(ground, stream, page, sequence)
        {
            return Some(chosen);
        }
        match stream {
            Stream::Host => self.choose_for_host(ground),
            _ => self.choose(ground, |space, die| space.of(die, stream)),
        }
    }

    /// The die, next in the order, whose SLC cache takes a superpage; `None`: all are full.
    pub fn choose_slc(&mut self, ground: &Ground<'_>) -> Option<DieId> {
        for _ in 0..self.dies.len() {
            let die = self.next();
            if ground.space().of_slc(die) {
                return Some(die);
            }
        }
        None
    }

    /// The next die in the order of placement that has space, and the result of `takes` for it.
    #[inline]
    fn choose(
        &mut self,
        ground: &mut Ground<'_>,
        takes: impl Fn(Space<'_>, DieId) -> Option<Stream>,
    ) -> Option<(DieId, Stream)> {
        self.shuffle(ground.rng);
        for _ in 0..self.dies.len() {
            let die = self.next();
            if let Some(shared) = takes(ground.space(), die) {
                return Some((die, shared));
            }
            ground.turned_away(die);
        }
        None
    }

    /// Chooses a die for [`Stream::Host`]: dies without space are not asked again before they may have some.
    #[inline]
    fn choose_for_host(&mut self, ground: &mut Ground<'_>) -> Option<(DieId, Stream)> {
        self.full.bring_to(ground.space().spare());
        ground.blocks.came_mut().drain(|die| self.full.forget(self.places[die.0 as usize] as usize));
        self.shuffle(ground.rng);
        while let Some(at) = self.full.next_unknown(self.cursor) {
            let die = self.dies[at];
            if let Some(shared) = ground.space().of(die, Stream::Host) {
                self.go_on_behind(at);
                return Some((die, shared));
            }
            self.full.note(at);
            ground.turned_away(die);
        }
        None
    }

    /// The choice of a placement from outside, among the dies that have space.
    #[cold]
    fn outside_choice(
        &mut self,
        ground: &mut Ground<'_>,
        stream: Stream,
        page: Lpn,
        sequence: u64,
    ) -> Option<(DieId, Stream)> {
        let layout = &ground.shape.layout;
        let (mut candidates, mut streams) = (Vec::new(), Vec::new());
        for die in (0..layout.dies).map(DieId) {
            match ground.space().of(die, stream) {
                Some(shared) => {
                    candidates.push(DieCandidate {
                        die,
                        channel: die.0 / layout.dies_per_channel,
                        way: die.0 % layout.dies_per_channel,
                        free_blocks: ground.blocks.free_count(die),
                    });
                    streams.push(shared);
                }
                None => ground.turned_away(die),
            }
        }
        let policy = self.outside.as_mut().filter(|_| !candidates.is_empty())?;
        policy.choose(&candidates, page, sequence).map(|at| (candidates[at].die, streams[at]))
    }

    /// Panics where a die that is recorded as full has space.
    pub fn check(&self, space: Space<'_>) {
        let knows = |(at, die): &(usize, &DieId)| self.full.knows(*at) && !space.blocks.came().has(**die);
        for (at, &die) in self.dies.iter().enumerate().filter(knows) {
            let takes = if self.full.holds(space.spare()) { space.of(die, Stream::Host) } else { None };
            assert_eq!(takes, None, "die {}, at {at} of the order, has space", die.0);
        }
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

/// Space of the dies: a view of blocks and GC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space<'a> {
    shape: &'a Shape,
    blocks: &'a BlockManager,
    gc: &'a Gc,
}

impl<'a> Space<'a> {
    /// Creates the view.
    #[inline]
    pub fn new(shape: &'a Shape, blocks: &'a BlockManager, gc: &'a Gc) -> Space<'a> {
        Space { shape, blocks, gc }
    }

    /// The block that `stream` itself has open in `die`.
    #[inline]
    pub fn open_block(self, die: DieId, stream: Stream) -> Option<OpenBlock> {
        self.blocks.open().at(die, stream.place())
    }

    /// Returns the stream whose open block in `die` takes data of `stream`, and whether it has an open block. If no block is free, GC
    /// copies without their own block go to the host's, because GC must finish.
    #[inline]
    pub fn slot(self, die: DieId, stream: Stream) -> (Stream, bool) {
        let shared = self.shape.config.shared(stream);
        let open = self.open_block(die, shared).is_some();
        if !open && stream.is_gc_copy() && shared != Stream::Meta && self.blocks.free_count(die) == 0 {
            let other = self.last_resort(die, shared);
            return (other, self.open_block(die, other).is_some());
        }
        (shared, open)
    }

    /// Open block that GC copies may use if there is no other; if handles are kept apart, a block of their own
    /// handle.
    #[cold]
    fn last_resort(self, die: DieId, shared: Stream) -> Stream {
        let apart = self.shape.config.isolation == Isolation::Persistent;
        let is_open = |s: &Stream| self.open_block(die, *s).is_some();
        if let (Stream::PlacedGc(handle), _) | (Stream::Placed(handle), true) = (shared, apart) {
            return Some(Stream::Placed(handle)).filter(is_open).unwrap_or(shared);
        }
        let placed = (1..self.shape.config.handles).filter(|_| !apart).map(Stream::Placed);
        let others = [Stream::Gc, Stream::Host, Stream::HostCold].into_iter().chain(placed);
        others.into_iter().find(is_open).unwrap_or(shared)
    }

    /// Returns the stream whose open block can take a superpage of `stream` in `die` now; `None`: no space. The last free block of a die
    /// is kept for GC copies; while it is in use by a shared open block, only GC may write there.
    #[inline]
    pub fn of(self, die: DieId, stream: Stream) -> Option<Stream> {
        let free = self.blocks.free_count(die);
        let off = self.shape.config.separation == Separation::Off;
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
    fn takes(self, die: DieId, (shared, open): (Stream, bool), free: u32) -> bool {
        let of_map = shared == Stream::Meta;
        if !of_map && self.gc.outpaced(self.blocks, die, shared) {
            return false;
        }
        let mixed = self.shape.config.separation == Separation::Off
            && matches!(shared, Stream::Host | Stream::Placed(_));
        match open {
            true if !mixed => true,
            true => free >= self.gc.reserve(die) + self.gc.cut_reserve() && self.map_has_space(),
            false if of_map => free > self.gc.reserve(die),
            false => free > self.gc.reserve(die) + self.gc.cut_reserve() && self.has_blocks_to_spare(),
        }
    }

    /// Returns whether host data may take one of the drive's free blocks: one block per die is reserved. A die that copies a victim may
    /// be using its reserved block until the victim is erased; without this reserve, dies with free blocks would wait until all others
    /// also have one. The reserve is needed only if erases may wait for translation pages.
    fn has_blocks_to_spare(self) -> bool {
        let waits = !self.shape.is_volatile();
        let coming = if waits { 0 } else { self.gc.victims().all_coming_back() };
        self.blocks.free_total() + coming > self.blocks.live_dies() + self.shape.config.common_blocks()
    }

    /// Returns whether a translation page finds space beyond the GC reserve of the dies. Erases may wait for one, so host data must not
    /// use up the open block of GC first.
    fn map_has_space(self) -> bool {
        self.shape.is_volatile()
            || self.blocks.free_total() > self.blocks.live_dies()
            || self.gc.map_has_open_block(self.blocks)
    }

    /// As [`Space::of`], for copies out of another die's full blocks: the GC reserve of `die` stays whole.
    fn beyond_reserve(self, die: DieId, stream: Stream) -> Option<Stream> {
        let (shared, open) = self.slot(die, stream);
        (self.blocks.free_count(die) >= self.gc.reserve(die) + u32::from(!open)).then_some(shared)
    }

    /// Conditions of the whole drive under which its dies give host data a block.
    #[inline]
    fn spare(self) -> Spare {
        Spare {
            blocks: self.has_blocks_to_spare(),
            map: self.shape.config.separation != Separation::Off || self.map_has_space(),
            live_dies: self.blocks.live_dies(),
        }
    }

    /// Returns whether the SLC cache of `die` accepts data.
    pub fn of_slc(self, die: DieId) -> bool {
        self.open_block(die, Stream::Cached).is_some() || self.blocks.slc().free_in(die) > 0
    }
}

/// The next superpage of the open block of `shared`, for data of `stream`.
#[inline]
pub(super) fn take_superpage<T: Table>(
    core: &mut Core<T>,
    die: DieId,
    stream: Stream,
    shared: Stream,
) -> (Ppa, BlockId) {
    let (cache, meta) = (shared == Stream::Cached, shared == Stream::Meta);
    let superpages = core.shape.superpages_of_kind(cache, meta);
    let listed = !meta && core.shape.has_lists();
    let taken = core.blocks.take_superpage(die, shared.place(), (superpages, listed), || BlockKind {
        cache,
        most_worn: stream == Stream::Worn,
        meta,
        owner: shared.owner(),
        stream: if stream == Stream::Worn { stream } else { shared }.observed(),
    });
    if listed && core.blocks.state(taken.1) == BlockState::Full {
        core.table.needs_list(taken.1);
    }
    taken
}

/// Closes the open block of `stream` in `die`, which accepts no more data.
pub(super) fn close_open<T: Table>(core: &mut Core<T>, die: DieId, stream: Stream) {
    if let Some(block) = core.blocks.close_open(die, stream.place(), core.programs.sequence()) {
        core.gc.went_on(&mut core.blocks, block);
    }
}

/// Open blocks, and the stream of each.
pub(super) fn open_blocks<T: Table>(core: &Core<T>) -> impl Iterator<Item = (BlockId, Stream)> + use<'_, T> {
    let fixed = [Stream::Host, Stream::HostCold, Stream::Gc, Stream::Worn, Stream::Meta, Stream::Cached];
    let placed = (1..core.shape.config.handles).flat_map(|h| [Stream::Placed(h), Stream::PlacedGc(h)]);
    let streams: Vec<Stream> = fixed.into_iter().chain(placed).collect();
    core.blocks.open().all().map(move |(place, open)| (open.block, streams[place]))
}

fn placement_order(placement: Order, layout: &Layout) -> Vec<DieId> {
    let (channels, per_channel) = (layout.channels, layout.dies_per_channel);
    match placement {
        Order::ChannelFirst | Order::Address => (0..per_channel)
            .flat_map(|way| (0..channels).map(move |channel| DieId(channel * per_channel + way)))
            .collect(),
        Order::WayFirst | Order::Random => (0..layout.dies).map(DieId).collect(),
    }
}
