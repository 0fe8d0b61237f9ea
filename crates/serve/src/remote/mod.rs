//! A remote open-channel or zoned drive over NVMe/TCP, in another process or on another machine, as a base
//! for host layers.
//!
//! ```text
//!                    lost, or a command in doubt
//!        ┌──── up ───────────────────────────────► down ── time to try again ─► connecting (a thread)
//!        │      ▲                                   ▲                              │
//!        │      └── same drive, all that it had ────┼──────────────────────────────┤ connected
//!        │          acknowledged is there           └──────────────── refused ─────┤
//!        └─ lost for good: data that it had acknowledged are not there, or another ◄┘
//!           host has taken this one's place
//! ```
//! Commands wait while the drive is away; none fails because a connection does. Once the drive is lost for good, all fail at once, those
//! that wait and those that come. A write without a known
//! outcome is *in doubt*; after a reconnect the write pointer of its chunk settles it. A write at the pointer
//! is sent again; a write wholly before it is read back and compared; a torn write ends with
//! [`Status::PowerLoss`], and the layer writes elsewhere. A power loss at the other end is handled alike: the
//! connection is given up, and the layer on the drive decides.
//!
//! Invariants: a command ends once; only one part of it is in flight at a time, so its parts are written in
//! order; `written` never exceeds the sectors of a chunk that the drive has acknowledged and must still hold:
//! it is 0 once a reset is sent.

mod cache;
mod command;
mod connect;
mod queue;
mod zones;

pub use connect::{RemoteConfig, RemoteError};

use crate::event::Event;
use command::Work;
use connect::{Identity, Link};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token, Waker};
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkState, Command, Completion, Drive, Interface, Lba, Nanos, Opcode, SimTime,
    Stage, StageTimes, Status,
};
use pellucid_wire::nvme::{AdminOpcode, SubmissionEntry};
use queue::{Ended, Payload};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};

/// Interval of keep-alive commands on the admin queue.
const KEEP_ALIVE: Nanos = Nanos::from_ms(5_000);
/// A drive that owes answers and stays silent for this time counts as lost.
const SILENCE: Nanos = Nanos::from_ms(30_000);
/// Delay from a lost connection to the first attempt; each failure doubles it, up to [`RETRY_MAX`].
const RETRY: Nanos = Nanos::from_ms(100);
const RETRY_MAX: Nanos = Nanos::from_ms(5_000);
/// Consecutive transport errors after which a command fails.
const TRIES_MAX: u32 = 5;
/// Event tokens of a drive: one for each queue, the admin queue first.
pub(crate) const TOKENS: usize = 1 + RemoteConfig::QUEUES_MAX as usize;
const KEEP_ALIVE_TOKEN: u64 = u64::MAX;
/// Token of a staged list of addresses.
const STAGE_TOKEN: u64 = u64::MAX - 1;

enum State {
    Up(Box<Link>),
    Connecting(mpsc::Receiver<Result<Link, RemoteError>>),
    Down { retry: SimTime },
    Lost(String),
}

/// Registration for events of the sockets.
struct Reactor {
    registry: Registry,
    token: Token,
    waker: Arc<Waker>,
}

/// A remote drive with one open-channel or zoned namespace. It runs in wall time.
pub struct Remote {
    config: Arc<RemoteConfig>,
    identity: Identity,
    state: State,
    reactor: Option<Reactor>,
    now: SimTime,
    works: Vec<Work>,
    idle: Vec<u32>,
    order: u64,
    /// Commands whose next part must be sent.
    waiting: VecDeque<u32>,
    completions: VecDeque<Completion>,
    ends: Vec<Ended>,
    /// Acknowledged sectors of each chunk since its last reset was sent.
    written: Vec<u32>,
    keep_alive: SimTime,
    /// Time of the drive's last answer, or of the first request since it had none outstanding.
    heard: SimTime,
    retry_after: Nanos,
    stopping: bool,
    /// Number of reconnections.
    reconnections: u64,
    events: Vec<Event>,
}

