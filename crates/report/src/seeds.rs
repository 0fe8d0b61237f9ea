//! Numbers over several seeds: means with confidence intervals, and whether drives differ by more than chance.
//!
//! A seed gives every drive the same requests, so drives are compared seed by seed (a paired t-test): effects of a seed on all of them cancel out.
//! Each number is judged by itself: of twenty without a real difference, one is expected to seem different.

use super::Report;
use super::compare::{Better, Row, Unit, results, rows};
use super::html::Shell;
use super::json::to_text;
use super::plot::escape;
use super::statistics::{CONFIDENCE, Mean};
use pellucid_text::format::{count, signed_percent, significant};
use serde::Serialize;

/// Counts below this are shown with decimals, because their means have some.
const EXACT_MIN: f64 = 1000.0;
const GAP: usize = 2;

/// Numbers of one or more drives over several seeds.
#[derive(Debug)]
pub struct OverSeeds {
    seeds: Vec<u64>,
    drives: Vec<String>,
    measures: Vec<Measure>,
    /// State of the drives when each run began, if they were preconditioned.
    past: Option<String>,
    /// Runs with a steady-state rule that did not get steady, and all runs.
    unsteady: (usize, usize),
    /// Sentence on the applications' results, if there are any: the same for each seed, or not.
    results: Option<String>,
}

/// A number of the report, for each drive.
#[derive(Debug)]
struct Measure {
    label: String,
    unit: Unit,
    better: Better,
    drives: Vec<Values>,
}

#[derive(Debug)]
struct Values {
    each: Vec<Option<f64>>,
    /// `None`: the number is missing for some seed.
    mean: Option<Mean>,
    /// Difference from the first drive, seed by seed; `None` for the first, and where a mean is missing.
    difference: Option<Mean>,
}

/// Returns whether, for each seed, the applications have the same result on all drives.
fn results_by_seed(seeds: &[u64], reports: &[Vec<Report>]) -> Option<String> {
    let of_seed = |at: usize| results(reports.iter().map(|drive| &drive[at]));
    let said: Vec<(u64, (bool, String))> =
        seeds.iter().zip(0..).filter_map(|(&seed, at)| Some((seed, of_seed(at)?))).collect();
    let differ: Vec<_> = said.iter().filter(|(_, (same, _))| !same).collect();
    match (said.first()?, differ.first()) {
        ((_, (_, same)), None) => Some(format!("{same}, with every seed")),
        (_, Some((seed, (_, differ_so)))) => {
            Some(format!("with {} of {} seeds {differ_so} (seed {seed})", differ.len(), said.len()))
        }
    }
}

impl OverSeeds {
    /// Takes each drive's reports, one per seed in the order of `seeds`, which has at least two.
    pub fn new(seeds: Vec<u64>, reports: Vec<Vec<Report>>) -> OverSeeds {
        assert!(seeds.len() > 1, "intervals need two seeds");
        assert!(reports.iter().all(|drive| drive.len() == seeds.len()), "a report for each seed");
        let drives = reports.iter().map(|drive| drive[0].drive.name.clone()).collect();
        let results = results_by_seed(&seeds, &reports);
        let all: Vec<Report> = reports.into_iter().flatten().collect();
        let past = all.iter().map(|report| &report.workload.precondition);
        let past = past.filter(|past| !["", "none"].contains(&past.as_str())).max().cloned();
        let said = rows(&all).into_iter().filter(|row| row.values.iter().any(Option::is_some));
        let measures = said.map(|row| Measure::new(row, seeds.len())).collect();
        let missed = |report: &&Report| report.steady_state.as_ref().is_some_and(|steady| !steady.reached);
        let unsteady = (all.iter().filter(missed).count(), all.len());
        OverSeeds { seeds, drives, measures, past, unsteady, results }
    }

