//! The engine loop: backends, their time, and whose request is whose.
//!
//! ```text
//!  submit ─┬─ instant ─► submission batch ─ choose ─► next ─► enter ─┐
//!          └─ paced, or in wall time ──────────────────────► enter ─┴─► backend ─► take ─► leave ─► end
//! ```
//! A [`Backend`] is whatever is served: it answers requests in simulated time, as a drive, a key-value store or a file system does. The engine does not look
//! into what is asked and answered. It has the clocks ([`Pacer`]), the [in-flight table](in_flight), which requests go in together
//! ([`submission`]) and how many answers go out together ([`completion`]).
//!
//! Paced: an arrival is stamped `max(wall, backend)`. Instant: wall time plays no part; while requests are in a backend it jumps from
//! event to event, and requests wait in the submission batch until the backends run, so that the memory that they need can be
//! prefetched together.
//!
//! [`Engine::submit`] and [`Engine::run`] are the whole of it for a plain server. One that has more to do at these steps (record requests,
//! prefetch, cut a request into several) takes the steps itself, as [`Core`](crate::Core) does for drives.
//!
//! Invariants: a backend is never told a time before one that it was told already; requests of one connection enter a backend in the
//! order in which they were submitted.

mod completion;
mod in_flight;
mod machine;
mod pacer;
mod submission;
#[cfg(test)]
mod tests;

use crate::session::ConnectionId;
use completion::CompletionBatch;
use in_flight::InFlight;
use pellucid_flash::{Histogram, SimTime};
use std::collections::VecDeque;
use submission::SubmissionBatch;

pub(crate) use completion::BATCH_MAX;
pub(crate) use in_flight::Entry;
pub use machine::Reply;
use pacer::Pacer;
pub use pacer::{Lead, Time};
pub(crate) use submission::Submission;

/// Events that a backend may run before the sockets are looked at again.
const EVENTS_MAX: u32 = 4096;

/// Where an answer goes: to this connection's session, with its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The connection.
    pub connection: ConnectionId,
    /// The session's own name for the request.
    pub token: u64,
}

/// An answer as it comes out of a backend.
#[derive(Debug)]
pub struct Answered<A> {
    /// The name that the request was submitted under.
    pub tag: u32,
    /// When it was answered, in the backend's time.
    pub at: SimTime,
    /// The answer.
    pub answer: A,
}

/// Something that answers requests in simulated time.
///
/// The order of calls is that of every sans-io backend here: `submit` and `advance` move time forward, `pop` hands out answers,
/// `next_event` says when to come back. Every request has exactly one answer.
pub trait Backend {
    /// A request.
    type Ask;
    /// Its answer.
    type Answer;

    /// The time that it has come to.
    fn now(&self) -> SimTime;

    /// Takes a request at `at`, not before [`Backend::now`]; it is answered under `tag`.
    fn submit(&mut self, at: SimTime, tag: u32, ask: Self::Ask);

    /// When something happens next by itself; `None` at rest.
    fn next_event(&self) -> Option<SimTime>;

    /// Runs everything that is due by `now`.
    fn advance(&mut self, now: SimTime);

    /// Requests that have been submitted and not answered.
    fn outstanding(&self) -> usize;

    /// Answers that wait for [`Backend::pop`].
    fn completed(&self) -> usize;

    /// The next answer.
    fn pop(&mut self) -> Option<Answered<Self::Answer>>;

    /// Whether its time is wall time, whatever the engine's: a backend of another process. Its owner runs it.
    fn is_in_wall_time(&self) -> bool {
        false
    }
}

/// Machines in service.
pub struct Engine<M: Backend> {
    backends: Vec<M>,
    pacer: Pacer,
    in_flight: InFlight,
    /// Empty unless time is instant.
    submissions: SubmissionBatch<M::Ask>,
    /// Chosen to go in, the next one last; empty between turns.
    chosen: Vec<Submission<M::Ask>>,
    completions: CompletionBatch,
    /// Answers that were taken out of a backend before their turn.
    withdrawn: VecDeque<Answered<M::Answer>>,
}

impl<M: Backend> Engine<M> {
    /// Takes backends into service. Time that is paced must have a dilation above 0.
    pub fn new(backends: Vec<M>, time: Time) -> Engine<M> {
        Engine {
            backends,
            pacer: Pacer::new(time),
            in_flight: InFlight::default(),
            submissions: SubmissionBatch::default(),
            chosen: Vec::new(),
            completions: CompletionBatch::default(),
            withdrawn: VecDeque::new(),
        }
    }

