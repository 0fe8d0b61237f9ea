//! `pellucid apps`: the flash monitor of the flash library, on a drive whose media are in a file, or on one in service.

use super::control::Control;
use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::subject::Subject;
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_media::StoreKind;
use pellucid_prism::{ApplicationInfo, LunWear, Monitor, MonitorConfig, MonitorError, Request};
use pellucid_spec::Use;
use pellucid_target::request::Request as Ask;
use pellucid_text::format::{binary_bytes, percent, significant};
use pellucid_text::read_share;
use pellucid_workload::{Grammar, parse_bytes};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pellucid apps allocate open-channel cache --capacity 1GiB --over-provisioning 10% --set media.store=file:flash.media
  pellucid apps list open-channel --set media.store=file:flash.media
  pellucid apps stats open.toml
  pellucid apps release open.toml cache
  pellucid apps allocate cache --capacity 1GiB --control /tmp/pellucid.control
  pellucid apps stats --control /tmp/pellucid.control

DRIVE is an open-channel drive whose media are in a file (media.store = \"file:PATH\"); programs that link the library open the same drive, and find
their flash there by name. While one of them has the file, it is refused here. allocate makes the file and the monitor's state. With --control it is a
drive that pellucid serve --apps has in service.";

/// The flash monitor of the flash library: which application has which LUNs of a drive, and how worn they are
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Apps {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Give an application flash of its own, in whole LUNs over as many channels as it can; they are erased before
    Allocate {
        /// A preset or a description in TOML, unless --control is given, and the application's name
        #[arg(value_names = ["DRIVE", "NAME"], num_args = 1..=2, action = clap::ArgAction::Set, required = true)]
        names: Vec<String>,
        /// Capacity of the application, such as 1GiB
        #[arg(long, value_name = "SIZE")]
        capacity: String,
        /// Additional flash for over-provisioning, as a share of its LUNs: 10% or 0.1
        #[arg(long, value_name = "SHARE", default_value = "0")]
        over_provisioning: String,
        #[command(flatten)]
        served: InService,
    },
    /// Show the applications and their LUNs
    List {
        /// A preset or a description in TOML
        drive: Option<String>,
        #[command(flatten)]
        served: InService,
    },
    /// Take the flash of an application away; its data are lost
    Release {
        /// A preset or a description in TOML, unless --control is given, and the application's name
        #[arg(value_names = ["DRIVE", "NAME"], num_args = 1..=2, action = clap::ArgAction::Set, required = true)]
        names: Vec<String>,
        #[command(flatten)]
        served: InService,
    },
    /// Show each LUN: whose it is, its erases, bad blocks and spares
    Stats {
        /// A preset or a description in TOML
        drive: Option<String>,
        #[command(flatten)]
        served: InService,
    },
}

/// A drive in service, in place of one whose media are in a file.
#[derive(Debug, clap::Args)]
struct InService {
    /// The control socket of pellucid serve --apps
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// The drive, when the server has several
    #[arg(long = "drive", value_name = "NAME")]
    served_drive: Option<String>,
}

/// A drive, and what is said of it.
enum Place {
    /// A description of a drive in a file.
    File(String),
    /// A drive in service: the server's control socket, and its name there.
    Served(PathBuf, Option<String>),
}

impl InService {
    /// The drive that is meant; `described`: one that is named without `--control`.
    fn place(self, described: Option<String>, global: &Global) -> Result<Place, Failure> {
        if self.control.is_some()
            && let Some(set) = global.sets.first()
        {
            return Err(Failure::asked(anyhow!(
                "--set {set}: without effect on a drive in service; allowed: without --control"
            )));
        }
        if let (None, Some(name)) = (&self.control, &self.served_drive) {
            return Err(Failure::asked(anyhow!(
                "--drive {name}: one of the drives of a server; allowed: beside --control PATH, or a DRIVE without --drive"
            )));
        }
        match (self.control, described) {
            (None, Some(drive)) => Ok(Place::File(drive)),
            (Some(control), None) => Ok(Place::Served(control, self.served_drive)),
            (None, None) => {
                Err(Failure::asked(anyhow!("no drive; allowed: a drive, or --control PATH in its place")))
            }
            (Some(_), Some(drive)) => Err(Failure::asked(anyhow!(
                "{drive}: a drive beside --control; allowed: --drive {drive} for one of several in service"
            ))),
        }
    }

    /// The drive that is meant, and the name of an application behind it.
    fn place_and_name(self, mut names: Vec<String>, global: &Global) -> Result<(Place, String), Failure> {
        let name = names.pop().unwrap_or_default();
        if names.is_empty() && self.control.is_none() {
            return Err(Failure::asked(anyhow!(
                "{name}: a drive without the name of an application, or a name without a drive; allowed: DRIVE NAME, or NAME with --control PATH"
            )));
        }
        Ok((self.place(names.pop(), global)?, name))
    }
}

impl From<MonitorError> for Failure {
    fn from(error: MonitorError) -> Failure {
        match error {
            MonitorError::NoAnswer | MonitorError::NoState => Failure::work(error),
            _ => Failure::asked(error),
        }
    }
}

impl Apps {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let text = match self.action {
            Action::Allocate { names, capacity, over_provisioning, served } => {
                let (place, name) = served.place_and_name(names, global)?;
                allocate(place, name, request(&capacity, &over_provisioning)?, global)?
            }
            Action::Release { names, served } => match served.place_and_name(names, global)? {
                (Place::Served(control, drive), name) => {
                    list_text(&asked(&control, &Ask::AppRelease { drive, name })?, global)
                }
                (Place::File(drive), name) => {
                    let mut monitor = open_begun(&drive, global)?;
                    monitor.release(&name)?;
                    list(&keep(monitor)?, global)
                }
            },
            Action::List { drive, served } => match served.place(drive, global)? {
                Place::Served(control, drive) => list_text(&asked(&control, &Ask::Apps { drive })?, global),
                Place::File(drive) => list(&keep(open_begun(&drive, global)?)?, global),
            },
            Action::Stats { drive, served } => match served.place(drive, global)? {
                Place::Served(control, drive) => stats_text(&asked(&control, &Ask::Apps { drive })?, global),
                Place::File(drive) => stats(&keep(open_begun(&drive, global)?)?, global),
            },
        };
        Ok(output::print(&text)?)
    }
}

