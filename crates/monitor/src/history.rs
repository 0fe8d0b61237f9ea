//! History of the monitored drives since the monitor's start, in bounded memory.
//!
//! ```text
//!  each second: view ─► sample of each drive ─► its track ─ full? ─► drops the least informative sample
//!                                                  └─► columns (/history.json)
//! ```
//! Samples hold counters, not rates, so dropping one loses nothing of the sums: the interval around it becomes longer. The dropped sample is the one
//! whose interval is shortest relative to its age, so intervals grow with age: 512 samples keep a day in steps of about a fortieth of their age, and
//! the last half minute in full.
//!
//! Invariants: a track holds at most [`SAMPLES_MAX`] samples, the first and the last among them; gauges keep their maximum.

use crate::figures::{DriveFigures, Figures, SCHEMA_VERSION};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of samples per drive.
const SAMPLES_MAX: usize = 512;

/// Counters whose growth is a fault, by their names in the figures.
const FAULTS: [&str; 7] = [
    "uncorrectable_reads",
    "program_failures",
    "erase_failures",
    "grown_bad_blocks",
    "power_cuts",
    "read_only",
    "failed_commands",
];

/// One drive at one moment; counters since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    wall_seconds: f64,
    simulated_ns: u64,
    host_read_bytes: u64,
    host_written_bytes: u64,
    programmed_bytes: u64,
    way_busy_ns: u64,
    /// Observed maximum since the previous sample.
    outstanding_commands: u32,
    faults: [u64; FAULTS.len()],
}

impl Sample {
    fn of(wall_seconds: f64, drive: &DriveFigures) -> Sample {
        let failed = drive.watched.iter().flat_map(|watched| watched.commands.values());
        Sample {
            wall_seconds,
            simulated_ns: drive.simulated_ns,
            host_read_bytes: drive.host_read_bytes,
            host_written_bytes: drive.host_written_bytes,
            programmed_bytes: drive.programmed_bytes.values().sum(),
            way_busy_ns: drive.way_busy_ns.iter().sum(),
            outstanding_commands: drive.outstanding_commands,
            faults: [
                drive.uncorrectable_reads,
                drive.program_failures,
                drive.erase_failures,
                drive.grown_bad_blocks,
                drive.power_cuts,
                drive.read_only.into(),
                failed.map(|commands| commands.failed).sum(),
            ],
        }
    }

    /// Reports whether a later sample must be of another drive.
    fn is_of_another(&self, later: &Sample) -> bool {
        later.wall_seconds < self.wall_seconds
            || later.host_read_bytes < self.host_read_bytes
            || later.host_written_bytes < self.host_written_bytes
    }
}

/// Samples of one drive, oldest first.
#[derive(Clone, Debug, Default)]
struct Track(Vec<Sample>);

impl Track {
    fn take(&mut self, sample: Sample) {
        match self.0.last() {
            Some(last) if last.is_of_another(&sample) => self.0.clear(),
            Some(last) if last.wall_seconds == sample.wall_seconds => return,
            _ => {}
        }
        self.0.push(sample);
        if self.0.len() > SAMPLES_MAX {
            self.forget();
        }
    }

    /// Drops the sample, neither the first nor the last, whose interval is shortest relative to its age.
    fn forget(&mut self) {
        let newest = self.0.last().map_or(0.0, |sample| sample.wall_seconds);
        let weight = |at: usize| {
            let [before, this, after] = [at - 1, at, at + 1].map(|at| self.0[at].wall_seconds);
            (after - before) / (newest - this)
        };
        let least = (1..self.0.len() - 1).min_by(|&a, &b| weight(a).total_cmp(&weight(b)));
        if let Some(at) = least {
            let gone = self.0.remove(at);
            let after = &mut self.0[at];
            after.outstanding_commands = after.outstanding_commands.max(gone.outstanding_commands);
        }
    }

    fn columns(&self, name: &str) -> TrackColumns {
        fn column<T>(track: &Track, value: impl Fn(&Sample) -> T) -> Vec<T> {
            track.0.iter().map(value).collect()
        }
        TrackColumns {
            name: name.into(),
            wall_seconds: column(self, |sample| sample.wall_seconds),
            simulated_ns: column(self, |sample| sample.simulated_ns),
            host_read_bytes: column(self, |sample| sample.host_read_bytes),
            host_written_bytes: column(self, |sample| sample.host_written_bytes),
            programmed_bytes: column(self, |sample| sample.programmed_bytes),
            way_busy_ns: column(self, |sample| sample.way_busy_ns),
            outstanding_commands: column(self, |sample| sample.outstanding_commands),
            faults: (0..).zip(FAULTS).map(|(i, name)| (name, column(self, |s| s.faults[i]))).collect(),
        }
    }
}

