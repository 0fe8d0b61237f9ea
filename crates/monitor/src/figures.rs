//! Figures: the form in which a view is shown, stored and sent.
//!
//! All counters run since the drive was made (`watched`: was first watched) and never decrease, so a reader computes rates from two of them
//! ([`Bins::since`]). Times of the drive are simulated nanoseconds. `docs/reference/monitors.md` lists the keys.

use crate::board::{DriveLuns, LayerSide, LunSide, Serving, View};
use pellucid_device::{CommandKind, FirmwareModule, OperationKind, Part, Probes, Snapshot};
use pellucid_flash::{Cause, Figure, Histogram, MapReason, Pauses, Stage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the form. It rises when a key changes its meaning or is removed.
pub const SCHEMA_VERSION: u32 = 2;

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The version of Pellucid.
    pub pellucid_version: String,
    /// Real seconds since the process began to work or serve.
    pub wall_seconds: f64,
    /// Progress of a run.
    pub work: Option<WorkFigures>,
    /// The server of a served drive.
    pub serving: Option<ServingFigures>,
    /// Each drive.
    pub drives: Vec<DriveFigures>,
}

/// Progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkFigures {
    /// The jobs or the trace.
    pub what: String,
    /// Requests completed.
    pub requests: u64,
    /// Requests in all, if known.
    pub requests_total: Option<u64>,
}

/// Figures of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServingFigures {
    /// Each protocol.
    pub protocols: Vec<ProtocolFigures>,
    /// Each layer of the host.
    #[serde(default)]
    pub layers: Vec<LayerFigures>,
    /// LUNs of each drive that is divided among applications or targets.
    #[serde(default)]
    pub luns: Vec<DriveLunFigures>,
    /// Data that each namespace keeps over a power cut: `acknowledged` writes, `flushed` ones, `nothing`.
    #[serde(default)]
    pub keeps: BTreeMap<String, String>,
    /// Bytes of data in drives and outputs.
    pub held_bytes: u64,
    /// Delay of completions, in wall nanoseconds; empty unless paced.
    pub lateness: Lateness,
}

/// The LUNs of a drive, and their owners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveLunFigures {
    /// The drive's name.
    pub drive: String,
    /// Its LUNs, in the order of their numbers.
    pub luns: Vec<LunFigures>,
}

/// A LUN; see [`LunSide`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LunFigures {
    /// CHANNEL/LUN.
    pub lun: String,
    /// The application or target that owns it.
    pub owner: Option<String>,
    /// Mean erases of its blocks; only on a drive with applications.
    pub average_erases: Option<f64>,
    /// Bad blocks; only on a drive with applications.
    pub bad_blocks: Option<u32>,
    /// Good blocks in reserve for bad ones; only on a drive with applications.
    pub spare_blocks: Option<u32>,
}

impl From<&DriveLuns> for DriveLunFigures {
    fn from(DriveLuns { drive, luns }: &DriveLuns) -> DriveLunFigures {
        let one = |side: &LunSide| {
            let LunSide { lun, owner, average_erases, bad_blocks, spare_blocks } = side.clone();
            LunFigures { lun, owner, average_erases, bad_blocks, spare_blocks }
        };
        DriveLunFigures { drive: drive.clone(), luns: luns.iter().map(one).collect() }
    }
}

/// A layer of the host; see [`LayerSide`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFigures {
    /// Name under which it is served.
    pub name: String,
    /// State of the remote drive below: `connected`, `away`, `lost`; absent if the drive is in this process.
    pub remote: Option<String>,
    /// Reconnections to the remote drive.
    pub reconnections: u64,
    /// Counters of the layer, each under its own name.
    #[serde(flatten)]
    pub values: BTreeMap<String, LayerValue>,
    /// Counters with units and meanings; absent in deserialised figures.
    #[serde(skip)]
    pub figures: Vec<Figure>,
}

/// Value of a layer's counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LayerValue {
    /// One value.
    One(u64),
    /// One value per cause.
    ByCause(BTreeMap<String, u64>),
}

