//! The superblock: kind and identity of a file system.

use super::backend::Backend;
use super::key::Fields;
use super::log::{Layout, SEGMENT_BLOCKS_MIN};
use super::types::BLOCK_BYTES;

const MAGIC: &[u8; 8] = b"PELLUFS\x01";
const VERSION: u32 = 2;
const CHECKSUMS: u32 = 1;
pub(super) fn superblock(layout: &Layout, id: u64, data_checksums: bool) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    bytes[8..16].copy_from_slice(MAGIC);
    bytes[16..20].copy_from_slice(&VERSION.to_le_bytes());
    let flags = if data_checksums { CHECKSUMS } else { 0 };
    bytes[20..24].copy_from_slice(&flags.to_le_bytes());
    bytes[24..32].copy_from_slice(&id.to_le_bytes());
    bytes[32..40].copy_from_slice(&layout.blocks.to_le_bytes());
    bytes[40..44].copy_from_slice(&layout.segment_blocks.to_le_bytes());
    bytes[44..48].copy_from_slice(&layout.backend.kind().to_le_bytes());
    bytes[48..52].copy_from_slice(&layout.capacity.to_le_bytes());
    let names = layout.backend.names().map_or(0, |shape| shape.names);
    bytes[52..60].copy_from_slice(&names.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[8..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

pub(super) struct Super {
    pub layout: Layout,
    pub id: u64,
    pub data_checksums: bool,
}

pub(super) fn read_superblock(bytes: &[u8], backend: Backend, blocks: u64) -> Result<Super, String> {
    let foreign = || {
        "its first block holds no Pellucid file system; `pellucid fs format` makes one and discards what is there".to_string()
    };
    let mut f = Fields(bytes);
    let crc = f.u32().ok_or_else(foreign)?;
    f.u32();
    if f.bytes(8) != Some(MAGIC) {
        return Err(foreign());
    }
    if crc32c::crc32c(&bytes[8..]) != crc {
        return Err("its superblock is damaged: the checksum is wrong".to_string());
    }
    let version = f.u32().ok_or_else(foreign)?;
    if version != VERSION {
        return Err(format!("its format has version {version}; this program knows version {VERSION}"));
    }
    let flags = f.u32().ok_or_else(foreign)?;
    let (id, own) = (f.u64().ok_or_else(foreign)?, f.u64().ok_or_else(foreign)?);
    let segment_blocks = f.u32().ok_or_else(foreign)?;
    let (kind, capacity) = (f.u32().ok_or_else(foreign)?, f.u32().ok_or_else(foreign)?);
    if kind != backend.kind() {
        let names = [
            "a block drive or a file",
            "the function level of the flash library",
            "a drive of nameless writes",
        ];
        let name = |kind: u32| names.get(kind as usize).copied().unwrap_or("something else");
        return Err(format!("it was made for {}, this is {}", name(kind), name(backend.kind())));
    }
    if let Backend::Function(shape) = backend {
        if own != u64::from(shape.flash_blocks()) * u64::from(shape.segment_blocks)
            || segment_blocks != shape.segment_blocks
        {
            return Err("it was made for flash of another shape".to_string());
        }
        let layout = Layout::on_flash(shape, capacity);
        return Ok(Super { layout, id, data_checksums: flags & CHECKSUMS != 0 });
    }
    if own > blocks {
        return Err(format!("it is cut off: the file system has {own} blocks of 4 KiB, the drive {blocks}"));
    }
    if segment_blocks < SEGMENT_BLOCKS_MIN {
        return Err("its superblock is damaged: segments are too small".to_string());
    }
    let layout = match backend.names() {
        Some(shape) if f.u64() != Some(shape.names) => {
            return Err("it was made for a drive with another number of names".to_string());
        }
        Some(shape) => Layout::with_names(own, segment_blocks, shape),
        None => Layout::new(own, segment_blocks),
    };
    Ok(Super { layout, id, data_checksums: flags & CHECKSUMS != 0 })
}
