//! A report as fio's JSON, for fio's own tools: `fio_jsonplus_clat2csv`, fio-plot.
//!
//! Times are simulated. `clat_ns` and `lat_ns` are the latency from submission to completion; `slat_ns`, the host's time to submit, is empty. Bins,
//! `stddev` and percentiles other than p50, p95, p99, p99.9 and p99.99 have the resolution of the report's distribution: a sixteenth. Values that fio
//! measures and Pellucid does not (CPU time, bandwidth samples) are 0.

use super::latency::{Distribution, Latency};
use super::recorder::{Direction, Requests};
use super::{Report, Span};
use pellucid_flash::Nanos;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Options of a job by name, as fio shows them.
pub type JobOptions = BTreeMap<String, String>;

const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// Upper edges of fio's short histograms, the same in nanoseconds, microseconds and milliseconds.
const EDGES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// Returns the report as `fio --output-format=json` prints it, or `json+` with `bins`. `options` has one entry per job, in order.
pub fn to_fio_json(report: &Report, options: &[JobOptions], bins: bool) -> String {
    let whole = Span::new(Nanos::ZERO, Nanos((report.simulated_seconds * 1e9).round() as u64));
    let jobs: Vec<Value> = if report.jobs.is_empty() {
        let all = report.all_requests();
        vec![job("replay", 0, &whole, &all, options.first(), bins)]
    } else {
        let of = |(at, result): (usize, &super::JobResult)| {
            job(&result.name, result.group, &result.time, &result.requests, options.get(at), bins)
        };
        report.jobs.iter().enumerate().map(of).collect()
    };
    let version = format!("pellucid-{}", report.version.pellucid_version);
    let all = json!({ "fio version": version, "global options": {}, "jobs": jobs });
    format!("{all:#}\n")
}

fn job(
    name: &str,
    group: u32,
    time: &Span,
    requests: &Requests,
    options: Option<&JobOptions>,
    bins: bool,
) -> Value {
    let mut job = Map::new();
    let errors: u64 = requests.directions.named().iter().map(|(_, direction)| direction.errors).sum();
    job.insert("jobname".into(), name.into());
    job.insert("groupid".into(), group.into());
    job.insert("error".into(), errors.into());
    job.insert("eta".into(), 0.into());
    job.insert("elapsed".into(), (time.runtime_seconds.ceil() as u64).into());
    job.insert("job options".into(), json!(options.cloned().unwrap_or_default()));
    for (name, direction) in requests.directions.named().into_iter().filter(|(name, _)| *name != "flush") {
        job.insert(name.into(), traffic(direction, time, bins));
    }
    let flushes = &requests.directions.flush;
    job.insert("sync".into(), json!({ "total_ios": flushes.requests, "lat_ns": times(flushes, bins) }));
    job.insert("job_runtime".into(), milliseconds(time).into());
    for key in ["usr_cpu", "sys_cpu"] {
        job.insert(key.into(), 0.0.into());
    }
    for key in ["ctx", "majf", "minf"] {
        job.insert(key.into(), 0.into());
    }
    job.extend(histograms(requests));
    Value::Object(job)
}

fn milliseconds(time: &Span) -> u64 {
    (time.runtime_seconds * 1e3).round() as u64
}

fn traffic(direction: &Direction, time: &Span, bins: bool) -> Value {
    let empty = json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 });
    let bytes_per_second = direction.throughput_bytes_per_second;
    let mut traffic = json!({
        "io_bytes": direction.bytes,
        "io_kbytes": direction.bytes >> 10,
        "bw_bytes": bytes_per_second.round() as u64,
        "bw": (bytes_per_second / 1024.0).round() as u64,
        "iops": direction.iops,
        "runtime": milliseconds(time),
        "total_ios": direction.requests,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": empty,
        "clat_ns": times(direction, bins),
        "lat_ns": times(direction, bins),
    });
    for key in ["bw_min", "bw_max", "bw_agg", "bw_mean", "bw_dev", "bw_samples"] {
        traffic[key] = 0.into();
    }
    for key in ["iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"] {
        traffic[key] = 0.into();
    }
    traffic
}

