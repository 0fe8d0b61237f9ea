//! Layers and how they are stacked.
//!
//! ```text
//!   application ── submit ──► layer ── next_command ──► drive below (or the next layer)
//!               ◄── pop ─────       ◄── complete ──────
//! ```
//! Order at one moment: what the drive does at t runs before what the layer does at t; commands that a layer hands out at t are
//! submitted at t.

use crate::{HostCounters, MountCost};
use pellucid_flash::{Command, Completion, Drive, Interface, Lba, SimTime};

/// What a layer counts, for monitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerFigures {
    /// Counters of its translation; sectors are the drive's.
    pub counters: HostCounters,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Sectors offered.
    pub capacity_sectors: u64,
    /// Lines that can be opened, and all that are not retired.
    pub lines: (u32, u32),
    /// Bytes of host memory.
    pub memory_bytes: u64,
}

/// A state machine that looks like a drive from above and uses one below.
pub trait Layer {
    /// What the layer offers; it has one namespace.
    fn interface(&self) -> Interface;

    /// A command from above, at `now`. It ends with one completion.
    fn submit(&mut self, now: SimTime, command: Command);

    /// The drive below has completed one of the commands handed out by [`Layer::next_command`]. Its buffers are the layer's to take.
    fn complete(&mut self, now: SimTime, completion: &mut Completion);

    /// Runs everything of its own that is due by `now`.
    fn advance(&mut self, now: SimTime);

    /// When the layer next does something by itself; `None`: not before a command or a completion comes.
    fn next_event(&self) -> Option<SimTime>;

    /// The next command for the drive below.
    fn next_command(&mut self) -> Option<Command>;

    /// The next completion for above.
    fn pop(&mut self) -> Option<Completion>;

    /// Whether [`Layer::pop`] has one.
    fn has_completed(&self) -> bool;

    /// Whether the layer has failed for good, in a sentence; commands are then refused.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Whether it stores nothing any more; what it holds can be read still, unless it has failed.
    fn is_read_only(&self) -> bool {
        self.failure().is_some()
    }

    /// Whether a flush makes durable what it follows, trims too.
    fn keeps_flushed(&self) -> bool {
        true
    }

    /// Whether a sector holds data, as far as the layer knows without asking the drive; one that holds none reads as zeros.
    fn holds(&self, _lba: Lba) -> bool {
        true
    }

    /// What it has counted; `None`: nothing.
    fn figures(&self) -> Option<LayerFigures> {
        None
    }

    /// Whether the layer is past its own start, which may read from the drive.
    fn is_ready(&self) -> bool {
        true
    }

    /// What its last start cost; `None`: it keeps nothing that a start would have to find.
    fn start_cost(&self) -> Option<MountCost> {
        None
    }

    /// Begins to bring everything to the drive that makes the next start cheap. A command from above ends it again.
    fn stop(&mut self, _now: SimTime) {}

    /// Whether what [`Layer::stop`] began is complete.
    fn is_stopped(&self) -> bool {
        true
    }

    /// The machine has lost its power, and the drive has come back: the layer starts again from what is on it. Commands of an
    /// application that are under way end with [`PowerLoss`](pellucid_flash::Status::PowerLoss); those of a layer above, which
    /// starts again too, are forgotten.
    ///
    /// The error is a sentence.
    fn restart(&mut self, _now: SimTime) -> Result<(), String> {
        Err("this layer cannot start again".into())
    }
}

/// A layer whose kind is chosen when the program runs.
impl<L: Layer + ?Sized> Layer for Box<L> {
    fn interface(&self) -> Interface {
        (**self).interface()
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        (**self).submit(now, command);
    }

    fn complete(&mut self, now: SimTime, completion: &mut Completion) {
        (**self).complete(now, completion);
    }

    fn advance(&mut self, now: SimTime) {
        (**self).advance(now);
    }

    fn next_event(&self) -> Option<SimTime> {
        (**self).next_event()
    }

    fn next_command(&mut self) -> Option<Command> {
        (**self).next_command()
    }

    fn pop(&mut self) -> Option<Completion> {
        (**self).pop()
    }

    fn has_completed(&self) -> bool {
        (**self).has_completed()
    }

    fn failure(&self) -> Option<String> {
        (**self).failure()
    }

    fn is_read_only(&self) -> bool {
        (**self).is_read_only()
    }

    fn keeps_flushed(&self) -> bool {
        (**self).keeps_flushed()
    }

    fn holds(&self, lba: Lba) -> bool {
        (**self).holds(lba)
    }

    fn figures(&self) -> Option<LayerFigures> {
        (**self).figures()
    }

    fn is_ready(&self) -> bool {
        (**self).is_ready()
    }

    fn start_cost(&self) -> Option<MountCost> {
        (**self).start_cost()
    }

    fn restart(&mut self, now: SimTime) -> Result<(), String> {
        (**self).restart(now)
    }

    fn stop(&mut self, now: SimTime) {
        (**self).stop(now);
    }

