//! Service of drives: protocols, time, monitor, control socket. Shared by `serve` and the products.

use crate::args::Global;
use crate::failure::Failure;
use crate::layered::{MadeFile, Opened};
use crate::log_line::LogFormat;
use crate::numbers::whole;
use crate::served_log::{self, Offered};
use crate::subject::{is_one_file, is_one_place};
use crate::watch::MonitorOptions;
use crate::{exposure, interrupt, output};
use anyhow::anyhow;
use pellucid_flash::Interface;
use pellucid_lab::image::is_image;
use pellucid_monitor::Board;
use pellucid_output::{OutputFile, begins_with, refuse_foreign};
use pellucid_serve::event::Event;
use pellucid_serve::nvme_tls::{SecuredConnection, TlsOffer};
use pellucid_serve::{
    Address, Arrival, BlockDevice, Bound, CONNECTIONS_MAX, CONTROL, Core, FileDrive, FioTrace, Lead,
    Observer, Operated, Options, Refusal, Served, Server, Stopper, Time, TlsConfig, UblkError, secret,
    serial_number,
};
use pellucid_target::Drives;
use pellucid_target::control::ControlSession;
use pellucid_target::nbd::NbdSession;
use pellucid_target::nvme::{Connection, DhGroup, HostSecrets, SubsystemConfig, Target, TlsKey, TlsKeys};
use pellucid_target::operation::{NQN_PREFIX, Namespace};
use pellucid_target::request::PlannedFault;
use pellucid_target::session::Session;
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Cost of the loopback and of a client that polls, measured on one machine (docs/explanation/serving.md): with this lead
/// `bench/paced_latency.py` finds the mean that SPDK's client sees 2.4 % above the model's, without it 5.9 %.
const LEAD: Duration = Duration::from_micros(6);

/// How drives are served.
#[derive(Debug, clap::Args)]
pub struct Serving {
    /// Serve NBD here: HOST:PORT, PORT (on 127.0.0.1), or unix:PATH; may be given several times
    #[arg(long, value_name = "ADDR")]
    nbd: Vec<Address>,
    /// Serve NBD only to clients that switch to TLS; DIR holds server-cert.pem and server-key.pem
    #[arg(long, value_name = "DIR", requires = "nbd")]
    tls: Option<PathBuf>,
    /// Refuse NBD clients without a certificate signed by ca-cert.pem in the directory of --tls
    #[arg(long, requires = "tls")]
    tls_verify_peer: bool,
    /// Do not offer structured replies to NBD clients: they then read an answer with half as many system calls, but cannot ask which
    /// ranges hold data (block status)
    #[arg(long, requires = "nbd")]
    nbd_simple_replies: bool,
    /// Serve NVMe/TCP here: HOST:PORT or PORT (on 127.0.0.1); each drive is the subsystem nqn.2026-01.org.pellucid:NAME.
    /// A host that attaches two servers needs drives of different names: --set drive.name=NAME of a modelled drive, another file name of
    /// a file
    #[arg(long, value_name = "ADDR")]
    nvme_tcp: Vec<Address>,
    /// Accept only the NVMe host with this qualified name; may be given several times
    #[arg(long, value_name = "NQN", requires = "nvme_tcp")]
    host_nqn: Vec<String>,
    /// Accept this NVMe host only if it proves that it knows its secret (DH-HMAC-CHAP). Hosts without a secret are refused; may be given
    /// several times. FILE holds the host's secret as "nvme gen-dhchap-key" prints it and, on a second line, the controller's if the host
    /// asks for it; only its owner may read it (mode 0600)
    #[arg(long, value_name = "NQN=FILE", requires = "nvme_tcp", value_parser = parse_host_file)]
    dhchap: Vec<(String, PathBuf)>,
    /// Refuse smaller Diffie-Hellman groups than this, with --dhchap and --remote-dhchap: null, or ffdhe with 2048, 3072, 4096, 6144 or
    /// 8192 bits. The smallest of the groups that a host offers is used; with null an eavesdropper can try secrets offline
    /// [default: null]
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    dhchap_group: Option<DhGroup>,
    /// Serve NVMe/TCP only through TLS 1.3, and only to hosts whose key is given; may be given several times. FILE
    /// holds one key as "nvme gen-tls-key" prints it (SHA-256); only its owner may read it (mode 0600). Needs a build with the feature
    /// tls-psk
    #[arg(long, value_name = "NQN=FILE", requires = "nvme_tcp", value_parser = parse_host_file)]
    tls_psk: Vec<(String, PathBuf)>,
    /// Pace of modelled drives. paced: modelled latency is kept; x10: everything takes ten times as long; instant: as fast as possible
    /// [default: paced]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Time>,
    /// Stop when standard input ends, so that no server survives the program that started it
    #[arg(long)]
    until_input_ends: bool,
    /// Keep polling for N microseconds after the last work, instead of sleeping
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>(..))]
    poll_us: u64,
    /// Send completions N microseconds early to offset the client's own latency. The server's sending time is measured and subtracted
    /// as well. "measured": N is the time that the client takes to send its next request when nothing else is outstanding; suits clients
    /// that send it at once [default: 6, the time of a polling client over the loopback; with --time instant 0]
    #[arg(long, value_name = "N|measured", value_parser = parse_lead)]
    lead_us: Option<Lead>,
    /// Most concurrent connections; more are refused [default: 1024]
    #[arg(long, value_name = "N", value_parser = parse_connections)]
    connections: Option<usize>,
    /// Write the requests to this file, as a trace that replay reads
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Make each block namespace a block device of this machine, /dev/ublkbN, without a network; needs root, Linux 6.5 or newer and its
    /// module ublk_drv
    #[arg(long)]
    ublk: bool,
    /// Format of the event log on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", conflicts_with = "quiet")]
    log_format: LogFormat,
    #[command(flatten)]
    oversight: Oversight,
}

