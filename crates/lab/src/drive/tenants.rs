//! Applications beside other work on one drive: each has its own thread, of which only one runs at a time.
//!
//! ```text
//!   acts ─ commands handed out ─► sleeps ─ its time, or a completion ─► it is told, and acts again
//!     ├─► ready ─ all are, and no command is under way ─► the measurement begins, jobs start ─► told
//!     └─► left
//! ```
//! An application waits in the middle of its work, so it needs a stack of its own. The run asks the tenants for the next step as it asks jobs. At the
//! same time they act in the order of the description, each until it waits.
//!
//! Invariants: a thread works only while [`Tenants::next`] waits for its turn; `inbox` holds completions that its application has not been told.

use super::seat::{Reply, Seat, Shape, Turn, Wish};
use super::{AppDone, JobName, RunError, Target};
use pellucid_flash::{ChunkOp, Command, Completion, Notice, Opcode, SimTime, Status};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

const NEVER: SimTime = SimTime(u64::MAX);
/// Stack size of an application, like that of a process.
const STACK_BYTES: usize = 8 << 20;

/// Work of an application on its seat.
pub type Work = Box<dyn FnOnce(Seat) -> Result<AppDone, RunError> + Send>;

/// An application to run beside others.
pub struct Tenant {
    /// Its job.
    pub name: JobName,
    /// Its work.
    pub work: Work,
}

/// Next step of the run.
pub(super) enum Step {
    /// Submit this command of a tenant.
    Submit(u32, Box<Command>),
    /// Begin the measurement.
    Begin,
    /// Ask the user whether to continue.
    Ask,
    /// Take the result of a tenant.
    Left(u32, Box<Result<AppDone, RunError>>),
    /// Nothing before this time.
    At(SimTime),
    /// Nothing before a completion.
    Blocked,
    /// Nothing ever.
    End,
}

#[derive(Debug)]
enum State {
    Acts(Turn),
    Sleeps { until: SimTime, wakes: bool },
    Ready,
    Left,
}

struct Place {
    name: JobName,
    state: State,
    inbox: Vec<Completion>,
    notices: Vec<Notice>,
    replies: Option<Sender<Reply>>,
    turns: Receiver<Turn>,
    thread: Option<JoinHandle<()>>,
    /// Sectors that its commands have written or copied.
    written: u64,
    copied: u64,
}

/// All applications of a run.
pub struct Tenants {
    places: Vec<Place>,
    begun: bool,
    stopped: bool,
}

impl Tenants {
    /// Starts applications on a drive at rest.
    pub fn new(tenants: Vec<Tenant>, target: &impl Target) -> Result<Tenants, RunError> {
        let (now, sector_bytes) = (target.now(), target.sector_bytes());
        let image_bytes = target.image_bytes();
        let one = |Tenant { name, work }: Tenant| {
            let interface = target.interface(name.namespace).expect("a job has a namespace of the drive");
            let shape = Shape { interface, image_bytes, sector_bytes };
            Place::new(name, work, shape, now)
        };
        let places = tenants.into_iter().map(one).collect::<Result<_, _>>()?;
        Ok(Tenants { places, begun: false, stopped: false })
    }

    /// Returns the jobs of the applications.
    pub fn names(&self) -> impl Iterator<Item = &JobName> {
        self.places.iter().map(|place| &place.name)
    }

    /// Returns the number of applications.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns whether jobs may start and continue.
    pub fn lets_jobs_go_on(&self) -> bool {
        self.begun && !self.stopped
    }

    /// Returns whether all have ended.
    pub fn is_over(&self) -> bool {
        self.places.iter().all(|place| matches!(place.state, State::Left))
    }

    /// Tells all applications to end.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Returns the sectors that a tenant's commands have written and copied.
    pub fn written_and_copied(&self, at: u32) -> (u64, u64) {
        let place = &self.places[at as usize];
        (place.written, place.copied)
    }

    /// Handles the end of a tenant's command, given by the tenant's tag.
    pub fn completed(&mut self, at: u32, completion: Completion, sectors: u32) {
        let place = &mut self.places[at as usize];
        if completion.status == Status::Success {
            match completion.opcode {
                Opcode::Write => place.written += u64::from(sectors),
                Opcode::Chunk(ChunkOp::Copy) => place.copied += u64::from(sectors),
                _ => {}
            }
        }
        place.inbox.push(completion);
    }

    /// Passes a notice to the owner of a namespace.
    pub fn notify(&mut self, namespace: u16, notice: Notice) {
        if let Some(place) = self.places.iter_mut().find(|place| place.name.namespace == namespace) {
            place.notices.push(notice);
        }
    }

    /// Returns the next step at `now`. `next_event`: the drive's; `release`: the next time at which jobs act; `idle`: no command is in flight.
    pub(super) fn next(
        &mut self,
        now: SimTime,
        next_event: Option<SimTime>,
        release: Option<SimTime>,
        idle: bool,
    ) -> Step {
        for at in 0..self.places.len() {
            if let Some(step) = self.act(at, now, next_event, release) {
                return step;
            }
        }
        let waits = |place: &Place| matches!(place.state, State::Ready | State::Left);
        if !self.begun && idle && !self.is_over() && self.places.iter().all(waits) {
            self.begun = true;
            for place in self.places.iter_mut().filter(|place| matches!(place.state, State::Ready)) {
                place.state = State::Sleeps { until: now, wakes: false };
            }
            return Step::Begin;
        }
        match self.places.iter().map(Place::acts_at).min().filter(|&at| at != NEVER) {
            Some(at) => Step::At(at),
            None if self.is_over() => Step::End,
            None => Step::Blocked,
        }
    }

