//! Mount: rebuilds the state of log-block translation from the media.
//!
//! 1. every spare area is read: for each block its kind, and which pages it holds;
//! 2. destinations of full merges that are not complete are given up: all their sources are on the media;
//! 3. the newest copy of each trim page says which pages were trimmed or lost, and before which number;
//! 4. of the copies of a page that count, the one with the highest number is the newest;
//! 5. roles: of the blocks of a logical block that hold a newest copy, the one that was begun last is its log block, unless it holds all
//!    of them at their places; the one before is its data block. What does not fit is a log block that is evacuated.
//!
//! If a trim page cannot be read, pages whose copies are all older than it are lost: they may have been trimmed.

use super::blocks::Role;
use super::journal::{self, PageState};
use super::mark::{self, Kind};
use super::{Log, LogBlock, Scheme};
use crate::SetupError;
use crate::mount::{MountReport, MountSource};
use crate::translation::Start;
use crate::{Durability, FtlConfig};
use pellucid_flash::{BlockId, Cause, DieId, Layout, Lpn, Ppa};
use std::collections::BTreeMap;

/// Torn superpages carry numbers that cannot be read. A drive in use has fewer programs planned than this.
const SEQUENCE_GAP: u64 = 1 << 20;

/// Content of a block according to its spare areas.
struct Found {
    block: BlockId,
    used: u32,
    kind: Option<Kind>,
    /// Number of the first superpage that can be read.
    first: u64,
    /// Page and number of each unit that can be read, by its index.
    units: Vec<(u32, Lpn, u64)>,
}

/// Content of the trim pages.
#[derive(Default)]
struct Trims {
    /// Pages that are trimmed or lost, and the number below which their copies do not count.
    states: BTreeMap<Lpn, (PageState, u64)>,
    /// Trim pages that cannot be read, and their own numbers.
    unreadable: Vec<(DieId, u32, u64)>,
}

impl LogBlock {
    /// Starts translation on these media; also returns the report of a mount.
    pub(crate) fn start<S: MountSource>(
        config: &FtlConfig,
        layout: &Layout,
        from: Start<'_, S>,
    ) -> Result<(LogBlock, Option<MountReport>), SetupError> {
        match from {
            Start::Empty { bad, erases } => {
                let mut map = LogBlock::new(config, layout, bad)?;
                (0..layout.blocks).for_each(|block| map.blocks.set_erases(BlockId(block), erases));
                Ok((map, None))
            }
            Start::Mount(source) => {
                LogBlock::mount(config, layout, source).map(|(map, report)| (map, Some(report)))
            }
            Start::Restore(source) => {
                LogBlock::restore(config, layout, source).map(|(map, report)| (map, Some(report)))
            }
        }
    }

    /// Rebuilds translation from the media. With [`Durability::Volatile`] the drive starts empty.
    pub fn mount(
        config: &FtlConfig,
        layout: &Layout,
        source: &impl MountSource,
    ) -> Result<(LogBlock, MountReport), SetupError> {
        LogBlock::rebuild(config, layout, source, config.durability != Durability::Volatile)
    }

    /// As [`LogBlock::mount`], but for media that were saved on purpose: what they hold is kept with [`Durability::Volatile`] too. Such a
    /// drive has no record of trimmed pages, so their last copy comes back if it has not been erased.
    pub fn restore(
        config: &FtlConfig,
        layout: &Layout,
        source: &impl MountSource,
    ) -> Result<(LogBlock, MountReport), SetupError> {
        LogBlock::rebuild(config, layout, source, true)
    }

    fn rebuild(
        config: &FtlConfig,
        layout: &Layout,
        source: &impl MountSource,
        keep: bool,
    ) -> Result<(LogBlock, MountReport), SetupError> {
        let blocks = || (0..layout.blocks).map(BlockId);
        let bad: Vec<BlockId> = blocks().filter(|&b| source.is_bad(b)).collect();
        let mut map = LogBlock::new_worn(config, layout, &bad)?;
        let mut report = MountReport::default();
        let mut reads = vec![0u64; layout.dies as usize];
        blocks().for_each(|block| map.blocks.set_erases(block, source.erases(block)));
        let mut found = Vec::new();
        for block in blocks().filter(|&b| !source.is_bad(b) && source.used_superpages(b) > 0) {
            let block = map.scan(block, source);
            let read = u64::from(block.used * layout.units_per_superpage);
            report.header_reads += 1;
            report.replay_reads += read - 1;
            reads[layout.die_of_block(block.block).0 as usize] += read;
            found.push(block);
        }
        let next = found.iter().flat_map(|f| &f.units).map(|&(_, _, sequence)| sequence).max().unwrap_or(0);
        map.sequence = next + SEQUENCE_GAP;
        let (kept, given_up): (Vec<Found>, Vec<Found>) =
            found.into_iter().partition(|block| keep && map.counts(block));
        for block in given_up {
            map.blocks.take_this(block.block, Role::Leaving);
            map.blocks.leave(block.block, Cause::Gc, None);
        }
        if keep {
            let trims = map.load_trims(&kept, source, &mut report, &mut reads);
            let newest = map.find_newest(&kept, &trims);
            report.lost_units = map.give_up_doubtful(&trims, &newest);
            map.count_references();
            map.assign_roles(kept);
        }
        report.mapped_units = (0..map.user_units).filter(|&l| map.map.get(Lpn(l)).is_some()).count() as u64;
        report.busiest_die_reads = reads.into_iter().max().unwrap_or(0);
        (map.map_jobs, map.released) = (true, true);
        (0..layout.dies).for_each(|die| map.step(DieId(die)));
        Ok((map, report))
    }

