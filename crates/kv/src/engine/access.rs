//! Commands to flash blocks, through the library's raw level or without it.

use pellucid_flash::{ChunkAddress, ChunkGeometry, ChunkOp, Command, Opcode, Tag};
use pellucid_prism::{FlashAddress, Raw};

const INSIDE: &str = "slabs lie in the application's flash";

/// Access to the blocks of a namespace, numbered by channel, LUN and block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// `raw`: calls of the library, which refuses foreign addresses.
    Library(Raw),
    /// `direct`: commands of the port.
    Commands(u16, ChunkGeometry),
}

impl Access {
    pub fn namespace(&self) -> u16 {
        match self {
            Access::Library(raw) => raw.space().namespace,
            Access::Commands(namespace, _) => *namespace,
        }
    }

    pub fn geometry(&self) -> &ChunkGeometry {
        match self {
            Access::Library(raw) => &raw.space().chunks,
            Access::Commands(_, geometry) => geometry,
        }
    }

    /// The page of a sector in a block, and the sector in that page.
    fn page(raw: &Raw, (block, sector): (u32, u32)) -> (FlashAddress, u32) {
        let page_sectors = raw.space().page_sectors();
        let page = sector / page_sectors;
        (FlashAddress { page, ..raw.geometry().block_at(block) }, sector % page_sectors)
    }

    fn command(
        &self,
        tag: Tag,
        opcode: Opcode,
        (block, sector): (u32, u32),
        sectors: u32,
        data: Vec<u8>,
    ) -> Command {
        let geometry = self.geometry();
        let lba = geometry.lba(ChunkAddress { sector, ..geometry.chunk_at(block) });
        Command { namespace: self.namespace(), ..Command::new(tag, opcode, lba, sectors, data) }
    }

    /// Command that reports the blocks of one LUN.
    pub fn report(&self, tag: Tag, lun: u32) -> Command {
        let chunks = self.geometry().chunks;
        self.command(tag, Opcode::Report, (lun * chunks, 0), chunks, Vec::new())
    }

    /// Command that reads `sectors` sectors into `data`.
    pub fn read(&self, tag: Tag, at: (u32, u32), sectors: u32, data: Vec<u8>) -> Command {
        let Access::Library(raw) = self else { return self.command(tag, Opcode::Read, at, sectors, data) };
        let (address, sector) = Access::page(raw, at);
        raw.sectors_read(tag, address, sector, sectors, data).expect(INSIDE)
    }

    /// Command that writes whole pages.
    pub fn write(&self, tag: Tag, at: (u32, u32), data: Vec<u8>, sector_bytes: u32) -> Command {
        if let Access::Library(raw) = self {
            return raw.page_write(tag, Access::page(raw, at).0, data).expect(INSIDE);
        }
        let sectors = data.len() as u32 / sector_bytes;
        self.command(tag, Opcode::Write, at, sectors, data)
    }

    pub fn erase(&self, tag: Tag, block: u32) -> Command {
        match self {
            Access::Library(raw) => raw.block_erase(tag, raw.geometry().block_at(block)).expect(INSIDE),
            Access::Commands(..) => {
                self.command(tag, Opcode::Chunk(ChunkOp::Reset), (block, 0), 0, Vec::new())
            }
        }
    }
}
