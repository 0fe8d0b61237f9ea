//! A layer of the host on a drive, which may be on another machine.
//!
//! ```text
//!   start ─► ready: submit, turn or advance, what has ended ─► begin_rest ─► rested
//!                    `─ power_cut: the drive mounts, the layer starts again ─┘
//! ```
//! Invariants: `outstanding` counts what was submitted and not taken, `ended` included; who takes from `ended` counts it down. A
//! remote drive's time is wall time, and its layer goes on in its turns only.

use crate::event::Event;
use crate::remote::{Remote, TOKENS};
use mio::{Events, Poll, Token, Waker};
use pellucid_device::Device;
use pellucid_flash::{Command, Completion, Drive, Interface, SimTime};
use pellucid_ftl::MountReport;
use pellucid_host::{Layer, Stack, ZoneChunks};
use pellucid_media::Fault;
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
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        match &mut self.stack.drive {
            Below::Remote(remote) => remote.take_events(),
            Below::Device(_) | Below::Zones(_) => Vec::new(),
        }
    }

    /// The drive of this process at the bottom; `None` where it is remote.
    pub(super) fn device(&self) -> Option<&Device> {
        self.stack.drive.device()
    }

    /// The same, to be set up.
    pub(super) fn device_mut(&mut self) -> Option<&mut Device> {
        self.stack.drive.device_mut()
    }

    /// The drive itself.
    pub(super) fn into_device(self) -> Option<Device> {
        match self.stack.drive {
            Below::Device(device) => Some(*device),
            Below::Zones(zones) => Some(zones.drive),
            Below::Remote(_) => None,
        }
    }

    /// What stands on the drive.
    pub(super) fn layer(&self) -> &dyn Layer {
        &*self.stack.layer
    }

    /// Both as one drive, to be asked.
    #[inline]
    pub(super) fn as_drive(&self) -> &impl Drive {
        &self.stack
    }

    /// Bytes of a sector.
    pub(super) fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    /// The layer's time.
    pub(super) fn now(&self) -> SimTime {
        self.stack.now()
    }

    pub(super) fn submit(&mut self, at: SimTime, command: Command) {
        self.outstanding += 1;
        self.stack.submit(at, command);
        self.collect();
    }

    pub(super) fn advance(&mut self, now: SimTime) {
        self.stack.advance(now);
        self.collect();
    }

    /// Commands that have not ended.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding - self.ended.len()
    }

    /// Completions that wait for [`Layered::pop`].
    pub(super) fn completed(&self) -> usize {
        self.ended.len()
    }

    pub(super) fn pop(&mut self) -> Option<Completion> {
        let completion = self.ended.pop_front()?;
        self.outstanding -= 1;
        Some(completion)
    }

    /// Takes over what has ended.
    fn collect(&mut self) {
        self.ended.extend(std::iter::from_fn(|| self.stack.pop()));
    }

    /// The drive below loses its power, and the layer what it had in memory, as when the whole machine does.
    pub(super) fn power_cut(&mut self) -> Result<MountReport, String> {
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
        let started = self.stack.restart(now);
        // What was under way has ended also where the layer does not start.
        self.collect();
        started.map(|()| report)
    }

    /// Does damage to the drive below.
    pub(super) fn inject(&mut self, now: SimTime, fault: Fault) -> Result<(), String> {
        let result = self.stack.act_on_drive(now, |below| match below {
            Below::Device(device) => device.inject(now, fault),
            Below::Zones(zones) => zones.act_on_drive(now, |device| device.inject(now, fault)),
            Below::Remote(_) => Ok(()),
        });
        self.collect();
        result.map_err(|error| error.to_string())
    }
}
