//! `--precondition`: what is written to a drive before the work, and the memory that it takes.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use anyhow::anyhow;
use clap::ValueEnum;
use pellucid_lab::experiment::{ExperimentError, available_memory_bytes, fill_for_replay, memory_bytes};
use pellucid_spec::{Fill, Medium, Overwrite, Place, Spec};
use pellucid_text::format::bytes;

/// Memory from which on a run announces how much it will take.
const TOLD_BYTES: u64 = 1 << 30;

/// Content of the drive when the work begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum State {
    /// Nothing: reads of what the work does not write find no data
    None,
    /// The whole capacity, written once, sequentially
    Fill,
    /// The data that the trace reads before it writes them, and nothing else
    Trace,
    /// The whole capacity, then overwritten at random until write amplification settles, as `pellucid age` does
    Steady,
}

/// Options of the work that is done before the one that is measured.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PreconditionOptions {
    /// Content of the drive when the work begins. Takes precedence over [precondition] of the description and the fill of its targets;
    /// refused together with --set precondition.fill or .overwrite. On an image, which has been used: none, or trace, which writes the
    /// missing sectors [default: as in the description; without it, trace for a replay, none for jobs and images]
    #[arg(long, value_name = "STATE", value_enum)]
    precondition: Option<State>,
    #[command(flatten)]
    pub memory: MemoryOptions,
}

/// Permission to take more memory than there is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MemoryOptions {
    /// Start although preconditioning will take more memory than the machine has available
    #[arg(long)]
    overcommit: bool,
}

impl PreconditionOptions {
    /// The option as it was given, to be typed again.
    pub fn words(&self) -> String {
        let name = |state: State| state.to_possible_value().map(|value| value.get_name().to_string());
        self.precondition.and_then(name).map_or_else(String::new, |name| format!(" --precondition {name}"))
    }

    /// Returns whether the request is meaningless for this medium: times of a disk do not depend on earlier writes.
    pub fn means_nothing_to(&self, medium: Medium) -> bool {
        medium == Medium::Disk && matches!(self.precondition, Some(State::Fill | State::Steady))
    }

    /// Puts the option, or the default of a replay, into a description; `image`: the drive comes from one.
    pub fn apply(&self, spec: &mut Spec, image: bool) -> Result<(), Failure> {
        let said = |key: &str| spec.provenance.entries.iter().find(|entry| entry.key == key);
        let Some(state) = self.precondition else {
            if !image {
                fill_for_replay(spec);
            }
            return Ok(());
        };
        let sets = ["precondition.fill", "precondition.overwrite"];
        let set = |key: &&str| said(key).is_some_and(|entry| matches!(entry.origin.place, Place::Set { .. }));
        if let Some(key) = sets.into_iter().find(|key| set(key)) {
            let message = format!("--precondition and --set {key} do not go together; allowed: one of them");
            return Err(Failure::asked(anyhow!(message)));
        }
        if self.means_nothing_to(spec.medium) {
            return Ok(());
        }
        if image && matches!(state, State::Fill | State::Steady) {
            let message = "an image is preconditioned already; allowed: none or trace, or another image: pellucid show IMAGE > drive.toml, \
                           then pellucid age drive.toml";
            return Err(Failure::asked(anyhow!("--precondition: {message}")));
        }
        if state == State::Trace && spec.run.trace.is_none() {
            return Err(ExperimentError::NoTrace.into());
        }
        if image && state == State::Trace && spec.has_host() {
            let message = "the data of host layers on an image are unknown; allowed: none";
            return Err(Failure::asked(anyhow!("--precondition: {message}")));
        }
        if image && state == State::None {
            return Ok(());
        }
        let (fill, overwrite) = match state {
            State::None => (Fill::Share(0.0), Overwrite::Capacities(0.0)),
            State::Fill => (Fill::Share(1.0), Overwrite::Capacities(0.0)),
            State::Trace => (Fill::Trace, Overwrite::Capacities(0.0)),
            State::Steady => (Fill::Share(1.0), Overwrite::Steady),
        };
        (spec.precondition.fill, spec.precondition.overwrite) = (fill, overwrite);
        spec.targets.iter_mut().for_each(|one| one.fill = None);
        Ok(())
    }
}

impl MemoryOptions {
    /// Says what preconditioning comes to take, if it is much, and refuses more than there is.
    pub fn check(&self, spec: &Spec, global: &Global) -> Result<(), Failure> {
        let needed = memory_bytes(spec).map_err(ExperimentError::from)?;
        if needed < TOLD_BYTES {
            return Ok(());
        }
        let told = format!("about {} of memory", bytes(needed as f64));
        if let Some(available) =
            available_memory_bytes().filter(|&available| available < needed && !self.overcommit)
        {
            let message = format!(
                "{}: preconditioning will take {told}, of which the machine has {} available; allowed: less of \
                 precondition.fill, --precondition trace or none, a smaller drive (media.blocks), no --verify, or \
                 --overcommit",
                spec.drive_name,
                bytes(available as f64)
            );
            return Err(Failure::asked(anyhow!(message)));
        }
        output::notice(global, &format!("{}: preconditioning will take {told}", spec.drive_name));
        Ok(())
    }
}
