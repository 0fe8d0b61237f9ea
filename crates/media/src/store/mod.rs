//! Storage of block states, spare areas and data. The store handles bytes; the media interpret them.
//!
//! | kind | states, spare | image of a sector      | survives the process |
//! |------|---------------|------------------------|----------------------|
//! | none | memory        | a 4-byte stamp, memory | no                   |
//! | unstamped | memory   | nothing                | no                   |
//! | ram  | memory        | its bytes, memory      | no                   |
//! | file | image file    | its bytes, image file  | yes                  |

mod arena;
mod backing;
mod file;
mod header;
mod memory;
mod meta;
mod record;

pub use header::holds_drive;

use crate::error::StoreError;
use crate::state::BlockState;
use crate::{MediaConfig, StoreKind};
use file::FileStore;
use memory::MemoryStore;
pub(crate) use meta::{MetaShape, UNREADABLE};
use pellucid_flash::{Layout, copy_images};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Bytes kept per sector when the data are not kept.
const STAMP_BYTES: usize = 4;

/// Sizes of the stored items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreShape {
    pub(crate) blocks: u32,
    pub(crate) superpages_per_block: u32,
    pub(crate) units_per_superpage: u32,
    pub(crate) meta: MetaShape,
    pub(crate) image_bytes: usize,
    /// Bytes of a unit's data that a caller gives.
    pub(crate) unit_image_bytes: usize,
    /// Bytes of them that are kept, data and parity; 0 without stamps.
    pub(crate) unit_stored_bytes: usize,
    /// The host's part of the spare area, per sector and per unit.
    pub(crate) metadata_bytes: usize,
    pub(crate) unit_metadata_bytes: usize,
    /// Bytes of the save area.
    pub(crate) save_bytes: usize,
}

impl StoreShape {
    /// `parity_bytes`: stored behind the data of each unit.
    pub(crate) fn new(config: &MediaConfig, layout: &Layout, parity_bytes: usize) -> StoreShape {
        let metadata_bytes = config.metadata_bytes;
        let image_bytes = match config.store {
            StoreKind::None | StoreKind::Unstamped => STAMP_BYTES,
            StoreKind::Ram | StoreKind::File(_) => layout.sector_bytes as usize,
        };
        let unit_image_bytes = image_bytes * layout.sectors_per_unit as usize;
        let unit_metadata_bytes = metadata_bytes as usize * layout.sectors_per_unit as usize;
        let unit_stored_bytes = match config.store {
            StoreKind::Unstamped => 0,
            _ => unit_image_bytes + parity_bytes,
        };
        StoreShape {
            blocks: layout.blocks,
            superpages_per_block: layout.superpages_per_block,
            units_per_superpage: layout.units_per_superpage,
            meta: MetaShape::new(layout),
            image_bytes,
            unit_image_bytes,
            unit_stored_bytes,
            metadata_bytes: metadata_bytes as usize,
            unit_metadata_bytes,
            save_bytes: config.save_bytes as usize,
        }
    }

    #[inline]
    pub(crate) fn units_per_block(&self) -> usize {
        self.superpages_per_block as usize * self.units_per_superpage as usize
    }
}

/// Properties of the drive that must not change while it uses these media: values with their names. 0: not given.
pub(crate) type Claim = [(&'static str, u64); 3];

/// Result of comparing the data of a unit with the data that were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Good,
    /// The data differ, or cannot be read.
    Damaged,
    /// Its data were given up, and read as zeros: see [`Remains::Zeros`].
    Zeros,
}

/// Remainder of a unit whose data are no longer needed, until its block is erased. A mount may come back to the unit if its successor
/// cannot be read, or if a power cut undid a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// The unit has a successor on the media. Reads end uncorrectable.
    Nothing,
    /// The unit's page was trimmed. Reads find zeros, as after a trim.
    Zeros,
}

