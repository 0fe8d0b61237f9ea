//! Store in one image file, which survives the process. `docs/reference/media-image.md` shows its layout:
//!
//! ```text
//! 0            4096             record_at                    data_at                     save_at
//! | header     | block states   | a record for each superpage   | data of each block        | save area |
//! |            | 16 bytes each  | (spare area, checksums)    | unit after unit           |           |
//! ```
//! All access is by system calls, never through a memory map: when the disk refuses or has lost data, the call returns an error here and
//! raises no signal. States and spare areas are held in memory; the data of a superpage are gathered there until its program ends:
//!
//! ```text
//!  begin ─► stage ─► unit, unit, .. ─► end: data, then the record with their checksums ─► set_state: the block has one superpage more
//! ```
//! Invariants: a state in the file counts only superpages whose data and record stand in it, so a process that dies at any moment leaves
//! a legal image; with [`SyncTo::Machine`] the same holds for what is on the disk (`commit`); writes reach the file in the order in
//! which they were made, those that it does not take are held back (`backing.rs`).

mod open;

use super::backing::Backing;
use super::header::{Header, Regions};
use super::record::RecordShape;
use super::{Claim, Extent, Found, Opened, Store, StoreNotice, StoreShape};
use crate::error::StoreError;
use crate::state::{BlockState, Flag};
use crate::{MediaConfig, Space, SyncTo};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A stored state: the word, reads since the erase, checksum.
const STATE_BYTES: usize = 16;
const NO_UNIT: u32 = u32::MAX;
/// Reads of a block after which their count is written to the file, in addition to every change of its state.
const READS_KEPT: u64 = 64;
/// Damaged units that are reported one by one; reads of further ones are only counted.
const DAMAGED_TOLD: usize = 100;

/// A superpage between the begin and the end of its program.
#[derive(Debug)]
struct Stage {
    block: u32,
    data: Box<[u8]>,
    /// The host's metadata.
    metadata: Box<[u8]>,
    /// Units that were copied with the checksum that they had: damage stays damage.
    copied: Vec<(u32, u32)>,
}

/// The file store.
#[derive(Debug)]
pub(crate) struct FileStore {
    path: PathBuf,
    shape: StoreShape,
    record: RecordShape,
    regions: Regions,
    header: Header,
    backing: Backing,
    states: Vec<BlockState>,
    /// Metadata as in memory (store/meta.rs), then the checksum of each unit's data.
    metas: Vec<Option<Box<[u8]>>>,
    stages: Vec<Stage>,
    idle_stages: Vec<Stage>,
    /// The unit that was read last, as it is stored and found to be good.
    unit: Vec<u8>,
    unit_is: u32,
    /// One record, being written or read.
    buffer: Mutex<Vec<u8>>,
    sync: SyncTo,
    /// States to be written once the data that they count are on the disk; only with [`SyncTo::Machine`].
    behind: BTreeMap<u32, BlockState>,
    /// Units whose damage was reported: block and number.
    damaged: BTreeSet<(u32, u32)>,
    /// The file did not exist before.
    created: bool,
    /// A drive has taken the image, or it was closed in order before. An image that was not closed and is refused must not be marked as
    /// closed.
    closes: bool,
    reserved: u64,
}

impl FileStore {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn extent(&self) -> Extent {
        let fixed = size_of::<BlockState>() + size_of::<Option<Box<[u8]>>>();
        let block = fixed + self.shape.meta.bytes + 4 * self.shape.units_per_block();
        let memory_max = self.states.len() as u64 * block as u64;
        Extent { memory_max, reserved: self.reserved, file_max: self.regions.file_bytes }
    }

    #[inline]
    pub(crate) fn state(&self, block: u32) -> BlockState {
        self.states[block as usize]
    }

    /// Sets the state of a block. A program or an erase leaves the file unchanged until it ends.
    pub(crate) fn set_state(&mut self, block: u32, state: BlockState) {
        let before = std::mem::replace(&mut self.states[block as usize], state);
        let unchanged = before.without(Flag::Programming) == state.without(Flag::Programming);
        if state.is(Flag::Erasing) || (unchanged && !before.is(Flag::Erasing)) {
            return;
        }
        if state.next_superpage() == 0 {
            self.metas[block as usize] = None;
        }
        self.keep_state(block);
    }