/// How drives in service are watched and broken.
#[derive(Debug, clap::Args)]
pub struct Oversight {
    #[command(flatten)]
    monitor: MonitorOptions,
    /// Plan a fault: KIND@WHEN[:KEY=VALUE,...]; may be given several times. Kinds: power-cut, program-fail=P, erase-fail=P,
    /// read-fail=P, slow-die=DIExF, kill-die=DIE, bit-errors=F, bit-errors=DIExF, fail-programs=N, fail-erases=N, wear-out
    /// (as with pellucid fault), and faults that hosts see: io-error, torn-write, lost-flush, corrupt, delay=TIME, clear; when: a time
    /// (2s, 500ms), an operation (1000ops), random; keys: drive=NAME, times=N, with random seed=N, mean=OPERATIONS, and for faults that
    /// hosts see on=read+write+flush+trim, range=FROM-TO, rate=P, count=N, seed=N
    #[arg(long, value_name = "FAULT")]
    fault: Vec<PlannedFault>,
    /// Take commands on this Unix socket
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Everything that a service needs beside its drives. It is taken before a drive is opened, so that a command that is refused has changed no
/// drive, and has thrown no warm state away.
pub struct Reserved {
    nbd: Vec<Bound>,
    nvme_tcp: Vec<Bound>,
    control: Option<Bound>,
    tls: Option<TlsConfig>,
    offer: Option<TlsOffer>,
    secrets: BTreeMap<String, HostSecrets>,
    recording: Option<Recording>,
    /// Board of the monitor, and where it listens.
    board: Option<(Board, SocketAddr)>,
}

/// Facts about the drives of a command that are known before they are opened.
pub struct Beforehand<'a> {
    /// A command that serves.
    pub example: &'a str,
    /// A remote drive is given a secret.
    pub proves: bool,
    /// No drive is a modelled one.
    pub is_real: bool,
    /// Files that the command will open for its drives, or reads.
    pub files: &'a [&'a Path],
}

impl Oversight {
    /// Returns whether any of these options was given.
    pub fn is_wanted(&self) -> bool {
        self.monitor.is_wanted() || self.control.is_some() || !self.fault.is_empty()
    }

    /// Refuses an address of the monitor that others can reach, unless that is wanted.
    pub fn check(&self) -> Result<(), Failure> {
        self.monitor.check()
    }

    /// Makes the check of [`Oversight::check`] for a command in which nothing but the monitor listens on a network.
    pub fn check_alone(&self) -> Result<(), Failure> {
        self.monitor.check_alone()
    }

