//! Notices: unsolicited messages from a drive.

use crate::{ChunkNotice, Lba};

/// One thing that a namespace tells without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Open-channel: a chunk needs attention.
    Chunk(ChunkNotice),
    /// Zoned: the descriptor of the zone that starts here changed without a command: the zone became read-only or offline, or
    /// should be reset.
    ZoneChanged(Lba),
    /// Nameless: the drive moved a sector, whose name is its place. The old name resolves until the host acknowledges the move
    /// ([`Migration`](crate::Migration)).
    Moved {
        /// Its name so far.
        old: Lba,
        /// Its name from now on.
        new: Lba,
    },
    /// Cache: the drive dropped clean sectors to make space.
    Evicted {
        /// First sector.
        lba: Lba,
        /// Sectors.
        sectors: u32,
    },
}
