//! Several targets on one open-channel drive, created and removed while it is in use, as LightNVM's media
//! manager did in the kernel.
//!
//! ```text
//!   namespaces   0 .. n-1 of the drive     n "main"        n+1 "log"
//!                │                         │ host FTL      │ raw: the same chunks, counted from 0
//!                └───────── drive ─────────┴───────────────┘
//! ```
//! `place.rs` describes the life of a target; `ownership.rs` keeps the drive's own namespace out of its
//! units.
//!
//! Invariants: a parallel unit has one owner, and only its owner's commands reach it. A command of the
//! drive's own namespace to a target's unit is refused as a whole, and changes nothing. The number of a
//! target's namespace is reused only when none of its commands is in flight. Tags of commands from above are
//! below 2^40.

mod ownership;
mod place;

use crate::ftl::open_chunks;
use crate::{ChunkView, HostFtl, HostFtlConfig, Layer, Machine, Target, TargetError, TargetKind, Targets};
use ownership::Ownership;
use pellucid_flash::{
    ChunkGeometry, ChunkInfo, ChunkNotice, Command, Completion, Drive, Interface, Notice, Opcode, SimTime,
    Status,
};
use place::{Place, Stage, Work};
use std::collections::VecDeque;

pub use place::{TargetEvent, TargetState};

/// Position of the owner in the tag of a command to the drive: 0 for the drive's own namespaces, otherwise
/// the target's place + 1.
const OWNER_SHIFT: u32 = 40;
const OWNER_MASK: u64 = 0xFFFF << OWNER_SHIFT;

/// Maximum number of targets on a drive.
const TARGETS_MAX: usize = 1024;

/// Reason that a target cannot be created or removed now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedError {
    /// The drive has no open-channel namespace.
    #[error("no open-channel namespace; targets need parallel units")]
    NoChunks,
    /// The target is refused.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The host FTL cannot run there.
    #[error("{0}")]
    Layer(String),
    /// Commands to the drive's own open-channel namespace are under way, and may go to these parallel units.
    #[error(
        "{0} commands to the drive's own open-channel namespace are under way, perhaps to these units; try again"
    )]
    Busy(usize),
    /// The target starts or stops.
    #[error("{0}: is starting or stopping; try again later")]
    Changing(String),
    /// The drive allows too few open chunks.
    #[error(
        "the drive allows {allows} open chunks; its block targets need up to {needs}: {each} in each unit"
    )]
    OpenChunks {
        /// Open chunks that the drive allows.
        allows: u32,
        /// Open chunks that its block targets need.
        needs: u32,
        /// Open chunks that they need in each parallel unit.
        each: u32,
    },
}

/// Drive with targets; each target adds a namespace.
#[derive(Clone, Debug)]
pub struct Shared<D> {
    /// Drive below. Nothing else submits to it.
    pub drive: D,
    /// Namespace that the targets share.
    namespace: u16,
    geometry: ChunkGeometry,
    targets: Targets,
    places: Vec<Option<Place>>,
    /// Number of commands to the drive's own namespaces under way.
    own: usize,
    /// Sectors of the writes that raw targets sent to the drive.
    raw_written: u64,
    now: SimTime,
    up: VecDeque<Completion>,
    events: VecDeque<TargetEvent>,
}

impl<D: Drive> Shared<D> {
    /// Takes over a drive at time `now`, with `outstanding` commands of its own namespaces in flight.
    ///
    /// # Errors
    /// The error is the drive, if it has no open-channel namespace.
    pub fn new(drive: D, now: SimTime, outstanding: usize) -> Result<Shared<D>, D> {
        let chunks = |namespace| match drive.interface(namespace) {
            Some(Interface::OpenChannel(geometry)) => Some((namespace, geometry)),
            _ => None,
        };
        let Some((namespace, geometry)) = (0..drive.namespaces()).find_map(chunks) else { return Err(drive) };
        Ok(Shared {
            drive,
            namespace,
            geometry,
            targets: Targets::default(),
            places: Vec::new(),
            own: outstanding,
            raw_written: 0,
            now,
            up: VecDeque::new(),
            events: VecDeque::new(),
        })
    }

