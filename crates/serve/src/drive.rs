//! What is served under one name: a drive, or a layer of the host on one, which may be on another machine.
//!
//! ```text
//!   Device                          simulated time
//!   layers ─► Device                simulated time
//!   targets ─► Device               simulated time; the drive's own namespaces are served beside them
//!   layer ─► Remote ─► NVMe/TCP     wall time, whatever the server's: the drive at the other end keeps its own
//! ```
//! Invariant: of a layer everything that is told is the layer's: the namespaces of the drive below are not served beside it.

use crate::remote::{Remote, TOKENS};
use mio::{Events, Poll, Token, Waker};
use pellucid_device::{Device, DeviceError, WritePolicy};
use pellucid_flash::{
    ChunkInfo, ChunkNotice, Command, Completion, Drive, Interface, Layout, Lba, Lpn, SimTime,
};
use pellucid_ftl::MountReport;
use pellucid_host::{Layer, LayerFigures, MountCost, Shared, Stack, ZoneChunks};
use pellucid_media::StoreError;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait for a remote drive while a layer starts: it may have to be connected to again.
const LOOK: Duration = Duration::from_millis(50);

/// What a layer stands on.
enum Below {
    Device(Box<Device>),
    /// A zoned drive whose zones a layer makes chunks.
    Zones(Box<Stack<ZoneChunks, Device>>),
    Remote(Box<Remote>),
}

impl Below {
    fn device(&self) -> Option<&Device> {
        match self {
            Below::Device(device) => Some(device),
            Below::Zones(zones) => Some(&zones.drive),
            Below::Remote(_) => None,
        }
    }

    fn device_mut(&mut self) -> Option<&mut Device> {
        match self {
            Below::Device(device) => Some(device),
            Below::Zones(zones) => Some(&mut zones.drive),
            Below::Remote(_) => None,
        }
    }
}

impl Drive for Below {
    fn namespaces(&self) -> u16 {
        match self {
            Below::Device(device) => Drive::namespaces(&**device),
            Below::Zones(zones) => Drive::namespaces(&**zones),
            Below::Remote(remote) => remote.namespaces(),
        }
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        match self {
            Below::Device(device) => Drive::interface(&**device, namespace),
            Below::Zones(zones) => Drive::interface(&**zones, namespace),
            Below::Remote(remote) => remote.interface(namespace),
        }
    }

    fn image_bytes(&self) -> usize {
        match self {
            Below::Device(device) => Drive::image_bytes(&**device),
            Below::Zones(zones) => Drive::image_bytes(&**zones),
            Below::Remote(remote) => remote.image_bytes(),
        }
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        match self {
            Below::Device(device) => device.submit(now, command),
            Below::Zones(zones) => zones.submit(now, command),
            Below::Remote(remote) => remote.submit(now, command),
        }
    }

    fn advance(&mut self, now: SimTime) {
        match self {
            Below::Device(device) => device.advance(now),
            Below::Zones(zones) => zones.advance(now),
            Below::Remote(remote) => remote.advance(now),
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        match self {
            Below::Device(device) => device.next_event(),
            Below::Zones(zones) => zones.next_event(),
            Below::Remote(remote) => remote.next_event(),
        }
    }

    fn pop(&mut self) -> Option<Completion> {
        match self {
            Below::Device(device) => device.pop(),
            Below::Zones(zones) => zones.pop(),
            Below::Remote(remote) => remote.pop(),
        }
    }
}

/// A layer of the host on a drive.
pub struct Layered {
    stack: Stack<Box<dyn Layer>, Below>,
    sector_bytes: u32,
    ended: VecDeque<Completion>,
    outstanding: usize,
    /// The layer on a remote drive is being stopped.
    resting: bool,
}

impl Layered {
    /// Puts a layer on a drive and lets it start, in simulated time.
    ///
    /// # Errors
    /// Why the layer cannot start, in a sentence.
    pub fn on_device(layer: Box<dyn Layer>, device: Device) -> Result<Layered, String> {
        let (now, sector_bytes) = (device.now(), device.layout().sector_bytes);
        Layered::here(layer, Below::Device(Box::new(device)), now, sector_bytes)
    }

