//! The Python module: drives, runs and their results for `import pellucid`.
//!
//! ```text
//!  pellucid (Python: words, figures, sweeps) ─► _pellucid (this crate): State ─► lab ─► Outcome ─► Table (Arrow)
//! ```
//! This crate converts and nothing else: descriptions are resolved by `spec`, work is done by `lab`, and a report is the command's. A run
//! releases the interpreter, and looks for Ctrl-C in between. Tables leave through the Arrow PyCapsule interface, without a copy.

mod errors;
mod outcome;
mod policies;
mod state;
mod tables;
mod watch;

use pyo3::prelude::*;

/// Drives, runs and their results; `pellucid` wraps them for users.
#[pymodule]
mod _pellucid {
    #[pymodule_export]
    use super::errors::Error;
    #[pymodule_export]
    use super::outcome::{Outcome, compare_text, seeds_text};
    #[pymodule_export]
    use super::policies::{Candidate, Die};
    #[pymodule_export]
    use super::state::{State, check_job, keys, presets};
    #[pymodule_export]
    use super::tables::Table;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // An error that knows no more than its sentence has these, too.
        let error = module.py().get_type::<Error>();
        ["key", "value", "allowed"].iter().try_for_each(|name| error.setattr(name, module.py().None()))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
