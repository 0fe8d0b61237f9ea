//! P6: lines of code of the application for each level of the library, counted from its sources.

use super::super::bench::Bench;
use super::super::{Check, Limit, Outcome, ReproduceError};
use crate::report::plot::Unit;

/// What an application has for one level and for no other.
const LEVELS: [(&str, f64, &[&str]); 3] = [
    (
        "raw",
        1450.0,
        &[
            include_str!("../../../../apps/src/kv/engine/blocks.rs"),
            include_str!("../../../../apps/src/kv/engine/access.rs"),
        ],
    ),
    ("function", 860.0, &[include_str!("../../../../apps/src/kv/engine/function.rs")]),
    ("policy", 210.0, &[include_str!("../../../../apps/src/kv/engine/policy.rs")]),
];

/// Lines that hold code: no blank lines, comments, or tests.
fn code_lines(source: &str) -> usize {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// P6.
pub(crate) fn lines(_: &Bench) -> Result<Outcome, ReproduceError> {
    let counted =
        LEVELS.map(|(_, _, sources)| sources.iter().map(|text| code_lines(text)).sum::<usize>() as f64);
    Ok(outcome(counted))
}

fn outcome(counted: [f64; 3]) -> Outcome {
    let order = |upper: usize, lower: usize| {
        let what = format!("lines of code, {} / {}", LEVELS[upper].0, LEVELS[lower].0);
        Check::bound(what, Unit::Plain, counted[upper] / counted[lower], Limit::AtLeast(1.001))
    };
    let shown = LEVELS.iter().zip(counted).map(|((level, published, _), lines)| {
        Check::shown(format!("lines of code, {level}"), Unit::Plain, Some(*published), lines)
    });
    let checks = [order(0, 1), order(1, 2)].into_iter().chain(shown).collect();
    Outcome { checks, figures: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::super::Verdict;
    use super::*;

    #[test]
    fn only_code_is_counted() {
        let source = "//! Doc.\n\nuse a;\n/// Doc.\nfn f() { // why\n    // comment\n}\n\n#[cfg(test)]\nmod tests {\n    use b;\n}\n";
        assert_eq!(code_lines(source), 3);
    }

    #[test]
    fn a_wrong_order_misses() {
        assert_eq!(outcome([300.0, 200.0, 100.0]).verdict(), Verdict::Holds);
        assert_eq!(outcome([200.0, 300.0, 100.0]).verdict(), Verdict::Misses);
        assert_eq!(outcome([300.0, 100.0, 100.0]).verdict(), Verdict::Misses);
    }
}