impl Remote {
    /// Connects to the drive, which may take a few seconds.
    ///
    /// # Errors
    /// Fails if the drive cannot be reached, or cannot carry a host layer.
    pub fn connect(config: RemoteConfig) -> Result<Remote, RemoteError> {
        let link = config.connect()?;
        let written = link.chunks.iter().map(|chunk| chunk.write_pointer).collect();
        Ok(Remote {
            config: Arc::new(config),
            identity: link.identity.clone(),
            state: State::Up(Box::new(link)),
            reactor: None,
            now: SimTime::ZERO,
            works: Vec::new(),
            idle: Vec::new(),
            order: 0,
            waiting: VecDeque::new(),
            completions: VecDeque::new(),
            ends: Vec::new(),
            written,
            keep_alive: SimTime::ZERO + KEEP_ALIVE,
            heard: SimTime::ZERO,
            retry_after: RETRY,
            stopping: false,
            reconnections: 0,
            events: Vec::new(),
        })
    }

    /// Qualified name of the subsystem.
    pub fn nqn(&self) -> &str {
        &self.identity.nqn
    }

    /// Geometry of the namespace; zones count as the chunks of one parallel unit.
    pub fn geometry(&self) -> &ChunkGeometry {
        &self.identity.geometry
    }

    /// Reason why the drive is lost for good, if it is.
    pub fn loss(&self) -> Option<&str> {
        match &self.state {
            State::Lost(why) => Some(why),
            _ => None,
        }
    }