fn times(direction: &Direction, bins: bool) -> Value {
    let Direction { latency, distribution, .. } = direction;
    let mut times = json!({
        "min": latency.min_ns.unwrap_or(0),
        "max": latency.max_ns.unwrap_or(0),
        "mean": latency.mean_ns.unwrap_or(0.0),
        "stddev": deviation(latency, distribution),
        "N": latency.count,
    });
    if latency.count > 0 {
        let percentiles =
            PERCENTILES.map(|percent| (format!("{percent:.6}"), percentile(latency, distribution, percent)));
        times["percentile"] = json!(BTreeMap::from(percentiles));
        if bins {
            let pairs = distribution.upper_ns.iter().zip(&distribution.count);
            let bins: Map<String, Value> =
                pairs.map(|(upper, count)| (upper.to_string(), (*count).into())).collect();
            times["bins"] = bins.into();
        }
    }
    times
}

/// Returns the report's own percentile if it has one, else the upper edge of the bin.
fn percentile(latency: &Latency, distribution: &Distribution, percent: f64) -> u64 {
    let own = [
        (50.0, latency.p50_ns),
        (95.0, latency.p95_ns),
        (99.0, latency.p99_ns),
        (99.9, latency.p99_9_ns),
        (99.99, latency.p99_99_ns),
    ];
    if let Some(ns) = own.into_iter().find(|(own, _)| *own == percent).and_then(|(_, ns)| ns) {
        return ns;
    }
    let wanted = (percent / 100.0 * latency.count as f64).ceil() as u64;
    let mut below = 0;
    let mut pairs = distribution.upper_ns.iter().zip(&distribution.count);
    let found = pairs.find(|(_, count)| {
        below += **count;
        below >= wanted
    });
    let most = latency.max_ns.unwrap_or(0);
    found.map_or(most, |(upper, _)| (*upper).min(most))
}

fn deviation(latency: &Latency, distribution: &Distribution) -> f64 {
    let Some(mean) = latency.mean_ns else { return 0.0 };
    let pairs = distribution.upper_ns.iter().zip(&distribution.count);
    let squares: f64 = pairs.map(|(upper, count)| (*upper as f64 - mean).powi(2) * *count as f64).sum();
    (squares / latency.count.max(1) as f64).sqrt()
}

/// Returns fio's three short histograms of all latencies, in percent.
fn histograms(requests: &Requests) -> Map<String, Value> {
    let units = [("latency_ns", 1), ("latency_us", 1_000), ("latency_ms", 1_000_000)];
    let directions = requests.directions.named();
    let all: u64 = directions.iter().map(|(_, direction)| direction.latency.count).sum();
    let between = |least: u64, most: u64| {
        let of = |direction: &Direction| -> u64 {
            let pairs = direction.distribution.upper_ns.iter().zip(&direction.distribution.count);
            pairs.filter(|(upper, _)| (least..most).contains(*upper)).map(|(_, count)| count).sum()
        };
        let found: u64 = directions.iter().map(|(_, direction)| of(direction)).sum();
        100.0 * found as f64 / all.max(1) as f64
    };
    let mut found = Map::new();
    for (name, unit) in units {
        let mut shares = Map::new();
        let mut least = if unit == 1 { 0 } else { unit };
        for edge in EDGES {
            shares.insert(edge.to_string(), between(least, edge * unit).into());
            least = edge * unit;
        }
        if unit == 1_000_000 {
            shares.insert("2000".into(), between(least, 2_000 * unit).into());
            shares.insert(">=2000".into(), between(2_000 * unit, u64::MAX).into());
        }
        found.insert(name.into(), shares.into());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::report;

    fn shares(job: &Value) -> f64 {
        let of = |name: &str| {
            job[name].as_object().expect("a histogram").values().filter_map(Value::as_f64).sum::<f64>()
        };
        of("latency_ns") + of("latency_us") + of("latency_ms")
    }

    #[test]
    fn bins_hold_every_request_and_percentiles_rise() {
        let report = report();
        let text = to_fio_json(&report, &[], true);
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let job = &json["jobs"][0];
        for name in ["read", "write"] {
            let times = &job[name]["clat_ns"];
            let bins: u64 = times["bins"].as_object().expect("bins").values().filter_map(Value::as_u64).sum();
            assert_eq!(times["N"].as_u64(), Some(bins), "{name}");
            let percentiles =
                PERCENTILES.map(|percent| times["percentile"][format!("{percent:.6}")].as_u64());
            assert!(percentiles.windows(2).all(|pair| pair[0] <= pair[1]), "{name}: {percentiles:?}");
        }
        assert!((shares(job) - 100.0).abs() < 1e-6, "{}", shares(job));
        let short: Value = serde_json::from_str(&to_fio_json(&report, &[], false)).expect("JSON");
        assert!(short["jobs"][0]["read"]["clat_ns"].get("bins").is_none());
    }
}
