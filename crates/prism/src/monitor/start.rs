//! The start of a monitor: it finds its state, erases leftovers of a power cut, and writes records.

use super::records::{self, Ring, Want};
use super::route::What;
use super::state::{Lun, State};
use super::{Commit, Monitor, MonitorConfig, MonitorError};
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkOp, ChunkState, Command, Completion, Drive, Opcode, SimTime, Status,
    Vector,
};
use std::collections::BTreeMap;

/// Sectors of one write of a record, about.
const WRITE_SECTORS: u32 = 64;

/// A record on its way.
#[derive(Clone, Debug)]
struct Saving {
    number: u64,
    bytes: Vec<u8>,
    pages: u32,
    /// Rings that are not done.
    left: u32,
    ok: bool,
}

/// The records of the state.
#[derive(Clone, Debug)]
pub(super) struct Records {
    chunks: [Vec<u32>; 2],
    rings: Vec<Ring>,
    /// Number of the next record, and of the newest that is safe.
    next: u64,
    pub safe: u64,
    saving: Option<Saving>,
    dirty: bool,
    /// No record can be written any more.
    pub dead: bool,
    /// Erases that no record counts.
    unsaved_erases: u32,
    /// Pages of records by chunk, where the drive keeps stamps instead of data: they could not come back.
    kept: BTreeMap<(u32, u32), Vec<u8>>,
}

impl Records {
    pub fn new(drive: &ChunkGeometry) -> Records {
        Records {
            chunks: records::chunks(drive),
            rings: Vec::new(),
            next: 1,
            safe: 0,
            saving: None,
            dirty: false,
            dead: false,
            unsaved_erases: 0,
            kept: BTreeMap::new(),
        }
    }

    /// Returns whether a chunk of the drive is for records.
    pub fn keeps(&self, chunk: u32) -> bool {
        self.chunks.iter().any(|ring| ring.contains(&chunk))
    }

    /// Forgets everything that the power cut has ended.
    pub fn forget(&mut self) {
        (self.saving, self.dirty, self.dead) = (None, false, false);
    }
}

/// Bytes of a page.
fn page_bytes(drive: &ChunkGeometry) -> usize {
    drive.write_min_sectors as usize * drive.sector_bytes as usize
}

/// Pages of a record of so many bytes, with those behind it that make it readable.
fn record_pages(drive: &ChunkGeometry, bytes: usize) -> u32 {
    bytes.div_ceil(page_bytes(drive)) as u32 + drive.cached_sectors.div_ceil(drive.write_min_sectors)
}

/// The state of blank media, all of them good.
pub(super) fn blank(drive: &ChunkGeometry, config: &MonitorConfig) -> Result<State, MonitorError> {
    let hidden = config.hidden_blocks(drive.chunks, drive.parallel_units());
    let shown = drive.chunks.checked_sub(hidden).filter(|&shown| shown > 0);
    let shown = shown.ok_or(MonitorError::TooSmall { blocks: drive.chunks, hidden })?;
    let lun = Lun { shown: (0..shown).collect(), ..Lun::default() };
    let luns = vec![lun; drive.parallel_units() as usize];
    let state = State { luns, applications: Vec::new(), swap: None, shown };
    // The largest it can become: each LUN has an application of its own with the longest name, and two change places.
    let most =
        state.encode(drive, 0).len() + drive.parallel_units() as usize * (256 + 28) + shown as usize + 8;
    let (needs, has) = (record_pages(drive, most), drive.chunk_sectors / drive.write_min_sectors);
    match needs <= has {
        true => Ok(state),
        false => Err(MonitorError::StateTooLarge { needs, has }),
    }
}

