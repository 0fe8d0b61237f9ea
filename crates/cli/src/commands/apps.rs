//! `pellucid apps`: the flash monitor of the flash library, on a drive whose media are in a file.

use crate::args::Global;
use crate::failure::Failure;
use crate::output;
use crate::subject::Subject;
use anyhow::anyhow;
use pellucid_device::Device;
use pellucid_media::StoreKind;
use pellucid_prism::{ApplicationInfo, Monitor, MonitorConfig, MonitorError, Request};
use pellucid_spec::Use;
use pellucid_text::format::{binary_bytes, percent, significant};
use pellucid_text::read_share;
use pellucid_workload::{Grammar, parse_bytes};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pellucid apps allocate open-channel cache --capacity 1GiB --over-provisioning 10% --set media.store=file:flash.media
  pellucid apps list open-channel --set media.store=file:flash.media
  pellucid apps stats open.toml
  pellucid apps release open.toml cache

DRIVE is an open-channel drive whose media are in a file (media.store = \"file:PATH\"); programs that link the library open the same drive, and find
their flash there by name. While one of them has the file, it is refused here. allocate makes the file and the monitor's state.";

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
        /// A preset or a description in TOML
        drive: String,
        /// The application's name
        name: String,
        /// Bytes that it is to keep, such as 1GiB
        #[arg(long, value_name = "SIZE")]
        capacity: String,
        /// Flash beyond that, as a share of its LUNs: 10% or 0.1
        #[arg(long, value_name = "SHARE", default_value = "0")]
        over_provisioning: String,
    },
    /// Show the applications and their LUNs
    List {
        /// A preset or a description in TOML
        drive: String,
    },
    /// Take the flash of an application away; its data are lost
    Release {
        /// A preset or a description in TOML
        drive: String,
        /// The application's name
        name: String,
    },
    /// Show each LUN: whose it is, its erases, bad blocks and spares
    Stats {
        /// A preset or a description in TOML
        drive: String,
    },
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
            Action::Allocate { drive, name, capacity, over_provisioning } => {
                let request = request(&capacity, &over_provisioning)?;
                let mut monitor = open(&drive, global)?;
                monitor.allocate(&name, request)?;
                list(&keep(monitor)?, global)
            }
            Action::Release { drive, name } => {
                let mut monitor = open_begun(&drive, global)?;
                monitor.release(&name)?;
                list(&keep(monitor)?, global)
            }
            Action::List { drive } => list(&keep(open_begun(&drive, global)?)?, global),
            Action::Stats { drive } => stats(&keep(open_begun(&drive, global)?)?, global),
        };
        Ok(output::print(&text)?)
    }
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
            "{}: there is no such file, so no application has flash there; pellucid apps allocate makes it",
            path.display()
        )));
    }
    start(subject)
}

/// The monitor of a drive in a file, which is made if there is none.
fn open(drive: &str, global: &Global) -> Result<Monitor<Device>, Failure> {
    start(in_a_file(drive, global)?.0)
}

/// The drive, and the file of its media.
fn in_a_file(drive: &str, global: &Global) -> Result<(Subject, PathBuf), Failure> {
    let subject = Subject::open_to_serve(drive, Use::Serve, global)?;
    let StoreKind::File(path) = &subject.spec.drive.media.store else {
        return Err(Failure::asked(anyhow!(
            "{drive}: drive.media.store: of a drive in memory nothing would be left; allowed: file:PATH"
        )));
    };
    let path = path.clone();
    Ok((subject, path))
}

fn start(subject: Subject) -> Result<Monitor<Device>, Failure> {
    let device = subject.device()?;
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
    if global.json {
        let all = json!({ "lun_bytes": lun_bytes, "free_luns": free, "applications": applications });
        return format!("{all:#}\n");
    }
    let mut text = format!("{free} LUNs free, of {} each\n", binary_bytes(lun_bytes as f64));
    for info in monitor.applications() {
        let wanted = format!(
            "{} + {}",
            binary_bytes(info.request.capacity_bytes as f64),
            percent(info.request.over_provisioning)
        );
        let size = binary_bytes((info.units.len() as u64 * lun_bytes) as f64);
        let luns = luns(&info, monitor).join(" ");
        let _ = writeln!(text, "{:16}  {size:>9}  (asked for {wanted})  LUNs {luns}", info.name);
    }
    text
}

/// The LUNs of the drive.
fn stats(monitor: &Monitor<Device>, global: &Global) -> String {
    let names: Vec<(u16, String)> = monitor.applications().map(|info| (info.id.0, info.name)).collect();
    let per_channel = monitor.drive_geometry().luns_each_channel;
    let rows = (0..).zip(monitor.wear()).map(|(unit, lun): (u32, _)| {
        let owner = lun.owner.and_then(|id| names.iter().find(|(other, _)| *other == id.0));
        (format!("{}/{}", unit / per_channel, unit % per_channel), owner.map(|(_, name)| name.as_str()), lun)
    });
    if global.json {
        let one = |(lun, owner, wear): (String, Option<&str>, pellucid_prism::LunWear)| {
            json!({
                "lun": lun,
                "application": owner,
                "average_erases": wear.average_erases,
                "bad_blocks": wear.bad_blocks,
                "spare_blocks": wear.spare_blocks,
            })
        };
        return format!("{:#}\n", json!({ "luns": rows.map(one).collect::<Vec<_>>() }));
    }
    let mut text =
        format!("{:8}  {:16}  {:>8}  {:>5}  {:>6}\n", "LUN", "application", "erases", "bad", "spare");
    for (lun, owner, wear) in rows {
        let erases = significant(wear.average_erases);
        let (owner, bad, spare) = (owner.unwrap_or("-"), wear.bad_blocks, wear.spare_blocks);
        let _ = writeln!(text, "{lun:8}  {owner:16}  {erases:>8}  {bad:>5}  {spare:>6}");
    }
    text
}
