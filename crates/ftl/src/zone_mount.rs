//! Mount of zones from the media.
//!
//! 1. every readable superpage identifies itself as a superpage of a zone, or as part of the staging log ([`Mark`]);
//! 2. a zone's superpages count as far as none is missing, and none is older than the mount that wrote the one before it (an
//!    older one was cut off by an earlier power cut, and its zone has been written anew since);
//! 3. what the log holds of the superpages behind or between them is taken over, unless the zone was reset after it, or it is older
//!    than the mount that wrote the superpage before it. Order in the log says no more: a superpage that stays there moves with it. So is
//!    what a protected buffer held when the process ended, which is forgotten as it leaves the buffer;
//! 4. what the log says of zones that are read-only or offline holds; an offline one gives its blocks back;
//! 5. blocks that hold nothing that counts are to be erased, and those of the log once nothing is only there.

use crate::MountSource;
use crate::mount::BLOCK_SEQUENCES;
use crate::zones::{Column, Extent, Mark, Zones};
use pellucid_flash::{BlockId, Lpn, Ppa, ZoneState};
use std::collections::{BTreeMap, BTreeSet};

/// The logical page in the spare areas of the staging log. The spare areas of a zone's superpages hold the zone.
pub const LOG: Lpn = Lpn(u32::MAX - 1);

/// Torn superpages carry numbers that cannot be read; no drive has more programs under way than this.
const SEQUENCE_GAP: u64 = 1 << 20;

/// A superpage that a protected buffer held when the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedSuperpage {
    /// Mark of the superpage.
    pub mark: Mark,
    /// Place of the superpage in the save area.
    pub place: u32,
}

/// Location of a superpage outside its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagedIn {
    /// In the staging log, here.
    Log(Ppa),
    /// Saved with the buffer, in this place.
    Save(u32),
}

/// A superpage that the staging log, or a saved buffer, holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// Zone.
    pub zone: u32,
    /// Superpage of the zone.
    pub superpage: u32,
    /// Sectors that hold data.
    pub sectors: u32,
    /// Number of the mount that wrote it; a full one keeps it, because superpages of that mount may follow.
    pub epoch: u32,
    /// Number of the program; a full superpage keeps it, and so its order among the resets of its zone. `None`: it was never programmed,
    /// and belongs to the zone's present life.
    pub sequence: Option<u64>,
    /// Location of the superpage.
    pub from: StagedIn,
}

/// Verdict of the staging log on a zone that became read-only or offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Zone.
    pub zone: u32,
    /// Read-only or offline.
    pub state: ZoneState,
    /// The block of the log that holds the verdict.
    pub block: BlockId,
}

/// Work that a mount leaves for the drive, to be done before anything else.
#[derive(Clone, Debug, Default)]
pub struct ZoneMount {
    /// Blocks to erase first.
    pub erase: Vec<BlockId>,
    /// Bad blocks that cannot be erased: a later mount must not find their content.
    pub invalidate: Vec<BlockId>,
    /// Superpages to take into the buffer; the full ones must be programmed, the last of a zone logged again.
    pub staged: Vec<Staged>,
    /// Zones that are read-only or offline, which must be logged again.
    pub verdicts: Vec<Verdict>,
    /// Blocks of the log in write order: each may be erased when neither it nor any earlier block holds data that exist only there.
    pub log: Vec<BlockId>,
    /// Zones of which the log holds, or held, a superpage.
    pub logged: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    mark: Mark,
    sequence: u64,
    block: BlockId,
    at: u32,
}

impl Zones {
    fn place_of(&self, found: &Found) -> Ppa {
        self.layout.ppa(found.block, found.at * self.layout.units_per_superpage)
    }
}

/// Superpages on the media, as a scan of all blocks finds them.
struct Scan {
    /// By zone: its own superpages, and those of the log.
    data: Vec<Vec<Found>>,
    log: Vec<Vec<Found>>,
    /// Blocks that hold something.
    used: Vec<BlockId>,
    /// Blocks of the log, and the first sequence number of each.
    log_blocks: BTreeMap<BlockId, u64>,
}