impl<D: Drive> Monitor<D> {
    /// Finds the state, or makes one.
    pub(super) fn load(
        &mut self,
        format: bool,
        mut wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<(), MonitorError> {
        self.leveller.paused = true;
        let chunks = self.geometry.chunks;
        let runs = (0..self.geometry.parallel_units()).map(|lun| (lun * chunks, chunks)).collect();
        let infos = self.infos_by(runs, &mut wait)?;
        if infos.len() != (self.geometry.parallel_units() * chunks) as usize {
            return Err(MonitorError::NoAnswer);
        }
        let (found, strange) = self.find_records(&infos, &mut wait)?;
        let best = found.iter().flatten().max_by_key(|(number, ..)| *number);
        let fresh = format || best.is_none();
        if fresh && !format {
            let written = (0..).zip(&infos).filter(|&(chunk, info)| {
                !matches!(info.state, ChunkState::Free | ChunkState::Offline) && !self.records.keeps(chunk)
            });
            let blocks = written.count() as u32 + strange;
            if blocks > 0 {
                return Err(MonitorError::NotBlank { blocks });
            }
        }
        self.records.next = best.map_or(1, |(number, ..)| number + 1);
        self.state = match best.filter(|_| !fresh) {
            Some((_, _, record)) => State::decode(&self.geometry, record).ok_or(MonitorError::OtherDrive)?,
            None => blank(&self.geometry, &self.config)?,
        };
        let pages = self.geometry.chunk_sectors / self.geometry.write_min_sectors;
        let state_of = |chunk: &u32| match infos[*chunk as usize].state {
            ChunkState::Offline => (*chunk, None),
            state => (*chunk, Some(state == ChunkState::Free)),
        };
        let newest = found.each_ref().map(|found| found.as_ref().map(|(_, chunk, _)| *chunk));
        let rings = self.records.chunks.iter().zip(newest);
        self.records.rings =
            rings.map(|(chunks, newest)| Ring::new(chunks.iter().map(state_of), newest, pages)).collect();
        let recorded = (!fresh).then(|| self.state.clone());
        let changed = self.tidy(&infos, fresh, &mut wait)?;
        if changed || fresh {
            let saved = self.save_by(&mut wait);
            match (saved, recorded) {
                // What is recorded stays as it is: bad blocks are replaced no more, and all else goes on.
                (Err(MonitorError::NoState), Some(recorded)) => self.state = recorded,
                (saved, _) => saved?,
            }
        }
        for at in 0..self.opened.len() {
            let app = self.state.applications.get(at).and_then(Option::as_ref);
            let view = app.map(|app| self.view_of(app));
            match (&mut self.opened[at], view) {
                (Some(opened), Some(view)) => opened.view = view,
                (opened, _) => *opened = None,
            }
        }
        self.leveller.paused = false;
        self.pump();
        Ok(())
    }

    /// The newest whole record of each ring, with its number and chunk; and how many chunks hold something that no monitor wrote.
    #[expect(clippy::type_complexity, reason = "one caller")]
    fn find_records(
        &mut self,
        infos: &[ChunkInfo],
        wait: &mut impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<([Option<(u64, u32, Vec<u8>)>; 2], u32), MonitorError> {
        let sectors = self.geometry.write_min_sectors;
        let (mut found, mut strange) = ([None, None], 0);
        for (ring, found) in found.iter_mut().enumerate() {
            for chunk in self.records.chunks[ring].clone() {
                let info = infos[chunk as usize];
                let held = if info.state == ChunkState::Open { self.geometry.cached_sectors } else { 0 };
                let written = info.write_pointer.saturating_sub(held) / sectors;
                let offline = info.state == ChunkState::Offline;
                let pages = if offline { Vec::new() } else { self.read_pages(chunk, written, wait)? };
                let mut page = 0;
                let mut ours = pages.iter().all(Option::is_none);
                while page < pages.len() {
                    let begins = pages[page].as_deref().and_then(State::record_bytes);
                    ours |= begins.is_some();
                    let length = begins.map_or(1, |bytes| record_pages(&self.geometry, bytes) as usize);
                    let whole = begins.and_then(|bytes| {
                        let covered = page..page + bytes.div_ceil(page_bytes(&self.geometry));
                        let parts: Option<Vec<&[u8]>> =
                            pages.get(covered)?.iter().map(|p| p.as_deref()).collect();
                        let mut record = parts?.concat();
                        record.truncate(bytes);
                        State::record_number(&record).map(|number| (number, chunk, record))
                    });
                    page += if whole.is_some() { length } else { 1 };
                    if whole.as_ref().map(|w| w.0) > found.as_ref().map(|f: &(u64, u32, Vec<u8>)| f.0) {
                        *found = whole;
                    }
                }
                strange += u32::from(!ours);
            }
        }
        Ok((found, strange))
    }

    /// The first `count` pages of a chunk; `None` for what cannot be read.
    fn read_pages(
        &mut self,
        chunk: u32,
        count: u32,
        wait: &mut impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<Vec<Option<Vec<u8>>>, MonitorError> {
        let sectors = self.geometry.write_min_sectors;
        let images = sectors as usize * self.drive.image_bytes();
        let read = |page: u32| self.own(Opcode::Read, chunk, page * sectors, sectors, vec![0; images]);
        let commands = (0..count).map(read).collect();
        let ended = self.call_by(commands, wait)?;
        let stamps = self.drive.image_bytes() != self.geometry.sector_bytes as usize;
        let page = |(page, ended): (u32, Completion)| match ended.status {
            Status::Success | Status::HighEcc if stamps => {
                Some(self.records.kept.get(&(chunk, page)).cloned().unwrap_or_default())
            }
            Status::Success | Status::HighEcc => Some(ended.data),
            _ => None,
        };
        Ok((0..).zip(ended).map(page).collect())
    }

    /// Erases spares that are written, and puts spares in the place of what is bad. Returns whether that changed the state.
    fn tidy(
        &mut self,
        infos: &[ChunkInfo],
        fresh: bool,
        wait: &mut impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<bool, MonitorError> {
        let chunks = self.geometry.chunks;
        let before = if fresh { None } else { Some(self.state.clone()) };
        let dirty: Vec<u32> = (0..self.geometry.parallel_units())
            .flat_map(|lun| self.spares(lun).map(move |spare| lun * chunks + spare).collect::<Vec<_>>())
            .filter(|&chunk| matches!(infos[chunk as usize].state, ChunkState::Open | ChunkState::Closed))
            .collect();
        let resets = dirty
            .iter()
            .map(|&chunk| self.own(Opcode::Chunk(ChunkOp::Reset), chunk, 0, 0, Vec::new()))
            .collect();
        let mut bad = Vec::new();
        for (&chunk, ended) in dirty.iter().zip(self.call_by(resets, wait)?) {
            match ended.status {
                Status::Success => self.state.luns[(chunk / chunks) as usize].erases += 1,
                _ => bad.push(chunk),
            }
        }
        let offline =
            |chunk: &u32| infos[*chunk as usize].state == ChunkState::Offline && !self.records.keeps(*chunk);
        bad.extend((0..infos.len() as u32).filter(offline));
        // Spares first, so that none of them replaces another.
        bad.sort_by_key(|&chunk| {
            self.state.luns[(chunk / chunks) as usize].shown.contains(&(chunk % chunks))
        });
        for chunk in bad {
            let lun = chunk / chunks;
            if !self.put_aside(lun, chunk % chunks) && fresh {
                self.state.luns[lun as usize].shown.clear();
            }
        }
        Ok(before.is_none_or(|before| before != self.state))
    }

    // ---- writing records

    /// The state has changed: it will be on the media with the record of the number returned.
    pub(super) fn changed(&mut self) -> u64 {
        self.records.dirty = true;
        self.records.next
    }

    /// Does something when what has changed is on the media, or at once if it never will be.
    pub(super) fn changed_then(&mut self, commits: impl IntoIterator<Item = Commit>) {
        let number = self.changed();
        self.commits.extend(commits.into_iter().map(|commit| (number, commit)));
        if self.records.dead {
            self.commit_due();
        }
    }

    /// Does what waited for records that are safe, or never will be.
    fn commit_due(&mut self) {
        let due = |number: u64, records: &Records| number <= records.safe || records.dead;
        while self.commits.front().is_some_and(|&(number, _)| due(number, &self.records)) {
            let (_, commit) = self.commits.pop_front().expect("there is one");
            self.commit(commit);
        }
    }

    /// Waits until the state is on the media.
    pub(super) fn save_by(
        &mut self,
        wait: &mut impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<(), MonitorError> {
        let number = self.changed();
        self.pump();
        self.run_by(wait, |monitor| monitor.records.safe >= number || monitor.records.dead)?;
        match self.records.safe >= number {
            true => Ok(()),
            false => Err(MonitorError::NoState),
        }
    }

    /// A block of a LUN was erased.
    pub(super) fn count_erase(&mut self, lun: u32) {
        self.state.luns[lun as usize].erases += 1;
        self.records.unsaved_erases += 1;
        if self.records.unsaved_erases >= self.state.shown {
            self.changed();
        }
    }

    /// Begins a record, if one is due.
    pub(super) fn save(&mut self) {
        if !self.records.dirty || self.records.saving.is_some() || self.records.dead {
            return;
        }
        let number = self.records.next;
        let bytes = self.state.encode(&self.geometry, number);
        let pages = record_pages(&self.geometry, bytes.len());
        (self.records.dirty, self.records.unsaved_erases) = (false, 0);
        self.records.next += 1;
        self.records.saving =
            Some(Saving { number, bytes, pages, left: self.records.rings.len() as u32, ok: false });
        for ring in 0..self.records.rings.len() {
            match self.records.rings[ring].dead {
                true => self.ring_done(false),
                false => {
                    let want = self.records.rings[ring].begin(pages);
                    self.carry_out(ring, want);
                }
            }
        }
    }

    fn carry_out(&mut self, ring: usize, want: Want) {
        match want {
            Want::Written => self.ring_done(true),
            Want::Dead => self.ring_done(false),
            Want::Reset(chunk) => {
                let command = self.own(Opcode::Chunk(ChunkOp::Reset), chunk, 0, 0, Vec::new());
                self.send(What::Record { ring, pages: 0 }, command);
            }
            Want::Write { chunk, page, from } => {
                let (pages, command) = self.record_write(chunk, page, from);
                self.send(What::Record { ring, pages }, command);
            }
        }
    }

    /// A write of pages of the record from `from` on, and how many they are.
    fn record_write(&mut self, chunk: u32, page: u32, from: u32) -> (u32, Command) {
        let sectors = self.geometry.write_min_sectors;
        let saving = self.records.saving.as_ref().expect("a record on its way");
        let pages = (WRITE_SECTORS / sectors).max(1).min(saving.pages - from);
        let bytes = page_bytes(&self.geometry);
        let first = (from as usize * bytes).min(saving.bytes.len());
        let mut data = saving.bytes[first..(first + pages as usize * bytes).min(saving.bytes.len())].to_vec();
        data.resize(pages as usize * bytes, 0);
        if self.drive.image_bytes() != self.geometry.sector_bytes as usize {
            for (at, content) in (page..).zip(data.chunks_exact(bytes)) {
                self.records.kept.insert((chunk, at), content.to_vec());
            }
            data = vec![0; (pages * sectors) as usize * self.drive.image_bytes()];
        }
        let mut command = self.own(Opcode::Write, chunk, page * sectors, pages * sectors, data);
        let metadata = b"flash monitor   ".repeat((pages * sectors) as usize);
        command.vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
        (pages, command)
    }

    /// A command of a ring has ended.
    pub(super) fn record_ended(&mut self, ring: usize, pages: u32, completion: &Completion) {
        let ok = completion.status == Status::Success;
        let record = &mut self.records.rings[ring];
        let want = match completion.opcode {
            Opcode::Chunk(ChunkOp::Reset) => record.reset_ended(ok),
            _ => record.write_ended(pages, ok),
        };
        self.carry_out(ring, want);
    }

    fn ring_done(&mut self, ok: bool) {
        let saving = self.records.saving.as_mut().expect("a record on its way");
        saving.ok |= ok;
        saving.left -= 1;
        if saving.left > 0 {
            return;
        }
        match saving.ok {
            true => self.records.safe = saving.number,
            false => self.records.dead = true,
        }
        self.records.saving = None;
        self.commit_due();
    }
}
