//! The engine loop: backends, their clocks, and the owners of requests.
//!
//! ```text
//!  submit ─┬─ instant ─► submission batch ─ choose ─► next ─► enter ─┐
//!          └─ paced, or in wall time ──────────────────────► enter ─┴─► backend ─► take ─► leave ─► end
//! ```
//! A [`Backend`] answers requests in simulated time: a drive, a key-value store, a file system. The engine
//! does not look into requests and answers. It has the clocks ([`Pacer`]) and the [in-flight
//! table](in_flight), and decides which requests enter together ([`submission`]) and how many answers leave
//! together ([`completion`]).
//!
//! Paced: an arrival is stamped `max(wall, backend)`. Instant: wall time plays no part. While requests are in
//! a backend, time jumps from event to event; other requests wait in the submission batch until the backends
//! run, so that the memory they need can be prefetched together.
//!
//! A plain server needs only [`Engine::submit`] and [`Engine::run`]. A server with more work at these steps
//! (recording, prefetching, splitting requests) performs the steps itself, as [`Core`](crate::Core) does for
//! drives.
//!
//! Invariants: a backend is never told a time earlier than one it was already told; requests of one
//! connection enter a backend in order of submission.

mod completion;
mod in_flight;
mod machine;
mod pacer;
mod submission;
#[cfg(test)]
mod tests;

use completion::CompletionBatch;
use in_flight::InFlight;
use pellucid_flash::{Histogram, SimTime};
use pellucid_target::connection::Route;
use std::collections::VecDeque;
use submission::SubmissionBatch;

pub(crate) use in_flight::Entry;
pub use machine::Reply;
use pacer::Pacer;
pub use pacer::{Lead, Time};
pub(crate) use submission::Submission;

/// Events that a backend may run before the sockets are polled again.
const EVENTS_MAX: u32 = 4096;

/// An answer as it comes out of a backend.
#[derive(Debug)]
pub struct Answered<A> {
    /// Tag that the request was submitted under.
    pub tag: u32,
    /// Time of the answer, in the backend's time.
    pub at: SimTime,
    /// The answer.
    pub answer: A,
}

/// A backend that answers requests in simulated time.
///
/// The calls follow the order of every sans-io backend here: `submit` and `advance` move time forward, `pop`
/// hands out answers, `next_event` gives the time of the next call. Every request has exactly one answer.
pub trait Backend {
    /// A request.
    type Ask;
    /// An answer to a request.
    type Answer;

    /// Current time of the backend.
    fn now(&self) -> SimTime;

    /// Accepts a request at `at`, not before [`Backend::now`]; the answer carries `tag`.
    fn submit(&mut self, at: SimTime, tag: u32, ask: Self::Ask);

    /// Time of the backend's next internal event; `None` when idle.
    fn next_event(&self) -> Option<SimTime>;

    /// Runs everything that is due by `now`.
    fn advance(&mut self, now: SimTime);

    /// Number of submitted requests that are not answered.
    fn outstanding(&self) -> usize;

    /// Number of answers that wait for [`Backend::pop`].
    fn completed(&self) -> usize;

    /// Returns the next answer.
    fn pop(&mut self) -> Option<Answered<Self::Answer>>;

    /// Returns true if the backend runs in wall time, whatever the engine's time mode, as a backend of
    /// another process does. Its owner runs it.
    fn is_in_wall_time(&self) -> bool {
        false
    }
}

/// Backends in service.
pub struct Engine<M: Backend> {
    backends: Vec<M>,
    pacer: Pacer,
    in_flight: InFlight,
    /// Submission batch; empty unless time is instant.
    submissions: SubmissionBatch<M::Ask>,
    /// Requests chosen to enter, the next one last; empty between turns.
    chosen: Vec<Submission<M::Ask>>,
    completions: CompletionBatch,
    /// Answers taken out of a backend ahead of the others.
    withdrawn: VecDeque<Answered<M::Answer>>,
}

impl<M: Backend> Engine<M> {
    /// Takes backends into service. A dilation must be above 0.
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

    /// Mutable access to the backends, which do not have the requests of the submission batch yet.
    pub(crate) fn backends_mut(&mut self) -> &mut Vec<M> {
        &mut self.backends
    }

    /// Unwraps the backends in their present state.
    pub fn into_backends(self) -> Vec<M> {
        self.backends
    }

    /// Submits a request with `bytes` of data to backend number `backend`. It enters with the next
    /// [`Engine::run`] at the latest.
    pub fn submit(&mut self, backend: usize, route: Route, bytes: usize, ask: M::Ask) {
        let tag = self.begin(Entry { route, namespace: backend, bytes, inside: 0 });
        if let Some(submission) = self.offer(backend, tag, bytes, ask) {
            let at = self.arrives(backend);
            self.enter(at, submission);
        }
    }

    /// Submits the requests whose turn it is and runs the backends' due work. Returns true if more can be
    /// done at once.
    pub fn run(&mut self) -> bool {
        self.choose(false);
        while let Some(submission) = self.next_chosen() {
            let at = self.arrives(submission.backend);
            self.enter(at, submission);
        }
        self.advance()
    }

    /// Returns the next answer with its destination.
    pub fn pop(&mut self) -> Option<(Route, M::Answer)> {
        let Answered { tag, at, answer } = self.take()?;
        Some((self.end(tag, at).route, answer))
    }

    /// Assigns a tag to a request, which is outstanding from now on.
    #[inline]
    pub(crate) fn begin(&mut self, entry: Entry) -> u32 {
        self.in_flight.enter(entry)
    }

