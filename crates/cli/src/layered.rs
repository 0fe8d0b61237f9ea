//! Drives as `serve` puts them into service: drives as they are, drives under the layers of their descriptions, remote drives under a host
//! FTL.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::subject::Subject;
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_flash::{Drive, Interface};
use pellucid_host::{CpuCosts, HostFtlConfig, LayerConfig, Targets, ZoneChunksConfig, chunk_layers};
use pellucid_kv::{EngineKind, KvConfig, KvCosts};
use pellucid_lab::image::is_image;
use pellucid_media::StoreKind;
use pellucid_serve::event::Event;
use pellucid_serve::{Core, FileConfig, FileDrive, Refusal, Remote, RemoteConfig, Served};
use pellucid_spec::targets::{Hold, RegistryError, add_described, load, registry_path, save};
use pellucid_spec::{BackingKind, Spec, Use};
use pellucid_target::nvme::HostSecrets;
use std::path::PathBuf;
use std::str::FromStr;

/// A description without a [host] of its own: so the settings of the host FTL are those of the schema.
const DEFAULTS: &str = "cosmos-plus";
/// Qualified name of this host, unless one is given.
pub const HOST_NQN: &str = "nqn.2026-01.org.pellucid:host";

/// `HOST:PORT[/NQN]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteDrive {
    address: String,
    nqn: Option<String>,
}

impl FromStr for RemoteDrive {
    type Err = String;

    fn from_str(text: &str) -> Result<RemoteDrive, String> {
        let (address, nqn) = match text.split_once('/') {
            Some((address, nqn)) => (address, Some(nqn.to_owned())),
            None => (text, None),
        };
        let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
        let good = match address.rsplit_once(':') {
            Some((host, port)) => !host.is_empty() && is_port(port),
            None => is_port(address),
        };
        if !good || nqn.as_ref().is_some_and(|nqn| !nqn.starts_with("nqn.")) {
            return Err(
                "allowed: HOST:PORT or PORT (on 127.0.0.1), then perhaps / and the name of a subsystem, nqn."
                    .into(),
            );
        }
        let address = if address.contains(':') { address.to_owned() } else { format!("127.0.0.1:{address}") };
        Ok(RemoteDrive { address, nqn })
    }
}

/// A description or an image, opened for serving.
pub struct Opened {
    /// The drive's name.
    pub name: String,
    /// The drive, under its layers if it has any.
    pub drive: Served,
    /// Registry of its targets, if it has parallel units that are used by nothing else.
    pub registry: Option<Registry>,
    /// True if its description asks for preconditioning and its media are empty.
    pub unprepared: bool,
    /// Name from which it was opened: a preset, a file, the address of a remote drive.
    pub from: String,
    /// File that was made for it.
    pub made: MadeFile,
}

/// A file of media that was not there before: it is removed again unless the drive comes into service.
pub struct MadeFile(Option<PathBuf>);

impl MadeFile {
    /// No file.
    pub const NONE: MadeFile = MadeFile(None);

    /// The file that a drive with this store makes; asked before the drive is made.
    pub fn of(store: &StoreKind) -> MadeFile {
        match store {
            StoreKind::File(path) if !path.exists() => MadeFile(Some(path.clone())),
            _ => MadeFile(None),
        }
    }

    /// The event of a file that was made.
    pub fn event(&self, drive: &str) -> Option<Event> {
        let file = self.0.as_ref()?.display().to_string();
        Some(Event::MediaMade { drive: drive.into(), file })
    }

    /// The drive is in service.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // A file that cannot be removed stays an empty drive.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Targets of a drive that is served.
pub struct Registry {
    path: PathBuf,
    /// Hold on the file; if another program has it, targets are still served, but changes are not kept.
    held: Result<Hold, RegistryError>,
    /// The drive's data are kept, in a file; otherwise what becomes of its targets ends with them.
    keeps: bool,
    targets: Targets,
    settings: HostFtlConfig,
}

impl Registry {
    /// The registry beside a drive that is called so, and the targets of its description; `None`: it has no parallel units.
    fn open(drive: &str, device: &Device, spec: &Spec) -> Result<Option<Registry>, Failure> {
        let shape = |namespace| match Drive::interface(device, namespace) {
            Some(Interface::OpenChannel(geometry)) => Some(geometry),
            _ => None,
        };
        let Some(geometry) = (0..device.namespaces()).find_map(shape) else { return Ok(None) };
        let path = registry_path(drive);
        let held = Hold::take(&path);
        let mut targets = load(&path, &geometry)?;
        add_described(&mut targets, &spec.targets, &geometry, &path)?;
        let settings = HostFtlConfig { cpu: CpuCosts::FREE, ..spec.host_ftl.clone() };
        let keeps = matches!(spec.drive.media.store, StoreKind::File(_));
        Ok(Some(Registry { path, held, keeps, targets, settings }))
    }

