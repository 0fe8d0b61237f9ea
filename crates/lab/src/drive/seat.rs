//! The drive of an application that runs beside others: its commands go to the run, which owns the actual drive.
//!
//! ```text
//!   application (a thread)                                     run
//!     submit, advance, pop ─► Seat ── Turn: commands, wish ──► at its moment: commands to the drive
//!                               ◄──── Reply: completions ───── at the time or the completion that was wished for
//! ```
//! The application sees one namespace, number 0. It runs only between a reply and its next turn, so applications run one at a time, and nothing
//! depends on threads.
//!
//! Its clock is stopped from [`AppDrive::begin`] until all applications are ready and the measurement begins: `Pause` holds the difference.
//!
//! Invariants: all of `commands` have the time `now`; before `horizon`, nothing visible to the application happens spontaneously.

use super::{AppDrive, RunError, TimedDrive};
use pellucid_flash::{Command, Completion, Drive, Interface, Notice, SimTime};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};

/// Number of an application's own steps until it asks whether the user wants it to continue.
const OWN_STEPS_MAX: u32 = 1 << 14;
const NEVER: SimTime = SimTime(u64::MAX);

/// Event that an application waits for.
#[derive(Debug)]
pub(super) enum Wish {
    /// An immediate answer: the fate of its commands.
    Answer,
    /// A time.
    Time(SimTime),
    /// A completion, until this time.
    Completion(SimTime),
    /// The user's wish to continue or not, after many steps without a command to the drive.
    Word,
    /// The beginning of the measurement.
    Begin,
    /// Nothing: the application has ended.
    Leave(Box<Result<super::AppDone, RunError>>),
}

/// Commands of an application at one time, and the event that it then waits for, in drive time.
#[derive(Debug)]
pub(super) struct Turn {
    pub at: SimTime,
    pub commands: VecDeque<Command>,
    pub wish: Wish,
}

/// News for an application, in drive time.
#[derive(Debug)]
pub(super) struct Reply {
    pub now: SimTime,
    pub completions: Vec<Completion>,
    pub notices: Vec<Notice>,
    /// Time of the drive's next event.
    pub next_event: Option<SimTime>,
    /// Time before which neither the drive nor anything else acts spontaneously.
    pub horizon: SimTime,
    /// True if the user wants the application to end.
    pub stopped: bool,
}

/// Shape of the drive that an application sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub interface: Interface,
    pub image_bytes: usize,
    pub sector_bytes: u32,
}

/// Payload of the panic that ends the thread of an application whose run has failed.
#[derive(Debug)]
pub(super) struct Abandoned;

/// The clock of an application stood at `own` until the drive's stood at `drive`.
#[derive(Clone, Copy, Debug)]
struct Pause {
    own: SimTime,
    drive: SimTime,
}

/// The connection to the run, in the application's time.
#[derive(Debug)]
struct Line {
    turns: Sender<Turn>,
    replies: Receiver<Reply>,
    now: SimTime,
    pause: Option<Pause>,
    commands: VecDeque<Command>,
    outstanding: usize,
    completions: VecDeque<Completion>,
    notices: VecDeque<Notice>,
    next_event: Option<SimTime>,
    horizon: SimTime,
    /// Steps since the last turn.
    own_steps: u32,
    stopped: Rc<Cell<bool>>,
    /// True if the namespace sends notices that the host must answer. (Changes of chunks and zones are reported with the next reply.)
    notifies: bool,
}

impl Line {
    /// Converts the application's time to the drive's.
    fn to_drive(&self, own: SimTime) -> SimTime {
        match self.pause {
            Some(pause) if own != NEVER => SimTime(pause.drive.0.saturating_add(own.since(pause.own).0)),
            _ => own,
        }
    }

    /// Converts the drive's time to the application's.
    fn to_own(&self, drive: SimTime) -> SimTime {
        match self.pause {
            None => drive,
            Some(_) if drive == NEVER => drive,
            Some(pause) if drive < pause.drive => drive.min(pause.own),
            Some(pause) => SimTime(pause.own.0 + drive.since(pause.drive).0),
        }
    }

    /// Hands in the commands with a wish; returns the drive's time when the wish was fulfilled.
    fn turn(&mut self, wish: Wish) -> SimTime {
        let begins = matches!(wish, Wish::Begin);
        self.own_steps = 0;
        let turn = Turn { at: self.to_drive(self.now), commands: std::mem::take(&mut self.commands), wish };
        let reply = self.turns.send(turn).ok().and_then(|()| self.replies.recv().ok());
        let Some(reply) = reply else { std::panic::resume_unwind(Box::new(Abandoned)) };
        if begins {
            self.pause = Some(Pause { own: self.now, drive: reply.now });
        }
        for mut completion in reply.completions {
            completion.submitted = self.to_own(completion.submitted);
            completion.completed = self.to_own(completion.completed);
            self.outstanding -= 1;
            self.completions.push_back(completion);
        }
        self.notices.extend(reply.notices);
        self.next_event = reply.next_event.map(|at| self.to_own(at));
        self.horizon = self.to_own(reply.horizon);
        self.stopped.set(reply.stopped);
        reply.now
    }

