//! A plain file or a block device as a drive: the simplest backend.
//!
//! ```text
//!  submit ─┬─ a read that the page cache can answer ─────────────────────────┐
//!          └─ everything else ─► queue ─► a few threads ─► ended ─► advance ─┴─► pop
//! ```
//! The drive has one block namespace and runs in wall time. A write is acknowledged when the system has it; a
//! flush or a forced write, when the disk has it. Errors of the system become statuses: a full disk gives
//! [`Status::WriteFault`] and may recover. After a failed flush it is unknown which earlier writes are on the
//! disk, and no later flush would tell, so the drive takes no more writes. A truncated file or a missing
//! device answers only errors. Each of these changes is reported once ([`FileDrive::take_sentences`]).

mod config;
mod medium;
mod workers;

pub use config::{FileConfig, FileError};

use medium::{Made, Medium};
use mio::Waker;
use pellucid_flash::{
    Command, Completion, Drive, Held, Interface, Lba, Opcode, SimTime, Stage, StageTimes, Status,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use workers::{Ended, State, Workers};

/// A drive on a file that this process has locked.
pub struct FileDrive {
    workers: Workers,
    now: SimTime,
    /// Commands without a completion in `completions`.
    running: usize,
    completions: VecDeque<Completion>,
    /// Completions taken from the threads; empty between calls.
    taken: VecDeque<Ended>,
    sentences: Vec<String>,
    state: State,
    made: Made,
}

impl FileDrive {
    /// Opens or creates the file and locks it. A created file is removed if the drive is dropped before it
    /// has had any command but reads.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be used, with the allowed values.
    pub fn open(config: &FileConfig) -> Result<FileDrive, FileError> {
        let (medium, made) = Medium::open(config)?;
        let workers = Workers::start(medium, config.threads).map_err(|source| FileError::Io {
            path: config.path.clone(),
            action: "start its threads",
            source,
        })?;
        Ok(FileDrive {
            workers,
            now: SimTime::ZERO,
            running: 0,
            completions: VecDeque::new(),
            taken: VecDeque::new(),
            sentences: Vec::new(),
            state: State::Good,
            made,
        })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        self.workers.medium().path()
    }

    /// Identity of the file, the same at every opening, to distinguish it from others of its size.
    pub fn identity(&self) -> String {
        self.workers.medium().identity()
    }

    /// Reports whether a sector holds data, according to the file system; holes read as zeros.
    pub(crate) fn held(&self, lba: Lba) -> Held {
        self.workers.medium().held(lba)
    }

    /// Returns true if the drive no longer takes writes.
    pub fn is_read_only(&self) -> bool {
        matches!(self.state, State::ReadOnly | State::Gone)
    }

    /// Takes the messages about failures; each is returned once.
    pub fn take_sentences(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sentences)
    }

    /// Waits until a command ends, at most `longest`. Returns true if one has ended; [`Drive::advance`] then
    /// finds it.
    pub fn wait(&self, longest: Duration) -> bool {
        !self.completions.is_empty() || self.workers.wait(longest)
    }

    /// Takes the drive into service: `waker` is woken when a command ends.
    pub(crate) fn attach(&mut self, waker: Arc<Waker>) {
        self.made.keep();
        self.workers.wake_by(waker);
    }

    fn finish(&mut self, ended: Ended) {
        let Ended { command, submitted, status } = ended;
        let mut stages = StageTimes::default();
        stages.add(Stage::HostLink, self.now - submitted);
        self.completions.push_back(command.ended(status, submitted, self.now, stages));
    }
}

impl Drive for FileDrive {
    fn namespaces(&self) -> u16 {
        1
    }

    fn interface(&self, namespace: u16) -> Option<Interface> {
        let medium = self.workers.medium();
        (namespace == 0).then(|| config::interface(medium.bytes(), medium.sector_bytes()))
    }

    fn image_bytes(&self) -> usize {
        self.workers.medium().sector_bytes() as usize
    }

    fn submit(&mut self, now: SimTime, mut command: Command) {
        self.now = now;
        let medium = self.workers.medium();
        let submitted = now;
        if let Some(status) = medium.refuse(&command) {
            return self.finish(Ended { command, submitted, status });
        }
        let is_quick = command.opcode == Opcode::Read && self.state != State::Gone;
        if command.opcode != Opcode::Read {
            self.made.keep();
        }
        if is_quick && medium.read_cached(&mut command) {
            return self.finish(Ended { command, submitted, status: Status::Success });
        }
        self.running += 1;
        self.workers.submit(command, submitted);
    }

    fn advance(&mut self, now: SimTime) {
        self.now = self.now.max(now);
        if self.running == 0 {
            return;
        }
        self.state = self.workers.take(&mut self.taken, &mut self.sentences);
        self.running -= self.taken.len();
        let mut taken = std::mem::take(&mut self.taken);
        for ended in taken.drain(..) {
            self.finish(ended);
        }
        self.taken = taken;
    }

    /// The threads' completions cannot be predicted: the drive's owner waits ([`FileDrive::wait`]), or is
    /// woken.
    fn next_event(&self) -> Option<SimTime> {
        (!self.completions.is_empty()).then_some(self.now)
    }

    fn pop(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.running
    }

    fn completed(&self) -> usize {
        self.completions.len()
    }
}