    /// As [`Layered::on_device`], on a zoned drive whose zones have been made chunks.
    ///
    /// # Errors
    /// Why the layer cannot start, in a sentence.
    pub fn on_zones(layer: Box<dyn Layer>, zones: Stack<ZoneChunks, Device>) -> Result<Layered, String> {
        let (now, sector_bytes) = (zones.now(), zones.drive.layout().sector_bytes);
        Layered::here(layer, Below::Zones(Box::new(zones)), now, sector_bytes)
    }

    fn here(layer: Box<dyn Layer>, below: Below, now: SimTime, sector_bytes: u32) -> Result<Layered, String> {
        let stack = Stack::start(layer, below, now)?;
        Ok(Layered::new(stack, sector_bytes))
    }

    fn new(stack: Stack<Box<dyn Layer>, Below>, sector_bytes: u32) -> Layered {
        Layered { stack, sector_bytes, ended: VecDeque::new(), outstanding: 0, resting: false }
    }

    /// Puts a layer on a remote drive and lets it start; this waits for the drive.
    ///
    /// # Errors
    /// Why the layer cannot start, in a sentence.
    pub fn on_remote(layer: Box<dyn Layer>, remote: Remote) -> Result<Layered, String> {
        let sector_bytes = remote.geometry().sector_bytes;
        let stack = Stack::new(layer, Below::Remote(Box::new(remote)), SimTime::ZERO);
        let mut layered = Layered::new(stack, sector_bytes);
        layered.start_on_remote()?;
        Ok(layered)
    }

    fn start_on_remote(&mut self) -> Result<(), String> {
        let mut poll = Poll::new().map_err(|error| error.to_string())?;
        let waker = Waker::new(poll.registry(), Token(TOKENS)).map_err(|error| error.to_string())?;
        self.attach(&poll, Token(0), &Arc::new(waker)).map_err(|error| error.to_string())?;
        let (began, mut events) = (Instant::now(), Events::with_capacity(16));
        while !self.stack.layer.is_ready() {
            if let Some(sentence) =
                self.stack.layer.failure().or(self.remote().and_then(Remote::loss).map(String::from))
            {
                return Err(sentence);
            }
            self.turn(SimTime(began.elapsed().as_nanos() as u64));
            match poll.poll(&mut events, Some(LOOK)) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    return Err(error.to_string());
                }
                _ => {}
            }
            for event in &events {
                self.ready(event.token().0);
            }
        }
        self.stack.layer.failure().map_or(Ok(()), Err)
    }

    /// See [`Remote::attach`].
    pub(crate) fn attach(&mut self, poll: &Poll, token: Token, waker: &Arc<Waker>) -> std::io::Result<()> {
        match &mut self.stack.drive {
            Below::Remote(remote) => remote.attach(poll.registry(), token, Arc::clone(waker)),
            Below::Device(_) | Below::Zones(_) => Ok(()),
        }
    }

    pub(crate) fn remote(&self) -> Option<&Remote> {
        match &self.stack.drive {
            Below::Remote(remote) => Some(remote),
            Below::Device(_) | Below::Zones(_) => None,
        }
    }

    /// Something happened on one of the sockets of a remote drive.
    pub(crate) fn ready(&mut self, socket: usize) {
        if let Below::Remote(remote) = &mut self.stack.drive {
            remote.ready(socket);
        }
    }

    /// Exchanges data with a remote drive and lets the layer do what follows.
    pub(crate) fn turn(&mut self, now: SimTime) {
        let now = now.max(self.stack.now());
        self.stack.drive.advance(now);
        self.stack.advance(now);
        self.collect();
    }

    /// The server stops: see [`Remote::stop`].
    pub(crate) fn stop(&mut self) {
        if let Below::Remote(remote) = &mut self.stack.drive {
            remote.stop();
        }
    }

    /// Begins to bring to the drive what lets the layer's next start find everything. With a drive of this process that is done
    /// at once, in simulated time; a remote one needs its turns.
    ///
    /// # Errors
    /// Why it cannot be done, in a sentence. The next start then looks for what was written, as after a power cut.
    pub(crate) fn begin_rest(&mut self) -> Result<(), String> {
        self.resting = self.remote().is_some();
        let result = match self.resting {
            true => {
                self.stack.begin_stop();
                Ok(())
            }
            false => self.stack.stop(),
        };
        self.collect();
        result
    }

    /// How what [`Layered::begin_rest`] left under way has ended, told once; `None`: it has not.
    pub(crate) fn rested(&mut self) -> Option<Result<(), String>> {
        let outcome = match self.remote().filter(|_| self.resting && !self.stack.layer.is_stopped()) {
            None => Ok(()),
            Some(remote) if remote.state() != "connected" => Err("the drive is away".into()),
            Some(remote) if remote.is_idle() => Err("no room is left to write the whole map".into()),
            Some(_) => return None,
        };
        self.resting = false;
        Some(outcome)
    }

    /// Lines for the log.
    pub(crate) fn take_notices(&mut self) -> Vec<String> {
        match &mut self.stack.drive {
            Below::Remote(remote) => remote.take_notices(),
            Below::Device(_) | Below::Zones(_) => Vec::new(),
        }
    }

    /// Takes over what has ended.
    fn collect(&mut self) {
        self.ended.extend(std::iter::from_fn(|| self.stack.pop()));
    }

    /// The drive below loses its power, and the layer what it had in memory, as when the whole machine does.
    fn power_cut(&mut self) -> Result<MountReport, String> {
        let Some(device) = self.stack.drive.device_mut() else {
            return Err("the drive is remote: whoever serves it can cut its power".into());
        };
        let report = device.power_cut().map_err(|error| error.to_string())?;
        let now = device.now();
        // These were the layer's.
        while device.pop().is_some() {}
        if let Below::Zones(zones) = &mut self.stack.drive {
            zones.restart(now)?;
        }
        self.stack.restart(now)?;
        self.collect();
        Ok(report)
    }
}

