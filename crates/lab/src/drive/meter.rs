//! Measures a drive used directly by an application, like a run that supplies it with requests.
//!
//! ```text
//!   application ─► Meter ─► drive, or layers on it
//!                   └─► recorder, series, logs, film, timeline        from [`AppDrive::begin`] on
//! ```
//! The application sees the drive itself: its commands and their times are the same with and without the meter.

use super::{AppDrive, LOOK_ROUNDS, Measured, NEVER, Onlooker, Run, RunError, Source, Target, TimedDrive};
use pellucid_device::Device;
use pellucid_film::Clock;
use pellucid_flash::{Command, Completion, Drive, Interface, Lba, Notice, SimTime, Tag};
use pellucid_report::RequestSink;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A measured drive below an application.
pub struct Meter<'a, T: Target> {
    run: Run<'a, T>,
    onlooker: &'a mut dyn Onlooker,
    /// Commands in flight by drive tag: the application's own tag, which several of its commands may share, first address and number of sectors.
    in_flight: BTreeMap<Tag, (Tag, Lba, u32)>,
    /// Drive tag of the last command.
    last_tag: Tag,
    rounds: u32,
    stopped: Rc<Cell<bool>>,
    /// The first log that failed.
    failed: Option<RunError>,
}

impl<'a, T: Target> Meter<'a, T> {
    /// Puts a meter on a drive without starting a measurement.
    pub fn new(
        device: &'a mut T,
        logs: Vec<Box<dyn RequestSink>>,
        onlooker: &'a mut dyn Onlooker,
    ) -> Meter<'a, T> {
        if onlooker.watches()
            && let Some(device) = device.flash_mut()
        {
            device.watch();
        }
        let mut run = Run::new(device, Source::Application, None, logs);
        run.timeline = onlooker.timeline();
        run.films = run.device.flash().is_some()
            && onlooker.film().is_some_and(|film| film.clock() == Clock::SimulatedNs);
        Meter {
            run,
            onlooker,
            in_flight: BTreeMap::new(),
            last_tag: 0,
            rounds: 0,
            stopped: Rc::default(),
            failed: None,
        }
    }

    /// Ends the measurement at `end`, to which the drive has been advanced, and lets the drive become idle.
    ///
    /// # Errors
    /// A log could not be written.
    pub fn finish(mut self, end: SimTime) -> Result<Measured, RunError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.run.sample(end);
        if let Some(film) = self.onlooker.film().filter(|_| self.run.films) {
            self.run.film(end, film);
        }
        if let Some(timeline) = self.run.device.flash_mut().and_then(Device::take_timeline) {
            self.onlooker.keep_timeline(timeline);
        }
        Measured::take(self.run, end, self.onlooker)
    }

    /// Takes the samples due by `now`, each at its time.
    #[inline]
    fn sample_by(&mut self, now: SimTime) {
        while !self.run.warming && self.run.sample_due() <= now && self.run.sample_due() != NEVER {
            let due = self.run.sample_due();
            self.run.device.advance(due);
            self.run.sample_until(due, self.onlooker.film());
        }
    }

    fn sample_due(&self) -> SimTime {
        if self.run.warming { NEVER } else { self.run.sample_due() }
    }

    fn look(&mut self, now: SimTime) {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(LOOK_ROUNDS)
            && self.onlooker.look(self.run.device.flash(), self.run.progress(now)).is_break()
        {
            self.stopped.set(true);
        }
    }

    /// Gives a completion its application's tag, and counts it.
    fn count(&mut self, completion: &mut Completion) {
        let of = self.in_flight.remove(&completion.tag);
        let (tag, lba, sectors) = of.expect("a completion of a command under way");
        completion.tag = tag;
        self.run.last_completion = completion.completed;
        if self.run.warming || completion.submitted < self.run.measured_from {
            return;
        }
        if let Err(error) = self.run.count(completion, lba, sectors, 0, 1) {
            self.failed.get_or_insert(error);
        }
    }
}

impl<T: Target> AppDrive for Meter<'_, T> {
    fn begin(&mut self) {
        let now = self.run.device.now();
        self.run.measure_from(now);
    }

    fn stopped(&self) -> Rc<Cell<bool>> {
        self.stopped.clone()
    }
}

impl<T: Target> Drive for Meter<'_, T> {
    fn namespaces(&self) -> u16 {
        self.run.device.namespaces()
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        self.run.device.interface(namespace)
    }

    fn image_bytes(&self) -> usize {
        self.run.device.image_bytes()
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.sample_by(now);
        self.last_tag += 1;
        self.in_flight.insert(self.last_tag, (command.tag, command.lba, command.sectors));
        self.run.submitted += 1;
        self.run.device.submit(now, Command { tag: self.last_tag, ..command });
    }

    fn advance(&mut self, now: SimTime) {
        self.sample_by(now);
        self.run.device.advance(now);
        self.look(now);
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        let mut now = now;
        self.look(now);
        loop {
            self.sample_by(now);
            let stop = limit.min(self.sample_due());
            now = self.run.device.advance_to_completion(now, stop);
            match self.run.device.next_event() {
                // The event was only a sample.
                Some(next) if self.run.device.completed() == 0 && stop <= next && next < limit => now = next,
                _ => return now,
            }
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        self.run.device.next_event()
    }

    fn pop(&mut self) -> Option<Completion> {
        let mut completion = self.run.device.pop()?;
        self.count(&mut completion);
        Some(completion)
    }

    fn outstanding(&self) -> usize {
        self.run.device.outstanding()
    }

    fn completed(&self) -> usize {
        self.run.device.completed()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        self.run.device.pop_notice()
    }
}

impl<T: Target> TimedDrive for Meter<'_, T> {
    fn now(&self) -> SimTime {
        self.run.device.now()
    }

    fn sector_bytes(&self) -> u32 {
        self.run.device.sector_bytes()
    }

    fn drain(&mut self) -> Result<(), String> {
        self.run.device.drain()
    }
}
