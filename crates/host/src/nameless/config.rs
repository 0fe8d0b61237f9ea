//! What the layer is told.

use crate::CpuCosts;
use pellucid_flash::{Layout, Migration};
use pellucid_ftl::NamelessConfig;

/// The split FTL of nameless writes, over an open-channel namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct NamelessFtlConfig {
    /// Namespace of the drive.
    pub namespace: u16,
    /// Spare capacity as a share of what can live.
    pub over_provisioning: f64,
    /// Share of what can live that is the virtual address space.
    pub virtual_share: f64,
    /// Garbage is collected while no more chunks are free; 0: a 256th of them, but as many as a parallel unit each takes, and four more.
    pub gc_low: u32,
    /// What becomes of the old copy of a sector that is moved.
    pub migration: Migration,
    /// What the host's own work costs.
    pub cpu: CpuCosts,
}

impl Default for NamelessFtlConfig {
    fn default() -> Self {
        NamelessFtlConfig {
            namespace: 0,
            over_provisioning: 0.0753,
            virtual_share: 0.0625,
            gc_low: 0,
            migration: Migration::Acknowledged,
            cpu: CpuCosts::FREE,
        }
    }
}

impl NamelessFtlConfig {
    /// The engine's settings on such media.
    pub(super) fn engine(&self, layout: &Layout) -> NamelessConfig {
        let least = (layout.dies + 4).max(layout.blocks / 256);
        NamelessConfig {
            over_provisioning: self.over_provisioning,
            virtual_share: self.virtual_share,
            gc_low: if self.gc_low == 0 { least } else { self.gc_low },
            migration: self.migration,
        }
    }
}
