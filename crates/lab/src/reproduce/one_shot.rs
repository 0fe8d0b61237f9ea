//! C12: channel utilisation while writing, with 3D TLC programmed in one shot (Fig. 32).

use super::bench::{Bench, Cosmos, Flow, Mode, ReproduceError};
use super::{Check, Figure, Limit, Outcome};
use crate::report::plot::{Axis, BarChart, Bars, Unit};

const MODES: [Mode; 3] = [Mode::Slc, Mode::Mlc, Mode::Tlc];
/// "Large amounts of data": the writes of section 6.2.
const JOB: &str = "bs=128k,iodepth=16,number_ios=4000";

/// C12.
pub(super) fn utilisation(bench: &Bench) -> Result<Outcome, ReproduceError> {
    let shares = bench.map(&MODES, |&mode| {
        let report = bench.sequential(&Cosmos::new(mode, 8, 8), Flow::Write, JOB)?;
        Ok(report.utilisation.mean_channel().unwrap_or(f64::NAN))
    })?;
    let (mlc, tlc) = (shares[1], shares[2]);
    let what =
        format!("utilisation, 3D TLC / MLC ({} / {})", Unit::Percent.show(tlc), Unit::Percent.show(mlc));
    let check = Check::bound(what, Unit::Plain, tlc / mlc, Limit::AtLeast(1.0));
    let chart = BarChart::new("Fig. 32: channel utilisation while writing", Bars::Grouped)
        .value_axis(Axis::linear("busy", Unit::Percent).from(0.0).to(1.0))
        .categories(MODES.map(Mode::name))
        .series("", shares);
    let caption = "Mean busy share of the eight channels; 128 KiB sequential writes, 16 outstanding.".into();
    Ok(Outcome { checks: vec![check], figures: vec![Figure { caption, svg: chart.to_svg() }] })
}