/// A drive in service.
#[expect(
    clippy::large_enum_variant,
    reason = "there are a few, and the plain drive is reached without a detour"
)]
pub enum Served {
    /// A drive.
    Device(Device),
    /// A layer on a drive.
    Layered(Box<Layered>),
    /// A drive with targets on ranges of its parallel units.
    Shared(Box<Shared<Device>>),
}

impl From<Device> for Served {
    fn from(device: Device) -> Served {
        Served::Device(device)
    }
}

impl From<Layered> for Served {
    fn from(layered: Layered) -> Served {
        Served::Layered(Box::new(layered))
    }
}

impl Served {
    /// The drive of this process at the bottom; `None` where it is remote.
    pub fn device(&self) -> Option<&Device> {
        match self {
            Served::Device(device) => Some(device),
            Served::Layered(layered) => layered.stack.drive.device(),
            Served::Shared(shared) => Some(&shared.drive),
        }
    }

    /// The same, to be set up.
    pub(crate) fn device_mut(&mut self) -> Option<&mut Device> {
        match self {
            Served::Device(device) => Some(device),
            Served::Layered(layered) => layered.stack.drive.device_mut(),
            Served::Shared(shared) => Some(&mut shared.drive),
        }
    }

    /// The drive itself, unless it is remote.
    pub(crate) fn into_device(self) -> Option<Device> {
        match self {
            Served::Device(device) => Some(device),
            Served::Layered(layered) => match layered.stack.drive {
                Below::Device(device) => Some(*device),
                Below::Zones(zones) => Some(zones.drive),
                Below::Remote(_) => None,
            },
            Served::Shared(shared) => Some(shared.drive),
        }
    }

    /// The drive with its targets, of which there may be none yet.
    ///
    /// # Errors
    /// Itself again, and why it cannot have targets.
    #[expect(clippy::result_large_err, reason = "the drive is handed back")]
    pub(crate) fn into_shared(self) -> Result<Served, (Served, &'static str)> {
        match self {
            Served::Device(device) => {
                let (now, outstanding) =
                    (device.now(), device.outstanding_commands() as usize + device.completed());
                match Shared::new(device, now, outstanding) {
                    Ok(shared) => Ok(Served::Shared(Box::new(shared))),
                    Err(device) => Err((
                        Served::Device(device),
                        "no open-channel namespace; targets need parallel units ([[drive.namespace]] interface = \"open-channel\")",
                    )),
                }
            }
            Served::Layered(_) => Err((self, "a layer of the host has all of its parallel units already")),
            Served::Shared(_) => Ok(self),
        }
    }