    /// The backends.
    pub fn backends(&self) -> &[M] {
        &self.backends
    }

    /// The backends, to be changed: what waits in the submission batch has not reached them.
    pub(crate) fn backends_mut(&mut self) -> &mut Vec<M> {
        &mut self.backends
    }

    /// The backends as they are now.
    pub fn into_backends(self) -> Vec<M> {
        self.backends
    }

    /// Hands a request with `bytes` bytes of data to backend number `backend`. It goes in with the next [`Engine::run`], at the latest.
    pub fn submit(&mut self, backend: usize, route: Route, bytes: usize, ask: M::Ask) {
        let tag = self.begin(Entry { route, namespace: backend, bytes, inside: 0 });
        if let Some(submission) = self.offer(backend, tag, bytes, ask) {
            let at = self.arrives(backend);
            self.enter(at, submission);
        }
    }

    /// Lets in those whose turn it is, and the backends do what is due. Returns whether more can be done at once.
    pub fn run(&mut self) -> bool {
        self.choose(false);
        while let Some(submission) = self.next_chosen() {
            let at = self.arrives(submission.backend);
            self.enter(at, submission);
        }
        self.advance()
    }

    /// The next answer: where it goes, and what it is.
    pub fn pop(&mut self) -> Option<(Route, M::Answer)> {
        let Answered { tag, at, answer } = self.take()?;
        Some((self.end(tag, at).route, answer))
    }

    /// Gives a request its tag; from now on it is outstanding.
    #[inline]
    pub(crate) fn begin(&mut self, entry: Entry) -> u32 {
        self.in_flight.enter(entry)
    }

    /// The request of a tag.
    #[inline]
    pub(crate) fn entry(&self, tag: u32) -> &Entry {
        self.in_flight.of(tag)
    }

