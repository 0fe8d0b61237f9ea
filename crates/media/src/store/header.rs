//! Header of an image file: parameters of the drive and offsets of the regions. `docs/reference/media-image.md` lists its fields.

use super::StoreShape;
use super::backing::{self, Backing};
use crate::MediaConfig;
use crate::error::StoreError;
use pellucid_flash::Geometry;
use std::path::Path;

/// Magic number of a complete image.
const MAGIC: &[u8; 8] = b"PELLUCID";
/// The format version that this code reads and writes.
const VERSION: u32 = 3;
const REGION_ALIGN: u64 = 4096;
/// Bytes that the header takes in the file, and how many of them are used.
const HEADER_BYTES: u64 = 4096;
const USED_BYTES: usize = 256;

const VERSION_AT: usize = 8;
const HEADER_BYTES_AT: usize = 12;
const GEOMETRY_AT: usize = 16;
const SEED_AT: usize = 64;
const PLACES_AT: usize = 72;
/// Chunk bytes, correctable bits, 1 with a scrambler, bytes per sector of the host's metadata; u32 each.
const CODE_AT: usize = 112;
const SAVE_BYTES_AT: usize = 128;
/// Offset of the drive's fixed properties, u64 each; 0: not given.
const CLAIM_AT: usize = 136;
const AGE_AT: usize = 160;
/// 0 while a drive uses the image, 1 once it was closed in order.
const CLEAN_AT: usize = 168;
/// CRC-32C of everything before it.
const SUM_AT: usize = USED_BYTES - 4;

/// Offsets of the regions of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    pub state_at: u64,
    pub record_at: u64,
    pub data_at: u64,
    pub save_at: u64,
    pub file_bytes: u64,
}

impl Regions {
    pub fn new(shape: &StoreShape, state_bytes: usize, record_bytes: usize) -> Regions {
        let blocks = u64::from(shape.blocks);
        let behind = |start: u64, bytes: u64| (start + bytes).next_multiple_of(REGION_ALIGN);
        let superpages = blocks * u64::from(shape.superpages_per_block);
        let units = blocks * shape.units_per_block() as u64;
        let record_at = behind(HEADER_BYTES, state_bytes as u64 * blocks);
        let data_at = behind(record_at, record_bytes as u64 * superpages);
        let save_at = behind(data_at, shape.unit_stored_bytes as u64 * units);
        let file_bytes = behind(save_at, shape.save_bytes as u64);
        Regions { state_at: HEADER_BYTES, record_at, data_at, save_at, file_bytes }
    }

    fn words(&self) -> [u64; 5] {
        [self.state_at, self.record_at, self.data_at, self.save_at, self.file_bytes]
    }
}

/// Content of the header besides the offsets of the regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    geometry: [u32; 12],
    code: [u32; 4],
    save_bytes: u64,
    /// Seed that the media were made with.
    pub seed: u64,
    pub claim: [u64; 3],
    /// Seconds that the media have existed.
    pub age_s: u64,
    pub clean: bool,
    /// The seed is in the file.
    pub made: bool,
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

