//! P3 and P4: the cache server alone, over the share of sets.

use super::super::bench::Bench;
use super::super::{Check, Figure, Limit, Outcome, ReproduceError, vary};
use super::{Flash, SERVER, UNKNOWN_LUNS, beside, name, name_of, of_server, over};
use pellucid_kv::EngineKind;
use pellucid_report::plot::{Axis, Plot, Unit};

/// Percentages of sets, from all to none.
const SHARES: [u32; 4] = [100, 70, 30, 0];
/// Requests per item of flash, before the measurement and in it.
const SETTLE: f64 = 0.6;
const MEASURE: f64 = 0.6;

/// Measurements behind Figs. 6 and 7: a row for each engine.
#[derive(Debug)]
pub(crate) struct ServerStudy {
    throughput: Vec<Vec<f64>>,
    latency_ns: Vec<Vec<f64>>,
}

impl ServerStudy {
    pub fn run(bench: &Bench) -> Result<ServerStudy, ReproduceError> {
        ServerStudy::on(bench, of_server(bench), &SHARES)
    }

    /// The study with sets only, on another flash.
    fn varied(bench: &Bench, flash: Flash) -> Result<ServerStudy, ReproduceError> {
        ServerStudy::on(bench, flash, &SHARES[..1])
    }

    fn on(bench: &Bench, flash: Flash, shares: &[u32]) -> Result<ServerStudy, ReproduceError> {
        let of = |engine| shares.iter().map(move |&share| (engine, share));
        let points: Vec<(EngineKind, u32)> = EngineKind::ALL.into_iter().flat_map(of).collect();
        let absent = (f64::NAN, f64::NAN);
        let measured =
            bench.map_or(&points, absent, |&(engine, share)| serve(bench, engine, share, flash))?;
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
            let shares = SHARES.map(|percent| f64::from(percent) / 100.0);
            plot.line(name(engine), shares.into_iter().zip(row.iter().copied()).collect())
        })
    }
}

/// Requests per second and their mean latency.
fn serve(bench: &Bench, engine: EngineKind, share: u32, flash: Flash) -> Result<(f64, f64), ReproduceError> {
    let report = SERVER.run(bench, engine, flash, &words(bench, flash, share))?;
    let rate = report.operations_per_second.unwrap_or(f64::NAN);
    Ok((rate, report.latency.mean_ns.unwrap_or(f64::NAN)))
}

/// Keys of the clients, with this percentage of sets.
pub(super) fn words(bench: &Bench, flash: Flash, share: u32) -> String {
    let [settle, measure] = [SETTLE, MEASURE].map(|each| (each * flash.items(bench)) as u64);
    let keys = flash.loaded(bench);
    format!("nkeys={keys},set_share={share}%,warm_up={settle},operations={measure}")
}

pub(crate) fn ratios(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.server()?;
    let mut checks = sets_only(study);
    let of = |&flash: &Flash| Ok(sets_only(&ServerStudy::varied(bench, flash)?));
    let flash = of_server(bench);
    vary(bench, &mut checks, (UNKNOWN_LUNS, name_of(flash)), &beside(flash), of)?;
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

/// Check of the gain in sets of one engine over another.
fn gain(upper: EngineKind, lower: EngineKind, published: f64, measured: f64) -> Check {
    let what = format!("throughput, sets only, {} over {}", name(upper), name(lower));
    Check::points(what, published, measured, 0.08).even_at(0.0)
}

/// The checks of P3 on sets alone.
fn sets_only(study: &ServerStudy) -> Vec<Check> {
    use EngineKind::{Direct, Function, Original, Policy, Raw};
    let at = |engine| ServerStudy::at(&study.throughput, engine, 0);
    let gain = |upper, lower, published| gain(upper, lower, published, over(at(upper), at(lower)));
    let ratio = |lower, upper, limit| {
        let what = format!("throughput, sets only, {} / {}", name(lower), name(upper));
        Check::bound(what, Unit::Plain, at(lower) / at(upper), limit).even_at(1.0)
    };
    vec![
        gain(Raw, Original, 0.276),
        gain(Raw, Function, 0.052),
        gain(Raw, Policy, 0.155),
        gain(Policy, Original, 0.102),
        ratio(Function, Raw, Limit::AtMost(1.0)),
        ratio(Policy, Function, Limit::AtMost(1.0)),
        ratio(Original, Policy, Limit::AtMost(1.0)),
        // They are expected to be equal, so no order can be reversed.
        Check { even: None, ..ratio(Raw, Direct, Limit::Between(0.98, 1.01)) },
    ]
}

pub(crate) fn latency(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.server()?;
    let mut checks = latencies(study);
    let of = |&flash: &Flash| Ok(latencies(&ServerStudy::varied(bench, flash)?));
    let flash = of_server(bench);
    vary(bench, &mut checks, (UNKNOWN_LUNS, name_of(flash)), &beside(flash), of)?;
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
        Check::bound(what, Unit::Plain, at(lower) / at(upper), Limit::AtMost(0.999)).even_at(1.0)
    };
    vec![below(Raw, Function), below(Function, Policy), below(Policy, Original)]
}

#[cfg(test)]
mod tests {
    use super::super::super::Verdict;
    use super::super::MEMBLAZE;
    use super::*;
    use EngineKind::{Original, Policy, Raw};

    /// Requests before a measurement and in it: a quarter of P3's, and enough that GC runs everywhere.
    const WARM_UP: u32 = 300_000;
    const MEASURED: u32 = 100_000;

    /// Sets per second of an engine on the whole of memblaze, with overrides.
    fn sets_per_second(engine: EngineKind, own: &[&str]) -> f64 {
        let bench = Bench::of_test(1, own.iter().map(|set| (*set).to_string()).collect());
        let keys = MEMBLAZE.loaded(&bench);
        let words = format!("nkeys={keys},set_share=100%,warm_up={WARM_UP},operations={MEASURED}");
        let report = SERVER.run(&bench, engine, MEMBLAZE, &words).unwrap();
        report.operations_per_second.expect("a rate")
    }

    /// P3 on the paper's drive, 12 channels of 16 LUNs: the gains of Raw and the order of the engines hold; a kernel path as cheap as the library's,
    /// and a cache that copies nothing, miss.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn p3_holds_on_memblaze_and_wrong_models_miss() {
        let rates = [Raw, Policy, Original].map(|engine| sets_per_second(engine, &[]));
        let [raw, policy, original] = rates;
        let over_original =
            |raw: f64, original: f64| gain(Raw, Original, 0.276, over(raw, original)).verdict();
        for check in [
            gain(Raw, Original, 0.276, over(raw, original)),
            gain(Raw, Policy, 0.155, over(raw, policy)),
            gain(Policy, Original, 0.102, over(policy, original)),
        ] {
            assert_eq!(check.verdict(), Verdict::Holds, "{check:?}");
        }
        assert!(raw > policy && policy > original, "{rates:?}");
        let cheap = ["kv.cpu.command=2us", "kv.cpu.completion=1us", "kv.cpu.kib=100ns"];
        assert_eq!(over_original(raw, sets_per_second(Original, &cheap)), Verdict::Misses, "a cheap kernel");
        let [raw, original] = [Raw, Original].map(|engine| sets_per_second(engine, &["kv.keep=nothing"]));
        assert_eq!(over_original(raw, original), Verdict::Misses, "a cache that copies nothing");
    }
}
