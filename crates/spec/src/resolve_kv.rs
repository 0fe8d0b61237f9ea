//! `[kv]`: a key-value cache on the drive.

use super::draft::{Draft, Take};
use super::schema::Fallback::{Flag, Real, Whole, Word};
use super::schema::{Kind, TIME, Typed, few, keys, word};
use pellucid_kv::{EngineKind, Keep, KvConfig, OverProvisioning, Victim};
use pellucid_text::Quantity;
use strum::{EnumString, VariantNames};

const ENGINES: &[&str] = &["original", "policy", "function", "raw", "direct"];
const SPARE: Kind = Kind::Share(0.0, 0.9);
const SLAB: Kind = Kind::Unit(Quantity::Size, 0, 256 << 20);
const SLOT: Kind = Kind::Unit(Quantity::Size, 48, 64 << 10);
const MEMORY: Kind = Kind::Unit(Quantity::Size, 1 << 16, 1 << 40);
const ITEM: Kind = Kind::Unit(Quantity::Size, 1, 1 << 27);
const CAPACITY: Kind = Kind::Unit(Quantity::Size, 0, 1 << 60);

keys! {
    "kv.engine": Kind::Word(ENGINES), Word("original") => kv.engine,
        "Storage engine of the cache: original on a block drive, the others on an open-channel one";
    "kv.application": Kind::Text, Word("kv") => kv.application,
        "Name of the cache at the flash monitor";
    "kv.capacity": CAPACITY, Whole(0) => kv.capacity_bytes,
        "Flash that the cache uses; 0: all there is";
    "kv.slab": SLAB, Whole(0) => kv.slab_bytes,
        "Size of a slab; 0: a flash block, or 1 MiB on a block drive";
    "kv.memory": MEMORY, Whole(64 << 20) => kv.memory_bytes,
        "Memory for write buffers";
    "kv.over_provisioning": Kind::Or("dynamic", &SPARE), Word("dynamic") => kv_spare,
        "Share of the flash that is kept free; dynamic: what a queueing model says, and 25 % for engines that own no blocks";
    "kv.victim": word::<VictimName>(), Word("two-modes") => kv_victim,
        "Which slab is evicted";
    "kv.keep": word::<KeepName>(), Word("engine") => kv_keep,
        "Which items of a victim are written again; engine: hot where it owns blocks, else valid";
    "kv.growth_factor": Kind::Real(1.01, 4.0), Real(1.25) => kv.growth_factor,
        "Slot size of a slab class over that of the class below";
    "kv.slot_min": SLOT, Whole(96) => kv.slot_min_bytes,
        "Slot size of the first slab class";
    "kv.item_max": ITEM, Whole(1 << 20) => kv.item_max_bytes,
        "The largest value";
    "kv.warm_restart": Kind::Flag, Flag(false) => kv.warm_restart,
        "Keep the items over a clean stop; where flash lacks room for slabs that are not full and for the index, those used least recently are dropped";
    "kv.seed": Kind::Whole(0, i64::MAX as u64), Whole(1) => kv.seed,
        "Seed of the hash of keys";
    "kv.cpu.cores": few(1), Whole(1) => kv.costs.cores,
        "Processor cores that the cache may use";
    "kv.cpu.ask": TIME, Whole(0) => kv.costs.ask_ns,
        "Cache's processor: taking one request";
    "kv.cpu.command": TIME, Whole(0) => kv.costs.command_ns,
        "Cache's processor: submitting one command to the drive";
    "kv.cpu.completion": TIME, Whole(0) => kv.costs.completion_ns,
        "Cache's processor: handling one completion of the drive";
    "kv.cpu.kib": TIME, Whole(0) => kv.costs.kib_ns,
        "Cache's processor: each KiB that a command moves";
    "kv.cpu.reads_block": Kind::Flag, Flag(false) => kv.costs.reads_block,
        "A request that reads flash holds its core until the flash has answered";
}

/// Names of [`Victim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum VictimName {
    Fifo,
    Lru,
    MostObsolete,
    TwoModes,
}

/// Names of [`Keep`], and what the engine says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum KeepName {
    Engine,
    Nothing,
    Hot,
    Valid,
}

impl Take for EngineKind {
    fn take(typed: &Typed) -> Self {
        let name = String::take(typed);
        let found = EngineKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.unwrap_or_else(|| panic!("no engine {name}"))
    }
}

/// Puts together what several keys say.
pub(crate) fn finish(draft: &mut Draft) {
    let usual = KvConfig::new(draft.kv.engine);
    draft.kv.over_provisioning = draft.kv_spare.map_or(usual.over_provisioning, OverProvisioning::Fixed);
    draft.kv.victim = match draft.kv_victim {
        VictimName::Fifo => Victim::Fifo,
        VictimName::Lru => Victim::Lru,
        VictimName::MostObsolete => Victim::MostObsolete,
        VictimName::TwoModes => Victim::TwoModes,
    };
    draft.kv.keep = match draft.kv_keep {
        KeepName::Engine => usual.keep,
        KeepName::Nothing => Keep::Nothing,
        KeepName::Hot => Keep::Hot,
        KeepName::Valid => Keep::Valid,
    };
}
