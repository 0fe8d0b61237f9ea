//! Needs of the start: the facts that it reads from the drive, and the commands that are under way.
//!
//! Invariant: each need is sent once, and again only after a failure.

use pellucid_flash::Lba;
use std::collections::BTreeMap;

/// Fact that the start needs from the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// Write of this many padding superpages, after which the start of a chunk is readable.
    Reveal(Lba, u32),
    /// Start of the line that has this first chunk.
    Start(Lba),
    /// Out-of-band data of the first rows of a chunk that belongs to no known line.
    Owner(Lba),
    /// First sector of a chunk that belongs to no line, with its out-of-band data.
    Stranger(Lba),
    /// Head of a line's end.
    Head(u32),
    /// Whole end of a line, from this sector on.
    End(u32, u32),
    /// Out-of-band data of the first and the last used superpage of a line without an end.
    Edges(u32),
    /// Index in the last used superpages of a line without an end, from this sector on.
    Index(u32, u32),
    /// Out-of-band data of a line, from this mapping unit of the engine on.
    Scan(u32, u32),
    /// Translation pages: the first mapping unit, and their number.
    MapPages(u32, u32),
}

/// Maximum number of the start's reads with the drive.
const READS_AT_ONCE: u32 = 256;

/// Reads under way or still to send, by tag.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    list: Vec<Need>,
    next: usize,
    /// Number of retries of each failed read.
    attempts: BTreeMap<Need, u32>,
    /// Number of all commands of the start with the drive.
    under_way: u32,
}

impl Needs {
    /// Replaces the needs, all of which have been sent.
    pub fn set(&mut self, list: Vec<Need>) {
        assert_eq!(self.next, self.list.len(), "needs are replaced before they were sent");
        (self.list, self.next) = (list, 0);
    }

    /// Returns the next need to send, with its number.
    pub fn next(&mut self) -> Option<(usize, Need)> {
        let need = *self.list.get(self.next).filter(|_| self.under_way < READS_AT_ONCE)?;
        self.next += 1;
        self.under_way += 1;
        Some((self.next - 1, need))
    }

    /// Notes the end of a need's command, and returns the need.
    pub fn ended(&mut self, at: usize) -> Need {
        self.release(1);
        self.list[at]
    }

    /// Counts a failed attempt at a need; returns `false` if there were already `most`. Otherwise its command is to be sent again.
    pub fn tries_again(&mut self, need: Need, most: u32) -> bool {
        let attempts = self.attempts.entry(need).or_default();
        let again = *attempts < most;
        if again {
            *attempts += 1;
            self.under_way += 1;
        }
        again
    }

    /// Notes commands that are no needs.
    pub fn hold(&mut self, commands: u32) {
        self.under_way += commands;
    }

    /// Notes the end of commands.
    pub fn release(&mut self, commands: u32) {
        assert!(commands <= self.under_way, "a start has more ends than commands");
        self.under_way -= commands;
    }

    /// Reports whether no command is in flight.
    pub fn is_quiet(&self) -> bool {
        self.under_way == 0
    }
}
