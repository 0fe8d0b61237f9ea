//! What is served under one name: a drive, or a layer of the host on one, which may be on another machine ([`Layered`]).
//!
//! ```text
//!   Device                          simulated time
//!   layers ─► Device                simulated time
//!   targets ─► Device               simulated time; the drive's own namespaces are served beside them
//!   layer ─► Remote ─► NVMe/TCP     wall time, whatever the server's: the drive at the other end keeps its own
//! ```
//! Invariant: of a layer everything that is told is the layer's: the namespaces of the drive below are not served beside it.

mod layered;

use crate::remote::Remote;
use crate::session::Keeps;
use pellucid_device::{Device, DeviceError, WritePolicy};
use pellucid_flash::{
    ChunkInfo, ChunkNotice, Command, Completion, Drive, Interface, Layout, Lba, Lpn, SimTime,
};
use pellucid_ftl::{Durability, MountReport};
use pellucid_host::{Layer, LayerFigures, MountCost, Shared};
use pellucid_media::{Fault, StoreError};

pub use layered::Layered;

/// A drive in service.
#[expect(
    clippy::large_enum_variant,
    reason = "there are a few, and the plain drive is reached without a detour"
)]
pub enum Served {
    /// A drive.
    Device(Device),
    /// A layer on a drive.
    Layered(Box<Layered>),
    /// A drive with targets on ranges of its parallel units.
    Shared(Box<Shared<Device>>),
}

impl From<Device> for Served {
    fn from(device: Device) -> Served {
        Served::Device(device)
    }
}

impl From<Layered> for Served {
    fn from(layered: Layered) -> Served {
        Served::Layered(Box::new(layered))
    }
}

impl Served {
    /// The drive of this process at the bottom; `None` where it is remote.
    pub fn device(&self) -> Option<&Device> {
        match self {
            Served::Device(device) => Some(device),
            Served::Layered(layered) => layered.device(),
            Served::Shared(shared) => Some(&shared.drive),
        }
    }

    /// The same, to be set up.
    pub(crate) fn device_mut(&mut self) -> Option<&mut Device> {
        match self {
            Served::Device(device) => Some(device),
            Served::Layered(layered) => layered.device_mut(),
            Served::Shared(shared) => Some(&mut shared.drive),
        }
    }

    /// The drive itself, unless it is remote.
    pub(crate) fn into_device(self) -> Option<Device> {
        match self {
            Served::Device(device) => Some(device),
            Served::Layered(layered) => layered.into_device(),
            Served::Shared(shared) => Some(shared.drive),
        }
    }

    /// The drive with its targets, of which there may be none yet.
    ///
    /// # Errors
    /// Itself again, and why it cannot have targets.
    #[expect(clippy::result_large_err, reason = "the drive is handed back")]
    pub(crate) fn into_shared(self) -> Result<Served, (Served, &'static str)> {
        match self {
            Served::Device(device) => {
                let (now, outstanding) =
                    (device.now(), device.outstanding_commands() as usize + device.completed());
                match Shared::new(device, now, outstanding) {
                    Ok(shared) => Ok(Served::Shared(Box::new(shared))),
                    Err(device) => Err((
                        Served::Device(device),
                        "no open-channel namespace; targets need parallel units ([[drive.namespace]] interface = \"open-channel\")",
                    )),
                }
            }
            Served::Layered(_) => Err((self, "a layer of the host has all of its parallel units already")),
            Served::Shared(_) => Ok(self),
        }
    }

