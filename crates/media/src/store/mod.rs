//! Where block states, spare areas and data are kept. The store knows bytes; what they mean is the media's business.
//!
//! | kind | states, spare | image of a sector      | survives the process |
//! |------|---------------|------------------------|----------------------|
//! | none | memory        | a 4-byte stamp, memory | no                   |
//! | ram  | memory        | its bytes, memory      | no                   |
//! | file | image file    | its bytes, image file  | yes                  |

mod arena;
mod file;
mod memory;
mod meta;

use crate::error::StoreError;
use crate::state::BlockState;
use crate::{MediaConfig, StoreKind};
use file::FileStore;
use memory::MemoryStore;
pub(crate) use meta::{MetaShape, UNREADABLE};
use pellucid_flash::Layout;
use std::ops::Range;

/// Bytes kept per sector when the data are not kept.
const STAMP_BYTES: usize = 4;

/// Sizes of what is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreShape {
    pub(crate) blocks: u32,
    pub(crate) stripes_per_block: u32,
    pub(crate) meta: MetaShape,
    pub(crate) image_bytes: usize,
    /// What is kept of a unit's data ...
    pub(crate) unit_image_bytes: usize,
    /// ... and of data and parity.
    pub(crate) unit_stored_bytes: usize,
    /// The host's part of the spare area, per sector and per unit; a block's lies behind its images.
    pub(crate) metadata_bytes: usize,
    pub(crate) unit_metadata_bytes: usize,
    pub(crate) metadata_at: usize,
    /// Images and the host's metadata.
    pub(crate) image_bytes_per_block: usize,
    /// Of the save area.
    pub(crate) save_bytes: usize,
}

impl StoreShape {
    /// `parity_bytes`: stored behind the data of each unit.
    pub(crate) fn new(config: &MediaConfig, layout: &Layout, parity_bytes: usize) -> StoreShape {
        let metadata_bytes = config.metadata_bytes;
        let image_bytes = match config.store {
            StoreKind::None => STAMP_BYTES,
            StoreKind::Ram | StoreKind::File(_) => layout.sector_bytes as usize,
        };
        let unit_image_bytes = image_bytes * layout.sectors_per_unit as usize;
        let unit_metadata_bytes = metadata_bytes as usize * layout.sectors_per_unit as usize;
        let units = layout.units_per_block as usize;
        let unit_stored_bytes = unit_image_bytes + parity_bytes;
        StoreShape {
            blocks: layout.blocks,
            stripes_per_block: layout.stripes_per_block,
            meta: MetaShape::new(layout),
            image_bytes,
            unit_image_bytes,
            unit_stored_bytes,
            metadata_bytes: metadata_bytes as usize,
            unit_metadata_bytes,
            metadata_at: unit_stored_bytes * units,
            image_bytes_per_block: (unit_stored_bytes + unit_metadata_bytes) * units,
            save_bytes: config.save_bytes as usize,
        }
    }
}

