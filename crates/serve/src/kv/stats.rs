//! Statistics of a cache in service: `stats` as in memcached, figures for monitors, and the status on the
//! control socket.

use super::{Cache, KvService};
use crate::service::Operated;
use pellucid_flash::{Figure, FigureKind, Histogram};
use pellucid_kv::{ClassStatistics, KvStatistics, OverProvisioning};
use pellucid_monitor::{LayerSide, Protocol, Serving, View};
use pellucid_target::Service;
use pellucid_target::memcached::version;
use pellucid_wire::memcached::ErrorLine;
use serde_json::{Value, json};
use std::fmt::{Display, Write};
use std::time::Duration;

/// Lines of statistics.
struct Lines(String);

impl Lines {
    fn stat(&mut self, name: impl Display, value: impl Display) {
        let _ = write!(self.0, "STAT {name} {value}\r\n");
    }

    fn end(mut self) -> Vec<u8> {
        self.0 += "END\r\n";
        self.0.into_bytes()
    }
}

/// Builds the answer to `stats`; `what` holds the arguments after it.
pub(super) fn answer<C: Cache>(what: &[u8], service: &mut KvService<C>) -> Vec<u8> {
    let mut words = what.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let mut lines = Lines(String::new());
    match words.next() {
        None => service.general(&mut lines),
        Some(b"settings") => service.settings(&mut lines),
        Some(b"items") => service.items(&mut lines),
        Some(b"slabs") => service.slabs(&mut lines),
        Some(b"sizes") => lines.stat("sizes_status", "disabled"),
        Some(b"conns") => {}
        Some(b"reset") => {
            service.reset();
            return b"RESET\r\n".to_vec();
        }
        Some(b"detail") => match words.next() {
            Some(b"on" | b"off") => return b"OK\r\n".to_vec(),
            Some(b"dump") => {}
            _ => return ErrorLine::StatsDetailUsage.line().to_vec(),
        },
        Some(b"cachedump") => match words.count() {
            0 | 1 => return ErrorLine::BadLine.line().to_vec(),
            // Keys are on flash, so no client can list them.
            _ => {}
        },
        Some(_) => return ErrorLine::Error.line().to_vec(),
    }
    lines.end()
}

/// Counters at the last `stats reset`. `stats` shows the difference; monitors are not reset.
#[derive(Clone, Debug, Default)]
pub(super) struct Baseline {
    cache: KvStatistics,
    classes: Vec<ClassStatistics>,
    figures: Vec<Figure>,
    connected: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

impl<C: Cache> KvService<C> {
    /// Sums a counter over the client protocols.
    fn sum(&self, of: fn(&Protocol) -> u64) -> u64 {
        let protocols = self.desk.logbook.protocols.iter().filter(|protocol| protocol.name != crate::CONTROL);
        protocols.map(of).sum()
    }

    /// Carries out `stats reset`.
    fn reset(&mut self) {
        self.asked = super::Asked::default();
        self.baseline = Baseline {
            cache: self.cache().statistics(),
            classes: self.cache().classes(),
            figures: self.cache().figures(),
            connected: self.sum(|protocol| protocol.connected),
            received_bytes: self.sum(|protocol| protocol.received_bytes),
            sent_bytes: self.sum(|protocol| protocol.sent_bytes),
        };
    }

    fn general(&self, lines: &mut Lines) {
        let (asked, cache, since) = (&self.asked, self.cache().statistics(), &self.baseline);
        lines.stat("pid", std::process::id());
        lines.stat("uptime", self.now_ns() / 1_000_000_000);
        lines.stat("time", self.now_s);
        lines.stat("version", version());
        lines.stat("pointer_size", usize::BITS);
        lines.stat("curr_connections", self.sum(|protocol| protocol.connections));
        lines.stat("total_connections", self.sum(|protocol| protocol.connected) - since.connected);
        let numbers = [
            ("cmd_get", asked.gets),
            ("cmd_set", asked.sets),
            ("cmd_flush", asked.flushes),
            ("cmd_touch", asked.touches),
            ("cmd_meta", asked.meta),
            ("get_hits", asked.hits),
            ("get_misses", asked.gets - asked.hits),
            ("get_expired", cache.misses_expired - since.cache.misses_expired),
            ("delete_misses", asked.deletes - asked.delete_hits),
            ("delete_hits", asked.delete_hits),
            ("incr_misses", asked.incrs[0] - asked.incrs[1]),
            ("incr_hits", asked.incrs[1]),
            ("decr_misses", asked.decrs[0] - asked.decrs[1]),
            ("decr_hits", asked.decrs[1]),
            ("cas_misses", asked.cas[0]),
            ("cas_hits", asked.cas[1]),
            ("cas_badval", asked.cas[2]),
            ("touch_hits", asked.touch_hits),
            ("touch_misses", asked.touches - asked.touch_hits),
            ("bytes_read", self.sum(|protocol| protocol.received_bytes) - since.received_bytes),
            ("bytes_written", self.sum(|protocol| protocol.sent_bytes) - since.sent_bytes),
            ("limit_maxbytes", cache.slabs_total * cache.slab_bytes),
            ("threads", 1),
            ("bytes", cache.item_bytes),
            ("curr_items", cache.items),
            ("total_items", cache.sets - since.cache.sets),
            ("evictions", cache.evicted - since.cache.evicted),
            ("reclaimed", cache.reclaimed - since.cache.reclaimed),
        ];
        numbers.iter().for_each(|&(name, value)| lines.stat(name, value));
        for figure in self.figures() {
            let counted = since.figures.iter().find(|counted| {
                figure.kind == FigureKind::Counter
                    && (counted.name, counted.cause) == (figure.name, figure.cause)
            });
            // Counts that only an engine keeps start at zero after a power cut.
            lines.stat(figure.name, figure.value.saturating_sub(counted.map_or(0, |counted| counted.value)));
        }
    }

