//! Machines: programs above the line, each of them a state machine without I/O.
//!
//! ```text
//!   ask ── submit ──► machine ── next_command ──► drive below, or another machine's drive
//!       ◄── pop ─────         ◄── complete ──────
//!                             ◄── notice ────────
//! ```
//! Each machine defines its asks and answers: a [`Layer`](crate::Layer) is asked commands and answers
//! completions, and a key-value store is asked keys. [`Stack`](crate::Stack) runs every machine over any
//! [`Drive`](pellucid_flash::Drive): in virtual time, behind a socket, or blocking.

use pellucid_flash::{Command, Completion, Figure, Notice, SimTime, Tag};

/// Bit that is clear in the tags of a machine's own commands; [`Stack`](crate::Stack) sets it in commands
/// that bypass the machine.
pub const TAG_PASSING: Tag = 1 << 63;

/// State machine above the line: it is asked, uses the drive below, and answers.
pub trait Machine {
    /// Type of the asks.
    type Ask;
    /// Type of the answers; each ask has one.
    type Answer;

    /// Returns the namespaces of the drive below that the machine uses. It is their only user.
    fn namespaces(&self) -> &[u16];

    /// Takes an ask from above at `now`.
    fn submit(&mut self, now: SimTime, ask: Self::Ask);

    /// Handles the completion of a command that [`Machine::next_command`] returned. The machine may take its
    /// buffers.
    fn complete(&mut self, now: SimTime, completion: &mut Completion);

    /// Handles a notice of one of its namespaces below.
    fn notice(&mut self, _now: SimTime, _namespace: u16, _notice: Notice) {}

    /// Runs all own work that is due by `now`.
    fn advance(&mut self, now: SimTime);

    /// Returns the time of the machine's next own event; `None` if it acts only on an ask or a completion.
    fn next_event(&self) -> Option<SimTime>;

    /// Returns the next command for the drive below. Its tag is below [`TAG_PASSING`].
    fn next_command(&mut self) -> Option<Command>;

    /// Returns the next answer.
    fn pop(&mut self) -> Option<Self::Answer>;

    /// Returns the number of answers that wait for [`Machine::pop`].
    fn answered(&self) -> usize;

    /// Returns the reason of a permanent failure as a sentence; asks are then refused.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Reports whether the machine has completed its start, which may read from the drive.
    fn is_ready(&self) -> bool {
        true
    }

    /// Begins a stop: writes to the drive all state that makes the next start cheap. An ask from above
    /// cancels the stop.
    fn stop(&mut self, _now: SimTime) {}

    /// Reports whether the stop that [`Machine::stop`] began is complete.
    fn is_stopped(&self) -> bool {
        true
    }

    /// Starts the machine again from the data on the drive, after the computer lost power and the drive has
    /// come back. Unanswered asks are answered as lost.
    ///
    /// An error is a complete sentence.
    fn restart(&mut self, _now: SimTime) -> Result<(), String> {
        Err("this machine cannot start again".into())
    }

    /// Returns the counters as named figures.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}
