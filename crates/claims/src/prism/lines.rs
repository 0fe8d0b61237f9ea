//! P6: lines of code of the application for each level of the library, as `tools/level_lines.py` counts them.

use super::super::bench::Bench;
use super::super::{Check, Limit, Outcome, ReproduceError};
use pellucid_report::plot::Unit;

/// Output of the script: level, lines in the paper, lines here. Its test fails where the sources have changed since.
const COUNTED: &str = include_str!("lines.csv");

struct Level<'a> {
    name: &'a str,
    published: f64,
    lines: f64,
}

/// The rows of a table of three columns. What is no row is left out.
fn rows(table: &str) -> Vec<Level<'_>> {
    let row = |line| {
        let [name, published, lines] =
            <[&str; 3]>::try_from(str::split(line, ',').collect::<Vec<_>>()).ok()?;
        Some(Level { name, published: published.parse().ok()?, lines: lines.parse().ok()? })
    };
    table.lines().filter_map(row).collect()
}

/// P6.
pub(crate) fn lines(_: &Bench) -> Result<Outcome, ReproduceError> {
    Ok(outcome(COUNTED))
}

fn outcome(table: &str) -> Outcome {
    let levels = rows(table);
    let order = levels.windows(2).map(|pair| {
        let what = format!("lines of code, {} / {}", pair[0].name, pair[1].name);
        Check::bound(what, Unit::Plain, pair[0].lines / pair[1].lines, Limit::AtLeast(1.001))
    });
    let shown = levels.iter().map(|level| {
        let what = format!("lines of code, {}", level.name);
        Check::shown(what, Unit::Plain, Some(level.published), level.lines)
    });
    Outcome { checks: order.chain(shown).collect(), figures: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn every_level_is_counted() {
        let names: Vec<&str> = rows(COUNTED).iter().map(|level| level.name).collect();
        assert_eq!(names, ["raw", "function", "policy"]);
    }

    #[test]
    fn a_wrong_order_misses() {
        let of = |lines: [u32; 3]| {
            let [raw, function, policy] = lines;
            outcome(&format!(
                "level,published,lines\nraw,3,{raw}\nfunction,2,{function}\npolicy,1,{policy}\n"
            ))
            .verdict()
        };
        assert_eq!(of([300, 200, 100]), Verdict::Holds);
        assert_eq!(of([200, 300, 100]), Verdict::Misses);
        assert_eq!(of([300, 100, 100]), Verdict::Misses);
    }
}
