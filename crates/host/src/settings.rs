//! Settings of everything above a drive, as a description has them.
//!
//! A new layer has its settings in a field of [`HostSettings`], its name in [`LayerName`], and the compiler asks for the rest.

use crate::{
    AtaConfig, BlockLayerConfig, CacheConfig, ClusterBufferConfig, CpuCosts, HostFtlConfig, LayerConfig,
    NamelessFtlConfig, ZoneChunksConfig,
};
use pellucid_setting::{Settings, Word};

/// Layer above the drive, as a description names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum LayerName {
    /// [`LayerConfig::HostFtl`].
    HostFtl,
    /// [`LayerConfig::HostFtl`] on [`LayerConfig::ZoneChunks`].
    ZoneLog,
    /// [`LayerConfig::ClusterBuffer`].
    ClusterBuffer,
    /// [`LayerConfig::BlockLayer`].
    BlockLayer,
    /// [`LayerConfig::Cache`].
    Cache,
    /// [`LayerConfig::NamelessFtl`].
    NamelessFtl,
    /// [`LayerConfig::NamelessFile`].
    NamelessFile,
    /// [`LayerConfig::Ata`].
    Ata,
}

impl LayerName {
    /// Returns the place among the layers: a layer stands above those of a higher number, and layers of the same number exclude each other.
    /// Layers that make another kind of namespace stand on the drive.
    pub fn depth(self) -> u32 {
        match self {
            LayerName::ClusterBuffer | LayerName::NamelessFile | LayerName::Cache => 0,
            LayerName::BlockLayer => 1,
            LayerName::HostFtl | LayerName::ZoneLog | LayerName::NamelessFtl => 2,
            LayerName::Ata => 3,
        }
    }

    /// Returns whether the layer stands on a hard disk, too, which is one block namespace.
    pub fn stands_on_disk(self) -> bool {
        match self {
            LayerName::BlockLayer | LayerName::ClusterBuffer | LayerName::Ata => true,
            LayerName::HostFtl
            | LayerName::ZoneLog
            | LayerName::Cache
            | LayerName::NamelessFtl
            | LayerName::NamelessFile => false,
        }
    }
}

/// Layers, and the settings of each, whether or not it is among them.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct HostSettings {
    /// Layers above the drive, nearest the application first.
    #[setting(default = [])]
    pub layers: Vec<LayerName>,
    /// Host FTL, on an open-channel namespace or on the zone log.
    #[setting(table)]
    pub ftl: HostFtlConfig,
    /// Zone log.
    #[setting(table)]
    pub zone_log: ZoneChunksConfig,
    /// Cluster buffer.
    #[setting(table)]
    pub cluster_buffer: ClusterBufferConfig,
    /// Block layer.
    #[setting(table)]
    pub block_layer: BlockLayerConfig,
    /// Nameless writes.
    #[setting(table)]
    pub nameless: NamelessFtlConfig,
    /// Processor of all layers.
    #[setting(table)]
    pub cpu: CpuCosts,
    /// Cache manager.
    #[setting(table)]
    pub cache: CacheConfig,
    /// Disk interface.
    #[setting(table)]
    pub ata: AtaConfig,
}

impl HostSettings {
    /// Returns the configuration of a layer; of the zone log two, the lower one first.
    pub fn layer(&self, name: LayerName) -> Vec<LayerConfig> {
        vec![match name {
            LayerName::HostFtl => LayerConfig::HostFtl(self.ftl.clone()),
            LayerName::ZoneLog => return self.zone_log(),
            LayerName::ClusterBuffer => LayerConfig::ClusterBuffer(self.cluster_buffer.clone()),
            LayerName::BlockLayer => LayerConfig::BlockLayer(self.block_layer.clone()),
            LayerName::Cache => LayerConfig::Cache(self.cache.clone()),
            LayerName::NamelessFtl => LayerConfig::NamelessFtl(self.nameless.clone()),
            LayerName::NamelessFile => LayerConfig::NamelessFile(self.nameless.namespace),
            LayerName::Ata => LayerConfig::Ata(self.ata.clone()),
        }]
    }

    /// A host FTL on zones. The layer that sends commands to the drive pays for them.
    fn zone_log(&self) -> Vec<LayerConfig> {
        let cpu = self.ftl.cpu.without_commands();
        let ftl = HostFtlConfig { finish_chunks: true, cpu, ..self.ftl.clone() };
        vec![LayerConfig::ZoneChunks(self.zone_log.clone()), LayerConfig::HostFtl(ftl)]
    }
}
