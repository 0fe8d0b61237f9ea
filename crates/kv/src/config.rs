//! Settings of a cache.

use pellucid_flash::Nanos;
use pellucid_setting::{Settings, Source, Word, get, join};

/// Storage engine of the slabs.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
    Word,
)]
#[strum(serialize_all = "kebab-case")]
pub enum EngineKind {
    /// A plain block drive: slabs are ranges of it, and the drive does its own garbage collection.
    #[default]
    Original,
    /// The policy level of the flash library: slabs are ranges of a block-mapped logical range.
    Policy,
    /// The function level: slabs are blocks that the library hands out, erases and levels.
    Function,
    /// The raw level: slabs are blocks, fully managed by the cache.
    Raw,
    /// Like `Raw`, but with open-channel commands instead of the library.
    Direct,
}

impl EngineKind {
    /// All of them.
    pub const ALL: [EngineKind; 5] =
        [EngineKind::Original, EngineKind::Policy, EngineKind::Function, EngineKind::Raw, EngineKind::Direct];

    /// Name in a description.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Reports whether slabs are flash blocks, so that eviction is garbage collection.
    pub const fn owns_blocks(self) -> bool {
        matches!(self, EngineKind::Function | EngineKind::Raw | EngineKind::Direct)
    }
}

/// Amount of flash that is kept free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OverProvisioning {
    /// This share of the flash, from 0 to below 1.
    Fixed(f64),
    /// Amount from the queueing model at the current rate of sets; only for engines that own blocks.
    Dynamic,
}

/// Choice of the slab that is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum Victim {
    /// The slab written first.
    Fifo,
    /// The least recently used slab.
    Lru,
    /// The slab with most obsolete bytes, or `Lru` if less than a quarter of it is obsolete.
    MostObsolete,
    /// `MostObsolete` while free slabs are above the low watermark and the victim is worth it, else `Lru`: the two modes of DIDACache.
    #[default]
    TwoModes,
}

/// Items of a victim that are rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// No item.
    Nothing,
    /// Items that were accessed since they were written.
    #[default]
    Hot,
    /// All valid items if the victim was chosen as most obsolete; otherwise as `Hot`.
    Valid,
}

/// Items of a victim that are rewritten, as a description names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames, Word)]
#[strum(serialize_all = "kebab-case")]
pub enum KeepName {
    /// The engine's default.
    Engine,
    /// [`Keep::Nothing`].
    Nothing,
    /// [`Keep::Hot`].
    Hot,
    /// [`Keep::Valid`].
    Valid,
}

/// Costs of host work in simulated time; all zero if the host's processor is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Settings)]
pub struct KvCosts {
    /// Processor cores that the cache may use.
    #[setting(kind = few(1), default = 1)]
    pub cores: u32,
    /// Cache's processor: receiving one request.
    ///
    /// Parsing, hashing, index.
    #[setting(default = 0)]
    pub ask_ns: Nanos,
    /// Cache's processor: submitting one command to the drive.
    ///
    /// A library call, or the kernel's I/O stack.
    #[setting(default = 0)]
    pub command_ns: Nanos,
    /// Cache's processor: handling one completion of the drive.
    #[setting(default = 0)]
    pub completion_ns: Nanos,
    /// Cache's processor: each KiB that a command moves.
    #[setting(default = 0)]
    pub kib_ns: Nanos,
    /// A request that reads flash holds its core until the flash has answered.
    ///
    /// As in a server that calls `pread`; other requests wait meanwhile.
    #[setting(default = false)]
    pub reads_block: bool,
}

impl KvCosts {
    /// No costs.
    pub const FREE: KvCosts = KvCosts {
        cores: 1,
        ask_ns: Nanos::ZERO,
        command_ns: Nanos::ZERO,
        completion_ns: Nanos::ZERO,
        kib_ns: Nanos::ZERO,
        reads_block: false,
    };
}

