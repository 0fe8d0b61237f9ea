//! Layers: machines that look like a drive from above.

use crate::Machine;
use pellucid_flash::{Command, Completion, Figure, Held, Interface, Lba, Notice};

/// A machine that looks like a drive from above and uses one below.
///
/// A layer offers one namespace. From above it has the number of the first namespace that the layer uses, so that a number means the
/// same at every height of a stack. The layer itself sees 0 in every command.
pub trait Layer: Machine<Ask = Command, Answer = Completion> {
    /// What the layer offers.
    fn interface(&self) -> Interface;

    /// The next thing that it tells those above without being asked.
    fn pop_notice(&mut self) -> Option<Notice> {
        None
    }

    /// A command for `lba` will come soon. It changes nothing but the speed of the simulator.
    fn prefetch(&self, _lba: Lba) {}

    /// Whether it stores nothing any more; what it holds can be read still, unless it has failed.
    fn is_read_only(&self) -> bool {
        self.failure().is_some()
    }

    /// Whether a flush makes durable what it follows, trims too.
    fn keeps_flushed(&self) -> bool {
        true
    }

    /// Whether a sector holds data, as far as the layer knows without asking the drive; one that holds none reads as zeros. `until`: the first
    /// sector that may have another answer.
    fn holding(&self, _lba: Lba) -> Held {
        Held { holds: true, until: u64::MAX, looks: 1 }
    }

    /// Nameless: moves that are not acknowledged, old name and new one.
    fn moves(&self) -> Vec<(Lba, Lba)> {
        Vec::new()
    }

    /// What its last start cost, by name; empty: it keeps nothing that a start would have to find.
    fn start_figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}
