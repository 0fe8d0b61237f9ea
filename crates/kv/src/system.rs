//! A cache on a drive, as servers and experiments run it.

use crate::{Answer, Ask, ClassStatistics, EngineKind, Kv, KvConfig, KvStatistics};
use pellucid_flash::{Drive, Figure, Interface, SimTime};
use pellucid_host::{Machine, Stack};
use pellucid_prism::{Monitor, MonitorConfig, MonitorError, Request};

/// A cache on a drive. The calls are those of [`Stack`]: `ask` and `advance` move time forward, `answer` returns answers, `next_event` gives the time
/// of the next call.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub enum System<D> {
    /// Without a library: `original` and `direct`.
    Plain(Stack<Kv, D>),
    /// On the flash library: `policy`, `function` and `raw`.
    Library(Stack<Kv, Monitor<D>>),
}

/// Evaluates an expression with either stack.
macro_rules! each {
    ($system:expr, $stack:ident => $do:expr) => {
        match $system {
            System::Plain($stack) => $do,
            System::Library($stack) => $do,
        }
    };
}

/// Puts a cache on `drive`, at `now`, and runs it until it has started.
///
/// The error is a sentence.
pub fn build<D: Drive>(drive: D, config: &KvConfig, now: SimTime) -> Result<System<D>, String> {
    build_by(drive, config, now, |_, next| next)
}

/// Like [`build`]; `wait` advances time as in [`Stack::call_by`].
///
/// The error is a sentence.
pub fn build_by<D: Drive>(
    drive: D,
    config: &KvConfig,
    now: SimTime,
    mut wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
) -> Result<System<D>, String> {
    config.check()?;
    config.check_flash(flash_bytes(&drive))?;
    if matches!(config.engine, EngineKind::Original | EngineKind::Direct) {
        let kv = Kv::new(config, &drive)?;
        return Ok(System::Plain(Stack::start_by(kv, drive, now, wait)?));
    }
    let sentence = |why: MonitorError| {
        match why {
        MonitorError::NotBlank { blocks } => format!(
            "{blocks} blocks of the flash hold what another engine, or something else, has written; allowed: that engine, or blank media"
        ),
        MonitorError::OtherDrive => {
            "what the flash library has on the flash is of a drive of another shape; allowed: that drive, or blank media".into()
        }
        MonitorError::NotFlash => crate::engine::no_chunks(config.engine.name()),
        why => why.to_string(),
    }
    };
    let mut monitor = Monitor::start_by(drive, MonitorConfig::default(), now, &mut wait).map_err(sentence)?;
    let known = monitor.applications().any(|application| application.name == config.application);
    if known {
        monitor.open(&config.application).map_err(sentence)?;
    } else {
        let all = u64::from(monitor.largest_luns()) * monitor.lun_bytes();
        if all == 0 {
            return Err(
                "too few good blocks: no LUN of the drive has enough of them for an application".into()
            );
        }
        let capacity_bytes = if config.capacity_bytes == 0 { all } else { config.capacity_bytes };
        let request = Request { capacity_bytes, over_provisioning: 0.0 };
        monitor.allocate_by(&config.application, request, &mut wait).map_err(sentence)?;
    }
    let (kv, now) = (Kv::new(config, &monitor)?, monitor.now());
    let below = |monitor: &mut Monitor<D>, next| wait(&mut monitor.drive, next);
    Ok(System::Library(Stack::start_by(kv, monitor, now, below)?))
}

/// Size of the largest namespace that can hold a cache, in bytes.
fn flash_bytes(drive: &impl Drive) -> u64 {
    let sectors = (0..drive.namespaces()).map(|number| match drive.interface(number) {
        Some(Interface::Block { sectors, .. }) => sectors,
        Some(Interface::OpenChannel(shape)) => {
            u64::from(shape.parallel_units()) * u64::from(shape.chunks) * u64::from(shape.chunk_sectors)
        }
        _ => 0,
    });
    sectors.max().unwrap_or(0) * drive.image_bytes() as u64
}

