//! What carries out the jobs of a file system.

use pellucid_fs::{Job, JobAnswer, JobError, JobId, JobOutcome};
use std::path::Path;

/// A file, a block device, or a modelled drive.
pub trait Carrier: Send + Sync {
    /// Where it is.
    fn path(&self) -> &Path;

    /// Takes a job. Jobs are begun in the order in which the file system gave them; this does not wait.
    fn begin(&self, job: Job) -> Begun;

    /// Returns when a job has ended.
    fn end(&self, begun: Begun) -> JobAnswer;
}

/// A job that was begun.
pub enum Begun {
    /// The waiting thread carries it out.
    Job(Job),
    /// It is under way.
    UnderWay(JobId),
}

impl Begun {
    /// The job's name.
    pub fn id(&self) -> JobId {
        match self {
            Begun::Job(job) => job.id(),
            Begun::UnderWay(id) => *id,
        }
    }

    /// The answer that it failed.
    pub fn failed(&self) -> JobAnswer {
        JobAnswer::new(self.id(), JobOutcome::Ended(Err(JobError::Failed)))
    }
}