    /// Returns the targets, including those that start or stop.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Returns the geometry of the shared namespace.
    pub fn geometry(&self) -> &ChunkGeometry {
        &self.geometry
    }

    /// Returns the sectors of all writes that raw targets sent to the drive.
    pub fn raw_written_sectors(&self) -> u64 {
        self.raw_written
    }

    /// Returns the simulated time.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Returns the namespace and the state of a target.
    pub fn find(&self, name: &str) -> Option<(u16, TargetState)> {
        let at = self.places.iter().position(|place| place.as_ref().is_some_and(|p| p.name == name))?;
        let state = self.places[at].as_ref()?.state();
        Some((self.drive.namespaces() + at as u16, state))
    }

    /// Returns the layer of a block target.
    pub fn layer(&self, namespace: u16) -> Option<&HostFtl> {
        let at = usize::from(namespace.checked_sub(self.drive.namespaces())?);
        match &self.places.get(at)?.as_ref()?.work {
            Work::Block(layer) => Some(layer),
            Work::Raw(_) => None,
        }
    }

    /// Reports whether a target is starting or stopping, which is work even if no command is in
    /// flight.
    pub fn is_changing(&self) -> bool {
        self.places.iter().flatten().any(|place| place.stage != Stage::Ready)
    }

    /// Returns the next event of a target.
    pub fn take_event(&mut self) -> Option<TargetEvent> {
        self.events.pop_front()
    }

    /// Begins to create a target; `settings` are those of a block target's host FTL. Returns the number of
    /// its namespace, which accepts commands once an event reports it ready.
    ///
    /// # Errors
    /// The error is the reason; nothing has changed then.
    pub fn create(&mut self, target: Target, settings: &HostFtlConfig) -> Result<u16, SharedError> {
        let mut targets = self.targets.clone();
        targets.create(&self.geometry, target.clone())?;
        if self.own > 0 {
            return Err(SharedError::Busy(self.own));
        }
        self.check_open_chunks(&targets, open_chunks(settings.separation))?;
        let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        if free == TARGETS_MAX {
            return Err(SharedError::Layer(format!(
                "targets: {TARGETS_MAX} there already; allowed: as many"
            )));
        }
        let (work, stage) = match target.host_ftl(settings) {
            None => (Work::Raw(Box::new(ChunkView::range(self.geometry, target.units))), Stage::Ready),
            Some(config) => {
                let config = HostFtlConfig { namespace: self.namespace, ..config };
                let layer = HostFtl::new(
                    &config,
                    Some(Interface::OpenChannel(self.geometry)),
                    self.drive.image_bytes(),
                )
                .map_err(|error| SharedError::Layer(format!("target {}: {error}", target.name)))?;
                (Work::Block(Box::new(layer)), Stage::Starting)
            }
        };
        self.targets = targets;
        let namespace = self.drive.namespaces() + free as u16;
        if stage == Stage::Ready {
            self.events.push_back(TargetEvent::Ready(namespace));
        }
        let place = Place { name: target.name, work, stage, above: 0, below: 0 };
        match self.places.get_mut(free) {
            Some(vacant) => *vacant = Some(place),
            None => self.places.push(Some(place)),
        }
        let now = self.now;
        self.advance_layers(now);
        self.pump();
        Ok(namespace)
    }

    /// Checks that the drive allows the open chunks of all block targets; `each` is the number that a host
    /// FTL needs in a parallel unit.
    fn check_open_chunks(&self, targets: &Targets, each: u32) -> Result<(), SharedError> {
        let blocks = targets.list().iter().filter(|target| target.kind == TargetKind::Block);
        let needs = each * blocks.map(|target| target.units.len() as u32).sum::<u32>();
        let allows = self.geometry.open_chunks_max;
        if allows > 0 && needs > allows {
            return Err(SharedError::OpenChunks { allows, needs, each });
        }
        Ok(())
    }

