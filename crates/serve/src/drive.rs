//! A drive in service: the stack behind one name, of layers and a drive that may be on another machine.
//!
//! ```text
//!   Device                          simulated time
//!   layers ─► Device                simulated time
//!   targets ─► Device               simulated time; the drive's own namespaces are served beside them
//!   applications ─► Device          simulated time; a flash monitor divides the drive among them
//!   layer ─► Remote ─► NVMe/TCP     wall time, whatever the server's: the drive at the other end keeps its own
//!   FileDrive                       wall time
//!   cache ─► cache drive, FileDrive wall time; a modelled cache drive keeps its own in step, or ahead where time is instant
//! ```
//! Invariants: the part that offers a namespace, a layer or the drive, describes it. Remote drives and files
//! run in wall time, and the layers on them advance only in their turns.

mod apps;
mod bottom;
mod injector;
mod waiter;

use apps::Apps;
pub use bottom::Bottom;
pub use waiter::{Pace, Waiter};

use crate::engine::{Answered, Backend};
use crate::event::Event;
use crate::file_drive::FileDrive;
use crate::remote::Remote;
use injector::Injector;
use mio::{Poll, Token, Waker};
use pellucid_device::{Device, StepCost, WritePolicy};
use pellucid_flash::{
    ChunkInfo, Command, Completion, Drive, Figure, Held, Interface, Layout, Lba, Lpn, Notice, SimTime,
};
use pellucid_ftl::Durability;
use pellucid_host::{
    AnyLayer, CacheConfig, CacheManager, ClusterBuffer, Layer, LayerConfig, Machine, Pair, Shared, Stack,
    Tower,
};
use pellucid_media::{Fault, StoreError};
use pellucid_target::CutReport;
use pellucid_target::operation::Keeps;
use pellucid_target::request::HostFault;
use std::ops::Range;
use std::sync::Arc;

/// Events that a modelled cache drive may run before other drives get their turn.
const EVENTS_MAX: u32 = 4096;

/// Error for a cache that cannot start, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCache {
    /// The requested cache is invalid.
    Refused(String),
    /// A drive misbehaves.
    Failed(String),
}

/// A drive in service.
pub struct Served {
    tower: Tower<Bottom>,
    /// The layer on a remote drive or file is being stopped.
    resting: bool,
    /// Lead of a cache's time over wall time, for a modelled cache drive; `None`: the cache runs in wall
    /// time.
    ahead_ns: Option<u64>,
    /// Its modelled cache drive runs without waiting.
    instant: bool,
    /// Lead of the drive's time over that of the server, which allocations of flash take at once.
    lead_ns: u64,
    /// Filter between the drive and its hosts; `None` until the first fault is requested.
    injector: Option<Box<Injector>>,
}

impl From<Device> for Served {
    fn from(device: Device) -> Served {
        Served::new(Tower::Drive(Bottom::Device(device)))
    }
}

impl From<FileDrive> for Served {
    fn from(file: FileDrive) -> Served {
        Served::new(Tower::Drive(file.into()))
    }
}

impl Served {
    fn new(tower: Tower<Bottom>) -> Served {
        Served { tower, resting: false, ahead_ns: None, instant: false, lead_ns: 0, injector: None }
    }

    /// Builds a cache on a cache drive and a backing store and starts it, waiting for both. `instant`: a
    /// modelled cache drive runs as fast as possible.
    ///
    /// # Errors
    /// Returns the reason why the cache cannot start.
    pub fn cached(
        flash: Bottom,
        backing: FileDrive,
        config: CacheConfig,
        instant: bool,
    ) -> Result<Served, NoCache> {
        let now = flash.now();
        let is_modelled = !flash.is_in_wall_time();
        let config = CacheConfig { backing: flash.namespaces(), ..config };
        let pair = Pair::new(flash, backing, now).map_err(NoCache::Refused)?;
        let mut bottom = Bottom::Cached(Box::new(pair));
        let waiter = Waiter::new(&mut bottom, Pace::Real);
        let mut waiter = waiter.map_err(|error| NoCache::Failed(error.to_string()))?;
        let (of_flash, of_backing) = (bottom.interface(config.flash), bottom.interface(config.backing));
        let layer = CacheManager::new(&config, of_flash, of_backing, bottom.image_bytes());
        let layer = layer.map_err(|error| NoCache::Refused(error.to_string()))?;
        let mut stack = Stack::new(AnyLayer::Cache(layer), Tower::Drive(bottom), now);
        let has_begun = |layer: &AnyLayer| layer.is_ready() || layer.failure().is_some();
        let done = stack.run_until(has_begun, |tower, next| waiter.wait(tower.bottom_mut(), next));
        let is_refused = stack.layer.cache().is_some_and(CacheManager::is_refused);
        match stack.layer.failure() {
            Some(sentence) if is_refused => return Err(NoCache::Refused(sentence)),
            Some(sentence) => return Err(NoCache::Failed(sentence)),
            None if !done => return Err(NoCache::Failed("a drive does not answer".into())),
            None => {}
        }
        let ahead = stack.now().0;
        let served = Served::new(Tower::Stack(Box::new(stack)));
        Ok(Served { ahead_ns: is_modelled.then_some(ahead), instant, ..served })
    }

