//! The onlooker of a run that Python waits for: Ctrl-C, and the requests for its tables.

use crate::policies;
use pellucid_device::Device;
use pellucid_flash::{Completion, Lba};
use pellucid_lab::drive::{Onlooker, Progress};
use pellucid_report::{RequestColumns, RequestSink};
use pyo3::prelude::*;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Python's signal handlers run this often.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Watches one piece of work.
pub struct Watch {
    looked: Instant,
    raised: Option<PyErr>,
    requests: Option<Arc<OnceLock<RequestColumns>>>,
}

impl Watch {
    /// Watches for signals; keeps the requests if `keep` says so.
    pub fn new(keep: bool) -> Watch {
        Watch { looked: Instant::now(), raised: None, requests: keep.then(Arc::default) }
    }

    /// The exception that a policy or a signal handler raised, such as `KeyboardInterrupt`.
    pub fn raised(&mut self) -> Option<PyErr> {
        // A later exception of a policy was raised while the run was ending.
        let later = policies::take_raised();
        self.raised.take().or(later)
    }

    /// The requests of a finished run; `None`: they were not kept.
    pub fn requests(self) -> Option<RequestColumns> {
        Some(Arc::into_inner(self.requests?)?.into_inner().unwrap_or_default())
    }

    fn signals(&mut self) -> ControlFlow<()> {
        if self.raised.is_none() {
            self.raised = policies::take_raised();
        }
        if self.raised.is_some() {
            return ControlFlow::Break(());
        }
        if self.looked.elapsed() < SIGNALS_EVERY {
            return ControlFlow::Continue(());
        }
        self.looked = Instant::now();
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(raised) => {
                self.raised = Some(raised);
                ControlFlow::Break(())
            }
        }
    }
}

impl Onlooker for Watch {
    fn log(&mut self) -> Option<Box<dyn RequestSink>> {
        let keep = self.requests.clone()?;
        Some(Box::new(Kept { columns: RequestColumns::default(), keep }))
    }

    fn prepare(&mut self, _written_bytes: u64, _total_bytes: Option<u64>) -> ControlFlow<()> {
        self.signals()
    }

    fn look(&mut self, _device: Option<&Device>, _progress: Progress) -> ControlFlow<()> {
        self.signals()
    }
}

/// Requests that are kept in memory.
struct Kept {
    columns: RequestColumns,
    keep: Arc<OnceLock<RequestColumns>>,
}

impl RequestSink for Kept {
    fn write(&mut self, lba: Lba, sectors: u32, job: u32, completion: &Completion) -> io::Result<()> {
        self.columns.push(lba, sectors, job, completion);
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let Kept { columns, keep } = *self;
        keep.set(columns).map_err(|_| io::Error::other("a run has ended twice"))
    }
}
