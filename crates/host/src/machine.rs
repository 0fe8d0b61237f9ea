//! Machines: programs above the line, each a state machine without I/O.
//!
//! ```text
//!   ask ── submit ──► machine ── next_command ──► drive below, or another machine's drive
//!       ◄── pop ─────         ◄── complete ──────
//!                             ◄── notice ────────
//! ```
//! What a machine is asked and what it answers is its own: a [`Layer`](crate::Layer) is the machine that is asked commands and
//! answers completions, a key-value store is asked keys. [`Stack`](crate::Stack) runs every machine over any
//! [`Drive`](pellucid_flash::Drive): in virtual time, behind a socket, or blocking.

use pellucid_flash::{Command, Completion, Figure, Notice, SimTime, Tag};

/// Tags of a machine's own commands have this bit clear: [`Stack`](crate::Stack) marks with it what passes the machine by.
pub const TAG_PASSING: Tag = 1 << 63;

/// A state machine above the line: it is asked, uses the drive below, and answers.
pub trait Machine {
    /// What it is asked.
    type Ask;
    /// What it answers; one answer for each ask.
    type Answer;

    /// Namespaces of the drive below that it uses. They belong to it alone.
    fn namespaces(&self) -> &[u16];

    /// Takes an ask from above at `now`.
    fn submit(&mut self, now: SimTime, ask: Self::Ask);

    /// The drive below has completed one of the commands handed out by [`Machine::next_command`]. Its buffers are the machine's to take.
    fn complete(&mut self, now: SimTime, completion: &mut Completion);

    /// One of its namespaces below tells something without being asked.
    fn notice(&mut self, _now: SimTime, _namespace: u16, _notice: Notice) {}

    /// Runs everything of its own that is due by `now`.
    fn advance(&mut self, now: SimTime);

    /// When the machine next does something by itself; `None`: not before an ask or a completion comes.
    fn next_event(&self) -> Option<SimTime>;

    /// The next command for the drive below. Its tag is below [`TAG_PASSING`].
    fn next_command(&mut self) -> Option<Command>;

    /// The next answer.
    fn pop(&mut self) -> Option<Self::Answer>;

    /// Answers that wait for [`Machine::pop`].
    fn answered(&self) -> usize;

    /// Why the machine has failed for good, in a sentence; asks are then refused.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Whether the machine is past its own start, which may read from the drive.
    fn is_ready(&self) -> bool {
        true
    }

    /// Begins to bring everything to the drive that makes the next start cheap. An ask from above ends it again.
    fn stop(&mut self, _now: SimTime) {}

    /// Whether what [`Machine::stop`] began is complete.
    fn is_stopped(&self) -> bool {
        true
    }

    /// The computer lost its power, and the drive has come back: the machine starts again from what is on it. What it was asked and
    /// has not answered is answered as lost.
    ///
    /// The error is a sentence.
    fn restart(&mut self, _now: SimTime) -> Result<(), String> {
        Err("this machine cannot start again".into())
    }

    /// What it counts, by name.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}
