//! The host DMA of slices.

use crate::events::Event;
use crate::firmware::{Chore, Task};
use crate::front::commands::Route;
use crate::front::host_interface::Direction;
use crate::shared::Shared;
use pellucid_flash::{Opcode, Stage};

impl Shared {
    /// Host DMA operations of a slice.
    pub(crate) fn dma_units(&self, slice: u32) -> u32 {
        let record = &self.slices[slice];
        if record.zero {
            0
        } else {
            (record.sectors * self.layout.sector_bytes).div_ceil(self.config.host.dma_unit_bytes)
        }
    }

    /// Returns whether the data of a slice cross the host link in no time, of the link or of the firmware.
    #[inline]
    pub(crate) fn moves_at_once(&self, slice: u32) -> bool {
        self.host.link_is_free()
            && self.firmware.does_at_once(Task::Dma(slice))
            && !self.firmware.is_priced(Chore::Depend)
    }

    /// Starts the host DMA of a slice. `true`: it has ended already.
    #[inline]
    pub(crate) fn start_dma(&mut self, slice: u32) -> bool {
        let record = &mut self.slices[slice];
        record.book(Stage::Firmware, self.now);
        if record.zero || self.host.link_is_free() {
            return true;
        }
        let (bytes, direction) = match record.route {
            Route::Page => {
                let bytes = u64::from(record.sectors) * u64::from(self.layout.sector_bytes);
                let read = self.works[record.work].command.opcode == Opcode::Read;
                (bytes, if read { Direction::Tx } else { Direction::Rx })
            }
            _ => self.direct_transfer(slice),
        };
        let end = self.host.transfer(self.now, bytes, direction);
        self.tap_dma(slice, direction);
        match &mut self.firmware.polling {
            Some(polling) => polling.dma_begins(),
            None if end == self.now => return true,
            None => {}
        }
        self.events.at(end, Event::Dma(slice));
        false
    }
}
