//! The raw level: pages and blocks (section IV-B of the paper).
//!
//! | paper | here |
//! |---|---|
//! | `Get_SSD_Geometry` | [`Raw::geometry`] |
//! | `Page_Read` | [`Raw::page_read`] |
//! | `Page_Write` | [`Raw::page_write`] |
//! | `Block_Erase` | [`Raw::block_erase`] |
//!
//! A call creates the command for the drive, or refuses an address out of range. Its completion comes from the drive with the given tag,
//! in any order. The level has no state: mapping, garbage collection and wear levelling are left to the application, which must also
//! follow the rules of flash. The drive checks these: the pages of a block are written in order, each once between two erases, and the
//! last `cached_sectors` written sectors of an open block cannot be read yet.

use crate::{FlashAddress, LevelError, Space, SsdGeometry};
use pellucid_flash::{ChunkOp, Command, Interface, Opcode, Tag, Vector};

/// Raw access to an application's flash.
#[derive(Clone, Copy, Debug)]
pub struct Raw {
    space: Space,
}

impl Raw {
    /// Access to a namespace of a drive with sector images of `image_bytes`.
    pub fn new(namespace: u16, interface: Option<Interface>, image_bytes: usize) -> Result<Raw, LevelError> {
        Ok(Raw { space: Space::new(namespace, interface, image_bytes)? })
    }

    /// `Get_SSD_Geometry`: the layout.
    pub fn geometry(&self) -> SsdGeometry {
        self.space.geometry()
    }

    /// The flash behind it.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// `Page_Read`: reads `pages` pages of one block. `buffer` is returned filled with the completion; its previous contents
    /// are lost.
    pub fn page_read(
        &self,
        tag: Tag,
        address: FlashAddress,
        pages: u32,
        mut buffer: Vec<u8>,
    ) -> Result<Command, LevelError> {
        let lba = self.space.run(address, pages)?;
        buffer.resize(pages as usize * self.space.page_image_bytes(), 0);
        Ok(self.command(tag, Opcode::Read, lba, pages * self.space.page_sectors(), buffer))
    }

    /// Like [`Raw::page_read`], for `sectors` sectors of one block, starting `sector` sectors after the beginning of the page: flash that
    /// can transfer part of a page transfers no more than that.
    pub fn sectors_read(
        &self,
        tag: Tag,
        address: FlashAddress,
        sector: u32,
        sectors: u32,
        mut buffer: Vec<u8>,
    ) -> Result<Command, LevelError> {
        let pages = (sector + sectors).div_ceil(self.space.page_sectors());
        let lba = self.space.run(address, pages.max(1))?;
        buffer.resize(sectors as usize * self.space.image_bytes, 0);
        Ok(self.command(tag, Opcode::Read, pellucid_flash::Lba(lba.0 + u64::from(sector)), sectors, buffer))
    }

    /// Like [`Raw::page_read`], with the out-of-band data: [`Vector::METADATA_BYTES`] of each sector, in the completion's vector.
    pub fn page_read_with_oob(
        &self,
        tag: Tag,
        address: FlashAddress,
        pages: u32,
        buffer: Vec<u8>,
    ) -> Result<Command, LevelError> {
        let mut command = self.page_read(tag, address, pages, buffer)?;
        let metadata = vec![0; command.sectors as usize * Vector::METADATA_BYTES];
        command.vector = Some(Box::new(Vector { metadata, ..Vector::default() }));
        Ok(command)
    }

    /// `Page_Write`: writes the next whole pages of one block. `data` holds their sector images, and is returned with the completion.
    pub fn page_write(&self, tag: Tag, address: FlashAddress, data: Vec<u8>) -> Result<Command, LevelError> {
        let page = self.space.page_image_bytes();
        if data.is_empty() || !data.len().is_multiple_of(page) {
            let allowed = format!("a multiple of the {page} of a page");
            return Err(LevelError::Length { what: "data", bytes: data.len(), allowed });
        }
        let pages = u32::try_from(data.len() / page).unwrap_or(u32::MAX);
        let lba = self.space.run(address, pages)?;
        Ok(self.command(tag, Opcode::Write, lba, pages * self.space.page_sectors(), data))
    }

    /// Like [`Raw::page_write`], with out-of-band data: [`Vector::METADATA_BYTES`] for each sector.
    pub fn page_write_with_oob(
        &self,
        tag: Tag,
        address: FlashAddress,
        data: Vec<u8>,
        oob: Vec<u8>,
    ) -> Result<Command, LevelError> {
        let mut command = self.page_write(tag, address, data)?;
        let wanted = command.sectors as usize * Vector::METADATA_BYTES;
        if oob.len() != wanted {
            let allowed = format!("{wanted}, {} for each sector", Vector::METADATA_BYTES);
            return Err(LevelError::Length { what: "out-of-band data", bytes: oob.len(), allowed });
        }
        command.vector = Some(Box::new(Vector { metadata: oob, ..Vector::default() }));
        Ok(command)
    }

