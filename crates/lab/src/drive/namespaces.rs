//! The block namespaces that requests can go to, and the counters of each namespace.

use super::target::Target;
use pellucid_device::{Counters, Device};
use pellucid_flash::{Drive, Lba};
use pellucid_ftl::FtlCounters;
use std::ops::Range;

/// A block namespace of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockNamespace {
    /// Its number.
    pub number: u16,
    /// Its size.
    pub sectors: u64,
    /// Its placement handles; 1: none are offered.
    pub handles: u16,
    /// First sector in the common numbering of all block namespaces, which stamps and the oracle use.
    pub base: u64,
}

impl BlockNamespace {
    /// The block namespaces of a drive, in the order of their numbers.
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

    /// Its sectors among those of all.
    pub fn numbered(&self) -> Range<u64> {
        self.base..self.base + self.sectors
    }

    /// One of its sectors among those of all.
    #[inline]
    pub fn stamped(&self, lba: Lba) -> Lba {
        Lba(self.base + lba.0)
    }
}

/// Counters of one namespace of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceUse {
    /// Its number.
    pub number: u16,
    /// Flash operations and commands.
    pub counters: Counters,
    /// Counters of its translation.
    pub ftl: FtlCounters,
    /// Its erased blocks that are waiting, at this moment.
    pub free_blocks: u32,
    /// Blocks of its SLC cache, and those that are not free, at this moment.
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