impl<D: Drive> System<D> {
    /// Cuts and restores the drive's power with `cut`, which returns the time; the cache then restarts on it.
    ///
    /// The error is a sentence.
    pub fn power_cut<R>(
        &mut self,
        cut: impl FnOnce(&mut D) -> Result<(R, SimTime), String>,
    ) -> Result<R, String> {
        match self {
            System::Plain(stack) => {
                let (result, now) = cut(&mut stack.drive)?;
                stack.restart(now).map(|()| result)
            }
            System::Library(stack) => {
                let (result, now) = cut(&mut stack.drive.drive)?;
                stack.drive.restart(now).map_err(|why| why.to_string())?;
                stack.restart(now).map(|()| result)
            }
        }
    }

    /// Submits a request at `now`, not before the last [`System::advance`].
    #[inline]
    pub fn ask(&mut self, now: SimTime, ask: Ask) {
        each!(self, stack => stack.ask(now, ask));
    }

    /// The next answer.
    #[inline]
    pub fn answer(&mut self) -> Option<Answer> {
        each!(self, stack => stack.answer())
    }

    /// Number of answers that wait for [`System::answer`].
    #[inline]
    pub fn answered(&self) -> usize {
        each!(self, stack => stack.layer.answered())
    }

    /// Number of requests whose answer was not taken.
    #[inline]
    pub fn asked(&self) -> usize {
        each!(self, stack => stack.asked())
    }

    /// Runs everything that is due by `now`.
    #[inline]
    pub fn advance(&mut self, now: SimTime) {
        each!(self, stack => stack.advance(now));
    }

    /// Time of the next internal event; `None` if idle.
    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        each!(self, stack => stack.next_event())
    }

    /// Simulated time.
    pub fn now(&self) -> SimTime {
        each!(self, stack => stack.now())
    }

    /// The cache.
    pub fn kv(&self) -> &Kv {
        each!(self, stack => &stack.layer)
    }

    /// The cache, for its buffers.
    pub fn kv_mut(&mut self) -> &mut Kv {
        each!(self, stack => &mut stack.layer)
    }

    /// The drive below.
    pub fn drive(&self) -> &D {
        match self {
            System::Plain(stack) => &stack.drive,
            System::Library(stack) => &stack.drive.drive,
        }
    }

    /// The drive, to exchange data with one that runs in wall time. No other caller submits to it.
    pub fn drive_mut(&mut self) -> &mut D {
        match self {
            System::Plain(stack) => &mut stack.drive,
            System::Library(stack) => &mut stack.drive.drive,
        }
    }

    /// Applies an action to the drive at `now`, outside of its commands, and handles the effects.
    pub fn act_on_drive<R>(&mut self, now: SimTime, act: impl FnOnce(&mut D) -> R) -> R {
        match self {
            System::Plain(stack) => stack.act_on_drive(now, act),
            System::Library(stack) => stack.act_on_drive(now, |monitor| monitor.act_on_drive(now, act)),
        }
    }

    /// Stops the cache; with `warm_restart`, the next start on this drive restores its content.
    ///
    /// The error is a sentence; the next start is then empty.
    pub fn stop(&mut self) -> Result<(), String> {
        self.stop_by(|_, next| next)
    }

    /// Like [`System::stop`]; `wait` advances time as in [`Stack::call_by`].
    ///
    /// The error is a sentence.
    pub fn stop_by(
        &mut self,
        mut wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<(), String> {
        match self {
            System::Plain(stack) => stack.stop_by(&mut wait)?,
            System::Library(stack) => stack.stop_by(|monitor, next| wait(&mut monitor.drive, next))?,
        }
        // Ends the library's background work, so that the drive can be handed over.
        while self.drive().outstanding() > 0 {
            let next = self.next_event();
            let Some(now) = wait(self.drive_mut(), next) else { break };
            self.advance(now);
        }
        Ok(())
    }

    /// Returns the drive with its content.
    pub fn into_drive(self) -> D {
        match self {
            System::Plain(stack) => stack.drive,
            System::Library(stack) => stack.drive.drive,
        }
    }

    /// Returns the counters.
    pub fn statistics(&self) -> KvStatistics {
        self.kv().statistics()
    }

    /// Returns the counters of each slab class.
    pub fn classes(&self) -> Vec<ClassStatistics> {
        self.kv().classes()
    }

    /// Returns all counters, by name.
    pub fn figures(&self) -> Vec<Figure> {
        self.kv().figures()
    }
}