    /// Its targets; `None`: it never had any.
    pub(crate) fn shared(&self) -> Option<&Shared<Device>> {
        match self {
            Served::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn shared_mut(&mut self) -> Option<&mut Shared<Device>> {
        match self {
            Served::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// What the layer of a namespace has counted, and how its drive is connected if that is remote.
    pub(crate) fn layer_figures(
        &self,
        namespace: u16,
    ) -> Option<(LayerFigures, Option<(&'static str, u64)>)> {
        match self {
            Served::Device(_) => None,
            Served::Layered(layered) => {
                let remote = layered.remote().map(|remote| (remote.state(), remote.reconnections()));
                Some((layered.layer().figures()?, remote))
            }
            Served::Shared(shared) => Some((shared.layer(namespace)?.figures()?, None)),
        }
    }

    /// What a report says of `count` chunks of an open-channel namespace from number `first` on.
    pub(crate) fn chunk_infos(&self, namespace: u16, first: u32, count: u32) -> Vec<ChunkInfo> {
        let of_drive = |device: &Device, namespace, first, count| -> Vec<ChunkInfo> {
            device.chunk_infos(namespace, first, count).collect()
        };
        match self {
            Served::Device(device) => of_drive(device, namespace, first, count),
            Served::Layered(_) => Vec::new(),
            Served::Shared(shared) => shared.chunk_infos(namespace, first, count, of_drive),
        }
    }

    /// Whether the drive is of another process.
    #[inline]
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Served::Layered(layered) if layered.remote().is_some())
    }

    pub(crate) fn remote(&self) -> Option<&Remote> {
        match self {
            Served::Layered(layered) => layered.remote(),
            Served::Device(_) | Served::Shared(_) => None,
        }
    }

    /// The layer on a remote drive.
    #[inline]
    pub(crate) fn on_remote(&mut self) -> Option<&mut Layered> {
        match self {
            Served::Layered(layered) => layered.remote().is_some().then_some(layered),
            Served::Device(_) | Served::Shared(_) => None,
        }
    }

    /// The layer on a drive.
    pub(crate) fn layered(&mut self) -> Option<&mut Layered> {
        match self {
            Served::Device(_) | Served::Shared(_) => None,
            Served::Layered(layered) => Some(layered),
        }
    }

    /// What the last start of the layer cost; `None`: there is none.
    pub(crate) fn mount_cost(&self) -> Option<MountCost> {
        match self {
            Served::Device(_) | Served::Shared(_) => None,
            Served::Layered(layered) => layered.layer().start_cost(),
        }
    }

    /// Namespaces that are served.
    pub(crate) fn interfaces(&self) -> Vec<(u16, Interface)> {
        let of = |drive: &dyn Drive| {
            (0..drive.namespaces()).filter_map(|number| Some((number, drive.interface(number)?))).collect()
        };
        match self {
            Served::Device(device) => of(device),
            Served::Layered(layered) => of(layered.as_drive()),
            Served::Shared(shared) => of(&**shared),
        }
    }

    pub(crate) fn image_bytes(&self) -> usize {
        match self {
            Served::Device(device) => device.image_bytes(),
            Served::Layered(layered) => layered.as_drive().image_bytes(),
            Served::Shared(shared) => shared.image_bytes(),
        }
    }

    /// Bytes of a sector, of what is best written at once at least (the mapping unit), and at best (a stripe).
    pub(crate) fn sizes(&self) -> [u32; 3] {
        let of = |layout: &Layout| {
            [
                layout.sector_bytes,
                layout.unit_bytes,
                layout.unit_bytes.saturating_mul(layout.units_per_stripe),
            ]
        };
        match self {
            Served::Device(device) => of(device.layout()),
            // A layer maps and buffers sector by sector.
            Served::Layered(layered) => [layered.sector_bytes(); 3],
            Served::Shared(shared) => of(shared.drive.layout()),
        }
    }

    /// What a namespace has after a power cut.
    pub(crate) fn keeps(&self, namespace: u16) -> Keeps {
        match self {
            Served::Device(device) => of_device(device, namespace),
            Served::Layered(layered) => of_layer(layered.layer()),
            Served::Shared(shared) => match shared.layer(namespace) {
                Some(layer) => of_layer(layer),
                // A raw target: as the chunks it is made of.
                None if namespace >= shared.drive.namespaces() => Keeps::Acknowledged,
                None => of_device(&shared.drive, namespace),
            },
        }
    }

    /// Whether a namespace takes no writes any more.
    pub(crate) fn is_read_only(&self, namespace: u16) -> bool {
        match self {
            Served::Device(device) => device.takes_no_writes(namespace),
            Served::Layered(layered) => layered.layer().is_read_only(),
            Served::Shared(shared) => match shared.layer(namespace) {
                Some(layer) => layer.is_read_only(),
                None => shared.drive.takes_no_writes(namespace),
            },
        }
    }

    /// Whether a mapping unit of a namespace holds data, as far as that is known. A layer maps sector by sector.
    pub(crate) fn is_mapped(&self, namespace: u16, unit: u32) -> bool {
        match self {
            Served::Device(device) => device.is_mapped(Lpn(unit)),
            Served::Layered(layered) => layered.layer().holds(Lba(unit.into())),
            Served::Shared(shared) => match shared.layer(namespace) {
                Some(layer) => layer.holds(Lba(unit.into())),
                None => shared.drive.is_mapped(Lpn(unit)),
            },
        }
    }

    #[inline]
    pub(crate) fn queues(&self) -> u16 {
        match self {
            Served::Device(device) => device.config().host.queues,
            Served::Layered(_) => 1,
            Served::Shared(shared) => shared.drive.config().host.queues,
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> SimTime {
        match self {
            Served::Device(device) => device.now(),
            Served::Layered(layered) => layered.now(),
            Served::Shared(shared) => shared.now(),
        }
    }

    /// The plain drive, which it helps to announce commands to.
    #[inline]
    pub(crate) fn to_announce(&self) -> Option<&Device> {
        match self {
            Served::Device(device) => Some(device),
            Served::Layered(_) | Served::Shared(_) => None,
        }
    }

    #[inline]
    pub(crate) fn submit(&mut self, at: SimTime, command: Command) {
        match self {
            Served::Device(device) => device.submit(at, command),
            Served::Layered(layered) => layered.submit(at, command),
            Served::Shared(shared) => shared.submit(at, command),
        }
    }

    #[inline]
    pub(crate) fn next_event(&self) -> Option<SimTime> {
        match self {
            Served::Device(device) => device.next_event(),
            Served::Layered(layered) => layered.as_drive().next_event(),
            Served::Shared(shared) => shared.next_event(),
        }
    }

    #[inline]
    pub(crate) fn advance(&mut self, now: SimTime) {
        match self {
            Served::Device(device) => device.advance(now),
            Served::Layered(layered) => layered.advance(now),
            Served::Shared(shared) => shared.advance(now),
        }
    }

    #[inline]
    pub(crate) fn outstanding_commands(&self) -> usize {
        match self {
            Served::Device(device) => device.outstanding_commands() as usize,
            Served::Layered(layered) => layered.outstanding(),
            // A target that starts or stops is waited for.
            Served::Shared(shared) => shared.outstanding() + usize::from(shared.is_changing()),
        }
    }

    /// Completions that wait to be taken.
    #[inline]
    pub(crate) fn completed(&self) -> usize {
        match self {
            Served::Device(device) => device.completed(),
            Served::Layered(layered) => layered.completed(),
            Served::Shared(shared) => shared.completed(),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Completion> {
        match self {
            Served::Device(device) => device.pop(),
            Served::Layered(layered) => layered.pop(),
            Served::Shared(shared) => shared.pop(),
        }
    }

    pub(crate) fn pop_notice(&mut self) -> Option<(u16, ChunkNotice)> {
        match self {
            Served::Device(device) => device.pop_notice(),
            // They are about chunks, which nobody sees above the layer.
            Served::Layered(_) => None,
            Served::Shared(shared) => shared.pop_notice(),
        }
    }

    pub(crate) fn power_cut(&mut self) -> Result<MountReport, String> {
        match self {
            Served::Device(device) => device.power_cut().map_err(|error: DeviceError| error.to_string()),
            Served::Layered(layered) => layered.power_cut(),
            Served::Shared(shared) => {
                let report = shared.drive.power_cut().map_err(|error| error.to_string())?;
                let now = shared.drive.now();
                shared.restart(now)?;
                Ok(report)
            }
        }
    }

    /// Does damage to the drive of this process at the bottom, not before `now`.
    pub(crate) fn inject(&mut self, now: SimTime, fault: Fault) -> Result<(), String> {
        let now = now.max(self.now());
        match self {
            Served::Device(device) => device.inject(now, fault).map_err(|error| error.to_string()),
            Served::Layered(layered) => layered.inject(now, fault),
            Served::Shared(shared) => {
                let result = shared.act_on_drive(now, |device| device.inject(now, fault));
                result.map_err(|error| error.to_string())
            }
        }
    }

    /// Has the layers bring to the drive what lets their next start find everything, or begin to where the drive is remote.
    pub(crate) fn begin_rest(&mut self) -> Result<(), String> {
        match self {
            Served::Device(_) => Ok(()),
            Served::Layered(layered) => layered.begin_rest(),
            Served::Shared(shared) => shared.stop(),
        }
    }

    /// Makes file stores durable.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.device_mut().map_or(Ok(()), Device::sync)
    }
}

fn of_device(device: &Device, namespace: u16) -> Keeps {
    let config = device.config();
    let cached = match config.buffer.write {
        WritePolicy::WriteBack => Keeps::Flushed,
        WritePolicy::WriteThrough => Keeps::Acknowledged,
    };
    match config.namespaces.get(usize::from(namespace)) {
        Some(pellucid_device::Namespace::Zoned { zones }) if zones.protected => Keeps::Acknowledged,
        Some(pellucid_device::Namespace::Zoned { .. }) => cached,
        // Writes of chunks do not pass the buffer.
        Some(pellucid_device::Namespace::OpenChannel { .. }) => Keeps::Acknowledged,
        Some(pellucid_device::Namespace::Block { .. }) | None => match config.ftl.durability {
            Durability::Volatile => Keeps::Nothing,
            Durability::Journal { .. } => cached,
        },
    }
}

fn of_layer(layer: &dyn Layer) -> Keeps {
    if layer.keeps_flushed() { Keeps::Flushed } else { Keeps::Nothing }
}
