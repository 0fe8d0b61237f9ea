//! Figures as Prometheus text (exposition format 0.0.4): base units, counters end in `_total`, histograms have `le` bins.
//!
//! The histograms' bounds are powers of two of a nanosecond, less one. The drive's own bins nest in them, so no count is misplaced.

use crate::figures::{Bins, DriveFigures, Figures, LayerFigures, LayerValue, ServingFigures, WatchedFigures};
use pellucid_device::{OperationKind, Part};
use pellucid_flash::{Figure, FigureKind};
use std::fmt::Write;

/// Bounds of the histograms: from 2^8 ns (255 ns) to 2^34 ns (17 s).
const BOUNDS: std::ops::RangeInclusive<u32> = 8..=34;

/// Bounds of the histogram of wrong bits in a codeword.
const BITS: [u64; 14] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96];

/// Builds the text: all samples of a metric are together, below its HELP and TYPE.
struct Text(String);

/// A label's name and value.
type Label<'a> = (&'a str, &'a str);

impl Text {
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{}\"", if i == 0 { '{' } else { ',' }, escape(text));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }

    /// A metric with one sample per drive.
    fn each<V: std::fmt::Display>(
        &mut self,
        figures: &Figures,
        (name, kind, help): (&str, &str, &str),
        value: impl Fn(&DriveFigures) -> V,
    ) {
        self.metric(name, kind, help);
        for drive in &figures.drives {
            self.sample(name, &[("drive", &drive.name)], value(drive));
        }
    }

    /// Samples of a histogram of nanoseconds, in seconds.
    fn bins(&mut self, name: &str, labels: &[Label<'_>], bins: &Bins) {
        let bounds = BOUNDS.map(|power| (1u64 << power) - 1);
        self.histogram(name, labels, bins, bounds, seconds);
    }

    /// Samples of a histogram; `shown` converts a value to the metric's unit.
    fn histogram(
        &mut self,
        name: &str,
        labels: &[Label<'_>],
        bins: &Bins,
        bounds: impl IntoIterator<Item = u64>,
        shown: impl Fn(u64) -> f64,
    ) {
        let (bucket, mut seen, mut next) = (format!("{name}_bucket"), 0, 0);
        for bound in bounds {
            while next < bins.upper.len() && bins.upper[next] <= bound {
                seen += bins.weight[next];
                next += 1;
            }
            let le = shown(bound).to_string();
            self.sample(&bucket, &[labels, &[("le", &le)]].concat(), seen);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), bins.total());
        self.sample(&format!("{name}_sum"), labels, shown(bins.sum));
        self.sample(&format!("{name}_count"), labels, bins.total());
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Escapes a label's value.
fn escape(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// The figures as text.
pub fn metrics(figures: &Figures) -> String {
    let mut text = Text(String::with_capacity(1 << 17));
    text.metric("pellucid_build_info", "gauge", "The version of Pellucid; always 1.");
    text.sample("pellucid_build_info", &[("version", &figures.pellucid_version)], 1);
    let up = "pellucid_uptime_seconds";
    text.metric(up, "gauge", "Real time since the process began its work or service.");
    text.sample(up, &[], figures.wall_seconds);
    if let Some(work) = &figures.work {
        let name = "pellucid_run_requests_total";
        text.metric(name, "counter", "Requests of the run that have completed.");
        text.sample(name, &[], work.requests);
    }
    drives(&mut text, figures);
    by_cause(&mut text, figures);
    media(&mut text, figures);
    busy(&mut text, figures);
    commands(&mut text, figures);
    operations(&mut text, figures);
    activity(&mut text, figures);
    if let Some(serving) = &figures.serving {
        server(&mut text, serving);
        layers(&mut text, &serving.layers);
    }
    text.0
}

fn drives(text: &mut Text, figures: &Figures) {
    let name = "pellucid_simulated_seconds_total";
    text.each(figures, (name, "counter", "Simulated time since the drive was switched on."), |d| {
        seconds(d.simulated_ns)
    });
    let name = "pellucid_capacity_bytes";
    text.each(figures, (name, "gauge", "Bytes that the host can address."), |d| d.capacity_bytes);
    let name = "pellucid_outstanding_commands";
    text.each(figures, (name, "gauge", "Commands in the drive now."), |d| d.outstanding_commands);
    let name = "pellucid_host_read_bytes_total";
    text.each(figures, (name, "counter", "Bytes that hosts read with success."), |d| d.host_read_bytes);
    let name = "pellucid_host_written_bytes_total";
    text.each(figures, (name, "counter", "Bytes that hosts wrote with success."), |d| d.host_written_bytes);
    let name = "pellucid_read_only";
    text.each(figures, (name, "gauge", "1 when the drive is out of good blocks."), |d| u8::from(d.read_only));
    let name = "pellucid_power_cuts_total";
    text.each(figures, (name, "counter", "Power cuts of the drive."), |d| d.power_cuts);
    let name = "pellucid_buffer_read_hits_total";
    text.each(figures, (name, "counter", "Mapping units of reads found in the data buffer."), |d| {
        d.buffer_read_hits
    });
    let name = "pellucid_buffer_write_hits_total";
    text.each(figures, (name, "counter", "Mapping units of writes found in the data buffer."), |d| {
        d.buffer_write_hits
    });
}

fn by_cause(text: &mut Text, figures: &Figures) {
    type Counts = fn(&DriveFigures) -> &std::collections::BTreeMap<String, u64>;
    let families: [(&str, &str, Counts); 5] = [
        (
            "pellucid_programmed_bytes_total",
            "Bytes programmed to the media by `cause`; over pellucid_host_written_bytes_total they are write amplification.",
            |d| &d.programmed_bytes,
        ),
        ("pellucid_flash_programs_total", "Program operations by `cause`.", |d| &d.programs),
        ("pellucid_flash_reads_total", "Read operations by `cause`, without retries.", |d| &d.flash_reads),
        ("pellucid_erased_blocks_total", "Blocks erased by `cause`.", |d| &d.erases),
        ("pellucid_victim_blocks_total", "Victim blocks chosen, by `cause`.", |d| &d.victims),
    ];
    for (name, help, counts) in families {
        text.metric(name, "counter", help);
        for drive in &figures.drives {
            for (cause, count) in counts(drive) {
                text.sample(name, &[("drive", &drive.name), ("cause", cause)], count);
            }
        }
    }
    let name = "pellucid_gc_pause_seconds";
    text.metric(name, "histogram", "Time from the choice of a GC victim until it was erased or retired.");
    for drive in &figures.drives {
        text.bins(name, &[("drive", &drive.name)], &drive.gc_pauses);
    }
    let name = "pellucid_map_lookups_total";
    text.each(
        figures,
        (name, "counter", "Map entries looked up in the cached mapping table; 0 where the map is in memory."),
        |d| d.map_lookups,
    );
    let name = "pellucid_map_hits_total";
    text.each(figures, (name, "counter", "Look-ups that found their entry cached."), |d| d.map_hits);
    let families: [(&str, &str, Counts); 2] = [
        (
            "pellucid_translation_page_reads_total",
            "Translation pages read, by `reason`: lookup, eviction, gc, flush.",
            |d| &d.translation_page_reads,
        ),
        (
            "pellucid_translation_page_writes_total",
            "Translation pages programmed, by `reason`: lookup, eviction, gc, flush.",
            |d| &d.translation_page_writes,
        ),
    ];
    for (name, help, counts) in families {
        text.metric(name, "counter", help);
        for drive in &figures.drives {
            for (reason, count) in counts(drive) {
                text.sample(name, &[("drive", &drive.name), ("reason", reason)], count);
            }
        }
    }
    let name = "pellucid_copied_units_total";
    let help = "Valid mapping units of data copied by GC, wear levelling, retirement, refresh and folding.";
    text.each(figures, (name, "counter", help), |d| d.copied_units);
    let name = "pellucid_copybacks_total";
    text.each(figures, (name, "counter", "Units copied inside a die, without crossing the channel."), |d| {
        d.copybacks
    });
}

fn media(text: &mut Text, figures: &Figures) {
    type Count = fn(&DriveFigures) -> u64;
    let counters: [(&str, &str, Count); 8] = [
        ("pellucid_bit_errors_corrected_total", "Bit errors that error correction corrected.", |d| {
            d.corrected_bits
        }),
        ("pellucid_corrected_reads_total", "Reads that succeeded after a retry.", |d| d.corrected_reads),
        ("pellucid_read_retries_total", "Read attempts after the first.", |d| d.read_retries),
        ("pellucid_uncorrectable_reads_total", "Reads that failed after every retry.", |d| {
            d.uncorrectable_reads
        }),
        ("pellucid_program_failures_total", "Programs that failed.", |d| d.program_failures),
        ("pellucid_erase_failures_total", "Erases that failed.", |d| d.erase_failures),
        ("pellucid_suspensions_total", "Programs and erases suspended for a read.", |d| d.suspensions),
        ("pellucid_grown_bad_blocks_total", "Blocks retired.", |d| d.grown_bad_blocks),
    ];
    for (name, help, count) in counters {
        text.each(figures, (name, "counter", help), count);
    }
    let name = "pellucid_chunk_wrong_bits";
    text.metric(name, "histogram", "Codewords that were read, retries included, by the wrong bits in them; a lost one counts as one bit more than is corrected. Only with the bit-error model.");
    for drive in figures.drives.iter().filter(|drive| !drive.chunks_by_wrong_bits.is_empty()) {
        let labels = [("drive", drive.name.as_str())];
        text.histogram(name, &labels, &drive.wrong_bits(), BITS, |bits| bits as f64);
    }
    let name = "pellucid_blocks";
    text.each(figures, (name, "gauge", "Blocks of the media, good and bad."), |d| d.blocks);
    let name = "pellucid_free_blocks";
    text.each(figures, (name, "gauge", "Erased blocks that are free."), |d| d.free_blocks);
    type Of = fn(&WatchedFigures) -> f64;
    let wear: [(&str, &str, Of); 3] = [
        ("pellucid_block_erases_min", "Watched: smallest erase count of a good block.", |w| {
            w.wear.min.into()
        }),
        ("pellucid_block_erases_mean", "Watched: mean erase count of good blocks.", |w| w.wear.mean),
        ("pellucid_block_erases_max", "Watched: largest erase count of a good block.", |w| w.wear.max.into()),
    ];
    for (name, help, of) in wear {
        text.metric(name, "gauge", help);
        for (drive, watched) in watched(figures) {
            text.sample(name, &[("drive", drive)], of(watched));
        }
    }
}

fn watched(figures: &Figures) -> impl Iterator<Item = (&str, &WatchedFigures)> {
    figures.drives.iter().filter_map(|d| Some((d.name.as_str(), d.watched.as_ref()?)))
}

fn busy(text: &mut Text, figures: &Figures) {
    let name = "pellucid_channel_busy_seconds_total";
    text.metric(name, "counter", "Simulated time that a `channel` carried a transfer.");
    for drive in &figures.drives {
        for (channel, &ns) in drive.channel_busy_ns.iter().enumerate() {
            let channel = channel.to_string();
            text.sample(name, &[("drive", &drive.name), ("channel", &channel)], seconds(ns));
        }
    }
    let name = "pellucid_way_busy_seconds_total";
    text.metric(name, "counter", "Simulated time that a `way` of a `channel` held an operation, from its first command on the channel until it left the die.");
    for drive in &figures.drives {
        for (way, &ns) in drive.way_busy_ns.iter().enumerate() {
            let (channel, way) = place(drive, way);
            let labels = [("drive", drive.name.as_str()), ("channel", &channel), ("way", &way)];
            text.sample(name, &labels, seconds(ns));
        }
    }
    let name = "pellucid_link_busy_seconds_total";
    text.metric(name, "counter", "Simulated time that the host link was busy, by `direction`.");
    for drive in &figures.drives {
        for (direction, ns) in ["to_drive", "to_host"].into_iter().zip(drive.link_busy_ns) {
            text.sample(name, &[("drive", &drive.name), ("direction", direction)], seconds(ns));
        }
    }
    let name = "pellucid_firmware_busy_seconds_total";
    text.each(
        figures,
        (name, "counter", "Simulated time that the firmware was busy; of two processors, their mean."),
        |d| seconds(d.firmware_busy_ns),
    );
    let name = "pellucid_firmware_module_seconds_total";
    text.metric(name, "counter", "Simulated time that the firmware's processors worked for a `module`.");
    for drive in &figures.drives {
        for (module, &ns) in &drive.firmware_module_ns {
            text.sample(name, &[("drive", &drive.name), ("module", module)], seconds(ns));
        }
    }
}

fn place(drive: &DriveFigures, way: usize) -> (String, String) {
    let ways = drive.ways_per_channel().max(1);
    ((way / ways).to_string(), (way % ways).to_string())
}

fn commands(text: &mut Text, figures: &Figures) {
    let name = "pellucid_command_latency_seconds";
    text.metric(name, "histogram", "Watched: simulated time from arrival to completion, failed commands included, by `command`: read, write, trim, flush.");
    for (drive, watched) in watched(figures) {
        for (command, of) in &watched.commands {
            text.bins(name, &[("drive", drive), ("command", command)], &of.latency);
        }
    }
    let name = "pellucid_command_stage_seconds";
    text.metric(name, "histogram", "Watched: simulated time of reads and writes in each phase (`stage`), by `command`; the phases sum to the latency.");
    for (drive, watched) in watched(figures) {
        for (command, of) in &watched.commands {
            for (stage, bins) in &of.stages {
                text.bins(name, &[("drive", drive), ("command", command), ("stage", stage)], bins);
            }
        }
    }
    let name = "pellucid_command_errors_total";
    text.metric(name, "counter", "Watched: commands that failed, by `command`.");
    for (drive, watched) in watched(figures) {
        for (command, of) in &watched.commands {
            text.sample(name, &[("drive", drive), ("command", command)], of.failed);
        }
    }
}

fn operations(text: &mut Text, figures: &Figures) {
    let name = "pellucid_operation_seconds";
    text.metric(name, "histogram", "Watched: simulated time of an `operation` by `part`: wait (way, firmware, channel), bus (with decoding), array, retry.");
    for (drive, watched) in watched(figures) {
        for (operation, parts) in &watched.operations {
            for (part, bins) in parts {
                text.bins(name, &[("drive", drive), ("operation", operation), ("part", part)], bins);
            }
        }
    }
    let name = "pellucid_way_operations_total";
    text.metric(
        name,
        "counter",
        "Watched: flash operations that ended on a `way` of a `channel`, by `operation`.",
    );
    ways(figures, |labels, way, kind| text.sample(name, &labels, way.operations[kind]));
    let name = "pellucid_way_operation_latency_seconds";
    text.metric(
        name,
        "summary",
        "Watched: simulated time of the flash operations of a `way`, by `operation` and `quantile`; at most 1/8 too large.",
    );
    ways(figures, |labels, way, kind| {
        let quantiles = [("0.5", way.p50_ns), ("0.99", way.p99_ns), ("0.999", way.p999_ns)];
        for (quantile, values) in quantiles {
            if let Some(ns) = values[kind] {
                text.sample(name, &[&labels[..], &[("quantile", quantile)]].concat(), seconds(ns));
            }
        }
        let whole = way.time_ns[kind].iter().sum();
        text.sample(&format!("{name}_sum"), &labels, seconds(whole));
        text.sample(&format!("{name}_count"), &labels, way.operations[kind]);
    });
    let name = "pellucid_way_operation_seconds_total";
    text.metric(
        name,
        "counter",
        "Watched: simulated time of the flash operations of a `way`, by `operation` and `part`.",
    );
    ways(figures, |labels, way, kind| {
        for part in Part::ALL {
            let labels = [&labels[..], &[("part", part.name())]].concat();
            text.sample(name, &labels, seconds(way.time_ns[kind][part as usize]));
        }
    });
}

/// Calls `each` for every way and every kind of operation that the drive has performed.
fn ways(figures: &Figures, mut each: impl FnMut([Label<'_>; 4], &crate::figures::WayFigures, usize)) {
    for drive in &figures.drives {
        let Some(watched) = &drive.watched else { continue };
        for kind in OperationKind::ALL {
            let at = kind as usize;
            if watched.ways.iter().all(|way| way.operations[at] == 0) {
                continue;
            }
            for (number, way) in watched.ways.iter().enumerate() {
                let (channel, place) = place(drive, number);
                let labels = [
                    ("drive", drive.name.as_str()),
                    ("channel", &channel),
                    ("way", &place),
                    ("operation", kind.name()),
                ];
                each(labels, way, at);
            }
        }
    }
}

fn activity(text: &mut Text, figures: &Figures) {
    type Times = fn(&WatchedFigures) -> &[u64];
    let families: [(&str, &str, &str, Times); 2] = [
        (
            "pellucid_active_ways_seconds_total",
            "ways",
            "Watched: simulated time by the number of `ways` at work.",
            |w| &w.active_ways_ns,
        ),
        (
            "pellucid_active_channels_seconds_total",
            "channels",
            "Watched: simulated time by the number of `channels` that carry a transfer.",
            |w| &w.active_channels_ns,
        ),
    ];
    for (name, label, help, times) in families {
        text.metric(name, "counter", help);
        for (drive, watched) in watched(figures) {
            for (n, &ns) in times(watched).iter().enumerate() {
                text.sample(name, &[("drive", drive), (label, &n.to_string())], seconds(ns));
            }
        }
    }
    let name = "pellucid_outstanding_commands_seconds_total";
    text.metric(
        name,
        "counter",
        "Watched: simulated time by the number of outstanding `commands`, which is rounded up by at most 1/16.",
    );
    for (drive, watched) in watched(figures) {
        for (commands, &ns) in watched.outstanding.upper.iter().zip(&watched.outstanding.weight) {
            text.sample(name, &[("drive", drive), ("commands", &commands.to_string())], seconds(ns));
        }
    }
}

fn server(text: &mut Text, serving: &ServingFigures) {
    let name = "pellucid_held_bytes";
    text.metric(name, "gauge", "Bytes of data in drives and outputs.");
    text.sample(name, &[], serving.held_bytes);
    type Count = fn(&crate::figures::ProtocolFigures) -> u64;
    let families: [(&str, &str, &str, Count); 5] = [
        ("pellucid_connections", "gauge", "Connections now.", |p| p.connections),
        ("pellucid_connections_total", "counter", "Connections since the start.", |p| p.connected),
        ("pellucid_received_bytes_total", "counter", "Bytes received from hosts.", |p| p.received_bytes),
        ("pellucid_sent_bytes_total", "counter", "Bytes sent to hosts.", |p| p.sent_bytes),
        ("pellucid_answered_commands_total", "counter", "Drive commands that were answered.", |p| p.commands),
    ];
    for (name, kind, help, count) in families {
        text.metric(name, kind, help);
        for protocol in &serving.protocols {
            text.sample(name, &[("protocol", &protocol.name)], count(protocol));
        }
    }
    let name = "pellucid_completion_lateness_seconds";
    text.metric(
        name,
        "histogram",
        "Real time by which completions were handed out late; empty unless paced.",
    );
    text.bins(name, &[], &serving.lateness.bins);
}

/// Writes the counters of served layers on the host's side: one family per counter name, in the order of the layers.
fn layers(text: &mut Text, layers: &[LayerFigures]) {
    if layers.is_empty() {
        return;
    }
    let mut named: Vec<&Figure> = Vec::new();
    for figure in layers.iter().flat_map(|layer| &layer.figures) {
        if !named.iter().any(|other| other.name == figure.name) {
            named.push(figure);
        }
    }
    for first in named {
        let (kind, total) = match first.kind {
            FigureKind::Counter => ("counter", "_total"),
            FigureKind::Gauge => ("gauge", ""),
        };
        let name = format!("pellucid_layer_{}{total}", first.name);
        text.metric(&name, kind, first.help);
        for layer in layers {
            let label = ("layer", layer.name.as_str());
            match layer.values.get(first.name) {
                Some(LayerValue::One(value)) => text.sample(&name, &[label], value),
                Some(LayerValue::ByCause(values)) => {
                    values
                        .iter()
                        .for_each(|(cause, value)| text.sample(&name, &[label, ("cause", cause)], value));
                }
                None => {}
            }
        }
    }
    let name = "pellucid_remote_connected";
    text.metric(name, "gauge", "1 while the remote drive is connected.");
    for layer in layers {
        if let Some(state) = &layer.remote {
            text.sample(name, &[("layer", &layer.name)], u8::from(state == "connected"));
        }
    }
    let name = "pellucid_remote_reconnections_total";
    text.metric(name, "counter", "Reconnections to the remote drive.");
    for layer in layers.iter().filter(|layer| layer.remote.is_some()) {
        text.sample(name, &[("layer", &layer.name)], layer.reconnections);
    }
}

#[cfg(test)]
mod tests;
