//! Failure of a command: its reason in one sentence, and its exit status.

use crate::interrupt::INTERRUPTED;
use crate::stderr;
use pellucid_lab::drive::RunError;
use pellucid_lab::experiment::ExperimentError;
use pellucid_lab::image::ImageError;
use pellucid_output::OutputError;
use pellucid_spec::SpecError;
use pellucid_text::format::count;
use std::io;
use std::process::ExitCode;

/// The work failed.
const WORK: u8 = 1;
/// Exit status of an impossible request: an unknown key, a bad file, a bad option.
const ASKED: u8 = 2;

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    status: u8,
    error: anyhow::Error,
    /// The answer has said it all.
    told: bool,
}

impl Failure {
    /// Makes the failure of an impossible request.
    pub fn asked(error: impl Into<anyhow::Error>) -> Failure {
        Failure { status: ASKED, error: error.into(), told: false }
    }

    /// The work failed.
    pub fn work(error: impl Into<anyhow::Error>) -> Failure {
        Failure { status: WORK, error: error.into(), told: false }
    }

    /// Makes the failure of a sentence without a type: one that says what is allowed answers an impossible request.
    pub fn of_sentence(sentence: String) -> Failure {
        let status = if sentence.contains("allowed: ") { ASKED } else { WORK };
        Failure { status, error: anyhow::anyhow!(sentence), told: false }
    }

    /// The user ended the work; the report of what had completed is there.
    pub fn interrupted(requests: u64) -> Failure {
        let requests = count(requests);
        let error = anyhow::anyhow!("interrupted; the report is partial: {requests} requests had completed");
        Failure { status: INTERRUPTED, error, told: false }
    }

    /// The user ended the work; `sentence` says what is left of it.
    pub fn stopped(sentence: &'static str) -> Failure {
        Failure { status: INTERRUPTED, error: anyhow::anyhow!(sentence), told: false }
    }

    /// The answer is a no, as of a comparison: status 1, and nothing more to say.
    pub fn told() -> Failure {
        Failure { told: true, ..Failure::work(anyhow::anyhow!("they differ")) }
    }

    /// Keeps the exit status and puts the subject of the failure before its sentence.
    pub fn about(self, what: &str) -> Failure {
        Failure { error: anyhow::anyhow!("{what}: {}", self.error), ..self }
    }

    /// Returns whether the failure is that of an impossible request.
    pub fn was_asked(&self) -> bool {
        self.status == ASKED
    }

    /// Returns whether the user ended the work.
    pub fn is_interrupt(&self) -> bool {
        self.status == INTERRUPTED
    }

    /// Returns the reason in one sentence.
    pub fn sentence(&self) -> String {
        self.error.to_string()
    }

    /// Says why, and gives the exit status. A reader that has gone away is no failure: `pellucid ... | head` is fine.
    pub fn report(self) -> ExitCode {
        let gone =
            self.error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        if gone {
            return ExitCode::SUCCESS;
        }
        if !self.told {
            stderr::say(&format!("error: {}", self.error));
        }
        ExitCode::from(self.status)
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Failure {
        Failure::asked(error)
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Failure {
        Failure::asked(error)
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Failure {
        let status = match &error {
            ExperimentError::Verify { .. }
            | ExperimentError::NoWork
            | ExperimentError::NoTrace
            | ExperimentError::Job { .. }
            | ExperimentError::Application { .. }
            | ExperimentError::Refused { .. }
            | ExperimentError::ForApplication { .. }
            | ExperimentError::FilledFlash { .. }
            | ExperimentError::Memory { .. }
            | ExperimentError::Format(_) => ASKED,
            ExperimentError::Run(
                RunError::Device(_)
                | RunError::Job(_)
                | RunError::Refused(..)
                | RunError::Layers(_)
                | RunError::NoBlock
                | RunError::NoOverwrite
                | RunError::Trace(_)
                | RunError::NoRequest { .. }
                | RunError::Endless { .. }
                | RunError::Idle(..)
                | RunError::Waits(_),
            ) => ASKED,
            ExperimentError::Output(error) if error.is_mistake() => ASKED,
            ExperimentError::Run(_) | ExperimentError::Output(_) => WORK,
        };
        Failure { status, error: error.into(), told: false }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        ExperimentError::Output(error).into()
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        ExperimentError::Run(error).into()
    }
}

/// Standard output could not be written.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::work(error)
    }
}