    /// State of the connection.
    pub(crate) fn state(&self) -> &'static str {
        match self.state {
            State::Up(_) => "connected",
            State::Connecting(_) | State::Down { .. } => "away",
            State::Lost(_) => "lost",
        }
    }

    /// Number of reconnections.
    pub(crate) fn reconnections(&self) -> u64 {
        self.reconnections
    }

    /// Takes the events for the log.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Registers its sockets with `registry`, under `token` and the following tokens, [`TOKENS`] in all.
    pub(crate) fn attach(
        &mut self,
        registry: &Registry,
        token: Token,
        waker: Arc<Waker>,
    ) -> std::io::Result<()> {
        self.reactor = Some(Reactor { registry: registry.try_clone()?, token, waker });
        self.register()
    }

    fn register(&self) -> std::io::Result<()> {
        let (Some(reactor), State::Up(link)) = (&self.reactor, &self.state) else { return Ok(()) };
        for (number, queue) in [&link.admin].into_iter().chain(&link.io).enumerate() {
            let token = Token(reactor.token.0 + number);
            let interest = Interest::READABLE | Interest::WRITABLE;
            reactor.registry.register(&mut SourceFd(&queue.file()), token, interest)?;
        }
        Ok(())
    }

    /// Handles an event on the socket of a queue.
    pub(crate) fn ready(&mut self, queue: usize) {
        if let State::Up(link) = &mut self.state {
            let found = match queue {
                0 => Some(&mut link.admin),
                queue => link.io.get_mut(queue - 1),
            };
            if let Some(found) = found {
                found.ready();
            }
        }
    }

    /// Stops the drive: from now on commands fail while it is away.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
        self.fail_if_away();
    }

    fn fail_if_away(&mut self) {
        if self.stopping && !matches!(self.state, State::Up(_)) {
            self.fail_all();
        }
    }

    /// Exchanges data with the drive, and reconnects if necessary.
    fn turn(&mut self) {
        match &mut self.state {
            State::Up(_) => self.exchange(),
            State::Connecting(receiver) => match receiver.try_recv() {
                Ok(Ok(link)) => self.connected(link),
                Ok(Err(error)) => match error.is_final() {
                    Some(why) => self.lose_for_good(why.into()),
                    None => self.put_off(&error.to_string()),
                },
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => self.put_off("no thread to connect with"),
            },
            State::Down { retry } if *retry <= self.now => self.reconnect(),
            State::Down { .. } | State::Lost(_) => {}
        }
    }

    fn exchange(&mut self) {
        let State::Up(link) = &mut self.state else { return };
        // Without a reactor there are no socket events, so each socket is tried.
        if self.reactor.is_none() {
            link.io.iter_mut().chain([&mut link.admin]).for_each(|queue| queue.ready());
        }
        if self.now >= self.keep_alive && link.admin.room() > 0 {
            self.keep_alive = self.now + KEEP_ALIVE;
            let entry = SubmissionEntry::new(AdminOpcode::KeepAlive.raw(), 0, 0);
            link.admin.start(KEEP_ALIVE_TOKEN, entry, Payload::In(Vec::new()));
        }
        let mut ends = std::mem::take(&mut self.ends);
        let exchanged = link.exchange(&mut ends);
        let owes = link.outstanding() > 0;
        if !ends.is_empty() || !owes {
            self.heard = self.now;
        }
        let mut doubt = None;
        for end in ends.drain(..) {
            if let Some(why) = self.part_ended(end) {
                doubt = Some(why);
            }
        }
        self.ends = ends;
        match exchanged {
            Err(broken) => self.lose(&broken.to_string()),
            Ok(()) if doubt.is_some() => self.lose(&doubt.unwrap_or_default()),
            Ok(()) if self.now.since(self.heard) >= SILENCE => self.lose("no answer for 30 s"),
            Ok(()) => self.start_waiting(),
        }
    }

    /// Gives up the connection; commands in flight are in doubt.
    fn lose(&mut self, why: &str) {
        let mut sent: Vec<u32> =
            (0..self.works.len() as u32).filter(|&i| self.works[i as usize].is_sent()).collect();
        sent.sort_unstable_by_key(|&i| self.works[i as usize].order);
        for &at in sent.iter().rev() {
            self.works[at as usize].interrupted();
            self.waiting.push_front(at);
        }
        let outstanding = self.works.len() - self.idle.len();
        self.events.push(Event::RemoteLost {
            remote: self.config.address.clone(),
            why: why.into(),
            outstanding,
        });
        if self.identity.cache.is_some() {
            let why = "the connection to a cache was lost, and what it had acknowledged may be, too";
            return self.lose_for_good(why.into());
        }
        self.state = State::Down { retry: self.now + self.retry_after };
        self.fail_if_away();
    }

    /// Schedules the next attempt.
    fn put_off(&mut self, why: &str) {
        self.retry_after = Nanos((self.retry_after.0 * 2).min(RETRY_MAX.0));
        let again_ms = self.retry_after.0 / 1_000_000;
        self.events.push(Event::RemoteAway {
            remote: self.config.address.clone(),
            why: why.into(),
            again_ms,
        });
        self.state = State::Down { retry: self.now + self.retry_after };
        self.fail_if_away();
    }

    /// Starts a thread that reconnects, as connecting blocks.
    fn reconnect(&mut self) {
        let (tell, told) = mpsc::channel();
        let config = Arc::clone(&self.config);
        let waker = self.reactor.as_ref().map(|reactor| Arc::clone(&reactor.waker));
        let connect = move || {
            // If the server has stopped meanwhile, the receiver is gone.
            let _ = tell.send(config.connect());
            if let Some(waker) = waker {
                let _ = waker.wake();
            }
        };
        match std::thread::Builder::new().name("remote".into()).spawn(connect) {
            Ok(_) => self.state = State::Connecting(told),
            Err(error) => self.put_off(&error.to_string()),
        }
    }

    /// Resumes with a drive that is back, if it is the same one and has kept all acknowledged data.
    fn connected(&mut self, link: Link) {
        let chunks = link.chunks.clone();
        if let Err(why) = self.compare(&link) {
            return self.lose_for_good(why);
        }
        self.state = State::Up(Box::new(link));
        if let Err(error) = self.register() {
            return self.lose(&error.to_string());
        }
        self.reconnections += 1;
        (self.retry_after, self.heard, self.keep_alive) = (RETRY, self.now, self.now + KEEP_ALIVE);
        let before = self.completions.len();
        let mut in_doubt = 0;
        for at in std::mem::take(&mut self.waiting) {
            in_doubt += u32::from(self.works[at as usize].in_doubt);
            self.settle(at, &chunks);
        }
        let failed = self.completions.len() - before;
        self.events.push(Event::RemoteBack { remote: self.config.address.clone(), in_doubt, failed });
        self.start_waiting();
    }

    fn compare(&self, link: &Link) -> Result<(), String> {
        if link.identity != self.identity {
            return Err("another drive is there now".into());
        }
        let behind =
            |chunk: &ChunkInfo, written| chunk.state != ChunkState::Offline && chunk.write_pointer < written;
        let lost = link.chunks.iter().zip(&self.written).filter(|&(chunk, &written)| behind(chunk, written));
        let lost = lost.count();
        match lost {
            0 => Ok(()),
            _ => Err(format!("it has lost data that it had acknowledged, in {lost} chunks")),
        }
    }

    /// Declares the drive lost: its data can no longer be trusted, and every command fails.
    fn lose_for_good(&mut self, why: String) {
        self.events.push(Event::RemoteGone { remote: self.config.address.clone(), why: why.clone() });
        self.state = State::Lost(why);
        self.fail_all();
    }

    fn fail_all(&mut self) {
        self.waiting.clear();
        for at in 0..self.works.len() as u32 {
            if self.works[at as usize].is_busy() {
                self.finish(at, Status::WriteFault);
            }
        }
    }

    /// Ends a command.
    fn finish(&mut self, at: u32, status: Status) {
        let work = &mut self.works[at as usize];
        let status = match (status, work.command.opcode) {
            (Status::WriteFault, Opcode::Read) => Status::UnrecoveredRead,
            (status, _) => status,
        };
        let result = work.result;
        let Some((command, submitted)) = work.end() else { return };
        let mut stages = StageTimes::default();
        stages.add(Stage::HostLink, self.now - submitted);
        self.idle.push(at);
        let ended = command.ended(status, submitted, self.now, stages);
        self.completions.push_back(Completion { result, ..ended });
    }
}