fn allocate(place: Place, name: String, request: Request, global: &Global) -> Result<String, Failure> {
    let Request { capacity_bytes, over_provisioning } = request;
    match place {
        Place::Served(control, drive) => {
            let ask = Ask::AppAllocate { drive, name, capacity_bytes, over_provisioning };
            Ok(list_text(&asked(&control, &ask)?, global))
        }
        Place::File(drive) => {
            let (subject, path) = in_a_file(&drive, global)?;
            let is_new = !path.exists();
            let device = subject.device()?;
            let allocate = || {
                let mut monitor = on(device)?;
                monitor.allocate(&name, request)?;
                keep(monitor)
            };
            match allocate() {
                Ok(monitor) => Ok(list(&monitor, global)),
                Err(failure) => {
                    // The file of a drive that nobody has flash on would look like a drive.
                    if is_new {
                        let _ = std::fs::remove_file(&path);
                    }
                    Err(failure)
                }
            }
        }
    }
}

/// The answer of a server.
fn asked(control: &Path, ask: &Ask) -> Result<Value, Failure> {
    Control::connect_for_long(control)?.ask(ask)
}

/// The flash that an application is to get.
fn request(capacity: &str, over_provisioning: &str) -> Result<Request, Failure> {
    let bytes = parse_bytes(capacity, Grammar::Ours);
    let capacity_bytes = bytes.map_err(|error| Failure::asked(anyhow!("--capacity {capacity}: {error}")))?;
    let over_provisioning = read_share(over_provisioning).ok_or_else(|| {
        Failure::asked(anyhow!(
            "--over-provisioning {over_provisioning}: allowed: a share such as 10% or 0.1"
        ))
    })?;
    Ok(Request { capacity_bytes, over_provisioning })
}

/// The monitor of a drive whose file is there: to ask makes none.
fn open_begun(drive: &str, global: &Global) -> Result<Monitor<Device>, Failure> {
    let (subject, path) = in_a_file(drive, global)?;
    if !path.exists() {
        return Err(Failure::asked(anyhow!(
            "{}: no such file, so no application has flash there; pellucid apps allocate makes it",
            path.display()
        )));
    }
    start(subject)
}

/// The drive, and the file of its media.
fn in_a_file(drive: &str, global: &Global) -> Result<(Subject, PathBuf), Failure> {
    let subject = Subject::open_to_serve(drive, Use::Serve, global)?;
    let StoreKind::File(path) = &subject.spec.drive.media.store else {
        return Err(Failure::asked(anyhow!(
            "{drive}: drive.media.store: a drive in memory would be lost at the end; allowed: file:PATH"
        )));
    };
    let path = path.clone();
    Ok((subject, path))
}

fn start(subject: Subject) -> Result<Monitor<Device>, Failure> {
    on(subject.device()?)
}