    /// The cache, if the drive is one.
    pub(crate) fn cache(&self) -> Option<&CacheManager> {
        self.tower.stack()?.layer.cache()
    }

    /// The uppermost cluster buffer, if there is one.
    pub(crate) fn cluster_buffer(&self) -> Option<&ClusterBuffer> {
        self.tower.layers().find_map(AnyLayer::cluster_buffer)
    }

    /// Begins to empty the uppermost cluster buffer, which later writes pass by; returns false if there is none.
    pub(crate) fn pause(&mut self) -> bool {
        change_buffer(&mut self.tower, ClusterBuffer::pause)
    }

    /// Has the uppermost cluster buffer take writes again; returns false if there is none.
    pub(crate) fn resume(&mut self) -> bool {
        change_buffer(&mut self.tower, |buffer, _| buffer.resume())
    }

    /// Takes the bytes of a cache whose newest data have been found lost since the last call.
    pub(crate) fn take_lost(&mut self) -> Vec<Range<u64>> {
        let cache = self.tower.stack_mut().and_then(|stack| stack.layer.cache_mut());
        cache.map_or_else(Vec::new, |cache| cache.take_lost())
    }

    /// Begins to write everything back from a cache, but, with `give_up_lost`, what the flash cannot read; returns false if the drive is
    /// not a cache.
    pub(crate) fn begin_detach(&mut self, give_up_lost: bool) -> bool {
        let Some(stack) = self.tower.stack_mut() else { return false };
        let Some(cache) = stack.layer.cache_mut() else { return false };
        cache.detach(give_up_lost);
        // Lets the cache continue at once.
        let now = stack.now();
        stack.act_on_drive(now, |_| ());
        stack.layer.advance(now);
        stack.act_on_drive(now, |_| ());
        true
    }

    /// Puts layers on a drive in the given order and starts them in simulated time.
    ///
    /// # Errors
    /// Returns one sentence if a layer cannot start.
    pub fn with_layers(device: Device, layers: &[LayerConfig]) -> Result<Served, String> {
        let now = device.now();
        let tower = Tower::build(Bottom::Device(device), layers, now)?;
        Ok(Served::new(tower))
    }

    /// Puts layers on a remote drive and starts them, waiting for the drive.
    ///
    /// # Errors
    /// Returns one sentence if a layer cannot start.
    pub fn on_remote(remote: Remote, layers: &[LayerConfig]) -> Result<Served, String> {
        let mut bottom = Bottom::from(remote);
        let mut waiter = Waiter::new(&mut bottom, Pace::Real).map_err(|error| error.to_string())?;
        let wait = |bottom: &mut Bottom, next: Option<SimTime>| waiter.wait(bottom, next);
        let built = Tower::build_by(bottom, layers, SimTime::ZERO, wait);
        let tower = built.map_err(|sentence| waiter.why().map_or(sentence, String::from))?;
        Ok(Served::new(tower))
    }

    /// Puts layers on a file or block device.
    ///
    /// # Errors
    /// Returns one sentence if a layer cannot start.
    pub fn on_file(file: FileDrive, layers: &[LayerConfig]) -> Result<Served, String> {
        let mut bottom = Bottom::from(file);
        let mut waiter = Waiter::new(&mut bottom, Pace::Real).map_err(|error| error.to_string())?;
        let wait = |bottom: &mut Bottom, next: Option<SimTime>| waiter.wait(bottom, next);
        let tower = Tower::build_by(bottom, layers, SimTime::ZERO, wait)?;
        Ok(Served::new(tower))
    }