impl From<&LayerSide> for LayerFigures {
    fn from(layer: &LayerSide) -> LayerFigures {
        let mut values = BTreeMap::new();
        for figure in &layer.figures {
            let name = figure.name.to_string();
            let Some(cause) = figure.cause else {
                values.insert(name, LayerValue::One(figure.value));
                continue;
            };
            let all = values.entry(name).or_insert_with(|| LayerValue::ByCause(BTreeMap::new()));
            if let LayerValue::ByCause(all) = all {
                all.insert(key(cause.name()), figure.value);
            }
        }
        // `lost_reads` is the old name, kept until the version after 0.1.
        if let Some(lost) = values.get("lost_sectors").cloned() {
            values.insert("lost_reads".into(), lost);
        }
        LayerFigures {
            name: layer.name.clone(),
            remote: layer.remote.map(|(state, _)| state.into()),
            reconnections: layer.remote.map_or(0, |(_, times)| times),
            values,
            figures: layer.figures.clone(),
        }
    }
}

/// Delay of completions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Completions by lateness, wall ns.
    pub bins: Bins,
    /// Median delay, ns.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the delay, ns.
    pub p99_ns: Option<u64>,
}

/// Figures of a protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolFigures {
    /// `nbd`, `nvme-tcp`, `control`.
    pub name: String,
    /// Connections now.
    pub connections: u64,
    /// Connections since the start.
    pub connected: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Drive commands answered.
    pub commands: u64,
}

/// Figures of a drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveFigures {
    /// Its name.
    pub name: String,
    /// The drive's time, in ns since power-on.
    pub simulated_ns: u64,
    /// User capacity in bytes.
    pub capacity_bytes: u64,
    /// Outstanding commands.
    pub outstanding_commands: u32,
    /// Bytes that hosts read successfully.
    pub host_read_bytes: u64,
    /// Bytes that hosts wrote successfully.
    pub host_written_bytes: u64,
    /// Bytes programmed, by cause.
    pub programmed_bytes: BTreeMap<String, u64>,
    /// Program operations, by cause.
    pub programs: BTreeMap<String, u64>,
    /// Read operations, by cause; retries are counted apart.
    pub flash_reads: BTreeMap<String, u64>,
    /// Blocks erased, by cause.
    pub erases: BTreeMap<String, u64>,
    /// Victim blocks chosen, by cause.
    pub victims: BTreeMap<String, u64>,
    /// Completed victims, except folded blocks, by the time from choice to completion, ns.
    #[serde(default)]
    pub gc_pauses: Bins,
    /// Map entries looked up in the cached mapping table; 0 if the map is in memory.
    #[serde(default)]
    pub map_lookups: u64,
    /// Look-ups that hit.
    #[serde(default)]
    pub map_hits: u64,
    /// Translation pages read, by reason: `lookup`, `eviction`, `gc`, `flush`; only reasons that occurred.
    #[serde(default)]
    pub translation_page_reads: BTreeMap<String, u64>,
    /// Translation pages programmed, by reason.
    #[serde(default)]
    pub translation_page_writes: BTreeMap<String, u64>,
    /// Valid mapping units copied, by GC and similar work.
    pub copied_units: u64,
    /// Units copied inside a die.
    pub copybacks: u64,
    /// Bits that error correction corrected.
    pub corrected_bits: u64,
    /// Reads that succeeded after a retry.
    pub corrected_reads: u64,
    /// Read attempts after the first.
    pub read_retries: u64,
    /// Reads that failed after every retry.
    pub uncorrectable_reads: u64,
    /// Codewords read, by number of wrong bits; the last entry counts those beyond the code's strength. Empty without the bit-error model.
    #[serde(default)]
    pub chunks_by_wrong_bits: Vec<u64>,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Programs and erases suspended for a read.
    pub suspensions: u64,
    /// Read slices found in the buffer.
    pub buffer_read_hits: u64,
    /// Write slices whose page was in the buffer.
    pub buffer_write_hits: u64,
    /// Power cuts of the drive.
    pub power_cuts: u64,
    /// Blocks of the media, good and bad.
    pub blocks: u32,
    /// Erased blocks that are free.
    pub free_blocks: u32,
    /// Blocks retired.
    pub grown_bad_blocks: u64,
    /// True if the drive has run out of good blocks.
    pub read_only: bool,
    /// Busy time of the host link, towards the drive and towards the host, ns.
    pub link_busy_ns: [u64; 2],
    /// Busy time of the firmware processor, ns.
    pub firmware_busy_ns: u64,
    /// Firmware time by module: `fetch`, `slice`, `dma`, `issue`, `status`, `complete`.
    #[serde(default)]
    pub firmware_module_ns: BTreeMap<String, u64>,
    /// Busy time of each channel, ns.
    pub channel_busy_ns: Vec<u64>,
    /// Channels transferring data now.
    pub channels_active: u32,
    /// Busy time of each way, ns, channel by channel.
    pub way_busy_ns: Vec<u64>,
    /// Operation that holds each way: `read`, `program`, `erase`, `copyback`, or absent.
    pub way_holds: Vec<Option<String>>,
    /// Observations since the drive is watched; absent if it is not.
    pub watched: Option<WatchedFigures>,
}