    /// Returns the cells of the table: the header, then one row per number. Each drive but the first has a second column, for the difference.
    fn table(&self) -> Vec<Vec<String>> {
        let mut table = vec![vec![format!("{} seeds", self.seeds.len())]];
        for (at, drive) in self.drives.iter().enumerate() {
            table[0].push(drive.clone());
            table[0].extend((at > 0).then(|| "difference".to_string()));
        }
        table.extend(self.measures.iter().map(Measure::cells));
        table
    }

    /// Returns notes on the table, a sentence each.
    fn notes(&self) -> Vec<String> {
        let percent = (CONFIDENCE * 100.0).round();
        let mut notes =
            vec![format!("mean and {percent} % confidence interval over the seeds (Student's t)")];
        let is_one = |values: &Values| values.each.iter().all(|value| *value == values.each[0]);
        if self.measures.iter().flat_map(|measure| &measure.drives).all(is_one) {
            notes.push(
                "all seeds gave the same numbers: what is drawn at random, if anything, changes none of them"
                    .into(),
            );
        }
        if self.drives.len() > 1 {
            notes.push(format!(
                "± behind a change is its own interval; differences are taken seed by seed; those within chance have an interval with 0 in it, at {percent} % for each number \
                 by itself"
            ));
        }
        if let Some(past) = &self.past {
            notes.push(format!(
                "all seeds of a drive start from one state ({past}); how much that state depends on chance is not in the intervals: vary \
                 precondition.seed"
            ));
        }
        if let (missed @ 1.., all) = self.unsteady {
            notes.push(format!(
                "{missed} of {all} runs did not become steady: their numbers are of a drive still under way"
            ));
        }
        notes.extend(self.results.clone());
        notes
    }

    /// Renders a page that links to each run's own: `pages` has, for each drive, one per seed. `work` describes the work.
    pub fn to_html(&self, work: &str, pages: &[Vec<String>]) -> String {
        let mut page = Shell::new(&self.drives.join(" beside "), "");
        let cells = |tag: &str, row: &[String]| -> String {
            row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
        };
        let table = self.table();
        let rows: String = table[1..].iter().map(|row| format!("<tr>{}</tr>", cells("td", row))).collect();
        let notes: String =
            self.notes().iter().map(|note| format!("<p class=\"soft\">{}</p>", escape(note))).collect();
        let runs: String = self
            .drives
            .iter()
            .zip(pages)
            .map(|(drive, pages)| {
                let links = self
                    .seeds
                    .iter()
                    .zip(pages)
                    .map(|(seed, href)| format!(" <a href=\"{}\">seed {seed}</a>", escape(href)));
                format!("<p>{}:{}</p>", escape(drive), links.collect::<String>())
            })
            .collect();
        page.0.push_str(&format!(
            "<header><h1>{}</h1><p class=\"soft\">{}</p></header><main><section><h2>Over {} seeds</h2><table><thead><tr>{}</tr></thead>\
             <tbody>{rows}</tbody></table>{notes}</section><section><h2>Runs</h2>{runs}</section></main>",
            escape(&self.drives.join(" beside ")),
            escape(work),
            self.seeds.len(),
            cells("th", &table[0]),
        ));
        page.end("seeds.json beside this page has the value of every seed.")
    }

    /// Renders the numbers as text: a column per drive, and after each but the first one with the difference.
    pub fn render_text(&self) -> String {
        let table = self.table();
        let width = |at: usize| table.iter().map(|row| row[at].chars().count()).max().unwrap_or(0) + GAP;
        let widths: Vec<usize> = (0..table[0].len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let text: String =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            format!("{}\n", text.trim_end())
        };
        let mut out: String = table.iter().map(line).collect();
        for (at, note) in self.notes().iter().enumerate() {
            out.push_str(&format!("{}note: {note}\n", if at == 0 { "\n" } else { "" }));
        }
        out
    }

