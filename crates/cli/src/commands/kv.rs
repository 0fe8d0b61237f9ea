//! `pellucid kv`: a key-value cache on a drive.

use super::kv_replay::KvReplay;
use super::kv_serve::KvServe;
use crate::args::{Global, SERVES};
use crate::failure::Failure;
use anyhow::anyhow;

const EXAMPLES: &str = "\
Examples:
  pellucid kv cosmos-plus --set media.store=ram --listen 11211
  pellucid kv bench/serve-kv.toml --set kv.engine=direct --unix /tmp/kv.sock --time instant --monitor 9300
  pellucid kv mine.toml --listen 11211 --memory 256MiB --control /tmp/kv.control

Then, for one: printf 'set a 0 0 5\\r\\nhello\\r\\nget a\\r\\nquit\\r\\n' | nc 127.0.0.1 11211";

/// A key-value cache on a drive: served to clients that speak the memcached protocol, or replaying a trace
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Kv {
    #[command(subcommand)]
    command: Option<KvCommand>,
    #[command(flatten)]
    serve: KvServe,
}

#[derive(Debug, clap::Subcommand)]
enum KvCommand {
    Replay(KvReplay),
}

impl Kv {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            Some(KvCommand::Replay(replay)) => replay.run(global),
            None if global.json => Err(Failure::asked(anyhow!("--json: {SERVES}; allowed: with kv replay"))),
            None => self.serve.run(global),
        }
    }
}