/// What is to stay the same of the drive that the media are in: words, and what they are called. 0: not said.
pub(crate) type Claim = [(&'static str, u64); 3];

/// A page store.
#[derive(Debug)]
pub(crate) enum Store {
    Memory(MemoryStore),
    File(FileStore),
}

/// A store and what is to be known about how it was opened.
pub(crate) struct Opened {
    pub(crate) store: Store,
    /// It did not exist before.
    pub(crate) created: bool,
    /// The seed that the media were made with.
    pub(crate) made: u64,
    /// Its last user did not close it.
    pub(crate) recovered: bool,
    /// Seconds that the media had existed when they were used last.
    pub(crate) age_s: u64,
}

impl Store {
    pub(crate) fn open(config: &MediaConfig, shape: StoreShape) -> Result<Opened, StoreError> {
        match &config.store {
            StoreKind::None | StoreKind::Ram => {
                let store = Store::Memory(MemoryStore::new(shape));
                Ok(Opened { store, created: true, made: config.seed, recovered: false, age_s: 0 })
            }
            StoreKind::File(path) => FileStore::open(path, config, shape),
        }
    }

    #[inline]
    pub(crate) fn state(&self, block: u32) -> BlockState {
        match self {
            Store::Memory(s) => s.state(block),
            Store::File(s) => s.state(block),
        }
    }

    #[inline]
    pub(crate) fn set_state(&mut self, block: u32, state: BlockState) {
        match self {
            Store::Memory(s) => s.set_state(block, state),
            Store::File(s) => s.set_state(block, state),
        }
    }

    /// Metadata of a block that has a begun, programmed or torn stripe.
    #[inline]
    pub(crate) fn meta(&self, block: u32) -> &[u8] {
        match self {
            Store::Memory(s) => s.meta(block),
            Store::File(s) => s.meta(block),
        }
    }

    /// Images of a block that has a begun, programmed or torn stripe.
    #[inline]
    pub(crate) fn images(&self, block: u32) -> &[u8] {
        match self {
            Store::Memory(s) => s.images(block),
            Store::File(s) => s.images(block),
        }
    }

    /// Has images fetched that will be read soon; a file's come from the disk in any case.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32, start: usize, bytes: usize) {
        if let Store::Memory(s) = self {
            s.prefetch(block, start, bytes);
        }
    }

    /// Metadata and images of a block, for writing.
    #[inline]
    pub(crate) fn both_mut(&mut self, block: u32) -> (&mut [u8], &mut [u8]) {
        match self {
            Store::Memory(s) => s.both_mut(block),
            Store::File(s) => s.both_mut(block),
        }
    }

    /// Copies images between (block, byte range) and (block, byte); the target has a begun stripe.
    pub(crate) fn copy_images(&mut self, from: (u32, Range<usize>), to: (u32, usize)) {
        match self {
            Store::Memory(s) => s.copy_images(from, to),
            Store::File(s) => s.copy_images(from, to),
        }
    }

    /// Bytes of the save area from `at` on.
    pub(crate) fn save_read(&self, at: usize, out: &mut [u8]) {
        match self {
            Store::Memory(s) => s.save_read(at, out),
            Store::File(s) => s.save_read(at, out),
        }
    }

    /// Puts bytes into the save area.
    pub(crate) fn save_write(&mut self, at: usize, bytes: &[u8]) -> Result<(), StoreError> {
        match self {
            Store::Memory(s) => s.save_write(at, bytes),
            Store::File(s) => return s.save_write(at, bytes),
        }
        Ok(())
    }

    /// Makes a newly created store valid, its first states being set.
    pub(crate) fn finish_creation(&mut self) -> Result<(), StoreError> {
        match self {
            Store::Memory(_) => Ok(()),
            Store::File(s) => s.finish_creation(),
        }
    }

    /// Keeps how long the media have existed, where the store survives the process.
    pub(crate) fn set_age(&mut self, age_s: u64) {
        match self {
            Store::Memory(_) => {}
            Store::File(s) => s.set_age(age_s),
        }
    }

    /// Says for which drive the media are, where the store survives the process.
    pub(crate) fn claim(&mut self, words: Claim) -> Result<(), StoreError> {
        match self {
            Store::Memory(_) => Ok(()),
            Store::File(s) => s.claim(words),
        }
    }

    /// Takes away what was created, if it survives the process.
    pub(crate) fn discard(&mut self) {
        match self {
            Store::Memory(_) => {}
            Store::File(s) => s.discard(),
        }
    }

    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        match self {
            Store::Memory(_) => Ok(()),
            Store::File(s) => s.sync(),
        }
    }

    pub(crate) fn fork(&self) -> Result<Store, StoreError> {
        match self {
            Store::Memory(s) => Ok(Store::Memory(s.clone())),
            Store::File(s) => Err(StoreError::NotForkable { path: s.path().into() }),
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        match self {
            Store::Memory(s) => s.memory_bytes(),
            Store::File(_) => 0,
        }
    }
}