/// Observations of a watched drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedFigures {
    /// Start, in ns of the drive's time.
    pub since_ns: u64,
    /// Commands: `read`, `write`, `trim`, `flush`.
    pub commands: BTreeMap<String, CommandFigures>,
    /// Flash operations by kind and part, in ns: `read`, `program`, `erase`, `copyback`; each `wait`, `bus`, `array`, `retry`.
    pub operations: BTreeMap<String, BTreeMap<String, Bins>>,
    /// Each way, in the order of `way_busy_ns`.
    pub ways: Vec<WayFigures>,
    /// Time with n ways active, by n, in ns.
    pub active_ways_ns: Vec<u64>,
    /// Time with n channels active, by n, in ns.
    pub active_channels_ns: Vec<u64>,
    /// Time (weight, ns) by the number of commands in the drive.
    pub outstanding: Bins,
    /// Erase counts of blocks that are not factory-bad.
    pub wear: Wear,
}

/// Commands of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandFigures {
    /// Operations that failed.
    pub failed: u64,
    /// All operations, by latency in ns.
    pub latency: Bins,
    /// All operations, by time in each stage in ns; reads and writes only.
    pub stages: BTreeMap<String, Bins>,
}

/// Figures of one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayFigures {
    /// Completed operations: read, program, erase, copyback.
    pub operations: [u64; OperationKind::COUNT],
    /// Their time in wait, bus, array and retry, ns, for each of the four.
    pub time_ns: [[u64; Part::COUNT]; OperationKind::COUNT],
    /// Median time for each of the four, ns, at most an eighth too large.
    #[serde(default)]
    pub p50_ns: [Option<u64>; OperationKind::COUNT],
    /// 99th percentile, as `p50_ns`.
    #[serde(default)]
    pub p99_ns: [Option<u64>; OperationKind::COUNT],
    /// 99.9th percentile, as `p50_ns`.
    #[serde(default)]
    pub p999_ns: [Option<u64>; OperationKind::COUNT],
    /// Longest operation, ns.
    pub longest_ns: u64,
}

/// Erase counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Blocks that are not factory-bad.
    pub blocks: u64,
    /// Smallest erase count.
    pub min: u32,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: u32,
}

/// Weights by value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bins {
    /// Largest value of each bin, ascending.
    pub upper: Vec<u64>,
    /// Weight of each bin.
    pub weight: Vec<u64>,
    /// Sum of value times weight, saturating.
    pub sum: u64,
}

impl Bins {
    /// Converts a histogram; weight that is missing to `total` is put at zero.
    pub fn of(histogram: &Histogram<4>, total: u64) -> Bins {
        let (mut upper, mut weight): (Vec<u64>, Vec<u64>) = histogram.buckets().unzip();
        let zeros = total.saturating_sub(weight.iter().sum());
        if zeros > 0 && upper.first() == Some(&0) {
            weight[0] += zeros;
        } else if zeros > 0 {
            upper.insert(0, 0);
            weight.insert(0, zeros);
        }
        Bins { upper, weight, sum: u64::try_from(histogram.sum()).unwrap_or(u64::MAX) }
    }

