//! Commands as a disk interface carries them: one address and a length.

use super::Carry;
use pellucid_flash::{CacheOp, Command, Lba, NamelessGeometry, NamelessOp, Opcode};

/// Part of a command that one command of the disk interface carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// First sector, counted within the command.
    pub at: u32,
    /// Sectors.
    pub sectors: u32,
    /// Operation below.
    pub opcode: Opcode,
    /// Address below.
    pub lba: Lba,
    /// True if it is all of its command.
    pub is_whole: bool,
}

/// Cuts a command: a list of addresses becomes runs, and a nameless write has one address for each flash page of `page` sectors. Commands
/// that the drive refuses stay whole.
pub(super) fn cut(command: &Command, page: u32, mut emit: impl FnMut(Part)) {
    let (opcode, sectors) = (command.opcode, command.sectors);
    let listed = command.vector.as_ref().map_or(&[][..], |vector| &vector.addresses);
    let is_list = matches!(opcode, Opcode::Nameless(_)) && listed.len() == sectors as usize;
    let is_named = command.vector.is_some() || sectors == 1 || (sectors <= page && !command.fua);
    let is_unlisted = opcode == Opcode::Nameless(NamelessOp::Write) && listed.is_empty() && is_named;
    let may_cut = sectors > 0 && (is_list || is_unlisted);
    if !may_cut {
        return emit(Part { at: 0, sectors, opcode, lba: command.lba, is_whole: true });
    }
    let writes = opcode == Opcode::Nameless(NamelessOp::Write);
    let is_name = |lba: Lba| !writes || lba != NamelessGeometry::NAMELESS;
    let mut at = 0;
    while at < sectors {
        let first = listed.get(at as usize).copied().unwrap_or(NamelessGeometry::NAMELESS);
        let follows = |&i: &u32| match listed.get(i as usize) {
            Some(&lba) if is_name(first) => is_name(lba) && lba.0 == first.0.wrapping_add((i - at).into()),
            Some(&lba) => !is_name(lba),
            None => true,
        };
        let most = if is_name(first) { u32::MAX } else { page.max(1) };
        let run = (at..sectors).take_while(follows).count().min(most as usize) as u32;
        // Sectors with virtual addresses are a plain write.
        let (opcode, lba) = match (writes, is_name(first)) {
            (true, true) => (Opcode::Write, first),
            (true, false) => (Opcode::Nameless(NamelessOp::Write), Lba(0)),
            (false, _) => (opcode, first),
        };
        emit(Part { at, sectors: run, opcode, lba, is_whole: run == sectors });
        at += run;
    }
}

/// Returns whether a disk interface knows no such command.
pub(super) fn is_new(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Cache(_) | Opcode::Nameless(_) | Opcode::Report | Opcode::NextUnit)
}

/// Returns whether the drive cannot queue a command.
pub(super) fn is_alone(opcode: Opcode, carry: Carry) -> bool {
    matches!(opcode, Opcode::Flush | Opcode::Trim | Opcode::WriteZeroes)
        || (carry == Carry::SlowPath && is_new(opcode))
}

/// Returns whether a command is sent as a read although it brings no data, so that its whole length crosses the link needlessly.
pub(super) fn reads_for_nothing(opcode: Opcode) -> bool {
    is_new(opcode)
        && !matches!(
            opcode,
            Opcode::Cache(CacheOp::WriteClean | CacheOp::WriteDirty)
                | Opcode::Nameless(NamelessOp::Write | NamelessOp::Read)
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_flash::Vector;

    fn parts(opcode: Opcode, sectors: u32, listed: &[u64]) -> Vec<(u32, u32, Opcode, u64)> {
        let addresses = listed.iter().map(|&lba| Lba(lba)).collect();
        let vector = Some(Box::new(Vector { addresses, ..Vector::default() }));
        let command = Command { vector, ..Command::new(0, opcode, Lba(7), sectors, Vec::new()) };
        let mut parts = Vec::new();
        cut(&command, 4, |part| parts.push((part.at, part.sectors, part.opcode, part.lba.0)));
        parts
    }

    #[test]
    fn lists_become_runs_and_nameless_writes_pages() {
        let free = Opcode::Nameless(NamelessOp::Free);
        assert_eq!(parts(free, 5, &[3, 4, 9, 1, 2]), [(0, 2, free, 3), (2, 1, free, 9), (3, 2, free, 1)]);
        let nameless = Opcode::Nameless(NamelessOp::Write);
        assert_eq!(parts(nameless, 9, &[]), [(0, 4, nameless, 0), (4, 4, nameless, 0), (8, 1, nameless, 0)]);
        let none = NamelessGeometry::NAMELESS.0;
        assert_eq!(
            parts(nameless, 5, &[none, 20, 21, 30, none]),
            [(0, 1, nameless, 0), (1, 2, Opcode::Write, 20), (3, 1, Opcode::Write, 30), (4, 1, nameless, 0)]
        );
        assert_eq!(parts(free, 3, &[1]), [(0, 3, free, 7)], "the drive refuses it");
        assert_eq!(
            parts(Opcode::Cache(CacheOp::WriteDirty), 64, &[]),
            [(0, 64, Opcode::Cache(CacheOp::WriteDirty), 7)]
        );
    }
}
