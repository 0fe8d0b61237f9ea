//! `--seeds`: the same work once for each of several seeds, with confidence intervals.

use crate::args::Global;
use crate::failure::Failure;
use crate::numbers;
use crate::output;
use crate::subject::{Subject, is_stream};
use anyhow::anyhow;
use pellucid_media::StoreKind;
use pellucid_output::{OutputDirectory, OutputError};
use pellucid_report::{OverSeeds, Report};
use pellucid_workload::Job;
use std::path::Path;

/// How often work is done.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct SeedOptions {
    /// Do the work once for each of N seeds, starting with --seed or run.seed, and print the mean of each number with its 95 % confidence
    /// interval. Preconditioning keeps its own seed, precondition.seed. --report DIR holds the means as a page and as JSON, and the
    /// report of every seed
    #[arg(long, value_name = "N", value_parser = numbers::whole::<u32>(2..), conflicts_with = "log")]
    seeds: Option<u32>,
}

impl SeedOptions {
    /// Returns whether several seeds are asked for.
    pub fn is_given(self) -> bool {
        self.seeds.is_some()
    }

    /// Refuses names of drives and job files that can be read only once.
    pub fn check_names<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Result<(), Failure> {
        match names.into_iter().find(|name| *name == "-" || is_stream(Path::new(name))) {
            None => Ok(()),
            Some(name) => Err(refuse(&format!("{name} can be read only once; allowed: a file"))),
        }
    }

    /// Returns the seeds of the work on these drives. Work that would not be repeated from the same start is refused.
    pub fn of(self, subjects: &[&Subject]) -> Result<Vec<u64>, Failure> {
        let run = &subjects[0].spec.run;
        if run.trace.is_some() {
            return Err(refuse("a trace draws nothing at random; allowed: with jobs"));
        }
        if run.log.is_some() {
            return Err(refuse("run.log is of one run; allowed: without it"));
        }
        for subject in subjects {
            if let StoreKind::File(path) = &subject.spec.drive.media.store {
                let path = path.display();
                let message =
                    "would start from what the seed before it has written; allowed: media.store none or ram";
                return Err(refuse(&format!("the drive is in {path}, so that every seed {message}")));
            }
        }
        let seeds = (0..u64::from(self.seeds.unwrap_or(1)))
            .map(|number| run.seed.checked_add(number).filter(|&seed| seed < 1 << 63));
        let most = || refuse("the last seed is not below 2^63; allowed: a smaller run.seed");
        seeds.collect::<Option<Vec<u64>>>().ok_or_else(most)
    }
}

fn refuse(message: &str) -> Failure {
    Failure::asked(anyhow!("--seeds: {message}"))
}

/// Refuses jobs that are the same with another seed: `jobs` and `others` are those of two seeds.
pub fn check_effect(jobs: &[Job], others: &[Job]) -> Result<(), Failure> {
    if jobs.iter().zip(others).all(|(job, other)| job.seed == other.seed) {
        return Err(refuse(
            "each job has a randseed of its own, so that all runs would be equal; allowed: without randseed",
        ));
    }
    let of_file = |job: &Job| matches!(&job.app, Some(app) if app.file().is_some());
    if jobs.iter().all(of_file)
        && let Some(app) = jobs.first().and_then(|job| job.app.as_ref())
    {
        return Err(refuse(&format!(
            "app = {} takes its work from a file and draws nothing at random; allowed: with work that is drawn",
            app.name()
        )));
    }
    Ok(())
}

/// The options of runs over seeds; an incomplete set of runs is useless.
pub fn whole_runs(global: &Global) -> Global {
    Global { whole_only: true, ..global.clone() }
}

/// The options with which the work of a seed is prepared: notices have come with the first preparation.
pub fn prepared_with(global: &Global, seed: u64) -> Global {
    Global { seed_of_run: Some(seed), quiet: true, ..global.clone() }
}

/// Takes the report of a seed. An interrupt ends the work: intervals are over whole runs.
pub fn whole(report: Report) -> Result<Report, Failure> {
    if report.partial {
        return Err(Failure::stopped(
            "interrupted; means over the seeds need all of them, so nothing is printed",
        ));
    }
    Ok(report)
}

/// Where the numbers over several seeds are kept.
pub struct Kept {
    /// The directory of the report.
    pub directory: OutputDirectory,
    /// Folder of each drive in it; empty: the directory itself.
    pub folders: Vec<String>,
    /// Description of the work, in words.
    pub work: String,
}

impl Kept {
    /// Writes the numbers as a page and as JSON, and the report of each run in a folder of its own.
    fn write(&mut self, seeds: &[u64], reports: &[Vec<Report>], over: &OverSeeds) -> Result<(), OutputError> {
        let folder = |of_drive: &String, seed: &u64| match of_drive.as_str() {
            "" => format!("seed-{seed}"),
            of_drive => format!("{of_drive}/seed-{seed}"),
        };
        let (mut parts, mut pages) = (Vec::new(), Vec::new());
        for (of_drive, reports) in self.folders.iter().zip(reports) {
            let folders: Vec<String> = seeds.iter().map(|seed| folder(of_drive, seed)).collect();
            for (folder, report) in folders.iter().zip(reports) {
                parts.extend(report.files(Path::new(folder)));
            }
            let page = |folder: &String| format!("{}/index.html", folder.replace(' ', "%20"));
            pages.push(folders.iter().map(page).collect::<Vec<String>>());
        }
        parts.push(("seeds.json".into(), over.to_json().into_bytes()));
        parts.push(("index.html".into(), over.to_html(&self.work, &pages).into_bytes()));
        self.directory.replace(&parts)
    }
}

/// Prints the numbers of the drives, each with a report for each seed, and keeps them where that is asked for.
pub fn tell(
    global: &Global,
    seeds: Vec<u64>,
    reports: Vec<Vec<Report>>,
    mut kept: Option<Kept>,
) -> Result<(), Failure> {
    let mut warnings: Vec<String> = reports.iter().flatten().flat_map(Report::warnings_by_name).collect();
    let mut seen = std::collections::BTreeSet::new();
    warnings.retain(|warning| seen.insert(warning.clone()));
    output::warn(global, warnings);
    let ended = output::all_ended(reports.iter().flatten());
    let over = OverSeeds::new(seeds.clone(), reports.clone());
    let written = kept.as_mut().map_or(Ok(()), |kept| kept.write(&seeds, &reports, &over));
    output::print(&if global.json { over.to_json() } else { over.render_text() })?;
    if let Some(kept) = kept.filter(|_| !global.json && written.is_ok()) {
        let page = kept.directory.path().join("index.html");
        output::print(&format!("\n{:22}{}  (JSON beside it)\n", "report", page.display()))?;
    }
    written?;
    ended
}
