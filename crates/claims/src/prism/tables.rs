//! P1 and P2: hit ratio and throughput over the cache size, in front of a database. P5: the cost of garbage collection.

use super::super::bench::Bench;
use super::super::{Check, Figure, Limit, Outcome, ReproduceError, vary};
use super::{COLLECTION, DATABASE, Flash, SMALL, UNKNOWN_LUNS, beside, name, name_of, over};
use pellucid_kv::EngineKind;
use pellucid_report::ApplicationReport;
use pellucid_report::plot::{Axis, Plot, Unit};

/// Cache sizes, as shares of the data.
const SIZES: [f64; 4] = [0.06, 0.08, 0.10, 0.12];
/// Microseconds of a query: the minimum, and the mean beyond it.
const QUERY_US: f64 = 100.0;
/// Share of the items that fit into the flash that is set before. The most popular keys come near the end, so that the cache has little to learn.
const FILLED: f64 = 0.9;
/// Requests per item that fits into the flash, before the measurement and in it.
const SETTLE: f64 = 1.6;
const MEASURE: f64 = 0.9;

/// One cache.
#[derive(Debug)]
struct Point {
    engine: EngineKind,
    size: f64,
    /// Factor of the query time.
    slower: f64,
}

/// Measurements behind Figs. 4 and 5.
#[derive(Debug)]
pub(crate) struct SizeStudy {
    hits: Vec<Vec<f64>>,
    throughput: Vec<Vec<f64>>,
    /// Raw over Original at 10 %, with half and twice the query time.
    databases: [f64; 2],
}

impl SizeStudy {
    pub fn run(bench: &Bench) -> Result<SizeStudy, ReproduceError> {
        let all = EngineKind::ALL.into_iter();
        let mut points: Vec<Point> =
            all.flat_map(|engine| SIZES.map(|size| Point { engine, size, slower: 1.0 })).collect();
        for slower in [0.5, 2.0] {
            let of = |engine| Point { engine, size: 0.10, slower };
            points.extend([EngineKind::Raw, EngineKind::Original].map(of));
        }
        let measured = bench.map_or(&points, (f64::NAN, f64::NAN), |point| measured(bench, point))?;
        let (figures, databases) = measured.split_at(EngineKind::ALL.len() * SIZES.len());
        let rows = |of: fn(&(f64, f64)) -> f64| {
            figures.chunks(SIZES.len()).map(|row| row.iter().map(of).collect()).collect()
        };
        Ok(SizeStudy {
            hits: rows(|point| point.0),
            throughput: rows(|point| point.1),
            databases: [0, 2].map(|at| over(databases[at].1, databases[at + 1].1)),
        })
    }

    fn row(rows: &[Vec<f64>], engine: EngineKind) -> &[f64] {
        &rows[EngineKind::ALL.iter().position(|&other| other == engine).expect("all are there")]
    }

    fn figure(title: &str, axis: Axis, rows: &[Vec<f64>]) -> Plot {
        let plot = Plot::new(title)
            .x_axis(Axis::linear("cache size / data", Unit::Percent).from(0.05).to(0.13))
            .y_axis(axis);
        EngineKind::ALL.into_iter().fold(plot, |plot, engine| {
            let line = SIZES.into_iter().zip(SizeStudy::row(rows, engine).iter().copied());
            plot.line(name(engine), line.collect())
        })
    }
}

/// Hit ratio and throughput.
fn measured(bench: &Bench, point: &Point) -> Result<(f64, f64), ReproduceError> {
    let words = behind_database(bench, point.size, point.slower);
    let report = DATABASE.run(bench, point.engine, SMALL, &words)?;
    let [hits, misses] = ["hits", "misses"].map(|name| report.figure(name).unwrap_or(0) as f64);
    Ok((hits / (hits + misses), report.operations_per_second.unwrap_or(f64::NAN)))
}

/// Keys of the clients of a cache of this size, in front of a database slower by this factor.
pub(super) fn behind_database(bench: &Bench, size: f64, slower: f64) -> String {
    let items = SMALL.items(bench);
    let (keys, load, query_us) = ((items / size) as u64, (FILLED * items) as u64, QUERY_US * slower);
    let (warm_up, operations) = (((FILLED + SETTLE) * items) as u64 - load, (MEASURE * items) as u64);
    format!(
        "nkeys={keys},load={load},warm_up={warm_up},operations={operations},database_fixed={query_us}us,database_variable={query_us}us"
    )
}