impl Scan {
    /// Scans all blocks: sets their erases, gives those that hold nothing to the pool, and raises sequence and epoch of `zones` above all
    /// that was found.
    fn of(zones: &mut Zones, source: &impl MountSource, mark: impl Fn(Ppa) -> Option<Mark>) -> Scan {
        let lists = vec![Vec::new(); zones.zones.len()];
        let mut scan =
            Scan { data: lists.clone(), log: lists, used: Vec::new(), log_blocks: BTreeMap::new() };
        for block in zones.pool.all() {
            zones.pool.set_erases(block, source.erases(block));
            let superpages = source.used_superpages(block);
            match (superpages, source.is_bad(block)) {
                (0, true) => zones.pool.retire(block),
                (0, false) => zones.pool.give(block),
                _ => scan.used.push(block),
            }
            for at in 0..superpages {
                let ppa = zones.layout.ppa(block, at * zones.layout.units_per_superpage);
                let (Some((lpn, sequence)), Some(mark)) = (source.spare(ppa), mark(ppa)) else { continue };
                zones.sequence = zones.sequence.max(sequence + SEQUENCE_GAP);
                zones.epoch = zones.epoch.max(mark.epoch + 1);
                scan.enter(lpn == LOG, Found { mark, sequence, block, at });
            }
        }
        scan
    }

    fn enter(&mut self, is_log: bool, found: Found) {
        if is_log {
            let first = self.log_blocks.entry(found.block).or_insert(found.sequence);
            *first = found.sequence.min(*first);
        }
        let into = if is_log { &mut self.log } else { &mut self.data };
        if let Some(list) = into.get_mut(found.mark.zone as usize) {
            list.push(found);
        }
    }

    /// The newest verdict of the log on a zone.
    fn verdict(&self, zone: usize) -> Option<(ZoneState, BlockId)> {
        let verdicts = self.log[zone].iter().filter(|f| f.mark.verdict.is_some());
        let newest = verdicts.max_by_key(|f| f.sequence)?;
        Some((newest.mark.verdict?, newest.block))
    }

    /// Blocks of the log in the order in which they were written.
    fn log_in_order(&self) -> Vec<BlockId> {
        let mut log: Vec<BlockId> = self.log_blocks.keys().copied().collect();
        log.sort_by_key(|block| self.log_blocks[block]);
        log
    }
}

/// Sets `zones` to the state of the media, and of the data `saved` from a protected buffer.
pub(crate) fn find(
    zones: &mut Zones,
    source: &impl MountSource,
    mark: impl Fn(Ppa) -> Option<Mark>,
    saved: &[SavedSuperpage],
) -> ZoneMount {
    for saved in saved {
        zones.epoch = zones.epoch.max(saved.mark.epoch + 1);
    }
    let scan = Scan::of(zones, source, mark);
    let mut holding = BTreeSet::new();
    let mut mount = ZoneMount { log: scan.log_in_order(), ..ZoneMount::default() };
    for zone in 0..zones.zones.len() {
        let verdict = scan.verdict(zone);
        let (chain, staged) = match verdict {
            Some((ZoneState::Offline, _)) => Default::default(),
            _ => {
                let saved = saved.iter().filter(|s| s.mark.zone as usize == zone);
                chain(zones, &scan.data[zone], &scan.log[zone], saved)
            }
        };
        holding.extend(chain.iter().map(|found| found.block));
        settle(zones, zone as u32, &chain, &staged, source);
        if let Some((state, block)) = verdict {
            zones.zones[zone].state = state;
            mount.verdicts.push(Verdict { zone: zone as u32, state, block });
        }
        if scan.log[zone].iter().any(|f| f.mark.verdict.is_none()) {
            mount.logged.push(zone as u32);
        }
        mount.staged.extend(staged);
    }
    for &block in &scan.used {
        match (holding.contains(&block) || scan.log_blocks.contains_key(&block), source.is_bad(block)) {
            (true, true) => zones.pool.mark_failed(block),
            (true, false) => {}
            (false, true) => {
                zones.pool.retire(block);
                mount.invalidate.push(block);
            }
            (false, false) => mount.erase.push(block),
        }
    }
    mount
}

