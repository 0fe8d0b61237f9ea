//! Lines whose start cannot be read, or whose first chunk is offline: their chunks say whose they are.
//!
//! ```text
//!  a start fails ─► out-of-band data of all chunks that no known line has ─┬─ signed: the line is put together again, and closed
//!                                                                          └─ nobody's, nor are others of a line without start: reset
//! ```
//! A crash may have torn a start, or the reset of a whole chunk; or a reset has failed, and put the chunk out of use. Then nothing in
//! the line is needed, and a line put together for nothing is soon reset as one that holds nothing valid. Invariant: what cannot be
//! read is no reason to reset what can be.

use super::needs::Need;
use super::{Phase, Start};
use crate::ftl::{HostFtl, HostFtlError, meta};
use pellucid_flash::{BlockId, ChunkInfo, ChunkState, Completion, Lba, Vector};
use pellucid_ftl::{Durability, PageMap};
use std::collections::{BTreeMap, BTreeSet};

impl HostFtl {
    /// All starts have been read, or cannot be. Where some cannot, the chunks of no known line are asked whose they are.
    pub(super) fn starts_read(&mut self, start: &mut Start) {
        let owned = start.settle_claims();
        let asked = start.chunks.values().filter(|info| {
            is_in_use(info) && !owned.contains(&info.start.0) && self.owner_addresses(info).next().is_some()
        });
        let asked: Vec<Need> = asked.map(|info| Need::Owner(info.start)).collect();
        // Of one that is offline nothing can be asked: it may have held the start of any line that lacks one.
        let offline =
            start.chunks.values().filter(|info| self.is_offline_head(info)).map(|info| info.start.0);
        let offline: Vec<u64> = offline.filter(|_| !asked.is_empty()).collect();
        start.lost.extend(&offline);
        start.silent.extend(&offline);
        if start.lost.is_empty() {
            return self.begin_repair(start);
        }
        start.phase = Phase::Owners;
        start.needs = asked;
        start.next = 0;
        self.send_needs(start);
    }

    fn is_offline_head(&self, info: &ChunkInfo) -> bool {
        info.state == ChunkState::Offline && self.lines.unit_of(info.start).is_some_and(|(unit, _)| unit == 0)
    }

    /// Whether the chunk with the start of a line is offline, so that what else it held is not known either.
    pub(super) fn lacks_head(&self, start: &Start, line: BlockId) -> bool {
        let chunk = self.lines.chunk_of(line, 0).and_then(|chunk| start.chunks.get(&chunk.0));
        chunk.is_some_and(|info| self.is_offline_head(info))
    }

    /// A line that had to be scanned holds something still, but what its offline chunk held is not known. One of which nothing is needed
    /// was being reset, most likely.
    pub(super) fn refuse_blind(&mut self, start: &Start, map: &PageMap) -> bool {
        if self.engine.durability == Durability::Volatile {
            return false;
        }
        let Some(&line) = start.blind.iter().find(|&&line| map.valid_units(BlockId(line)) > 0) else {
            return false;
        };
        let sentence = format!(
            "the first chunk of line {line} is offline, and what it held is recorded nowhere else, so that an older copy could be taken for \
             the newest; the line was not reset"
        );
        self.failure = Some(HostFtlError::Drive(sentence));
        true
    }

    /// Sectors that say whose a chunk is: one of each row that the drive gives.
    pub(super) fn owner_addresses(&self, info: &ChunkInfo) -> impl Iterator<Item = Lba> + use<> {
        let (first, superpage) = (info.start.0, self.lines.superpage_sectors);
        let held = if info.state == ChunkState::Open { self.lines.held_rows } else { 0 };
        let rows =
            info.write_pointer.div_ceil(superpage).saturating_sub(held).min(Vector::ADDRESSES_MAX as u32);
        (0..rows).map(move |row| Lba(first + u64::from(row * superpage)))
    }

    /// A chunk has said whose it is, or cannot.
    pub(super) fn learn_owner(&self, start: &mut Start, chunk: Lba, completion: &Completion) {
        let oob = completion.vector.as_ref().map_or(&[][..], |vector| &vector.metadata);
        let signed = oob.chunks_exact(meta::OOB_BYTES).filter_map(|bytes| {
            (0..self.lines.layout().blocks).find_map(|line| {
                let (_, sequence) = meta::parse_oob(bytes, self.config.uuid, BlockId(line))?;
                Some((line, sequence))
            })
        });
        match signed.reduce(|one, other| (one.0, one.1.max(other.1))) {
            Some(owner) => _ = start.owners.insert(chunk.0, owner),
            None => _ = start.silent.insert(chunk.0),
        }
    }

    /// Puts the lines together whose starts are lost, and goes on; or fails, where that could destroy something.
    pub(super) fn rebuild_lost(&mut self, start: &mut Start) {
        match self.find_lost(start) {
            Ok(found) => {
                start.rebuilt = found.keys().copied().collect();
                start.starts.extend(found);
                self.begin_repair(start);
            }
            Err(sentence) => self.failure = Some(HostFtlError::Drive(sentence)),
        }
    }

