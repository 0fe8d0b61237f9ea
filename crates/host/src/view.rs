//! View of an open-channel namespace: some of its chunks as a separate namespace, counted from 0.
//!
//! ```text
//!   drive    group 1: units 4 5 6 7    group 2: units 8 9 10 11
//!   range 4-11: the same two groups    range 5-9: one group of five units
//!   listed: any chunk at any place
//! ```
//! A sector has the same position inside its chunk in the view and on the drive, so a run of sectors in one
//! chunk stays a run. In a range of units, so does a run that continues into the next chunk of its unit.
//! Invariant: a command that is passed on touches only the view.

use pellucid_flash::{
    ChunkAddress, ChunkGeometry, ChunkInfo, ChunkOp, Command, Completion, Lba, Opcode, Status, Vector, ZoneOp,
};
use std::ops::Range;

/// Marker for no chunk.
const NONE: u32 = u32::MAX;

/// Some chunks of a drive as a namespace.
#[derive(Clone, Debug)]
pub struct ChunkView {
    drive: ChunkGeometry,
    own: ChunkGeometry,
    table: Table,
}

/// Mapping from chunks of the view to chunks of the drive.
#[derive(Clone, Debug)]
enum Table {
    /// Consecutive chunks in the drive's order, from this one on.
    Range(u32),
    /// Any chunks. `to` is indexed by the view's number; `from` by the drive's unit and chunk, and empty for
    /// a unit that never had a chunk of the view.
    Listed { to: Vec<u32>, from: Vec<Vec<u32>> },
}

impl ChunkView {
    /// Creates a view of a range of parallel units. Whole groups stay groups.
    pub fn range(drive: ChunkGeometry, units: Range<u32>) -> ChunkView {
        let count = units.len() as u32;
        let whole = units.start.is_multiple_of(drive.units) && count.is_multiple_of(drive.units);
        let (groups, per_group) = if whole { (count / drive.units, drive.units) } else { (1, count) };
        let own = ChunkGeometry { groups, units: per_group, ..drive };
        ChunkView { drive, own, table: Table::Range(units.start * drive.chunks) }
    }

    /// Creates a view of the given geometry, without chunks.
    ///
    /// # Panics
    /// Panics if the chunk sizes of view and drive differ.
    pub fn listed(drive: ChunkGeometry, own: ChunkGeometry) -> ChunkView {
        assert_eq!(drive.chunk_sectors, own.chunk_sectors, "a chunk keeps its size");
        let to = vec![NONE; (own.parallel_units() * own.chunks) as usize];
        let from = vec![Vec::new(); drive.parallel_units() as usize];
        ChunkView { drive, own, table: Table::Listed { to, from } }
    }

    /// Maps chunk `own` of a listed view to the drive's `chunk`. Commands under way on the previous chunk are
    /// still returned with the same number.
    ///
    /// # Panics
    /// Panics if the view is a range.
    pub fn set(&mut self, own: u32, chunk: u32) {
        let Table::Listed { to, from } = &mut self.table else { panic!("a range is what it is") };
        to[own as usize] = chunk;
        let back = &mut from[(chunk / self.drive.chunks) as usize];
        if back.is_empty() {
            back.resize(self.drive.chunks as usize, NONE);
        }
        back[(chunk % self.drive.chunks) as usize] = own;
    }

    /// Returns the geometry of the view.
    pub fn geometry(&self) -> ChunkGeometry {
        self.own
    }

    /// Returns the number of chunks in the view.
    pub fn chunks(&self) -> u32 {
        self.own.parallel_units() * self.own.chunks
    }

    /// Returns the drive's number of a chunk of the view.
    pub fn chunk_on_drive(&self, own: u32) -> Option<u32> {
        match &self.table {
            Table::Range(first) => (own < self.chunks()).then_some(first + own),
            Table::Listed { to, .. } => to.get(own as usize).copied().filter(|&chunk| chunk != NONE),
        }
    }

    /// Returns the view's number of a chunk of the drive.
    pub fn chunk_in_view(&self, chunk: u32) -> Option<u32> {
        match &self.table {
            Table::Range(first) => chunk.checked_sub(*first).filter(|&own| own < self.chunks()),
            Table::Listed { from, .. } => {
                let back = &from[(chunk / self.drive.chunks) as usize];
                back.get((chunk % self.drive.chunks) as usize).copied().filter(|&own| own != NONE)
            }
        }
    }

