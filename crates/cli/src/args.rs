//! What every command understands.

use crate::commands::Command;
use crate::failure::Failure;
use clap::Parser;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pellucid replay cosmos-plus examples/cloudphysics.csv.zst --report report
  pellucid run datacenter-tlc --rw randwrite --bs 4k --iodepth 64 --number_ios 100000
  pellucid show cosmos-plus > my-drive.toml

A DRIVE is a preset (see pellucid presets), a TOML file, or an image made by pellucid age.
It may carry overrides of its own: cosmos-plus,ftl.victim=fifo,media.ways=4";

/// An open SSD: describe a drive, run work on it in simulated time or serve it to real hosts, see inside.
#[derive(Debug, Parser)]
#[command(name = "pellucid", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub global: Global,
}

/// Options of every command.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Override a key of the description, such as ftl.victim=fifo; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", global = true)]
    pub sets: Vec<String>,
    /// Print the answer as JSON, alone on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Write report.json, series.csv, requests.csv and index.html into this directory
    #[arg(long, value_name = "DIR", global = true)]
    pub report: Option<PathBuf>,
    /// Write one CSV line per request to this file
    #[arg(long, value_name = "FILE", global = true)]
    pub log: Option<PathBuf>,
    /// Check every byte that is read; on a drive in a file that was written before, each sector from its first write on
    #[arg(long, global = true)]
    pub verify: bool,
    /// Seed of the jobs; with `age`, of the overwrites
    #[arg(long, value_name = "N", global = true)]
    pub seed: Option<u64>,
    /// No progress, notices, warnings or hints
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

impl Global {
    /// Refuses what concerns the work on a drive, for a command that does none.
    pub fn no_work(&self, command: &str) -> Result<(), Failure> {
        let given =
            [("--report", self.report.is_some()), ("--log", self.log.is_some()), ("--verify", self.verify)];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Global::refused(option, command, "run, replay, compare")),
            None => Ok(()),
        }
    }

    /// Refuses a seed, for a command that draws nothing at random.
    pub fn no_seed(&self, command: &str) -> Result<(), Failure> {
        self.seed.map_or(Ok(()), |_| Err(Global::refused("--seed", command, "run, replay, compare, age")))
    }

    /// Refuses what concerns a drive, for a command that asks for none.
    pub fn no_drive(&self, command: &str) -> Result<(), Failure> {
        self.no_work(command)?;
        self.no_seed(command)?;
        match self.sets.is_empty() {
            true => Ok(()),
            false => Err(Global::refused("--set", command, "commands that make a drive")),
        }
    }

    fn refused(option: &str, command: &str, allowed: &str) -> Failure {
        let message = format!("{option} means nothing to {command}; allowed: {allowed}");
        Failure::asked(anyhow::anyhow!(message))
    }
}
