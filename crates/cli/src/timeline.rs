//! `--timeline`: what every channel, way, host link and processor did, as a trace for Perfetto's viewer.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::subject::Subject;
use anyhow::anyhow;
use pellucid_device::Timeline;
use pellucid_flash::Nanos;
use pellucid_lab::drive::TimelinePart;
use pellucid_output::{OutputFile, begins_with, is_replaced, refuse_foreign};
use pellucid_report::{Report, TIMELINE_BEGINNING, to_perfetto};
use pellucid_spec::Medium;
use pellucid_text::Quantity;
use pellucid_text::format::{count, duration};
use pellucid_workload::Job;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Entries of a timeline at most: some 16 MB of file, as much as the viewer shows without a wait.
const ENTRIES_MAX: usize = 200_000;

/// Which part of a run is recorded, and where it goes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TimelineOptions {
    /// Write the activities of every channel, way, host link and processor, with their requests, to this file, for the viewer at
    /// https://ui.perfetto.dev; from the beginning of the measurement, up to some 200,000 entries
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Record this part of the run only, in simulated time since the measurement began: 10ms..12ms, ..5ms or 1s..
    #[arg(long, value_name = "FROM..TO", requires = "timeline")]
    timeline_window: Option<String>,
    /// Record only requests that took at least this long, and all activities while one of them was in the drive
    #[arg(long, value_name = "TIME", requires = "timeline")]
    timeline_slower: Option<String>,
}

impl TimelineOptions {
    /// Refuses the options beside one that they do not go together with.
    pub fn check_absent(&self, option: &str) -> Result<(), Failure> {
        match self.timeline {
            None => Ok(()),
            Some(_) => Err(Failure::asked(anyhow!(
                "--timeline and {option} do not go together; allowed: one of them"
            ))),
        }
    }

    /// Begins the file, if one is asked for, and lets the subjects record; what cannot be is refused. `jobs`: the work, if it is jobs.
    pub fn begin<'a>(
        &self,
        subjects: impl Iterator<Item = &'a mut Subject>,
        jobs: &[Job],
        global: &Global,
    ) -> Result<Option<TimelineFile>, Failure> {
        let Some(path) = &self.timeline else { return Ok(None) };
        let part = self.part()?;
        output::refuse_answer_place("--timeline", path)?;
        if let Some(end) = latest_end(jobs).filter(|end| part.window.0.0 > end.0) {
            return Err(self.past_the_end(end, "is over at the latest"));
        }
        for subject in subjects {
            check(subject, path)?;
            subject.record(part);
        }
        let is_ours = |file: &std::fs::File| begins_with(file, &[TIMELINE_BEGINNING]);
        refuse_foreign(path, global.force, is_ours)?;
        Ok(Some(TimelineFile {
            path: path.clone(),
            file: OutputFile::create(path)?,
            options: self.clone(),
            part,
        }))
    }

    /// The refusal of a window that begins after the run, which `is_over` at `end`.
    fn past_the_end(&self, end: Nanos, is_over: &str) -> Failure {
        Failure::asked(anyhow!(
            "--timeline-window {}: the run {is_over} {} after the measurement began; allowed: a window that begins before",
            self.timeline_window.as_deref().unwrap_or_default(),
            duration(end.0 as f64)
        ))
    }

    /// The part of the run that is asked for.
    fn part(&self) -> Result<TimelinePart, Failure> {
        let slower_than = match &self.timeline_slower {
            None => Nanos::ZERO,
            Some(text) => Nanos(time("--timeline-slower", text, text)?),
        };
        let whole = TimelinePart::whole(ENTRIES_MAX);
        let window = self.timeline_window.as_deref().map_or(Ok(whole.window), window)?;
        Ok(TimelinePart { window, slower_than, ..whole })
    }
}

/// When jobs are over at the latest, from the moment when the first of them counts; `None`: their time has no bound that is known before. Their last
/// requests may end a little later.
fn latest_end(jobs: &[Job]) -> Option<Nanos> {
    let each = jobs.iter().map(|job| {
        let runtime = job.runtime.filter(|_| job.app.is_none())?;
        Some(job.start_delay.0.saturating_add(job.ramp_time.0).saturating_add(runtime.0))
    });
    let each = each.collect::<Option<Vec<u64>>>().filter(|each| !each.is_empty())?;
    // One may wait for all others.
    let in_turn = jobs.iter().any(|job| job.stonewall || job.wait_for.is_some());
    let sum = each.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
    Some(Nanos(if in_turn { sum } else { each.into_iter().max()? }))
}