    /// Divides a drive among applications of the flash library: those that its media know.
    ///
    /// # Errors
    /// Returns one sentence if the drive cannot have applications.
    pub fn with_apps(device: Device) -> Result<Served, String> {
        let apps = Apps::start(device)?;
        Ok(Served::new(Tower::Drive(Bottom::Apps(Box::new(apps)))))
    }

    /// The flash monitor and its applications, if the drive is divided among such.
    pub(crate) fn apps(&self) -> Option<&Apps> {
        self.tower.bottom().apps()
    }

    /// Changes the applications of the drive; `None` if it has none. The drive works on that at once: its time runs ahead.
    pub(crate) fn change_apps<R>(&mut self, change: impl FnOnce(&mut Apps) -> R) -> Option<R> {
        let before = self.now();
        let result = change(self.tower.bottom_mut().apps_mut()?);
        self.lead_ns += self.now().since(before).0;
        Some(result)
    }

    /// The modelled drive at the bottom; `None` if it is remote or a file.
    pub fn device(&self) -> Option<&Device> {
        self.tower.bottom().device()
    }

    /// Mutable access to the modelled drive at the bottom.
    pub(crate) fn device_mut(&mut self) -> Option<&mut Device> {
        self.tower.bottom_mut().device_mut()
    }

    /// Unwraps the drive and its layers.
    pub(crate) fn into_tower(self) -> Tower<Bottom> {
        self.tower
    }

    /// Unwraps the drive itself, if it is modelled.
    pub(crate) fn into_device(self) -> Option<Device> {
        self.tower.into_bottom().into_device()
    }

    /// Converts the drive into one that can have targets; initially it has none.
    ///
    /// # Errors
    /// Returns the unchanged drive and the reason why it cannot have targets.
    #[expect(clippy::result_large_err, reason = "the drive is handed back")]
    pub(crate) fn into_shared(self) -> Result<Served, (Served, &'static str)> {
        const NO_UNITS: &str = "no open-channel namespace; targets need parallel units ([[drive.namespace]] interface = \"open-channel\")";
        let Served { tower, resting, ahead_ns, instant, lead_ns, injector } = self;
        let tower = match tower {
            Tower::Drive(Bottom::Apps(apps)) => {
                Err((Tower::Drive(Bottom::Apps(apps)), "applications have its parallel units (--apps)"))
            }
            Tower::Drive(drive) => {
                let (now, waiting) = (drive.now(), drive.outstanding() + drive.completed());
                match Shared::new(drive, now, waiting) {
                    Ok(shared) => Ok(Tower::Shared(Box::new(shared))),
                    Err(drive) => Err((Tower::Drive(drive), NO_UNITS)),
                }
            }
            Tower::Shared(shared) => Ok(Tower::Shared(shared)),
            stack => Err((stack, "a layer of the host has all of its parallel units already")),
        };
        match tower {
            Ok(tower) => Ok(Served { tower, resting, ahead_ns, instant, lead_ns, injector }),
            Err((tower, why)) => Err((Served { tower, resting, ahead_ns, instant, lead_ns, injector }, why)),
        }
    }

    /// Targets of the drive; `None` if it never had any.
    pub(crate) fn shared(&self) -> Option<&Shared<Bottom>> {
        self.tower.shared()
    }

    /// Mutable access to the targets.
    pub(crate) fn shared_mut(&mut self) -> Option<&mut Shared<Bottom>> {
        self.tower.shared_mut()
    }

    /// Counters of a namespace's layer, and of the solid-state cache that the layer is or stands on.
    pub(crate) fn layer_figures(&self, namespace: u16) -> Option<Vec<Figure>> {
        let layer = self.tower.layer_of(namespace);
        let mut figures = layer.map_or_else(Vec::new, |layer| layer.figures());
        let number = self.cache().map_or(namespace, |cache| cache.config().flash);
        figures
            .extend(self.device().map_or_else(Vec::new, |device| device.namespace(number).cache_figures()));
        (layer.is_some() || !figures.is_empty()).then_some(figures)
    }

    /// Connection state of a remote drive, and the number of reconnections.
    pub(crate) fn connection(&self) -> Option<(&'static str, u64)> {
        self.remote().map(|remote| (remote.state(), remote.reconnections()))
    }

