//! What every command understands.

use crate::commands::Command;
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
    /// Write report.json, series.csv and index.html into this directory
    #[arg(long, value_name = "DIR", global = true)]
    pub report: Option<PathBuf>,
    /// Write one CSV line per request to this file
    #[arg(long, value_name = "FILE", global = true)]
    pub log: Option<PathBuf>,
    /// Check every byte that is read
    #[arg(long, global = true)]
    pub verify: bool,
    /// Seed of the jobs
    #[arg(long, value_name = "N", global = true)]
    pub seed: Option<u64>,
    /// No progress, notices or hints
    #[arg(long, short, global = true)]
    pub quiet: bool,
}
