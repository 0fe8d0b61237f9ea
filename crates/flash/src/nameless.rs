//! Nameless writes: the parts of a nameless namespace, and the guarantees of its commands.
//!
//! A host writes data without an address, and the drive returns where they are: their *name*, a sector number on the media. The host
//! stores the name (for example in an inode), so no table below has to. Data that must be found without a name have a *virtual*
//! address, as on a block drive.
//!
//! | command | what it does |
//! |---|---|
//! | `Write` by [`NamelessOp`] | writes a queue of sectors to flash pages of its own; those without a virtual address are told their names |
//! | `Read` by [`NamelessOp`] | reads sectors by name |
//! | `Free` | names are needed no more |
//! | `Acknowledge` | the host keeps the new names of these sectors in place of the old ones, durably where it wants them to be |
//! | `Write`, `Read`, `Trim` | a virtual write, a virtual read, and the end of virtual sectors |
//! | `Report` | what each name is called now |
//! | `Flush` | makes everything acknowledged before it durable, frees and acknowledgements too |
//!
//! GC of the namespace moves sectors. It moves virtual ones silently; of others it tells the host ([`Notice::Moved`](crate::Notice)).
//!
//! The promises, with [`Migration::Acknowledged`]:
//!
//! - A name resolves, to the data written, from the end of its write until it is freed or its move is acknowledged. A moved sector has
//!   two names until then. A freed or replaced name may name other data later.
//! - Everything acknowledged before a completed flush survives a power cut, under its name. Unflushed writes, frees and
//!   acknowledgements may or may not survive. No durable name exists for a write that did not survive.
//! - After a power cut, every move that is not durably acknowledged is reported again, if the new copy is still needed.
//! - A sector is moved again only after its last move was acknowledged.
//!
//! [`Migration::Prototype`] is the prototype of the paper: the block is erased before its sectors are written elsewhere, and the old
//! name ends with the move. A power cut loses every sector moved since the last flush.

use crate::{Effect, Lba};
use pellucid_setting::Word;

/// Command that only a nameless namespace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NamelessOp {
    /// Write the sectors of `data` to separate flash pages. If [`Vector::addresses`](crate::Vector::addresses) has an address for each
    /// sector, an address other than [`NamelessGeometry::NAMELESS`] is a virtual one; without addresses, every sector is nameless. `lba` is
    /// not used. [`Completion::result`](crate::Completion::result) is the name of the first nameless sector; a vector comes back with the
    /// names of all, and with the virtual addresses as they were.
    Write,
    /// Read `sectors` sectors whose names are `lba` and the numbers behind it, or those of the vector.
    Read,
    /// These names are needed no more.
    Free,
    /// The moves of sectors with these old names are known, and the old copies needed no more.
    Acknowledge,
}

impl NamelessOp {
    /// Returns the effect of the command.
    #[inline]
    pub fn effect(self) -> Effect {
        match self {
            NamelessOp::Write => Effect::Writes,
            NamelessOp::Read => Effect::Reads,
            NamelessOp::Free => Effect::Erases,
            NamelessOp::Acknowledge => Effect::Manages,
        }
    }
}

/// Treatment of the old copy of a sector that is moved.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    strum::IntoStaticStr,
    strum::VariantNames,
    strum::EnumString,
    Word,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Migration {
    /// Keeps the old copy until the host has acknowledged the new name, durably.
    #[default]
    Acknowledged,
    /// Erases the old copy before the new one is written, as in the paper's prototype: a power cut loses it.
    Prototype,
}

/// Shape of a nameless namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamelessGeometry {
    /// Sectors that can have names at the same time.
    pub capacity_sectors: u64,
    /// Sectors of the virtual address space, for which there is always room.
    pub virtual_sectors: u64,
    /// Names are below this.
    pub name_sectors: u64,
    /// Sectors of a flash page. Each `NamelessWrite` takes whole pages, so it should carry a
    /// multiple of this number.
    pub page_sectors: u32,
    /// Bytes of a sector.
    pub sector_bytes: u32,
}

impl NamelessGeometry {
    /// Among the addresses of a `NamelessWrite`: a sector without a virtual address. In a report: a name of nothing.
    pub const NAMELESS: Lba = Lba(u64::MAX);
    /// In a report: a virtual sector lies here.
    pub const VIRTUAL: Lba = Lba(u64::MAX - 1);
}