    /// Reports `count` chunks of an open-channel namespace from number `first` on.
    pub(crate) fn chunk_infos(&self, namespace: u16, first: u32, count: u32) -> Vec<ChunkInfo> {
        let of_drive = |bottom: &Bottom, namespace, first, count| -> Vec<ChunkInfo> {
            bottom.device().map_or_else(Vec::new, |device| {
                device.namespace(namespace).chunk_infos(first, count).collect()
            })
        };
        match &self.tower {
            Tower::Shared(shared) => shared.chunk_infos(namespace, first, count, of_drive),
            Tower::Drive(Bottom::Apps(apps)) => apps.chunk_infos(namespace, first, count),
            tower if tower.layer_of(namespace).is_some() => Vec::new(),
            tower => of_drive(tower.bottom(), namespace, first, count),
        }
    }

    /// Unacknowledged moves of a nameless namespace: old name and new name.
    pub(crate) fn moves(&self, namespace: u16) -> Vec<(Lba, Lba)> {
        let engine = match self.tower.layer_of(namespace) {
            Some(layer) => return layer.moves(),
            None => self.device().and_then(|device| Some(device.namespace(namespace).nameless()?.engine())),
        };
        engine.map_or_else(Vec::new, |engine| engine.moves().collect())
    }

    /// Returns true if the drive runs in wall time, whatever the server's time mode.
    #[inline]
    pub(crate) fn is_in_wall_time(&self) -> bool {
        self.tower.bottom().is_in_wall_time()
    }

    #[inline]
    pub(crate) fn remote(&self) -> Option<&Remote> {
        self.tower.bottom().remote()
    }

    /// Cost of the last start of the uppermost layer; empty if there is no layer.
    pub(crate) fn start_figures(&self) -> Vec<Figure> {
        self.tower.stack().map_or_else(Vec::new, |stack| stack.layer.start_figures())
    }