/// An event of a file store, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreNotice {
    /// The content of a unit cannot be read from the file as it was written.
    Damaged {
        /// The image file.
        path: PathBuf,
        /// Block.
        block: u32,
        /// Unit of the block.
        unit: u32,
        /// Its place in the file.
        at: u64,
        /// Description of the damage.
        why: String,
    },
    /// The file refuses written data. Later writes are kept in memory, and hosts are refused.
    Refused {
        /// The image file.
        path: PathBuf,
        /// The system's answer.
        why: String,
    },
    /// The file was truncated by somebody else. Hosts are refused.
    CutOff {
        /// The image file.
        path: PathBuf,
        /// Actual length of the file, in bytes.
        found: u64,
        /// Expected length of the file, in bytes.
        bytes: u64,
    },
    /// The file was deleted, or replaced by another one, by somebody else. Hosts are refused.
    Deleted {
        /// Where the image file was.
        path: PathBuf,
    },
    /// The file was begun and never completed: a new drive was made in it.
    Blank {
        /// The image file.
        path: PathBuf,
    },
    /// Users other than the owner of the file may read or write it.
    Exposed {
        /// The image file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file has taken all held-back writes.
    Recovered {
        /// The image file.
        path: PathBuf,
    },
}

impl fmt::Display for StoreNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreNotice::Damaged { path, block, unit, at, why } => write!(
                f,
                "{}: unit {unit} of block {block}, at byte {at}, cannot be read: {why}; what it held is lost",
                path.display()
            ),
            StoreNotice::Refused { path, why } => write!(
                f,
                "{}: cannot write: {why}; until it can, hosts are refused everything but reads, and the file stays as \
                 at a power cut",
                path.display()
            ),
            StoreNotice::CutOff { path, found, bytes } => write!(
                f,
                "{}: the file was cut off at {found} of {bytes} bytes; what was behind that is lost, hosts are refused everything \
                 but reads, and the next start refuses the image",
                path.display()
            ),
            StoreNotice::Deleted { path } => write!(
                f,
                "{}: the file was deleted or replaced; what the drive holds is lost when this process ends: copy it through the drive; \
                 hosts are refused everything but reads",
                path.display()
            ),
            StoreNotice::Blank { path } => write!(
                f,
                "{}: the file was begun and never completed; a new drive without data was made in it",
                path.display()
            ),
            StoreNotice::Exposed { path, mode } => write!(
                f,
                "{}: others than its owner may read or write what the drive holds (mode {mode:o}); a new file would have mode 600",
                path.display()
            ),
            StoreNotice::Recovered { path } => {
                write!(f, "{}: everything is written; hosts may write again", path.display())
            }
        }
    }
}

/// Memory and disk space that a store may come to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of memory, for states, spare areas and data, at most.
    pub memory_max: u64,
    /// Bytes of the disk that are reserved; 0: none.
    pub reserved: u64,
    /// Bytes of the disk at most.
    pub file_max: u64,
}

/// A page store.
#[derive(Debug)]
pub struct Store {
    kind: Kind,
}

/// Where a store keeps its data.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each drive, and on the path of every I/O")]
enum Kind {
    Memory(MemoryStore),
    File(FileStore),
}

/// A store, and how it was opened.
pub(crate) struct Opened {
    pub(crate) store: Store,
    /// The store did not exist before.
    pub(crate) created: bool,
    /// The seed that the media were made with.
    pub(crate) made: u64,
    /// The last user of the store did not close it.
    pub(crate) recovered: bool,
    /// Seconds that the media had existed when they were used last.
    pub(crate) age_s: u64,
}

impl Store {
    fn of_file(file: FileStore) -> Store {
        Store { kind: Kind::File(file) }
    }

    pub(crate) fn open(config: &MediaConfig, shape: StoreShape) -> Result<Opened, StoreError> {
        match &config.store {
            StoreKind::None | StoreKind::Unstamped | StoreKind::Ram => {
                let store = Store { kind: Kind::Memory(MemoryStore::new(shape, config.keep.ram_max)?) };
                Ok(Opened { store, created: true, made: config.seed, recovered: false, age_s: 0 })
            }
            StoreKind::File(path) => FileStore::open(path, config, shape),
        }
    }

