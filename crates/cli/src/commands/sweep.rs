//! `pellucid sweep`: many runs from one plan, by the Python package.
//!
//! A plan has one implementation, that of the package, so that a point is the same bytes from both: the command hands its words on
//! to `python -m pellucid sweep` and becomes that program.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use anyhow::anyhow;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const EXAMPLES: &str = "\
Examples:
  pellucid sweep plan.toml
  pellucid sweep plan.toml --on dask:tcp://head:8786
  pellucid sweep plan.toml --report
  pellucid sweep plan.toml --report curves

The Python package does the work: pip install . in the repository. docs/how-to/sweep.md describes plans and results.";

/// Prints the version of the package.
const PROBE: &str = "import pellucid.sweep; print(pellucid.__version__)";

/// Run a plan of many runs, with confidence intervals over seeds, on cores, Dask or Ray (needs the Python package)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Sweep {
    /// The plan, in TOML
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Where points run: local, local:N, dask:ADDRESS, ray:ADDRESS [default: local]
    #[arg(long, value_name = "ENGINE")]
    on: Option<String>,
    /// Write the points here [default: the plan's name with .sweep]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write tables, figures and report.html of what is done, and run nothing [default of DIR: beside the points]
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    report: Option<Option<PathBuf>>,
    /// The Python that has the package
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
}

impl Sweep {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        self.check_package()?;
        let mut command = Command::new(&self.python);
        command.args(["-m", "pellucid", "sweep"]).arg(&self.plan);
        if let Some(on) = &self.on {
            command.arg("--on").arg(on);
        }
        if let Some(out) = &self.out {
            output::refuse_answer_place("--out", out)?;
            command.arg("--out").arg(out);
        }
        if let Some(directory) = &self.report {
            command.arg("--report").args(directory);
        }
        if global.json {
            command.arg("--json");
        }
        if global.quiet {
            command.arg("--quiet");
        }
        // Comes back only if the program could not be started.
        Err(self.refuse(&command.exec().to_string()))
    }

    /// Refuses a Python without the package, or with one of another version, whose results would be others.
    fn check_package(&self) -> Result<(), Failure> {
        let probe = Command::new(&self.python).args(["-c", PROBE]).stdin(Stdio::null()).output();
        let probe = probe.map_err(|error| self.refuse(&error.to_string()))?;
        if !probe.status.success() {
            let said = String::from_utf8_lossy(&probe.stderr);
            return Err(self.refuse(said.lines().last().unwrap_or("it says nothing")));
        }
        let found = String::from_utf8_lossy(&probe.stdout);
        let (found, ours) = (found.trim(), env!("CARGO_PKG_VERSION"));
        if found != ours {
            return Err(self.refuse(&format!("its package is version {found}, and this command is {ours}")));
        }
        Ok(())
    }

    fn refuse(&self, why: &str) -> Failure {
        let python = self.python.display();
        let allowed =
            "allowed: a Python with the package (pip install . in the repository), as --python PROGRAM";
        Failure::asked(anyhow!("sweep: {python} cannot run it: {why}; {allowed}"))
    }
}
