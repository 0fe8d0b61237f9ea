//! State of the view: the newest figures, and earlier ones from which rates are computed.
//!
//! Rates of the drive are per simulated second: they are the drive's own speed, and equal the real rates if it is served in real time. The
//! window is the last two seconds of real time, or everything since the start.

use pellucid_monitor::{Bins, CommandFigures, DriveFigures, Figures, WatchedFigures};
use std::collections::{BTreeMap, VecDeque};

/// Pictures that the window spans.
const WINDOW: usize = 8;
/// Points of the throughput curves.
const POINTS: usize = 240;

/// Rates of one drive between two pictures, per simulated second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Bytes read.
    pub read: f64,
    /// Bytes written.
    pub written: f64,
}

/// The state of the view.
pub struct Model {
    frames: VecDeque<Figures>,
    points: BTreeMap<String, VecDeque<Point>>,
    since_start: bool,
    drive: usize,
    /// Said while there are no figures.
    pub waiting: String,
}

impl Model {
    /// A view without figures.
    pub fn new(waiting: &str) -> Model {
        Model {
            frames: VecDeque::new(),
            points: BTreeMap::new(),
            since_start: false,
            drive: 0,
            waiting: waiting.into(),
        }
    }

    /// Takes newer figures.
    pub fn push(&mut self, figures: Figures) {
        if let Some(last) = self.frames.back() {
            // Repeated figures are dropped; older figures come from a restarted server.
            if last.wall_seconds == figures.wall_seconds {
                return;
            }
            if last.wall_seconds > figures.wall_seconds {
                self.frames.clear();
            }
        }
        for (at, drive) in figures.drives.iter().enumerate() {
            let points = self.points.entry(drive.name.clone()).or_default();
            let before = self.frames.back().and_then(|f| f.drives.get(at)).filter(|d| d.name == drive.name);
            points.push_back(before.map_or_else(Point::default, |before| point(before, drive)));
            if points.len() > POINTS {
                points.pop_front();
            }
        }
        self.frames.push_back(figures);
        if self.frames.len() > WINDOW + 1 {
            self.frames.pop_front();
        }
    }

    /// Returns whether there are no figures yet.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Looks at the other window: the last two seconds, or since the start.
    pub fn turn_window(&mut self) {
        self.since_start = !self.since_start;
    }

    /// Looks at the next drive.
    pub fn next_drive(&mut self) {
        self.drive += 1;
    }

    /// Looks at the drive of this name.
    pub fn choose(&mut self, name: &str) -> bool {
        let found = self.figures().and_then(|f| f.drives.iter().position(|d| d.name == name));
        self.drive = found.unwrap_or(self.drive);
        found.is_some()
    }

    /// The newest figures.
    pub fn figures(&self) -> Option<&Figures> {
        self.frames.back()
    }

    /// Returns the picture of the chosen drive.
    pub fn scene(&self) -> Option<Scene<'_>> {
        let figures = self.frames.back()?;
        let at = self.drive % figures.drives.len().max(1);
        let drive = figures.drives.get(at)?;
        let earlier = self.frames.front().filter(|_| !self.since_start && self.frames.len() > 1);
        let before = earlier.and_then(|f| f.drives.get(at)).filter(|d| d.name == drive.name);
        let points = self.points.get(&drive.name)?;
        Some(Scene { figures, earlier, drive, before, points, since_start: self.since_start })
    }
}

fn point(before: &DriveFigures, drive: &DriveFigures) -> Point {
    let seconds = drive.simulated_ns.saturating_sub(before.simulated_ns) as f64 / 1e9;
    let rate =
        |now: u64, then: u64| if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 };
    Point {
        read: rate(drive.host_read_bytes, before.host_read_bytes),
        written: rate(drive.host_written_bytes, before.host_written_bytes),
    }
}

/// One drive, with its state at the beginning of the window.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The newest figures.
    pub figures: &'a Figures,
    /// Figures at the beginning of the window; `None`: the start.
    pub earlier: Option<&'a Figures>,
    /// The drive.
    pub drive: &'a DriveFigures,
    /// The drive at the beginning of the window; `None`: the start.
    pub before: Option<&'a DriveFigures>,
    /// Throughput over time.
    pub points: &'a VecDeque<Point>,
    /// The window is everything.
    pub since_start: bool,
}