/// `FROM..TO`, either of which may be missing.
fn window(text: &str) -> Result<(Nanos, Nanos), Failure> {
    let option = "--timeline-window";
    let Some((from, to)) = text.split_once("..") else {
        return Err(Failure::asked(anyhow!(
            "{option} {text}: no range; allowed: FROM..TO, such as 10ms..12ms"
        )));
    };
    let from = if from.is_empty() { 0 } else { time(option, text, from)? };
    let to = if to.is_empty() { u64::MAX } else { time(option, text, to)? };
    match from < to {
        true => Ok((Nanos(from), Nanos(to))),
        false => Err(Failure::asked(anyhow!(
            "{option} {text}: the end is before the beginning; allowed: a later end"
        ))),
    }
}

/// A duration in an option's value.
fn time(option: &str, whole: &str, text: &str) -> Result<u64, Failure> {
    let read = Quantity::Time.read_text(text);
    read.ok_or_else(|| {
        let syntax = Quantity::Time.syntax();
        Failure::asked(anyhow!("{option} {whole}: {text:?} cannot be read; allowed: {syntax}"))
    })
}

/// Refuses a timeline that could not be recorded, or would take the place of another file.
fn check(subject: &Subject, path: &Path) -> Result<(), Failure> {
    let refuse = |message: &str| Err(Failure::asked(anyhow!("--timeline {}: {message}", path.display())));
    if subject.spec.medium == Medium::Disk {
        return refuse(&format!(
            "{} is a disk, which has no channels; allowed: a drive of flash",
            subject.spec.drive_name
        ));
    }
    let run = &subject.spec.run;
    if run.report.as_ref().is_some_and(|report| is_replaced(report, path)) {
        return refuse("the report in that directory has a file of this name; allowed: another name");
    }
    if subject.logs_to(path) {
        return refuse("the log of requests writes it, too; allowed: another name");
    }
    subject.refuse_input("--timeline", path)
}

/// A sentence on a record that was full before the end of its window; for the warnings of the report.
pub fn warning(timeline: &Timeline) -> Option<String> {
    timeline.is_full.then(|| {
        format!(
            "the timeline is full after {} with {} entries; for another part of the run: --timeline-window FROM..TO, or \
             --timeline-slower TIME",
            duration(timeline.to.since(timeline.from).0 as f64),
            count(timeline.entries() as u64)
        )
    })
}

/// The file of a timeline, which is written when the work is done.
#[derive(Debug)]
pub struct TimelineFile {
    path: PathBuf,
    file: OutputFile,
    options: TimelineOptions,
    part: TimelinePart,
}

impl TimelineFile {
    /// Writes the timelines of these reports, and says what is in the file.
    ///
    /// # Errors
    /// Nothing was recorded, or the file cannot be written.
    pub fn finish(mut self, reports: &[Report], global: &Global) -> Result<(), Failure> {
        let timelines: Vec<(&str, &Timeline)> = reports
            .iter()
            .filter_map(|report| Some((report.drive.name.as_str(), report.timeline.as_ref()?)))
            .collect();
        let entries: usize = timelines.iter().map(|(_, timeline)| timeline.entries()).sum();
        // Times of a report are exact to the nanosecond.
        let end = reports.iter().map(|report| (report.simulated_seconds * 1e9).round() as u64).max();
        if let Some(end) = end.filter(|&end| entries == 0 && self.part.window.0.0 >= end) {
            return Err(self.options.past_the_end(Nanos(end), "was over"));
        }
        if entries == 0 {
            return Err(Failure::work(anyhow!(
                "--timeline {}: nothing was recorded: no request as slow as that, or none in the window, completed",
                self.path.display()
            )));
        }
        let trace = to_perfetto(&timelines);
        self.file.writer()?.write_all(&trace).map_err(|error| self.file.failed(error))?;
        self.file.commit()?;
        let entries = count(entries as u64);
        output::notice(
            global,
            &format!(
                "timeline  {}  ({entries} entries; open it at https://ui.perfetto.dev)",
                self.path.display()
            ),
        );
        Ok(())
    }
}