    fn find_lost(&self, start: &Start) -> Result<BTreeMap<u32, (u64, Vec<Lba>)>, String> {
        let mut taken = start.owned();
        let mut found = BTreeMap::new();
        for (line, (sequence, chunk)) in heads(start) {
            let refuse = |why: &str| {
                Err(format!(
                    "the start of line {line}, in the chunk at sector {chunk}, cannot be read, and {why}; nothing was reset"
                ))
            };
            match start.starts.get(&line) {
                Some(&(known, _)) if sequence > known => return refuse("it has another one, which is older"),
                Some(_) => {}
                // Its reset was torn, most likely. A drive that holds sectors back gives what lies beside those that fail.
                None if self.lines.held_rows > 0 && start.silent.contains(&chunk) => {}
                None if self.lines.held_rows > 0 => {
                    return refuse("the drive holds back what its other chunks would say");
                }
                None => match self.members(start, line, chunk, &mut taken) {
                    Some(chunks) => _ = found.insert(line, (sequence, chunks)),
                    None => return refuse("no free chunk can stand in for one that it lacks"),
                },
            }
        }
        Ok(found)
    }

    /// The chunks of a line, from the one that holds its start and what others say. Where none of a parallel unit does, it is one that
    /// says nothing at all, or was not written, so that a free one can stand in.
    fn members(&self, start: &Start, line: u32, head: u64, taken: &mut BTreeSet<u64>) -> Option<Vec<Lba>> {
        taken.insert(head);
        let mut chunks = vec![Lba(head)];
        for unit in 1..self.lines.units {
            let of_unit = |chunk: u64| self.lines.unit_of(Lba(chunk)).is_some_and(|(of, _)| of == unit);
            // An older one has failed in a former life of the line.
            let signed = start.owners.iter().filter(|(chunk, owner)| owner.0 == line && of_unit(**chunk));
            let newest = signed.max_by_key(|(_, owner)| owner.1).map(|(&chunk, _)| chunk);
            let may = |chunk: u64| of_unit(chunk) && !taken.contains(&chunk);
            let silent = || start.silent.iter().copied().find(|&chunk| may(chunk));
            let is_free = |info: &&ChunkInfo| info.state == ChunkState::Free && may(info.start.0);
            let free = || start.chunks.values().find(is_free).map(|info| info.start.0);
            let chunk = newest.or_else(silent).or_else(free)?;
            taken.insert(chunk);
            chunks.push(Lba(chunk));
        }
        Some(chunks)
    }
}

/// Lines without a start: the newest sequence number that is known of each, and the chunk that held its start.
fn heads(start: &Start) -> BTreeMap<u32, (u64, u64)> {
    let mut heads: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for chunk in &start.lost {
        if let Some(&(line, sequence)) = start.owners.get(chunk) {
            let head = heads.entry(line).or_insert((sequence, *chunk));
            *head = (*head).max((sequence, *chunk));
        }
    }
    // Others are known by other chunks only. Which of those that say nothing is theirs does not matter: nothing of it can be read.
    let mut others: BTreeMap<u32, u64> = BTreeMap::new();
    for &(line, sequence) in start.owners.values() {
        if !start.starts.contains_key(&line) && !heads.contains_key(&line) {
            let newest = others.entry(line).or_default();
            *newest = sequence.max(*newest);
        }
    }
    let mut others: Vec<(u64, u32)> = others.into_iter().map(|(line, sequence)| (sequence, line)).collect();
    // What is left over of lines that are no more, on chunks that failed, is older.
    others.sort_unstable_by(|one, other| other.cmp(one));
    let silent = start.lost.iter().filter(|chunk| start.silent.contains(chunk));
    heads.extend(others.into_iter().zip(silent).map(|((sequence, line), &chunk)| (line, (sequence, chunk))));
    heads
}

fn is_in_use(info: &ChunkInfo) -> bool {
    matches!(info.state, ChunkState::Open | ChunkState::Closed)
}

impl Start {
    /// The newest line has a chunk. The start of a line that is long gone, on a chunk that failed, has other chunks of other owners.
    /// Gives the chunks of the lines that are left.
    pub(super) fn settle_claims(&mut self) -> BTreeSet<u64> {
        let mut claims: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for (&line, (sequence, chunks)) in &self.starts {
            for chunk in chunks {
                let claim = claims.entry(chunk.0).or_insert((*sequence, line));
                *claim = (*claim).max((*sequence, line));
            }
        }
        self.starts.retain(|line, (_, chunks)| {
            chunks.iter().all(|c| claims[&c.0].1 == *line && self.chunks.contains_key(&c.0))
        });
        self.owned()
    }

    /// The chunks of the lines found.
    pub(super) fn owned(&self) -> BTreeSet<u64> {
        self.starts.values().flat_map(|(_, chunks)| chunks.iter().map(|c| c.0)).collect()
    }
}
