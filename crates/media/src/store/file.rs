//! Everything in one sparse, memory-mapped image file, which survives the process. `docs/image-format.md` draws it:
//!
//! ```text
//! 0            4096                state_at + 8 * blocks     + meta bytes * blocks
//! | header     | block states      | metadata of each block  | images of each block    |
//! |            | one u64 each      | store/meta.rs           | unit after unit         |
//! ```
//! each region aligned to 4096 bytes, all numbers little-endian. Nothing is cached outside the map: what an operation
//! has stored is in the page cache, where it outlives the process, and nothing but the pages touched costs memory.
//!
//! A full disk ends the process with SIGBUS at the first store into a hole, as with every sparse mapped file.

#![allow(
    clippy::disallowed_types,
    reason = "the file store is the one place below the edge that opens files"
)]

use super::{Claim, Opened, Store, StoreShape};
use crate::MediaConfig;
use crate::error::StoreError;
use crate::state::BlockState;
use memmap2::{MmapMut, MmapOptions};
use pellucid_flash::{FNV_BASIS, Geometry, fnv1a};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"PELLUCID";
/// Format versions that this code reads and writes: data as they are, and code words.
const VERSION: u32 = 1;
const VERSION_CODED: u32 = 2;
const REGION_ALIGN: u64 = 4096;

// Offsets in the header.
const VERSION_AT: usize = 8;
const HEADER_BYTES_AT: usize = 12;
const GEOMETRY_AT: usize = 16;
const SEED_AT: usize = 64;
const STATE_AT_AT: usize = 72;
const META_AT_AT: usize = 80;
const IMAGES_AT_AT: usize = 88;
const FILE_BYTES_AT: usize = 96;
/// FNV-1a, 64 bits, of everything before it.
const CHECKSUM_AT: usize = 104;
/// 0 while a drive uses the image, 1 once it was closed in order. Outside the checksum, because it changes.
const CLEAN_AT: usize = 112;
/// Bytes per sector of the host's metadata. Outside the checksum, because images without any are older than the field.
const METADATA_AT: usize = 116;
/// Seconds that the media have existed. Outside the checksum, because it changes.
const AGE_AT: usize = 120;
/// Version 2: chunk bytes, correctable bits, 1 with a scrambler, 0; u32 each. Then FNV-1a of these 16 bytes.
const CODE_AT: usize = 128;
const CODE_CHECKSUM_AT: usize = 144;
/// What stays the same of the drive, u64 each; 0: not said. Outside the checksum, because images without it are older than the field.
const CLAIM_AT: usize = 152;
/// Bytes of the save area. Outside the checksum, because images without one are older than the field.
const SAVE_BYTES_AT: usize = 176;
const HEADER_BYTES: u64 = 4096;

/// Where the regions of an image lie.
#[derive(Clone, Copy, Debug)]
struct Regions {
    state_at: u64,
    meta_at: u64,
    images_at: u64,
    save_at: u64,
    file_bytes: u64,
}

impl Regions {
    fn new(shape: &StoreShape) -> Regions {
        let blocks = u64::from(shape.blocks);
        let state_at = HEADER_BYTES;
        let meta_at = (state_at + 8 * blocks).next_multiple_of(REGION_ALIGN);
        let images_at = (meta_at + shape.meta.bytes as u64 * blocks).next_multiple_of(REGION_ALIGN);
        let save_at =
            (images_at + shape.image_bytes_per_block as u64 * blocks).next_multiple_of(REGION_ALIGN);
        let file_bytes = (save_at + shape.save_bytes as u64).next_multiple_of(REGION_ALIGN);
        Regions { state_at, meta_at, images_at, save_at, file_bytes }
    }
}

/// The file store.
#[derive(Debug)]
pub(crate) struct FileStore {
    path: PathBuf,
    shape: StoreShape,
    regions: Regions,
    map: MmapMut,
    /// It did not exist before.
    created: bool,
    /// Kept open for its lock.
    _file: File,
}

