//! A plain file or a block device as a drive: the plainest back end.
//!
//! ```text
//!  submit ─┬─ a read that the page cache can answer ─────────────────────────┐
//!          └─ everything else ─► queue ─► a few threads ─► ended ─► advance ─┴─► pop
//! ```
//! It has one block namespace, and its time is wall time. A write is acknowledged when the system has it; a flush, or a forced write, when
//! the disk has it. What the system answers becomes a status: a full disk is a [`Status::WriteFault`] and may pass. After a flush that
//! failed it is unknown which writes before it are on the disk, and no later flush would tell, so it takes no writes any more; a file
//! that was made shorter, or a device that is gone, answers errors only. Each is said once ([`FileDrive::take_sentences`]).

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

/// A drive on a file that this process has for itself.
pub struct FileDrive {
    workers: Workers,
    now: SimTime,
    /// Commands without a completion in `completions`.
    running: usize,
    completions: VecDeque<Completion>,
    /// What was taken from the threads; empty between calls.
    taken: VecDeque<Ended>,
    sentences: Vec<String>,
    state: State,
    made: Made,
}

impl FileDrive {
    /// Opens the file, or makes it, and locks it. One that was made is removed again if the drive is dropped before anything but reads was
    /// asked of it.
    ///
    /// # Errors
    /// Why it cannot be used, with what is allowed.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.workers.medium().path()
    }

    /// What tells it from others of its size, at every opening the same.
    pub fn identity(&self) -> String {
        self.workers.medium().identity()
    }

    /// Whether a sector holds data, as the file system tells; holes read as zeros.
    pub(crate) fn held(&self, lba: Lba) -> Held {
        self.workers.medium().held(lba)
    }

    /// Whether it takes no writes any more.
    pub fn is_read_only(&self) -> bool {
        matches!(self.state, State::ReadOnly | State::Gone)
    }

    /// What went wrong, for people; each is told once.
    pub fn take_sentences(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sentences)
    }

    /// Waits until a command ends, so long at most. Returns whether one has, which [`Drive::advance`] then finds.
    pub fn wait(&self, longest: Duration) -> bool {
        !self.completions.is_empty() || self.workers.wait(longest)
    }

    /// From now on `waker` is woken when a command ends: the drive is in service.
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

    /// The threads' completions cannot be foreseen: the drive's owner waits ([`FileDrive::wait`]), or is woken.
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