/// History of every present drive.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(BTreeMap<String, Track>);

impl History {
    /// Samples each drive, and drops the history of drives that are gone.
    pub(crate) fn take(&mut self, figures: &Figures) {
        self.0.retain(|name, _| figures.drives.iter().any(|drive| drive.name == *name));
        for drive in &figures.drives {
            let track = self.0.entry(drive.name.clone()).or_default();
            track.take(Sample::of(figures.wall_seconds, drive));
        }
    }

    /// Converts the history to the form that is sent.
    pub(crate) fn columns(&self) -> HistoryColumns {
        let drives = self.0.iter().map(|(name, track)| track.columns(name)).collect();
        HistoryColumns { schema_version: SCHEMA_VERSION, drives }
    }
}

/// Response of `/history.json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HistoryColumns {
    schema_version: u32,
    drives: Vec<TrackColumns>,
}

/// One column per figure, one entry per sample.
#[derive(Clone, Debug, Serialize)]
struct TrackColumns {
    name: String,
    wall_seconds: Vec<f64>,
    simulated_ns: Vec<u64>,
    host_read_bytes: Vec<u64>,
    host_written_bytes: Vec<u64>,
    programmed_bytes: Vec<u64>,
    way_busy_ns: Vec<u64>,
    outstanding_commands: Vec<u32>,
    faults: BTreeMap<&'static str, Vec<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive that writes 10 bytes per second, at a second of its life.
    fn at(second: u64, more: impl Fn(&mut DriveFigures)) -> Figures {
        let mut drive = DriveFigures {
            name: "d".into(),
            simulated_ns: second * 1_000_000_000,
            host_written_bytes: 10 * second,
            ..DriveFigures::default()
        };
        more(&mut drive);
        Figures { wall_seconds: second as f64, drives: vec![drive], ..Figures::default() }
    }

    fn after(seconds: u64, more: impl Fn(u64, &mut DriveFigures)) -> TrackColumns {
        let mut history = History::default();
        (0..=seconds).for_each(|second| history.take(&at(second, |drive| more(second, drive))));
        history.columns().drives.remove(0)
    }

    #[test]
    fn a_day_is_kept_from_its_start_in_bounded_memory() {
        let day = 86_400;
        let track = after(day, |_, _| {});
        let times = &track.wall_seconds;
        assert_eq!((times.len(), times[0], times[SAMPLES_MAX - 1]), (SAMPLES_MAX, 0.0, day as f64));
        assert!(times.is_sorted());
        for pair in times.windows(2) {
            let (step, age) = (pair[1] - pair[0], day as f64 - pair[0]);
            assert!(step <= 1.0 + age / 12.0, "a step of {step} s, {age} s ago");
        }
        let recent = times.iter().filter(|time| **time > day as f64 - 20.0).count();
        assert_eq!(recent, 20, "the last seconds are kept in full");
        let written = &track.host_written_bytes;
        assert!(
            times.iter().zip(written).all(|(time, bytes)| *bytes as f64 == 10.0 * time),
            "sums are exact"
        );
    }

    #[test]
    fn a_fault_and_a_peak_are_not_forgotten() {
        let track = after(20_000, |second, drive| {
            drive.program_failures = u64::from(second >= 777);
            drive.outstanding_commands = if second == 900 { 99 } else { 1 };
        });
        let failures = &track.faults["program_failures"];
        let marked: Vec<usize> = (1..failures.len()).filter(|&i| failures[i] > failures[i - 1]).collect();
        let [mark] = marked[..] else { panic!("marks at {marked:?}") };
        assert!(track.wall_seconds[mark - 1] < 777.0 && track.wall_seconds[mark] >= 777.0);
        assert_eq!(track.outstanding_commands.iter().max(), Some(&99));
    }

    #[test]
    fn a_moment_counts_once_and_another_drive_begins_anew() {
        let mut history = History::default();
        for second in [1, 1, 2] {
            history.take(&at(second, |_| {}));
        }
        assert_eq!(history.columns().drives[0].wall_seconds, [1.0, 2.0]);
        history.take(&at(3, |drive| drive.host_written_bytes = 0));
        assert_eq!(history.columns().drives[0].wall_seconds, [3.0]);
        history.take(&Figures::default());
        assert!(history.columns().drives.is_empty(), "a drive that is gone");
    }
}
