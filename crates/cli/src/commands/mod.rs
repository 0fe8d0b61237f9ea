//! The commands, one file each.

mod age;
mod apps;
mod cache;
mod compare;
mod control;
mod demo;
mod diff;
mod explain;
mod fire;
mod fs;
mod fs_service;
mod generate;
mod graph;
mod import;
mod kv;
mod kv_replay;
mod kv_serve;
mod presets;
mod reference;
mod replay;
mod reproduce;
mod rerun;
mod run;
mod serve;
mod serving;
mod show;
mod sweep;
mod target;
mod top;

use crate::args::Global;
use crate::failure::Failure;

/// One subcommand, with its arguments.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Run(run::Run),
    Replay(replay::Replay),
    Compare(compare::Compare),
    Age(age::Age),
    Sweep(sweep::Sweep),
    Rerun(rerun::Rerun),
    Diff(diff::Diff),
    Reproduce(reproduce::Reproduce),
    Demo(demo::Demo),
    Show(show::Show),
    Explain(explain::Explain),
    Import(import::Import),
    Presets(presets::Presets),
    #[command(hide = true)]
    Reference(reference::Reference),
    #[command(hide = true)]
    Generate(generate::Generate),
    Serve(Box<serve::Serve>),
    Cache(Box<cache::Cache>),
    Detach(cache::Detach),
    Fire(Box<fire::Fire>),
    Kv(Box<kv::Kv>),
    Graph(Box<graph::Graph>),
    Fs(fs::Fs),
    Target(target::TargetCommand),
    Apps(apps::Apps),
    Top(top::Top),
    Status(control::Status),
    PowerCut(control::PowerCut),
    Fault(control::Fault),
}

/// Does it.
pub fn run(command: Command, global: &Global) -> Result<(), Failure> {
    match command {
        Command::Run(command) => command.run(global),
        Command::Replay(command) => command.run(global),
        Command::Compare(command) => command.run(global),
        Command::Age(command) => command.run(global),
        Command::Sweep(command) => command.run(global),
        Command::Rerun(command) => command.run(global),
        Command::Diff(command) => command.run(global),
        Command::Reproduce(command) => command.run(global),
        Command::Demo(command) => command.run(global),
        Command::Show(command) => command.run(global),
        Command::Explain(command) => command.run(global),
        Command::Import(command) => command.run(global),
        Command::Presets(command) => command.run(global),
        Command::Reference(command) => command.run(),
        Command::Generate(command) => command.run(),
        Command::Serve(command) => command.run(global),
        Command::Cache(command) => command.run(global),
        Command::Detach(command) => command.run(),
        Command::Fire(command) => command.run(global),
        Command::Kv(command) => command.run(global),
        Command::Graph(command) => command.run(global),
        Command::Fs(command) => command.run(global),
        Command::Target(command) => command.run(global),
        Command::Apps(command) => command.run(global),
        Command::Top(command) => command.run(global),
        Command::Status(command) => command.run(),
        Command::PowerCut(command) => command.run(),
        Command::Fault(command) => command.run(),
    }
}