impl<'a> Scene<'a> {
    /// Simulated time in the window, ns; at least 1.
    pub fn elapsed_ns(&self) -> u64 {
        let start = match self.before {
            Some(before) => before.simulated_ns,
            None => self.drive.watched.as_ref().map_or(0, |watched| watched.since_ns),
        };
        self.drive.simulated_ns.saturating_sub(start).max(1)
    }

    /// Returns the growth of a counter in the window.
    pub fn grown(&self, of: impl Fn(&DriveFigures) -> u64) -> u64 {
        of(self.drive).saturating_sub(self.before.map_or(0, of))
    }

    /// As [`Scene::grown`], per simulated second.
    pub fn rate(&self, of: impl Fn(&DriveFigures) -> u64) -> f64 {
        self.grown(of) as f64 * 1e9 / self.elapsed_ns() as f64
    }

    /// Growth of counters by name.
    pub fn grown_by(&self, of: impl Fn(&DriveFigures) -> &BTreeMap<String, u64>) -> Vec<(&'a str, u64)> {
        let before = self.before.map(&of);
        let grown =
            |(name, n): (&String, u64)| n - before.and_then(|b| b.get(name)).map_or(0, |b| (*b).min(n));
        let names = self.drive.programmed_bytes.keys();
        let now = of(self.drive);
        names.map(|name| (name.as_str(), grown((name, now.get(name).copied().unwrap_or(0))))).collect()
    }

    /// Returns the growth of each element of a list of busy times, as a share of the window's time.
    pub fn shares(&self, of: impl Fn(&DriveFigures) -> &[u64]) -> Vec<f64> {
        let elapsed = self.elapsed_ns() as f64;
        let before = self.before.map(&of);
        let then = |i: usize| before.and_then(|b| b.get(i).copied()).unwrap_or(0);
        of(self.drive).iter().enumerate().map(|(i, ns)| ns.saturating_sub(then(i)) as f64 / elapsed).collect()
    }

    /// Bins as they have grown.
    pub fn bins(&self, of: impl Fn(&WatchedFigures) -> Option<&Bins>) -> Bins {
        let Some(now) = self.drive.watched.as_ref().and_then(&of) else { return Bins::default() };
        let before = self.before.and_then(|b| b.watched.as_ref()).and_then(of);
        before.map_or_else(|| now.clone(), |before| now.since(before))
    }

    /// Commands of a kind: latency and stages as they have grown.
    pub fn command(&self, kind: &str) -> CommandFigures {
        let Some(now) = self.drive.watched.as_ref().and_then(|w| w.commands.get(kind)) else {
            return CommandFigures::default();
        };
        let stages = now.stages.keys().map(|stage| {
            let bins = self.bins(|w| w.commands.get(kind)?.stages.get(stage));
            (stage.clone(), bins)
        });
        CommandFigures {
            failed: now.failed,
            latency: self.bins(|w| Some(&w.commands.get(kind)?.latency)),
            stages: stages.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(wall: f64, ns: u64, read: u64) -> Figures {
        let drive =
            DriveFigures { name: "d".into(), simulated_ns: ns, host_read_bytes: read, ..Default::default() };
        Figures { wall_seconds: wall, drives: vec![drive], ..Default::default() }
    }

    #[test]
    fn rates_are_those_of_the_window_or_of_everything() {
        let mut model = Model::new("");
        for i in 0..=20u64 {
            // Ever faster: i bytes in the i-th nanosecond.
            model.push(figures(i as f64, i, i * (i + 1) / 2));
        }
        let scene = model.scene().unwrap();
        assert_eq!((scene.elapsed_ns(), scene.grown(|d| d.host_read_bytes)), (8, 210 - 78));
        assert_eq!(scene.points.back().unwrap().read, 20e9);
        model.turn_window();
        assert_eq!(model.scene().unwrap().grown(|d| d.host_read_bytes), 210);
    }

    #[test]
    fn a_server_that_was_started_anew_begins_anew_and_repeats_are_dropped() {
        let mut model = Model::new("");
        model.push(figures(5.0, 50, 500));
        model.push(figures(5.0, 50, 500));
        assert_eq!(model.frames.len(), 1);
        model.push(figures(1.0, 10, 20));
        assert_eq!(model.scene().unwrap().grown(|d| d.host_read_bytes), 20);
        assert!(!model.choose("other") && model.choose("d"));
        model.next_drive();
        assert_eq!(model.scene().unwrap().drive.name, "d");
    }
}
