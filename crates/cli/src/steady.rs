//! `--steady-state`: a run that ends once it is steady, as an option in addition to its keys.

use crate::args::Global;
use crate::failure::Failure;
use crate::spelling::add_set;

/// When a run ends.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SteadyOptions {
    /// End the run once it is steady: by SNIA's rule over five rounds (snia, snia:bw, snia:lat), or by fio's (iops:3%, bw:3%, lat:3%,
    /// iops_slope:1%, ...). The work must last long enough by itself, as with --time-based --runtime 25m; exit status 1 if the run is not
    /// steady by its end
    #[arg(long, value_name = "RULE")]
    steady_state: Option<String>,
    /// Length of a round [default: 60s]
    #[arg(long, value_name = "TIME")]
    steady_round: Option<String>,
}

impl SteadyOptions {
    /// The shared options with these as overrides of their keys.
    pub fn apply(&self, global: &Global) -> Result<Global, Failure> {
        let mut global = global.clone();
        add_set(&mut global.sets, "--steady-state", "run.steady_state", self.steady_state.as_deref())?;
        add_set(&mut global.sets, "--steady-round", "run.steady_round", self.steady_round.as_deref())?;
        Ok(global)
    }

    /// The options as they were given, to be typed again.
    pub fn words(&self) -> String {
        let option = |name: &str, value: &Option<String>| {
            value.as_ref().map_or_else(String::new, |value| format!(" --{name} {value}"))
        };
        option("steady-state", &self.steady_state) + &option("steady-round", &self.steady_round)
    }
}
