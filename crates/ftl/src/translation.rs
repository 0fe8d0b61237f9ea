//! The surface of translation: what a drive, or a host FTL, asks of it, and what it asks them to do.
//!
//! Translation decides and remembers; it has no data and does no I/O. Its caller carries out what it plans and reports the outcome.
//!
//! ```text
//!  reads    lookup ─► Located ─► (readable) ─► read
//!  writes   stream ─► queue of that stream ─► place ─► Plan ─► program_started ─► program_ended
//!  GC       next_gc ─► GcJob::Move ─► read ─► arrived ─► queue of the job's stream ─► is_current ─► place
//!                   └► GcJob::Copy ─► read copy_sources ─► place_copy ─► Plan ─► program_ended
//!           next_erase ─► Reclaim::Erase ─► erase ─► erase_ended
//!  map      next_map_job ─► MapJob::Program ─► metadata ─► program_ended
//!                        └► MapJob::Read ─► map_page_read
//! ```
//! The calls, for every translation:
//!
//! | call | meaning |
//! |---|---|
//! | `lookup(&mut self, lpn) -> Located` | where a page lies, for a host access: it counts as a use of its entry |
//! | `peek(&self, lpn) -> Located` | the same for everything else; never [`Located::NeedsMap`] |
//! | `readable(&self, ppa) -> Ppa` | where that copy can be read while its program has not ended; [`Ppa::NONE`]: nowhere yet |
//! | `prefetch(&self, lpn)` | simulator speed only |
//! | `stream(&mut self, lpn, handle) -> Stream` | which open block a host write goes to; counts the write. Callers keep a queue for each stream |
//! | `place(&mut self, stream, near: Option<DieId>, lpns) -> Option<Plan>` | binds a destination now that the data are at hand. `near`: GC copies, and their die. `None`: no space now |
//! | `program_started(&self, id)` | the program has reached its die; simulator speed only |
//! | `program_ended(&mut self, id, ok)` | failed: the caller has the data and plans them again, except metadata and fixed copies |
//! | `trim(&mut self, lpn)` | forgets a page |
//! | `wants_gc(&self, die, idle) -> bool`, `reap(&mut self, die)` | whether `next_gc` has work; frees blocks that need no copy |
//! | `next_gc(&mut self, die, idle) -> Option<GcJob>` | the next GC copy of a die; callers limit how many are in flight |
//! | `next_gc_in(&mut self, die, Range<Ppa>) -> Option<Move>` | the next move of the same victim within what one sense brings |
//! | `is_current(&self, from, named: Option<Lpn>) -> bool` | whether a copy is still needed, by what its spare area names |
//! | `arrived(&mut self, from, named, cause, Arrival) -> Arrived` | the read of a [`Move`] has ended: what becomes of the unit |
//! | `gc_rests(&self, die) -> bool` | no further move comes by itself, so partial stripes of GC copies should not wait |
//! | `copy_sources(&self, id) -> &[Ppa]` | sources of a fixed copy by position; [`Ppa::NONE`]: none |
//! | `place_copy(&mut self, id, readable: u64, &mut Vec<Lpn>) -> Option<Plan>` | the sources were read; gives the page of each position, [`Lpn::NONE`] for a hole. `None`: nothing is left to do |
//! | `next_erase(&mut self) -> Option<Reclaim>`, `erase_ended(&mut self, block, ok)` | blocks that hold nothing any more |
//! | `next_map_job(&mut self) -> Option<MapJob>` | programs and reads of metadata; asked after every change, until it gives `None` |
//! | `metadata(&self, id, position) -> (Lpn, &[u8])` | what the spare area names, and the content, of a unit of a planned metadata program |
//! | `map_page_read(&mut self, page, ok)` | the read of a [`MapJob::Read`] has ended |
//! | `flush_point(&self) -> FlushPoint`, `flush_to(&mut self, point) -> bool` | what a flush waits for beside data; queues its writes; whether it is on the media |
//! | `take_released(&mut self) -> bool` | space came for host writes that were turned away, though no block was erased |
//! | `kill_die`, `retire_block`, `refresh_block`, `worn_out` | damage |
//! | `take_outdated(&mut self)` | copies that nobody needs any more, since the last call |
//!
//! The rule that everything rests on: **a copy is invalidated only when its successor's program has ended**, and a block is erased only
//! when it holds no valid copy. So the newest completed copy of every page is on the media at every moment.