    /// Writes the state of a block to the file: at once, or after the data that it counts.
    fn keep_state(&mut self, block: u32) {
        // An operation under way does not count.
        let state = self.states[block as usize].without(Flag::Programming);
        match self.sync {
            SyncTo::Process => self.write_state(block, state),
            SyncTo::Machine => _ = self.behind.insert(block, state),
        }
    }

    #[inline]
    pub(crate) fn meta(&self, block: u32) -> &[u8] {
        let meta = self.metas[block as usize].as_deref().expect("a block with begun superpages has metadata");
        &meta[..self.shape.meta.bytes]
    }

    pub(crate) fn meta_mut(&mut self, block: u32) -> &mut [u8] {
        if self.metas[block as usize].is_none() {
            self.metas[block as usize] = Some(self.fresh_meta());
        }
        let meta = self.metas[block as usize].as_deref_mut().expect("it was made just now");
        &mut meta[..self.shape.meta.bytes]
    }

    /// Counts a read, as `set_history` of the metadata, and keeps the count in the file.
    pub(crate) fn count_read(&mut self, block: u32, history: (u64, u64)) {
        let shape = self.shape.meta;
        shape.set_history(self.meta_mut(block), history);
        if history.1.is_multiple_of(READS_KEPT) && !self.states[block as usize].busy() {
            self.keep_state(block);
        }
    }

    /// Begins a superpage.
    pub(crate) fn begin(&mut self, block: u32, superpage: u32) {
        if superpage == 0 && self.behind.contains_key(&block) {
            // The disk still has the block's content from before its erase, which is about to be overwritten.
            self.commit();
        }
        let units = self.shape.units_per_superpage as usize;
        let mut stage = self.idle_stages.pop().unwrap_or_else(|| Stage {
            block,
            data: vec![0; units * self.shape.unit_stored_bytes].into(),
            metadata: vec![0; units * self.shape.unit_metadata_bytes].into(),
            copied: Vec::new(),
        });
        stage.block = block;
        // Metadata that a host does not give are zeros.
        stage.metadata.fill(0);
        self.stages.push(stage);
    }

    fn stage(&mut self, block: u32) -> usize {
        self.stages.iter().rposition(|stage| stage.block == block).expect("a superpage has begun")
    }

    /// Metadata of the block; data and the host's metadata of one unit of its begun superpage.
    pub(crate) fn unit_mut(&mut self, block: u32, unit: u32) -> (&mut [u8], &mut [u8], &mut [u8]) {
        let at = self.stage(block);
        let meta = self.metas[block as usize].as_deref_mut().expect("a begun superpage has metadata");
        let (data, metadata) = (self.shape.unit_stored_bytes, self.shape.unit_metadata_bytes);
        let stage = &mut self.stages[at];
        stage.copied.retain(|(copied, _)| *copied != unit);
        let unit = unit as usize;
        (
            &mut meta[..self.shape.meta.bytes],
            &mut stage.data[unit * data..][..data],
            &mut stage.metadata[unit * metadata..][..metadata],
        )
    }

    /// Copies a unit, as it is stored, into one of a begun superpage.
    pub(crate) fn copy_unit(&mut self, from: (u32, u32), to: (u32, u32)) {
        let (block, index) = from;
        let sum = self.checksum(block, index);
        let data = self.raw(block, index).into_owned();
        let mut metadata = vec![0; self.shape.unit_metadata_bytes];
        self.metadata(block, index, 0, &mut metadata);
        let at = self.stage(to.0);
        let (bytes, unit) = (self.shape.unit_stored_bytes, to.1 as usize);
        self.stages[at].data[unit * bytes..][..bytes].copy_from_slice(&data);
        self.stages[at].metadata[unit * metadata.len()..][..metadata.len()].copy_from_slice(&metadata);
        self.stages[at].copied.push((to.1, sum));
    }

