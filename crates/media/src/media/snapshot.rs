//! Snapshots: the state of media that live in memory, written to a stream and read back.
//!
//! ```text
//!  12 x u32   geometry, in the order of `Geometry`          u32  bytes kept per sector
//!  3 x u32    chunk bytes, correctable bits and scrambler of stored code words; zeros without
//!  u64        seed that the media were made with
//!  u64        seconds that the media have existed
//!  per block  u64  state word with its check byte (as in the media image file)
//!             if some superpage can be read:
//!             u64  sequence of superpage 0
//!             u64  age of the media, in seconds, when superpage 0 was programmed
//!             u64  reads since the erase
//!             u32  per used superpage: its sequence minus that one; 2^32 - 1: unreadable
//!             u32  per unit of them: logical page
//!                  per unit of them: its sector images, with parity where code words are stored
//!                  per unit of them: the host's metadata, if the media keep any
//!  u32        number of translation pages; each: u32 address, unit_bytes bytes
//!  save area, if there is one
//! ```
//! All little-endian. Content that an erase made meaningless is not written, so the length of a snapshot follows the data that the media
//! hold. One block is in memory beside the media at any time.
//!
//! As with an image file, a snapshot does not contain the random streams of faults and of operation times: they restart from the
//! description's seed. Operations in progress are torn when the snapshot is read.

use super::Media;
use super::array::Array;
use super::failures::Failures;
use crate::config::{MediaConfig, StoreKind};
use crate::error::MediaError;
use crate::state::BlockState;
use crate::store::StoreShape;
use crate::times::Times;
use std::io::{self, Read, Write};

/// Reason why a snapshot cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Media in a file are their own image.
    #[error("drive.media.store = file: allowed: none or ram; media in a file are their own image")]
    FileStore,
    /// The stream could not be written or read.
    #[error("{}", told(.0))]
    Io(#[from] io::Error),
    /// The media that the description asks for cannot be made.
    #[error("{0}")]
    Media(MediaError),
    /// The snapshot was taken of other media.
    #[error("drive.media.{key} = {described}: allowed: {found}, as in the image")]
    Mismatch {
        /// The key below `drive.media`.
        key: &'static str,
        /// Its value in the description.
        described: u64,
        /// Its value in the snapshot.
        found: u64,
    },
    /// The data that were read cannot be the state of such media.
    #[error("the image is damaged: {what} {number}")]
    Damaged {
        /// Kind of the damaged item.
        what: &'static str,
        /// Number of the item.
        number: u32,
    },
}

/// Describes an I/O error; a stream that ends too early is named as such.
fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the image ends too early".into(),
        _ => error.to_string(),
    }
}