/// Settings of a cache.
#[derive(Clone, Debug, PartialEq, Settings)]
pub struct KvConfig {
    /// Storage engine of the cache: original on a block drive, the others on an open-channel one.
    #[setting(default = "original")]
    pub engine: EngineKind,
    /// Name of the cache at the flash monitor.
    ///
    /// With `policy`, `function` and `raw`.
    #[setting(default = "kv")]
    pub application: String,
    /// Flash that the cache uses; 0: all of it.
    #[setting(kind = size(0, 1 << 60), default = 0)]
    pub capacity_bytes: u64,
    /// Size of a slab; 0: a flash block, or 1 MiB on a block drive.
    ///
    /// Rounded up to what the engine can do. 0 is more where an item of `item_max_bytes` needs it.
    #[setting(kind = size(0, 256 << 20), default = 0)]
    pub slab_bytes: u32,
    /// Memory for write buffers.
    ///
    /// At least 4 slabs.
    #[setting(kind = size(1 << 16, 1 << 40), default = 64 << 20)]
    pub memory_bytes: u64,
    /// Share of the flash that is kept free; dynamic: the result of a queueing model, or 25 % with engines that own no blocks.
    #[setting(via = Option<f64>, kind = share(0.0, 0.9), or = "dynamic", made = OverProvisioning::Dynamic)]
    pub over_provisioning: OverProvisioning,
    /// Choice of the slab that is evicted.
    #[setting(default = "two-modes")]
    pub victim: Victim,
    /// Items of a victim that are written again; engine: hot with engines that own blocks, else valid.
    #[setting(via = KeepName, default = "engine", made = Keep::Hot)]
    pub keep: Keep,
    /// Ratio of the slot size of a slab class to that of the class below.
    #[setting(kind = real(1.01, 4.0), default = 1.25)]
    pub growth_factor: f64,
    /// Slot size of the first slab class.
    ///
    /// Header, key and value.
    #[setting(key = "slot_min", kind = size(48, 64 << 10), default = 96)]
    pub slot_min_bytes: u32,
    /// Size of the largest value.
    #[setting(key = "item_max", kind = size(1, 1 << 27), default = 1 << 20)]
    pub item_max_bytes: u32,
    /// Keep the items over a clean stop. If the flash lacks space for partly filled slabs and for the index, the least recently used
    /// items are dropped.
    ///
    /// A crash starts empty all the same.
    #[setting(default = false)]
    pub warm_restart: bool,
    /// Seed of the hash of keys.
    #[setting(default = 1)]
    pub seed: u64,
    /// Costs of host work.
    #[setting(key = "cpu", table)]
    pub costs: KvCosts,
}

impl KvConfig {
    /// The default cache on this engine.
    pub fn new(engine: EngineKind) -> KvConfig {
        let (over_provisioning, keep) = match engine.owns_blocks() {
            true => (OverProvisioning::Dynamic, Keep::Hot),
            false => (OverProvisioning::Fixed(0.25), Keep::Valid),
        };
        KvConfig { engine, over_provisioning, keep, ..KvConfig::usual() }
    }

    /// The cache described by the values of a table.
    pub fn described(values: &dyn Source, table: &str) -> KvConfig {
        let config = KvConfig::take(values, table);
        let usual = KvConfig::new(config.engine);
        let spare: Option<f64> = get(values, &join(table, "over_provisioning"));
        let keep = match get(values, &join(table, "keep")) {
            KeepName::Engine => usual.keep,
            KeepName::Nothing => Keep::Nothing,
            KeepName::Hot => Keep::Hot,
            KeepName::Valid => Keep::Valid,
        };
        let over_provisioning = spare.map_or(usual.over_provisioning, OverProvisioning::Fixed);
        KvConfig { over_provisioning, keep, ..config }
    }
}

impl KvConfig {
    /// Checks the values.
    ///
    /// The error is a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let wrong =
            |key: &str, value: String, allowed: &str| Err(format!("kv.{key} = {value}: allowed: {allowed}"));
        if !(1.01..=4.0).contains(&self.growth_factor) {
            return wrong("growth_factor", self.growth_factor.to_string(), "1.01 to 4");
        }
        if !(48..=65_536).contains(&self.slot_min_bytes) {
            return wrong("slot_min", self.slot_min_bytes.to_string(), "48 to 65536");
        }
        if !(1..=128 << 20).contains(&self.item_max_bytes) {
            return wrong("item_max", self.item_max_bytes.to_string(), "1 byte to 128 MiB");
        }
        if self.slab_bytes != 0 && !(4096..=256 << 20).contains(&self.slab_bytes) {
            return wrong("slab", self.slab_bytes.to_string(), "0, or 4 KiB to 256 MiB");
        }
        if let OverProvisioning::Fixed(share) = self.over_provisioning
            && !(0.0..=0.9).contains(&share)
        {
            return wrong("over_provisioning", share.to_string(), "0 to 0.9, or \"dynamic\"");
        }
        if self.application.is_empty() {
            return wrong("application", "\"\"".into(), "a name");
        }
        if self.costs.cores == 0 {
            return wrong("cpu.cores", "0".into(), "1 or more");
        }
        Ok(())
    }

    /// Checks that the flash of a drive is large enough for the settings.
    ///
    /// The error is a sentence.
    pub(crate) fn check_flash(&self, flash_bytes: u64) -> Result<(), String> {
        let (flash, memory_max) = (size(flash_bytes), flash_bytes.max(MEMORY_ALWAYS));
        if self.capacity_bytes > flash_bytes {
            let capacity = size(self.capacity_bytes);
            return Err(format!(
                "kv.capacity = {capacity}: allowed: 0 (all there is) to {flash}, what the drive has"
            ));
        }
        if self.memory_bytes > memory_max {
            let memory = size(self.memory_bytes);
            return Err(format!(
                "kv.memory = {memory}: allowed: up to {}, for {flash} of flash",
                size(memory_max)
            ));
        }
        Ok(())
    }
}

/// Memory that is allowed for any size of flash: the default.
const MEMORY_ALWAYS: u64 = 64 << 20;

/// Formats bytes as in a description.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, name)) => format!("{}{name}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}