    /// Notices of the last start of the layers, for their user.
    pub(crate) fn start_notices(&self) -> impl Iterator<Item = &'static str> {
        self.tower.layers().filter_map(Layer::start_notice)
    }

    /// Namespaces in service, the layer's first.
    pub fn interfaces(&self) -> Vec<(u16, Interface)> {
        self.tower.interfaces()
    }

    /// Returns true if this is the namespace of the uppermost layer.
    pub(crate) fn is_of_layer(&self, namespace: u16) -> bool {
        self.tower.stack().is_some_and(|stack| stack.namespace() == namespace)
    }

    pub(crate) fn image_bytes(&self) -> usize {
        self.tower.image_bytes()
    }

    /// Sizes of a namespace in bytes: sector, smallest efficient write (mapping unit), and best write
    /// (superpage).
    pub(crate) fn sizes(&self, namespace: u16) -> [u32; 3] {
        let Some(layout) = self.device().map(Device::layout) else {
            return [self.tower.image_bytes() as u32; 3];
        };
        let Layout { sector_bytes, unit_bytes, units_per_superpage, .. } = *layout;
        match self.tower.layer_of(namespace) {
            // A layer maps and buffers sector by sector.
            Some(_) => [sector_bytes; 3],
            None => [sector_bytes, unit_bytes, unit_bytes.saturating_mul(units_per_superpage)],
        }
    }

    /// Data that a namespace keeps across a power cut.
    pub(crate) fn keeps(&self, namespace: u16) -> Keeps {
        match (self.tower.layer_of(namespace), self.device()) {
            (Some(layer), _) if layer.keeps_flushed() => Keeps::Flushed,
            (None, None) if self.tower.bottom().file().is_some() => Keeps::Flushed,
            (Some(_), _) | (None, None) => Keeps::Nothing,
            // A raw target keeps what its chunks keep.
            (None, Some(device)) if namespace >= device.namespaces() => Keeps::Acknowledged,
            (None, Some(device)) => of_device(device, namespace),
        }
    }

    /// Returns true if a namespace no longer takes writes.
    pub(crate) fn is_read_only(&self, namespace: u16) -> bool {
        match self.tower.layer_of(namespace) {
            Some(layer) => layer.is_read_only(),
            None => match self.tower.bottom() {
                Bottom::Device(device) => device.namespace(namespace).takes_no_writes(),
                Bottom::Apps(apps) => apps.device().namespace(namespace).takes_no_writes(),
                Bottom::File(file) => file.is_read_only(),
                Bottom::Remote(_) | Bottom::Cached(_) => false,
            },
        }
    }

    /// Reports whether a mapping unit of a namespace holds data, as far as known. Layers and files map single
    /// sectors.
    pub(crate) fn held(&self, namespace: u16, unit: u64) -> Held {
        let nothing = Held { holds: false, until: u64::MAX, looks: 1 };
        match (self.tower.layer_of(namespace), self.tower.bottom()) {
            (Some(layer), _) => layer.holding(Lba(unit)),
            (None, Bottom::File(file)) => file.held(Lba(unit)),
            (None, bottom) => match (bottom.device(), u32::try_from(unit)) {
                (Some(device), Ok(unit)) => device.namespace(namespace).held(Lpn(unit)),
                (Some(_), Err(_)) => nothing,
                (None, _) => Held { holds: true, ..nothing },
            },
        }
    }

    #[inline]
    pub(crate) fn queues(&self) -> u16 {
        match &self.tower {
            Tower::Stack(_) => 1,
            tower => tower.bottom().device().map_or(1, |device| device.config().host.queues),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> SimTime {
        match &self.tower {
            Tower::Drive(drive) => drive.now(),
            Tower::Stack(stack) => stack.now(),
            Tower::Shared(shared) => shared.now(),
        }
    }

    /// The time of the drive as its server counts it.
    #[inline]
    fn server_now(&self) -> SimTime {
        SimTime(self.now().0.saturating_sub(self.lead_ns))
    }

    /// The drive to prefetch reads for, if it has no layer.
    #[inline]
    pub(crate) fn to_prefetch(&self) -> Option<&Device> {
        match &self.tower {
            Tower::Drive(Bottom::Device(device)) => Some(device),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn submit(&mut self, at: SimTime, command: Command) {
        let at = SimTime(at.0 + self.lead_ns);
        let passed = match &mut self.injector {
            Some(injector) => injector.pass(at, command),
            None => Some(command),
        };
        if let Some(command) = passed {
            self.tower.submit(at, command);
        }
    }

    #[inline]
    pub(crate) fn next_event(&self) -> Option<SimTime> {
        let late = self.injector.as_ref().and_then(|injector| injector.next_event());
        let next = self.tower.next_event().into_iter().chain(late).min()?;
        Some(SimTime(next.0.saturating_sub(self.ahead_ns.unwrap_or(0) + self.lead_ns)))
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: SimTime) {
        // The time of a held completion may already have passed.
        let now = SimTime(now.0.saturating_add(self.lead_ns));
        let now = if self.injector.is_some() { now.max(self.now()) } else { now };
        self.tower.advance(now);
        self.release(now);
    }

    /// Releases the completions that a fault held back until now.
    #[inline]
    fn release(&mut self, now: SimTime) {
        if let Some(injector) = &mut self.injector {
            injector.advance(now);
        }
    }

    /// Commands that have not ended, plus one while a target starts or stops.
    #[inline]
    pub(crate) fn outstanding_commands(&self) -> usize {
        let changes = self.tower.shared().is_some_and(Shared::is_changing);
        let late = self.injector.as_ref().map_or(0, |injector| injector.outstanding());
        self.tower.outstanding() + usize::from(changes) + late
    }

    /// Number of completions ready to be taken.
    #[inline]
    pub(crate) fn completed(&self) -> usize {
        self.tower.completed() + self.injector.as_ref().map_or(0, |injector| injector.completed())
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Completion> {
        let Some(injector) = &mut self.injector else { return self.tower.pop() };
        if let Some(completion) = injector.pop() {
            return Some(completion);
        }
        while let Some(completion) = self.tower.pop() {
            if let Some(completion) = injector.came(completion) {
                return Some(completion);
            }
        }
        None
    }

    /// Adds a fault that the hosts of a namespace see.
    pub(crate) fn meet(&mut self, namespace: u16, fault: HostFault) {
        let sector_bytes = self.sizes(namespace)[0];
        self.injector.get_or_insert_with(|| Box::new(Injector::new(sector_bytes))).add(namespace, fault);
    }

    /// Removes all faults that the hosts of a namespace see; returns how many there were.
    pub(crate) fn clear_faults(&mut self, namespace: u16) -> usize {
        self.injector.as_mut().map_or(0, |injector| injector.clear(namespace))
    }

    /// Faults that the hosts of a namespace see, each with the number of commands it has hit.
    pub(crate) fn host_faults(&self, namespace: u16) -> Vec<(HostFault, u64)> {
        self.injector.as_ref().map_or_else(Vec::new, |injector| injector.of(namespace).collect())
    }

    pub(crate) fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        self.tower.pop_notice()
    }

    /// Cuts the power of the modelled drive at the bottom. The layers above lose their memory too, as if the
    /// whole computer lost power.
    pub(crate) fn power_cut(&mut self) -> Result<CutReport, String> {
        let undone_host_sectors = self.tower.unsaved_sectors();
        let Some(device) = self.device_mut() else {
            return Err(match self.remote() {
                Some(_) => "the drive is remote: only its own server can cut its power".into(),
                None => "the drive is a file: only a modelled one can lose its power".into(),
            });
        };
        let mount = device.power_cut().map_err(|error| error.to_string())?;
        let now = device.now();
        if let Some(injector) = &mut self.injector {
            injector.lose_power();
        }
        let before = self.now();
        self.tower.bottom_mut().settle(now.max(before));
        self.tower.restart(now)?;
        if let Some(apps) = self.tower.bottom_mut().apps_mut() {
            apps.restart(now)?;
            self.lead_ns += self.now().since(now).0;
        }
        if let Some(ahead_ns) = self.ahead_ns {
            self.ahead_ns = Some(ahead_ns + (self.now() - before).0);
        }
        Ok(CutReport { mount, undone_host_sectors })
    }

    /// Damages the modelled drive at the bottom, not before `now`.
    pub(crate) fn inject(&mut self, now: SimTime, fault: Fault) -> Result<(), String> {
        let now = now.max(self.now());
        let damage =
            |bottom: &mut Bottom| bottom.device_mut().map_or(Ok(()), |device| device.inject(now, fault));
        self.tower.act_on_bottom(now, damage).map_err(|error| error.to_string())
    }

    /// The firmware of the modelled drive at the bottom handles an admin command, not before `now`.
    pub(crate) fn handle_admin(&mut self, now: SimTime) {
        // Most drives answer in no time.
        if self.device().is_none_or(|device| device.config().firmware.modules.admin == StepCost::default()) {
            return;
        }
        let now = now.max(self.now());
        self.tower.act_on_bottom(now, |bottom: &mut Bottom| {
            bottom.device_mut().into_iter().for_each(|device| device.handle_admin(now));
        });
    }

    /// Has the layers write all state that their next start needs. If the drive runs in wall time, this only
    /// begins, as it needs the drive's turns.
    ///
    /// # Errors
    /// Returns one sentence if it fails. The next start then recovers as after a power cut.
    pub(crate) fn quiesce(&mut self) -> Result<(), String> {
        self.resting = self.is_in_wall_time();
        match self.tower.stack_mut().filter(|_| self.resting) {
            Some(stack) => {
                stack.begin_stop();
                Ok(())
            }
            None => self.tower.stop(),
        }
    }

    /// Outcome of a pending [`Served::quiesce`], returned once; `None` while it is pending.
    pub(crate) fn rested(&mut self) -> Option<Result<(), String>> {
        let stopped = self.tower.stack().is_none_or(|stack| stack.layer.is_stopped());
        let outcome = match self.tower.bottom() {
            _ if stopped || !self.resting => Ok(()),
            Bottom::Remote(remote) if remote.state() != "connected" => Err("the drive is away".into()),
            bottom if bottom.outstanding() + bottom.completed() == 0 => {
                Err("not all of what was accepted could be written to the drive".into())
            }
            _ => return None,
        };
        self.resting = false;
        Some(outcome)
    }

    /// Makes file stores durable.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.device_mut().map_or(Ok(()), Device::sync)
    }
}

/// Calls for a drive in wall time; they do nothing for other drives.
impl Served {
    /// See [`Bottom::attach`].
    pub(crate) fn attach(&mut self, poll: &Poll, token: Token, waker: &Arc<Waker>) -> std::io::Result<()> {
        self.tower.bottom_mut().attach(poll.registry(), token, Arc::clone(waker))
    }

    /// Handles an event on one of its sockets.
    pub(crate) fn ready(&mut self, socket: usize) {
        if let Some(remote) = self.tower.bottom_mut().remote_mut() {
            remote.ready(socket);
        }
    }

    /// Exchanges data with the drive and advances the layers on it.
    pub(crate) fn turn(&mut self, wall: SimTime) {
        let now = SimTime(wall.0 + self.ahead_ns.unwrap_or(0)).max(self.now());
        self.release(now);
        if self.ahead_ns.is_none() {
            self.tower.bottom_mut().advance(now);
            return self.tower.advance(now);
        }
        self.tower.advance(now);
        // The second call takes what the backing store has completed meanwhile.
        self.tower.advance(now);
        if self.instant {
            self.run_ahead(wall);
        }
    }

    /// Runs a modelled cache drive until no command waits for it, however far its time advances.
    fn run_ahead(&mut self, wall: SimTime) {
        for _ in 0..EVENTS_MAX {
            let awaited = self.tower.outstanding() > 0;
            let next = self.tower.bottom().device().and_then(Drive::next_event);
            let Some(next) = next.filter(|_| awaited) else { break };
            self.tower.advance(next.max(self.now()));
        }
        self.ahead_ns = Some(self.now().0.saturating_sub(wall.0));
    }

    /// Stops the drive's connection; see [`Remote::stop`].
    pub(crate) fn stop(&mut self) {
        if let Some(remote) = self.tower.bottom_mut().remote_mut() {
            remote.stop();
        }
    }

    /// Takes the drive's events for the log.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        self.tower.bottom_mut().take_events()
    }
}

fn of_device(device: &Device, namespace: u16) -> Keeps {
    let config = device.config();
    let cached = match config.buffer.write {
        WritePolicy::WriteBack => Keeps::Flushed,
        WritePolicy::WriteThrough => Keeps::Acknowledged,
    };
    match config.namespaces.get(usize::from(namespace)) {
        Some(pellucid_device::Namespace::Zoned { zones }) if zones.protected => Keeps::Acknowledged,
        Some(pellucid_device::Namespace::Zoned { .. }) => cached,
        Some(pellucid_device::Namespace::Nameless { .. }) => Keeps::Flushed,
        // Writes of chunks bypass the buffer.
        Some(pellucid_device::Namespace::OpenChannel { .. }) => Keeps::Acknowledged,
        Some(pellucid_device::Namespace::Block { .. } | pellucid_device::Namespace::Cache { .. }) | None => {
            match config.ftl.durability {
                Durability::Volatile => Keeps::Nothing,
                Durability::Journal { .. } => cached,
            }
        }
    }
}

/// Changes the uppermost cluster buffer of a tower; returns false if there is none.
fn change_buffer(tower: &mut Tower<Bottom>, change: impl FnOnce(&mut ClusterBuffer, SimTime)) -> bool {
    let Some(stack) = tower.stack_mut() else { return false };
    let now = stack.now();
    let Some(buffer) = stack.layer.cluster_buffer_mut() else {
        return change_buffer(&mut stack.drive, change);
    };
    change(buffer, now);
    // Sends what the buffer has to say to the drive.
    stack.act_on_drive(now, |_| ());
    true
}

impl Backend for Served {
    type Ask = Command;
    type Answer = Completion;

    #[inline]
    fn now(&self) -> SimTime {
        self.server_now()
    }

    #[inline]
    fn submit(&mut self, at: SimTime, tag: u32, command: Command) {
        debug_assert_eq!(command.tag, u64::from(tag), "a command is named as in the in-flight table");
        Served::submit(self, at, command);
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        Served::next_event(self)
    }

    #[inline]
    fn advance(&mut self, now: SimTime) {
        Served::advance(self, now);
    }

    #[inline]
    fn outstanding(&self) -> usize {
        self.outstanding_commands()
    }

    #[inline]
    fn completed(&self) -> usize {
        Served::completed(self)
    }

    #[inline]
    fn pop(&mut self) -> Option<Answered<Completion>> {
        let completion = Served::pop(self)?;
        let ahead_ns = self.ahead_ns.unwrap_or(0) + self.lead_ns;
        let at = SimTime(completion.completed.0.saturating_sub(ahead_ns));
        Some(Answered { tag: completion.tag as u32, at, answer: completion })
    }

    #[inline]
    fn is_in_wall_time(&self) -> bool {
        Served::is_in_wall_time(self)
    }
}
