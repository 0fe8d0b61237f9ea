//! Host FTLs for the swarm: small open-channel drives, some of which hold sectors back or have failing flash, with the host's
//! translation above them. The power is cut for both.

use super::Subject;
use pellucid_device::Device;
use pellucid_flash::{Drive, Rng, SimTime};
use pellucid_ftl::Durability;
use pellucid_host::{HostFtl, LayerConfig, Stack};
use pellucid_media::Fault;

/// Translation above an open-channel drive.
pub type HostDrive = Stack<HostFtl, Device>;

impl Subject for HostDrive {
    fn device(&self) -> &Device {
        &self.drive
    }

    fn capacity_sectors(&self) -> u64 {
        self.layer.capacity_sectors()
    }

    fn now(&self) -> SimTime {
        Stack::now(self)
    }

    fn check(&self) {
        self.layer.check();
    }

    fn is_read_only(&self) -> bool {
        self.layer.is_read_only()
    }

    fn inject(&mut self, now: SimTime, fault: Fault) {
        self.advance(now);
        self.drive.inject(now, fault).unwrap_or_else(|e| panic!("{e}"));
    }

    fn power_cut(&mut self) -> Result<(), String> {
        self.drive.power_cut().map_err(|e| e.to_string())?;
        // The layer's own commands are forgotten with it.
        while self.drive.pop().is_some() {}
        let now = self.drive.now();
        self.restart(now)
    }

    fn writes_through(&self) -> bool {
        false
    }
}

/// The description of a random small drive with a host FTL.
pub fn host_text(seed: u64) -> String {
    let mut rng = Rng::stream(seed, "host drive");
    let mut pick = |values: &[&str]| values[rng.below(values.len() as u64) as usize].to_string();
    let cached = pick(&["0", "0", "1", "3"]);
    let mut text = format!(
        r#"
[drive]
name = "tiny"
[drive.media]
channels = {}
ways = {}
dies = 1
planes = {}
multi_plane = true
blocks = {}
pages = {}
page_size = 2048
spare_size = 64
sector_size = 512
unit_size = 512
cell = "slc"
store = "ram"
seed = {seed}
[drive.media.timing]
read = "20us"
program = "200us"
erase = "1ms"
channel_rate = "100MB/s"
op_spread = {}
[drive.scheduler]
order = "{}"
[[drive.namespace]]
interface = "open-channel"
cached = {cached}
[host]
layers = ["host-ftl"]
[host.cpu]
cores = {}
submit = "{}"
command = "{}"
completion = "{}"
[host.ftl]
over_provisioning = 2.0
spare_chunks = {}
victim = "{}"
"#,
        pick(&["1", "2", "3"]),
        pick(&["1", "2"]),
        pick(&["1", "2"]),
        pick(&["24", "32"]),
        pick(&["8", "12"]),
        pick(&["0.0", "0.1"]),
        pick(&["fifo", "read-first"]),
        pick(&["1", "3"]),
        pick(&["0ns", "1us"]),
        pick(&["0ns", "2us"]),
        pick(&["0ns", "700ns"]),
        pick(&["2", "4"]),
        pick(&["greedy", "cost-benefit", "fifo", "lru", "random", "d-choices:3"]),
    );
    if cached == "0" {
        text.push_str(&format!("buffer = {}\n", pick(&["0", "64", "128"])));
    }
    if pick(&["no", "yes"]) == "yes" {
        text.push_str("[drive.media.faults]\nprogram_fail = 0.001\nerase_fail = 0.001\nread_fail = 0.01\n");
    }
    text
}

/// The drive of [`host_text`], started; `None`: so small a drive has no room for such a buffer, and says so.
pub fn host_drive(seed: u64) -> Option<HostDrive> {
    let text = host_text(seed);
    let spec = pellucid_spec::from_str(&text, "swarm", &[]).unwrap_or_else(|e| panic!("{e} in {text}"));
    let [LayerConfig::HostFtl(config)] = &spec.host[..] else { unreachable!("the text has a host FTL") };
    let mut config = config.clone();
    // From a translation page after every few writes to hardly any.
    let checkpoint_every = [0, 8, 100, 100_000][Rng::stream(seed, "host checkpoints").below(4) as usize];
    config.durability = Durability::Journal { checkpoint_every };
    let device = Device::new(&spec.drive).unwrap_or_else(|e| panic!("{e} in {text}"));
    let layer = HostFtl::new(&config, Drive::interface(&device, 0), device.image_bytes()).ok()?;
    let now = device.now();
    Some(Stack::start(layer, device, now).unwrap_or_else(|e| panic!("{e} in {text}")))
}