    #[inline]
    pub(crate) fn state(&self, block: u32) -> BlockState {
        match &self.kind {
            Kind::Memory(s) => s.state(block),
            Kind::File(s) => s.state(block),
        }
    }

    #[inline]
    pub(crate) fn set_state(&mut self, block: u32, state: BlockState) {
        match &mut self.kind {
            Kind::Memory(s) => s.set_state(block, state),
            Kind::File(s) => s.set_state(block, state),
        }
    }

    /// Metadata of a block that has a begun, programmed or torn superpage.
    #[inline]
    pub(crate) fn meta(&self, block: u32) -> &[u8] {
        match &self.kind {
            Kind::Memory(s) => s.meta(block),
            Kind::File(s) => s.meta(block),
        }
    }

    /// Metadata of a block, for writing; zeros if the block never had a superpage.
    #[inline(always)]
    pub(crate) fn meta_mut(&mut self, block: u32) -> &mut [u8] {
        match &mut self.kind {
            Kind::Memory(s) => s.meta_mut(block),
            Kind::File(s) => s.meta_mut(block),
        }
    }

    /// Sets age and reads of a block; a file need not record the very last read.
    pub(crate) fn count_read(&mut self, block: u32, history: (u64, u64)) {
        match &mut self.kind {
            Kind::Memory(s) => s.count_read(block, history),
            Kind::File(s) => s.count_read(block, history),
        }
    }

    /// Returns whether another process may find the stored data.
    #[inline]
    pub(crate) fn outlives_process(&self) -> bool {
        matches!(&self.kind, Kind::File(_))
    }

    /// The program of a superpage begins; its metadata follow.
    #[inline]
    pub(crate) fn begin(&mut self, block: u32, superpage: u32) {
        if let Kind::File(s) = &mut self.kind {
            s.begin(block, superpage);
        }
    }

    /// Metadata of a block; data and the host's metadata of unit `index` of it, unit `unit` of its begun superpage.
    #[inline(always)]
    pub(crate) fn unit_mut(
        &mut self,
        block: u32,
        index: u32,
        unit: u32,
    ) -> (&mut [u8], &mut [u8], &mut [u8]) {
        match &mut self.kind {
            Kind::Memory(s) => s.unit_mut(block, index),
            Kind::File(s) => s.unit_mut(block, unit),
        }
    }

    /// Metadata of a block and the stamps of its units, where these are all that is stored.
    #[inline]
    pub(crate) fn stamps_mut(&mut self, block: u32) -> Option<(&mut [u8], &mut [u8])> {
        match &mut self.kind {
            Kind::Memory(s) => s.stamps_mut(block),
            Kind::File(_) => None,
        }
    }

    /// Unit `index` of a block, unit `unit` of its begun superpage, holds zeros.
    pub(crate) fn clear_unit(&mut self, block: u32, index: u32, unit: u32) {
        match &mut self.kind {
            Kind::Memory(s) => s.clear_unit(block, index),
            Kind::File(s) => {
                let (_, data, metadata) = s.unit_mut(block, unit);
                data.fill(0);
                metadata.fill(0);
            }
        }
    }

    /// Copies a unit (block, unit of it) as it is stored to one of a begun superpage (block, unit of it, unit of the superpage).
    pub(crate) fn copy_unit(&mut self, from: (u32, u32), (block, index, unit): (u32, u32, u32)) {
        match &mut self.kind {
            Kind::Memory(s) => s.copy_unit(from, (block, index)),
            Kind::File(s) => s.copy_unit(from, (block, unit)),
        }
    }

    /// The program of a superpage has ended. Its new state follows.
    #[inline]
    pub(crate) fn end(&mut self, block: u32, superpage: u32, readable: bool) {
        if let Kind::File(s) = &mut self.kind {
            s.end(block, superpage, readable);
        }
    }

