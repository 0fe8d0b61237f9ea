//! Requests on the control socket and planned faults, as data: their text, their lines, and the actions that both name.

mod action;
mod error;
mod host_fault;
mod line;
mod plan;

pub use action::{Action, Chances, Outcome};
pub use error::PlanError;
pub use host_fault::{CommandSet, HostFault, HostFaultKind};
pub use line::Request;
pub use plan::{Moment, PlannedFault};