    fn scan(&self, block: BlockId, source: &impl MountSource) -> Found {
        let used = source.used_superpages(block);
        let mut found = Found { block, used, kind: None, first: u64::MAX, units: Vec::new() };
        for unit in 0..used * self.layout.units_per_superpage {
            let Some((lpn, stored)) = source.spare(self.layout.ppa(block, unit)) else { continue };
            let Some((kind, sequence)) = mark::split(stored) else { continue };
            if found.kind.is_none() {
                (found.kind, found.first) = (Some(kind), sequence);
            }
            found.units.push((unit, lpn, sequence));
        }
        found
    }

    /// Returns whether the content of a block counts: a destination does only when its last superpage is there.
    fn counts(&self, found: &Found) -> bool {
        match found.kind {
            None => false,
            Some(Kind::Destination { end }) => {
                let last = u32::from(end) * self.layout.units_per_superpage;
                found.units.iter().any(|&(unit, ..)| unit == last)
            }
            Some(_) => true,
        }
    }

    fn load_trims(
        &mut self,
        found: &[Found],
        source: &impl MountSource,
        report: &mut MountReport,
        reads: &mut [u64],
    ) -> Trims {
        let mut newest: BTreeMap<u32, (Ppa, u64)> = BTreeMap::new();
        for block in found.iter().filter(|found| found.kind == Some(Kind::Metadata)) {
            for &(unit, lpn, sequence) in &block.units {
                let page = lpn.0.wrapping_sub(self.user_units);
                let known = newest.get(&page).map_or(0, |known| known.1);
                if lpn != Lpn::NONE && page < self.trim_pages() && sequence >= known {
                    newest.insert(page, (self.layout.ppa(block.block, unit), sequence));
                }
            }
        }
        let mut trims = Trims::default();
        let per_die = self.journal.map_or(1, |sizes| sizes.pages).max(1);
        for (number, (ppa, written)) in newest {
            let (die, page) = (DieId(number / per_die), number % per_die);
            report.map_page_reads += 1;
            reads[die.0 as usize] += 1;
            self.dies[die.0 as usize].journal.set_place(page, ppa);
            let bytes = source.map_page(ppa).unwrap_or_default();
            match journal::parse(&bytes, number) {
                Some((watermark, state)) => {
                    let pages = self.pages_of_trim_page(die, page);
                    let marked = pages.map(|(at, lpn)| (lpn, (state(at), watermark)));
                    trims.states.extend(marked.filter(|(_, (state, _))| *state != PageState::Kept));
                }
                None => trims.unreadable.push((die, page, written)),
            }
        }
        trims
    }

    /// Points the table to the newest copies that count; returns their numbers.
    fn find_newest(&mut self, found: &[Found], trims: &Trims) -> Vec<u64> {
        let mut newest = vec![0; self.user_units as usize];
        for block in found.iter().filter(|found| found.kind != Some(Kind::Metadata)) {
            for &(unit, lpn, sequence) in block.units.iter().filter(|unit| unit.1.0 < self.user_units) {
                let counts = trims.states.get(&lpn).is_none_or(|&(_, before)| sequence >= before);
                // Equal numbers: one superpage holds the page twice, and the later unit is the newer copy.
                let known = &mut newest[lpn.0 as usize];
                let right_die = self.layout.die_of_block(block.block) == self.die_of_lbn(self.lbn(lpn).0);
                if counts && right_die && sequence >= *known {
                    *known = sequence;
                    self.map.set(lpn, self.layout.ppa(block.block, unit));
                }
            }
        }
        for (&lpn, _) in trims.states.iter().filter(|(_, (state, _))| *state == PageState::Lost) {
            if self.map.get(lpn) == Ppa::NONE {
                self.map.set(lpn, Ppa::LOST);
            }
        }
        newest
    }

    /// Gives up pages of unreadable trim pages: a copy older than its trim page may have been trimmed before that was written, or not. It
    /// is not erased before the new trim page says that the page is lost. Returns the number of these pages.
    fn give_up_doubtful(&mut self, trims: &Trims, newest: &[u64]) -> u64 {
        let mut lost = 0;
        for &(die, page, written) in &trims.unreadable {
            for (_, lpn) in self.pages_of_trim_page(die, page) {
                let known = self.map.get(lpn);
                if known.is_some() && newest[lpn.0 as usize] < written {
                    self.map.set(lpn, Ppa::LOST);
                    self.note_lost(lpn, known);
                    lost += 1;
                }
            }
        }
        lost
    }

