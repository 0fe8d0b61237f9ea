//! `pellucid kv replay`: a key-value trace on a cache, in simulated time.

use crate::args::Global;
use crate::failure::Failure;
use crate::numbers::whole;
use crate::output;
use crate::spelling::add_set;
use anyhow::anyhow;
use pellucid_flash::Nanos;
use pellucid_lab::kv::{ClientsConfig, Experiment, KvError, KvRunError};
use pellucid_media::StoreKind;
use pellucid_workload::kv::OnMiss;
use pellucid_workload::trace::kv::{KvFormat, KvReader};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pellucid kv replay cluster12.sort.zst --drive datacenter-tlc
  pellucid kv replay kvcache_traces_1.csv --drive open-channel --engine raw --clients 64
  pellucid kv replay trace.csv.gz --drive datacenter-tlc --format cachelib --limit 1000000 --json

The drive holds data in memory, so it should be small: --set media.blocks=64. A get that misses stores the value behind it,
as clients do, where the trace says how long it is.";

/// Replay a key-value trace on a cache: Twitter's or CacheLib's; plain, gzip or zstd
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct KvReplay {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// A preset or a description in TOML, with the cache's settings in [kv]
    #[arg(long, value_name = "DRIVE")]
    drive: String,
    /// Storage engine: original, policy, function, raw, direct; the same as --set kv.engine=ENGINE
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// Memory for write buffers, such as 256MiB; the same as --set kv.memory=SIZE
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Format of the trace: twitter or cachelib [default: as its first line shows]
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Clients, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = whole::<u32>(1..=65536))]
    clients: u32,
    /// Pause of a client between an answer and its next request, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = whole::<u32>(..))]
    think: u32,
    /// Replay the first N requests only
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    limit: Option<u64>,
    /// Store nothing after a miss
    #[arg(long)]
    no_fill: bool,
}

impl KvReplay {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let format =
            self.format.as_deref().map(str::parse::<KvFormat>).transpose().map_err(Failure::asked)?;
        let mut requests = KvReader::open(&self.trace, format).map_err(Failure::asked)?;
        let mut sets = global.sets.clone();
        add_set(&mut sets, "--engine", "kv.engine", self.engine.as_deref())?;
        add_set(&mut sets, "--memory", "kv.memory", self.memory.as_deref())?;
        let mut spec = pellucid_spec::load(&self.drive, &sets)?;
        output::warn(global, spec.check_effect(pellucid_spec::Use::Kv)?);
        if matches!(spec.drive.media.store, StoreKind::None) {
            // A cache reads keys and values back.
            spec.drive.media.store = StoreKind::Ram;
        }
        let clients = ClientsConfig {
            count: self.clients,
            think: Nanos::from_us(u64::from(self.think)),
            on_miss: if self.no_fill { OnMiss::Nothing } else { OnMiss::Store },
            seed: spec.run.seed,
        };
        let mut experiment = Experiment::new(&spec, clients).map_err(failure)?;
        let work = format!(
            "{} ({}), kv.engine = {}",
            self.trace.display(),
            requests.format(),
            spec.kv.engine.name()
        );
        let report = experiment.run(&mut requests, self.limit.unwrap_or(u64::MAX)).map_err(failure)?;
        if report.summary.requests == 0 {
            return Err(Failure::asked(anyhow!(
                "{}: it has no requests, so nothing was replayed",
                self.trace.display()
            )));
        }
        output::header(global, "kv replay", &spec.drive_name, &work)?;
        if global.json {
            let json = serde_json::to_string_pretty(&report).map_err(Failure::work)?;
            output::print(&format!("{json}\n"))?;
        } else {
            output::print(&report.to_text())?;
        }
        match report.summary.wrong_values {
            0 if report.summary.failed > 0 => Err(Failure::work(anyhow!(
                "the cache refused {} of {} requests, for lack of space, for their size, or because the flash failed",
                report.summary.failed,
                report.summary.requests
            ))),
            0 => Ok(()),
            wrong => Err(Failure::work(anyhow!(
                "{wrong} gets returned a value that was never stored under their key"
            ))),
        }
    }
}

fn failure(error: KvError) -> Failure {
    match error {
        KvError::Device(_)
        | KvError::Precondition(_)
        | KvError::Cache { .. }
        | KvError::Run(KvRunError::Trace(_)) => Failure::asked(error),
        KvError::Run(KvRunError::Stuck) => Failure::work(error),
    }
}
