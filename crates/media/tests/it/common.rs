//! A small drive and its shorthand.

use pellucid_flash::{BlockId, Geometry, Lpn, Nanos, Ppa};
use pellucid_media::{
    Cell, Faults, Integrity, Keep, Media, MediaConfig, Outcome, ReadResult, StoreKind, Timing, Variation,
};
use std::path::{Path, PathBuf};

/// 2 dies of 8 blocks of 4 superpages of 3 units of 2 sectors of 512 bytes.
pub fn small() -> MediaConfig {
    MediaConfig {
        geometry: Geometry {
            channels: 2,
            ways: 1,
            dies: 1,
            planes: 1,
            blocks: 8,
            pages: 4,
            page_bytes: 3072,
            spare_bytes: 96,
            sector_bytes: 512,
            unit_bytes: 1024,
            multi_plane: false,
            one_shot_pages: 1,
        },
        cell: Cell::Mlc,
        slc_mode: false,
        independent_plane_reads: false,
        slc_blocks: None,
        timing: Timing {
            read_ns: vec![Nanos(50), Nanos(70)],
            program_ns: vec![Nanos(400), Nanos(900)],
            erase_ns: Nanos(3_000),
            die_spread: 0.0,
            op_spread: 0.0,
            op_deviation_ns: Nanos(0),
            variation: Variation::default(),
            channel_bytes_per_second: 200_000_000,
            command_ns: Nanos(0),
            status_ns: Nanos(0),
            suspend_ns: None,
            suspend_erase_ns: Nanos::ZERO,
            resume_ns: Nanos(0),
        },
        endurance: None,
        faults: Faults::default(),
        store: StoreKind::Ram,
        metadata_bytes: 0,
        save_bytes: 0,
        keep: Keep::default(),
        integrity: Integrity::default(),
        seed: 1,
    }
}

/// The small drive with stamps only.
pub fn stamps() -> Media {
    open(&MediaConfig { store: StoreKind::None, ..small() })
}

pub fn open(config: &MediaConfig) -> Media {
    Media::new(config).unwrap_or_else(|e| panic!("{e}"))
}

/// First unit of a superpage.
pub fn first(media: &Media, block: u32, superpage: u32) -> Ppa {
    let layout = media.layout();
    layout.ppa(BlockId(block), superpage * layout.units_per_superpage)
}

/// Sector images that all contain `stamp`.
pub fn images(media: &Media, sectors: usize, stamp: u32) -> Vec<u8> {
    stamp.to_le_bytes().repeat(sectors * media.image_bytes() / 4)
}

/// Programs a whole superpage; unit `u` gets `lpn + u` and sectors stamped with it.
pub fn program(media: &mut Media, block: u32, superpage: u32, lpn: u32, sequence: u64) -> Outcome {
    let at = first(media, block, superpage);
    media.program_begin(at, sequence).unwrap_or_else(|e| panic!("{e}"));
    for unit in 0..media.layout().units_per_superpage {
        let data = images(media, media.layout().sectors_per_unit as usize, lpn + unit);
        media.put_unit(Ppa(at.0 + unit), Lpn(lpn + unit), &data);
    }
    media.program_end(at)
}

pub fn erase(media: &mut Media, block: u32) -> Outcome {
    media.erase_begin(BlockId(block)).unwrap_or_else(|e| panic!("{e}"));
    media.erase_end(BlockId(block))
}

/// Reads a whole unit: the result, and the stamp that all of it contains.
pub fn read(media: &mut Media, ppa: Ppa, attempt: u32) -> (ReadResult, u32) {
    let mut out = images(media, media.layout().sectors_per_unit as usize, 0xdead_beef);
    let result = media.read(ppa, 0, &mut out, attempt);
    let stamp = out[..4].to_vec();
    assert!(out.chunks(4).all(|c| c == stamp), "mixed sectors at {ppa:?}");
    (result, u32::from_le_bytes(stamp.try_into().unwrap()))
}

pub const GOOD: ReadResult = ReadResult::Ok { corrected_bits: 0, worst_chunk_bits: 0 };

/// A path that is removed, with its file, at the end of the test.
pub struct TempPath(PathBuf);

impl TempPath {
    pub fn new(name: &str) -> TempPath {
        let path = std::env::temp_dir().join(format!("pellucid-media-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        TempPath(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The small drive in this file.
    pub fn config(&self) -> MediaConfig {
        MediaConfig { store: StoreKind::File(self.0.clone()), ..small() }
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
