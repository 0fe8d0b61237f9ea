//! B4: a FIFO cache under uniform writes, against its closed form.
//!
//! A cache that keeps the last S writes of K uniformly drawn keys holds each key with probability 1 - (1 - 1/K)^S, about 1 - e^(-S/K). It holds less
//! if evicting a stale copy can remove the live one.

use super::bench::{Bench, ReproduceError};
use super::{Check, Figure, Outcome};
use pellucid_flash::Nanos;
use pellucid_lab::kv::{ClientsConfig, Experiment};
use pellucid_report::plot::{Axis, Plot, Unit};
use pellucid_workload::kv::laws::{KeySize, Popularity, ValueSize};
use pellucid_workload::kv::{OnMiss, Workload, WorkloadConfig};

/// Keys per slot of the flash; 0.74 is the ratio of the published measurement (1.5 million keys, 2.02 million slots).
const RATIOS: [f64; 4] = [0.5, 0.74, 1.0, 1.5];
const BLOCKS: u32 = 480;
/// Key, value and header of an item.
const ITEM_BYTES: f64 = 512.0;

const DRIVE: &str = r#"
[drive.media]
channels = 4
ways = 1
pages = 8
page_size = "4KiB"
spare_size = 64
sector_size = "4KiB"
unit_size = "4KiB"
cell = "slc"
store = "ram"
[drive.media.timing]
read = "50us"
program = "187us"
erase = "12us"
channel_rate = "200MB/s"
[drive.ftl]
durability = "volatile"
[drive.buffer]
entries = 64
[kv]
engine = "direct"
slab = "32KiB"
memory = "256KiB"
item_max = 8000
victim = "fifo"
keep = "nothing"
"#;

pub(super) fn uniform(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let measured = bench.map_or(&RATIOS, (f64::NAN, f64::NAN, f64::NAN), |&ratio| held(bench, ratio))?;
    let checks = RATIOS.iter().zip(&measured).map(|(ratio, &(hit, expected, _))| {
        let what = format!("hit ratio, {ratio} keys for a slot of flash");
        Check { derived: true, ..Check::points(what, expected, hit, 0.01) }
    });
    let curve = (4..=30).map(|i| 0.1 * f64::from(i)).map(|x| (x, 1.0 - (-x).exp()));
    let plot = Plot::new("A FIFO cache under uniform writes")
        .x_axis(Axis::linear("slots / keys", Unit::Plain).from(0.0))
        .y_axis(Axis::linear("hits / gets", Unit::Percent).from(0.0))
        .line("1 - e^(-S/K)", curve.collect())
        .points("measured", measured.iter().map(|&(hit, _, slots)| (slots, hit)).collect());
    let caption =
        "Hit ratio after the flash has been overwritten three times with uniformly drawn keys.".into();
    Ok(Outcome { checks: checks.collect(), figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

/// Measured hit ratio, expected hit ratio, and slots per key.
fn held(bench: &Bench, ratio: f64) -> Result<(f64, f64, f64), ReproduceError> {
    let blocks = BLOCKS / bench.shorter().min(8);
    let sets =
        [format!("media.blocks={blocks}"), "drive.namespace=[{ interface = \"open-channel\" }]".into()];
    let spec = bench.cache(DRIVE, "the drive of B4", &sets)?;
    let clients =
        ClientsConfig { count: 16, think: Nanos::ZERO, on_miss: OnMiss::Nothing, seed: bench.seed() };
    let mut cache = Experiment::new(&spec, clients)?;
    let room = f64::from(blocks * 4) * 32768.0 / ITEM_BYTES;
    let keys = (room * ratio) as u64;
    let config = WorkloadConfig {
        keys,
        popularity: Popularity::Uniform,
        key_size: KeySize::Fixed(20),
        value_size: ValueSize::Fixed(400),
        set_share: 1.0,
        seed: bench.seed(),
    };
    let mut requests = Workload::new(config).expect("a workload of constants");
    cache.run(&mut requests, (3.0 * room) as u64)?;
    let class = cache.system().classes().into_iter().max_by_key(|class| class.items);
    let slots = cache.system().statistics().slabs * class.map_or(0, |class| u64::from(class.slots_per_slab));
    let each = slots as f64 / keys as f64;
    requests.set_share(0.0);
    let report = cache.run(&mut requests, (2.0 * room) as u64)?;
    Ok((report.summary.hit_ratio.unwrap_or(f64::NAN), 1.0 - (-each).exp(), each))
}
