//! The start of a monitor: finds its state, and erases leftovers of a power cut.

use super::calls::{self, Wait};
use super::records::Records;
use super::ring::Ring;
use super::state::State;
use super::{Monitor, MonitorConfig, MonitorError, route, save, spares};
use pellucid_flash::{ChunkGeometry, ChunkInfo, ChunkState, Completion, Drive, Opcode, Status};

/// A whole record found at the start.
#[derive(Clone, Debug)]
struct Found {
    number: u64,
    chunk: u32,
    bytes: Vec<u8>,
}

/// The state of blank media without bad blocks.
pub(super) fn blank(
    drive: &ChunkGeometry,
    records: &Records,
    config: &MonitorConfig,
) -> Result<State, MonitorError> {
    let luns = drive.parallel_units();
    let hidden = config.hidden_blocks(drive.chunks, luns);
    let shown = drive.chunks.checked_sub(hidden).filter(|&shown| shown > 0);
    let shown = shown.ok_or(MonitorError::TooSmall { blocks: drive.chunks, hidden })?;
    let state = State::blank(luns, shown);
    // Largest possible size: each LUN has its own application with the longest name, and two are being swapped.
    let most = state.encode(drive, 0).len() + luns as usize * (256 + 28) + shown as usize + 8;
    let (needs, has) = (records.record_pages(most), drive.chunk_sectors / drive.write_min_sectors);
    match needs <= has {
        true => Ok(state),
        false => Err(MonitorError::StateTooLarge { needs, has }),
    }
}

/// Finds the state, or creates one.
pub(super) fn load<D: Drive>(
    monitor: &mut Monitor<D>,
    format: bool,
    wait: &mut impl Wait<D>,
) -> Result<(), MonitorError> {
    monitor.leveller.pause(true);
    let (chunks, luns) = (monitor.geometry.chunks, monitor.geometry.parallel_units());
    let infos = calls::infos(monitor, (0..luns).map(|lun| (lun * chunks, chunks)).collect(), wait)?;
    if infos.len() != (luns * chunks) as usize {
        return Err(MonitorError::NoAnswer);
    }
    let (found, strange) = find_records(monitor, &infos, wait)?;
    let best = found.iter().flatten().max_by_key(|found| found.number);
    let fresh = format || best.is_none();
    if fresh && !format {
        refuse_foreign(monitor, &infos, strange)?;
    }
    monitor.state = match best.filter(|_| !fresh) {
        Some(best) => State::decode(&monitor.geometry, &best.bytes).ok_or(MonitorError::OtherDrive)?,
        None => blank(&monitor.geometry, &monitor.records, &monitor.config)?,
    };
    let rings = rings(monitor, &infos, &found);
    monitor.records.resume(best.map_or(1, |best| best.number + 1), rings);
    let recorded = (!fresh).then(|| monitor.state.clone());
    spares::tidy(monitor, &infos, fresh, wait)?;
    if recorded.as_ref() != Some(&monitor.state) {
        match (save::save_by(monitor, wait), recorded) {
            // The recorded state stays unchanged: bad blocks are no longer replaced, and everything else continues.
            (Err(MonitorError::NoState), Some(recorded)) => monitor.state = recorded,
            (saved, _) => saved?,
        }
    }
    for app in 0..monitor.namespaces.count() {
        let view = monitor.state.application(app).map(|app| monitor.view_of(app));
        monitor.namespaces.set_view(app, view);
    }
    monitor.leveller.pause(false);
    route::pump(monitor);
    Ok(())
}

/// Refuses media with foreign data; `strange`: number of chunks for records that hold some.
fn refuse_foreign<D: Drive>(
    monitor: &Monitor<D>,
    infos: &[ChunkInfo],
    strange: u32,
) -> Result<(), MonitorError> {
    let written = (0..).zip(infos).filter(|&(chunk, info)| {
        !matches!(info.state, ChunkState::Free | ChunkState::Offline) && !monitor.records.keeps(chunk)
    });
    match written.count() as u32 + strange {
        0 => Ok(()),
        blocks => Err(MonitorError::NotBlank { blocks }),
    }
}