/// The keys that an image is bound to, in the order of the header.
fn geometry_words(g: &Geometry) -> [(&'static str, u32); 12] {
    [
        ("channels", g.channels),
        ("ways", g.ways),
        ("dies", g.dies),
        ("planes", g.planes),
        ("blocks", g.blocks),
        ("pages", g.pages),
        ("page_bytes", g.page_bytes),
        ("spare_bytes", g.spare_bytes),
        ("sector_bytes", g.sector_bytes),
        ("unit_bytes", g.unit_bytes),
        ("multi_plane", u32::from(g.multi_plane)),
        ("one_shot_pages", g.one_shot_pages),
    ]
}

/// The code that an image is bound to; zeros where data are stored as they are.
fn code_words(config: &MediaConfig) -> [(&'static str, u32); 3] {
    let integrity = &config.integrity;
    let (chunk, correctable, scrambler) = match integrity.ecc {
        Some(ecc) if integrity.stores_code_words() => {
            (ecc.chunk_bytes, ecc.correctable, u32::from(integrity.scrambler))
        }
        _ => (0, 0, 0),
    };
    [
        ("ecc.chunk (0: data are stored without code words)", chunk),
        ("ecc.correctable", correctable),
        ("ecc.scrambler", scrambler),
    ]
}

fn checksum(bytes: &[u8]) -> u64 {
    fnv1a(FNV_BASIS, bytes.iter().copied())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn header(config: &MediaConfig, regions: &Regions) -> [u8; CLEAN_AT] {
    let (geometry, seed) = (&config.geometry, config.seed);
    let version = if config.integrity.stores_code_words() { VERSION_CODED } else { VERSION };
    let mut h = [0; CLEAN_AT];
    h[..8].copy_from_slice(MAGIC);
    h[VERSION_AT..][..4].copy_from_slice(&version.to_le_bytes());
    h[HEADER_BYTES_AT..][..4].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
    for (i, (_, word)) in geometry_words(geometry).into_iter().enumerate() {
        h[GEOMETRY_AT + 4 * i..][..4].copy_from_slice(&word.to_le_bytes());
    }
    for (at, word) in [
        (SEED_AT, seed),
        (STATE_AT_AT, regions.state_at),
        (META_AT_AT, regions.meta_at),
        (IMAGES_AT_AT, regions.images_at),
        (FILE_BYTES_AT, regions.file_bytes),
    ] {
        h[at..][..8].copy_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(&h[..CHECKSUM_AT]);
    h[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
    h
}

impl FileStore {
    /// Opens the image at `path`, or creates it when there is none or an empty file. A new image has no magic number until
    /// [`FileStore::finish_creation`].
    pub(crate) fn open(path: &Path, config: &MediaConfig, shape: StoreShape) -> Result<Opened, StoreError> {
        let io = |action| move |source| StoreError::Io { path: path.into(), action, source };
        let regions = Regions::new(&shape);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io("open or create the image"))?;
        lock(&file, path)?;
        let found = file.metadata().map_err(io("ask for the length"))?.len();
        let created = found == 0;
        if created {
            file.set_len(regions.file_bytes).map_err(io("extend the new image"))?;
        } else if found < HEADER_BYTES {
            return Err(StoreError::NotAnImage { path: path.into() });
        }
        let map_bytes = if created { regions.file_bytes } else { found };
        let mut map = map_file(&file, map_bytes).map_err(io("map the image"))?;
        if created {
            map[..CLEAN_AT].copy_from_slice(&header(config, &regions));
            map[METADATA_AT..][..4].copy_from_slice(&(shape.metadata_bytes as u32).to_le_bytes());
            map[SAVE_BYTES_AT..][..8].copy_from_slice(&config.save_bytes.to_le_bytes());
            write_code(&mut map, config);
            map[..MAGIC.len()].fill(0);
        } else {
            check_header(&map, path, config, &regions, shape.metadata_bytes as u32)?;
            check_states(&map, path, &regions, &shape)?;
        }
        let recovered = !created && map[CLEAN_AT] == 0;
        let (made, age_s) = (u64_at(&map, SEED_AT), u64_at(&map, AGE_AT));
        if !created {
            map[CLEAN_AT] = 0;
            map.flush_range(0, HEADER_BYTES as usize).map_err(io("write the header to disk"))?;
        }
        let store = Store::File(FileStore { path: path.into(), shape, regions, map, created, _file: file });
        Ok(Opened { store, created, made, recovered, age_s })
    }

    /// Makes a new image valid; until then it is refused, so that an interrupted creation never passes for a drive.
    pub(crate) fn finish_creation(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        self.map[..MAGIC.len()].copy_from_slice(MAGIC);
        self.sync()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    pub(crate) fn state(&self, block: u32) -> BlockState {
        BlockState::from_stored(u64_at(&self.map, self.state_at(block)))
    }

    #[inline]
    pub(crate) fn set_state(&mut self, block: u32, state: BlockState) {
        let at = self.state_at(block);
        self.map[at..at + 8].copy_from_slice(&state.to_checked().to_le_bytes());
    }

    #[inline]
    pub(crate) fn meta(&self, block: u32) -> &[u8] {
        &self.map[self.meta_range(block)]
    }

    #[inline]
    pub(crate) fn images(&self, block: u32) -> &[u8] {
        &self.map[self.images_range(block)]
    }

    #[inline]
    pub(crate) fn both_mut(&mut self, block: u32) -> (&mut [u8], &mut [u8]) {
        let (meta, images) = (self.meta_range(block), self.images_range(block));
        let (low, high) = self.map.split_at_mut(self.regions.images_at as usize);
        let base = self.regions.images_at as usize;
        (&mut low[meta], &mut high[images.start - base..images.end - base])
    }

    pub(crate) fn copy_images(&mut self, from: (u32, Range<usize>), to: (u32, usize)) {
        let source = self.images_range(from.0).start;
        let target = self.images_range(to.0).start + to.1;
        self.map.copy_within(source + from.1.start..source + from.1.end, target);
    }

    pub(crate) fn save_read(&self, at: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.map[self.save_range(at, out.len())]);
    }

    pub(crate) fn save_write(&mut self, at: usize, bytes: &[u8]) -> Result<(), StoreError> {
        let range = self.save_range(at, bytes.len());
        self.map[range].copy_from_slice(bytes);
        Ok(())
    }

    fn save_range(&self, at: usize, bytes: usize) -> Range<usize> {
        assert!(at + bytes <= self.shape.save_bytes, "bytes {at} + {bytes} of {}", self.shape.save_bytes);
        let start = self.regions.save_at as usize + at;
        start..start + bytes
    }

    pub(crate) fn set_age(&mut self, age_s: u64) {
        self.map[AGE_AT..AGE_AT + 8].copy_from_slice(&age_s.to_le_bytes());
    }

    /// Compares with what the image says, and writes what it does not say.
    pub(crate) fn claim(&mut self, words: Claim) -> Result<(), StoreError> {
        let place = |i: usize| CLAIM_AT + 8 * i;
        for (i, (key, description)) in words.into_iter().enumerate() {
            let image = u64_at(&self.map, place(i));
            if image != 0 && image != description {
                return Err(StoreError::Geometry { path: self.path.clone(), key, image, description });
            }
        }
        for (i, (_, word)) in words.into_iter().enumerate() {
            self.map[place(i)..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let io =
            |source| StoreError::Io { path: self.path.clone(), action: "write the header to disk", source };
        self.map.flush_range(0, HEADER_BYTES as usize).map_err(io)
    }

    /// Takes the file away if it was created for this store. What cannot be taken away is a good image all the same.
    pub(crate) fn discard(&mut self) {
        if self.created {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Writes everything to the disk.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        let io =
            |source| StoreError::Io { path: self.path.clone(), action: "write the image to disk", source };
        self.map.flush().map_err(io)
    }

    #[inline]
    fn state_at(&self, block: u32) -> usize {
        assert!(block < self.shape.blocks, "block {block} of {}", self.shape.blocks);
        self.regions.state_at as usize + 8 * block as usize
    }

    #[inline]
    fn meta_range(&self, block: u32) -> Range<usize> {
        assert!(block < self.shape.blocks, "block {block} of {}", self.shape.blocks);
        let start = self.regions.meta_at as usize + self.shape.meta.bytes * block as usize;
        start..start + self.shape.meta.bytes
    }

    #[inline]
    fn images_range(&self, block: u32) -> Range<usize> {
        assert!(block < self.shape.blocks, "block {block} of {}", self.shape.blocks);
        let start = self.regions.images_at as usize + self.shape.image_bytes_per_block * block as usize;
        start..start + self.shape.image_bytes_per_block
    }
}

impl Drop for FileStore {
    /// Marks the image as closed in order, once everything else is on the disk. When that fails there is nobody to tell,
    /// and the mark stays away.
    fn drop(&mut self) {
        if self.map[..MAGIC.len()] == *MAGIC && self.map.flush().is_ok() {
            self.map[CLEAN_AT] = 1;
            // Without the mark the image counts as not closed, which is safe.
            let _ = self.map.flush_range(0, HEADER_BYTES as usize);
        }
    }
}

fn lock(file: &File, path: &Path) -> Result<(), StoreError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: path.into() }),
        Err(TryLockError::Error(source)) => {
            Err(StoreError::Io { path: path.into(), action: "lock the image", source })
        }
    }
}

#[allow(unsafe_code, reason = "mapping a file is unsafe: another process could change it")]
fn map_file(file: &File, bytes: u64) -> io::Result<MmapMut> {
    let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    // SAFETY: the file is locked for exclusive use by every program that knows the format, and it is not truncated
    // while mapped. Any bytes in it are valid for the `u8` that the map is made of.
    unsafe { MmapOptions::new().len(bytes).map_mut(file) }
}

/// The code of a new image, if it has one.
fn write_code(map: &mut [u8], config: &MediaConfig) {
    if !config.integrity.stores_code_words() {
        return;
    }
    for (i, (_, word)) in code_words(config).into_iter().enumerate() {
        map[CODE_AT + 4 * i..][..4].copy_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(&map[CODE_AT..CODE_CHECKSUM_AT]);
    map[CODE_CHECKSUM_AT..][..8].copy_from_slice(&sum.to_le_bytes());
}

/// An image holds what the description's code makes, or plain data without one.
fn check_code(map: &[u8], path: &Path, config: &MediaConfig) -> Result<(), StoreError> {
    let coded = u32_at(map, VERSION_AT) == VERSION_CODED;
    if coded && u64_at(map, CODE_CHECKSUM_AT) != checksum(&map[CODE_AT..CODE_CHECKSUM_AT]) {
        let what = "the checksum of the header's code is wrong".into();
        return Err(StoreError::Damaged { path: path.into(), what });
    }
    for (i, (key, description)) in code_words(config).into_iter().enumerate() {
        let image = u32_at(map, CODE_AT + 4 * i);
        if image != description {
            let (path, image, description) = (path.into(), image.into(), description.into());
            return Err(StoreError::Geometry { path, key, image, description });
        }
    }
    Ok(())
}

fn check_header(
    map: &[u8],
    path: &Path,
    config: &MediaConfig,
    regions: &Regions,
    metadata_bytes: u32,
) -> Result<(), StoreError> {
    let damaged = |what: &str| Err(StoreError::Damaged { path: path.into(), what: what.into() });
    if map[..MAGIC.len()] != *MAGIC {
        return Err(StoreError::NotAnImage { path: path.into() });
    }
    // The version comes before the checksum: another version may keep its checksum elsewhere.
    let found = u32_at(map, VERSION_AT);
    if found != VERSION && found != VERSION_CODED {
        return Err(StoreError::Version { path: path.into(), found, supported: VERSION_CODED });
    }
    if u64_at(map, CHECKSUM_AT) != checksum(&map[..CHECKSUM_AT]) {
        return damaged("the header's checksum is wrong");
    }
    let metadata = ("metadata_bytes (16 with open-channel or zoned namespaces)", metadata_bytes, METADATA_AT);
    let words = geometry_words(&config.geometry).into_iter().enumerate();
    let words = words.map(|(i, (key, word))| (key, word, GEOMETRY_AT + 4 * i)).chain([metadata]);
    for (key, description, at) in words {
        let image = u32_at(map, at);
        if image != description {
            let (path, image, description) = (path.into(), image.into(), description.into());
            return Err(StoreError::Geometry { path, key, image, description });
        }
    }
    check_code(map, path, config)?;
    let (key, image, description) = ("bytes of the save area", u64_at(map, SAVE_BYTES_AT), config.save_bytes);
    if image != description {
        return Err(StoreError::Geometry { path: path.into(), key, image, description });
    }
    let places = [STATE_AT_AT, META_AT_AT, IMAGES_AT_AT, FILE_BYTES_AT].map(|at| u64_at(map, at));
    if places != [regions.state_at, regions.meta_at, regions.images_at, regions.file_bytes] {
        return damaged("the header's region offsets do not fit its geometry");
    }
    if map[CLEAN_AT] > 1 {
        return damaged("the header's clean flag is neither 0 nor 1");
    }
    let found = map.len() as u64;
    if found != regions.file_bytes {
        return Err(StoreError::Length { path: path.into(), found, expected: regions.file_bytes });
    }
    Ok(())
}

fn check_states(map: &[u8], path: &Path, regions: &Regions, shape: &StoreShape) -> Result<(), StoreError> {
    let start = regions.state_at as usize;
    let words = map[start..start + 8 * shape.blocks as usize].chunks_exact(8);
    for (block, word) in words.enumerate() {
        if BlockState::from_checked(u64_at(word, 0), shape.stripes_per_block).is_none() {
            let what = format!("the state of block {block}, at byte {}, is damaged", start + 8 * block);
            return Err(StoreError::Damaged { path: path.into(), what });
        }
    }
    Ok(())
}
