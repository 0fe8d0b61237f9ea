//! Pump: runs a machine on a drive.
//!
//! One pump serves every machine. In virtual time its owner advances it from event to event
//! ([`Stack::advance`]); behind a socket the server's loop does so at the pace of the clock; a blocking
//! caller waits for one answer ([`Stack::call`]). Over a layer, the pump is a drive itself.
//!
//! ```text
//!   namespaces      0      1      2            0 and 2 pass the layer by: commands, completions, notices
//!   layer           │   uses 1    │            1 is the layer's
//!   drive           0      1      2
//! ```
//! Order at one moment: the drive's work at t runs before the machine's work at t; commands that a machine
//! issues at t are submitted at t. Completions and answers come in the order in which they arose.

use crate::Layer;
use crate::machine::{Machine, TAG_PASSING};
use pellucid_flash::slab::Slab;
use pellucid_flash::{Command, Completion, Drive, Interface, Notice, SimTime, Status, Tag};
use std::collections::VecDeque;

/// Maximum number of notices that wait for the caller above; beyond it, the oldest are lost.
const NOTICES_MAX: usize = 4096;

/// Machine on a drive. Clone it to fork both.
#[derive(Clone, Debug)]
pub struct Stack<M, D> {
    /// Machine above.
    pub layer: M,
    /// Drive below. Nothing else submits to it.
    pub drive: D,
    now: SimTime,
    /// Number of asks whose answer was not taken.
    asked: usize,
    /// Number of the machine's answers that were taken.
    taken: u64,
    passing: Passing,
}

/// Commands and notices that bypass the machine.
#[derive(Clone, Debug, Default)]
struct Passing {
    /// Original tags of the commands.
    tags: Slab<Tag>,
    /// Completions, each with the number of the machine's answers that precede it.
    completed: VecDeque<(u64, Completion)>,
    notices: VecDeque<(u16, Notice)>,
}

impl<M: Machine, D: Drive> Stack<M, D> {
    /// Puts `layer` on `drive`; both are at `now`. The machine begins its start, and takes asks at once.
    pub fn new(layer: M, drive: D, now: SimTime) -> Stack<M, D> {
        let mut stack = Stack { layer, drive, now, asked: 0, taken: 0, passing: Passing::default() };
        stack.layer.advance(now);
        stack.pump();
        stack
    }

    /// Puts `layer` on `drive`, both at `now`, and runs until the machine has started.
    ///
    /// The error is the machine's, as a sentence.
    pub fn start(layer: M, drive: D, now: SimTime) -> Result<Stack<M, D>, String> {
        Stack::start_by(layer, drive, now, |_, next| next)
    }