/// The rings as found on the media.
fn rings<D: Drive>(monitor: &Monitor<D>, infos: &[ChunkInfo], found: &[Option<Found>; 2]) -> Vec<Ring> {
    let pages = monitor.geometry.chunk_sectors / monitor.geometry.write_min_sectors;
    let state_of = |chunk: &u32| match infos[*chunk as usize].state {
        ChunkState::Offline => (*chunk, None),
        state => (*chunk, Some(state == ChunkState::Free)),
    };
    let newest = found.iter().map(|found| found.as_ref().map(|found| found.chunk));
    let rings = monitor.records.chunks().iter().zip(newest);
    rings.map(|(chunks, newest)| Ring::new(chunks.iter().map(state_of), newest, pages)).collect()
}

/// The newest whole record of each ring, and the number of chunks with foreign data.
fn find_records<D: Drive>(
    monitor: &mut Monitor<D>,
    infos: &[ChunkInfo],
    wait: &mut impl Wait<D>,
) -> Result<([Option<Found>; 2], u32), MonitorError> {
    let sectors = monitor.geometry.write_min_sectors;
    let (mut found, mut strange) = ([None, None], 0);
    for (chunks, found) in monitor.records.chunks().clone().into_iter().zip(&mut found) {
        for chunk in chunks {
            let info = infos[chunk as usize];
            let held = if info.state == ChunkState::Open { monitor.geometry.cached_sectors } else { 0 };
            let written = info.write_pointer.saturating_sub(held) / sectors;
            let pages = match info.state {
                ChunkState::Offline => Vec::new(),
                _ => read_pages(monitor, chunk, written, wait)?,
            };
            let ours = find_in(&monitor.records, chunk, &pages, found);
            strange += u32::from(!ours);
        }
    }
    Ok((found, strange))
}

/// Searches the pages of a chunk for a record newer than `found`. Returns whether the whole chunk is a monitor's, or unreadable.
fn find_in(records: &Records, chunk: u32, pages: &[Option<Vec<u8>>], found: &mut Option<Found>) -> bool {
    let mut page = 0;
    let mut ours = pages.iter().all(Option::is_none);
    while page < pages.len() {
        let begins = pages[page].as_deref().and_then(State::record_bytes);
        ours |= begins.is_some();
        let length = begins.map_or(1, |bytes| records.record_pages(bytes) as usize);
        let whole = begins.and_then(|bytes| {
            let covered = page..page + records.pages_of(bytes) as usize;
            let parts: Option<Vec<&[u8]>> = pages.get(covered)?.iter().map(|p| p.as_deref()).collect();
            let mut record = parts?.concat();
            record.truncate(bytes);
            State::record_number(&record).map(|number| Found { number, chunk, bytes: record })
        });
        page += if whole.is_some() { length } else { 1 };
        let number = |found: &Option<Found>| found.as_ref().map(|found| found.number);
        if number(&whole) > number(found) {
            *found = whole;
        }
    }
    ours
}

/// The first `count` pages of a chunk; `None` for unreadable ones.
fn read_pages<D: Drive>(
    monitor: &mut Monitor<D>,
    chunk: u32,
    count: u32,
    wait: &mut impl Wait<D>,
) -> Result<Vec<Option<Vec<u8>>>, MonitorError> {
    let sectors = monitor.geometry.write_min_sectors;
    let images = sectors as usize * monitor.drive.image_bytes();
    let read = |page: u32| calls::own(monitor, Opcode::Read, chunk, page * sectors, sectors, vec![0; images]);
    let commands = (0..count).map(read).collect();
    let ended = calls::call(monitor, commands, wait)?;
    let stamps = monitor.keeps_stamps();
    let page = |(page, ended): (u32, Completion)| match ended.status {
        Status::Success | Status::HighEcc if stamps => Some(monitor.records.kept_page(chunk, page)),
        Status::Success | Status::HighEcc => Some(ended.data),
        _ => None,
    };
    Ok((0..).zip(ended).map(page).collect())
}
