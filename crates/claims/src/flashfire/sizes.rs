//! F8: sizes of writes, Fig. 14 and the text of 4.3.

use super::{ELAPSED, Point, SECOND, WRITING, platform, title};
use crate::bench::{Bench, ReproduceError};
use crate::{Check, Figure, Limit, Outcome};
use pellucid_report::ApplicationReport;
use pellucid_report::plot::{Axis, Plot, Unit};
use pellucid_workload::desktop::DesktopWork;

/// Counters of a report, with the smallest write in bytes that each counts.
const CLASSES: [(&str, f64); 9] = [
    ("writes_of_512", 512.0),
    ("writes_from_1k", 1024.0),
    ("writes_from_2k", 2048.0),
    ("writes_from_4k", 4096.0),
    ("writes_from_8k", 8192.0),
    ("writes_from_16k", 16_384.0),
    ("writes_from_32k", 32_768.0),
    ("writes_from_64k", 65_536.0),
    ("writes_from_128k", 131_072.0),
];
/// The first class at or above 8 KiB, and at or above 64 KiB.
const FROM_8K: usize = 4;
const FROM_64K: usize = 7;

/// Shares of a workload's writes, by class.
struct Sizes([f64; CLASSES.len()]);

impl Sizes {
    /// Reads the counters of a report.
    ///
    /// # Panics
    /// If a counter is missing, which does not mean 0.
    fn of(report: &ApplicationReport) -> Sizes {
        let count = |name: &str| report.figure(name).unwrap_or_else(|| panic!("{name} is not counted"));
        let counts = CLASSES.map(|(name, _)| count(name) as f64);
        let all: f64 = counts.iter().sum();
        Sizes(counts.map(|count| count / all))
    }

    /// Share of the writes in classes below `class`.
    fn below(&self, class: usize) -> f64 {
        self.0[..class].iter().sum()
    }

    /// Checks of the text on a workload.
    fn checks(&self, work: DesktopWork) -> Vec<Check> {
        let what = |which: &str| format!("{}: share of writes {which}", title(work));
        let large = 1.0 - self.below(FROM_64K);
        let small = self.below(FROM_8K);
        match work {
            DesktopWork::Mp3Copy => vec![Check::points(what("of 64 KiB"), 0.96, large, 0.01)],
            DesktopWork::LinuxExtract => {
                let check = Check::bound(what("below 8 KiB"), Unit::Percent, small, Limit::AtLeast(0.9));
                vec![Check { published: Some(0.9), ..check }]
            }
            DesktopWork::OfficeInstall => vec![
                Check::points(what("of 64 KiB"), 0.51, large, 0.01),
                Check::points(what("up to 4 KiB"), 0.28, small, 0.05),
            ],
            _ => vec![Check::bound(what("below 8 KiB"), Unit::Percent, small, Limit::AtLeast(0.5))],
        }
    }
}

/// F8: Fig. 14. No layer is above the drive, as the host's own writes are counted.
pub(crate) fn write_sizes(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let own = platform(bench, ELAPSED, SECOND, 0)?;
    let sizes = bench.map(&WRITING, |&work| {
        let words = Point::new(SECOND, work, 0).words(bench.shorter());
        Ok(Sizes::of(&ELAPSED.application(bench, &own, &words)?))
    })?;
    let mut plot = Plot::new("Fig. 14: sizes of writes")
        .x_axis(Axis::doubling("size, up to", Unit::BinaryBytes))
        .y_axis(Axis::linear("writes", Unit::Percent).from(0.0).to(1.0));
    for (&work, sizes) in WRITING.iter().zip(&sizes) {
        let line = CLASSES.iter().enumerate().map(|(class, (_, from))| (*from, sizes.below(class + 1)));
        plot = plot.line(title(work), line.collect());
    }
    let checks = WRITING.iter().zip(&sizes).flat_map(|(&work, sizes)| sizes.checks(work)).collect();
    let caption = "Cumulative shares of the writes; those up to twice a size stand at the size.".into();
    Ok(Outcome { checks, figures: vec![Figure { caption, svg: plot.to_svg() }] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    /// The sizes of each workload pass its own checks and fail those of the next.
    #[test]
    #[cfg_attr(quick, ignore = "slow")]
    fn the_sizes_of_another_work_miss() {
        let bench = Bench::of_test(8, Vec::new());
        let own = platform(&bench, ELAPSED, SECOND, 0).unwrap();
        let of = |work| {
            let words = Point::new(SECOND, work, 0).words(bench.shorter());
            Sizes::of(&ELAPSED.application(&bench, &own, &words).unwrap())
        };
        let sizes = WRITING.map(of);
        let worst = |sizes: &Sizes, work| sizes.checks(work).iter().map(Check::verdict).max();
        for (at, &work) in WRITING.iter().enumerate() {
            assert_eq!(worst(&sizes[at], work), Some(Verdict::Holds), "{work:?}");
        }
        // Extraction and uninstallation both write small, so each is compared with a workload of large writes.
        let [mp3, linux, install, uninstall] = &sizes;
        for (wrong, work) in
            [(linux, WRITING[0]), (install, WRITING[1]), (uninstall, WRITING[2]), (mp3, WRITING[3])]
        {
            assert_eq!(worst(wrong, work), Some(Verdict::Misses), "{work:?}");
        }
    }
}
