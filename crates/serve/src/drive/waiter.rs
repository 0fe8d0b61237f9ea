//! Waiting: how time passes for a caller that blocks on a drive.
//!
//! ```text
//!   modelled drive, virtual time     the next event is now
//!   modelled drive, real time        sleep until the next event
//!   remote drive                     wait for its sockets
//!   file                             wait for its threads
//! ```
//! [`Waiter::wait`] is the wait function for [`Stack::call_by`](pellucid_host::Stack::call_by).

use super::Bottom;
use crate::remote::TOKENS;
use mio::{Events, Poll, Token, Waker};
use pellucid_flash::{Drive, SimTime};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest single wait: a remote drive may need to be reconnected.
const LOOK: Duration = Duration::from_millis(50);
/// Longest single wait when another drive may complete first.
const STEP: Duration = Duration::from_millis(1);

/// Pace of a modelled drive's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Time jumps from event to event.
    Virtual,
    /// Time follows the wall clock.
    Real,
}

/// Advances time for a drive while its owner is blocked.
pub struct Waiter {
    pace: Pace,
    /// Wait for events; if false, only poll.
    patient: bool,
    began: Instant,
    /// Drive time at `began`.
    first: SimTime,
    sockets: Option<(Poll, Events)>,
    why: Option<String>,
}

impl Waiter {
    /// Creates a waiter for a drive that no other waiter serves.
    ///
    /// # Errors
    /// Fails if the system cannot poll the drive's sockets.
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

    /// Sets the start time to `now`, the time of the layer on the drive.
    #[must_use]
    pub fn since(self, now: SimTime) -> Waiter {
        Waiter { first: now, ..self }
    }

    /// Sets whether the waiter waits or only polls. A polling [`Waiter::wait`] returns at once with the
    /// current time, or with `None` if time does not advance by itself.
    pub fn set_patient(&mut self, patient: bool) {
        self.patient = patient;
    }

    /// Current time on the wall clock, for drives that follow it.
    pub fn now(&self) -> SimTime {
        SimTime(self.first.0 + self.began.elapsed().as_nanos() as u64)
    }

    /// Waits for the drive's next event, which is at `next` if known. Returns the new time, or `None` if
    /// waiting longer is useless.
    pub fn wait(&mut self, drive: &mut Bottom, next: Option<SimTime>) -> Option<SimTime> {
        let longest = if self.patient { LOOK } else { Duration::ZERO };
        match drive {
            Bottom::Device(_) | Bottom::Apps(_) => self.wait_for_model(next),
            Bottom::Cached(pair) => match (next, pair.first.is_in_wall_time()) {
                // The time of a modelled cache drive jumps from event to event.
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

    /// Reason why waiting was useless.
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