    /// Makes the targets, and has the server keep what becomes of them.
    pub fn put_on(self, name: &str, core: &mut Core) -> Result<(), Failure> {
        let Registry { path, held, keeps, targets, settings } = self;
        let keep = move |targets: &Targets| {
            if !keeps {
                return Ok(());
            }
            let kept = held.as_ref().map_or_else(|error| Err(error.to_string()), |_| Ok(()));
            kept.and_then(|()| save(&path, targets).map_err(|error| error.to_string()))
        };
        core.keep_targets(name, settings, &targets, Box::new(keep))
            .map_err(|why| Failure::asked(anyhow!("{name}: {why}")))
    }
}

/// A plain file or block device.
fn open_file(called: &str) -> Result<Opened, Failure> {
    let config: FileConfig = called.parse().map_err(Failure::asked)?;
    let drive = FileDrive::open(&config).map_err(Failure::asked)?.into();
    let (name, from) = (config.drive_name(), format!("file:{}", config.path.display()));
    Ok(Opened { name, drive, registry: None, unprepared: false, from, made: MadeFile::NONE })
}

/// The drive of a description, an image or a file with its name, under its layers if it has any.
pub fn open(called: &str, global: &Global) -> Result<Opened, Failure> {
    if FileConfig::is_meant(called) {
        return open_file(called);
    }
    on_subject(called, Subject::open_to_serve(called, Use::Serve, global)?, global)
}

/// The drive of a description or an image, divided among applications of the flash library.
pub fn open_divided(called: &str, global: &Global) -> Result<Opened, Failure> {
    let refuse = |why: String| Failure::asked(anyhow!("{called}: --apps: {why}"));
    if FileConfig::is_meant(called) {
        return Err(refuse("a file has no parallel units; allowed: an open-channel drive".into()));
    }
    let subject = Subject::open_to_serve(called, Use::Serve, global)?;
    let spec = &subject.spec;
    if !spec.host.is_empty() || !spec.targets.is_empty() {
        return Err(refuse("allowed: a drive without layers (host.layers = []) and targets".into()));
    }
    let (name, from) = (spec.drive_name.clone(), called.to_owned());
    let made = MadeFile::of(&spec.drive.media.store);
    let drive = Served::with_apps(subject.device()?).map_err(refuse)?;
    Ok(Opened { name, drive, registry: None, unprepared: false, from, made })
}

/// The command that puts this cache in front of a real backing store: the drive without the layers of its description, and with media that
/// outlive the process.
fn cache_command(called: &str, spec: &Spec, global: &Global) -> String {
    let ours = ["host.layers", "backing.kind", "media.store", "media.path"];
    let is_given = |set: &&String| !ours.iter().any(|key| is_of(set, key));
    let mut sets: Vec<String> = global.sets.iter().filter(is_given).cloned().collect();
    sets.extend(["host.layers=[]".into(), "backing.kind=none".into()]);
    sets.push(match &spec.drive.media.store {
        StoreKind::File(path) => format!("media.store=file:{}", path.display()),
        _ => "media.store=file:flash.media".into(),
    });
    let sets: String = sets.iter().map(|set| format!(" --set {}", in_shell(set))).collect();
    format!("pellucid cache --drive {}{sets} --backing FILE --nbd 10809", in_shell(called))
}

/// Returns whether an override is of this key, with or without `drive.`.
fn is_of(set: &str, key: &str) -> bool {
    let named = set.split_once('=').map_or(set, |(named, _)| named.trim());
    named.strip_prefix("drive.").unwrap_or(named) == key
}

/// A word as a shell takes it.
fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The drive of what was `called` so.
fn on_subject(called: &str, subject: Subject, global: &Global) -> Result<Opened, Failure> {
    let name = subject.spec.drive_name.clone();
    let spec = subject.spec.clone();
    if spec.backing.kind == BackingKind::Disk && spec.is_cached() {
        return Err(Failure::asked(anyhow!(
            "{called}: backing.kind = \"disk\": a modelled disk works in simulated time alone; allowed: pellucid run, or a real backing store: {}",
            cache_command(called, &spec, global)
        )));
    }
    let fills = subject.spec.precondition.fill.share() > 0.0;
    let from = called.to_owned();
    let made = MadeFile::of(&subject.spec.drive.media.store);
    let device = subject.device()?;
    let unprepared = fills && device.last_mount().is_none();
    let registry = match spec.host.is_empty() {
        true => Registry::open(called, &device, &spec)?,
        false => None,
    };
    // Where the host's processor is real, what it costs is not modelled.
    let layers: Vec<LayerConfig> = spec.host.iter().map(LayerConfig::in_real_time).collect();
    let drive =
        Served::with_layers(device, &layers).map_err(|why| Failure::asked(anyhow!("{name}: {why}")))?;
    Ok(Opened { name, drive, registry, unprepared, from, made })
}

/// Prefix that marks the name of a remote drive where a description is also allowed.
const NVME: &str = "nvme+tcp://";

/// Returns whether a remote drive is called so.
pub fn is_remote(called: &str) -> bool {
    called.starts_with(NVME)
}

/// Refuses keys for a drive that no description says anything of, but those that are `allowed`.
pub fn refuse_sets(
    called: &str,
    global: &Global,
    is_allowed: impl Fn(&str) -> bool,
    allowed: &str,
) -> Result<(), Failure> {
    match global.sets.iter().find(|set| !is_allowed(set)) {
        None => Ok(()),
        Some(other) => {
            let message = "without effect on a drive that is not modelled here";
            Err(Failure::asked(anyhow!("{called}: --set {other}: {message}; allowed: {allowed}")))
        }
    }
}

/// Returns the layers that make chunks of a drive, if the engine needs chunks.
fn layers_for(engine: EngineKind, drive: &impl Drive) -> Result<Vec<LayerConfig>, String> {
    match engine {
        EngineKind::Original => Ok(Vec::new()),
        _ => chunk_layers(drive, false).map_err(String::from),
    }
}

/// A file or a remote drive for a cache, with what makes chunks of it where the engine needs some.
fn open_unmodelled_cache(called: &str, global: &Global) -> Result<(Opened, KvConfig), Failure> {
    refuse_sets(called, global, |set| set.starts_with("kv."), "keys of kv")?;
    let config = KvConfig { costs: KvCosts::FREE, ..pellucid_spec::load(DEFAULTS, &global.sets)?.kv };
    let refuse = |why: String| Failure::of_sentence(format!("{called}: {why}"));
    let (name, drive, from) = match called.strip_prefix(NVME) {
        Some(rest) => {
            let wanted: RemoteDrive = rest.trim_end_matches('/').parse().map_err(|why: String| {
                Failure::asked(anyhow!(
                    "{called}: {}",
                    why.replacen("allowed: ", "allowed: nvme+tcp:// and ", 1)
                ))
            })?;
            let remote = RemoteConfig {
                address: wanted.address.clone(),
                nqn: wanted.nqn,
                nsid: None,
                host_nqn: HOST_NQN.into(),
                digests: false,
                queues: 1,
                secrets: None,
            };
            let remote = Remote::connect(remote).map_err(Failure::work)?;
            let name = remote.nqn().rsplit(':').next().unwrap_or("remote").to_owned();
            let layers = layers_for(config.engine, &remote).map_err(refuse)?;
            (name, Served::on_remote(remote, &layers).map_err(refuse)?, wanted.address)
        }
        None => {
            let file: FileConfig = called.parse().map_err(Failure::asked)?;
            let drive = FileDrive::open(&file).map_err(Failure::asked)?;
            let layers = layers_for(config.engine, &drive).map_err(refuse)?;
            let drive = Served::on_file(drive, &layers).map_err(refuse)?;
            (file.drive_name(), drive, format!("file:{}", file.path.display()))
        }
    };
    Ok((Opened { name, drive, registry: None, unprepared: false, from, made: MadeFile::NONE }, config))
}

/// The drive of a description with the settings of its cache, or a file or a remote drive with those of `--set`. The data have to be kept
/// somewhere.
pub fn open_cache(called: &str, global: &Global) -> Result<(Opened, KvConfig), Failure> {
    if FileConfig::is_meant(called) || called.starts_with(NVME) {
        return open_unmodelled_cache(called, global);
    }
    let subject = Subject::open_to_serve(called, Use::ServeKv, global)?;
    let spec = &subject.spec;
    if matches!(spec.drive.media.store, StoreKind::None | StoreKind::Unstamped) {
        let refusal = Refusal::Stamps { name: spec.drive_name.clone() };
        let instead = if is_image(called) {
            "an image that pellucid age makes with --set media.store=ram"
        } else {
            "--set media.store=ram"
        };
        return Err(Failure::asked(anyhow!("{refusal}; for one: {instead}")));
    }
    if spec.kv.warm_restart && matches!(spec.drive.media.store, StoreKind::Ram) {
        let sentence =
            "kv.warm_restart has no effect: the drive's media are in memory, and end with the server";
        output::warn(global, [sentence.to_string()]);
    }
    // The host's processor is real.
    let config = KvConfig { costs: KvCosts::FREE, ..spec.kv.clone() };
    Ok((on_subject(called, subject, global)?, config))
}

/// Identity and wishes of this host towards a remote drive.
pub struct RemoteHost<'a> {
    /// Its qualified name.
    pub nqn: &'a str,
    /// True to ask for digests.
    pub digests: bool,
    /// Number of I/O queues to ask for.
    pub queues: u16,
    /// Secrets to authenticate with.
    pub secrets: Option<HostSecrets>,
}