/// The code and the host's metadata that an image is bound to; zeros where data are stored as they are.
fn code_words(config: &MediaConfig) -> [(&'static str, u32); 4] {
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
        ("metadata_bytes (16 with open-channel or zoned namespaces)", config.metadata_bytes),
    ]
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns whether a file is there that holds a drive, as far as its first bytes say.
pub fn holds_drive(path: &Path) -> bool {
    backing::begins_with(path, MAGIC)
}

impl Header {
    /// Placeholder for the magic number until an image is complete.
    pub const UNFINISHED: &[u8; 8] = b"PELLUnew";

    /// Returns whether the file, of this length, is an image whose creation was cut off: it never held anything.
    pub fn is_unfinished(backing: &Backing, length: u64) -> bool {
        let mut begin = [0; 8];
        length >= 8 && backing.read(0, &mut begin).is_ok() && begin == *Header::UNFINISHED
    }

    /// The header of a new image.
    pub fn new(config: &MediaConfig) -> Header {
        Header {
            geometry: geometry_words(&config.geometry).map(|(_, word)| word),
            code: code_words(config).map(|(_, word)| word),
            save_bytes: config.save_bytes,
            seed: config.seed,
            claim: [0; 3],
            age_s: 0,
            clean: false,
            made: false,
        }
    }

    /// Encodes the header as it stands in the file.
    pub fn encode(&mut self, regions: &Regions) -> [u8; USED_BYTES] {
        self.made = true;
        let mut h = [0; USED_BYTES];
        h[..8].copy_from_slice(MAGIC);
        h[VERSION_AT..][..4].copy_from_slice(&VERSION.to_le_bytes());
        h[HEADER_BYTES_AT..][..4].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        let small = |at: usize| move |(i, word): (usize, u32)| (at + 4 * i, word);
        let words = self.geometry.into_iter().enumerate().map(small(GEOMETRY_AT));
        for (at, word) in words.chain(self.code.into_iter().enumerate().map(small(CODE_AT))) {
            h[at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        let large = |at: usize| move |(i, word): (usize, u64)| (at + 8 * i, word);
        let words = regions.words().into_iter().enumerate().map(large(PLACES_AT));
        let words = words.chain(self.claim.into_iter().enumerate().map(large(CLAIM_AT)));
        let clean = u64::from(self.clean);
        let single = [(SEED_AT, self.seed), (SAVE_BYTES_AT, self.save_bytes), (AGE_AT, self.age_s)];
        for (at, word) in words.chain(single).chain([(CLEAN_AT, clean)]) {
            h[at..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32c::crc32c(&h[..SUM_AT]);
        h[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        h
    }

    /// The header of an image of `file_bytes` bytes, which must have been made for `config`.
    pub fn read(
        backing: &Backing,
        file_bytes: u64,
        config: &MediaConfig,
        regions: &Regions,
    ) -> Result<Header, StoreError> {
        let path = || backing.path().to_path_buf();
        let damaged = |what: &str| Err(StoreError::Damaged { path: path(), what: what.into() });
        let mut h = [0; USED_BYTES];
        if file_bytes < HEADER_BYTES {
            return Err(StoreError::NotAnImage { path: path() });
        }
        let io = |source| StoreError::Io { path: path(), action: "read the header", source };
        backing.read(0, &mut h).map_err(io)?;
        if h[..MAGIC.len()] != *MAGIC {
            return Err(StoreError::NotAnImage { path: path() });
        }
        // The version comes before the checksum: another version may keep its checksum elsewhere.
        let found = u32_at(&h, VERSION_AT);
        if found != VERSION {
            return Err(StoreError::Version { path: path(), found, supported: VERSION });
        }
        if u32_at(&h, SUM_AT) != crc32c::crc32c(&h[..SUM_AT]) {
            return damaged("the header's checksum is wrong");
        }
        let small = |at: usize| move |(i, (key, word))| (key, u64::from(u32_at(&h, at + 4 * i)), word);
        let words = geometry_words(&config.geometry).into_iter().enumerate().map(small(GEOMETRY_AT));
        let words = words.chain(code_words(config).into_iter().enumerate().map(small(CODE_AT)));
        let words = words.map(|(key, image, word): (_, u64, u32)| (key, image, u64::from(word)));
        let save = ("bytes of the save area", u64_at(&h, SAVE_BYTES_AT), config.save_bytes);
        for (key, image, description) in words.chain([save]) {
            if image != description {
                return Err(StoreError::Geometry { path: path(), key, image, description });
            }
        }
        let places: [u64; 5] = std::array::from_fn(|i| u64_at(&h, PLACES_AT + 8 * i));
        if places != regions.words() {
            return damaged("the header's region offsets do not fit its geometry");
        }
        if file_bytes != regions.file_bytes {
            let expected = regions.file_bytes;
            return Err(StoreError::Length { path: path(), found: file_bytes, expected });
        }
        let mut header = Header::new(config);
        header.seed = u64_at(&h, SEED_AT);
        header.claim = std::array::from_fn(|i| u64_at(&h, CLAIM_AT + 8 * i));
        header.age_s = u64_at(&h, AGE_AT);
        header.clean = h[CLEAN_AT] == 1;
        header.made = true;
        Ok(header)
    }
}