pub(crate) fn hit_ratios(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.sizes()?;
    let hit = |engine, size: usize| SizeStudy::row(&study.hits, engine)[size];
    let mut checks = Vec::new();
    for (engine, low, high) in [
        (EngineKind::Original, 0.711, 0.873),
        (EngineKind::Policy, 0.711, 0.873),
        (EngineKind::Function, 0.765, 0.948),
        (EngineKind::Raw, 0.765, 0.948),
        (EngineKind::Direct, 0.765, 0.948),
    ] {
        for (at, published) in [(0, low), (SIZES.len() - 1, high)] {
            let what = format!("hit ratio, {}, cache of {:.0} %", name(engine), 100.0 * SIZES[at]);
            checks.push(Check::points(what, published, hit(engine, at), 0.03));
        }
    }
    let plot = SizeStudy::figure("Hit ratio", Axis::linear("hits / gets", Unit::Percent), &study.hits)
        .points("published, static", vec![(0.06, 0.711), (0.12, 0.873)])
        .points("published, dynamic", vec![(0.06, 0.765), (0.12, 0.948)]);
    let caption = "Fig. 4: hit ratio over the size of the cache; 25 % static over-provisioning (Original, Policy) against dynamic. The paper \
                   prints the ends of its curves."
        .into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

pub(crate) fn throughput(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let study = bench.sizes()?;
    let at_ten = |engine| SizeStudy::row(&study.throughput, engine)[2];
    let raw = at_ten(EngineKind::Raw);
    let gain = |engine, published: f64| {
        let what = format!("throughput, Raw over {}, cache of 10 %", name(engine));
        Check::points(what, published, over(raw, at_ten(engine)), 0.05).even_at(0.0)
    };
    let below = |what: &str, a, b| {
        Check::bound(format!("throughput, {what}"), Unit::Plain, at_ten(a) / at_ten(b), Limit::AtMost(1.002))
            .even_at(1.0)
    };
    let other = |what: &str, measured| {
        let what = format!("throughput, Raw over Original, {what}");
        Check { published: Some(0.092), ..Check::bound(what, Unit::Percent, measured, Limit::Shown) }
    };
    let checks = vec![
        gain(EngineKind::Original, 0.092),
        gain(EngineKind::Function, 0.004),
        gain(EngineKind::Policy, 0.088),
        below("Function / Raw", EngineKind::Function, EngineKind::Raw),
        below("Policy / Function", EngineKind::Policy, EngineKind::Function),
        below("Original / Policy", EngineKind::Original, EngineKind::Policy),
        other("database twice as fast", study.databases[0]),
        other("database half as fast", study.databases[1]),
    ];
    let axis = Axis::linear("requests / s", Unit::Count).from(0.0);
    let plot = SizeStudy::figure("Throughput behind a database", axis, &study.throughput);
    let original = at_ten(EngineKind::Original);
    let plot = plot.points("published at 10 %, from Original here", vec![(0.10, original * 1.092)]);
    let caption =
        "Fig. 5: requests a second over the size of the cache. The paper prints only ratios at 10 %.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

/// Written in the measurement, as a share of the flash (50 of 30 GB).
const WRITTEN: f64 = 50.0 / 30.0;

/// Loads a cache to the paper's level, and overwrites it.
fn overwritten(bench: &Bench, engine: EngineKind, flash: Flash) -> Result<ApplicationReport, ReproduceError> {
    COLLECTION.run(bench, engine, flash, &overwriting(bench, flash))
}

/// Keys of the clients.
pub(super) fn overwriting(bench: &Bench, flash: Flash) -> String {
    let sets = (flash.items(bench) * WRITTEN) as u64;
    format!("nkeys={},warm_up=0,operations={sets}", flash.loaded(bench))
}

pub(crate) fn collection(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let mut checks = collected(bench, SMALL)?;
    let again = |&flash: &Flash| collected(bench, flash);
    vary(bench, &mut checks, (UNKNOWN_LUNS, name_of(SMALL)), &beside(SMALL), again)?;
    Ok(Outcome { checks, figures: Vec::new() })
}

fn collected(bench: &Bench, flash: Flash) -> Result<Vec<Check>, ReproduceError> {
    // Nothing was written where nothing was measured, so shares are not numbers.
    let absent = ApplicationReport::default();
    let reports = bench.map_or(&EngineKind::ALL, absent, |&engine| overwritten(bench, engine, flash))?;
    let of = |engine| &reports[EngineKind::ALL.iter().position(|&other| other == engine).expect("all")];
    let original = of(EngineKind::Original);
    let gigabytes = |report: &ApplicationReport, by: &str| {
        50.0 * report.copied_by(by).unwrap_or(0) as f64 / report.written_bytes as f64
    };
    let copies = |engine| gigabytes(of(engine), "cache");
    let erases = |engine| of(engine).erases as f64 / of(engine).written_bytes as f64;
    let ratio = |what: &str, engine, published: f64, measured: f64| {
        let what = format!("{what}, {} / Original", name(engine));
        Check { derived: true, ..Check::within(what, Unit::Plain, published, measured, 0.15).even_at(1.0) }
    };
    let mut checks = Vec::new();
    for (engine, published) in
        [(EngineKind::Policy, 13.27), (EngineKind::Function, 3.63), (EngineKind::Direct, 3.45)]
    {
        let measured = copies(engine) / copies(EngineKind::Original);
        checks.push(ratio("key-value copies", engine, published / 13.27, measured));
    }
    for (engine, published) in [(EngineKind::Function, 6017.0), (EngineKind::Direct, 5985.0)] {
        let measured = erases(engine) / erases(EngineKind::Original);
        checks.push(ratio("erases", engine, published / 8540.0, measured));
    }
    let pages = gigabytes(original, "drive");
    let what = "page copies, Original's drive / its key-value copies";
    checks.push(Check::derived(what, Unit::Plain, 7.15 / 13.27, pages / copies(EngineKind::Original), 0.15));
    for engine in [EngineKind::Policy, EngineKind::Function, EngineKind::Raw, EngineKind::Direct] {
        let copied = gigabytes(of(engine), "drive");
        let what = format!("page copies, {}, GB", name(engine));
        checks.push(Check::bound(what, Unit::Plain, copied, Limit::AtMost(0.0)));
    }
    let shown = |what: &str, published, measured| {
        Check::shown(format!("{what}, GB of 50 GB set"), Unit::Plain, Some(published), measured)
    };
    checks.push(shown("key-value copies, Original", 13.27, copies(EngineKind::Original)));
    checks.push(shown("page copies, Original's drive", 7.15, pages));
    checks.push(shown("key-value copies, Function", 3.63, copies(EngineKind::Function)));
    checks.push(shown("key-value copies, DIDACache", 3.45, copies(EngineKind::Direct)));
    Ok(checks)
}