/// A remote drive under a host FTL, with the name under which it is served; `description`: whose `[host]` counts.
pub fn open_remote(
    drive: &RemoteDrive,
    host: RemoteHost<'_>,
    description: Option<&str>,
    global: &Global,
) -> Result<Opened, Failure> {
    let counts = |set: &str| {
        let key = set.strip_prefix("drive.").unwrap_or(set);
        let names = description.is_some() && key.starts_with("name=");
        set.starts_with("host.ftl.") || set.starts_with("host.ftl=") || key.starts_with("ftl.seed=") || names
    };
    refuse_sets(&drive.address, global, counts, "keys of host.ftl, ftl.seed, and with a DRIVE drive.name")?;
    let (config, given) = match description {
        Some(name) => {
            let spec = Subject::open_to_serve(name, Use::Serve, global)?.spec;
            (spec.host_ftl, Some(spec.drive_name))
        }
        None => (pellucid_spec::load(DEFAULTS, &global.sets)?.host_ftl, None),
    };
    let remote = RemoteConfig {
        address: drive.address.clone(),
        nqn: drive.nqn.clone(),
        nsid: (config.namespace > 0).then(|| u32::from(config.namespace) + 1),
        host_nqn: host.nqn.to_owned(),
        digests: host.digests,
        queues: host.queues,
        secrets: host.secrets,
    };
    let from = drive.address.clone();
    let remote = Remote::connect(remote).map_err(Failure::work)?;
    let name = given.unwrap_or_else(|| {
        let last = remote.nqn().rsplit(':').next().unwrap_or("remote");
        format!("{last}-host")
    });
    let refuse = |why: String| Failure::of_sentence(format!("remote drive {from}: {why}"));
    let ftl = HostFtlConfig { namespace: 0, ..config };
    // Zones are made to chunks first, as "zone-log" does.
    let layers = match Drive::interface(&remote, 0) {
        Some(Interface::Zoned(_)) => vec![
            LayerConfig::ZoneChunks(ZoneChunksConfig::default()),
            LayerConfig::HostFtl(HostFtlConfig { finish_chunks: true, ..ftl }),
        ],
        _ => vec![LayerConfig::HostFtl(ftl)],
    };
    let layers: Vec<LayerConfig> = layers.iter().map(LayerConfig::in_real_time).collect();
    let drive = Served::on_remote(remote, &layers).map_err(refuse)?;
    Ok(Opened { name, drive, registry: None, unprepared: false, from, made: MadeFile::NONE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_drives_have_an_address_and_perhaps_a_name() {
        let parse = |text: &str| text.parse::<RemoteDrive>();
        let named = parse("drive.example:4420/nqn.2026-01.org.pellucid:a").expect("good");
        assert_eq!(named.nqn.as_deref(), Some("nqn.2026-01.org.pellucid:a"));
        assert_eq!(parse("4420").expect("good").address, "127.0.0.1:4420");
        assert_eq!(parse("[::1]:4420").expect("good").address, "[::1]:4420");
        for bad in ["", "host", ":4420", "host:0", "host:70000", "host:1/name"] {
            assert!(parse(bad).is_err_and(|why| why.contains("HOST:PORT")), "{bad}");
        }
    }
}
