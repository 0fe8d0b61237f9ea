//! How time passes for a caller that waits.
//!
//! ```text
//!   modelled drive, virtual time     the next event is now
//!   modelled drive, real time        sleep until the next event
//!   remote drive                     wait for its sockets
//!   file                             wait for its threads
//! ```
//! [`Waiter::wait`] is what [`Stack::call_by`](pellucid_host::Stack::call_by) wants.

use super::Bottom;
use crate::remote::TOKENS;
use mio::{Events, Poll, Token, Waker};
use pellucid_flash::{Drive, SimTime};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait at once: a remote drive may have to be connected to again.
const LOOK: Duration = Duration::from_millis(50);
/// The same where something else may end as well.
const STEP: Duration = Duration::from_millis(1);

/// How the time of a modelled drive goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// From event to event.
    Virtual,
    /// As the wall clock.
    Real,
}

/// Lets time pass for a drive, its owner being blocked.
pub struct Waiter {
    pace: Pace,
    /// Whether it waits at all.
    patient: bool,
    began: Instant,
    /// The drive's time then.
    first: SimTime,
    sockets: Option<(Poll, Events)>,
    why: Option<String>,
}

impl Waiter {
    /// For this drive, which nothing else waits for.
    ///
    /// # Errors
    /// When the system has nothing to wait for its sockets with.
    pub fn new(drive: &mut Bottom, pace: Pace) -> io::Result<Waiter> {
        let sockets = match drive {
            Bottom::Remote(remote) => {
                let poll = Poll::new()?;
                let waker = Waker::new(poll.registry(), Token(TOKENS))?;
                remote.attach(poll.registry(), Token(0), Arc::new(waker))?;
                Some((poll, Events::with_capacity(16)))
            }
            _ => None,
        };
        Ok(Waiter { pace, patient: true, began: Instant::now(), first: drive.now(), sockets, why: None })
    }

    /// Its time begins at `now` of what stands on the drive.
    #[must_use]
    pub fn since(self, now: SimTime) -> Waiter {
        Waiter { first: now, ..self }
    }

    /// Impatient, it only looks what has happened: [`Waiter::wait`] returns at once with the time that it is, or `None` where that does not go
    /// on by itself.
    pub fn set_patient(&mut self, patient: bool) {
        self.patient = patient;
    }

    /// The time that it is now, where it is that of the wall clock.
    pub fn now(&self) -> SimTime {
        SimTime(self.first.0 + self.began.elapsed().as_nanos() as u64)
    }

    /// Waits for the drive's next event, which is at `next` if that is known. Returns the time that it is then; `None`: it is of no use
    /// to wait any longer.
    pub fn wait(&mut self, drive: &mut Bottom, next: Option<SimTime>) -> Option<SimTime> {
        let longest = if self.patient { LOOK } else { Duration::ZERO };
        match drive {
            Bottom::Device(_) => self.wait_for_model(next),
            Bottom::Cached(pair) => match (next, pair.first.is_in_wall_time()) {
                // A modelled cache drive goes from event to event.
                (Some(next), false) => Some(next.max(pair.now())),
                _ => {
                    let waits = pair.second.outstanding() > 0 && !pair.second.wait(Duration::ZERO);
                    match &pair.first {
                        Bottom::File(file) if file.outstanding() > 0 => drop(file.wait(longest.min(STEP))),
                        _ if waits => drop(pair.second.wait(longest)),
                        _ => {}
                    }
                    let now = self.now().max(pair.now());
                    Drive::advance(&mut **pair, now);
                    let goes_on = next.is_some() || pair.outstanding() + pair.completed() > 0;
                    (goes_on || !self.patient).then_some(now)
                }
            },
            Bottom::Remote(remote) => {
                if next.is_none_or(|at| at > self.now()) {
                    self.poll(longest)?.iter().for_each(|event| remote.ready(event.token().0));
                }
                let now = self.now();
                remote.advance(now);
                self.why = remote.loss().map(String::from);
                self.why.is_none().then_some(now)
            }
            Bottom::File(file) => {
                if next.is_none_or(|at| at > self.now()) && file.outstanding() > 0 {
                    file.wait(longest);
                }
                let now = self.now();
                file.advance(now);
                (next.is_some() || !self.patient || file.outstanding() + file.completed() > 0).then_some(now)
            }
        }
    }

    /// Why it was of no use to wait.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    fn wait_for_model(&self, next: Option<SimTime>) -> Option<SimTime> {
        match (self.pace, self.patient) {
            (Pace::Virtual, true) => next,
            (Pace::Virtual, false) => None,
            (Pace::Real, false) => Some(self.now()),
            (Pace::Real, true) => {
                let next = next?;
                std::thread::sleep(Duration::from_nanos(next.0.saturating_sub(self.now().0)));
                Some(next)
            }
        }
    }

    fn poll(&mut self, longest: Duration) -> Option<&Events> {
        let (poll, events) = self.sockets.as_mut()?;
        events.clear();
        match poll.poll(events, Some(longest)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.why = Some(error.to_string());
                None
            }
            _ => Some(events),
        }
    }
}
