//! P3 and P4: the cache server alone, over the share of sets.

use super::super::bench::Bench;
use super::super::{Check, Figure, Limit, Outcome, ReproduceError, vary};
use super::tables::{DEVIATION, SETTERS};
use super::{
    ITEM_BYTES, LUNS, Luns, STORED_BYTES, Size, UNKNOWN_LUNS, VARIED_LUNS, clients, experiment, name, over,
    workload,
};
use pellucid_kv::EngineKind;
use pellucid_lab::kv::OnMiss;
use pellucid_report::plot::{Axis, Plot, Unit};
use pellucid_workload::kv::laws::Popularity;

/// Shares of sets, from all to none.
const SHARES: [f64; 4] = [1.0, 0.7, 0.3, 0.0];
/// Preloaded of the flash (25 of 30 GB), and requests for each item of flash before the measurement and in it.
const LOADED: f64 = 25.0 / 30.0;
const SETTLE: f64 = 0.6;
const MEASURE: f64 = 0.6;

/// The measurements behind Figs. 6 and 7: a row for each engine.
#[derive(Debug)]
pub(crate) struct ServerStudy {
    throughput: Vec<Vec<f64>>,
    latency_ns: Vec<Vec<f64>>,
}

impl ServerStudy {
    pub fn run(bench: &Bench) -> Result<ServerStudy, ReproduceError> {
        ServerStudy::on(bench, LUNS, &SHARES)
    }

    /// Sets only, on other LUNs.
    fn varied(bench: &Bench, luns: Luns) -> Result<ServerStudy, ReproduceError> {
        ServerStudy::on(bench, luns, &SHARES[..1])
    }

    fn on(bench: &Bench, luns: Luns, shares: &[f64]) -> Result<ServerStudy, ReproduceError> {
        let of = |engine| shares.iter().map(move |&share| (engine, share));
        let points: Vec<(EngineKind, f64)> = EngineKind::ALL.into_iter().flat_map(of).collect();
        let measured = bench.map(&points, |&(engine, share)| serve(bench, engine, share, luns))?;
        let rows = |of: fn(&(f64, f64)) -> f64| {
            measured.chunks(shares.len()).map(|row| row.iter().map(of).collect()).collect()
        };
        Ok(ServerStudy { throughput: rows(|point| point.0), latency_ns: rows(|point| point.1) })
    }

    fn at(rows: &[Vec<f64>], engine: EngineKind, share: usize) -> f64 {
        rows[EngineKind::ALL.iter().position(|&other| other == engine).expect("all are there")][share]
    }

    fn plot(title: &str, axis: Axis, rows: &[Vec<f64>]) -> Plot {
        let plot = Plot::new(title)
            .x_axis(Axis::linear("sets / requests", Unit::Percent).from(0.0).to(1.0))
            .y_axis(axis);
        EngineKind::ALL.into_iter().zip(rows).fold(plot, |plot, (engine, row)| {
            plot.line(name(engine), SHARES.into_iter().zip(row.iter().copied()).collect())
        })
    }
}

/// Requests a second and their mean latency.
fn serve(bench: &Bench, engine: EngineKind, share: f64, luns: Luns) -> Result<(f64, f64), ReproduceError> {
    let items = luns.bytes(bench) / ITEM_BYTES;
    let keys = (luns.bytes(bench) / STORED_BYTES * LOADED) as u64;
    let clients = clients(bench, SETTERS, OnMiss::Nothing);
    let mut cache = experiment(bench, engine, Size::Available, luns, clients)?;
    let mut requests = workload(bench, keys, Popularity::Normal(DEVIATION), share).loading(0..keys);
    cache.run(&mut requests, keys + (SETTLE * items) as u64)?;
    let report = cache.run(&mut requests, (MEASURE * items) as u64)?;
    let latency = report.summary.operations.request.mean_ns.unwrap_or(f64::NAN);
    Ok((report.summary.requests_per_second, latency))
}

/// P3.
pub(crate) fn ratios(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.server()?;
    let mut checks = sets_only(study);
    let of = |&luns: &Luns| Ok(sets_only(&ServerStudy::varied(bench, luns)?));
    vary(bench, &mut checks, UNKNOWN_LUNS, &VARIED_LUNS, of)?;
    let at = |engine, share| ServerStudy::at(&study.throughput, engine, share);
    use EngineKind::{Original, Raw};
    let last = SHARES.len() - 1;
    let shrinks = (at(Raw, last) / at(Original, last)) / (at(Raw, 0) / at(Original, 0));
    let what = "throughput, Raw / Original, gets only over sets only";
    checks.push(Check::bound(what, Unit::Plain, shrinks, Limit::AtMost(1.0)));
    let axis = Axis::linear("requests / s", Unit::Count).from(0.0);
    let original = at(Original, 0);
    let published = [1.102, 1.276, 1.276 / 1.052].map(|factor| (1.0, original * factor)).to_vec();
    let plot = ServerStudy::plot("Throughput of the cache server", axis, &study.throughput)
        .points("published for sets only, from Original here", published);
    let caption =
        "Fig. 6: requests a second over the share of sets. The paper prints ratios for sets only.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

/// The checks of P3 on sets alone.
fn sets_only(study: &ServerStudy) -> Vec<Check> {
    use EngineKind::{Direct, Function, Original, Policy, Raw};
    let at = |engine| ServerStudy::at(&study.throughput, engine, 0);
    let gain = |upper, lower, published| {
        let what = format!("throughput, sets only, {} over {}", name(upper), name(lower));
        Check::points(what, published, over(at(upper), at(lower)), 0.08)
    };
    let ratio = |lower, upper, limit| {
        let what = format!("throughput, sets only, {} / {}", name(lower), name(upper));
        Check::bound(what, Unit::Plain, at(lower) / at(upper), limit)
    };
    vec![
        gain(Raw, Original, 0.276),
        gain(Raw, Function, 0.052),
        gain(Raw, Policy, 0.155),
        gain(Policy, Original, 0.102),
        ratio(Function, Raw, Limit::AtMost(1.0)),
        ratio(Policy, Function, Limit::AtMost(1.0)),
        ratio(Original, Policy, Limit::AtMost(1.0)),
        ratio(Raw, Direct, Limit::Between(0.98, 1.01)),
    ]
}

/// P4.
pub(crate) fn latency(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.server()?;
    let mut checks = latencies(study);
    let of = |&luns: &Luns| Ok(latencies(&ServerStudy::varied(bench, luns)?));
    vary(bench, &mut checks, UNKNOWN_LUNS, &VARIED_LUNS, of)?;
    let axis = Axis::linear("mean latency", Unit::Nanos).from(0.0);
    let plot = ServerStudy::plot("Latency of the cache server", axis, &study.latency_ns);
    let caption = "Fig. 7: mean latency over the share of sets.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

fn latencies(study: &ServerStudy) -> Vec<Check> {
    use EngineKind::{Function, Original, Policy, Raw};
    let at = |engine| ServerStudy::at(&study.latency_ns, engine, 0);
    let below = |lower, upper| {
        let what = format!("mean latency, sets only, {} / {}", name(lower), name(upper));
        Check::bound(what, Unit::Plain, at(lower) / at(upper), Limit::AtMost(0.999))
    };
    vec![below(Raw, Function), below(Function, Policy), below(Policy, Original)]
}