    /// Begins to remove a target: it accepts no further commands, commands in flight complete, and a host
    /// FTL writes all its data to the drive. Returns the number of its namespace.
    ///
    /// # Errors
    /// The target does not exist, or it starts or stops.
    pub fn remove(&mut self, name: &str) -> Result<u16, SharedError> {
        self.targets.get(name)?;
        let (namespace, state) = self.find(name).expect("a target has its place");
        if state != TargetState::Ready {
            return Err(SharedError::Changing(name.into()));
        }
        let now = self.now;
        let place = self.place(namespace).expect("it was found");
        place.stage = Stage::Stopping(None);
        if let Work::Block(layer) = &mut place.work {
            layer.stop(now);
        }
        self.pump();
        Ok(namespace)
    }

    /// Stops the layers of all block targets, so that their next starts find all data; runs until they have
    /// stopped.
    ///
    /// # Errors
    /// The error names a target that cannot stop; its next start then searches for its data, as after a power
    /// cut.
    pub fn stop(&mut self) -> Result<(), String> {
        let now = self.now;
        for place in self.places.iter_mut().flatten().filter(|place| place.stage == Stage::Ready) {
            if let Work::Block(layer) = &mut place.work {
                layer.stop(now);
            }
        }
        self.pump();
        let stops = |place: &&Place| matches!(&place.work, Work::Block(l) if !l.is_stopped() && l.failure().is_none());
        while let Some(place) = self.places.iter().flatten().find(stops) {
            match Drive::next_event(self) {
                Some(next) => Drive::advance(self, next),
                None => return Err(format!("target {}: no room is left to write the whole map", place.name)),
            }
        }
        Ok(())
    }

    /// Runs an action on the drive at `now` that is not a command, and handles its effects.
    pub fn act_on_drive<R>(&mut self, now: SimTime, act: impl FnOnce(&mut D) -> R) -> R {
        Drive::advance(self, now);
        let result = act(&mut self.drive);
        self.pump();
        result
    }

    /// Returns the number of sectors whose newest acknowledged data only the memory of the targets' layers holds.
    pub fn unsaved_sectors(&self) -> u64 {
        let of_place = |place: &Place| match &place.work {
            Work::Block(layer) => layer.unsaved_sectors(),
            Work::Raw(_) => 0,
        };
        self.places.iter().flatten().map(of_place).sum()
    }

