//! Layers: machines that look like a drive from above.

use crate::Machine;
use pellucid_flash::{Command, Completion, Figure, Held, Interface, Lba, Notice};

/// Machine that looks like a drive from above and uses one below.
///
/// A layer offers one namespace. Its number from above is that of the first namespace that the layer uses, so
/// a number has one meaning at every height of a stack. The layer itself sees 0 in every command.
pub trait Layer: Machine<Ask = Command, Answer = Completion> {
    /// Returns the interface that the layer offers.
    fn interface(&self) -> Interface;

    /// Returns the number of notices for the clients above.
    fn notices(&self) -> usize {
        0
    }

    /// Returns the next notice for the clients above.
    fn pop_notice(&mut self) -> Option<Notice> {
        None
    }

    /// Hints that a command for `lba` will come soon. It affects only the speed of the simulator.
    fn prefetch(&self, _lba: Lba) {}

    /// Reports whether the layer has stopped taking writes. Its data stay readable unless it has failed.
    fn is_read_only(&self) -> bool {
        self.failure().is_some()
    }

    /// Reports whether a flush makes all earlier writes and trims durable.
    fn keeps_flushed(&self) -> bool {
        true
    }

    /// Returns the number of sectors whose newest acknowledged data only the memory of this layer holds: a power cut brings back what they
    /// held before.
    fn unsaved_sectors(&self) -> u64 {
        0
    }

    /// Reports whether a sector holds data, as far as the layer knows without asking the drive; a sector
    /// without data reads as zeros. `until` is the first sector whose answer may differ.
    fn holding(&self, _lba: Lba) -> Held {
        Held { holds: true, until: u64::MAX, looks: 1 }
    }

    /// Returns the unacknowledged moves of a nameless namespace, as old and new names.
    fn moves(&self) -> Vec<(Lba, Lba)> {
        Vec::new()
    }

    /// Returns the cost of the last start, as named figures; empty if a start has nothing to restore.
    fn start_figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Returns what the user should know of the last start; `None` if it went as usual.
    fn start_notice(&self) -> Option<&'static str> {
        None
    }
}
