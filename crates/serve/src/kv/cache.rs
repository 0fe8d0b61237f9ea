//! What holds the items: a cache on a drive, or anything else that answers the same requests.

use crate::action::{Action, Outcome};
use crate::drive::{Bottom, Pace, Served, Waiter};
use crate::engine::{Answered, Backend};
use crate::event::Event;
use mio::{Poll, Token, Waker};
use pellucid_device::Device;
use pellucid_flash::{Drive, Figure, SimTime};
use pellucid_host::Tower;
use pellucid_kv::{Answer, Ask, ClassStatistics, Key, KvConfig, KvStatistics, System, build_by};
use serde_json::Value;
use std::sync::Arc;

const NO_DRIVE: &str = "the cache stands on no modelled drive";

/// A backend of [`KvService`](super::KvService).
pub trait Cache: Backend<Ask = Ask, Answer = Answer> {
    /// An empty buffer for the value of a store.
    fn buffer(&mut self) -> Vec<u8>;

    /// Takes back the buffer of an answer's value, or one of [`Cache::buffer`].
    fn give_back(&mut self, buffer: Vec<u8>);

    /// A request for a key will come soon: has the processor ask for the memory that it needs first.
    fn prefetch(&self, _key: &Key) {}

    /// The most bytes that the value of a key has now; requests that have not been submitted may change it.
    fn value_bytes_max(&self, key: &Key) -> usize;

    /// What it counts.
    fn statistics(&self) -> KvStatistics;

    /// What it counts for each slab class.
    fn classes(&self) -> Vec<ClassStatistics> {
        Vec::new()
    }

    /// What it counts, by name.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// The drive of this process at the bottom.
    fn device(&self) -> Option<&Device> {
        None
    }

    /// Does something to the drive; what there is to say of it.
    ///
    /// # Errors
    /// Why it cannot be done, in a sentence.
    fn act(&mut self, _action: Action) -> Result<Value, String> {
        Err(NO_DRIVE.into())
    }

    /// From now on the drive is watched.
    fn watch(&mut self) {}

    /// A backend in wall time: exchanges data with its drive and does what follows. What happened to the drive, for the log.
    fn turn(&mut self, _wall: SimTime) -> Vec<Event> {
        Vec::new()
    }

    /// Lets a drive in wall time wake `poll`, with tokens from `first` on.
    ///
    /// # Errors
    /// When the system cannot wait for it.
    fn attach(&mut self, _poll: &Poll, _first: Token, _waker: &Arc<Waker>) -> std::io::Result<()> {
        Ok(())
    }

    /// Something happened on one of the drive's sockets.
    fn ready(&mut self, _socket: usize) {}

    /// Brings everything to where the next start finds it, and makes it durable.
    ///
    /// # Errors
    /// What could not be kept, in a sentence.
    fn put_away(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// The cache on a drive.
pub struct DriveCache {
    system: System<Tower<Bottom>>,
}

impl DriveCache {
    /// Puts a cache on a drive and lets it start; this waits for a drive in wall time.
    ///
    /// # Errors
    /// Why it cannot, in a sentence.
    pub fn new(drive: Served, config: &KvConfig) -> Result<DriveCache, String> {
        let now = drive.now();
        let mut tower = drive.into_tower();
        let mut wait = waiting(tower.bottom_mut(), now)?;
        let system = build_by(tower, config, now, |tower, next| wait(tower.bottom_mut(), next))?;
        Ok(DriveCache { system })
    }

    /// Bytes of write buffers with which every slab class has one ([`Kv::memory_for_each_class_bytes`](pellucid_kv::Kv)).
    pub fn memory_for_each_class_bytes(&self) -> u64 {
        self.system.kv().memory_for_each_class_bytes()
    }

    /// The drive loses its power and comes back; the cache starts again, as after a crash.
    fn power_cut(&mut self) -> Result<Outcome, String> {
        self.system.power_cut(|tower| {
            let Some(device) = tower.bottom_mut().device_mut() else {
                return Err(NO_DRIVE.into());
            };
            let commands_lost = device.outstanding_commands() as usize;
            let report = device.power_cut().map_err(|error| error.to_string())?;
            let now = device.now();
            tower.restart(now)?;
            Ok((Outcome::PowerCut { commands_lost, report }, now))
        })
    }

    /// Does something to the drive of this process at the bottom; `or`: there is none.
    fn on_device<T>(&mut self, or: T, act: impl FnOnce(&mut Device) -> T) -> T {
        let now = self.system.now();
        self.system.act_on_drive(now, |tower| tower.bottom_mut().device_mut().map_or(or, act))
    }
}

/// Lets time pass for a waiting caller: from event to event where the drive is modelled, else as the wall clock.
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