    fn count_references(&mut self) {
        for lpn in (0..self.user_units).map(Lpn) {
            let ppa = self.map.get(lpn);
            if ppa.is_some() {
                self.blocks.refer(self.layout.block_of(ppa));
            }
        }
        let places: Vec<Ppa> = self.dies.iter().flat_map(|die| die.journal.on_media()).collect();
        places.into_iter().for_each(|place| self.blocks.refer(self.layout.block_of(place)));
    }

    fn assign_roles(&mut self, mut found: Vec<Found>) {
        found.sort_by_key(|found| found.first);
        let mut of_one: BTreeMap<u32, Vec<Found>> = BTreeMap::new();
        for block in found {
            match block.kind {
                Some(Kind::Metadata) if self.journal.is_some() => self.keep_metadata(&block),
                _ if self.blocks.references(block.block) == 0 => {
                    self.blocks.take_this(block.block, Role::Leaving);
                    self.blocks.leave(block.block, Cause::Gc, None);
                }
                Some(Kind::Owned | Kind::Destination { .. }) => {
                    let page = block.units.iter().find(|unit| unit.1.0 < self.user_units);
                    let lbn = page.map_or(0, |&(_, lpn, _)| self.lbn(lpn).0);
                    of_one.entry(lbn).or_default().push(block);
                }
                _ => self.keep_log(block, None),
            }
        }
        for (lbn, blocks) in of_one {
            self.assign_blocks_of(lbn, blocks);
        }
        for die in &mut self.dies {
            die.logs.sort_by_key(|log| log.began);
        }
    }

    /// Assigns roles to the blocks of one logical block that hold a newest copy, in the order in which they were begun.
    fn assign_blocks_of(&mut self, lbn: u32, mut blocks: Vec<Found>) {
        let die = self.die_of_lbn(lbn);
        let Some(last) = blocks.pop() else { return };
        let others_hold = !blocks.is_empty();
        let sequential = self.dies[die.0 as usize].logs.iter().any(|log| log.owner.is_some());
        let is_log = last.kind == Some(Kind::Owned)
            && (others_hold || !self.is_in_place(lbn, &last))
            && (self.scheme == Scheme::Bast || !sequential);
        if is_log {
            self.keep_log(last, Some(lbn));
        } else {
            blocks.push(last);
        }
        if let Some(data) = blocks.pop_if(|data| self.is_in_place(lbn, data)) {
            self.blocks.take_this(data.block, Role::Data(lbn));
            self.set_data_block(lbn, Some(data.block));
        }
        blocks.into_iter().for_each(|block| self.keep_log(block, None));
    }

    /// Returns whether every newest copy in a block lies at its place in logical block `lbn`.
    fn is_in_place(&self, lbn: u32, found: &Found) -> bool {
        found.units.iter().all(|&(unit, lpn, _)| {
            let newest = lpn.0 < self.user_units && self.map.get(lpn) == self.layout.ppa(found.block, unit);
            !newest || lpn == self.lpn(lbn, unit)
        })
    }

    /// Continues a log block where it was; evacuates one that does not fit the policy.
    fn keep_log(&mut self, found: Found, owner: Option<u32>) {
        self.blocks.take_this(found.block, Role::Log);
        let per_superpage = self.layout.units_per_superpage;
        let mut pages = vec![Lpn::NONE; (found.used * per_superpage) as usize];
        let at_place = |unit: u32, lpn: Lpn| owner.is_some_and(|owner| lpn == self.lpn(owner, unit));
        let mut in_place = owner.is_some();
        for &(unit, lpn, _) in found.units.iter().filter(|unit| unit.1.0 < self.user_units) {
            // A page of another logical block is not listed, so that no check attributes it to this one.
            pages[unit as usize] = lpn;
            in_place &= at_place(unit, lpn);
        }
        let fits = owner.is_some() || (self.scheme == Scheme::Fast && found.kind == Some(Kind::Random));
        let log = Log {
            block: found.block,
            owner,
            next: found.used,
            open: fits,
            in_place,
            began: found.first,
            used_at: found.units.last().map_or(found.first, |unit| unit.2),
            pages,
        };
        let die = self.layout.die_of_block(found.block);
        self.dies[die.0 as usize].logs.push(log);
        if !fits {
            self.evacuate(found.block, Cause::Retirement);
        }
    }

    fn keep_metadata(&mut self, found: &Found) {
        let die = self.layout.die_of_block(found.block);
        self.blocks.take_this(found.block, Role::Metadata);
        let journal = &mut self.dies[die.0 as usize].journal;
        journal.blocks.push(found.block);
        // The blocks come in the order in which they were begun.
        journal.reopen((found.used < self.layout.superpages_per_block).then_some(found.used));
    }
}