    /// Converts the pauses of garbage collection.
    pub fn of_pauses(pauses: &Pauses) -> Bins {
        let (upper, weight) = pauses.bins().unzip();
        Bins { upper, weight, sum: pauses.sum().0 }
    }

    /// Total weight.
    pub fn total(&self) -> u64 {
        self.weight.iter().sum()
    }

    /// Weighted mean; `None` if empty.
    pub fn mean(&self) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| self.sum as f64 / total as f64)
    }

    /// The value that a share `q` of the weight does not exceed, at most a sixteenth too large; `None` if empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = (q * self.total() as f64).ceil().max(1.0);
        let mut seen = 0u64;
        let found = self.weight.iter().position(|weight| {
            seen += weight;
            seen as f64 >= rank
        });
        found.and_then(|bin| self.upper.get(bin).copied())
    }

    /// Returns the difference to `earlier`.
    pub fn since(&self, earlier: &Bins) -> Bins {
        let mut before = earlier.upper.iter().zip(&earlier.weight).peekable();
        let mut bins = Bins { sum: self.sum.saturating_sub(earlier.sum), ..Bins::default() };
        for (&upper, &weight) in self.upper.iter().zip(&self.weight) {
            while before.next_if(|(b, _)| **b < upper).is_some() {}
            let old = before.next_if(|(b, _)| **b == upper).map_or(0, |(_, weight)| *weight);
            if weight > old {
                bins.upper.push(upper);
                bins.weight.push(weight - old);
            }
        }
        bins
    }
}

/// A name as a key: `wait for way` becomes `wait_for_way`.
pub(crate) fn key(name: &str) -> String {
    name.replace([' ', '-'], "_")
}

fn by_cause(counts: &[u64; Cause::COUNT], unit: u64) -> BTreeMap<String, u64> {
    Cause::listed(counts).map(|cause| (key(cause.name()), counts[cause as usize] * unit)).collect()
}

fn by_map_reason(counts: &[u64; MapReason::COUNT]) -> BTreeMap<String, u64> {
    let counted =
        MapReason::ALL.into_iter().map(|reason| (reason.name().to_string(), counts[reason as usize]));
    counted.filter(|&(_, count)| count > 0).collect()
}

impl From<&View> for Figures {
    fn from(view: &View) -> Figures {
        Figures {
            schema_version: SCHEMA_VERSION,
            pellucid_version: env!("CARGO_PKG_VERSION").into(),
            wall_seconds: view.wall.as_secs_f64(),
            work: view.work.as_ref().map(|work| WorkFigures {
                what: work.what.clone(),
                requests: work.requests,
                requests_total: work.requests_total,
            }),
            serving: view.serving.as_ref().map(ServingFigures::from),
            drives: view.drives.iter().map(|(name, snapshot)| DriveFigures::of(name, snapshot)).collect(),
        }
    }
}

impl From<&Serving> for ServingFigures {
    fn from(serving: &Serving) -> ServingFigures {
        let protocol = |p: &crate::board::Protocol| ProtocolFigures {
            name: p.name.into(),
            connections: p.connections,
            connected: p.connected,
            received_bytes: p.received_bytes,
            sent_bytes: p.sent_bytes,
            commands: p.commands,
        };
        let bins = Bins::of(&serving.lateness_ns, 0);
        ServingFigures {
            protocols: serving.protocols.iter().map(protocol).collect(),
            layers: serving.layers.iter().map(LayerFigures::from).collect(),
            luns: serving.luns.iter().map(DriveLunFigures::from).collect(),
            keeps: serving.keeps.iter().map(|(name, keeps)| (name.clone(), (*keeps).into())).collect(),
            held_bytes: serving.held_bytes,
            lateness: Lateness { p50_ns: bins.quantile(0.5), p99_ns: bins.quantile(0.99), bins },
        }
    }
}