    /// Its targets; `None`: it never had any.
    pub(crate) fn shared(&self) -> Option<&Shared<Device>> {
        match self {
            Served::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn shared_mut(&mut self) -> Option<&mut Shared<Device>> {
        match self {
            Served::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// What the layer of a namespace has counted, and how its drive is connected if that is remote.
    pub(crate) fn layer_figures(
        &self,
        namespace: u16,
    ) -> Option<(LayerFigures, Option<(&'static str, u64)>)> {
        match self {
            Served::Device(_) => None,
            Served::Layered(layered) => {
                let remote = layered.remote().map(|remote| (remote.state(), remote.reconnections()));
                Some((layered.stack.layer.figures()?, remote))
            }
            Served::Shared(shared) => Some((shared.layer(namespace)?.figures()?, None)),
        }
    }

    /// What a report says of `count` chunks of an open-channel namespace from number `first` on.
    pub(crate) fn chunk_infos(&self, namespace: u16, first: u32, count: u32) -> Vec<ChunkInfo> {
        let of_drive = |device: &Device, namespace, first, count| -> Vec<ChunkInfo> {
            device.chunk_infos(namespace, first, count).collect()
        };
        match self {
            Served::Device(device) => of_drive(device, namespace, first, count),
            Served::Layered(_) => Vec::new(),
            Served::Shared(shared) => shared.chunk_infos(namespace, first, count, of_drive),
        }
    }

    /// Whether the drive is of another process.
    #[inline]
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Served::Layered(layered) if layered.remote().is_some())
    }

    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Served::Layered(layered) => layered.remote(),
            Served::Device(_) | Served::Shared(_) => None,
        }
    }

    /// The layer on a remote drive.
    #[inline]
    pub(crate) fn on_remote(&mut self) -> Option<&mut Layered> {
        match self {
            Served::Layered(layered) => layered.remote().is_some().then_some(layered),
            Served::Device(_) | Served::Shared(_) => None,
        }
    }

    /// The layer on a drive.
    pub(crate) fn layered(&mut self) -> Option<&mut Layered> {
        match self {
            Served::Device(_) | Served::Shared(_) => None,
            Served::Layered(layered) => Some(layered),
        }
    }

    /// What the last start of the layer cost; `None`: there is none.
    pub(crate) fn mount_cost(&self) -> Option<MountCost> {
        match self {
            Served::Device(_) | Served::Shared(_) => None,
            Served::Layered(layered) => layered.stack.layer.start_cost(),
        }
    }

    /// Namespaces that are served.
    pub(crate) fn interfaces(&self) -> Vec<(u16, Interface)> {
        let of = |drive: &dyn Drive| {
            (0..drive.namespaces()).filter_map(|number| Some((number, drive.interface(number)?))).collect()
        };
        match self {
            Served::Device(device) => of(device),
            Served::Layered(layered) => of(&layered.stack),
            Served::Shared(shared) => of(&**shared),
        }
    }

    pub(crate) fn image_bytes(&self) -> usize {
        match self {
            Served::Device(device) => device.image_bytes(),
            Served::Layered(layered) => layered.stack.image_bytes(),
            Served::Shared(shared) => shared.image_bytes(),
        }
    }

    /// Bytes of a sector, of what is best written at once at least (the mapping unit), and at best (a stripe).
    pub(crate) fn sizes(&self) -> [u32; 3] {
        let of = |layout: &Layout| {
            [
                layout.sector_bytes,
                layout.unit_bytes,
                layout.unit_bytes.saturating_mul(layout.units_per_stripe),
            ]
        };
        match self {
            Served::Device(device) => of(device.layout()),
            // A layer maps and buffers sector by sector.
            Served::Layered(layered) => [layered.sector_bytes; 3],
            Served::Shared(shared) => of(shared.drive.layout()),
        }
    }

    /// Whether a write may be acknowledged before it is durable.
    pub(crate) fn has_write_cache(&self) -> bool {
        match self {
            Served::Device(device) => device.config().buffer.write == WritePolicy::WriteBack,
            Served::Layered(_) => true,
            Served::Shared(shared) => shared.drive.config().buffer.write == WritePolicy::WriteBack,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Served::Device(device) => device.is_read_only(),
            Served::Layered(layered) => layered.stack.layer.failure().is_some(),
            Served::Shared(shared) => shared.drive.is_read_only(),
        }
    }

    /// Whether a mapping unit of a namespace holds data, as far as that is known. A layer maps sector by sector.
    pub(crate) fn is_mapped(&self, namespace: u16, unit: u32) -> bool {
        match self {
            Served::Device(device) => device.is_mapped(Lpn(unit)),
            Served::Layered(layered) => layered.stack.layer.holds(Lba(unit.into())),
            Served::Shared(shared) => match shared.layer(namespace) {
                Some(layer) => layer.holds(Lba(unit.into())),
                None => shared.drive.is_mapped(Lpn(unit)),
            },
        }
    }

    #[inline]
    pub(crate) fn queues(&self) -> u16 {
        match self {
            Served::Device(device) => device.config().host.queues,
            Served::Layered(_) => 1,
            Served::Shared(shared) => shared.drive.config().host.queues,
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> SimTime {
        match self {
            Served::Device(device) => device.now(),
            Served::Layered(layered) => layered.stack.now(),
            Served::Shared(shared) => shared.now(),
        }
    }

    #[inline]
    pub(crate) fn submit(&mut self, at: SimTime, command: Command) {
        match self {
            Served::Device(device) => device.submit(at, command),
            Served::Layered(layered) => {
                layered.outstanding += 1;
                layered.stack.submit(at, command);
                layered.collect();
            }
            Served::Shared(shared) => shared.submit(at, command),
        }
    }

    #[inline]
    pub(crate) fn next_event(&self) -> Option<SimTime> {
        match self {
            Served::Device(device) => device.next_event(),
            Served::Layered(layered) => layered.stack.next_event(),
            Served::Shared(shared) => shared.next_event(),
        }
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: SimTime) {
        match self {
            Served::Device(device) => device.advance(now),
            Served::Layered(layered) => {
                layered.stack.advance(now);
                layered.collect();
            }
            Served::Shared(shared) => shared.advance(now),
        }
    }

    #[inline]
    pub(crate) fn outstanding_commands(&self) -> usize {
        match self {
            Served::Device(device) => device.outstanding_commands() as usize,
            Served::Layered(layered) => layered.outstanding - layered.ended.len(),
            // A target that starts or stops is waited for.
            Served::Shared(shared) => shared.outstanding() + usize::from(shared.is_changing()),
        }
    }

    /// Completions that wait to be taken.
    #[inline]
    pub(crate) fn completed(&self) -> usize {
        match self {
            Served::Device(device) => device.completed(),
            Served::Layered(layered) => layered.ended.len(),
            Served::Shared(shared) => shared.completed(),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Completion> {
        match self {
            Served::Device(device) => device.pop(),
            Served::Layered(layered) => {
                let completion = layered.ended.pop_front()?;
                layered.outstanding -= 1;
                Some(completion)
            }
            Served::Shared(shared) => shared.pop(),
        }
    }

    pub(crate) fn pop_notice(&mut self) -> Option<(u16, ChunkNotice)> {
        match self {
            Served::Device(device) => device.pop_notice(),
            // They are about chunks, which nobody sees above the layer.
            Served::Layered(_) => None,
            Served::Shared(shared) => shared.pop_notice(),
        }
    }

    pub(crate) fn power_cut(&mut self) -> Result<MountReport, String> {
        match self {
            Served::Device(device) => device.power_cut().map_err(|error: DeviceError| error.to_string()),
            Served::Layered(layered) => layered.power_cut(),
            Served::Shared(shared) => {
                let report = shared.drive.power_cut().map_err(|error| error.to_string())?;
                let now = shared.drive.now();
                shared.restart(now)?;
                Ok(report)
            }
        }
    }

    /// Makes file stores durable.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.device_mut().map_or(Ok(()), Device::sync)
    }
}
