//! The `pellucid` command: the laboratory at a terminal.
//!
//! Each command has a file of its own in [`commands`]. Answers go to standard output, everything else (progress, notices,
//! errors) to standard error. Exit status: 0, 1 when the work failed, 2 when something was asked for that cannot be, 130 when it was
//! interrupted.

mod args;
mod columns;
mod commands;
mod exposure;
mod failure;
mod film;
mod import;
mod interrupt;
mod layered;
mod log_line;
mod memory;
mod numbers;
mod output;
mod precondition;
mod progress;
mod provenance;
mod report_file;
mod seeds;
mod served_log;
mod spelling;
mod stderr;
mod steady;
mod subject;
mod timeline;
mod version;
mod view;
mod watch;
mod workload;

use std::process::ExitCode;

fn main() -> ExitCode {
    let (command, global) = match args::parse() {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    interrupt::install();
    let status = match global.check_sets().and_then(|()| commands::run(command, &global)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    };
    stderr::finish();
    status
}
