//! The store of the items: a cache on a drive, or any other backend for the same requests.

use crate::drive::{Bottom, Pace, Served, Waiter};
use crate::engine::{Answered, Backend};
use crate::event::Event;
use mio::{Poll, Token, Waker};
use pellucid_device::Device;
use pellucid_flash::{Drive, Figure, SimTime};
use pellucid_host::Tower;
use pellucid_kv::{Answer, Ask, ClassStatistics, Key, KvConfig, KvStatistics, System, build_by};
use pellucid_target::CutReport;
use pellucid_target::request::{Action, Outcome};
use serde_json::Value;
use std::sync::Arc;

const NO_DRIVE: &str = "the cache stands on no modelled drive";

/// A backend of [`KvService`](super::KvService).
pub trait Cache: Backend<Ask = Ask, Answer = Answer> + 'static {
    /// Provides an empty buffer for the value of a store.
    fn buffer(&mut self) -> Vec<u8>;

    /// Takes back the buffer of an answer's value, or one of [`Cache::buffer`].
    fn give_back(&mut self, buffer: Vec<u8>);

    /// Prefetches the memory for a request with this key, which will follow soon.
    fn prefetch(&self, _key: &Key) {}

    /// Upper bound of the length of a key's value now; pending requests may change it.
    fn value_bytes_max(&self, key: &Key) -> usize;

    /// Counters of the cache.
    fn statistics(&self) -> KvStatistics;

    /// Counters of each slab class.
    fn classes(&self) -> Vec<ClassStatistics> {
        Vec::new()
    }

    /// Counters of the cache, by name.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// The modelled drive at the bottom, if there is one.
    fn device(&self) -> Option<&Device> {
        None
    }

    /// Acts on the drive and returns the result for the control socket.
    ///
    /// # Errors
    /// Returns one sentence if the action cannot be done.
    fn act(&mut self, _action: Action) -> Result<Value, String> {
        Err(NO_DRIVE.into())
    }

    /// Starts watching the drive.
    fn watch(&mut self) {}

    /// Runs a turn of a backend in wall time: exchanges data with its drive and continues the work. Returns
    /// the drive's events for the log.
    fn turn(&mut self, _wall: SimTime) -> Vec<Event> {
        Vec::new()
    }

    /// Registers a drive in wall time with `poll`, with tokens from `first` on.
    ///
    /// # Errors
    /// Fails if the system cannot poll the drive.
    fn attach(&mut self, _poll: &Poll, _first: Token, _waker: &Arc<Waker>) -> std::io::Result<()> {
        Ok(())
    }

    /// Handles an event on one of the drive's sockets.
    fn ready(&mut self, _socket: usize) {}

    /// Stores all state that the next start needs, and makes it durable.
    ///
    /// # Errors
    /// Returns one sentence that names the state that was lost.
    fn put_away(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// The cache on a drive.
pub struct DriveCache {
    system: System<Tower<Bottom>>,
}

impl DriveCache {
    /// Puts a cache on a drive and starts it, waiting if the drive runs in wall time.
    ///
    /// # Errors
    /// Returns one sentence if the cache cannot start.
    pub fn new(drive: Served, config: &KvConfig) -> Result<DriveCache, String> {
        let now = drive.now();
        let mut tower = drive.into_tower();
        let mut wait = waiting(tower.bottom_mut(), now)?;
        let system = build_by(tower, config, now, |tower, next| wait(tower.bottom_mut(), next))?;
        Ok(DriveCache { system })
    }

    /// Bytes of write buffers with which every slab class has one
    /// ([`Kv::memory_for_each_class_bytes`](pellucid_kv::Kv)).
    pub fn memory_for_each_class_bytes(&self) -> u64 {
        self.system.kv().memory_for_each_class_bytes()
    }

    /// Cuts the drive's power and restores it; the cache restarts as after a crash.
    fn power_cut(&mut self) -> Result<Outcome, String> {
        self.system.power_cut(|tower| {
            let undone_host_sectors = tower.unsaved_sectors();
            let Some(device) = tower.bottom_mut().device_mut() else {
                return Err(NO_DRIVE.into());
            };
            let commands_lost = device.outstanding_commands() as usize;
            let mount = device.power_cut().map_err(|error| error.to_string())?;
            let report = CutReport { mount, undone_host_sectors };
            let now = device.now();
            tower.restart(now)?;
            Ok((Outcome::PowerCut { commands_lost, report }, now))
        })
    }

    /// Acts on the modelled drive at the bottom; returns `or` if there is none.
    fn on_device<T>(&mut self, or: T, act: impl FnOnce(&mut Device) -> T) -> T {
        let now = self.system.now();
        self.system.act_on_drive(now, |tower| tower.bottom_mut().device_mut().map_or(or, act))
    }
}

/// Builds the wait function of a blocked caller: time jumps from event to event on a modelled drive, else
/// follows the wall clock.
fn waiting(
    bottom: &mut Bottom,
    now: SimTime,
) -> Result<impl FnMut(&mut Bottom, Option<SimTime>) -> Option<SimTime> + use<>, String> {
    let waiter = Waiter::new(bottom, Pace::Virtual).map_err(|error| error.to_string())?;
    let mut waiter = waiter.since(now);
    Ok(move |bottom: &mut Bottom, next| waiter.wait(bottom, next))
}

impl Backend for DriveCache {
    type Ask = Ask;
    type Answer = Answer;

    #[inline]
    fn now(&self) -> SimTime {
        self.system.now()
    }

    #[inline]
    fn submit(&mut self, at: SimTime, tag: u32, ask: Ask) {
        self.system.ask(at, Ask { tag, ..ask });
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        self.system.next_event()
    }

    #[inline]
    fn advance(&mut self, now: SimTime) {
        self.system.advance(now);
    }

    #[inline]
    fn outstanding(&self) -> usize {
        self.system.asked() - self.system.answered()
    }

    #[inline]
    fn completed(&self) -> usize {
        self.system.answered()
    }

    #[inline]
    fn is_in_wall_time(&self) -> bool {
        self.system.drive().bottom().is_in_wall_time()
    }

    #[inline]
    fn pop(&mut self) -> Option<Answered<Answer>> {
        let answer = self.system.answer()?;
        Some(Answered { tag: answer.tag, at: answer.at, answer })
    }
}

impl Cache for DriveCache {
    fn buffer(&mut self) -> Vec<u8> {
        self.system.kv_mut().buffer()
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        self.system.kv_mut().give_back(buffer);
    }

    #[inline]
    fn prefetch(&self, key: &Key) {
        self.system.kv().prefetch(key);
    }

    #[inline]
    fn value_bytes_max(&self, key: &Key) -> usize {
        self.system.kv().value_bytes_max(key)
    }

    fn statistics(&self) -> KvStatistics {
        self.system.statistics()
    }

    fn classes(&self) -> Vec<ClassStatistics> {
        self.system.classes()
    }

    fn figures(&self) -> Vec<Figure> {
        self.system.figures()
    }

    fn device(&self) -> Option<&Device> {
        self.system.drive().bottom().device()
    }

    fn watch(&mut self) {
        self.on_device((), |device| {
            if !device.is_watched() {
                device.watch();
            }
        });
    }

    fn act(&mut self, action: Action) -> Result<Value, String> {
        let outcome = match action {
            Action::PowerCut => self.power_cut()?,
            Action::Chances(chances) => self.on_device(Err(NO_DRIVE.to_string()), |device| {
                let faults = chances.over(&device.config().media.faults);
                let outcome = Outcome::of_faults(&faults);
                device.set_faults(faults).map_err(|error| error.to_string())?;
                Ok(outcome)
            })?,
            Action::Damage(fault) => {
                let now = self.system.now();
                self.on_device(Err(NO_DRIVE.to_string()), |device| {
                    device.inject(now.max(device.now()), fault).map_err(|error| error.to_string())
                })?;
                Outcome::Damage { read_only: self.system.kv().is_read_only() }
            }
            Action::Inject(_) | Action::Clear => {
                return Err("host faults: a cache has no block namespace that hosts see; allowed: faults, damage, power-cut".into());
            }
        };
        Ok(outcome.answer())
    }

    fn turn(&mut self, wall: SimTime) -> Vec<Event> {
        let now = wall.max(self.system.now());
        self.system.drive_mut().bottom_mut().advance(now);
        self.system.advance(now);
        self.system.drive_mut().bottom_mut().take_events()
    }

    fn attach(&mut self, poll: &Poll, first: Token, waker: &Arc<Waker>) -> std::io::Result<()> {
        self.system.drive_mut().bottom_mut().attach(poll.registry(), first, Arc::clone(waker))
    }

    fn ready(&mut self, socket: usize) {
        if let Some(remote) = self.system.drive_mut().bottom_mut().remote_mut() {
            remote.ready(socket);
        }
    }

    fn put_away(&mut self) -> Result<(), String> {
        let now = self.system.now();
        let mut wait = waiting(self.system.drive_mut().bottom_mut(), now)?;
        let stopped = self.system.stop_by(|tower, next| wait(tower.bottom_mut(), next));
        let synced = self.on_device(Ok(()), Device::sync);
        stopped.and(synced.map_err(|error| error.to_string()))
    }
}