    /// Plans the faults.
    pub fn plan(&self, core: &mut Core) -> Result<(), Failure> {
        for fault in &self.fault {
            let refuse = |error| Failure::asked(anyhow!("--fault {}: {error}", fault.text));
            core.plan(fault.clone()).map_err(refuse)?;
        }
        Ok(())
    }

    /// Takes commands on the control socket.
    pub fn listen(&self, server: &mut Server) -> Result<(), Failure> {
        let Some(path) = &self.control else { return Ok(()) };
        listen_control(server, Bound::new(&Address::Unix(path.clone())).map_err(Failure::asked)?)
    }

    /// Takes the address of the control socket, if one is asked for.
    fn take_control(&self) -> Result<Option<Bound>, Failure> {
        let bind = |path: &PathBuf| Bound::new(&Address::Unix(path.clone())).map_err(Failure::asked);
        self.control.as_ref().map(bind).transpose()
    }

    /// Starts the monitor, if one is asked for; returns its board, and where it listens.
    fn start_monitor(&self) -> Result<Option<(Board, SocketAddr)>, Failure> {
        let mut listens = None;
        let board = self.monitor.start(|address| listens = Some(address))?;
        Ok(board.zip(listens))
    }

    /// Shows the figures.
    pub fn show(&self, server: &mut Server, log: impl Fn(&Event)) -> Result<(), Failure> {
        let board = self.monitor.start(|address| {
            let uri = Some(format!("http://{address}/"));
            log(&Event::Listening { protocol: "monitor", address: address.to_string(), uri });
        })?;
        if let Some(board) = board {
            server.show_on(&board);
        }
        Ok(())
    }
}

/// A trace that takes its name when the server stops.
struct Recording(FioTrace<OutputFile>);

impl Observer for Recording {
    fn arrived(&mut self, arrival: &Arrival, data: &[u8]) {
        self.0.arrived(arrival, data);
    }

    fn failed(&mut self) -> Option<String> {
        self.0.failed()
    }

    fn finished(&mut self) -> std::io::Result<()> {
        let written = self.0.finished();
        let file = self.0.get_mut();
        match written {
            Ok(()) => file.commit().map_err(std::io::Error::other),
            Err(error) => {
                // The partial recording is worth keeping, beside the one that is there.
                file.leave();
                Err(error)
            }
        }
    }
}

fn parse_host_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((host, file)) if !host.is_empty() && !file.is_empty() => Ok((host.into(), file.into())),
        _ => Err("allowed: the name of a host, =, a file".into()),
    }
}

pub(super) fn parse_connections(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
    count.ok_or_else(|| format!("allowed: a whole number from 1 to {CONNECTIONS_MAX}"))
}

fn parse_group(text: &str) -> Result<DhGroup, String> {
    let name = |group: &DhGroup| format!("{group:?}").to_lowercase();
    let found = DhGroup::ALL.iter().copied().find(|group| name(group) == text);
    found.ok_or_else(|| {
        format!("allowed: {}", DhGroup::ALL.iter().map(name).collect::<Vec<String>>().join(", "))
    })
}

/// Beyond a thousand times faster the pacer's turns, some microseconds each, are all that is left of the drive's latency, so that `instant`
/// says the same; a million times slower, a read takes a minute.
const DILATIONS: RangeInclusive<f64> = 1e-3..=1e6;

pub(super) fn parse_time(text: &str) -> Result<Time, String> {
    let dilation = |text: &str| text.parse().ok().filter(|f: &f64| DILATIONS.contains(f));
    match text {
        "paced" => Ok(Time::Paced { dilation: 1.0 }),
        "instant" => Ok(Time::Instant),
        _ => match text.strip_prefix('x').and_then(dilation) {
            Some(dilation) => Ok(Time::Paced { dilation }),
            None => Err(format!(
                "allowed: paced, instant, xF with a number F from {} to {}",
                DILATIONS.start(),
                DILATIONS.end()
            )),
        },
    }
}

/// One second: with a larger lead a client would receive answers to writes long before they end.
const LEAD_MAX_US: u64 = 1_000_000;