    /// Returns the numbers as JSON, with the value of every seed.
    pub fn to_json(&self) -> String {
        let drive = |name: &String, values: &Values| DriveJson {
            drive: name.clone(),
            values: values.each.clone(),
            mean: values.mean.map(|mean| mean.mean),
            half_width: values.mean.map(|mean| mean.half_width),
            difference: values.difference.map(|difference| DifferenceJson {
                mean: difference.mean,
                half_width: difference.half_width,
                is_larger_than_chance: difference.is_larger_than_chance(),
            }),
        };
        let measure = |measure: &Measure| MeasureJson {
            measure: measure.label.clone(),
            unit: measure.unit.name(),
            drives: self
                .drives
                .iter()
                .zip(&measure.drives)
                .map(|(name, values)| drive(name, values))
                .collect(),
        };
        to_text(&Json {
            seeds: &self.seeds,
            confidence: CONFIDENCE,
            measures: self.measures.iter().map(measure).collect(),
        })
    }
}

impl Measure {
    /// `row` has one number per report, all seeds of the first drive first.
    fn new(row: Row, seeds: usize) -> Measure {
        let each: Vec<&[Option<f64>]> = row.values.chunks(seeds).collect();
        let mean = |values: Vec<Option<f64>>| {
            values.into_iter().collect::<Option<Vec<f64>>>().map(|values| Mean::of(&values))
        };
        let differences = |values: &[Option<f64>]| {
            values.iter().zip(each[0]).map(|(value, first)| Some((*value)? - (*first)?)).collect()
        };
        let drives = each.iter().enumerate().map(|(at, values)| Values {
            each: values.to_vec(),
            mean: mean(values.to_vec()),
            difference: if at == 0 { None } else { mean(differences(values)) },
        });
        Measure { label: row.label, unit: row.unit, better: row.better, drives: drives.collect() }
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.label.clone()];
        for (at, values) in self.drives.iter().enumerate() {
            let mean = |mean: Mean| format!("{} ± {}", self.show(mean.mean), self.show(mean.half_width));
            cells.push(values.mean.map_or("-".into(), mean));
            cells.extend((at > 0).then(|| self.difference(values)));
        }
        cells
    }

    fn show(&self, value: f64) -> String {
        match self.unit {
            Unit::Count if value < EXACT_MIN => significant(value),
            Unit::Count => count(value.round() as u64),
            unit => unit.show(value),
        }
    }

    /// Returns the change from the first drive's mean, or that it is within chance.
    fn difference(&self, values: &Values) -> String {
        let (Some(difference), Some(mean), Some(first)) =
            (values.difference, values.mean, self.drives[0].mean)
        else {
            return String::new();
        };
        if difference.mean == 0.0 && difference.half_width == 0.0 {
            return "equal".into();
        }
        if !difference.is_larger_than_chance() {
            return "within chance".into();
        }
        if first.mean == 0.0 {
            return format!("differs{}", self.better.verdict(mean.mean, first.mean));
        }
        let change = signed_percent(difference.mean / first.mean);
        let width = 100.0 * (difference.half_width / first.mean).abs();
        let width = if width < 0.001 { "0".into() } else { significant(width) };
        let change = format!("{} ± {width} %", change.trim_end_matches(" %"));
        format!("{change}{}", self.better.verdict(mean.mean, first.mean))
    }
}

#[derive(Serialize)]
struct Json<'a> {
    seeds: &'a [u64],
    confidence: f64,
    measures: Vec<MeasureJson>,
}

#[derive(Serialize)]
struct MeasureJson {
    measure: String,
    unit: &'static str,
    drives: Vec<DriveJson>,
}

#[derive(Serialize)]
struct DriveJson {
    drive: String,
    values: Vec<Option<f64>>,
    mean: Option<f64>,
    half_width: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<DifferenceJson>,
}

