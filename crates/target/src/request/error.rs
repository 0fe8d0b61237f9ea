//! Error in the text of a fault.

/// Probabilities in the text of a fault.
pub(super) const CHANCES: &str = "a probability from 0 to 1, or 0% to 100%";

/// Error in the text of a planned fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {:?}; allowed: {}", .part, .value, .allowed)]
pub struct PlanError {
    part: String,
    value: String,
    allowed: String,
}

impl PlanError {
    pub(super) fn new(part: &str, value: &str, allowed: impl Into<String>) -> PlanError {
        PlanError { part: part.into(), value: value.into(), allowed: allowed.into() }
    }
}