/// Parameters that must agree between snapshot and description.
fn shape(config: &MediaConfig, kept: &StoreShape) -> [(&'static str, u32); 16] {
    let stamps = if kept.unit_stored_bytes == 0 { 0 } else { kept.image_bytes };
    let geometry = &config.geometry;
    let integrity = &config.integrity;
    let code = integrity.ecc.filter(|_| integrity.stores_code_words());
    [
        ("channels", geometry.channels),
        ("ways", geometry.ways),
        ("dies", geometry.dies),
        ("planes", geometry.planes),
        ("blocks", geometry.blocks),
        ("pages", geometry.pages),
        ("page_size", geometry.page_bytes),
        ("spare_size", geometry.spare_bytes),
        ("sector_size", geometry.sector_bytes),
        ("unit_size", geometry.unit_bytes),
        ("multi_plane", geometry.multi_plane.into()),
        ("one_shot_pages", geometry.one_shot_pages),
        // `none` keeps a stamp of 4 bytes, `ram` the whole sector; the host's metadata come on top.
        ("store (bytes kept per sector)", (stamps + kept.metadata_bytes) as u32),
        ("ecc.chunk (0: data are stored without code words)", code.map_or(0, |code| code.chunk_bytes)),
        ("ecc.correctable", code.map_or(0, |code| code.correctable)),
        ("ecc.scrambler", code.map_or(0, |_| integrity.scrambler.into())),
    ]
}

/// Writes the state of media in memory to `out`. `config` is what they were made from.
pub(super) fn export(media: &Media, config: &MediaConfig, out: &mut impl Write) -> Result<(), SnapshotError> {
    if matches!(config.store, StoreKind::File(_)) {
        return Err(SnapshotError::FileStore);
    }
    for (_, value) in shape(config, &media.array.shape) {
        out.write_all(&value.to_le_bytes())?;
    }
    out.write_all(&media.made.to_le_bytes())?;
    out.write_all(&media.age.seconds().to_le_bytes())?;
    for block in 0..media.array.layout.blocks {
        export_block(&media.array, block, out)?;
    }
    out.write_all(&(media.translation_pages.count()).to_le_bytes())?;
    for (ppa, bytes) in media.translation_pages.iter() {
        out.write_all(&ppa.to_le_bytes())?;
        out.write_all(bytes)?;
    }
    let mut saved = vec![0; media.array.save_bytes()];
    media.array.store.save_read(0, &mut saved);
    out.write_all(&saved)?;
    Ok(())
}

fn export_block(array: &Array, block: u32, out: &mut impl Write) -> Result<(), SnapshotError> {
    let state = array.store.state(block);
    out.write_all(&state.to_checked().to_le_bytes())?;
    let superpages = kept_superpages(state);
    if superpages == 0 {
        return Ok(());
    }
    let units = superpages * array.layout.units_per_superpage as usize;
    let meta = array.store.meta(block);
    out.write_all(&array.shape.meta.first_sequence(meta).to_le_bytes())?;
    let (born_s, reads) = array.shape.meta.history(meta);
    out.write_all(&born_s.to_le_bytes())?;
    out.write_all(&reads.to_le_bytes())?;
    out.write_all(array.shape.meta.offsets(meta, superpages))?;
    out.write_all(array.shape.meta.lpns(meta, units))?;
    for index in 0..units as u32 {
        out.write_all(&array.store.raw(block, index))?;
    }
    for index in 0..units as u32 {
        out.write_all(array.store.held_metadata(block, index))?;
    }
    Ok(())
}

/// Makes media from `config` in the state that [`Media::export`] wrote.
pub(super) fn import(config: &MediaConfig, input: &mut impl Read) -> Result<Media, SnapshotError> {
    if matches!(config.store, StoreKind::File(_)) {
        return Err(SnapshotError::FileStore);
    }
    let mut media = Media::new(config).map_err(SnapshotError::Media)?;
    for (key, described) in shape(config, &media.array.shape) {
        let found = read_u32(input)?;
        if found != described {
            return Err(SnapshotError::Mismatch { key, described: described.into(), found: found.into() });
        }
    }
    media.made = read_u64(input)?;
    media.age.set_made(read_u64(input)?);
    media.times = Times::new(config, &media.array.layout, media.made);
    media.failures = Failures::new(config, &media.array.layout);
    for block in 0..media.array.layout.blocks {
        import_block(&mut media.array, block, input)?;
    }
    for _ in 0..read_u32(input)? {
        let ppa = read_u32(input)?;
        if ppa >= media.array.layout.units {
            return Err(SnapshotError::Damaged { what: "translation page at unit", number: ppa });
        }
        let mut bytes = vec![0; media.array.layout.unit_bytes as usize].into_boxed_slice();
        input.read_exact(&mut bytes)?;
        media.translation_pages.put(ppa, bytes);
    }
    let mut saved = vec![0; media.array.save_bytes()];
    input.read_exact(&mut saved)?;
    media.array.store.save_write(0, &saved).expect("memory takes it");
    media.power_cut();
    Ok(media)
}

fn import_block(array: &mut Array, block: u32, input: &mut impl Read) -> Result<(), SnapshotError> {
    let state = BlockState::from_checked(read_u64(input)?, array.layout.superpages_per_block)
        .ok_or(SnapshotError::Damaged { what: "state of block", number: block })?;
    array.store.set_state(block, state);
    let superpages = kept_superpages(state);
    if superpages == 0 {
        return Ok(());
    }
    let units = superpages * array.layout.units_per_superpage as usize;
    let first_sequence = read_u64(input)?;
    let history = (read_u64(input)?, read_u64(input)?);
    let meta = array.store.meta_mut(block);
    array.shape.meta.set_first_sequence(meta, first_sequence);
    array.shape.meta.set_history(meta, history);
    input.read_exact(array.shape.meta.offsets_mut(meta, superpages))?;
    input.read_exact(array.shape.meta.lpns_mut(meta, units))?;
    for index in 0..units as u32 {
        input.read_exact(array.store.unit_mut(block, index, 0).1)?;
    }
    for index in 0..units as u32 {
        input.read_exact(array.store.held_metadata_mut(block, index))?;
    }
    Ok(())
}

/// Superpages that may still be readable in part.
fn kept_superpages(state: BlockState) -> usize {
    if state.all_unreadable() { 0 } else { state.next_superpage() as usize }
}

fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn read_u64(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
