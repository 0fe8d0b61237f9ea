//! The block namespaces that requests can go to, and the counters of each namespace.

use super::target::Target;
use pellucid_device::{Counters, Device};
use pellucid_flash::{Drive, Lba};
use pellucid_ftl::FtlCounters;
use std::ops::Range;

/// A block namespace of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockNamespace {
    /// Number of the namespace.
    pub number: u16,
    /// Size in sectors.
    pub sectors: u64,
    /// Number of placement handles; 1 if none are offered.
    pub handles: u16,
    /// First sector in the common numbering of all block namespaces, which stamps and the oracle use.
    pub base: u64,
}

impl BlockNamespace {
    /// Returns the block namespaces of a drive, in the order of their numbers.
    pub fn all(device: &Device) -> Vec<BlockNamespace> {
        let mut base = 0;
        let one = |number| {
            let sectors = device.namespace(number).capacity_sectors();
            base += sectors;
            let handles = device.config().ftl.handles;
            BlockNamespace { number, sectors, handles, base: base - sectors }
        };
        device.block_namespaces().map(one).collect()
    }

    /// Returns its sectors in the common numbering.
    pub fn numbered(&self) -> Range<u64> {
        self.base..self.base + self.sectors
    }

    /// Returns one of its sectors in the common numbering.
    #[inline]
    pub fn stamped(&self, lba: Lba) -> Lba {
        Lba(self.base + lba.0)
    }
}

/// Counters of one of several namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceUse {
    /// Number of the namespace.
    pub number: u16,
    /// Flash operations and commands.
    pub counters: Counters,
    /// Counters of the translation.
    pub ftl: FtlCounters,
    /// Free blocks, at this time.
    pub free_blocks: u32,
    /// Blocks of its SLC cache, and those in use, at this time.
    pub slc_cache_blocks: (u32, u32),
    /// True if the namespace is read-only.
    pub read_only: bool,
}

impl NamespaceUse {
    /// Returns the counters of each namespace; empty if the drive has only one.
    pub(super) fn all(target: &impl Target) -> Vec<NamespaceUse> {
        let Some(device) = target.flash() else { return Vec::new() };
        let numbers = 0..device.namespaces();
        let of = |number| NamespaceUse {
            number,
            counters: device.namespace(number).counters(),
            ftl: device.namespace(number).ftl_counters(),
            free_blocks: device.namespace(number).free_blocks(),
            slc_cache_blocks: device.cache_use([number]),
            read_only: device.namespace(number).takes_no_writes(),
        };
        if numbers.len() > 1 { numbers.map(of).collect() } else { Vec::new() }
    }

    /// Returns the difference to `before`.
    pub(super) fn since(self, before: &NamespaceUse) -> NamespaceUse {
        NamespaceUse {
            counters: self.counters.since(&before.counters),
            ftl: self.ftl.since(&before.ftl),
            ..self
        }
    }
}