    /// Reads stored bytes of a unit, from `start` on, into `out`, which may be empty: the result is for the whole unit.
    #[inline(always)]
    pub(crate) fn read(&mut self, block: u32, index: u32, start: usize, out: &mut [u8]) -> Found {
        match &mut self.kind {
            Kind::Memory(s) => {
                if let Some(unit) = s.unit(block, index) {
                    copy_images(out, &unit[start..start + out.len()]);
                    return Found::Good;
                }
                // An empty vector store with an empty mask would cost a microcode assist.
                if !out.is_empty() {
                    out.fill(0);
                }
                s.without_data(block, index)
            }
            Kind::File(s) => s.read(block, index, start, out),
        }
    }

    /// Stored bytes of a unit, correct or not.
    pub(crate) fn raw(&self, block: u32, index: u32) -> Cow<'_, [u8]> {
        match &self.kind {
            Kind::Memory(s) => match s.unit(block, index) {
                Some(unit) => Cow::Borrowed(unit),
                None => Cow::Owned(vec![0; s.unit_bytes()]),
            },
            Kind::File(s) => s.raw(block, index),
        }
    }

    /// Returns whether `stored` are the bytes that were stored for the unit, as far as the store knows.
    pub(crate) fn is_what_was_stored(&self, block: u32, index: u32, stored: &[u8]) -> bool {
        match &self.kind {
            Kind::Memory(s) => s.without_data(block, index) == Found::Good,
            Kind::File(s) => s.is_what_was_stored(block, index, stored),
        }
    }

    /// The host's metadata of a unit, from `start` on; `false`: they are damaged, `out` is all zeros.
    pub(crate) fn metadata(&self, block: u32, index: u32, start: usize, out: &mut [u8]) -> bool {
        match &self.kind {
            Kind::Memory(s) => out.copy_from_slice(&s.metadata(block, index)[start..start + out.len()]),
            Kind::File(s) => return s.metadata(block, index, start, out),
        }
        true
    }

    /// The host's metadata of a unit, where memory has them.
    pub(crate) fn held_metadata(&self, block: u32, index: u32) -> &[u8] {
        match &self.kind {
            Kind::Memory(s) => s.metadata(block, index),
            Kind::File(_) => unreachable!("a snapshot of media in a file"),
        }
    }

    /// The host's metadata of a unit, for writing.
    pub(crate) fn held_metadata_mut(&mut self, block: u32, index: u32) -> &mut [u8] {
        match &mut self.kind {
            Kind::Memory(s) => s.metadata_mut(block, index),
            Kind::File(_) => unreachable!("a snapshot of media in a file"),
        }
    }

    /// Prefetches bytes of a unit that will be read soon; a file's bytes come from the disk in any case.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32, index: u32, bytes: Range<usize>) {
        if let Kind::Memory(s) = &self.kind {
            s.prefetch(block, index, bytes);
        }
    }

    /// Returns whether [`Store::forget`] saves memory.
    #[inline]
    pub(crate) fn forgets(&self) -> bool {
        matches!(&self.kind, Kind::Memory(s) if s.keeps_data())
    }

    /// Discards the data of a unit: they will not be read again, and their memory may serve others.
    #[inline]
    pub(crate) fn forget(&mut self, block: u32, index: u32, remains: Remains) {
        if let Kind::Memory(s) = &mut self.kind {
            s.forget(block, index, remains);
        }
    }

    /// Discards the data of a whole block: they will not be read again.
    pub(crate) fn forget_block(&mut self, block: u32) {
        if let Kind::Memory(s) = &mut self.kind {
            s.forget_block(block);
        }
    }

    /// Gives up the data of a unit: they may not be read again. A store that ends with the process need not remember it.
    pub(crate) fn give_up(&mut self, block: u32, index: u32) {
        if let Kind::File(s) = &mut self.kind {
            s.give_up(block, index);
        }
    }

    /// Returns whether the store accepts more data: its file accepts writes, or its memory has not reached its bound. Otherwise new
    /// host writes should be refused; writes in flight still complete.
    #[inline]
    pub fn has_room(&self) -> bool {
        match &self.kind {
            Kind::Memory(s) => s.has_room(),
            Kind::File(s) => !s.holds_back(),
        }
    }

    /// Returns whether the file fails to take written data. Its content is then as a power cut at that moment would have left it, and no
    /// later change may be promised to a host.
    #[inline]
    pub fn holds_back(&self) -> bool {
        match &self.kind {
            Kind::Memory(_) => false,
            Kind::File(s) => s.holds_back(),
        }
    }

    /// Retries writes that the file refused.
    pub fn try_again(&mut self) {
        if let Kind::File(s) = &mut self.kind {
            s.try_again();
        }
    }

    /// Takes the next notice of the store.
    pub fn notice(&mut self) -> Option<StoreNotice> {
        match &mut self.kind {
            Kind::Memory(_) => None,
            Kind::File(s) => s.notice(),
        }
    }

    /// Fulfils a flush; with [`crate::SyncTo::Machine`] waits for the disk.
    ///
    /// # Errors
    /// When the file does not take the written data.
    pub fn flushed(&mut self) -> Result<(), StoreError> {
        match &mut self.kind {
            Kind::Memory(_) => Ok(()),
            Kind::File(s) => s.flushed(),
        }
    }

    /// Memory and disk space that the store may come to use.
    pub fn extent(&self) -> Extent {
        match &self.kind {
            Kind::Memory(s) => Extent { memory_max: s.memory_bytes_max(), reserved: 0, file_max: 0 },
            Kind::File(s) => s.extent(),
        }
    }

    /// Bytes of the save area from `at` on.
    ///
    /// # Panics
    /// When they reach beyond it.
    pub fn save_read(&self, at: usize, out: &mut [u8]) {
        match &self.kind {
            Kind::Memory(s) => s.save_read(at, out),
            Kind::File(s) => s.save_read(at, out),
        }
    }

    /// Writes bytes to the save area. After this returns, they survive a kill of the process.
    ///
    /// # Errors
    /// When the file cannot take them, as with a full disk; the bytes at this place are then undefined.
    ///
    /// # Panics
    /// When they reach beyond the area.
    pub fn save_write(&mut self, at: usize, bytes: &[u8]) -> Result<(), StoreError> {
        match &mut self.kind {
            Kind::Memory(s) => s.save_write(at, bytes),
            Kind::File(s) => return s.save_write(at, bytes),
        }
        Ok(())
    }

    /// Makes a newly created store valid, its first states being set.
    pub(crate) fn finish_creation(&mut self) -> Result<(), StoreError> {
        match &mut self.kind {
            Kind::Memory(_) => Ok(()),
            Kind::File(s) => s.finish_creation(),
        }
    }

    /// Records how long the media have existed, if the store survives the process.
    pub(crate) fn set_age(&mut self, age_s: u64) {
        match &mut self.kind {
            Kind::Memory(_) => {}
            Kind::File(s) => s.set_age(age_s),
        }
    }

    /// Binds the media to a drive: numbers, with their names, that must not change while the media are kept, because the stored data mean
    /// something else to a drive with other numbers. 0: not given.
    ///
    /// # Errors
    /// When the image in a file store belongs to a drive with other numbers, or when they cannot be written. The image is unchanged.
    pub fn claim(&mut self, words: Claim) -> Result<(), StoreError> {
        match &mut self.kind {
            Kind::Memory(_) => Ok(()),
            Kind::File(s) => s.claim(words),
        }
    }

    /// Removes a file that was just made for media that cannot be used; a file that existed before stays.
    pub fn discard(&mut self) {
        match &mut self.kind {
            Kind::Memory(_) => {}
            Kind::File(s) => s.discard(),
        }
    }

    /// With a file store, writes everything to the disk.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        match &mut self.kind {
            Kind::Memory(_) => Ok(()),
            Kind::File(s) => s.sync(),
        }
    }

    pub(crate) fn fork(&self) -> Result<Store, StoreError> {
        match &self.kind {
            Kind::Memory(s) => Ok(Store { kind: Kind::Memory(s.clone()) }),
            Kind::File(s) => Err(StoreError::NotForkable { path: s.path().into() }),
        }
    }

    /// Bytes of memory allocated for states, spare areas and data. A file store keeps the data in its file.
    pub fn memory_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Memory(s) => s.memory_bytes(),
            Kind::File(s) => s.memory_bytes(),
        }
    }
}