fn parse_lead(text: &str) -> Result<Lead, String> {
    match text {
        "measured" => Ok(Lead::Measured { first: LEAD }),
        _ => match text.parse() {
            Ok(us) if us <= LEAD_MAX_US => Ok(Lead::Fixed(Duration::from_micros(us))),
            _ => Err(format!("allowed: a number of microseconds from 0 to {LEAD_MAX_US}, measured")),
        },
    }
}

impl Serving {
    /// Refuses options that do nothing here or expose what they should not; from then on the command is a server. Takes what it needs beside
    /// its drives.
    pub fn reserve(&self, known: &Beforehand<'_>, global: &Global) -> Result<Reserved, Failure> {
        let example = known.example;
        if self.nbd.is_empty() && self.nvme_tcp.is_empty() && !self.ublk {
            return Err(Failure::asked(anyhow!(
                "no way to reach the drive; allowed: --nvme-tcp ADDR, --nbd ADDR, --ublk; for one: {example}"
            )));
        }
        self.check_addresses()?;
        self.check_ignored(known.proves)?;
        self.check_time(known.is_real)?;
        self.log_format.never_wait()?;
        let secrets = self.secrets()?;
        let tls = self.tls.as_ref().map(|directory| TlsConfig::load(directory, self.tls_verify_peer));
        let tls = tls.transpose().map_err(Failure::asked)?;
        let offer = self.tls_offer()?;
        if let Some(path) = self.nvme_tcp.iter().find(|address| !matches!(address, Address::Tcp(_))) {
            return Err(Failure::asked(anyhow!("--nvme-tcp {path}: allowed: HOST:PORT, PORT")));
        }
        if self.ublk {
            BlockDevice::check().map_err(no_ublk)?;
        }
        let recording = self.recording(known.files, global)?;
        let bind = |addresses: &[Address]| -> Result<Vec<Bound>, Failure> {
            addresses.iter().map(|address| Bound::new(address).map_err(Failure::asked)).collect()
        };
        let (nbd, nvme_tcp) = (bind(&self.nbd)?, bind(&self.nvme_tcp)?);
        let (control, board) = (self.oversight.take_control()?, self.oversight.start_monitor()?);
        Ok(Reserved { nbd, nvme_tcp, control, tls, offer, secrets, recording, board })
    }

    /// Plans the faults on a stand-in for a drive of this name, to learn whether they are refused; its file stays unchanged.
    pub fn rehearse(&self, name: &str, stand_in: FileDrive) -> Result<(), Failure> {
        let refuse = |why: String| Failure::asked(anyhow!("{name}: {why}"));
        let drive = Served::on_file(stand_in, &[]).map_err(refuse)?;
        let mut core =
            Core::new(vec![(name.into(), drive)], Time::Instant).map_err(|why| refuse(why.to_string()))?;
        self.oversight.plan(&mut core)
    }

    /// Begins the recording, if one is asked for, onto none of these files.
    fn recording(&self, files: &[&Path], global: &Global) -> Result<Option<Recording>, Failure> {
        let Some(path) = &self.record else { return Ok(None) };
        if files.iter().any(|file| is_one_file(file, path)) {
            let why = "it holds a drive, or this command reads it as one; allowed: another file";
            return Err(Failure::asked(anyhow!("--record {}: {why}", path.display())));
        }
        if let Some((option, other)) =
            self.own_places().into_iter().find(|(_, other)| is_one_place(other, path))
        {
            let (path, other) = (path.display(), other.display());
            return Err(Failure::asked(anyhow!(
                "--record {path}: {option} {other} is this command's, too; allowed: another file"
            )));
        }
        let is_ours = |file: &File| begins_with(file, &[b"fio version "]);
        refuse_foreign(path, global.force, is_ours)?;
        // The file shows the requests of hosts, so only its owner may read it.
        let mut recording = Recording(FioTrace::new(OutputFile::create_private(path)?));
        match recording.failed() {
            Some(why) => Err(Failure::asked(anyhow!("--record {}: {why}", path.display()))),
            None => Ok(Some(recording)),
        }
    }