    /// Ends a superpage: writes its data and its spare area to the file. The state follows.
    pub(crate) fn end(&mut self, block: u32, superpage: u32, readable: bool) {
        let at = self.stage(block);
        let mut stage = self.stages.swap_remove(at);
        let (bytes, units) = (self.shape.unit_stored_bytes, self.shape.units_per_superpage);
        self.unit_is = NO_UNIT;
        let name = (block, superpage, self.states[block as usize].erase_count());
        if readable {
            let first = superpage * units;
            for (unit, data) in (0..).zip(stage.data.chunks_exact(bytes)) {
                let copied = stage.copied.iter().rfind(|(copied, _)| *copied == unit);
                let sum = copied.map_or_else(|| crc32c::crc32c(data), |&(_, sum)| sum);
                self.set_checksum(block, first + unit, sum);
            }
            self.backing.write(self.data_at(block, first), &stage.data);
        }
        let place = self.record_at(block, superpage);
        let meta = self.metas[block as usize].as_deref().expect("a begun superpage has metadata");
        let buffer = self.buffer.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.record.encode(&self.shape, name, meta, &stage.metadata, self.header.age_s, buffer);
        self.backing.write(place, buffer);
        stage.copied.clear();
        self.idle_stages.push(stage);
    }

    /// Reads bytes of a unit's stored data, if all of them are as they were stored.
    #[inline]
    pub(crate) fn read(&mut self, block: u32, index: u32, start: usize, out: &mut [u8]) -> Found {
        if out.len() < self.shape.unit_stored_bytes {
            let found = self.bring(block, index);
            if found == Found::Good {
                out.copy_from_slice(&self.unit[start..start + out.len()]);
            }
            return found;
        }
        let read = self.backing.read(self.data_at(block, index), out);
        self.judge(block, index, read.map(|()| crc32c::crc32c(out)))
    }

