//! `[host]`: what stands above the drive, and what the host's own work costs.

use super::error::SpecError;
use super::resolve_ftl;
use super::schema::Fallback::{Empty, Real, Whole, Word};
use super::schema::{Key, Kind, SHARE, TIME, Values, count, key};
use crate::drive::HostLayer;
use pellucid_flash::Nanos;
use pellucid_ftl::{Durability, Separation};
use pellucid_host::{CpuCosts, HostFtlConfig, ZoneChunksConfig};

const LAYERS: &[&str] = &["host-ftl", "zone-log"];
const BUFFER: Kind = Kind::Whole(0, 1 << 24);

pub(crate) const KEYS: &[Key] = &[
    key(
        "host.layers",
        Kind::Words(LAYERS),
        Empty,
        "What stands above the drive, nearest the application first",
    ),
    key(
        "host.ftl.namespace",
        Kind::Whole(0, 255),
        Whole(0),
        "Host FTL: its open-channel namespace, zone log: its zoned one",
    ),
    key("host.ftl.first_unit", count(0), Whole(0), "Host FTL: first parallel unit of its range"),
    key(
        "host.ftl.units",
        count(0),
        Whole(0),
        "Host FTL: parallel units of its range; 0: all from the first on",
    ),
    key(
        "host.ftl.over_provisioning",
        Kind::Real(0.0, 100.0),
        Real(0.11),
        "Host FTL: spare capacity as a share of what it offers (pblk: 11 %)",
    ),
    key(
        "host.ftl.buffer",
        BUFFER,
        Whole(0),
        "Host FTL: sectors of the write buffer; 0: two writes for every parallel unit",
    ),
    key(
        "host.ftl.write_units",
        Kind::Whole(1, 64),
        Whole(1),
        "Host FTL: best writes of the drive that one write covers; 2: the two planes that pblk expects",
    ),
    key("host.ftl.spare_chunks", count(0), Whole(1), "Host FTL: chunks of each unit that replace bad ones"),
    key(
        "host.ftl.gc_share",
        SHARE,
        Real(0.125),
        "Host FTL: share of free lines below which it collects and slows writers down (pblk: an eighth)",
    ),
    key("host.ftl.victim", resolve_ftl::VICTIMS, Word("greedy"), "Host FTL: choice of the line to collect"),
    key(
        "host.ftl.separation",
        Kind::Word(&["off", "collected"]),
        Word("off"),
        "Host FTL: off: what collection moves shares lines with what is written, as in pblk; collected: it has lines of its own",
    ),
    key(
        "host.ftl.durability",
        Kind::Word(&["volatile", "journal"]),
        Word("journal"),
        "Host FTL: journal keeps map segments on the drive, so that trims survive a crash",
    ),
    key(
        "host.ftl.read_retries",
        count(0),
        Whole(2),
        "Host FTL: reads tried again after the drive has given up",
    ),
    key(
        "host.zone_log.width",
        count(1),
        Whole(1),
        "Zone log: zones that are written side by side; the drive must allow four times as many active ones",
    ),
    key(
        "host.zone_log.batch",
        Kind::Whole(0, 1 << 16),
        Whole(0),
        "Zone log: sectors of a batch, one of them its trailer; 0: the largest divisor of a zone's capacity up to 64",
    ),
    key("host.cpu.cores", count(1), Whole(1), "Processor cores that the host's layers may use"),
    key("host.cpu.submit", TIME, Whole(0), "Host processor: taking and completing a command"),
    key("host.cpu.sector", TIME, Whole(0), "Host processor: mapping one sector, copying it if it is written"),
    key("host.cpu.command", TIME, Whole(0), "Host processor: submitting one command to the drive"),
    key("host.cpu.completion", TIME, Whole(0), "Host processor: handling one completion of the drive"),
];

/// The layer above the drive, if there is one.
pub(crate) fn build(values: &Values) -> Result<Option<HostLayer>, SpecError> {
    let layers = values.words("host.layers");
    match layers {
        [] => Ok(None),
        [name] if name == "zone-log" => Ok(Some(zone_log(values))),
        [_] => Ok(Some(HostLayer::Ftl(host_ftl(values)))),
        _ => Err(values.refuse("host.layers", "at most one layer")),
    }
}

/// A host FTL on zones. What commands cost is paid by the layer that sends them to the drive.
fn zone_log(values: &Values) -> HostLayer {
    let ftl = host_ftl(values);
    let zones = ZoneChunksConfig {
        namespace: ftl.namespace,
        width: values.u32("host.zone_log.width"),
        batch_sectors: values.u32("host.zone_log.batch"),
        cpu: ftl.cpu,
    };
    let cpu = CpuCosts { command_ns: Nanos::ZERO, completion_ns: Nanos::ZERO, ..ftl.cpu };
    HostLayer::ZoneLog(HostFtlConfig { namespace: 0, finish_chunks: true, cpu, ..ftl }, zones)
}

/// The settings of a host FTL.
pub(crate) fn host_ftl(values: &Values) -> HostFtlConfig {
    HostFtlConfig {
        namespace: values.u32("host.ftl.namespace") as u16,
        first_unit: values.u32("host.ftl.first_unit"),
        units: values.u32("host.ftl.units"),
        over_provisioning: values.real("host.ftl.over_provisioning"),
        capacity_bytes: None,
        buffer_sectors: values.u32("host.ftl.buffer"),
        write_units: values.u32("host.ftl.write_units"),
        spare_chunks: values.u32("host.ftl.spare_chunks"),
        gc_share: values.real("host.ftl.gc_share"),
        victim: resolve_ftl::victim(values.text("host.ftl.victim")),
        separation: match values.text("host.ftl.separation") {
            "collected" => Separation::Collected,
            _ => Separation::Off,
        },
        durability: match values.text("host.ftl.durability") {
            "volatile" => Durability::Volatile,
            _ => Durability::Journal { checkpoint_every: 0 },
        },
        read_retries: values.u32("host.ftl.read_retries"),
        finish_chunks: false,
        cpu: CpuCosts {
            cores: values.u32("host.cpu.cores"),
            submit_ns: values.time("host.cpu.submit"),
            sector_ns: values.time("host.cpu.sector"),
            command_ns: values.time("host.cpu.command"),
            completion_ns: values.time("host.cpu.completion"),
        },
        uuid: values.whole("drive.ftl.seed"),
    }
}
