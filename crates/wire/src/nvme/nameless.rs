//! Nameless namespaces: commands of Pellucid's own, in the vendor range of I/O opcodes.
//!
//! | command | opcode | dwords | data |
//! |---|---|---|---|
//! | Nameless Write | B1h | 12 number of sectors less one, at most a flash page of them; bit 30 FUA, with one sector only | to the drive |
//! | Physical Read | B2h | 10-11 first name, 12 number of sectors less one | to the host |
//! | Free, Acknowledge | B4h, B8h | the same; bit 30 FUA | none |
//! | Names | BAh | the same | 8 bytes for each name: its current name; all ones: nothing, all ones but bit 0: a virtual sector |
//! | Read, Write, Flush, Write Zeroes, Dataset Management | standard | virtual sectors | standard |
//!
//! Dwords 0 and 1 of the completion of a Nameless Write have the name of the first sector; the others follow it. After Free and Acknowledge they have
//! the number of names affected.
//!
//! *Migrations.* A drive that has moved sectors raises a vendor event (type 7, information 01h) that names [`MOVES`]. This log page lists every
//! unacknowledged move of the namespace, so a host that has lost its connection reads what it missed. The old name resolves until Acknowledge.

use super::command::SubmissionEntry;
use crate::layout::{wire_enum, wire_struct};

wire_enum! {
    /// I/O commands of a nameless namespace only. The lowest two bits give the data direction.
    pub enum NamelessOpcode: u8 {
        /// Write sectors and return their physical names.
        Write = 0xB1,
        /// Read sectors by name.
        Read = 0xB2,
        /// Free names.
        Free = 0xB4,
        /// Acknowledge the new names of these.
        Acknowledge = 0xB8,
        /// Return the current names of old ones.
        Names = 0xBA,
    }
}

/// First byte of the vendor area of Identify Namespace; marks a nameless namespace.
pub const NAMELESS_NAMESPACE: u8 = 3;
/// Log page: unacknowledged moves.
pub const MOVES: u8 = 0xD1;

wire_struct! {
    /// Vendor area of Identify Namespace of a nameless namespace, whose size in blocks is that of the virtual address space.
    pub struct NamelessIdentity: 24 {
        /// [`NAMELESS_NAMESPACE`].
        0 => kind: u8,
        /// Sectors of a flash page.
        4 => page_sectors: u32,
        /// Capacity in named sectors.
        8 => capacity: u64,
        /// Upper bound of names.
        16 => names: u64,
    }
}

wire_struct! {
    /// An entry of the log page of moves, after [`MovesHeader`].
    pub struct MoveEntry: 16 {
        /// Old name.
        0 => old: u64,
        /// New name.
        8 => new: u64,
    }
}

wire_struct! {
    /// Header of the log page of moves.
    pub struct MovesHeader: 16 {
        /// Entries.
        0 => count: u64,
    }
}

/// Arguments of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamelessCommand {
    /// Operation.
    pub opcode: NamelessOpcode,
    /// First name; unused by a write.
    pub first: u64,
    /// Sectors, 1 to 65536.
    pub sectors: u32,
    /// Force unit access.
    pub force: bool,
}

const FORCE_UNIT_ACCESS: u32 = 1 << 30;

impl NamelessCommand {
    /// Parses the arguments; `None`: not a command of a nameless namespace.
    pub fn parse(entry: &SubmissionEntry) -> Option<NamelessCommand> {
        let opcode = NamelessOpcode::from_raw(entry.opcode())?;
        let (first, cdw12) = (entry.cdw_pair(10), entry.cdw(12));
        let force = cdw12 & FORCE_UNIT_ACCESS != 0;
        Some(NamelessCommand { opcode, first, sectors: (cdw12 & 0xFFFF) + 1, force })
    }

    /// Encodes the command, without its data pointer.
    pub fn entry(&self, cid: u16, nsid: u32) -> SubmissionEntry {
        let force = if self.force { FORCE_UNIT_ACCESS } else { 0 };
        SubmissionEntry::new(self.opcode.raw(), cid, nsid)
            .with_cdw_pair(10, self.first)
            .with_cdw(12, (self.sectors - 1) & 0xFFFF | force)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_they_are_written() {
        for &opcode in &[
            NamelessOpcode::Write,
            NamelessOpcode::Read,
            NamelessOpcode::Free,
            NamelessOpcode::Acknowledge,
            NamelessOpcode::Names,
        ] {
            let command = NamelessCommand { opcode, first: 1 << 40, sectors: 65536, force: true };
            assert_eq!(NamelessCommand::parse(&command.entry(7, 1)), Some(command));
        }
        assert_eq!(NamelessCommand::parse(&SubmissionEntry::new(0xB3, 0, 1)), None);
    }
}