fn on(device: Device) -> Result<Monitor<Device>, Failure> {
    let now = device.now();
    Ok(Monitor::start(device, MonitorConfig::default(), now)?)
}

/// Makes what was changed last: the file has all of it.
fn keep(mut monitor: Monitor<Device>) -> Result<Monitor<Device>, Failure> {
    monitor.drive.sync().map_err(|error| Failure::work(anyhow!("{error}")))?;
    Ok(monitor)
}

/// The LUNs of an application, as CHANNEL/LUN.
fn luns(info: &ApplicationInfo, monitor: &Monitor<Device>) -> Vec<String> {
    let per_channel = monitor.drive_geometry().luns_each_channel;
    let mut units = info.units.clone();
    units.sort_unstable();
    units.iter().map(|unit| format!("{}/{}", unit / per_channel, unit % per_channel)).collect()
}

/// The applications.
fn list(monitor: &Monitor<Device>, global: &Global) -> String {
    let (free, lun_bytes) = (monitor.free_luns(), monitor.lun_bytes());
    let one = |info: ApplicationInfo| {
        json!({
            "name": info.name,
            "capacity_bytes": info.request.capacity_bytes,
            "over_provisioning": info.request.over_provisioning,
            "channels": info.channels,
            "bytes": info.units.len() as u64 * lun_bytes,
            "luns": luns(&info, monitor),
        })
    };
    let applications: Vec<Value> = monitor.applications().map(one).collect();
    list_text(&json!({ "lun_bytes": lun_bytes, "free_luns": free, "applications": applications }), global)
}

/// The applications, as a server or [`list`] describes them.
fn list_text(all: &Value, global: &Global) -> String {
    if global.json {
        let all = json!({
            "lun_bytes": all["lun_bytes"], "free_luns": all["free_luns"], "applications": all["applications"],
        });
        return format!("{all:#}\n");
    }
    let size = |value: &Value| binary_bytes(value.as_f64().unwrap_or(0.0));
    let luns = if all["free_luns"] == 1 { "LUN" } else { "LUNs" };
    let mut text = format!("{} {luns} free, of {} each\n", all["free_luns"], size(&all["lun_bytes"]));
    for info in all["applications"].as_array().into_iter().flatten() {
        let share = percent(info["over_provisioning"].as_f64().unwrap_or(0.0));
        let wanted = format!("{} + {share}", size(&info["capacity_bytes"]));
        let luns: Vec<&str> =
            info["luns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (name, luns) = (info["name"].as_str().unwrap_or_default(), luns.join(" "));
        let _ = writeln!(text, "{name:16}  {:>9}  (asked for {wanted})  LUNs {luns}", size(&info["bytes"]));
    }
    text
}

/// The LUNs of the drive.
fn stats(monitor: &Monitor<Device>, global: &Global) -> String {
    let names: Vec<(u16, String)> = monitor.applications().map(|info| (info.id.0, info.name)).collect();
    let per_channel = monitor.drive_geometry().luns_each_channel;
    let one = |(unit, wear): (u32, LunWear)| {
        let owner = wear.owner.and_then(|id| names.iter().find(|(other, _)| *other == id.0));
        json!({
            "lun": format!("{}/{}", unit / per_channel, unit % per_channel),
            "application": owner.map(|(_, name)| name.as_str()),
            "average_erases": wear.average_erases,
            "bad_blocks": wear.bad_blocks,
            "spare_blocks": wear.spare_blocks,
        })
    };
    stats_text(&json!({ "luns": (0..).zip(monitor.wear()).map(one).collect::<Vec<_>>() }), global)
}

/// The LUNs, as a server or [`stats`] describes them.
fn stats_text(all: &Value, global: &Global) -> String {
    if global.json {
        return format!("{:#}\n", json!({ "luns": all["luns"] }));
    }
    let mut text =
        format!("{:8}  {:16}  {:>8}  {:>5}  {:>6}\n", "LUN", "application", "erases", "bad", "spare");
    for lun in all["luns"].as_array().into_iter().flatten() {
        let (name, owner) = (lun["lun"].as_str().unwrap_or_default(), lun["application"].as_str());
        let erases = significant(lun["average_erases"].as_f64().unwrap_or(0.0));
        let (owner, bad, spare) = (owner.unwrap_or("-"), &lun["bad_blocks"], &lun["spare_blocks"]);
        let (bad, spare) = (bad.to_string(), spare.to_string());
        let _ = writeln!(text, "{name:8}  {owner:16}  {erases:>8}  {bad:>5}  {spare:>6}");
    }
    text
}