impl DriveFigures {
    /// The figures of a drive.
    pub fn of(name: &str, snapshot: &Snapshot) -> DriveFigures {
        let (counters, sector) = (&snapshot.counters, u64::from(snapshot.sector_bytes));
        DriveFigures {
            name: name.into(),
            simulated_ns: snapshot.at.0,
            capacity_bytes: snapshot.capacity_bytes,
            outstanding_commands: snapshot.outstanding_commands,
            host_read_bytes: counters.host_read_sectors * sector,
            host_written_bytes: counters.host_written_sectors * sector,
            programmed_bytes: by_cause(&counters.programmed_sectors, sector),
            programs: by_cause(&counters.programs, 1),
            flash_reads: by_cause(&counters.reads, 1),
            erases: by_cause(&counters.erases, 1),
            victims: by_cause(&snapshot.ftl.victims, 1),
            gc_pauses: Bins::of_pauses(&snapshot.ftl.pauses),
            map_lookups: snapshot.ftl.map.lookups,
            map_hits: snapshot.ftl.map.hits,
            translation_page_reads: by_map_reason(&snapshot.ftl.map.reads),
            translation_page_writes: by_map_reason(&snapshot.ftl.map.writes),
            copied_units: snapshot.ftl.copied_units,
            copybacks: counters.copybacks,
            corrected_bits: counters.corrected_bits,
            corrected_reads: counters.corrected_reads,
            read_retries: counters.read_retries,
            uncorrectable_reads: counters.uncorrectable_reads,
            chunks_by_wrong_bits: snapshot.chunks_by_wrong_bits.clone(),
            program_failures: counters.program_failures,
            erase_failures: counters.erase_failures,
            suspensions: counters.suspensions,
            buffer_read_hits: counters.buffer_read_hits,
            buffer_write_hits: counters.buffer_write_hits,
            power_cuts: counters.power_cuts,
            blocks: snapshot.blocks,
            free_blocks: snapshot.free_blocks,
            grown_bad_blocks: counters.retired_blocks,
            read_only: snapshot.read_only,
            link_busy_ns: snapshot.link_busy.map(|busy| busy.0),
            firmware_busy_ns: snapshot.firmware_busy.iter().map(|time| time.0).sum::<u64>()
                / u64::from(snapshot.processors),
            firmware_module_ns: FirmwareModule::ALL
                .iter()
                .zip(snapshot.firmware_busy)
                .map(|(module, time)| (module.name().into(), time.0))
                .collect(),
            channel_busy_ns: snapshot.channels.iter().map(|c| c.busy.0).collect(),
            channels_active: snapshot.channels.iter().filter(|c| c.active).count() as u32,
            way_busy_ns: snapshot.ways.iter().map(|w| w.busy.0).collect(),
            way_holds: snapshot.ways.iter().map(|w| w.holds.map(|kind| kind.name().into())).collect(),
            watched: snapshot.probes.as_deref().map(WatchedFigures::from),
        }
    }

    /// Codewords by number of wrong bits; lost ones count as one bit beyond the code's strength.
    pub fn wrong_bits(&self) -> Bins {
        let filled = (0u64..).zip(&self.chunks_by_wrong_bits).filter(|(_, chunks)| **chunks > 0);
        let (upper, weight): (Vec<u64>, Vec<u64>) = filled.unzip();
        let sum = upper.iter().zip(&weight).map(|(bits, chunks)| bits * chunks).sum();
        Bins { upper, weight, sum }
    }

    /// Number of ways per channel.
    pub fn ways_per_channel(&self) -> usize {
        self.way_busy_ns.len() / self.channel_busy_ns.len().max(1)
    }

    /// Bytes programmed per byte that the host wrote; `None` if it wrote nothing.
    pub fn write_amplification(&self) -> Option<f64> {
        let programmed: u64 = self.programmed_bytes.values().sum();
        (self.host_written_bytes > 0).then(|| programmed as f64 / self.host_written_bytes as f64)
    }
}