    /// Restarts the layers after the drive lost power and came back at `now`; runs until they have started.
    ///
    /// # Errors
    /// The error is the reason that a layer does not start, as a sentence.
    pub fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.now = self.now.max(now);
        let now = self.now;
        // Commands of the layers are lost together with the layers' state; the others have ended like any
        // command.
        while let Some(completion) = self.drive.pop() {
            self.ended(completion, true);
        }
        for place in self.places.iter_mut().flatten() {
            let Work::Block(layer) = &mut place.work else { continue };
            place.below = 0;
            Machine::restart(&mut **layer, now)?;
            layer.advance(now);
        }
        self.pump();
        let starts =
            |place: &Place| matches!(&place.work, Work::Block(l) if !l.is_ready() && l.failure().is_none());
        while self.places.iter().flatten().any(starts) {
            match Drive::next_event(self) {
                Some(next) => Drive::advance(self, next),
                None => return Err("the drive does not answer".into()),
            }
        }
        // Targets that were being removed begin their stop again.
        for place in self.places.iter_mut().flatten() {
            if let (Work::Block(layer), Stage::Stopping(None)) = (&mut place.work, &place.stage) {
                layer.stop(self.now);
            }
        }
        self.pump();
        Ok(())
    }

    /// Returns the descriptions of `count` chunks of a namespace from number `first` on; `of_drive` asks the
    /// drive.
    pub fn chunk_infos(
        &self,
        namespace: u16,
        first: u32,
        count: u32,
        of_drive: impl FnOnce(&D, u16, u32, u32) -> Vec<ChunkInfo>,
    ) -> Vec<ChunkInfo> {
        let Some(at) = namespace.checked_sub(self.drive.namespaces()) else {
            return of_drive(&self.drive, namespace, first, count);
        };
        let Some(Some(Place { work: Work::Raw(range), .. })) = self.places.get(usize::from(at)) else {
            return Vec::new();
        };
        let count = count.min(range.chunks().saturating_sub(first));
        if count == 0 {
            return Vec::new();
        }
        let mut infos =
            of_drive(&self.drive, self.namespace, range.chunk_on_drive(first).unwrap_or(0), count);
        infos.iter_mut().for_each(|info| info.start = range.in_view(info.start).unwrap_or(info.start));
        infos
    }

    fn place(&mut self, namespace: u16) -> Option<&mut Place> {
        let at = usize::from(namespace.checked_sub(self.drive.namespaces())?);
        self.places.get_mut(at)?.as_mut()
    }

    /// Returns the bits of [`Ownership::foreign`]; 0 for commands to other namespaces of the drive.
    fn foreign(&self, command: &Command) -> u64 {
        match command.namespace == self.namespace {
            true => Ownership { geometry: &self.geometry, targets: &self.targets }.foreign(command),
            false => 0,
        }
    }

    fn refuse(&mut self, command: Command, status: Status, result: u64) {
        self.up.push_back(Completion { result, ..command.refused(self.now, status) });
    }

    fn submit_to(&mut self, mut command: Command) {
        let (now, shared) = (self.now, self.namespace);
        let at = command.namespace - self.drive.namespaces();
        let owner = (u64::from(at) + 1) << OWNER_SHIFT;
        let place = self.places.get_mut(usize::from(at)).and_then(Option::as_mut);
        let Some(place) = place.filter(|place| place.stage == Stage::Ready) else {
            return self.refuse(command, Status::InvalidField, 0);
        };
        match &mut place.work {
            Work::Block(layer) => {
                command.namespace = 0;
                place.above += 1;
                layer.submit(now, command);
            }
            Work::Raw(range) => match range.to_drive(&mut command) {
                Ok(()) => {
                    (place.above, place.below) = (place.above + 1, place.below + 1);
                    if command.opcode == Opcode::Write {
                        self.raw_written += u64::from(command.sectors);
                    }
                    self.drive
                        .submit(now, Command { tag: command.tag | owner, namespace: shared, ..command });
                }
                Err((status, result)) => self.refuse(command, status, result),
            },
        }
    }

    /// Handles the end of a command of the drive; after a power loss (`lost`), layers do not see it.
    fn ended(&mut self, mut completion: Completion, lost: bool) {
        let owner = (completion.tag & OWNER_MASK) >> OWNER_SHIFT;
        if owner == 0 {
            self.own -= 1;
            return self.up.push_back(completion);
        }
        completion.tag &= !OWNER_MASK;
        let place = self.places[owner as usize - 1].as_mut().expect("a place stays while it has commands");
        match &mut place.work {
            Work::Block(_) if lost => {}
            Work::Block(layer) => {
                place.below -= 1;
                layer.complete(self.now, &mut completion);
            }
            Work::Raw(range) => {
                (place.above, place.below) = (place.above - 1, place.below - 1);
                range.give_back(&mut completion);
                self.up.push_back(completion);
            }
        }
    }

    /// Moves commands down and completions up until nothing moves at this moment.
    fn pump(&mut self) {
        loop {
            let mut moved = false;
            for at in 0..self.places.len() {
                let Some(Place { work: Work::Block(layer), above, below, .. }) = &mut self.places[at] else {
                    continue;
                };
                let owner = (at as u64 + 1) << OWNER_SHIFT;
                while let Some(command) = layer.next_command() {
                    debug_assert_eq!(command.tag & OWNER_MASK, 0, "a layer's tags leave room for the owner");
                    *below += 1;
                    self.drive.submit(self.now, Command { tag: command.tag | owner, ..command });
                    moved = true;
                }
                while let Some(completion) = layer.pop() {
                    *above -= 1;
                    self.up.push_back(completion);
                }
            }
            while let Some(completion) = self.drive.pop() {
                self.ended(completion, false);
                moved = true;
            }
            if !moved {
                break;
            }
        }
        if self.is_changing() {
            self.change();
        }
    }

    /// Advances the targets that start or stop.
    fn change(&mut self) {
        let first = self.drive.namespaces();
        for (at, slot) in self.places.iter_mut().enumerate() {
            let Some(place) = slot else { continue };
            let Some(event) = place.step(first + at as u16) else { continue };
            if let TargetEvent::Gone(..) = event {
                self.targets.remove(&place.name).expect("a place has its target");
                *slot = None;
            }
            self.events.push_back(event);
        }
    }

    fn advance_layers(&mut self, now: SimTime) {
        for place in self.places.iter_mut().flatten() {
            if let Work::Block(layer) = &mut place.work {
                layer.advance(now);
            }
        }
    }
}