    /// Lets a tenant act at `now`, as far as it can.
    fn act(
        &mut self,
        at: usize,
        now: SimTime,
        next_event: Option<SimTime>,
        release: Option<SimTime>,
    ) -> Option<Step> {
        loop {
            let place = &mut self.places[at];
            let (news, due) = (place.has_news(), next_event.is_some_and(|event| event <= now));
            match &mut place.state {
                State::Acts(turn) if turn.at <= now => {
                    if let Some(mut command) = turn.commands.pop_front() {
                        command.namespace = place.name.namespace;
                        return Some(Step::Submit(at as u32, Box::new(command)));
                    }
                    match std::mem::replace(&mut turn.wish, Wish::Answer) {
                        Wish::Answer => self.reply(at, now, next_event, release),
                        Wish::Time(until) => place.state = State::Sleeps { until, wakes: false },
                        Wish::Completion(until) => place.state = State::Sleeps { until, wakes: true },
                        Wish::Word => {
                            place.state = State::Sleeps { until: now, wakes: false };
                            return Some(Step::Ask);
                        }
                        Wish::Begin => place.state = State::Ready,
                        Wish::Leave(result) => {
                            place.state = State::Left;
                            return Some(Step::Left(at as u32, result));
                        }
                    }
                }
                // Due events come first.
                State::Sleeps { until, wakes } if *until <= now && !due || *wakes && news => {
                    self.reply(at, now, next_event, release);
                }
                State::Acts(_) | State::Sleeps { .. } | State::Ready | State::Left => return None,
            }
        }
    }

    /// Reports events to a tenant, and waits for its next turn.
    fn reply(&mut self, at: usize, now: SimTime, next_event: Option<SimTime>, release: Option<SimTime>) {
        let others = self.places.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.map(|(_, place)| place.acts_at());
        let horizon = others.chain(next_event).chain(release).min().unwrap_or(NEVER);
        let stopped = self.stopped;
        let place = &mut self.places[at];
        let reply = Reply {
            now,
            completions: std::mem::take(&mut place.inbox),
            notices: std::mem::take(&mut place.notices),
            next_event,
            horizon,
            stopped,
        };
        place.tell(reply);
    }
}

impl Place {
    /// Starts the thread of an application, and waits for its first turn.
    fn new(name: JobName, work: Work, shape: Shape, now: SimTime) -> Result<Place, RunError> {
        let (send_turn, turns) = channel();
        let (replies, take_reply) = channel();
        let told = send_turn.clone();
        let body = move || {
            let result = work(Seat::new(shape, now, send_turn, take_reply));
            let at = result.as_ref().map_or(SimTime::ZERO, |done| done.end);
            // A run that has failed takes no results.
            let _ = told.send(Turn { at, commands: VecDeque::new(), wish: Wish::Leave(Box::new(result)) });
        };
        let thread = Builder::new().name(name.name.clone()).stack_size(STACK_BYTES).spawn(body);
        let thread =
            thread.map_err(|error| RunError::Host(format!("no thread for {}: {error}", name.name)))?;
        let mut place = Place {
            name,
            state: State::Left,
            inbox: Vec::new(),
            notices: Vec::new(),
            replies: Some(replies),
            turns,
            thread: Some(thread),
            written: 0,
            copied: 0,
        };
        place.hear();
        Ok(place)
    }

    /// Returns when the tenant acts next by itself.
    fn acts_at(&self) -> SimTime {
        match &self.state {
            State::Acts(turn) => turn.at,
            // It has not been told of the news yet.
            State::Sleeps { wakes: true, .. } if self.has_news() => SimTime::ZERO,
            State::Sleeps { until, .. } => *until,
            State::Ready | State::Left => NEVER,
        }
    }

    fn has_news(&self) -> bool {
        !self.inbox.is_empty() || !self.notices.is_empty()
    }

    fn tell(&mut self, reply: Reply) {
        if let Some(replies) = &self.replies {
            // A panic is found when the application should act.
            let _ = replies.send(reply);
        }
        self.hear();
    }

    /// Waits for the next turn.
    ///
    /// # Panics
    /// The application has panicked.
    fn hear(&mut self) {
        if let Ok(turn) = self.turns.recv() {
            self.state = State::Acts(turn);
            return;
        }
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Err(payload)) => std::panic::resume_unwind(payload),
            _ => panic!("an application has ended without a result"),
        }
    }
}

impl Drop for Place {
    /// Ends an application whose run has failed, where it waits.
    fn drop(&mut self) {
        self.replies = None;
        if let Some(thread) = self.thread.take() {
            // The payload of its panic is `Abandoned`.
            let _ = thread.join();
        }
    }
}