    /// The request of a tag.
    #[inline]
    pub(crate) fn entry(&self, tag: u32) -> &Entry {
        self.in_flight.of(tag)
    }

    /// Puts a request into the submission batch; a request that is returned must be entered at once.
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

    /// Returns true if a request waits to enter.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.submissions.is_empty()
    }

    /// Chooses the requests whose turn it is (`all`: every request), after those chosen before.
    #[inline]
    pub(crate) fn choose(&mut self, all: bool) {
        if self.submissions.is_empty() {
            return;
        }
        let mut earlier = std::mem::take(&mut self.chosen);
        // The memory of an empty vector is reused.
        if earlier.is_empty() {
            std::mem::swap(&mut earlier, &mut self.chosen);
        }
        self.submissions.take(&mut self.chosen, all);
        self.chosen.reverse();
        self.chosen.append(&mut earlier);
    }

    /// Chosen requests that have not entered, in order.
    #[inline]
    pub(crate) fn chosen(&self) -> impl ExactSizeIterator<Item = &Submission<M::Ask>> {
        self.chosen.iter().rev()
    }

    /// Removes the next chosen request, which the caller must enter.
    #[inline]
    pub(crate) fn next_chosen(&mut self) -> Option<Submission<M::Ask>> {
        let submission = self.chosen.pop()?;
        self.in_flight.charge(submission.tag, self.submissions.enters(&submission));
        Some(submission)
    }

    /// Stamps a request that arrives at a backend now; returns its time.
    #[inline]
    pub(crate) fn arrives(&mut self, backend: usize) -> SimTime {
        let backend = &self.backends[backend];
        let now = match backend.is_in_wall_time() {
            false => self.pacer.arrives(),
            true => SimTime(self.pacer.now_ns()),
        };
        now.max(backend.now())
    }

    /// Submits a request to its backend.
    #[inline]
    pub(crate) fn enter(&mut self, at: SimTime, submission: Submission<M::Ask>) {
        let Submission { backend, tag, ask, .. } = submission;
        self.backends[backend].submit(at, tag, ask);
    }

    /// Runs the backends' due work. Returns true if more can be done at once.
    pub(crate) fn advance(&mut self) -> bool {
        match self.pacer.time {
            Time::Paced { .. } => {
                let look = self.pacer.look();
                for backend in in_time(&mut self.backends) {
                    // Advance only from event to event: an arrival cannot be stamped before the backend's
                    // time.
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

    /// Runs some background work of the backends in instant time while no request waits. Returns true if
    /// there is more.
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

    /// Wall time of a backend's next event, on the clock of [`Engine::now_ns`]; `None` if there is none.
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

    /// Queues an answer that was taken out of a backend early; it is handed out before all others.
    pub(crate) fn withdraw(&mut self, answered: Answered<M::Answer>) {
        self.withdrawn.push_back(answered);
    }

    /// Returns the next answer of a backend.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Answered<M::Answer>> {
        let answered = match self.withdrawn.is_empty() {
            true => self.backends.iter_mut().find_map(M::pop)?,
            false => self.withdrawn.pop_front()?,
        };
        self.submissions.leaves(self.in_flight.discharge(answered.tag));
        Some(answered)
    }

    /// Removes the request of a tag, finally answered at `at` in its backend's time.
    #[inline]
    pub(crate) fn end(&mut self, tag: u32, at: SimTime) -> Entry {
        self.pacer.took(at);
        self.in_flight.leave(tag)
    }

    /// Ends a turn: all answers taken since [`Engine::run`] are sent, as far as the sockets took them.
    #[inline]
    pub fn handed_out(&mut self) {
        self.pacer.handed_out(self.in_flight.outstanding());
    }

    /// Number of requests in flight.
    pub fn outstanding(&self) -> usize {
        self.in_flight.outstanding()
    }

    /// Bytes of data of the requests in flight.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.in_flight.bytes()
    }

    /// Sets the lead by which answers are handed out ahead of their time (paced only).
    pub fn set_lead(&mut self, lead: Lead) {
        self.pacer.set_lead(lead);
    }

    /// Estimated cost of the path from the host to the backend and back; 0 when time is instant.
    pub fn lead_ns(&self) -> u64 {
        self.pacer.lead_ns()
    }

    /// Measured cost of handing out an answer; 0 when time is instant.
    pub fn hand_out_ns(&self) -> u64 {
        self.pacer.cost_ns()
    }

    /// Lateness of answers, in wall nanoseconds; empty unless paced.
    pub fn lateness_ns(&self) -> &Histogram<4> {
        &self.pacer.lateness_ns
    }

    /// Switches to instant time: modelled time is no longer waited for.
    pub(crate) fn stop_pacing(&mut self) {
        self.pacer.time = Time::Instant;
    }

    /// Time mode of the backends.
    pub fn time(&self) -> Time {
        self.pacer.time
    }

    /// Current time of the backends; 0 in instant time, as no clock is read.
    pub(crate) fn backend_now(&self) -> SimTime {
        self.pacer.drive_now()
    }

    /// Wall time since the start.
    pub fn now_ns(&self) -> u64 {
        self.pacer.now_ns()
    }
}

/// The backends that share the engine's time.
fn in_time<M: Backend>(backends: &mut [M]) -> impl Iterator<Item = &mut M> {
    backends.iter_mut().filter(|backend| !backend.is_in_wall_time())
}