impl<D: Drive> Drive for Shared<D> {
    fn namespaces(&self) -> u16 {
        self.drive.namespaces() + self.places.len() as u16
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        let Some(at) = namespace.checked_sub(self.drive.namespaces()) else {
            return self.drive.interface(namespace);
        };
        Some(match &self.places.get(usize::from(at))?.as_ref()?.work {
            Work::Block(layer) => layer.interface(),
            Work::Raw(range) => Interface::OpenChannel(range.geometry()),
        })
    }

    fn image_bytes(&self) -> usize {
        self.drive.image_bytes()
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        Drive::advance(self, now);
        assert_eq!(command.tag >> OWNER_SHIFT, 0, "tags from above leave room for the owner");
        if command.namespace >= self.drive.namespaces() {
            self.submit_to(command);
        } else {
            match self.foreign(&command) {
                0 => {
                    self.own += 1;
                    self.drive.submit(now, command);
                }
                // The drive reports nonexistent addresses the same way.
                addresses => self.refuse(command, Status::LbaOutOfRange, addresses),
            }
        }
        self.pump();
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(next) = Drive::next_event(self).filter(|&next| next <= now) {
            self.now = self.now.max(next);
            self.drive.advance(self.now);
            self.pump();
            self.advance_layers(self.now);
            self.pump();
        }
        self.now = now;
        self.drive.advance(now);
    }

    fn next_event(&self) -> Option<SimTime> {
        let layers = self.places.iter().flatten().filter_map(|place| match &place.work {
            Work::Block(layer) => layer.next_event(),
            Work::Raw(_) => None,
        });
        layers.chain(self.drive.next_event()).min()
    }

    fn pop(&mut self) -> Option<Completion> {
        self.up.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.own + self.places.iter().flatten().map(|place| place.above).sum::<usize>()
    }

    fn completed(&self) -> usize {
        self.up.len()
    }

    fn notices(&self) -> usize {
        self.drive.notices()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        let (namespace, notice) = self.drive.pop_notice()?;
        let Notice::Chunk(chunk) = notice else { return Some((namespace, notice)) };
        if namespace != self.namespace {
            return Some((namespace, notice));
        }
        let first = self.drive.namespaces();
        for (at, place) in self.places.iter().enumerate() {
            if let Some(Place { work: Work::Raw(range), .. }) = place
                && let Some(lba) = range.in_view(chunk.lba)
            {
                return Some((first + at as u16, Notice::Chunk(ChunkNotice { lba, ..chunk })));
            }
        }
        Some((namespace, notice))
    }
}