impl From<&Probes> for WatchedFigures {
    fn from(probes: &Probes) -> WatchedFigures {
        let command = |kind: CommandKind| {
            let at = kind as usize;
            let latency = Bins::of(&probes.commands[at], 0);
            let stages = probes.stages.get(at).map_or_else(BTreeMap::new, |stages| {
                let bins = |stage: Stage| Bins::of(&stages[stage as usize], latency.total());
                Stage::ALL.into_iter().map(|stage| (key(stage.name()), bins(stage))).collect()
            });
            (kind.name().to_string(), CommandFigures { failed: probes.failed[at], latency, stages })
        };
        let operation = |kind: OperationKind| {
            let ended = probes.ways.iter().map(|way| way.operations[kind as usize]).sum();
            let bins = |part: Part| Bins::of(&probes.operations[kind as usize][part as usize], ended);
            (kind.name().to_string(), Part::ALL.into_iter().map(|p| (p.name().into(), bins(p))).collect())
        };
        let way = |way: &pellucid_device::WayProbes| {
            let [p50_ns, p99_ns, p999_ns] =
                [0.5, 0.99, 0.999].map(|share| way.latency.each_ref().map(|latency| latency.quantile(share)));
            let (operations, time_ns, longest_ns) = (way.operations, way.time_ns, way.longest_ns);
            WayFigures { operations, time_ns, p50_ns, p99_ns, p999_ns, longest_ns }
        };
        WatchedFigures {
            since_ns: probes.since.0,
            commands: CommandKind::ALL.into_iter().map(command).collect(),
            operations: OperationKind::ALL.into_iter().map(operation).collect(),
            ways: probes.ways.iter().map(way).collect(),
            active_ways_ns: probes.active_ways_ns.clone(),
            active_channels_ns: probes.active_channels_ns.clone(),
            outstanding: Bins::of(&probes.outstanding_ns, 0),
            wear: Wear::of(&probes.blocks_by_erases),
        }
    }
}

impl Wear {
    fn of(blocks_by_erases: &BTreeMap<u32, u32>) -> Wear {
        let blocks: u64 = blocks_by_erases.values().map(|&n| u64::from(n)).sum();
        let erases: u64 = blocks_by_erases.iter().map(|(&erases, &n)| u64::from(erases) * u64::from(n)).sum();
        Wear {
            blocks,
            min: blocks_by_erases.first_key_value().map_or(0, |(&erases, _)| erases),
            mean: if blocks > 0 { erases as f64 / blocks as f64 } else { 0.0 },
            max: blocks_by_erases.last_key_value().map_or(0, |(&erases, _)| erases),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(entries: &[(u64, u64)]) -> Bins {
        let mut histogram = Histogram::default();
        entries.iter().for_each(|&(value, weight)| histogram.record(value, weight));
        Bins::of(&histogram, 0)
    }

    #[test]
    fn what_is_missing_counts_as_zero() {
        let mut histogram = Histogram::default();
        histogram.record(100, 3);
        let with = Bins::of(&histogram, 10);
        assert_eq!((with.total(), with.quantile(0.7), with.quantile(0.71)), (10, Some(0), Some(103)));
        histogram.record(0, 1);
        assert_eq!(Bins::of(&histogram, 10).weight, [7, 3]);
    }

    #[test]
    fn quantiles_and_means() {
        let ten = bins(&[(1, 5), (10, 4), (15, 1)]);
        assert_eq!([0.0, 0.5, 0.51, 0.9, 1.0].map(|q| ten.quantile(q).unwrap()), [1, 1, 10, 10, 15]);
        assert_eq!(ten.mean(), Some(6.0));
        assert_eq!((Bins::default().quantile(0.5), Bins::default().mean()), (None, None));
    }

    #[test]
    fn a_difference_holds_what_was_added() {
        let (before, after) = (bins(&[(3, 2), (9, 1)]), bins(&[(1, 1), (3, 2), (9, 4), (12, 1)]));
        let added = after.since(&before);
        assert_eq!((added.upper, added.weight, added.sum), (vec![1, 9, 12], vec![1, 3, 1], 1 + 27 + 12));
        assert_eq!(after.since(&after), Bins::default());
        assert_eq!(after.since(&Bins::default()), after);
    }

    #[test]
    fn wear_is_that_of_all_blocks() {
        let wear = Wear::of(&BTreeMap::from([(2, 3), (4, 1)]));
        assert_eq!(wear, Wear { blocks: 4, min: 2, mean: 2.5, max: 4 });
        assert_eq!(Wear::of(&BTreeMap::new()), Wear::default());
    }
}