use pellucid_flash::{BlockId, Cause, DieId, Lpn, Ppa};

/// Where a logical page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// Its newest copy, which may still be on its way to the media.
    At(Ppa),
    /// Nowhere: never written, or trimmed. It reads as zeros.
    Zero,
    /// Its data were lost. Reads fail until it is written again.
    Lost,
    /// Its entry is in a translation page that is not cached. [`MapJob::Read`] follows; ask again when that page was read.
    NeedsMap(MapPage),
}

/// A translation page, by its number: a part of the mapping table that is one unit on the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapPage(pub u32);

/// Which data share an open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Host data of placement handle 0 (the hot part with [`crate::Separation::Frequency`]).
    Host,
    /// Host data that are seldom written.
    HostCold,
    /// GC copies.
    Collected,
    /// Cold data moved by wear levelling, onto worn blocks.
    Worn,
    /// Translation pages.
    Meta,
    /// Translation pages that GC waits for: they share the blocks of `Meta` and may use the GC reserve.
    MetaMoved,
    /// Host data in the SLC cache.
    Cached,
    /// Host data of this placement handle, from 1.
    Placed(u16),
    /// GC copies of this placement handle, with [`crate::Isolation::Persistent`].
    PlacedCollected(u16),
}

/// Names a planned program until `program_ended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramId(pub u32);

/// A program to carry out. Its units go to `first`, `first + 1`, ... in the order given; the rest of the stripe is padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// To report its end.
    pub id: ProgramId,
    /// First unit of the stripe.
    pub first: Ppa,
    /// Its die.
    pub die: DieId,
    /// Goes to the spare area: a number that rises with every planned stripe of the drive, and above it, in the highest byte,
    /// the placement handle.
    pub sequence: u64,
}

/// A GC copy to carry out in a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcJob {
    /// One unit, whose destination is bound when its data are at hand.
    Move(Move),
    /// Up to a stripe of units to a fixed place, in order: read all of `copy_sources`, then `place_copy`.
    Copy(CopyId),
}

/// A valid unit of a victim that has to leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where it lies.
    pub from: Ppa,
    /// Why it moves.
    pub cause: Cause,
    /// Whose open block takes it.
    pub to: Stream,
    /// Copyback: the die may move it by itself.
    pub inside: bool,
}

/// Names a fixed copy until its program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyId(pub u32);

/// How the read of a [`Move`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// `is_current` said that nobody needs it.
    Outdated,
    /// Its data are at hand.
    Read,
    /// It cannot be read.
    Unreadable,
}

/// What becomes of a unit that was read to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// It goes to the stream of its [`Move`], as this page.
    Keep(Lpn),
    /// It was metadata, which translation writes anew by itself: see `next_map_job`.
    Metadata,
    /// Nobody needs it any more.
    Drop,
    /// Data of the host are lost.
    Lost,
}

/// A block that holds nothing valid any more, and no copy that only an unsaved trim made invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// Erase it, then call `erase_ended`.
    Erase(BlockId, Cause),
    /// It has failed and was retired; mark it on the media.
    Retire(BlockId),
    /// Empty blocks wait until trims are on the media: go on with `next_map_job`. Nothing more to erase now.
    AwaitsTrims,
}

/// Metadata to be programmed or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapJob {
    /// Program metadata; their content is given by `metadata`.
    Program {
        /// Where.
        plan: Plan,
        /// Units of the stripe.
        units: u32,
        /// Why the program takes place.
        cause: Cause,
        /// The same units by what each was wanted for.
        by_cause: [u32; Cause::COUNT],
    },
    /// Read a translation page, then call `map_page_read`.
    Read {
        /// Which.
        page: MapPage,
        /// Where it lies.
        from: Ppa,
        /// Why.
        cause: Cause,
    },
    /// Metadata found no space: start GC in every die. Nothing more to do now.
    NeedsSpace,
}

/// What a flush waits for beside data: every trim before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushPoint(pub(crate) u64);

/// Why a copy is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outdated {
    /// Its successor is on the media.
    Replaced,
    /// Its page was trimmed. Until the trim is on the media, a power cut brings the copy back.
    Trimmed,
}