    /// Returns the drive's address of a sector; `None` if the view has no such sector.
    #[inline]
    pub fn on_drive(&self, lba: Lba) -> Option<Lba> {
        let address = self.own.address(lba)?;
        let chunk = self.chunk_on_drive(self.own.chunk_number(address))?;
        Some(self.drive.lba(ChunkAddress { sector: address.sector, ..self.drive.chunk_at(chunk) }))
    }

    /// Returns the view's address of a sector; `None` if the sector is outside the view.
    pub fn in_view(&self, lba: Lba) -> Option<Lba> {
        let address = self.drive.address(lba)?;
        let own = self.chunk_in_view(self.drive.chunk_number(address))?;
        Some(self.own.lba(ChunkAddress { sector: address.sector, ..self.own.chunk_at(own) }))
    }

    /// Translates a command to the drive's addresses. An error is the status that ends the command, with a
    /// bit for each bad address of a list.
    pub fn to_drive(&self, command: &mut Command) -> Result<(), (Status, u64)> {
        let out_of_range = (Status::LbaOutOfRange, 0);
        if let Some(vector) = command.vector.as_mut().filter(|vector| !vector.addresses.is_empty()) {
            let mut bad = 0;
            for list in [&mut vector.addresses, &mut vector.destinations] {
                for (bit, lba) in list.iter_mut().enumerate() {
                    match self.on_drive(*lba) {
                        Some(there) => *lba = there,
                        None => bad |= 1 << (bit % Vector::ADDRESSES_MAX),
                    }
                }
            }
            return if bad == 0 { Ok(()) } else { Err((Status::LbaOutOfRange, bad)) };
        }
        match command.opcode {
            Opcode::Report => {
                let address = self.own.address(command.lba).ok_or(out_of_range)?;
                let end = u64::from(self.own.chunk_number(address)) + u64::from(command.sectors);
                if end > self.chunks().into() {
                    return Err(out_of_range);
                }
            }
            Opcode::Read | Opcode::Write | Opcode::Chunk(_) | Opcode::Zone(ZoneOp::Change(_)) => {
                if !self.stays(command) {
                    return Err(out_of_range);
                }
            }
            Opcode::Flush => return Ok(()),
            Opcode::Trim
            | Opcode::WriteZeroes
            | Opcode::Zone(ZoneOp::Append)
            | Opcode::NextUnit
            | Opcode::Cache(_)
            | Opcode::Nameless(_) => {
                return Err((Status::InvalidOpcode, 0));
            }
        }
        command.lba = self.on_drive(command.lba).ok_or(out_of_range)?;
        Ok(())
    }

    /// Reports whether a run of sectors is also contiguous on the drive.
    fn stays(&self, command: &Command) -> bool {
        let [_, _, chunk, sector] = self.own.address_bits();
        let bits = match self.table {
            Table::Range(_) => chunk + sector,
            Table::Listed { .. } => sector,
        };
        let last = command.lba.0.saturating_add(u64::from(command.sectors.max(1)) - 1);
        command.lba.0 >> bits == last >> bits
    }

    /// Translates a completion back to the view's addresses.
    pub fn give_back(&self, completion: &mut Completion) {
        if completion.opcode == Opcode::Report {
            self.rename(&mut completion.data);
        }
        if let Some(vector) = &mut completion.vector {
            for lba in vector.addresses.iter_mut().chain(&mut vector.destinations) {
                *lba = self.in_view(*lba).unwrap_or(*lba);
            }
            if completion.opcode == Opcode::Chunk(ChunkOp::Reset) {
                self.rename(&mut vector.metadata);
            }
        }
    }

    /// Translates packed chunk descriptors to the view's addresses.
    fn rename(&self, packed: &mut [u8]) {
        let mut renamed = Vec::with_capacity(ChunkInfo::BYTES);
        for bytes in packed.as_chunks_mut::<{ ChunkInfo::BYTES }>().0 {
            let Some(info) = ChunkInfo::decode(bytes) else { continue };
            let start = self.in_view(info.start).unwrap_or(info.start);
            renamed.clear();
            ChunkInfo { start, ..info }.encode(&mut renamed);
            bytes.copy_from_slice(&renamed);
        }
    }
}
