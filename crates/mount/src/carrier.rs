//! The medium that carries out the jobs of a file system.

use pellucid_fs::{Job, JobAnswer, JobError, JobId, JobOutcome};
use std::path::Path;

/// A file, a block device, or a simulated drive.
pub trait Carrier: Send + Sync {
    /// Path of the medium.
    fn path(&self) -> &Path;

    /// Begins a job without waiting for it. Jobs begin in the order in which the file system issued them.
    fn begin(&self, job: Job) -> Begun;

    /// Waits until a job has ended and returns its answer.
    fn end(&self, begun: Begun) -> JobAnswer;

    /// Last failure of a job, with the reason that the system gave; `None` if there was none or the medium
    /// gives no reasons.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns true if the medium has lost its power: changes that were not durable are gone, and it carries
    /// out no more jobs.
    fn is_lost(&self) -> bool {
        false
    }

    /// Sets the callback for the moment from which [`Carrier::is_lost`] is true.
    fn on_loss(&self, call: Box<dyn Fn() + Send + Sync>) {
        drop(call);
    }
}

/// A job that has begun.
pub enum Begun {
    /// The waiting thread carries it out.
    Job(Job),
    /// The medium is carrying it out.
    UnderWay(JobId),
}

impl Begun {
    /// Id of the job.
    pub fn id(&self) -> JobId {
        match self {
            Begun::Job(job) => job.id(),
            Begun::UnderWay(id) => *id,
        }
    }

    /// Builds the answer for a job that failed.
    pub fn failed(&self) -> JobAnswer {
        JobAnswer::new(self.id(), JobOutcome::Ended(Err(JobError::Failed)))
    }
}
