//! `pellucid kv`: a key-value cache on a drive.

use super::kv_replay::KvReplay;
use crate::args::Global;
use crate::failure::Failure;

/// A key-value cache on a drive
#[derive(Debug, clap::Args)]
pub struct Kv {
    #[command(subcommand)]
    command: KvCommand,
}

#[derive(Debug, clap::Subcommand)]
enum KvCommand {
    Replay(KvReplay),
}

impl Kv {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            KvCommand::Replay(replay) => replay.run(global),
        }
    }
}
