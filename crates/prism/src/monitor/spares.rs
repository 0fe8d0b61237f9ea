//! Spare chunks: they replace bad ones; leftovers in them are erased.

use super::Monitor;
use super::calls::{self, Wait};
use super::config::MonitorError;
use pellucid_flash::{ChunkInfo, ChunkOp, ChunkState, Drive, Opcode, Status};

/// Good chunks of a LUN that are neither shown nor used for records.
pub(super) fn spares<D: Drive>(monitor: &Monitor<D>, lun: u32) -> impl Iterator<Item = u32> {
    let chunks = monitor.geometry.chunks;
    monitor.state.hidden(lun, chunks).filter(move |&chunk| !monitor.records.keeps(lun * chunks + chunk))
}

/// Handles a bad chunk of a LUN: replaces it with a spare, if it was shown. Returns whether the LUN still shows as many good
/// chunks as before.
pub(super) fn put_aside<D: Drive>(monitor: &mut Monitor<D>, lun: u32, chunk: u32) -> bool {
    let number = lun * monitor.geometry.chunks;
    let is_usable = |&spare: &u32| spare != chunk && !monitor.leveller.uses(number + spare);
    let spare = spares(monitor, lun).find(is_usable);
    monitor.state.put_aside(lun, chunk, spare)
}

/// Erases chunks; returns those that could not be erased.
fn erase<D: Drive>(
    monitor: &mut Monitor<D>,
    dirty: &[u32],
    wait: &mut impl Wait<D>,
) -> Result<Vec<u32>, MonitorError> {
    let reset = |&chunk: &u32| calls::own(monitor, Opcode::Chunk(ChunkOp::Reset), chunk, 0, 0, Vec::new());
    let resets = dirty.iter().map(reset).collect();
    let ended = calls::call(monitor, resets, wait)?;
    let mut bad = Vec::new();
    for (&chunk, ended) in dirty.iter().zip(ended) {
        match ended.status {
            Status::Success => monitor.state.count_erase(chunk / monitor.geometry.chunks),
            _ => bad.push(chunk),
        }
    }
    Ok(bad)
}

/// Erases the written blocks of these LUNs, and replaces bad blocks by spares. A LUN with too few good blocks is retired.
pub(super) fn clean<D: Drive>(
    monitor: &mut Monitor<D>,
    luns: &[u32],
    wait: &mut impl Wait<D>,
) -> Result<(), MonitorError> {
    let chunks = monitor.geometry.chunks;
    let infos = calls::infos(monitor, luns.iter().map(|lun| (lun * chunks, chunks)).collect(), wait)?;
    let numbers = luns.iter().flat_map(|lun| lun * chunks..(lun + 1) * chunks);
    let (mut bad, mut dirty) = (Vec::new(), Vec::new());
    for (chunk, info) in numbers.zip(infos).filter(|&(chunk, _)| !monitor.records.keeps(chunk)) {
        match info.state {
            ChunkState::Free => {}
            ChunkState::Offline => bad.push(chunk),
            ChunkState::Open | ChunkState::Closed => dirty.push(chunk),
        }
    }
    bad.extend(erase(monitor, &dirty, wait)?);
    for chunk in bad {
        let (lun, in_lun) = (chunk / chunks, chunk % chunks);
        if !monitor.state.is_bad(lun, in_lun) && !put_aside(monitor, lun, in_lun) {
            monitor.state.withdraw(lun);
        }
    }
    Ok(())
}

/// Erases written spares, and replaces bad blocks by spares. `fresh`: the state is new, so LUNs without enough good blocks are retired.
pub(super) fn tidy<D: Drive>(
    monitor: &mut Monitor<D>,
    infos: &[ChunkInfo],
    fresh: bool,
    wait: &mut impl Wait<D>,
) -> Result<(), MonitorError> {
    let chunks = monitor.geometry.chunks;
    let is_written =
        |&chunk: &u32| matches!(infos[chunk as usize].state, ChunkState::Open | ChunkState::Closed);
    let of_lun = |lun: u32| spares(monitor, lun).map(move |spare| lun * chunks + spare);
    let luns = 0..monitor.geometry.parallel_units();
    let dirty: Vec<u32> = luns.flat_map(of_lun).filter(is_written).collect();
    let mut bad = erase(monitor, &dirty, wait)?;
    let offline =
        |&chunk: &u32| infos[chunk as usize].state == ChunkState::Offline && !monitor.records.keeps(chunk);
    bad.extend((0..infos.len() as u32).filter(offline));
    // Bad spares come first, so that none of them replaces another block.
    bad.sort_by_key(|&chunk| monitor.state.block_of(chunk / chunks, chunk % chunks).is_some());
    for chunk in bad {
        let lun = chunk / chunks;
        if !put_aside(monitor, lun, chunk % chunks) && fresh {
            monitor.state.withdraw(lun);
        }
    }
    Ok(())
}

/// Replaces the bad block of an application that was erased; returns the spare by the drive's number.
pub(super) fn replace<D: Drive>(monitor: &mut Monitor<D>, chunk: u32) -> Option<u32> {
    let (lun, in_lun) = (chunk / monitor.geometry.chunks, chunk % monitor.geometry.chunks);
    let block = monitor.state.block_of(lun, in_lun)?;
    let replaced = put_aside(monitor, lun, in_lun);
    replaced.then(|| lun * monitor.geometry.chunks + monitor.state.chunk_of(lun, block))
}
