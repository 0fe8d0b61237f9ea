//! Parallel units: the jobs of each, one with the drive at a time.
//!
//! ```text
//!  job ─► queue ─► [ one write or reset with the drive ] ─► ended
//!           │ ▲        │
//!           │ └ refused: the job waits in front of its queue until the drive may take it again
//!           └ a job for a failed chunk is aborted: it ends without being sent
//! ```
//! pblk holds a semaphore for each parallel unit: chunks are written in order, and no write waits in the drive behind another. Invariant:
//! a unit has at most one job with the drive.

use pellucid_flash::BlockId;
use pellucid_ftl::ProgramId;
use std::collections::VecDeque;

/// Job for a parallel unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// A superpage of data or translation pages.
    Data(ProgramId, BlockId),
    /// The start of a line.
    Start(BlockId),
    /// A superpage of a line's end.
    End(BlockId, u32),
    /// The reset of the line's chunk in this unit.
    Reset(BlockId),
    /// Padding of a superpage that a crash left out.
    Pad(BlockId, u32),
}

impl Job {
    #[inline]
    pub fn line(self) -> BlockId {
        match self {
            Job::Data(_, line)
            | Job::Start(line)
            | Job::End(line, _)
            | Job::Reset(line)
            | Job::Pad(line, _) => line,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Unit {
    queue: VecDeque<Job>,
    current: Option<Job>,
    /// The first job of the queue, or the current one, was refused before.
    refused: bool,
}

/// Parallel units of a target.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    units: Vec<Unit>,
    /// The drive refuses writes at present, so nothing is sent to it.
    drive_refuses: bool,
    /// Jobs that end without being sent.
    aborted: VecDeque<Job>,
}

impl Units {
    pub fn new(units: u32) -> Units {
        let units = vec![Unit::default(); units as usize];
        Units { units, drive_refuses: false, aborted: VecDeque::new() }
    }

    /// Queues a job.
    #[inline]
    pub fn push(&mut self, unit: u32, job: Job) {
        self.units[unit as usize].queue.push_back(job);
    }

    /// Reports whether `job` is the last one in the queue.
    #[inline]
    pub fn waits_for(&self, unit: u32, job: Job) -> bool {
        self.units[unit as usize].queue.back() == Some(&job)
    }

    /// Returns the queue of a unit.
    #[inline]
    pub fn queue(&self, unit: u32) -> &VecDeque<Job> {
        &self.units[unit as usize].queue
    }

    /// Reports whether a unit is idle and has jobs that may be sent.
    #[inline]
    pub fn may_start(&self, unit: u32) -> bool {
        let Unit { queue, current, .. } = &self.units[unit as usize];
        current.is_none() && !queue.is_empty() && !self.drive_refuses
    }

    /// Removes a job from a queue.
    #[inline]
    pub fn remove(&mut self, unit: u32, at: usize) -> Job {
        self.units[unit as usize].queue.remove(at).expect("a job in the queue")
    }

    /// Ends a job without sending it.
    pub fn abort(&mut self, unit: u32, job: Job) {
        self.units[unit as usize].refused = false;
        self.aborted.push_back(job);
    }

    /// Returns the next job that ended without being sent.
    #[inline]
    pub fn next_aborted(&mut self) -> Option<Job> {
        self.aborted.pop_front()
    }

    /// Notes that a job is with the drive.
    #[inline]
    pub fn begin(&mut self, unit: u32, job: Job) {
        let before = self.units[unit as usize].current.replace(job);
        assert_eq!(before, None, "a parallel unit has two jobs with the drive");
    }

    /// Ends the current job of a unit.
    #[inline]
    pub fn end(&mut self, unit: u32) -> Job {
        self.units[unit as usize].current.take().expect("the unit was at work")
    }

    /// Puts a job that the drive refused back in front of its queue; nothing is sent before [`Units::try_again`].
    pub fn refuse(&mut self, unit: u32, job: Job) {
        let record = &mut self.units[unit as usize];
        assert!(record.current.is_none(), "a parallel unit has two jobs");
        record.queue.push_front(job);
        (record.refused, self.drive_refuses) = (true, true);
    }

    /// Returns whether the job that has ended was refused before.
    #[inline]
    pub fn take_refused(&mut self, unit: u32) -> bool {
        std::mem::take(&mut self.units[unit as usize].refused)
    }

    /// Lets jobs be sent again; returns `true` if the drive had refused one.
    #[inline]
    pub fn try_again(&mut self) -> bool {
        std::mem::take(&mut self.drive_refuses)
    }

    /// Reports whether the drive currently refuses writes.
    pub fn is_refused(&self) -> bool {
        self.drive_refuses
    }
}