impl Drive for Remote {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        let interface = match self.identity.zones {
            Some(zones) => Interface::Zoned(zones),
            None => match self.identity.cache {
                Some(cache) => Interface::Cache(cache),
                None => Interface::OpenChannel(self.identity.geometry),
            },
        };
        (namespace == 0).then_some(interface)
    }

    fn image_bytes(&self) -> usize {
        self.identity.geometry.sector_bytes as usize
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        self.now = now;
        let geometry = &self.identity.geometry;
        let status = match (&self.identity.zones, &self.identity.cache) {
            (Some(_), _) => zones::refuse(&command, geometry),
            (_, Some(cache)) => cache::refuse(&command, cache, geometry.sector_bytes),
            _ => command::refuse(&command, geometry),
        };
        let at = self.begin(command);
        match (status, &self.state) {
            (Some(status), _) => self.finish(at, status),
            (None, State::Lost(_)) => self.finish(at, Status::WriteFault),
            (None, State::Up(_)) => {
                self.waiting.push_back(at);
                self.start_waiting();
            }
            (None, _) => {
                self.waiting.push_back(at);
                self.fail_if_away();
            }
        }
    }

    fn advance(&mut self, now: SimTime) {
        self.now = now;
        self.turn();
    }

    fn next_event(&self) -> Option<SimTime> {
        if !self.completions.is_empty() {
            return Some(self.now);
        }
        match &self.state {
            // Output that the layer has added after the last answers must be sent now.
            State::Up(link) if link.must_send() => Some(self.now),
            State::Up(link) => {
                let owes = link.outstanding() > 0;
                let silence = if owes { self.heard + SILENCE } else { SimTime(u64::MAX) };
                Some(self.keep_alive.min(silence))
            }
            State::Down { retry } => Some(*retry),
            State::Connecting(_) | State::Lost(_) => None,
        }
    }

    fn pop(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.works.len() - self.idle.len()
    }

    fn completed(&self) -> usize {
        self.completions.len()
    }
}

/// Number of the chunk that holds `lba`, and the sector within it.
fn place(geometry: &ChunkGeometry, lba: Lba) -> Option<(u32, u32)> {
    let address = geometry.address(lba)?;
    Some((geometry.chunk_number(address), address.sector))
}
