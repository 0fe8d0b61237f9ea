//! Figures of the drives while they are served.
//!
//! Invariant: a view is built only if the board is asked; any other turn costs one check.

use super::Core;
use crate::drive::Served;
use pellucid_device::Device;
use pellucid_flash::BlockMap;
use pellucid_monitor::{Figures, LayerSide, Serving, View};
use pellucid_target::Service;
use pellucid_target::operation::Namespace;
use std::time::Duration;

impl Core {
    /// Starts watching the drives.
    pub fn watch(&mut self) {
        let devices = self.engine.backends_mut().iter_mut().filter_map(Served::device_mut);
        devices.filter(|device| !device.is_watched()).for_each(Device::watch);
    }

    /// Present figures, in the form in which they are sent.
    pub fn figures(&self) -> Figures {
        Figures::from(&self.view())
    }

    #[cold]
    pub(super) fn view(&self) -> View {
        let drives = self.names.iter().zip(self.engine.backends());
        let drives = drives.filter_map(|(name, drive)| Some((name.clone(), drive.device()?.snapshot())));
        let maps = match &self.board {
            Some(board) if board.wants_maps() => self.maps(),
            _ => Vec::new(),
        };
        View {
            maps,
            wall: Duration::from_nanos(self.now_ns()),
            drives: drives.collect(),
            serving: Some(Serving {
                protocols: self.logbook.protocols.clone(),
                layers: self.layers(),
                keeps: self.present().map(|n| (n.name.clone(), n.keeps.name())).collect(),
                held_bytes: self.bytes_held() as u64,
                lateness_ns: self.engine.lateness_ns().clone(),
            }),
            work: None,
        }
    }

    /// The blocks of every drive of flash.
    fn maps(&self) -> Vec<(String, BlockMap)> {
        let drives = self.names.iter().zip(self.engine.backends());
        drives.filter_map(|(name, drive)| Some((name.clone(), drive.device()?.block_map()))).collect()
    }

    /// Counters of the host side of every layer.
    fn layers(&self) -> Vec<LayerSide> {
        let side = |namespace: &Namespace| {
            let drive = &self.engine.backends()[namespace.drive];
            let figures = drive.layer_figures(namespace.number)?;
            Some(LayerSide { name: namespace.name.clone(), remote: drive.connection(), figures })
        };
        self.present().filter_map(side).collect()
    }

    fn present(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.iter().filter(|namespace| !namespace.gone)
    }
}
