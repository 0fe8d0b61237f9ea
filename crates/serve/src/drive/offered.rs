//! A namespace of a drive in service, as its hosts see it: that of a layer, or one of the drive.

use super::Bottom;
use pellucid_device::{Device, WritePolicy};
use pellucid_flash::{ChunkInfo, Drive, Figure, Held, Layout, Lba, Lpn};
use pellucid_ftl::Durability;
use pellucid_host::{Layer, Tower};
use pellucid_target::operation::Keeps;

/// A namespace in service.
#[derive(Clone, Copy)]
pub(crate) struct Offered<'a> {
    tower: &'a Tower<Bottom>,
    namespace: u16,
}

impl<'a> Offered<'a> {
    /// The namespace of this number.
    pub(super) fn new(tower: &'a Tower<Bottom>, namespace: u16) -> Offered<'a> {
        Offered { tower, namespace }
    }
}

impl<'a> Offered<'a> {
    /// The layer that offers it, if one does.
    fn layer(self) -> Option<&'a dyn Layer> {
        self.tower.layer_of(self.namespace)
    }

    /// The modelled drive at the bottom.
    fn device(self) -> Option<&'a Device> {
        self.tower.bottom().device()
    }

    /// Counters of a namespace's layer, and of the solid-state cache that the layer is or stands on.
    pub fn figures(self) -> Option<Vec<Figure>> {
        let layer = self.layer();
        let mut figures = layer.map_or_else(Vec::new, |layer| layer.figures());
        let number = self
            .tower
            .stack()
            .and_then(|stack| stack.layer.cache())
            .map_or(self.namespace, |cache| cache.config().flash);
        figures
            .extend(self.device().map_or_else(Vec::new, |device| device.namespace(number).cache_figures()));
        (layer.is_some() || !figures.is_empty()).then_some(figures)
    }

    /// Reports `count` chunks of an open-channel namespace from number `first` on.
    pub fn chunk_infos(self, first: u32, count: u32) -> Vec<ChunkInfo> {
        let of_drive = |bottom: &Bottom, namespace: u16, first: u32, count: u32| -> Vec<ChunkInfo> {
            bottom.device().map_or_else(Vec::new, |device| {
                device.namespace(namespace).chunk_infos(first, count).collect()
            })
        };
        match self.tower {
            Tower::Shared(shared) => shared.chunk_infos(self.namespace, first, count, of_drive),
            Tower::Drive(Bottom::Apps(apps)) => apps.chunk_infos(self.namespace, first, count),
            tower if tower.layer_of(self.namespace).is_some() => Vec::new(),
            tower => of_drive(tower.bottom(), self.namespace, first, count),
        }
    }

    /// Unacknowledged moves of a nameless namespace: old name and new name.
    pub fn moves(self) -> Vec<(Lba, Lba)> {
        let engine = match self.layer() {
            Some(layer) => return layer.moves(),
            None => {
                self.device().and_then(|device| Some(device.namespace(self.namespace).nameless()?.engine()))
            }
        };
        engine.map_or_else(Vec::new, |engine| engine.moves().collect())
    }

    /// Returns true if this is the namespace of the uppermost layer.
    pub fn is_of_layer(self) -> bool {
        self.tower.stack().is_some_and(|stack| stack.namespace() == self.namespace)
    }

    /// Sizes of a namespace in bytes: sector, smallest efficient write (mapping unit), and best write
    /// (superpage).
    pub fn sizes(self) -> [u32; 3] {
        let Some(layout) = self.device().map(Device::layout) else {
            return [self.tower.image_bytes() as u32; 3];
        };
        let Layout { sector_bytes, unit_bytes, units_per_superpage, .. } = *layout;
        match self.layer() {
            // A layer maps and buffers sector by sector.
            Some(_) => [sector_bytes; 3],
            None => [sector_bytes, unit_bytes, unit_bytes.saturating_mul(units_per_superpage)],
        }
    }

    /// Data that a namespace keeps across a power cut.
    pub fn keeps(self) -> Keeps {
        match (self.layer(), self.device()) {
            (Some(layer), _) if layer.keeps_flushed() => Keeps::Flushed,
            (None, None) if self.tower.bottom().file().is_some() => Keeps::Flushed,
            (Some(_), _) | (None, None) => Keeps::Nothing,
            // A raw target keeps what its chunks keep.
            (None, Some(device)) if self.namespace >= device.namespaces() => Keeps::Acknowledged,
            (None, Some(device)) => of_device(device, self.namespace),
        }
    }

    /// Returns true if a namespace no longer takes writes.
    pub fn is_read_only(self) -> bool {
        match self.layer() {
            Some(layer) => layer.is_read_only(),
            None => match self.tower.bottom() {
                Bottom::Device(device) => device.namespace(self.namespace).takes_no_writes(),
                Bottom::Apps(apps) => apps.device().namespace(self.namespace).takes_no_writes(),
                Bottom::File(file) => file.is_read_only(),
                Bottom::Remote(_) | Bottom::Cached(_) => false,
            },
        }
    }

    /// Reports whether a mapping unit of a namespace holds data, as far as known. Layers and files map single
    /// sectors.
    pub fn held(self, unit: u64) -> Held {
        let nothing = Held { holds: false, until: u64::MAX, looks: 1 };
        match (self.layer(), self.tower.bottom()) {
            (Some(layer), _) => layer.holding(Lba(unit)),
            (None, Bottom::File(file)) => file.held(Lba(unit)),
            (None, bottom) => match (bottom.device(), u32::try_from(unit)) {
                (Some(device), Ok(unit)) => device.namespace(self.namespace).held(Lpn(unit)),
                (Some(_), Err(_)) => nothing,
                (None, _) => Held { holds: true, ..nothing },
            },
        }
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
        Some(pellucid_device::Namespace::Nameless { .. }) => Keeps::Flushed,
        // Writes of chunks bypass the buffer.
        Some(pellucid_device::Namespace::OpenChannel { .. }) => Keeps::Acknowledged,
        Some(pellucid_device::Namespace::Block { .. } | pellucid_device::Namespace::Cache { .. }) | None => {
            match config.ftl.durability {
                Durability::Volatile => Keeps::Nothing,
                Durability::Journal { .. } => cached,
            }
        }
    }
}
