//! Configuration of the layer.

use crate::CpuCosts;
use pellucid_ftl::NamelessConfig;

/// Configuration of the split FTL of nameless writes, over an open-channel namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct NamelessFtlConfig {
    /// Namespace of the drive.
    pub namespace: u16,
    /// Configuration of the FTL.
    pub ftl: NamelessConfig,
    /// Processor time of the host's own work.
    pub cpu: CpuCosts,
}

impl Default for NamelessFtlConfig {
    fn default() -> Self {
        NamelessFtlConfig { namespace: 0, ftl: NamelessConfig::default(), cpu: CpuCosts::FREE }
    }
}
