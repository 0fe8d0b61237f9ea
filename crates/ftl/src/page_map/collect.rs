//! GC as the map sees it: applies the decisions of [`Gc`] to the table, the translation pages and the cached table.

use super::PageMap;
use crate::gc::{Gc, Parts};
use crate::translation::{Arrival, Arrived, GcJob, Load, Move, Reclaim, Stream};
use pellucid_flash::{BlockId, DieId, Lpn, Ppa};

impl PageMap {
    /// GC, and the parts of the map that it works on.
    fn gc_parts(&mut self) -> (&mut Gc, Parts<'_>) {
        let parts = Parts {
            table: &self.table,
            blocks: &mut self.blocks,
            pages: &mut self.pages,
            handles: &mut self.handles,
            counters: &mut self.counters,
            rng: &mut self.rng,
            sequence: self.sequence,
        };
        (&mut self.gc, parts)
    }

    /// Returns whether [`PageMap::next_gc`] has work in `die`.
    #[inline]
    pub fn wants_gc(&self, die: DieId, load: Load) -> bool {
        self.gc.wants(&self.blocks, die, load)
    }

    /// Returns whether [`PageMap::reap`] may have something to do.
    #[inline]
    pub fn may_reap(&self, die: DieId) -> bool {
        self.blocks.has_dead_or_empty()
            && (self.blocks.is_dead(die)
                || (self.blocks.empty_closed(die) > 0 && self.blocks.free_count(die) == 0))
    }

    /// Returns whether [`PageMap::reap`] may have something to do in any die.
    #[inline]
    pub fn may_reap_any(&self) -> bool {
        self.blocks.has_dead_or_empty()
    }

    /// Returns whether [`PageMap::next_erase`] has a block.
    #[inline]
    pub fn has_emptied(&self) -> bool {
        self.gc.has_emptied()
    }

    /// Frees, in a die without a free block, blocks that need no copy: its closed blocks without valid units.
    pub fn reap(&mut self, die: DieId) {
        if self.blocks.is_dead(die) {
            self.empty_dead(die);
        } else if self.table.sparse().is_some() {
            // Blocks that hold nothing dirty hold clean data: one block at a time is enough.
        } else if self.blocks.empty_closed(die) > 0 && self.blocks.free_count(die) == 0 {
            let (gc, mut parts) = self.gc_parts();
            gc.reap(&mut parts, die);
        }
    }

    /// The next copies that GC wants in `die`, choosing a victim first if need be. `None`: nothing to do now.
    #[inline]
    pub fn next_gc(&mut self, die: DieId, load: Load) -> Option<GcJob<'_>> {
        // Called often, mostly without work.
        if self.wants_gc(die, load) { self.next_moves(die, load) } else { None }
    }

    fn next_moves(&mut self, die: DieId, load: Load) -> Option<GcJob<'_>> {
        let (gc, mut parts) = self.gc_parts();
        let to = gc.next_moves(&mut parts, die, load)?;
        // The die moves whole superpages.
        let is_whole = self.gc.moves().len() as u32 == self.layout.units_per_superpage;
        let inside = self.config.copyback && is_whole && to != Stream::Meta && self.space(die, to).is_some();
        let moves = self.gc.moves();
        moves.iter_mut().for_each(|moved| moved.inside = inside);
        Some(GcJob::Move(moves))
    }

    /// Returns whether the victim of `die` has been read to its end, so that a partial superpage of GC copies should not wait.
    pub fn gc_rests(&self, die: DieId) -> bool {
        self.gc.rests(&self.table, die)
    }

    /// Returns whether the copy at `from`, whose spare area names this page, is still needed; if not, there is nothing to move. Without a
    /// spare area it is unreadable, or overwritten and already being erased.
    #[inline]
    pub fn is_current(&self, from: Ppa, named: Option<Lpn>) -> bool {
        match named.map(|mark| self.named(mark)) {
            Some(lpn) => lpn.0 < self.table.pages() && self.copy_of(lpn) == from,
            None => self.is_valid(from),
        }
    }

    /// Ends the read of a unit of a victim and returns the fate of the unit. `named`: logical page in its spare area.
    #[inline]
    pub fn arrived(&mut self, moved: &Move, named: Option<Lpn>, arrival: Arrival) -> Arrived {
        let of_map = moved.to == Stream::Meta;
        self.pages.reading -= u32::from(of_map);
        let page = named.map(|mark| self.named(mark));
        let outcome = match (arrival, page) {
            (Arrival::Outdated, _) => Arrived::Drop,
            (Arrival::Read, Some(lpn)) if lpn.0 < self.user_units => return Arrived::Keep(lpn),
            // The content of a translation page is in memory.
            _ => match page.or_else(|| self.map_page_at(moved.from)) {
                Some(lpn) if lpn.0 >= self.user_units => {
                    if self.copy_of(lpn) == moved.from {
                        self.rewrite_map_page(lpn, moved.cause);
                    }
                    Arrived::Metadata
                }
                _ => {
                    self.copy_lost(moved.from);
                    Arrived::Lost
                }
            },
        };
        if of_map && outcome == Arrived::Drop { Arrived::Metadata } else { outcome }
    }

    /// Records that a unit of a victim could not be read: its block stays, see the head of [`crate::gc`].
    fn copy_lost(&mut self, from: Ppa) {
        let block = self.layout.block_of(from);
        match self.blocks.failed(block) {
            false => self.gc.lose_victim(&mut self.blocks, block),
            true => self.gc.end_outgoing(&mut self.blocks, block),
        }
    }

    /// Counts placed GC copies, for callers that do not report them to [`PageMap::place`].
    pub fn count_copied(&mut self, units: u32) {
        self.counters.copied_units += u64::from(units);
    }

    /// The next block without valid units, and without copies that only an unsaved trim made invalid.
    #[inline]
    pub fn next_erase(&mut self) -> Option<Reclaim> {
        if self.has_emptied() { Some(self.reclaim()) } else { None }
    }

    fn reclaim(&mut self) -> Reclaim {
        if self.table.sparse().is_some()
            && let Some(wait) = self.evict_emptied()
        {
            return wait;
        }
        let is_cache = self.table.sparse().is_some();
        let held: Vec<BlockId> = match is_cache {
            true => self.gc.emptied().iter().copied().filter(|&b| self.is_being_replaced(b)).collect(),
            false => Vec::new(),
        };
        let (gc, mut parts) = self.gc_parts();
        let reclaim = gc.reclaim(&mut parts, &held);
        match reclaim {
            Reclaim::AwaitsTrims => self.want_trimmed(),
            Reclaim::Erase(block, _) | Reclaim::Retire(block) => {
                self.victim_left(self.layout.die_of_block(block));
                if matches!(reclaim, Reclaim::Retire(_)) {
                    self.pages_left_with(block);
                }
            }
            Reclaim::Evict(_) => {}
        }
        reclaim
    }

    /// Records that the erase of a block ended. If it failed, the block is retired.
    pub fn erase_ended(&mut self, block: BlockId, ok: bool) {
        if ok {
            self.blocks.erased(block);
        } else {
            self.blocks.retire(block);
            self.counters.grown_bad += 1;
        }
        self.pages_left_with(block);
        self.gc.erased(&mut self.blocks, block);
    }

    /// Returns whether a die that had turned host data away may have gained space since the last call, though no block has come free.
    #[inline]
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.gc.released)
    }
}