    /// Files that the command reads beside its drives, and sockets that it makes, each with its option.
    fn own_places(&self) -> Vec<(&'static str, PathBuf)> {
        let secrets = self.dhchap.iter().map(|(_, file)| ("--dhchap", file.clone()));
        let keys = self.tls_psk.iter().map(|(_, file)| ("--tls-psk", file.clone()));
        let certificates = self
            .tls
            .iter()
            .flat_map(|directory| TlsConfig::FILES.map(|name| ("--tls", directory.join(name))));
        let sockets = self.nbd.iter().filter_map(|address| match address {
            Address::Unix(path) => Some(("--nbd", path.clone())),
            Address::Tcp(_) => None,
        });
        let control = self.oversight.control.iter().map(|path| ("--control", path.clone()));
        secrets.chain(keys).chain(certificates).chain(sockets).chain(control).collect()
    }

    /// Serves these drives, which were `asked` for so, until it is stopped.
    pub fn run(
        self,
        reserved: Reserved,
        drives: Vec<Opened>,
        asked: &[String],
        global: &Global,
    ) -> Result<(), Failure> {
        let Reserved { nbd, nvme_tcp, control, tls, offer, secrets, recording, board } = reserved;
        let names: Vec<String> = drives.iter().map(|opened| opened.name.clone()).collect();
        let unprepared = drives.iter().filter(|opened| opened.unprepared).map(|opened| opened.name.clone());
        let unprepared: Vec<String> = unprepared.collect();
        self.check_time(drives.iter().all(|opened| opened.drive.device().is_none()))?;
        let (mut registries, mut origins, mut made) = (Vec::new(), Vec::new(), Vec::new());
        let drives = drives.into_iter().map(|opened| {
            registries.push(opened.registry);
            origins.push(opened.from);
            made.push(opened.made);
            (opened.name, opened.drive)
        });
        let drives: Vec<_> = drives.collect();
        let mut core = self.core(drives, &names, asked)?;
        let subsystem = |(drive, name): (usize, &String)| SubsystemConfig {
            secrets: secrets.clone(),
            ..self.subsystem(drive, name, &core)
        };
        let subsystems = names.iter().enumerate().map(subsystem).collect();
        for (name, registry) in names.iter().zip(registries) {
            registry.map_or(Ok(()), |registry| registry.put_on(name, &mut core))?;
        }
        self.observe(recording, &mut core)?;
        self.oversight.plan(&mut core)?;
        let blocks = self.block_namespaces(&core, &names, global)?;
        let log = self.log_format.log(global);
        // They are logged once all listeners are open, so that a refusal is printed alone.
        let mut facts = served_log::drives(&core, &origins);
        facts.extend(names.iter().zip(&made).filter_map(|(name, made)| made.event(name)));
        let offered = served_log::offered(&core, &names);
        let options = Options {
            poll: Duration::from_micros(self.poll_us),
            connections_max: self.connections.unwrap_or(Options::default().connections_max),
            ..Options::default()
        };
        let mut server = Server::new(core, options, Box::new(log)).map_err(Failure::work)?;
        // A client may ask the server to stop as soon as it listens.
        self.stop_when_told(server.stopper());
        facts.extend(self.listen_nbd(&mut server, nbd, tls.as_ref(), &offered)?);
        if !nvme_tcp.is_empty() {
            facts.extend(listen_nvme(&mut server, nvme_tcp, offer.as_ref(), subsystems, &offered)?);
        }
        if self.ublk {
            self.attach(&mut server, &blocks)?;
        }
        if let Some(control) = control {
            listen_control(&mut server, control)?;
        }
        unprepared.into_iter().for_each(|drive| log(&Event::NotPreconditioned { drive }));
        if let Some((board, address)) = board {
            let uri = Some(format!("http://{address}/"));
            log(&Event::Listening { protocol: "monitor", address: address.to_string(), uri });
            server.show_on(&board);
        }
        facts.iter().chain([&Event::Ready]).for_each(log);
        made.into_iter().for_each(MadeFile::keep);
        let core = server.run().map_err(Failure::work)?;
        match core.unstopped() {
            [] => Ok(()),
            failed => Err(Failure::work(anyhow!("not stopped in order: {}", failed.join("; ")))),
        }
    }

