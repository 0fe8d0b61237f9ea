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

use super::ask;
use super::facts::{Facts, Found};
use super::needs::Need;
use crate::ftl::shape::FtlShape;
use pellucid_flash::{BlockId, ChunkInfo, ChunkState, Lba};
use pellucid_ftl::{Durability, PageMap};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the chunks without a known line whose signatures are to be read, once all starts have been read or found unreadable; `None` if
/// every start is known.
pub(super) fn owners_to_ask(shape: &FtlShape, facts: &mut Facts) -> Option<Vec<Need>> {
    let owned = facts.settle_claims();
    let asked = facts.chunks().filter(|info| {
        is_in_use(info)
            && !owned.contains(&info.start.0)
            && ask::owner_addresses(shape, info).next().is_some()
    });
    let asked: Vec<Need> = asked.map(|info| Need::Owner(info.start)).collect();
    // An offline chunk cannot be read: it may have held the start of any line that lacks one.
    let offline = facts.chunks().filter(|info| ask::is_offline_head(shape, info)).map(|info| info.start.0);
    let offline: Vec<u64> = offline.filter(|_| !asked.is_empty()).collect();
    facts.lost_offline(&offline);
    (!facts.lost().is_empty()).then_some(asked)
}

/// Reports whether a chunk holds data.
pub(super) fn is_in_use(info: &ChunkInfo) -> bool {
    matches!(info.state, ChunkState::Open | ChunkState::Closed)
}

/// Returns the reason to refuse the start, if a scanned line has valid data but also an offline chunk with unknown content. A
/// line without valid data was most likely being reset.
pub(super) fn blind_line(shape: &FtlShape, facts: &Facts, map: &PageMap) -> Option<String> {
    if shape.config.durability == Durability::Volatile {
        return None;
    }
    let line = facts.blind().iter().find(|&&line| map.blocks().valid_units(BlockId(line)) > 0)?;
    Some(format!(
        "the first chunk of line {line} is offline, and what it held is recorded nowhere else, so that an older copy could be taken for \
         the newest; the line was not reset"
    ))
}

/// Rebuilds the lines whose starts are lost.
///
/// # Errors
/// The error says which line could not be rebuilt without a risk for data.
pub(super) fn find_lost(shape: &FtlShape, facts: &Facts) -> Result<Found, String> {
    let mut taken = facts.owned();
    let mut found = BTreeMap::new();
    for (line, (sequence, chunk)) in heads(facts) {
        let refuse = |why: &str| {
            Err(format!(
                "the start of line {line}, in the chunk at sector {chunk}, cannot be read, and {why}; nothing was reset"
            ))
        };
        match facts.starts().get(&line) {
            Some(&(known, _)) if sequence > known => return refuse("it has another one, which is older"),
            Some(_) => {}
            // The reset of the chunk was most likely torn. A drive that holds sectors back still returns
            // those beside failed ones.
            None if shape.held_rows > 0 && facts.silent().contains(&chunk) => {}
            None if shape.held_rows > 0 => {
                return refuse("the drive holds back what its other chunks would say");
            }
            None => match members(shape, facts, line, chunk, &mut taken) {
                Some(chunks) => _ = found.insert(line, (sequence, chunks)),
                None => return refuse("no free chunk can stand in for one that it lacks"),
            },
        }
    }
    Ok(found)
}

/// Returns the chunks of a line: the chunk with its header, and those signed by the line. A parallel
/// unit without such a chunk contributes an unsigned or unwritten one, because a free chunk can stand
/// in.
fn members(
    shape: &FtlShape,
    facts: &Facts,
    line: u32,
    head: u64,
    taken: &mut BTreeSet<u64>,
) -> Option<Vec<Lba>> {
    taken.insert(head);
    let mut chunks = vec![Lba(head)];
    for unit in 1..shape.units {
        let of_unit = |chunk: u64| shape.unit_of(Lba(chunk)).is_some_and(|(of, _)| of == unit);
        // An older chunk failed in an earlier life of the line.
        let signed = facts.owners().iter().filter(|(chunk, owner)| owner.0 == line && of_unit(**chunk));
        let newest = signed.max_by_key(|(_, owner)| owner.1).map(|(&chunk, _)| chunk);
        let may = |chunk: u64| of_unit(chunk) && !taken.contains(&chunk);
        let silent = || facts.silent().iter().copied().find(|&chunk| may(chunk));
        let is_free = |info: &&ChunkInfo| info.state == ChunkState::Free && may(info.start.0);
        let free = || facts.chunks().find(is_free).map(|info| info.start.0);
        let chunk = newest.or_else(silent).or_else(free)?;
        taken.insert(chunk);
        chunks.push(Lba(chunk));
    }
    Some(chunks)
}

/// Returns the lines without a start, with the newest known sequence number of each and the chunk that held
/// its start.
fn heads(facts: &Facts) -> BTreeMap<u32, (u64, u64)> {
    let mut heads: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for chunk in facts.lost() {
        if let Some(&(line, sequence)) = facts.owners().get(chunk) {
            let head = heads.entry(line).or_insert((sequence, *chunk));
            *head = (*head).max((sequence, *chunk));
        }
    }
    // The remaining lines are known only from their other chunks. Any chunk without a signature may stand for
    // their start, because none of it can be read.
    let mut others: BTreeMap<u32, u64> = BTreeMap::new();
    for &(line, sequence) in facts.owners().values() {
        if !facts.starts().contains_key(&line) && !heads.contains_key(&line) {
            let newest = others.entry(line).or_default();
            *newest = sequence.max(*newest);
        }
    }
    let mut others: Vec<(u64, u32)> = others.into_iter().map(|(line, sequence)| (sequence, line)).collect();
    // Remnants of lines that no longer exist, on chunks that failed, are older.
    others.sort_unstable_by(|one, other| other.cmp(one));
    let silent = facts.lost().iter().filter(|chunk| facts.silent().contains(chunk));
    heads.extend(others.into_iter().zip(silent).map(|((sequence, line), &chunk)| (line, (sequence, chunk))));
    heads
}