    /// Puts a request into the submission batch; given back, it is to be entered at once.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        backend: usize,
        tag: u32,
        bytes: usize,
        ask: M::Ask,
    ) -> Option<Submission<M::Ask>> {
        let connection = self.in_flight.of(tag).route.connection;
        let submission = Submission::new(connection, backend, tag, bytes, ask);
        if self.pacer.time == Time::Instant && !self.backends[backend].is_in_wall_time() {
            self.submissions.put(submission);
            return None;
        }
        Some(submission)
    }

    /// Whether a request waits to go in.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.submissions.is_empty()
    }

    /// Chooses those whose turn it is to go in (`all`: all of them), behind those that were chosen before.
    #[inline]
    pub(crate) fn choose(&mut self, all: bool) {
        if self.submissions.is_empty() {
            return;
        }
        let mut earlier = std::mem::take(&mut self.chosen);
        // The memory of an empty one is used again.
        if earlier.is_empty() {
            std::mem::swap(&mut earlier, &mut self.chosen);
        }
        self.submissions.take(&mut self.chosen, all);
        self.chosen.reverse();
        self.chosen.append(&mut earlier);
    }

    /// Those that were chosen and have not gone in, in order.
    #[inline]
    pub(crate) fn chosen(&self) -> impl ExactSizeIterator<Item = &Submission<M::Ask>> {
        self.chosen.iter().rev()
    }

    /// The next of them, which is to be entered.
    #[inline]
    pub(crate) fn next_chosen(&mut self) -> Option<Submission<M::Ask>> {
        let submission = self.chosen.pop()?;
        self.in_flight.charge(submission.tag, self.submissions.enters(&submission));
        Some(submission)
    }

    /// A request arrives at a backend now; its time.
    #[inline]
    pub(crate) fn arrives(&mut self, backend: usize) -> SimTime {
        let backend = &self.backends[backend];
        let now = match backend.is_in_wall_time() {
            false => self.pacer.arrives(),
            true => SimTime(self.pacer.now_ns()),
        };
        now.max(backend.now())
    }

    /// Gives a request to its backend.
    #[inline]
    pub(crate) fn enter(&mut self, at: SimTime, submission: Submission<M::Ask>) {
        let Submission { backend, tag, ask, .. } = submission;
        self.backends[backend].submit(at, tag, ask);
    }

    /// Lets the backends do what is due. Returns whether more can be done at once.
    pub(crate) fn advance(&mut self) -> bool {
        match self.pacer.time {
            Time::Paced { .. } => {
                let look = self.pacer.look();
                for backend in in_time(&mut self.backends) {
                    // No further than its events go: what arrives cannot be stamped before what the backend has done.
                    while let Some(at) = backend.next_event()
                        && at <= look.until(backend.outstanding() > 0)
                    {
                        backend.advance(at);
                    }
                }
                false
            }
            Time::Instant => {
                let batch = self.completions.next(self.in_flight.outstanding());
                let mut more = self.has_waiting();
                for backend in in_time(&mut self.backends) {
                    for _ in 0..EVENTS_MAX {
                        let Some(at) = backend.next_event().filter(|_| backend.outstanding() > 0) else {
                            break;
                        };
                        backend.advance(at);
                        if backend.completed() >= batch {
                            break;
                        }
                    }
                    more |= backend.outstanding() > 0;
                }
                more
            }
        }
    }

    /// Instant: runs a little of what the backends do by themselves while no request waits. Returns whether there is more.
    pub fn run_background(&mut self) -> bool {
        if self.pacer.time != Time::Instant {
            return false;
        }
        let mut more = false;
        for backend in in_time(&mut self.backends) {
            for _ in 0..EVENTS_MAX / 16 {
                let Some(at) = backend.next_event() else { break };
                backend.advance(at);
            }
            more |= backend.next_event().is_some();
        }
        more
    }

    /// Wall time, on the clock of [`Engine::now_ns`], at which a backend next does something; `None`: not by itself.
    pub fn next_due_ns(&self) -> Option<u64> {
        let due = |backend: &M| match (backend.is_in_wall_time(), self.pacer.time) {
            (true, _) => backend.next_event().map(|at| at.0),
            (false, Time::Paced { .. }) => {
                backend.next_event().map(|at| self.pacer.due_ns(at, backend.outstanding() > 0))
            }
            (false, Time::Instant) => None,
        };
        self.backends.iter().filter_map(due).min()
    }

    /// Has an answer that was taken out of a backend handed out before all others.
    pub(crate) fn withdraw(&mut self, answered: Answered<M::Answer>) {
        self.withdrawn.push_back(answered);
    }

    /// The next answer that has come out of a backend.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Answered<M::Answer>> {
        let answered = match self.withdrawn.is_empty() {
            true => self.backends.iter_mut().find_map(M::pop)?,
            false => self.withdrawn.pop_front()?,
        };
        self.submissions.leaves(self.in_flight.discharge(answered.tag));
        Some(answered)
    }

    /// The request of a tag has been answered for good, at `at` in its backend's time.
    #[inline]
    pub(crate) fn end(&mut self, tag: u32, at: SimTime) -> Entry {
        self.pacer.took(at);
        self.in_flight.leave(tag)
    }

    /// All that was taken since [`Engine::run`] has been sent, as far as the sockets took it.
    #[inline]
    pub fn handed_out(&mut self) {
        self.pacer.handed_out(self.in_flight.outstanding());
    }

    /// Requests that have not been answered.
    pub fn outstanding(&self) -> usize {
        self.in_flight.outstanding()
    }

    /// Bytes of their data.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.in_flight.bytes()
    }

    /// From now on answers are handed out so much before their time (paced only).
    pub fn set_lead(&mut self, lead: Lead) {
        self.pacer.set_lead(lead);
    }

    /// What is taken for the way from the host to the backend and back; 0 when time is instant.
    pub fn lead_ns(&self) -> u64 {
        self.pacer.lead_ns()
    }

    /// What handing an answer out costs here, as measured; 0 when time is instant.
    pub fn hand_out_ns(&self) -> u64 {
        self.pacer.cost_ns()
    }

    /// How late answers were handed out, in wall nanoseconds; empty unless paced.
    pub fn lateness_ns(&self) -> &Histogram<4> {
        &self.pacer.lateness_ns
    }

    /// From now on modelled time is not waited for.
    pub(crate) fn stop_pacing(&mut self) {
        self.pacer.time = Time::Instant;
    }

    /// How time goes.
    pub fn time(&self) -> Time {
        self.pacer.time
    }

    /// The backends' time now; in instant time 0, as no clock is read.
    pub(crate) fn backend_now(&self) -> SimTime {
        self.pacer.drive_now()
    }

    /// Wall time since the start.
    pub fn now_ns(&self) -> u64 {
        self.pacer.now_ns()
    }
}

/// The backends whose time is the engine's.
fn in_time<M: Backend>(backends: &mut [M]) -> impl Iterator<Item = &mut M> {
    backends.iter_mut().filter(|backend| !backend.is_in_wall_time())
}
