//! L2: the commands of an open-channel drive, by the conformance suite.

use super::bench::{Bench, ReproduceError};
use super::{Check, Limit, Outcome};
use pellucid_report::plot::Unit;
use pellucid_testing::conformance::cases;
use std::panic::catch_unwind;

/// L2: runs every open-channel case of the suite; each failure is a check of its own, named after the case.
pub(super) fn conformance(_: &Bench) -> Result<Outcome, ReproduceError> {
    let cases: Vec<_> = cases().filter(|case| case.name.starts_with("open-channel: ")).collect();
    let failed: Vec<_> = cases.iter().filter(|case| catch_unwind(case.run).is_err()).collect();
    let held = (cases.len() - failed.len()) as f64;
    let all = Limit::AtLeast(cases.len() as f64);
    let what = format!("cases that hold, of {}", cases.len());
    let mut checks = vec![Check::bound(what, Unit::Plain, held, all)];
    checks.extend(failed.iter().map(|case| Check::bound(case.name, Unit::Plain, 0.0, Limit::AtLeast(1.0))));
    Ok(Outcome { checks, figures: Vec::new() })
}