    /// The stored data of a unit, correct or not.
    pub(crate) fn raw(&self, block: u32, index: u32) -> Cow<'_, [u8]> {
        if self.unit_is == self.unit_name(block, index) {
            return Cow::Borrowed(&self.unit);
        }
        let mut data = vec![0; self.shape.unit_stored_bytes];
        // Unreadable data are as wrong as zeros.
        let _ = self.backing.read(self.data_at(block, index), &mut data);
        Cow::Owned(data)
    }

    /// Returns whether `stored` matches the checksum of the unit.
    pub(crate) fn is_what_was_stored(&self, block: u32, index: u32, stored: &[u8]) -> bool {
        crc32c::crc32c(stored) == self.checksum(block, index)
    }

    /// Loads a unit as the one that was read last, if it is good.
    pub(crate) fn bring(&mut self, block: u32, index: u32) -> Found {
        let name = self.unit_name(block, index);
        if self.unit_is == name {
            return Found::Good;
        }
        self.unit_is = NO_UNIT;
        let mut unit = std::mem::take(&mut self.unit);
        let read = self.backing.read(self.data_at(block, index), &mut unit);
        let found = self.judge(block, index, read.map(|()| crc32c::crc32c(&unit)));
        self.unit = unit;
        if found == Found::Good {
            self.unit_is = name;
        }
        found
    }

    /// Gives up the data of a unit: no later process may read them. Its checksum becomes the complement of the data's checksum.
    pub(crate) fn give_up(&mut self, block: u32, index: u32) {
        let sum = !crc32c::crc32c(&self.raw(block, index));
        self.unit_is = NO_UNIT;
        self.set_checksum(block, index, sum);
        let (superpage, unit) =
            (index / self.shape.units_per_superpage, index % self.shape.units_per_superpage);
        let name = (block, superpage, self.states[block as usize].erase_count());
        let place = self.record_at(block, superpage);
        let buffer = self.buffer.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A record that is damaged stays so.
        if self.backing.read(place, buffer).is_ok() && self.record.is_good(name, buffer) {
            self.record.seal_again(name, unit, sum, buffer);
            self.backing.write(place, buffer);
        }
    }

    fn judge(&mut self, block: u32, index: u32, sum: std::io::Result<u32>) -> Found {
        let why = match sum {
            Ok(sum) if sum == self.checksum(block, index) => return Found::Good,
            // The file is intact: the unit was given up.
            Ok(sum) if sum == !self.checksum(block, index) => return Found::Damaged,
            Ok(_) => "its checksum is wrong".to_owned(),
            Err(error) => error.to_string(),
        };
        let at = self.data_at(block, index);
        // A drive tries again: one line for each unit, not for each read.
        if self.damaged.len() < DAMAGED_TOLD && self.damaged.insert((block, index)) {
            let last = self.damaged.len() == DAMAGED_TOLD;
            let why = if last { why + "; from here on damaged units are only counted" } else { why };
            self.backing.tell(StoreNotice::Damaged { path: self.path.clone(), block, unit: index, at, why });
        }
        Found::Damaged
    }

    /// The host's metadata of a unit, from `start` on; `false`: they are damaged, `out` is all zeros.
    pub(crate) fn metadata(&self, block: u32, index: u32, start: usize, out: &mut [u8]) -> bool {
        let (superpage, unit) =
            (index / self.shape.units_per_superpage, index % self.shape.units_per_superpage);
        let mut record = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (block, superpage, self.states[block as usize].erase_count());
        let read = self.backing.read(self.record_at(block, superpage), &mut record);
        let good = read.is_ok() && self.record.is_good(name, &mut record);
        match good {
            true => {
                let from = self.record.metadata_at + unit as usize * self.shape.unit_metadata_bytes + start;
                out.copy_from_slice(&record[from..from + out.len()]);
            }
            false => out.fill(0),
        }
        good
    }

    pub(crate) fn save_read(&self, at: usize, out: &mut [u8]) {
        let place = self.save_at(at, out.len());
        if self.backing.read(place, out).is_err() {
            out.fill(0);
        }
    }

    pub(crate) fn save_write(&mut self, at: usize, bytes: &[u8]) -> Result<(), StoreError> {
        let place = self.save_at(at, bytes.len());
        self.backing.write(place, bytes);
        self.settled("write the save area")
    }

    /// Sets the age of the media. In whole seconds, so it is written rarely.
    pub(crate) fn set_age(&mut self, age_s: u64) {
        if age_s != self.header.age_s {
            self.header.age_s = age_s;
            self.write_header();
        }
    }

    /// Compares the properties with the image's, and writes those that the image lacks.
    pub(crate) fn claim(&mut self, words: Claim) -> Result<(), StoreError> {
        for ((key, description), image) in words.into_iter().zip(self.header.claim) {
            if image != 0 && image != description {
                return Err(StoreError::Geometry { path: self.path.clone(), key, image, description });
            }
        }
        self.header.claim = words.map(|(_, word)| word);
        self.closes = true;
        self.write_header();
        self.settled("write the header")
    }

    /// Removes the file if it was created for this store. A file that cannot be removed is a good image all the same.
    pub(crate) fn discard(&mut self) {
        if self.created {
            self.backing.discard();
        }
    }

    /// Writes everything to the disk.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.commit();
        if self.sync == SyncTo::Process {
            self.backing.sync();
        }
        self.backing.check_whole(self.regions.file_bytes);
        self.settled("write the image to disk")
    }

    /// Fulfils a flush. If data need only survive the end of the process, checks that the file is still whole.
    pub(crate) fn flushed(&mut self) -> Result<(), StoreError> {
        if self.sync == SyncTo::Machine {
            self.commit();
        }
        self.backing.check_whole(self.regions.file_bytes);
        self.settled("write the image to disk")
    }

    /// Syncs data and spare areas to the disk, then the states that count them.
    fn commit(&mut self) {
        if self.sync == SyncTo::Process {
            return;
        }
        if !self.backing.sync() {
            return;
        }
        for (block, state) in std::mem::take(&mut self.behind) {
            self.write_state(block, state);
        }
        self.backing.sync();
    }

    /// Returns whether writes wait for the disk to take them.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.backing.holds_back()
    }

    /// Retries held-back writes.
    pub(crate) fn try_again(&mut self) {
        self.backing.try_again();
    }

    pub(crate) fn notice(&mut self) -> Option<StoreNotice> {
        self.backing.notice()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let meta = self.shape.meta.bytes + 4 * self.shape.units_per_block();
        let metas = self.metas.iter().flatten().count() * meta;
        (self.states.len() * (size_of::<BlockState>() + size_of::<Option<Box<[u8]>>>()) + metas) as u64
            + self.backing.held_bytes()
    }

    /// Returns an error unless everything written so far is in the file.
    fn settled(&self, action: &'static str) -> Result<(), StoreError> {
        match self.backing.fault() {
            None => Ok(()),
            Some(source) => Err(self.io(action, source)),
        }
    }

    fn io(&self, action: &'static str, source: std::io::Error) -> StoreError {
        StoreError::Io { path: self.path.clone(), action, source }
    }

    fn write_header(&mut self) {
        let bytes = self.header.encode(&self.regions);
        self.backing.write(0, &bytes);
    }

    fn write_state(&mut self, block: u32, state: BlockState) {
        let meta = self.metas[block as usize].as_deref();
        let reads = meta.map_or(0, |meta| self.shape.meta.history(meta).1);
        let entry = encode_state(block, state, reads.try_into().unwrap_or(u32::MAX));
        self.backing.write(self.state_at(block), &entry);
    }

    fn fresh_meta(&self) -> Box<[u8]> {
        vec![0; self.shape.meta.bytes + 4 * self.shape.units_per_block()].into()
    }

    fn checksum(&self, block: u32, index: u32) -> u32 {
        let meta = self.metas[block as usize].as_deref().expect("a programmed unit has metadata");
        self.record.checksum(&self.shape, meta, index)
    }

    fn set_checksum(&mut self, block: u32, index: u32, sum: u32) {
        let meta = self.metas[block as usize].as_deref_mut().expect("a begun superpage has metadata");
        self.record.set_checksum(&self.shape, meta, index, sum);
    }

    fn unit_name(&self, block: u32, index: u32) -> u32 {
        block * self.shape.units_per_block() as u32 + index
    }

    fn state_at(&self, block: u32) -> u64 {
        self.regions.state_at + u64::from(block) * STATE_BYTES as u64
    }

    fn record_at(&self, block: u32, superpage: u32) -> u64 {
        let number = u64::from(block) * u64::from(self.shape.superpages_per_block) + u64::from(superpage);
        self.regions.record_at + number * self.record.bytes as u64
    }

    fn data_at(&self, block: u32, index: u32) -> u64 {
        let number = u64::from(block) * self.shape.units_per_block() as u64 + u64::from(index);
        self.regions.data_at + number * self.shape.unit_stored_bytes as u64
    }

    fn save_at(&self, at: usize, bytes: usize) -> u64 {
        assert!(at + bytes <= self.shape.save_bytes, "bytes {at} + {bytes} of {}", self.shape.save_bytes);
        self.regions.save_at + at as u64
    }
}

impl Drop for FileStore {
    /// Marks the image as closed cleanly, once everything else is on the disk. A failure cannot be reported here; the
    /// mark is then missing.
    fn drop(&mut self) {
        if !self.header.made {
            return;
        }
        for block in 0..self.shape.blocks {
            let meta = self.metas[block as usize].as_deref();
            let erasing = self.states[block as usize].is(Flag::Erasing);
            if !erasing && meta.is_some_and(|meta| self.shape.meta.history(meta).1 > 0) {
                self.keep_state(block);
            }
        }
        if self.sync().is_ok() {
            self.header.clean = self.closes;
            self.write_header();
            // Without the mark the image counts as not closed, which is safe.
            let _ = self.sync();
        }
    }
}

fn state_sum(block: u32, entry: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block.to_le_bytes()), entry)
}

fn encode_state(block: u32, state: BlockState, reads: u32) -> [u8; STATE_BYTES] {
    let mut entry = [0; STATE_BYTES];
    entry[..8].copy_from_slice(&state.to_checked().to_le_bytes());
    entry[8..12].copy_from_slice(&reads.to_le_bytes());
    let sum = state_sum(block, &entry[..12]);
    entry[12..].copy_from_slice(&sum.to_le_bytes());
    entry
}
