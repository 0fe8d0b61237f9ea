//! Recovery of lines whose start is unreadable, or whose first chunk is offline: signatures in the chunks
//! name their line.
//!
//! ```text
//!  a start fails ─► out-of-band data of all chunks that no known line has ─┬─ signed: the line is put together again, and closed
//!                                                                          └─ nobody's, nor are others of a line without start: reset
//! ```
//! A crash may have torn a start, or the reset of a whole chunk; or a reset failed and retired the chunk. In
//! these cases the line holds no needed data, and a line that was rebuilt needlessly is soon reset as an
//! empty one. Invariant: unreadable sectors are no reason to reset readable ones.

use super::needs::Need;
use super::{Phase, Start};
use crate::ftl::{HostFtl, HostFtlError, meta};
use pellucid_flash::{BlockId, ChunkInfo, ChunkState, Completion, Lba, Vector};
use pellucid_ftl::{Durability, PageMap};
use std::collections::{BTreeMap, BTreeSet};

impl HostFtl {
    /// Continues once all starts have been read or found unreadable. If any is unreadable, the signatures of
    /// chunks without a known line are read.
    pub(super) fn starts_read(&mut self, start: &mut Start) {
        let owned = start.settle_claims();
        let asked = start.chunks.values().filter(|info| {
            is_in_use(info) && !owned.contains(&info.start.0) && self.owner_addresses(info).next().is_some()
        });
        let asked: Vec<Need> = asked.map(|info| Need::Owner(info.start)).collect();
        // An offline chunk cannot be read: it may have held the start of any line that lacks one.
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

    /// Reports whether the chunk with the line's start is offline, so that the chunk's other content is also
    /// unknown.
    pub(super) fn lacks_head(&self, start: &Start, line: BlockId) -> bool {
        let chunk = self.lines.chunk_of(line, 0).and_then(|chunk| start.chunks.get(&chunk.0));
        chunk.is_some_and(|info| self.is_offline_head(info))
    }

    /// Refuses the start if a scanned line has valid data but also an offline chunk with unknown content. A
    /// line without valid data was most likely being reset.
    pub(super) fn refuse_blind(&mut self, start: &Start, map: &PageMap) -> bool {
        if self.engine.durability == Durability::Volatile {
            return false;
        }
        let Some(&line) = start.blind.iter().find(|&&line| map.blocks().valid_units(BlockId(line)) > 0)
        else {
            return false;
        };
        let sentence = format!(
            "the first chunk of line {line} is offline, and what it held is recorded nowhere else, so that an older copy could be taken for \
             the newest; the line was not reset"
        );
        self.failure = Some(HostFtlError::Drive(sentence));
        true
    }

    /// Returns the sectors with a chunk's signatures: one of each readable row.
    pub(super) fn owner_addresses(&self, info: &ChunkInfo) -> impl Iterator<Item = Lba> + use<> {
        let (first, superpage) = (info.start.0, self.lines.superpage_sectors);
        let held = if info.state == ChunkState::Open { self.lines.held_rows } else { 0 };
        let rows =
            info.write_pointer.div_ceil(superpage).saturating_sub(held).min(Vector::ADDRESSES_MAX as u32);
        (0..rows).map(move |row| Lba(first + u64::from(row * superpage)))
    }

    /// Notes the line that a chunk's signatures name, if they are readable.
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

    /// Rebuilds the lines whose starts are lost, and continues; fails if that could destroy data.
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
                // The reset of the chunk was most likely torn. A drive that holds sectors back still returns
                // those beside failed ones.
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

    /// Returns the chunks of a line: the one with its start, and those signed by the line. A parallel unit
    /// without such a chunk contributes one without any signature, or an unwritten one, because a free chunk
    /// can stand in.
    fn members(&self, start: &Start, line: u32, head: u64, taken: &mut BTreeSet<u64>) -> Option<Vec<Lba>> {
        taken.insert(head);
        let mut chunks = vec![Lba(head)];
        for unit in 1..self.lines.units {
            let of_unit = |chunk: u64| self.lines.unit_of(Lba(chunk)).is_some_and(|(of, _)| of == unit);
            // An older chunk failed in an earlier life of the line.
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

/// Returns the lines without a start, with the newest known sequence number of each and the chunk that held
/// its start.
fn heads(start: &Start) -> BTreeMap<u32, (u64, u64)> {
    let mut heads: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for chunk in &start.lost {
        if let Some(&(line, sequence)) = start.owners.get(chunk) {
            let head = heads.entry(line).or_insert((sequence, *chunk));
            *head = (*head).max((sequence, *chunk));
        }
    }
    // The remaining lines are known only from their other chunks. Any chunk without a signature may stand for
    // their start, because none of it can be read.
    let mut others: BTreeMap<u32, u64> = BTreeMap::new();
    for &(line, sequence) in start.owners.values() {
        if !start.starts.contains_key(&line) && !heads.contains_key(&line) {
            let newest = others.entry(line).or_default();
            *newest = sequence.max(*newest);
        }
    }
    let mut others: Vec<(u64, u32)> = others.into_iter().map(|(line, sequence)| (sequence, line)).collect();
    // Remnants of lines that no longer exist, on chunks that failed, are older.
    others.sort_unstable_by(|one, other| other.cmp(one));
    let silent = start.lost.iter().filter(|chunk| start.silent.contains(chunk));
    heads.extend(others.into_iter().zip(silent).map(|((sequence, line), &chunk)| (line, (sequence, chunk))));
    heads
}

fn is_in_use(info: &ChunkInfo) -> bool {
    matches!(info.state, ChunkState::Open | ChunkState::Closed)
}

impl Start {
    /// Assigns each chunk to the newest line that claims it. An obsolete start on a failed chunk claims
    /// chunks that other lines own; such lines are dropped. Returns the chunks of the remaining lines.
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

    /// Returns the chunks of the lines that were found.
    pub(super) fn owned(&self) -> BTreeSet<u64> {
        self.starts.values().flat_map(|(_, chunks)| chunks.iter().map(|c| c.0)).collect()
    }
}