    fn is_stopped(&self) -> bool {
        (**self).is_stopped()
    }
}

/// A layer over a drive: a drive.
#[derive(Clone, Debug)]
pub struct Stack<L, D> {
    /// What stands above.
    pub layer: L,
    /// What stands below. Nobody else submits to it, but for namespaces that the layer does not use.
    pub drive: D,
    now: SimTime,
}

impl<L: Layer, D: Drive> Stack<L, D> {
    /// Puts `layer` on `drive`, at `now` of both. The layer begins its start; it takes commands from the first moment on.
    pub fn new(layer: L, drive: D, now: SimTime) -> Stack<L, D> {
        let mut stack = Stack { layer, drive, now };
        stack.layer.advance(now);
        stack.pump();
        stack
    }

    /// Puts `layer` on `drive`, at `now` of both, and runs until the layer has started.
    ///
    /// The error is the layer's sentence.
    pub fn start(layer: L, drive: D, now: SimTime) -> Result<Stack<L, D>, String> {
        let mut stack = Stack::new(layer, drive, now);
        stack.run_start()?;
        Ok(stack)
    }

    /// Lets the layer start again on a drive that has come back at `now`, which has no command of it any more.
    ///
    /// The error is the layer's sentence.
    pub fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.now = self.now.max(now);
        self.layer.restart(self.now)?;
        self.layer.advance(self.now);
        self.pump();
        self.run_start()
    }

    fn run_start(&mut self) -> Result<(), String> {
        while !self.layer.is_ready() && self.layer.failure().is_none() {
            match Drive::next_event(self) {
                Some(next) => Drive::advance(self, next),
                None => return Err("the drive does not answer".into()),
            }
        }
        self.layer.failure().map_or(Ok(()), Err)
    }

    /// Stops the layer and runs until it has stopped, so that its next start on this drive costs little.
    ///
    /// The error is a sentence; what is on the drive is then as after a power cut.
    pub fn stop(&mut self) -> Result<(), String> {
        self.begin_stop();
        while !self.layer.is_stopped() {
            match Drive::next_event(self) {
                Some(next) => Drive::advance(self, next),
                None => return Err("no room is left to write the whole map".into()),
            }
        }
        Ok(())
    }

    /// Begins what [`Stack::stop`] does; [`Layer::is_stopped`] says when it has ended.
    pub fn begin_stop(&mut self) {
        self.layer.stop(self.now);
        self.pump();
    }

    /// Does something to the drive at `now`, beside its commands, and what follows from it.
    pub fn act_on_drive<R>(&mut self, now: SimTime, act: impl FnOnce(&mut D) -> R) -> R {
        Drive::advance(self, now);
        let result = act(&mut self.drive);
        self.pump();
        result
    }

    /// Simulated time of the stack.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Carries commands down and completions up until both are at rest at this moment.
    #[inline]
    fn pump(&mut self) {
        loop {
            let mut moved = false;
            while let Some(command) = self.layer.next_command() {
                self.drive.submit(self.now, command);
                moved = true;
            }
            // Looked at where it lies: it is large.
            let mut completion = self.drive.pop();
            while let Some(ended) = &mut completion {
                self.layer.complete(self.now, ended);
                completion = self.drive.pop();
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }
}

impl<L: Layer, D: Drive> Stack<L, D> {
    /// Goes to `next`, and on before `limit` until something moves between the two: until then the drive is by itself.
    #[inline]
    fn run_to(&mut self, next: SimTime, limit: SimTime) {
        let due = self.layer.next_event();
        let alone = due.map_or(limit, |due| due.min(limit));
        self.now = self.drive.advance_to_completion(self.now.max(next), alone);
        self.pump();
        // Most events are the drive's own.
        if self.layer.next_event().is_some_and(|due| due <= self.now) {
            self.layer.advance(self.now);
            self.pump();
        }
    }
}

impl<L: Layer, D: Drive> Drive for Stack<L, D> {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then(|| self.layer.interface())
    }

    fn image_bytes(&self) -> usize {
        self.drive.image_bytes()
    }

    #[inline]
    fn submit(&mut self, now: SimTime, command: Command) {
        self.advance(now);
        self.layer.submit(now, command);
        self.pump();
    }

    fn advance(&mut self, now: SimTime) {
        while let Some(next) = self.next_event().filter(|&next| next <= now) {
            self.run_to(next, SimTime(now.0.saturating_add(1)));
        }
        if self.now < now {
            self.now = now;
            self.drive.advance(now);
        }
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        self.advance(now);
        while !self.layer.has_completed()
            && let Some(next) = self.next_event().filter(|&next| next < limit)
        {
            self.run_to(next, limit);
        }
        self.now
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        match (self.drive.next_event(), self.layer.next_event()) {
            (Some(drive), Some(layer)) => Some(drive.min(layer)),
            (drive, layer) => drive.or(layer),
        }
    }

    fn pop(&mut self) -> Option<Completion> {
        self.layer.pop()
    }
}
