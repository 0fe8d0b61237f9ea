//! Configuration of the layer.

use crate::CpuCosts;
use pellucid_ftl::NamelessConfig;
use pellucid_setting::Settings;

/// Configuration of the split FTL of nameless writes, over an open-channel namespace.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct NamelessFtlConfig {
    /// Nameless writes: open-channel namespace below.
    #[setting(kind = whole(0, 255), default = 0)]
    pub namespace: u16,
    /// Configuration of the FTL.
    #[setting(flatten)]
    pub ftl: NamelessConfig,
    /// Processor time of the host's own work.
    #[setting(beside = "cpu", table, shared)]
    pub cpu: CpuCosts,
}

impl Default for NamelessFtlConfig {
    fn default() -> Self {
        NamelessFtlConfig::usual()
    }
}