    /// Has a signal stop the server, and the end of standard input if that is wanted.
    fn stop_when_told(&self, stopper: Stopper) {
        if self.until_input_ends {
            let stopper = stopper.clone();
            std::thread::spawn(move || {
                // What a broken input gives, and what is read, change nothing.
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                stopper.stop_because("input");
            });
        }
        interrupt::instead(move || stopper.stop_because("signal"));
    }

    /// Records what hosts ask of the drives, if that is wanted.
    fn observe(&self, recording: Option<Recording>, core: &mut Core) -> Result<(), Failure> {
        let Some(recording) = recording else { return Ok(()) };
        if self.record.as_deref().is_some_and(is_in_use) {
            let why = "a drive here is on this file; allowed: another file";
            return Err(Failure::asked(anyhow!("--record: {why}")));
        }
        core.observe(Box::new(recording));
        Ok(())
    }

    /// Takes the drives into service.
    fn core(
        &self,
        drives: Vec<(String, Served)>,
        names: &[String],
        asked: &[String],
    ) -> Result<Core, Failure> {
        let mut core = Core::new(drives, self.time()).map_err(|refusal| {
            let instead = match &refusal {
                Refusal::SameName { name } => {
                    let last = names.iter().rposition(|other| other == name);
                    let drive = last.and_then(|at| asked.get(at)).unwrap_or(name);
                    format!("; for one: {drive},drive.name={name}-2")
                }
                // An image keeps what it was made with.
                Refusal::Stamps { .. } if asked.iter().any(is_image) => {
                    "; for one: an image that pellucid age makes with --set media.store=ram".into()
                }
                Refusal::Stamps { .. } => "; for one: --set media.store=ram".into(),
                Refusal::NoDrive | Refusal::Dilation { .. } => String::new(),
            };
            Failure::asked(anyhow!("{refusal}{instead}"))
        })?;
        core.lead(self.lead_us.unwrap_or(Lead::Fixed(LEAD)));
        Ok(core)
    }

    /// Returns the block namespaces of the drives. Refuses NBD where there are none, and names the drives that it does not show.
    fn block_namespaces(
        &self,
        core: &Core,
        names: &[String],
        global: &Global,
    ) -> Result<Vec<usize>, Failure> {
        let numbered = core.namespaces().iter().enumerate();
        let is_block = |n: &Namespace| matches!(n.interface, Interface::Block { .. });
        let blocks: Vec<usize> = numbered.filter(|(_, n)| is_block(n)).map(|(index, _)| index).collect();
        let by_nbd_alone = !self.nbd.is_empty() && self.nvme_tcp.is_empty();
        // By the control socket there may come other things to do with it.
        if blocks.is_empty() && by_nbd_alone && self.oversight.control.is_none() {
            let open_channel = |n: &Namespace| matches!(n.interface, Interface::OpenChannel(_));
            let instead = match core.namespaces().iter().any(open_channel) {
                true => ", or a host FTL on it: --set host.layers=[\"host-ftl\"]",
                false => "",
            };
            return Err(Failure::asked(anyhow!(
                "--nbd: {} has no block namespace, and NBD shows nothing else; allowed: --nvme-tcp ADDR{instead}",
                names.join(", ")
            )));
        }
        if by_nbd_alone {
            let has_block = |drive| blocks.iter().any(|&index| core.namespaces()[index].drive == drive);
            let unseen = names.iter().enumerate().filter(|(drive, _)| !has_block(*drive));
            let sentence =
                |name| format!("{name}: no block namespace, so NBD does not show it; --nvme-tcp ADDR would");
            output::warn(global, unseen.map(|(_, name)| sentence(name)));
        }
        Ok(blocks)
    }

    /// Accepts NBD clients on these sockets.
    fn listen_nbd(
        &self,
        server: &mut Server,
        sockets: Vec<Bound>,
        tls: Option<&TlsConfig>,
        offered: &[Offered],
    ) -> Result<Vec<Event>, Failure> {
        let mut facts = Vec::new();
        for socket in sockets {
            let tls = tls.cloned();
            let simple = self.nbd_simple_replies;
            let session = move || {
                let session =
                    tls.clone().map_or_else(NbdSession::default, |tls| NbdSession::secured(Box::new(tls)));
                if simple { session.with_simple_replies() } else { session }
            };
            let accept = Box::new(move |_, _| Ok(Box::new(session()) as _));
            let bound = server.listen_on(socket, "nbd", accept).map_err(Failure::asked)?;
            facts.extend(served_log::nbd(offered, &bound, self.tls.is_some()));
        }
        Ok(facts)
    }