    /// Starts as [`Stack::start`] does; `wait` lets time pass as in [`Stack::call_by`].
    ///
    /// The error is the machine's, as a sentence.
    pub fn start_by(
        layer: M,
        drive: D,
        now: SimTime,
        wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<Stack<M, D>, String> {
        let mut stack = Stack::new(layer, drive, now);
        stack.run_start(wait)?;
        Ok(stack)
    }

    /// Restarts the machine on a drive that has come back at `now` and no longer has its commands.
    ///
    /// The error is the machine's, as a sentence.
    pub fn restart(&mut self, now: SimTime) -> Result<(), String> {
        self.now = self.now.max(now);
        // Completions of the machine's commands are dropped; the others bypass it.
        while let Some(ended) = self.drive.pop() {
            if ended.tag & TAG_PASSING != 0 {
                self.passes(ended);
            }
        }
        self.layer.restart(self.now)?;
        self.layer.advance(self.now);
        self.pump();
        self.run_start(|_, next| next)
    }

    fn run_start(
        &mut self,
        wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<(), String> {
        if !self.run_until(|layer| layer.is_ready() || layer.failure().is_some(), wait) {
            return Err("the drive does not answer".into());
        }
        self.layer.failure().map_or(Ok(()), Err)
    }

    /// Stops the machine and runs until it has stopped, so that its next start on this drive is cheap.
    ///
    /// An error is a complete sentence; the drive's state is then that after a power cut.
    pub fn stop(&mut self) -> Result<(), String> {
        self.stop_by(|_, next| next)
    }

    /// Stops as [`Stack::stop`] does; `wait` lets time pass as in [`Stack::call_by`].
    ///
    /// An error is a complete sentence.
    pub fn stop_by(
        &mut self,
        wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Result<(), String> {
        self.begin_stop();
        match self.run_until(M::is_stopped, wait) {
            true => Ok(()),
            false => Err(self.not_stopped()),
        }
    }

    /// Returns why the machine has not stopped although nothing is in flight.
    pub fn not_stopped(&self) -> String {
        let why = self.layer.failure();
        why.unwrap_or_else(|| "not all of what was accepted could be written to the drive".into())
    }

    /// Begins a stop, as [`Stack::stop`] does; [`Machine::is_stopped`] reports its end.
    pub fn begin_stop(&mut self) {
        self.layer.stop(self.now);
        self.pump();
    }

    /// Runs an action on the drive at `now` that is not a command, and handles its effects.
    pub fn act_on_drive<R>(&mut self, now: SimTime, act: impl FnOnce(&mut D) -> R) -> R {
        self.advance(now);
        let result = act(&mut self.drive);
        self.pump();
        result
    }

    /// Asks at `now`, which is not before the last [`Stack::advance`].
    #[inline]
    pub fn ask(&mut self, now: SimTime, ask: M::Ask) {
        self.advance(now);
        self.asked += 1;
        self.layer.submit(now, ask);
        self.pump();
    }

    /// Returns the next answer.
    #[inline]
    pub fn answer(&mut self) -> Option<M::Answer> {
        let answer = self.layer.pop()?;
        self.asked -= 1;
        self.taken += 1;
        Some(answer)
    }

    /// Returns the number of asks whose answer was not taken.
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// Asks, and waits in virtual time for the answer. Nothing else may be outstanding. Returns `None` if the
    /// drive does not answer.
    pub fn call(&mut self, ask: M::Ask) -> Option<M::Answer> {
        self.call_by(ask, |_, next| next)
    }

    /// Asks as [`Stack::call`] does. `wait` lets time pass: it receives the drive and the time of the next
    /// event, if there is one, and returns the new time; `None` gives up. In real time it sleeps, or waits
    /// for the drive's sockets.
    pub fn call_by(
        &mut self,
        ask: M::Ask,
        wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> Option<M::Answer> {
        assert_eq!(self.asked, 0, "a blocking call waits for its own answer only");
        self.ask(self.now, ask);
        self.run_until(|layer| layer.answered() > 0, wait);
        self.answer()
    }

    /// Lets time pass by `wait`, as [`Stack::call_by`] does, until `done`. Returns `false` if `wait` gave up.
    pub fn run_until(
        &mut self,
        done: impl Fn(&M) -> bool,
        mut wait: impl FnMut(&mut D, Option<SimTime>) -> Option<SimTime>,
    ) -> bool {
        while !done(&self.layer) {
            let next = self.next_event();
            match wait(&mut self.drive, next) {
                Some(now) => self.advance(now),
                None => return false,
            }
        }
        true
    }

    /// Runs all work that is due by `now`.
    pub fn advance(&mut self, now: SimTime) {
        while let Some(next) = self.next_event().filter(|&next| next <= now) {
            self.run_to(next, SimTime(now.0.saturating_add(1)));
        }
        if self.now < now {
            self.now = now;
            self.drive.advance(now);
        }
    }

    /// Returns the time of the next event; `None` if nothing is due.
    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        match (self.drive.next_event(), self.layer.next_event()) {
            (Some(drive), Some(layer)) => Some(drive.min(layer)),
            (drive, layer) => drive.or(layer),
        }
    }

    /// Returns the simulated time of the stack.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Moves commands down, and completions and notices up, until nothing moves at this moment.
    #[inline]
    fn pump(&mut self) {
        loop {
            let mut moved = false;
            while let Some(command) = self.layer.next_command() {
                debug_assert_eq!(command.tag & TAG_PASSING, 0, "a machine's tags leave this bit clear");
                self.drive.submit(self.now, command);
                moved = true;
            }
            // The completion is passed by reference, because it is large.
            let mut completion = self.drive.pop();
            while let Some(ended) = &mut completion {
                if ended.tag & TAG_PASSING == 0 {
                    self.layer.complete(self.now, ended);
                } else {
                    let ended = ended.take();
                    self.passes(ended);
                }
                completion = self.drive.pop();
                moved = true;
            }
            if !moved && !self.take_notice() {
                return;
            }
        }
    }

    /// Queues a completion that is not the machine's behind all answers that the machine has given so far.
    #[cold]
    fn passes(&mut self, mut ended: Completion) {
        let at = (ended.tag & !TAG_PASSING) as u32;
        ended.tag = self.passing.tags[at];
        self.passing.tags.release(at);
        self.passing.completed.push_back((self.taken + self.layer.answered() as u64, ended));
    }

    /// Delivers a notice of the drive to the layer or to the caller above; returns `false` if there was none.
    #[inline]
    fn take_notice(&mut self) -> bool {
        let Some((namespace, notice)) = self.drive.pop_notice() else { return false };
        if self.layer.namespaces().contains(&namespace) {
            self.layer.notice(self.now, namespace, notice);
        } else {
            if self.passing.notices.len() == NOTICES_MAX {
                self.passing.notices.pop_front();
            }
            self.passing.notices.push_back((namespace, notice));
        }
        true
    }

    /// Advances to `next`, and further, but not to `limit`, until layer and drive interact; until then the
    /// drive runs alone.
    #[inline]
    fn run_to(&mut self, next: SimTime, limit: SimTime) {
        let due = self.layer.next_event();
        let alone = due.map_or(limit, |due| due.min(limit));
        self.now = self.drive.advance_to_completion(self.now.max(next), alone);
        self.pump();
        // Most events are only the drive's.
        if self.layer.next_event().is_some_and(|due| due <= self.now) {
            self.layer.advance(self.now);
            self.pump();
        }
    }
}

impl<L: Layer, D: Drive> Stack<L, D> {
    /// Returns the number of the layer's namespace from above.
    #[inline]
    pub fn namespace(&self) -> u16 {
        self.layer.namespaces()[0]
    }

    /// Sends a command that is not for the layer to the drive below.
    #[cold]
    fn pass(&mut self, now: SimTime, command: Command) {
        Stack::advance(self, now);
        self.asked += 1;
        if self.interface(command.namespace).is_none() {
            let after = self.taken + self.layer.answered() as u64;
            return self.passing.completed.push_back((after, command.refused(now, Status::InvalidField)));
        }
        let at = self.passing.tags.insert(command.tag);
        self.drive.submit(now, Command { tag: TAG_PASSING | Tag::from(at), ..command });
        self.pump();
    }
}

impl<L: Layer, D: Drive> Drive for Stack<L, D> {
    fn namespaces(&self) -> u16 {
        self.drive.namespaces()
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        match self.layer.namespaces().iter().position(|&used| used == namespace) {
            Some(0) => Some(self.layer.interface()),
            Some(_) => None,
            None => self.drive.interface(namespace),
        }
    }

    fn image_bytes(&self) -> usize {
        self.drive.image_bytes()
    }

    #[inline]
    fn submit(&mut self, now: SimTime, mut command: Command) {
        if command.namespace != self.namespace() {
            return self.pass(now, command);
        }
        command.namespace = 0;
        self.ask(now, command);
    }

    fn advance(&mut self, now: SimTime) {
        Stack::advance(self, now);
    }

    fn advance_to_completion(&mut self, now: SimTime, limit: SimTime) -> SimTime {
        Stack::advance(self, now);
        let told = Drive::notices(self);
        while Drive::completed(self) == 0
            && Drive::notices(self) == told
            && let Some(next) = Stack::next_event(self).filter(|&next| next < limit)
        {
            self.run_to(next, limit);
        }
        self.now
    }

    #[inline]
    fn next_event(&self) -> Option<SimTime> {
        Stack::next_event(self)
    }

    #[inline]
    fn pop(&mut self) -> Option<Completion> {
        match self.passing.completed.front() {
            Some((after, _)) if *after <= self.taken => {
                self.asked -= 1;
                self.passing.completed.pop_front().map(|(_, completion)| completion)
            }
            _ => self.answer(),
        }
    }

    fn outstanding(&self) -> usize {
        self.asked - Drive::completed(self)
    }

    fn completed(&self) -> usize {
        self.layer.answered() + self.passing.completed.len()
    }

    fn notices(&self) -> usize {
        self.layer.notices() + self.passing.notices.len()
    }

    fn pop_notice(&mut self) -> Option<(u16, Notice)> {
        match self.layer.pop_notice() {
            Some(notice) => Some((self.namespace(), notice)),
            None => self.passing.notices.pop_front(),
        }
    }
}
