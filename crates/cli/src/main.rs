//! The `pellucid` command: the laboratory at a terminal.
//!
//! Each command has a file of its own in [`commands`]. Answers go to standard output, everything else (progress, notices,
//! errors) to standard error. Exit status: 0, 1 when the work failed, 2 when something was asked for that cannot be.

mod args;
mod commands;
mod exposure;
mod failure;
mod interrupt;
mod layered;
mod log_line;
mod output;
mod precondition;
mod progress;
mod served_log;
mod subject;
mod view;
mod watch;
mod workload;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::parse();
    interrupt::install();
    match commands::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
