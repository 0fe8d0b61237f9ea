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
mod layers;
mod offered;
mod waiter;

use apps::Apps;
pub use bottom::Bottom;
pub use waiter::{Pace, Waiter};

use crate::engine::{Answered, Backend};
use crate::file_drive::FileDrive;
use crate::remote::Remote;
use injector::Injector;
pub(crate) use layers::Layers;
use offered::Offered;
use pellucid_device::{Device, StepCost};
use pellucid_flash::{Command, Completion, Drive, Figure, Interface, Notice, SimTime};
use pellucid_host::{
    AnyLayer, CacheConfig, CacheManager, ClusterBuffer, Layer, LayerConfig, Machine, Pair, Shared, Stack,
    Tower,
};
use pellucid_media::{Fault, StoreError};
use pellucid_target::CutReport;
use pellucid_target::request::HostFault;

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

    /// Changes the applications of the drive; `None` if it has none. The drive works on that at once: its time runs ahead.
    pub(crate) fn change_apps<R>(&mut self, change: impl FnOnce(&mut Apps) -> R) -> Option<R> {
        let before = self.now();
        let result = change(self.tower.bottom_mut().apps_mut()?);
        self.lead_ns += self.now().since(before).0;
        Some(result)
    }

    /// The drive at the bottom.
    #[inline]
    pub(crate) fn bottom(&self) -> &Bottom {
        self.tower.bottom()
    }

    /// Mutable access to the drive at the bottom.
    pub(crate) fn bottom_mut(&mut self) -> &mut Bottom {
        self.tower.bottom_mut()
    }

    /// One of the namespaces in service.
    pub(crate) fn namespace(&self, number: u16) -> Offered<'_> {
        Offered::new(&self.tower, number)
    }

    /// The layers, to be changed.
    pub(crate) fn layers_mut(&mut self) -> Layers<'_> {
        Layers::of(&mut self.tower)
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

    /// Returns true if the drive runs in wall time, whatever the server's time mode.
    #[inline]
    pub(crate) fn is_in_wall_time(&self) -> bool {
        self.tower.bottom().is_in_wall_time()
    }

    /// Cost of the last start of the uppermost layer; empty if there is no layer.
    pub(crate) fn start_figures(&self) -> Vec<Figure> {
        self.tower.stack().map_or_else(Vec::new, |stack| stack.layer.start_figures())
    }

    /// Notices of the last start of the layers, for their user.
    pub(crate) fn start_notices(&self) -> impl Iterator<Item = &'static str> {
        self.tower.layers().filter_map(Layer::start_notice)
    }

    /// Blocks of the cache above the drive that only its flash has; 0 without a cache.
    pub(crate) fn dirty_blocks(&self) -> u64 {
        self.tower.stack().and_then(|stack| stack.layer.cache()).map_or(0, CacheManager::dirty_blocks)
    }

    /// Namespaces in service, the layer's first.
    pub fn interfaces(&self) -> Vec<(u16, Interface)> {
        self.tower.interfaces()
    }

    pub(crate) fn image_bytes(&self) -> usize {
        self.tower.image_bytes()
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
        let sector_bytes = self.namespace(namespace).sizes()[0];
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
            return Err(match self.bottom().remote() {
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
                let why = self.tower.stack().map(|stack| stack.not_stopped());
                Err(why.unwrap_or_else(|| "it does not answer".into()))
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
    /// Exchanges data with the drive and advances the layers on it.
    pub(crate) fn turn(&mut self, wall: SimTime) {
        let now = SimTime(wall.0 + self.ahead_ns.unwrap_or(0)).max(self.now());
        self.look_for_loss();
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

    /// Refuses all commands once the drive is lost for good. Its other host may have changed what the layers know of it.
    fn look_for_loss(&mut self) {
        if self.bottom().remote().is_some_and(|remote| remote.loss().is_some()) {
            let sector_bytes = self.namespace(0).sizes()[0];
            self.injector.get_or_insert_with(|| Box::new(Injector::new(sector_bytes))).lose_drive();
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