    /// `Block_Erase`: erases the block of `address`.
    pub fn block_erase(&self, tag: Tag, address: FlashAddress) -> Result<Command, LevelError> {
        let lba = self.space.lba(address.block())?;
        Ok(self.command(tag, Opcode::Chunk(ChunkOp::Reset), lba, 0, Vec::new()))
    }

    fn command(
        &self,
        tag: Tag,
        opcode: Opcode,
        lba: pellucid_flash::Lba,
        sectors: u32,
        data: Vec<u8>,
    ) -> Command {
        Command { namespace: self.space.namespace, ..Command::new(tag, opcode, lba, sectors, data) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::{ChunkGeometry, Lba, Nanos};

    const CHUNKS: ChunkGeometry = ChunkGeometry {
        groups: 3,
        units: 2,
        chunks: 5,
        chunk_sectors: 24,
        sector_bytes: 4096,
        write_min_sectors: 4,
        write_optimal_sectors: 8,
        cached_sectors: 0,
        open_chunks_max: 0,
        open_chunks_per_unit_max: 0,
        read_ns: [Nanos(1); 2],
        write_ns: [Nanos(1); 2],
        reset_ns: [Nanos(1); 2],
    };

    fn raw() -> Raw {
        Raw::new(3, Some(Interface::OpenChannel(CHUNKS)), 4).unwrap()
    }

    #[test]
    fn every_page_has_a_sector_of_its_own_and_comes_back() {
        let raw = raw();
        let g = raw.geometry();
        assert_eq!((g.channel_count, g.luns_each_channel, g.blocks_each_lun), (3, 2, 5));
        assert_eq!((g.pages_each_block, g.page_bytes, g.block_bytes()), (6, 16384, 98304));
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..g.blocks() {
            for page in 0..g.pages_each_block {
                let address = FlashAddress { page, ..g.block_at(number) };
                assert_eq!(g.block_number(address), number);
                let lba = raw.space().lba(address).unwrap();
                assert!(seen.insert(lba), "{address} shares {lba:?}");
                for sector in 0..u64::from(raw.space().page_sectors()) {
                    assert_eq!(raw.space().address(Lba(lba.0 + sector)), Some(address));
                }
            }
        }
        assert_eq!(seen.len(), 3 * 2 * 5 * 6);
    }

    #[test]
    fn calls_make_commands_of_the_namespace() {
        let raw = raw();
        let at = FlashAddress::new(2, 1, 4, 2);
        let read = raw.page_read(9, at, 3, Vec::new()).unwrap();
        assert_eq!((read.tag, read.opcode, read.namespace), (9, Opcode::Read, 3));
        assert_eq!((read.sectors, read.data.len()), (12, 48));
        let write = raw.page_write_with_oob(1, at, vec![0; 32], vec![7; 128]).unwrap();
        assert_eq!(
            (write.opcode, write.sectors, write.vector.unwrap().metadata.len()),
            (Opcode::Write, 8, 128)
        );
        let erase = raw.block_erase(2, at).unwrap();
        assert_eq!(
            (erase.opcode, erase.lba, erase.sectors),
            (Opcode::Chunk(ChunkOp::Reset), Lba(read.lba.0 - 8), 0)
        );
    }

    #[test]
    fn what_lies_outside_is_refused_in_a_sentence() {
        let raw = raw();
        let sentence = |error: Result<Command, LevelError>| error.unwrap_err().to_string();
        let at = FlashAddress::new(2, 1, 4, 4);
        assert_eq!(
            sentence(raw.page_read(0, FlashAddress::new(3, 0, 0, 0), 1, Vec::new())),
            "<channel 3, LUN 0, block 0, page 0>: not in this application's flash, which has 3 channels of 2 LUNs of 5 blocks of 6 pages of 16384 bytes"
        );
        assert_eq!(
            sentence(raw.page_read(0, at, 3, Vec::new())),
            "3 pages from <channel 2, LUN 1, block 4, page 4> on: allowed: 1 to 2, the pages left in its block"
        );
        assert_eq!(
            sentence(raw.page_write(0, at, vec![0; 17])),
            "data of 17 bytes: allowed: a multiple of the 16 of a page"
        );
        assert_eq!(
            sentence(raw.page_write_with_oob(0, at, vec![0; 16], vec![0; 16])),
            "out-of-band data of 16 bytes: allowed: 64, 16 for each sector"
        );
        assert!(raw.block_erase(0, FlashAddress::new(0, 0, 5, 0)).is_err());
        assert!(
            raw.block_erase(0, FlashAddress::new(0, 0, 4, 99)).is_ok(),
            "an erase does not look at the page"
        );
        assert_eq!(
            Raw::new(1, None, 4).unwrap_err().to_string(),
            "namespace 1 is not an open-channel one; the flash library needs channels, LUNs and blocks"
        );
    }
}
