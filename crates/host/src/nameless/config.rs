//! What the layer is told.

use crate::CpuCosts;
use pellucid_ftl::NamelessConfig;

/// The split FTL of nameless writes, over an open-channel namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct NamelessFtlConfig {
    /// Namespace of the drive.
    pub namespace: u16,
    /// What the FTL is told.
    pub ftl: NamelessConfig,
    /// What the host's own work costs.
    pub cpu: CpuCosts,
}

impl Default for NamelessFtlConfig {
    fn default() -> Self {
        NamelessFtlConfig { namespace: 0, ftl: NamelessConfig::default(), cpu: CpuCosts::FREE }
    }
}
