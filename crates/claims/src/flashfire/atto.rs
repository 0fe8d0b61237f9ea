//! F5: the ATTO benchmark, Figs. 9 to 13: a file of 256 MiB, read and written in requests of each size.

use super::{BUFFER_MIB, PLATFORMS, Platform, platform};
use crate::bench::{Bench, ReproduceError};
use crate::described::{File, paper};
use crate::{Check, Figure, Limit, Outcome};
use pellucid_report::plot::{Axis, Plot, Unit};

/// The experiment as users run it: writes of 8 KiB on the first drive.
const ATTO: File = paper!("flashfire-fig9.toml");

/// Request sizes in sectors: 512 bytes to 2 MiB.
const SIZES: [u32; 7] = [1, 4, 16, 64, 256, 1024, 4096];
/// Index of 8 KiB, for which the paper gives a number.
const EIGHT_KIB: usize = 2;
/// Sectors of the file.
const FILE: u64 = 512 << 10;
/// Maximum number of measured requests, without and with the buffer: small ones would take all day without it.
const REQUESTS: [u64; 2] = [3_000, 200_000];

#[derive(Clone, Copy, Debug)]
struct Point {
    platform: Platform,
    sectors: u32,
    buffer: u32,
    write: bool,
}

pub(crate) fn throughput(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let mut points = Vec::new();
    for platform in PLATFORMS {
        for write in [true, false] {
            for buffer in [0, BUFFER_MIB] {
                points.extend(SIZES.map(|sectors| Point { platform, sectors, buffer, write }));
            }
        }
    }
    let rates = bench.map(&points, |point| rate(bench, point))?;
    let curves: Vec<&[f64]> = rates.chunks_exact(SIZES.len()).collect();
    let (mut checks, mut figures) = (Vec::new(), Vec::new());
    for at in 0..PLATFORMS.len() {
        let [native, clustered, read, read_clustered] = [0, 1, 2, 3].map(|curve| curves[at * 4 + curve]);
        let small = (0..=EIGHT_KIB).map(|size| clustered[size] / native[size]).fold(f64::INFINITY, f64::min);
        let what = format!("SSD-{}: writes up to 8 KiB, with / without, least", at + 1);
        checks.push(Check::bound(what, Unit::Plain, small, Limit::AtLeast(1.0)));
        let slower = read_clustered.iter().zip(read).map(|(with, without)| with / without);
        let (least, most) =
            slower.fold((f64::INFINITY, 0.0_f64), |(low, high), share| (low.min(share), high.max(share)));
        checks.push(Check::bound(
            format!("SSD-{}: reads, with / without, least", at + 1),
            Unit::Plain,
            least,
            Limit::AtLeast(0.8),
        ));
        checks.push(Check::bound(
            format!("SSD-{}: reads, with / without, most", at + 1),
            Unit::Plain,
            most,
            Limit::AtMost(1.0),
        ));
        if at == 4 {
            let gain = clustered[EIGHT_KIB] / native[EIGHT_KIB] - 1.0;
            checks.insert(0, Check::points("SSD-5: gain of 8 KiB writes", 0.73, gain, 0.15));
        }
        let line = |rates: &[f64]| {
            SIZES.iter().map(|&size| f64::from(size) * 512.0).zip(rates.iter().copied()).collect()
        };
        let mut plot = Plot::new(&format!("ATTO, SSD-{}", at + 1))
            .x_axis(Axis::doubling("request", Unit::BinaryBytes))
            .y_axis(Axis::linear("throughput", Unit::BytesPerSecond).from(0.0))
            .line("write", line(native))
            .line("write, cluster buffer", line(clustered))
            .dashed("read", line(read))
            .dashed("read, cluster buffer", line(read_clustered));
        if at == 4 {
            plot = plot.points("published gain at 8 KiB", vec![(8192.0, 1.73 * native[EIGHT_KIB])]);
        }
        let caption = format!("Fig. {}: reads and writes of a file of 256 MiB.", 9 + at);
        figures.push(Figure { caption, svg: plot.to_svg() });
    }
    Ok(Outcome { checks, figures })
}

/// Bytes per second.
fn rate(bench: &Bench, point: &Point) -> Result<f64, ReproduceError> {
    let Point { sectors, buffer, write, .. } = *point;
    let bytes = u64::from(sectors) * 512;
    let most = REQUESTS[usize::from(write && buffer > 0)] / u64::from(bench.shorter());
    let count = (FILE / u64::from(sectors)).min(most.max(1));
    // Fills the buffer first, so that the drive's own rate is measured.
    let warm = if buffer > 0 && write { (u64::from(buffer) << 20).div_ceil(bytes).min(count / 2) } else { 0 };
    let app = if write { "atto-write" } else { "atto-read" };
    let words = format!("app={app},bs={bytes},warm_up={warm},operations={}", count - warm);
    let report = ATTO.application(bench, &platform(bench, ATTO, point.platform, buffer)?, &words)?;
    let seconds = report.phase("work").map_or(f64::NAN, |phase| phase.seconds);
    Ok(report.operations as f64 * bytes as f64 / seconds)
}
