//! P6: lines of code of the applications for each level of the library (Table IV), as `tools/level_lines.py` counts them.

use super::super::bench::Bench;
use super::super::{Check, Limit, Outcome, ReproduceError};
use pellucid_report::plot::Unit;

/// Output of the script: application, level, lines in the paper, lines here. Its test fails if the sources have changed since.
const COUNTED: &str = include_str!("lines.csv");

struct Row<'a> {
    application: &'a str,
    level: &'a str,
    published: f64,
    lines: f64,
}

/// Rows of a table of four columns; other lines are skipped.
fn rows(table: &str) -> Vec<Row<'_>> {
    let row = |line| {
        let [application, level, published, lines] =
            <[&str; 4]>::try_from(str::split(line, ',').collect::<Vec<_>>()).ok()?;
        Some(Row { application, level, published: published.parse().ok()?, lines: lines.parse().ok()? })
    };
    table.lines().filter_map(row).collect()
}

pub(crate) fn lines(_: &Bench) -> Result<Outcome, ReproduceError> {
    Ok(outcome(COUNTED))
}

/// Levels, most demanding first.
const LEVELS: [&str; 3] = ["raw", "function", "policy"];

fn outcome(table: &str) -> Outcome {
    let rows = rows(table);
    let of =
        |level: &str| rows.iter().filter(|row| row.level == level).map(|row| row.lines).collect::<Vec<_>>();
    let order = LEVELS.windows(2).map(|pair| {
        let [least, most] =
            [of(pair[0]).into_iter().reduce(f64::min), of(pair[1]).into_iter().reduce(f64::max)];
        let ratio = least.zip(most).map_or(f64::NAN, |(least, most)| least / most);
        let what = format!("lines of code, least of {} / most of {}", pair[0], pair[1]);
        Check::bound(what, Unit::Plain, ratio, Limit::AtLeast(1.001))
    });
    let shown = rows.iter().map(|row| {
        let what = format!("lines of code, {} on {}", row.application, row.level);
        Check::shown(what, Unit::Plain, Some(row.published), row.lines)
    });
    Outcome { checks: order.chain(shown).collect(), figures: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn every_level_is_counted() {
        let rows = rows(COUNTED);
        let names: Vec<(&str, &str)> = rows.iter().map(|row| (row.application, row.level)).collect();
        let cache = LEVELS.map(|level| ("key-value cache", level));
        assert_eq!(names[..3], cache);
        assert_eq!(names[3..], [("file system", "function"), ("graph engine", "policy")]);
    }

    #[test]
    fn a_wrong_order_misses() {
        let of = |lines: [u32; 4]| {
            let [raw, function, policy, graph] = lines;
            outcome(&format!(
                "application,level,published,lines\na,raw,3,{raw}\na,function,2,{function}\na,policy,1,{policy}\nb,policy,1,{graph}\n"
            ))
            .verdict()
        };
        assert_eq!(of([300, 200, 100, 50]), Verdict::Holds);
        assert_eq!(of([200, 300, 100, 50]), Verdict::Misses);
        assert_eq!(of([300, 100, 100, 50]), Verdict::Misses);
        assert_eq!(of([300, 200, 100, 250]), Verdict::Misses);
    }
}
