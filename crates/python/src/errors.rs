//! Errors as Python meets them: one exception with the key, its value and what is allowed, as far as the error knows them.

use pellucid_lab::drive::RunError;
use pellucid_lab::experiment::ExperimentError;
use pellucid_lab::image::{ImageError, ImageProblem};
use pellucid_output::OutputError;
use pellucid_spec::SpecError;
use pellucid_workload::JobError;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    pellucid,
    Error,
    PyException,
    "Something was asked for that cannot be, or work failed. `key`, `value` and `allowed` say more, or are None."
);

/// An error on its way to Python.
#[derive(Debug, Default)]
pub struct Refusal {
    message: String,
    key: Option<String>,
    value: Option<String>,
    allowed: Option<String>,
}

impl Refusal {
    /// An error that knows no more than its sentence.
    pub fn new(message: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), ..Refusal::default() }
    }

    /// A value that is not allowed.
    pub fn value(key: &str, value: &str, allowed: &str) -> Refusal {
        Refusal {
            message: format!("{key} = {value}: not allowed; allowed: {allowed}"),
            key: Some(key.into()),
            value: Some(value.into()),
            allowed: Some(allowed.into()),
        }
    }

    fn of_job(message: String, error: &JobError) -> Refusal {
        let (key, value, allowed) = match error {
            JobError::UnknownKey { key, .. } => (key.clone(), None, allowed_in(&message)),
            JobError::Unknown { key, value, allowed } => {
                ((*key).into(), Some(value.to_string()), Some(allowed.to_string()))
            }
            JobError::Value { key, value, allowed } => {
                ((*key).into(), Some(value.clone()), Some(allowed.clone()))
            }
        };
        Refusal { message, key: Some(key), value, allowed }
    }
}

/// Finds the part of a sentence that says what is allowed.
fn allowed_in(message: &str) -> Option<String> {
    message.split_once("allowed: ").map(|(_, allowed)| allowed.into())
}

impl From<SpecError> for Refusal {
    fn from(error: SpecError) -> Refusal {
        let message = error.to_string();
        let (key, value, allowed) = match error {
            SpecError::NotFound { name, .. } => (None, Some(name), None),
            SpecError::Syntax { .. } => (None, None, allowed_in(&message)),
            SpecError::UnknownKey { key, allowed, .. } => (Some(key), None, Some(allowed.join(", "))),
            SpecError::NotAllowed { key, value, allowed, .. } => (Some(key), Some(value), Some(allowed)),
            SpecError::NoEffect { key, value, with, .. } => {
                (Some(key), Some(value), Some(format!("with {with}")))
            }
            SpecError::Missing { key, allowed, .. } => (Some(key), None, Some(allowed)),
        };
        Refusal { message, key, value, allowed }
    }
}

impl From<JobError> for Refusal {
    fn from(error: JobError) -> Refusal {
        Refusal::of_job(error.to_string(), &error)
    }
}

impl From<RunError> for Refusal {
    fn from(error: RunError) -> Refusal {
        ExperimentError::Run(error).into()
    }
}

impl From<ExperimentError> for Refusal {
    fn from(error: ExperimentError) -> Refusal {
        let message = error.to_string();
        match &error {
            ExperimentError::Job { error, .. } | ExperimentError::Run(RunError::Job(error)) => {
                Refusal::of_job(message, error)
            }
            _ => Refusal { allowed: allowed_in(&message), message, ..Refusal::default() },
        }
    }
}

impl From<ImageError> for Refusal {
    fn from(error: ImageError) -> Refusal {
        let message = error.to_string();
        match *error.problem {
            ImageProblem::Spec(error) => Refusal { message, ..Refusal::from(error) },
            _ => Refusal { allowed: allowed_in(&message), message, ..Refusal::default() },
        }
    }
}

impl From<OutputError> for Refusal {
    fn from(error: OutputError) -> Refusal {
        let message = error.to_string();
        Refusal { allowed: allowed_in(&message), message, ..Refusal::default() }
    }
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> PyErr {
        Python::attach(|py| {
            let error = Error::new_err(refusal.message);
            let instance = error.value(py);
            let attributes = [("key", refusal.key), ("value", refusal.value), ("allowed", refusal.allowed)];
            for (name, value) in attributes {
                if let Err(failed) = instance.setattr(name, value) {
                    return failed;
                }
            }
            error
        })
    }
}
