//! `pellucid serve`: drives that real hosts attach.

use super::serving::{Beforehand, Serving};
use crate::args::Global;
use crate::failure::Failure;
use crate::layered::{self, Opened, RemoteDrive, RemoteHost};
use crate::numbers::whole;
use crate::subject::{check_overridden, split_sets};
use anyhow::anyhow;
use pellucid_serve::{FileConfig, RemoteConfig, secret};
use pellucid_target::nvme::HostSecrets;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  pellucid serve cosmos-plus --set media.store=ram --nbd 10809
  pellucid serve bench/serve-ram.toml --nbd unix:/tmp/pellucid.sock --time instant --poll-us 50
  pellucid serve cosmos-plus --set media.store=ram --nvme-tcp 4420
  pellucid serve cosmos-plus --set media.store=ram --nbd 10809 --monitor 9300
  pellucid serve mine.toml --nbd 10809 --control /tmp/pellucid.control --record run.log
  pellucid serve --remote drive.example:4420 --set host.ftl.over_provisioning=0.2 --nbd 10809
  pellucid serve file:/var/lib/disk.img,size=10GiB --nvme-tcp 4420
  pellucid serve mine.toml --nbd 10809 --fault power-cut@random:seed=7 --fault program-fail=0.001@10s
  pellucid serve open-channel --set media.store=ram --set 'host.layers=[]' --apps --nvme-tcp 4420 --control /tmp/pellucid.control

Then, for one: nbdinfo nbd://127.0.0.1:10809, qemu-img info nbd://127.0.0.1:10809/cosmos-plus
or: nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-01.org.pellucid:cosmos-plus";

/// Serve drives to real hosts, in real time
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Serve {
    /// Presets, descriptions in TOML, images, or plain files and block devices (file:PATH,size=1GiB; with a size, a missing file is made;
    /// also sector=, direct=, threads=); each is served under its name, with the layers of its [host] on top. With --remote none, or one
    /// description, of which only [host.ftl] is used
    #[arg(value_name = "DRIVE", required_unless_present = "remote")]
    drives: Vec<String>,
    /// Serve a host FTL on an open-channel or zoned drive that another process serves over NVMe/TCP: HOST:PORT, and /NQN if it has
    /// several subsystems. The namespace is the first open-channel one, or host.ftl.namespace + 1
    #[arg(long, value_name = "ADDR[/NQN]")]
    remote: Option<RemoteDrive>,
    /// Divide open-channel drives among applications of the flash library, in whole and isolated LUNs, with wear levelling between them;
    /// pellucid apps --control allocates and releases LUNs. Each application has an NVMe subsystem of its own
    #[arg(long, conflicts_with_all = ["remote", "remote_host_nqn", "remote_digests", "remote_queues", "remote_dhchap", "record"])]
    apps: bool,
    /// The qualified name of this host at the remote drive
    #[arg(long, value_name = "NQN", requires = "remote", default_value = layered::HOST_NQN)]
    remote_host_nqn: String,
    /// Protect headers and data to and from the remote drive with digests (CRC-32C)
    #[arg(long, requires = "remote")]
    remote_digests: bool,
    /// I/O queues to the remote drive, each a TCP connection; the drive may grant fewer
    #[arg(long, value_name = "N", requires = "remote", default_value_t = 1,
          value_parser = whole::<u16>(1..=u64::from(RemoteConfig::QUEUES_MAX)))]
    remote_queues: u16,
    /// Authenticate this host to the remote drive (DH-HMAC-CHAP). FILE as for --dhchap: the host's secret and, on a second line, the
    /// drive's if the drive must authenticate too
    #[arg(long, value_name = "FILE", requires = "remote")]
    remote_dhchap: Option<PathBuf>,
    #[command(flatten)]
    serving: Serving,
}

impl Serve {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let drive = self.drives.first().map_or("DRIVE", String::as_str);
        let example = format!("pellucid serve {drive} --set media.store=ram --nvme-tcp 4420");
        let named = self.drives.iter().filter(|drive| FileConfig::is_meant(drive));
        let files: Result<Vec<FileConfig>, _> = named.map(|drive| drive.parse()).collect();
        let files = files.map_err(Failure::asked)?;
        let described = self.drives.iter().filter(|drive| !FileConfig::is_meant(drive));
        let described = described.map(|drive| Path::new(split_sets(drive, &[]).0));
        let known = Beforehand {
            example: &example,
            proves: self.remote_dhchap.is_some(),
            is_real: self.remote.is_some() || files.len() == self.drives.len(),
            files: &files
                .iter()
                .map(|file| file.path.as_path())
                .chain(described)
                .chain(self.remote_dhchap.as_deref())
                .collect::<Vec<_>>(),
        };
        let reserved = self.serving.reserve(&known, global)?;
        let drives = self.open_drives(global)?;
        self.serving.run(reserved, drives, &self.drives, global)
    }

    fn open_drives(&self, global: &Global) -> Result<Vec<Opened>, Failure> {
        if let [file, ..] = &self.drives[..]
            && self.drives.iter().all(|drive| FileConfig::is_meant(drive))
        {
            layered::refuse_sets(file, global, |_| false, "none")?;
        }
        let Some(remote) = &self.remote else {
            let names: Vec<&str> = self.drives.iter().map(String::as_str).collect();
            check_overridden(&names, &global.sets)?;
            let global = &Global { one_of_several: names.len() > 1, ..global.clone() };
            let open = if self.apps { layered::open_divided } else { layered::open };
            return self.drives.iter().map(|name| open(name, global)).collect();
        };
        let description = match &self.drives[..] {
            [] => None,
            [one] => Some(one.as_str()),
            _ => {
                return Err(Failure::asked(anyhow!(
                    "--remote: allowed: at most one DRIVE, of which only [host.ftl] is used"
                )));
            }
        };
        let load = |file: &PathBuf| {
            let loaded = secret::load(file, HostSecrets::parse);
            loaded.map_err(|error| Failure::asked(anyhow!("--remote-dhchap: {error}")))
        };
        let secrets = self.remote_dhchap.as_ref().map(load).transpose()?;
        let host = RemoteHost {
            nqn: &self.remote_host_nqn,
            digests: self.remote_digests,
            queues: self.remote_queues,
            secrets: secrets.map(|secrets| secrets.with_group_min(self.serving.group_min())),
        };
        Ok(vec![layered::open_remote(remote, host, description, global)?])
    }
}