    fn settings(&self, lines: &mut Lines) {
        let (config, cache) = (&self.config, self.cache().statistics());
        lines.stat("maxbytes", cache.slabs_total * cache.slab_bytes);
        lines.stat("item_size_max", config.item_max_bytes);
        lines.stat("growth_factor", format_args!("{:.2}", config.growth_factor));
        lines.stat("chunk_size", config.slot_min_bytes);
        lines.stat("slab_page_size", cache.slab_bytes);
        lines.stat("num_threads", 1);
        lines.stat("cas_enabled", "yes");
        lines.stat("flush_enabled", "yes");
        lines.stat("evictions", "on");
        lines.stat("binding_protocol", "ascii");
        lines.stat("engine", config.engine.name());
        lines.stat("memory_bytes", config.memory_bytes);
        match config.over_provisioning {
            OverProvisioning::Fixed(share) => lines.stat("over_provisioning", share),
            OverProvisioning::Dynamic => lines.stat("over_provisioning", "dynamic"),
        }
        lines.stat("warm_restart", if config.warm_restart { "yes" } else { "no" });
    }

    /// Counters of a slab class at the last `stats reset`.
    fn class_before(&self, at: usize) -> ClassStatistics {
        self.baseline.classes.get(at).copied().unwrap_or_default()
    }

    fn items(&self, lines: &mut Lines) {
        for (at, class) in self.cache().classes().iter().enumerate().filter(|(_, class)| class.items > 0) {
            let id = at + 1;
            lines.stat(format_args!("items:{id}:number"), class.items);
            lines.stat(format_args!("items:{id}:evicted"), class.evicted - self.class_before(at).evicted);
        }
    }

    fn slabs(&self, lines: &mut Lines) {
        let classes = self.cache().classes();
        let used = || classes.iter().enumerate().filter(|(_, class)| class.slabs > 0 || class.items > 0);
        for (at, class) in used() {
            let (id, slots) = (at + 1, u64::from(class.slots_per_slab));
            lines.stat(format_args!("{id}:chunk_size"), class.slot_bytes);
            lines.stat(format_args!("{id}:chunks_per_page"), slots);
            lines.stat(format_args!("{id}:total_pages"), class.slabs);
            lines.stat(format_args!("{id}:total_chunks"), class.slabs * slots);
            lines.stat(format_args!("{id}:used_chunks"), class.items);
            let before = self.class_before(at);
            lines.stat(format_args!("{id}:get_hits"), class.hits - before.hits);
            lines.stat(format_args!("{id}:cmd_set"), class.sets - before.sets);
        }
        lines.stat("active_slabs", used().count());
        lines.stat("total_malloced", self.cache().statistics().index_bytes + self.config.memory_bytes);
    }

    /// Counters of the cache, and the latency of clients.
    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.cache().figures();
        let [reads, others] = &self.asked.latency;
        let each: [(&'static str, &'static str, &Histogram<4>, f64); 6] = [
            ("get_p50_ns", "Half of the gets were answered within this wall time.", reads, 0.5),
            ("get_p99_ns", "99 of 100 gets were answered within this wall time.", reads, 0.99),
            ("get_p999_ns", "999 of 1000 gets were answered within this wall time.", reads, 0.999),
            ("set_p50_ns", "Half of the other requests were answered within this wall time.", others, 0.5),
            ("set_p99_ns", "99 of 100 other requests were answered within this wall time.", others, 0.99),
            ("set_p999_ns", "999 of 1000 other requests were answered within this wall time.", others, 0.999),
        ];
        let gauge = |(name, help, latency, share): (&'static str, &'static str, &Histogram<4>, f64)| {
            Figure::nanos(name, help, latency.quantile(share).unwrap_or(0)).gauge()
        };
        figures.extend(each.map(gauge));
        figures
    }

    /// Builds the status for the control socket.
    pub(super) fn status(&self) -> Value {
        let figures = self.figures().into_iter().map(|figure| (figure.name.to_owned(), figure.value.into()));
        json!({
            "up_ns": self.now_ns(),
            "connections": self.desk.logbook.connections,
            "outstanding": self.outstanding(),
            "bytes_held": self.bytes_held(),
            "cache": { "name": self.name, "engine": self.config.engine.name() },
            "figures": figures.collect::<serde_json::Map<String, Value>>(),
        })
    }
}

/// Complete view for monitors.
#[cold]
pub(super) fn view<C: Cache>(service: &KvService<C>) -> View {
    let side = LayerSide { name: service.name.clone(), remote: None, figures: service.figures() };
    let device = service.cache().device();
    let map =
        device.filter(|_| service.desk.wants_maps()).map(|device| (service.name.clone(), device.block_map()));
    View {
        maps: map.into_iter().collect(),
        wall: Duration::from_nanos(service.now_ns()),
        drives: device.map(|device| (service.name.clone(), device.snapshot())).into_iter().collect(),
        serving: Some(Serving {
            protocols: service.desk.logbook.protocols.clone(),
            layers: vec![side],
            luns: Vec::new(),
            keeps: Vec::new(),
            held_bytes: service.bytes_held() as u64,
            lateness_ns: service.engine().lateness_ns().clone(),
        }),
        work: None,
    }
}