    /// Refuses addresses that others reach and whose peers need not prove who they are, unless that is wanted.
    fn check_addresses(&self) -> Result<(), Failure> {
        if self.oversight.monitor.open {
            return Ok(());
        }
        let proved = self.tls.is_some() && self.tls_verify_peer;
        for address in self.nbd.iter().filter(|_| !proved) {
            exposure::check("nbd", address, "--tls and --tls-verify-peer")?;
        }
        let proved = !self.dhchap.is_empty() || !self.tls_psk.is_empty();
        for address in self.nvme_tcp.iter().filter(|_| !proved) {
            exposure::check("nvme-tcp", address, "--tls-psk or --dhchap")?;
        }
        self.oversight.check()
    }

    /// Refuses options of simulated time where no drive has one, or where nothing takes any.
    fn check_time(&self, is_real: bool) -> Result<(), Failure> {
        let given = [("--time", self.time.is_some()), ("--lead-us", self.lead_us.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given && is_real) {
            let message = "files and remote drives have no modelled time; allowed: with a modelled drive";
            return Err(Failure::asked(anyhow!("{option}: {message}")));
        }
        if self.lead_us.is_some_and(|lead| lead != Lead::Fixed(Duration::ZERO))
            && self.time() == Time::Instant
        {
            return Err(Failure::asked(anyhow!(
                "--lead-us: with --time instant no time is kept; allowed: paced, xF"
            )));
        }
        Ok(())
    }

    /// Refuses options that would do nothing here.
    fn check_ignored(&self, proves: bool) -> Result<(), Failure> {
        let by_socket = !self.nbd.is_empty() || !self.nvme_tcp.is_empty() || self.oversight.control.is_some();
        let authenticates = !self.dhchap.is_empty() || proves;
        let ignored = [
            (
                self.connections.is_some() && !by_socket,
                "--connections: allowed: with --nbd, --nvme-tcp, --control",
            ),
            (
                self.dhchap_group.is_some() && !authenticates,
                "--dhchap-group: allowed: with --dhchap, --remote-dhchap",
            ),
        ];
        match ignored.iter().find(|(ignored, _)| *ignored) {
            Some((_, sentence)) => Err(Failure::asked(anyhow!(*sentence))),
            None => Ok(()),
        }
    }

    /// Returns the mode of time.
    pub fn time(&self) -> Time {
        self.time.unwrap_or(Time::Paced { dilation: 1.0 })
    }

    /// The smallest Diffie-Hellman group that is good enough.
    pub fn group_min(&self) -> DhGroup {
        self.dhchap_group.unwrap_or(DhGroup::Null)
    }

    /// The subsystem of a drive, with all its namespaces.
    fn subsystem(&self, drive: usize, name: &str, core: &Core) -> SubsystemConfig {
        let numbered = core.namespaces().iter().enumerate();
        SubsystemConfig {
            nqn: format!("{NQN_PREFIX}{name}"),
            serial: serial_number(name, drive, core),
            model: "Pellucid open SSD".into(),
            namespaces: numbered
                .filter(|(_, n)| n.drive == drive && n.target.is_none())
                .map(|(index, _)| index)
                .collect(),
            divided: core.is_divided(drive).then_some(drive),
            hosts: (!self.host_nqn.is_empty()).then(|| self.host_nqn.clone()),
            secrets: BTreeMap::new(),
        }
    }

    /// Makes block devices of this machine's kernel.
    fn attach(&self, server: &mut Server, blocks: &[usize]) -> Result<(), Failure> {
        if blocks.is_empty() {
            return Err(Failure::asked(anyhow!("--ublk: no drive here has a block namespace")));
        }
        for &namespace in blocks {
            let device = BlockDevice::new(namespace, server.service()).map_err(no_ublk)?;
            server.attach(Box::new(device)).map_err(Failure::work)?;
        }
        Ok(())
    }

    /// The secrets of the hosts that must authenticate.
    fn secrets(&self) -> Result<BTreeMap<String, HostSecrets>, Failure> {
        let mut secrets = BTreeMap::new();
        for (host, file) in &self.dhchap {
            let loaded = secret::load(file, HostSecrets::parse)
                .map_err(|error| Failure::asked(anyhow!("--dhchap {host}: {error}")))?;
            let loaded = loaded.with_group_min(self.group_min());
            if secrets.insert(host.clone(), loaded).is_some() {
                return Err(Failure::asked(anyhow!(
                    "--dhchap {host}: given twice; allowed: once for each host"
                )));
            }
        }
        if let Some(host) =
            self.host_nqn.iter().find(|host| !secrets.is_empty() && !secrets.contains_key(*host))
        {
            let why = "has no secret; allowed: hosts that --dhchap names too";
            return Err(Failure::asked(anyhow!("--host-nqn {host}: {why}")));
        }
        Ok(secrets)
    }

    /// TLS offered to NVMe hosts; `None`: connections are not encrypted.
    fn tls_offer(&self) -> Result<Option<TlsOffer>, Failure> {
        let mut keys = TlsKeys::default();
        for (host, file) in &self.tls_psk {
            let key = secret::load(file, TlsKey::parse_file)
                .map_err(|error| Failure::asked(anyhow!("--tls-psk {host}: {error}")))?;
            if !keys.add(host, key) {
                return Err(Failure::asked(anyhow!(
                    "--tls-psk {host}: given twice; allowed: once for each host"
                )));
            }
        }
        if self.tls_psk.is_empty() {
            return Ok(None);
        }
        let others = self.host_nqn.iter().chain(self.dhchap.iter().map(|(host, _)| host));
        if let Some(host) = others.into_iter().find(|host| !keys.has(host)) {
            let why = "has no key for TLS; allowed: hosts that --tls-psk names too";
            return Err(Failure::asked(anyhow!("--host-nqn or --dhchap {host}: {why}")));
        }
        let offer = TlsOffer::new(keys).map_err(|why| Failure::asked(anyhow!("--tls-psk: {why}")))?;
        Ok(Some(offer))
    }
}

/// Accepts NVMe hosts on these sockets.
fn listen_nvme(
    server: &mut Server,
    sockets: Vec<Bound>,
    offer: Option<&TlsOffer>,
    subsystems: Vec<SubsystemConfig>,
    offered: &[Offered],
) -> Result<Vec<Event>, Failure> {
    let mut facts = Vec::new();
    let target = Target::new(subsystems).map_err(Failure::asked)?;
    for socket in sockets {
        let Address::Tcp(asked) = *socket.address() else { unreachable!("refused before it was bound") };
        let (target, offer) = (target.clone(), offer.cloned());
        let accept = Box::new(move |_, local: Option<SocketAddr>| {
            // The discovery log names it.
            let local = local.unwrap_or(asked);
            match &offer {
                None => Ok(Box::new(Connection::new(&target, local)) as _),
                Some(offer) => Ok(Box::new(SecuredConnection::new(&target, local, offer)?) as _),
            }
        });
        let bound = server.listen_on(socket, "nvme-tcp", accept).map_err(Failure::asked)?;
        facts.extend(served_log::nvme(offered, &bound));
    }
    Ok(facts)
}

/// Accepts commands on this socket.
pub(super) fn listen_control<S: Operated>(server: &mut Server<S>, control: Bound) -> Result<(), Failure>
where
    ControlSession: Session<<S as Operated>::Face>,
{
    let stopper = server.stopper();
    let accept = Box::new(move |_, _| Ok(Box::new(ControlSession::new(stopper.for_control())) as _));
    server.listen_on(control, CONTROL, accept).map(drop).map_err(Failure::asked)
}

fn no_ublk(error: UblkError) -> Failure {
    let instead =
        "--nvme-tcp PORT with `nvme connect`, or --nbd PORT with `nbd-client`, also makes a block device";
    Failure::work(anyhow!("--ublk: {error}. {instead}"))
}

/// Returns whether a program, this one perhaps, has the file locked, as a drive has its own.
fn is_in_use(path: &Path) -> bool {
    let regular = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let file = if regular { File::open(path).ok() } else { None };
    file.is_some_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}
