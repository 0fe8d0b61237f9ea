//! `pellucid kv DRIVE`: the server of a key-value cache.

use super::serving::{listen_control, parse_connections, parse_time};
use crate::args::Global;
use crate::failure::Failure;
use crate::log_line::LogFormat;
use crate::numbers::whole;
use crate::output::warn;
use crate::spelling::add_set;
use crate::watch::MonitorOptions;
use crate::{exposure, interrupt, layered, served_log};
use anyhow::anyhow;
use pellucid_kv::KvConfig;
use pellucid_serve::event::Event;
use pellucid_serve::kv::{Cache, DriveCache, KvService, session};
use pellucid_serve::{Address, Bound, FileConfig, Options, Server, Time, TlsConfig};
use pellucid_text::format::binary_bytes;
use std::path::PathBuf;
use std::time::Duration;

/// The protocol in the log and in figures.
const PROTOCOL: &str = "memcached";
/// Default port, that of memcached.
const LISTEN: &str = "11211";

/// The options.
#[derive(Debug, clap::Args)]
pub struct KvServe {
    /// A preset, a description in TOML, or an image, with the cache's settings in [kv]; or file:PATH[,size=...] or
    /// nvme+tcp://HOST:PORT[/NQN], with --set kv.KEY=VALUE
    #[arg(value_name = "DRIVE")]
    drive: Option<String>,
    /// Serve here: HOST:PORT, PORT (on 127.0.0.1), or unix:PATH; may be given several times [default: 11211, unless --unix is given]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<Address>,
    /// Serve on this Unix socket
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Serve through TLS only; DIR holds server-cert.pem and server-key.pem
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Refuse clients without a certificate signed by ca-cert.pem in the directory of --tls
    #[arg(long, requires = "tls")]
    tls_verify_peer: bool,
    /// Storage engine: original, policy, function, raw, direct; the same as --set kv.engine=ENGINE
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// Memory for write buffers, such as 256MiB; the same as --set kv.memory=SIZE
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Pace of a modelled drive. instant: as fast as possible; paced: its latency is kept; x10: everything takes ten times as long
    /// [default: instant]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Time>,
    /// Keep polling for N microseconds after the last work, instead of sleeping
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>(..))]
    poll_us: u64,
    /// Most concurrent connections; more are refused [default: 1024]
    #[arg(long, value_name = "N", value_parser = parse_connections)]
    connections: Option<usize>,
    #[command(flatten)]
    monitor: MonitorOptions,
    /// Format of the event log on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", conflicts_with = "quiet")]
    log_format: LogFormat,
    /// Take commands on this Unix socket: pellucid status, pellucid top
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Says what slabs hold where there are fewer write buffers than slab classes.
fn little_memory(cache: &DriveCache, memory_bytes: u64) -> Option<String> {
    let needed = cache.memory_for_each_class_bytes();
    if memory_bytes >= needed {
        return None;
    }
    let classes = cache.classes();
    let slots: Vec<String> =
        classes.iter().map(|class| format!("{} x {}", class.slots_per_slab, class.slot_bytes)).collect();
    let (had, needed) = (binary_bytes(memory_bytes as f64), binary_bytes(needed as f64));
    Some(format!(
        "kv.memory = {had}: a slab in memory for each of {} classes takes {needed}; with less, items share slabs of larger slots, and take \
         more flash. Give it more, or a smaller kv.slab, or a larger kv.growth_factor. A slab holds, by class, so many items of so many \
         bytes: {}",
        classes.len(),
        slots.join(", ")
    ))
}

impl KvServe {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let Some(drive) = &self.drive else {
            return Err(Failure::asked(anyhow!(
                "kv: no drive; allowed: pellucid kv DRIVE, pellucid kv replay"
            )));
        };
        let addresses = self.addresses()?;
        self.check_addresses(&addresses)?;
        self.log_format.never_wait()?;
        let mut global = global.clone();
        add_set(&mut global.sets, "--engine", "kv.engine", self.engine.as_deref())?;
        add_set(&mut global.sets, "--memory", "kv.memory", self.memory.as_deref())?;
        let tls = self.tls.as_ref().map(|directory| TlsConfig::load(directory, self.tls_verify_peer));
        let tls = tls.transpose().map_err(Failure::asked)?;
        // A refusal must come before the drive is opened: a cache that has begun is no warm one any more.
        let is_real = FileConfig::is_meant(drive) || layered::is_remote(drive);
        if self.time.is_some() && is_real {
            let message = "files and remote drives have no modelled time; allowed: with a modelled drive";
            return Err(Failure::asked(anyhow!("--time: {message}")));
        }
        let sockets: Result<Vec<Bound>, _> = addresses.iter().map(Bound::new).collect();
        let sockets = sockets.map_err(Failure::asked)?;
        let control = self.control.clone().map(|path| Bound::new(&Address::Unix(path)));
        let control = control.transpose().map_err(Failure::asked)?;
        let mut shown_at = None;
        let board = self.monitor.start(|address| shown_at = Some(address))?;
        let (opened, config) = layered::open_cache(drive, &global)?;
        let (name, made) = (opened.name, opened.made);
        let cache = DriveCache::new(opened.drive, &config);
        let cache = cache.map_err(|why| Failure::asked(anyhow!("{name}: {why}")))?;
        // The usual memory needs no warning: few clients store values of every size.
        if config.memory_bytes != KvConfig::new(config.engine).memory_bytes {
            warn(&global, little_memory(&cache, config.memory_bytes));
        }
        let service = KvService::new(&name, cache, &config, self.time.unwrap_or(Time::Instant));
        let log = self.log_format.log(&global);
        let options = Options {
            poll: Duration::from_micros(self.poll_us),
            connections_max: self.connections.unwrap_or(Options::default().connections_max),
            ..Options::default()
        };
        let mut server = Server::new(service, options, Box::new(log)).map_err(Failure::work)?;
        // A client may ask the server to stop as soon as it listens.
        let stopper = server.stopper();
        interrupt::instead(move || stopper.stop_because("signal"));
        let mut facts = Vec::new();
        for socket in sockets {
            let tls = tls.clone();
            let accept = Box::new(move |_, _| session(tls.as_ref()));
            let bound = server.listen_on(socket, PROTOCOL, accept).map_err(Failure::asked)?;
            facts.push(served_log::memcached(&name, &bound));
        }
        if let Some(control) = control {
            listen_control(&mut server, control)?;
        }
        if let Some((board, address)) = board.zip(shown_at) {
            let uri = Some(format!("http://{address}/"));
            log(&Event::Listening { protocol: "monitor", address: address.to_string(), uri });
            server.show_on(&board);
        }
        facts.extend(made.event(&name));
        facts.iter().for_each(log);
        made.keep();
        server.run().map(drop).map_err(Failure::work)
    }

    /// Returns the addresses on which the server listens.
    fn addresses(&self) -> Result<Vec<Address>, Failure> {
        let mut addresses = self.listen.clone();
        addresses.extend(self.unix.iter().cloned().map(Address::Unix));
        if addresses.is_empty() {
            addresses.push(LISTEN.parse().map_err(Failure::asked)?);
        }
        Ok(addresses)
    }

    /// Refuses addresses that others reach and whose peers need not prove who they are, unless that is wanted.
    fn check_addresses(&self, addresses: &[Address]) -> Result<(), Failure> {
        if self.monitor.open {
            return Ok(());
        }
        let proved = self.tls.is_some() && self.tls_verify_peer;
        for address in addresses.iter().filter(|_| !proved) {
            exposure::check(PROTOCOL, address, "--tls and --tls-verify-peer")?;
        }
        self.monitor.check()
    }
}
