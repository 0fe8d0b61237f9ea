//! Settings of a cache.

use pellucid_flash::Nanos;

/// Storage engine that holds the slabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// A plain block drive: slabs are ranges of it, and the drive does its own garbage collection.
    #[default]
    Original,
    /// The policy level of the flash library: slabs are ranges of a block-mapped logical range.
    Policy,
    /// The function level: slabs are blocks that the library hands out, erases and levels.
    Function,
    /// The raw level: slabs are blocks, and everything about them is the cache's business.
    Raw,
    /// Own blocks like `Raw`, by open-channel commands and without a library between.
    Direct,
}

impl EngineKind {
    /// All of them.
    pub const ALL: [EngineKind; 5] =
        [EngineKind::Original, EngineKind::Policy, EngineKind::Function, EngineKind::Raw, EngineKind::Direct];

    /// Its name in a description.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Original => "original",
            EngineKind::Policy => "policy",
            EngineKind::Function => "function",
            EngineKind::Raw => "raw",
            EngineKind::Direct => "direct",
        }
    }

    /// Returns whether slabs are flash blocks, so that eviction and garbage collection are one.
    pub const fn owns_blocks(self) -> bool {
        matches!(self, EngineKind::Function | EngineKind::Raw | EngineKind::Direct)
    }
}

/// How much flash is kept free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OverProvisioning {
    /// This share of the flash, 0 to below 1.
    Fixed(f64),
    /// Size that the queueing model gives for the present rate of sets; only for engines that own blocks.
    Dynamic,
}

/// Slab that is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
    /// The one written first.
    Fifo,
    /// The one whose items have not been asked for longest.
    Lru,
    /// The one with most obsolete bytes, or `Lru` where less than a quarter of that is obsolete.
    MostObsolete,
    /// `MostObsolete` while free slabs are above the low watermark and the victim is worth it, else `Lru`: the two modes of DIDACache.
    #[default]
    TwoModes,
}

/// Items of a victim that are written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// No item.
    Nothing,
    /// Items that were asked for since they were written.
    #[default]
    Hot,
    /// All that are valid, where the victim was chosen as most obsolete; else as `Hot`.
    Valid,
}

/// Costs of host work in simulated time; all zero where the host's processor is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCosts {
    /// Cores that the cache may use; at least 1.
    pub cores: u32,
    /// Taking one request: parsing, hashing, index.
    pub ask_ns: Nanos,
    /// Building and submitting one command to the drive: a library call, or the kernel's I/O stack.
    pub command_ns: Nanos,
    /// Handling one completion.
    pub completion_ns: Nanos,
    /// Each KiB of data that a read or write moves through the host.
    pub kib_ns: Nanos,
    /// A request that reads flash holds its core until the flash has answered, as in a server that calls `pread`; what comes meanwhile waits.
    pub reads_block: bool,
}

impl KvCosts {
    /// Costs of nothing.
    pub const FREE: KvCosts = KvCosts {
        cores: 1,
        ask_ns: Nanos::ZERO,
        command_ns: Nanos::ZERO,
        completion_ns: Nanos::ZERO,
        kib_ns: Nanos::ZERO,
        reads_block: false,
    };
}

/// A cache.
#[derive(Clone, Debug, PartialEq)]
pub struct KvConfig {
    /// Storage engine.
    pub engine: EngineKind,
    /// Name of the application at the flash monitor (`policy`, `function`, `raw`).
    pub application: String,
    /// Flash to use; 0: all there is.
    pub capacity_bytes: u64,
    /// Bytes of a slab, rounded up to what the engine can do; 0: one flash block, or 1 MiB on a block drive, or more where an item of
    /// `item_max_bytes` needs it.
    pub slab_bytes: u32,
    /// Memory for write buffers; at least 4 slabs.
    pub memory_bytes: u64,
    /// Flash that is kept free.
    pub over_provisioning: OverProvisioning,
    /// Slab that is evicted.
    pub victim: Victim,
    /// Items of a victim that are written again.
    pub keep: Keep,
    /// Ratio of the slot sizes of neighbouring slab classes, above 1.
    pub growth_factor: f64,
    /// Slot size of the first class: header, key and value.
    pub slot_min_bytes: u32,
    /// The largest value.
    pub item_max_bytes: u32,
    /// Keep the items over a clean stop. A crash starts empty all the same.
    pub warm_restart: bool,
    /// Seed of the hash of keys.
    pub seed: u64,
    /// Costs of host work.
    pub costs: KvCosts,
}

impl KvConfig {
    /// The usual cache on this engine.
    pub fn new(engine: EngineKind) -> KvConfig {
        let owns = engine.owns_blocks();
        KvConfig {
            engine,
            application: "kv".into(),
            capacity_bytes: 0,
            slab_bytes: 0,
            memory_bytes: 64 << 20,
            over_provisioning: if owns { OverProvisioning::Dynamic } else { OverProvisioning::Fixed(0.25) },
            victim: Victim::TwoModes,
            keep: if owns { Keep::Hot } else { Keep::Valid },
            growth_factor: 1.25,
            slot_min_bytes: 96,
            item_max_bytes: 1 << 20,
            warm_restart: false,
            seed: 1,
            costs: KvCosts::FREE,
        }
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

/// Memory that is allowed however small the flash is: the usual value.
const MEMORY_ALWAYS: u64 = 64 << 20;

/// Bytes as a description says them.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, name)) => format!("{}{name}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}