#[derive(Serialize)]
struct DifferenceJson {
    mean: f64,
    half_width: f64,
    is_larger_than_chance: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, amplification: Option<f64>, erased: u64) -> Report {
        let mut report = Report::default();
        report.drive.name = name.into();
        report.write_amplification.total = amplification;
        report.wear.erases.max = erased as u32;
        report
    }

    fn three(values: [[Option<f64>; 3]; 3]) -> OverSeeds {
        let drive = |(name, values): (&str, [Option<f64>; 3])| {
            values.into_iter().map(|value| report(name, value, 3)).collect::<Vec<Report>>()
        };
        OverSeeds::new(vec![1, 2, 3], ["a", "b", "c"].into_iter().zip(values).map(drive).collect())
    }

    /// Applications with a result, on two drives and with two seeds.
    #[test]
    fn results_are_compared_with_each_seed() {
        let said = |results: [[&str; 2]; 2]| {
            let of_drive = |(name, results): (&str, [&str; 2])| {
                let of_seed = |result: &str| {
                    let result = std::collections::BTreeMap::from([("components".into(), result.into())]);
                    let application =
                        crate::ApplicationReport { name: "components".into(), result, ..Default::default() };
                    Report { applications: vec![application], ..report(name, None, 1) }
                };
                results.into_iter().map(of_seed).collect::<Vec<Report>>()
            };
            OverSeeds::new(vec![4, 5], ["a", "b"].into_iter().zip(results).map(of_drive).collect())
                .render_text()
        };
        let same = said([["7", "8"], ["7", "8"]]);
        assert!(same.contains("the results are the same on all drives, with every seed"), "{same}");
        let differ = said([["7", "8"], ["7", "9"]]);
        let expected = "with 1 of 2 seeds the results differ: components is 8 on a, 9 on b (seed 5)";
        assert!(differ.contains(expected), "{differ}");
    }

    #[test]
    fn drives_are_compared_seed_by_seed() {
        // The second exceeds the first by 0.1 for every seed; the spread of the seeds hides this from a test that is not paired.
        let found = three([
            [Some(1.0), Some(2.0), Some(3.0)],
            [Some(1.1), Some(2.1), Some(3.1)],
            [Some(3.0), Some(1.0), Some(2.0)],
        ]);
        let text = found.render_text();
        let line = text.lines().find(|line| line.starts_with("write amplification")).unwrap();
        assert!(line.contains("2.00 ± 2.48") && line.contains("+5.00 ± 0 % worse"), "{line}");
        assert!(line.ends_with("within chance"), "{line}");
        assert!(!text.contains("at random"), "{text}");
        let equal = three([[Some(1.0); 3], [Some(2.0); 3], [Some(3.0); 3]]).render_text();
        assert!(equal.contains("what is drawn at random, if anything, changes none of them"), "{equal}");
        let line = text.lines().find(|line| line.starts_with("most erases")).unwrap();
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>().join(" "),
            "most erases 3.00 ± 0 3.00 ± 0 equal 3.00 ± 0 equal"
        );
        let json: serde_json::Value = serde_json::from_str(&found.to_json()).unwrap();
        let measures = json["measures"].as_array().unwrap();
        let of = measures.iter().find(|measure| measure["measure"] == "write amplification").unwrap();
        assert_eq!(of["drives"][1]["values"], serde_json::json!([1.1, 2.1, 3.1]));
        assert_eq!(of["drives"][1]["difference"]["is_larger_than_chance"], true);
        assert_eq!(of["drives"][2]["difference"]["is_larger_than_chance"], false);
        assert!(of["drives"][0].get("difference").is_none());
        assert_eq!(json["seeds"], serde_json::json!([1, 2, 3]));
    }

    #[test]
    fn a_number_that_a_seed_lacks_has_no_mean() {
        let found = three([[Some(1.0), None, Some(3.0)], [Some(1.0); 3], [None; 3]]);
        let text = found.render_text();
        let line = text.lines().find(|line| line.starts_with("write amplification")).unwrap();
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>(),
            ["write", "amplification", "-", "1.00", "±", "0", "-"]
        );
    }
}
