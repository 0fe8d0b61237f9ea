//! Nameless namespaces: commands of Pellucid's own, in the vendor range of I/O opcodes.
//!
//! | command | opcode | dwords | data |
//! |---|---|---|---|
//! | Nameless Write | B1h | 12 number of sectors less one, at most a flash page of them; bit 30 FUA, with one sector only | to the drive |
//! | Physical Read | B2h | 10-11 first name, 12 number of sectors less one | to the host |
//! | Free, Acknowledge | B4h, B8h | the same; bit 30 FUA | none |
//! | Names | BAh | the same | 8 bytes for each name: what it is called now; all ones: nothing, all ones but bit 0: a virtual sector |
//! | Read, Write, Flush, Write Zeroes, Dataset Management | as ever | virtual sectors | as ever |
//!
//! Dwords 0 and 1 of the completion of a Nameless Write have the name of the first sector; the others follow it. Those of Free and
//! Acknowledge have how many names there were.
//!
//! *Migrations.* A drive that has moved sectors raises a vendor event (type 7, information 01h) that names [`MOVES`]. This log page has
//! every move of the namespace that is not acknowledged, so a host that has lost its connection reads what it missed. The old
//! name resolves until Acknowledge.

use super::command::SubmissionEntry;
use crate::layout::{wire_enum, wire_struct};

wire_enum! {
    /// I/O commands that only a nameless namespace has. The lowest two bits say which way data go.
    pub enum NamelessOpcode: u8 {
        /// Write sectors that are named by where they lie.
        Write = 0xB1,
        /// Read sectors by name.
        Read = 0xB2,
        /// Names are needed no more.
        Free = 0xB4,
        /// The new names of these are known.
        Acknowledge = 0xB8,
        /// Reports the current names of old ones.
        Names = 0xBA,
    }
}

/// First byte of the vendor area of Identify Namespace: it is nameless.
pub const NAMELESS_NAMESPACE: u8 = 3;
/// Log page: moves that are not acknowledged.
pub const MOVES: u8 = 0xD1;

wire_struct! {
    /// The vendor area of Identify Namespace of a nameless namespace; its size in blocks is that of the virtual address space.
    pub struct NamelessIdentity: 24 {
        /// [`NAMELESS_NAMESPACE`].
        0 => kind: u8,
        /// Sectors of a flash page.
        4 => page_sectors: u32,
        /// Sectors that can have names.
        8 => capacity: u64,
        /// Names are below this.
        16 => names: u64,
    }
}

wire_struct! {
    /// An entry of the log page of moves, behind [`MovesHeader`].
    pub struct MoveEntry: 16 {
        /// The name so far.
        0 => old: u64,
        /// The name from now on.
        8 => new: u64,
    }
}

wire_struct! {
    /// The beginning of the log page of moves.
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
    /// First name; of a write nothing.
    pub first: u64,
    /// Sectors, 1 to 65536.
    pub sectors: u32,
    /// Force unit access.
    pub force: bool,
}

const FORCE_UNIT_ACCESS: u32 = 1 << 30;

impl NamelessCommand {
    /// Reads the arguments; `None`: it is no command of a nameless namespace.
    pub fn parse(entry: &SubmissionEntry) -> Option<NamelessCommand> {
        let opcode = NamelessOpcode::from_raw(entry.opcode())?;
        let (first, cdw12) = (entry.cdw_pair(10), entry.cdw(12));
        let force = cdw12 & FORCE_UNIT_ACCESS != 0;
        Some(NamelessCommand { opcode, first, sectors: (cdw12 & 0xFFFF) + 1, force })
    }

    /// The command, without its data pointer.
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