/// Chains the valid superpages of a zone, from the zone itself and from the log or a saved buffer. Programs on several dies end in any
/// order, so either may follow the other.
fn chain<'a>(
    zones: &Zones,
    data: &[Found],
    log: &[Found],
    saved: impl Iterator<Item = &'a SavedSuperpage> + Clone,
) -> (Vec<Found>, Vec<Staged>) {
    if data.is_empty() && log.is_empty() && saved.clone().next().is_none() {
        return Default::default();
    }
    let data = newest(zones.superpages(), data.iter());
    // Log entries from before a reset belong to an earlier life. A reset that superpage 0 has outlived did not happen.
    let first = data[0].map_or(u64::MAX, |f| f.sequence);
    let log = log.iter().filter(|f| f.mark.verdict.is_none());
    let resets = log.clone().filter(|f| f.mark.sectors == 0 && f.sequence < first);
    let reset = resets.map(|f| f.sequence).max().unwrap_or(0);
    let log = newest(zones.superpages(), log.filter(|f| f.sequence > reset));
    let (mut chain, mut staged, mut epoch) = (Vec::new(), Vec::new(), 0);
    for superpage in 0..zones.superpages() {
        let in_zone = data[superpage as usize].filter(|f| f.mark.epoch >= epoch);
        let mark = match in_zone {
            Some(found) => {
                chain.push(found);
                found.mark
            }
            None => {
                let in_log = log[superpage as usize].filter(|f| f.mark.epoch >= epoch);
                let in_log = in_log.map(|f| (f.mark, Some(f.sequence), StagedIn::Log(zones.place_of(&f))));
                let same = |s: &&SavedSuperpage| s.mark.superpage == superpage && s.mark.epoch >= epoch;
                let in_save = saved.clone().filter(same).map(|s| (s.mark, None, StagedIn::Save(s.place)));
                // The buffer continues from the log; among those with as much data, the last one is the buffer.
                let most = in_log.into_iter().chain(in_save).max_by_key(|(mark, ..)| mark.sectors);
                let Some((mark, sequence, from)) = most else { break };
                let Mark { zone, sectors, epoch, .. } = mark;
                staged.push(Staged { zone, superpage, sectors, epoch, sequence, from });
                mark
            }
        };
        epoch = epoch.max(mark.epoch);
        if mark.sectors < zones.superpage_sectors || mark.finished {
            break;
        }
    }
    (chain, staged)
}

/// The newest informative copy of each superpage.
fn newest<'a>(superpages: u32, found: impl Iterator<Item = &'a Found>) -> Vec<Option<Found>> {
    let mut newest: Vec<Option<Found>> = vec![None; superpages as usize];
    for found in found.filter(|f| f.mark.sectors > 0 || f.mark.finished) {
        if let Some(slot) = newest.get_mut(found.mark.superpage as usize)
            && slot.is_none_or(|other| other.sequence <= found.sequence)
        {
            *slot = Some(*found);
        }
    }
    newest
}

fn settle(zones: &mut Zones, zone: u32, chain: &[Found], staged: &[Staged], source: &impl MountSource) {
    let dies_per_zone = zones.config.dies_per_zone;
    let rows = zones.layout.superpages_per_block;
    let mut columns = vec![Column::default(); dies_per_zone as usize];
    for found in chain {
        let Found { block, at, .. } = *found;
        let (column, row) = (found.mark.superpage % dies_per_zone, found.mark.superpage / dies_per_zone);
        let column = &mut columns[column as usize];
        match column.extents.last_mut().filter(|last| last.goes_on(block, at, row)) {
            Some(last) => last.count += 1,
            None => column.extents.push(Extent { row, block, at, count: 1 }),
        }
        let old = zones.sequence.saturating_sub(source.begun(block)) >= BLOCK_SEQUENCES;
        column.next_at = if source.is_bad(block) || old { rows } else { source.used_superpages(block) };
    }
    let written: u32 = chain.iter().map(|f| f.mark.sectors).sum();
    let pointer = written + staged.iter().map(|s| s.sectors).sum::<u32>();
    let finished = chain.last().is_some_and(|last| last.mark.finished);
    let record = &mut zones.zones[zone as usize];
    (record.columns, record.pointer, record.data) = (columns, pointer, pointer);
    record.state = if finished || u64::from(pointer) == zones.geometry.capacity_sectors {
        ZoneState::Full
    } else if pointer > 0 {
        ZoneState::Closed
    } else {
        ZoneState::Empty
    };
}