    fn go_to(&mut self, now: SimTime) {
        let now = now.max(self.now);
        let sees = self.outstanding > 0 || self.notifies;
        let is_due =
            self.next_event.is_some_and(|event| event <= now) || now >= self.horizon && now > self.now;
        if !self.commands.is_empty() || sees && is_due {
            let to = self.to_drive(now);
            self.turn(Wish::Time(to));
        }
        self.now = now;
        self.own_steps += 1;
        if self.own_steps == OWN_STEPS_MAX {
            self.turn(Wish::Word);
        }
    }

    /// Learns the fate of commands not yet handed in.
    fn settle(&mut self) {
        if !self.commands.is_empty() {
            self.turn(Wish::Answer);
        }
    }
}

/// The drive of an application beside others.
#[derive(Debug)]
pub struct Seat {
    line: RefCell<Line>,
    shape: Shape,
    stopped: Rc<Cell<bool>>,
}

impl Seat {
    /// Makes a seat at a drive at rest at `now`.
    pub(super) fn new(shape: Shape, now: SimTime, turns: Sender<Turn>, replies: Receiver<Reply>) -> Seat {
        let stopped = Rc::new(Cell::new(false));
        let notifies = matches!(shape.interface, Interface::Nameless(_));
        let line = Line {
            turns,
            replies,
            now,
            pause: None,
            commands: VecDeque::new(),
            outstanding: 0,
            completions: VecDeque::new(),
            notices: VecDeque::new(),
            next_event: None,
            horizon: now,
            own_steps: 0,
            stopped: stopped.clone(),
            notifies,
        };
        Seat { line: RefCell::new(line), shape, stopped }
    }

    /// Converts the application's time to the drive's.
    pub fn to_drive(&self, own: SimTime) -> SimTime {
        self.line.borrow().to_drive(own)
    }
}

impl AppDrive for Seat {
    fn begin(&mut self) {
        self.line.get_mut().turn(Wish::Begin);
    }

    fn stopped(&self) -> Rc<Cell<bool>> {
        self.stopped.clone()
    }
}

impl Drive for Seat {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        (namespace == 0).then_some(self.shape.interface)
    }

    fn image_bytes(&self) -> usize {
        self.shape.image_bytes
    }

    fn submit(&mut self, now: SimTime, command: Command) {
        let line = self.line.get_mut();
        line.go_to(now);
        line.outstanding += 1;
        line.commands.push_back(command);
    }

    fn advance(&mut self, now: SimTime) {
        self.line.get_mut().go_to(now);
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        let line = self.line.get_mut();
        line.go_to(now);
        if line.completions.is_empty() && line.outstanding > 0 && limit > line.now {
            let until = line.to_drive(limit);
            let reached = line.turn(Wish::Completion(until));
            line.now = line.now.max(line.to_own(reached));
        }
        line.now
    }

    fn next_event(&self) -> Option<SimTime> {
        let mut line = self.line.borrow_mut();
        line.settle();
        let sees = line.outstanding > 0 || line.notifies;
        line.next_event.filter(|_| sees)
    }

    fn pop(&mut self) -> Option<Completion> {
        let line = self.line.get_mut();
        if line.completions.is_empty() {
            line.settle();
        }
        line.completions.pop_front()
    }

    fn outstanding(&self) -> usize {
        let mut line = self.line.borrow_mut();
        line.settle();
        line.outstanding
    }

    fn completed(&self) -> usize {
        let mut line = self.line.borrow_mut();
        line.settle();
        line.completions.len()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        self.line.get_mut().notices.pop_front().map(|notice| (0, notice))
    }
}

impl TimedDrive for Seat {
    fn now(&self) -> SimTime {
        self.line.borrow().now
    }

    fn sector_bytes(&self) -> u32 {
        self.shape.sector_bytes
    }

    /// Stops only at the application's own completions: events of others do not concern it.
    fn wait(&mut self, now: SimTime, until: Option<SimTime>) -> Option<SimTime> {
        let line = self.line.get_mut();
        line.settle();
        if line.outstanding == 0 && line.completions.is_empty() {
            line.go_to(now.max(until?));
            return Some(line.now);
        }
        Some(self.advance_to_completion(now, until.map_or(NEVER, |until| until.max(now))))
    }
}
