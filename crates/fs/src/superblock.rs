//! The superblock: kind and identity of a file system. It is in the first block, with a copy in the last one; on flash it precedes each copy of a
//! checkpoint. Only `format` changes it.

use crate::backend::Backend;
use crate::finding::Finding;
use crate::key::Fields;
use crate::layout::{Layout, SEGMENT_BLOCKS_MIN};
use crate::types::BLOCK_BYTES;

const MAGIC: &[u8; 8] = b"PELLUFS\x01";
const VERSION: u32 = 3;
/// The last version without a copy of the superblock; flash still has it.
const VERSION_WITHOUT_COPY: u32 = 2;
const CHECKSUMS: u32 = 1;

/// Reason why a block is not this drive's superblock.
#[derive(Clone, Debug)]
pub(crate) enum NotRead {
    /// It holds something else: another file system, or nothing.
    Foreign(String),
    /// It is damaged, or unreadable.
    Damaged(String),
    /// It is the superblock of another drive.
    Unfit(String),
}

impl NotRead {
    /// The reason in a sentence.
    pub fn sentence(self) -> String {
        match self {
            NotRead::Foreign(why) | NotRead::Damaged(why) | NotRead::Unfit(why) => why,
        }
    }
}

/// Encodes the superblock of a file system with this layout.
pub(crate) fn superblock(layout: &Layout, id: u64, data_checksums: bool) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    bytes[8..16].copy_from_slice(MAGIC);
    let version = if layout.has_copy { VERSION } else { VERSION_WITHOUT_COPY };
    bytes[16..20].copy_from_slice(&version.to_le_bytes());
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

#[derive(Clone, Debug)]
pub(crate) struct Super {
    pub layout: Layout,
    pub id: u64,
    pub data_checksums: bool,
}

/// Reads a superblock from a block of a drive with this backend and this many blocks.
pub(crate) fn read_superblock(bytes: &[u8], backend: Backend, blocks: u64) -> Result<Super, NotRead> {
    let foreign = || {
        let why = "its first block holds no Pellucid file system; `pellucid fs format` makes one and discards what is there";
        NotRead::Foreign(why.into())
    };
    let (damaged, unfit) =
        (|why: &str| NotRead::Damaged(format!("its superblock is damaged: {why}")), NotRead::Unfit);
    let mut f = Fields(bytes);
    let crc = f.u32().ok_or_else(foreign)?;
    f.u32();
    if f.bytes(8) != Some(MAGIC) {
        return Err(foreign());
    }
    if crc32c::crc32c(&bytes[8..]) != crc {
        return Err(damaged("the checksum is wrong"));
    }
    let version = f.u32().ok_or_else(foreign)?;
    if ![VERSION_WITHOUT_COPY, VERSION].contains(&version) {
        let known = format!("{VERSION_WITHOUT_COPY} and {VERSION}");
        return Err(unfit(format!("its format has version {version}; this program knows versions {known}")));
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
        return Err(unfit(format!("it was made for {}, this is {}", name(kind), name(backend.kind()))));
    }
    if let Backend::Function(shape) = backend {
        if own != u64::from(shape.flash_blocks()) * u64::from(shape.segment_blocks)
            || segment_blocks != shape.segment_blocks
        {
            return Err(unfit("it was made for flash of another shape".into()));
        }
        let layout = Layout::on_flash(shape, capacity);
        return Ok(Super { layout, id, data_checksums: flags & CHECKSUMS != 0 });
    }
    if own > blocks {
        let why = format!("it is cut off: the file system has {own} blocks of 4 KiB, the drive {blocks}");
        return Err(unfit(why));
    }
    if segment_blocks < SEGMENT_BLOCKS_MIN {
        return Err(damaged("segments are too small"));
    }
    let layout = Layout::on_blocks(own, segment_blocks, version == VERSION);
    let layout = match backend.names() {
        Some(shape) if f.u64() != Some(shape.names) => {
            return Err(unfit("it was made for a drive with another number of names".into()));
        }
        Some(shape) => layout.with_names(shape),
        None => layout,
    };
    Ok(Super { layout, id, data_checksums: flags & CHECKSUMS != 0 })
}

/// The block with the copy of the superblock, given the content of the first block of a drive with `blocks`; `None`: there is no copy, or it would
/// not help.
pub(crate) fn copy_of(first: &Result<Super, NotRead>, blocks: u64) -> Option<u64> {
    match first {
        Ok(found) => found.layout.superblocks().find(|&block| block > 0),
        Err(NotRead::Unfit(_)) => None,
        Err(NotRead::Foreign(_) | NotRead::Damaged(_)) => blocks.checked_sub(1).filter(|&last| last > 0),
    }
}

/// The chosen superblock.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub found: Super,
    /// The block that must be rewritten, and its fault.
    pub mend: Option<(u64, Finding)>,
}

/// Chooses between the superblock in the first block and its copy in the block `at`, as they were read. If the first block holds other
/// data, only `repair` uses the copy, because the other data may be intended.
pub(crate) fn choose(
    first: Result<Super, NotRead>,
    at: u64,
    copy: Result<Super, NotRead>,
    repair: bool,
) -> Result<Chosen, String> {
    let copy = copy.ok().filter(|copy| copy.layout.superblocks().last() == Some(at));
    match (first, copy) {
        (Ok(found), Some(copy)) if copy.layout == found.layout && copy.id == found.id => {
            Ok(Chosen { found, mend: None })
        }
        (Ok(found), _) => {
            let finding = Finding(format!("the copy of the superblock in block {at} is damaged"));
            Ok(Chosen { found, mend: Some((at, finding)) })
        }
        (Err(NotRead::Foreign(why)), Some(_)) if !repair => Err(format!(
            "{why}; or `pellucid fs check --repair` takes the copy of a superblock in its last block"
        )),
        (Err(NotRead::Foreign(_) | NotRead::Damaged(_)), Some(found)) => {
            let what = format!("the superblock in block 0 is damaged; its copy in block {at} was taken");
            Ok(Chosen { found, mend: Some((0, Finding(what))) })
        }
        (Err(why), _) => Err(why.sentence()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_has_no_copy_and_uses_the_last_block() {
        for (version, has_copy) in [(VERSION_WITHOUT_COPY, false), (VERSION, true)] {
            let layout = Layout::on_blocks(4096, 32, has_copy);
            let found = read_superblock(&superblock(&layout, 7, true), Backend::Block, 4096).unwrap();
            assert_eq!((found.layout, found.id, found.data_checksums), (layout, 7, true), "{version}");
            let end = layout.address(layout.segments, 0);
            assert_eq!((end == 4096, layout.superblocks().count()), (!has_copy, 1 + usize::from(has_copy)));
        }
    }
}
