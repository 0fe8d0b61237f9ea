//! Namespaces of open applications: view, statistics, and unfinished commands.
//!
//! Commands have a generation. [`Namespaces::drain`] starts a new one and counts the unfinished commands of earlier ones; changes to the places of
//! blocks wait for them. Invariants: the counts of the namespaces add up to the total, and no more commands drain than are in flight.

use super::config::Statistics;
use pellucid_flash::{ChunkOp, Opcode};
use pellucid_host::ChunkView;

/// The namespace of an open application.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    view: ChunkView,
    statistics: Statistics,
    /// Its unfinished commands.
    under_way: usize,
}

impl Namespace {
    /// The drive's chunks that it sees.
    #[inline]
    pub fn view(&self) -> &ChunkView {
        &self.view
    }

    /// Maps a block to another chunk.
    pub fn place(&mut self, block: u32, chunk: u32) {
        self.view.set(block, chunk);
    }

    /// Counts since it was opened.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Number of unfinished commands.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Counts refused addresses.
    pub fn count_refused(&mut self, addresses: u32) {
        self.statistics.refused += u64::from(addresses);
    }

    /// Counts a successful command.
    #[inline]
    pub fn count_done(&mut self, opcode: Opcode, sectors: u32) {
        let (commands, moved) = match opcode {
            Opcode::Read => (&mut self.statistics.reads, &mut self.statistics.read_sectors),
            Opcode::Write | Opcode::Chunk(ChunkOp::Copy) => {
                (&mut self.statistics.writes, &mut self.statistics.written_sectors)
            }
            _ => return,
        };
        *commands += 1;
        *moved += u64::from(sectors);
    }

    /// Counts the erase of a block.
    pub fn count_erase(&mut self) {
        self.statistics.erases += 1;
    }

    /// Counts a failed block; `replaced`: by a spare.
    pub fn count_failed_block(&mut self, replaced: bool) {
        let count =
            if replaced { &mut self.statistics.replaced_blocks } else { &mut self.statistics.lost_blocks };
        *count += 1;
    }

    /// Counts a swap of a LUN.
    pub fn count_swap(&mut self) {
        self.statistics.swapped_luns += 1;
    }
}

/// Namespaces of the open applications.
#[derive(Clone, Debug, Default)]
pub(super) struct Namespaces {
    open: Vec<Option<Namespace>>,
    /// Unfinished commands of applications, and the generation of new ones.
    under_way: usize,
    epoch: u32,
    /// Unfinished commands of earlier generations.
    draining: usize,
}

impl Namespaces {
    /// One more than the highest namespace number so far.
    pub fn count(&self) -> u16 {
        self.open.len() as u16
    }

    /// The namespace of this number, if it is open.
    #[inline]
    pub fn get(&self, app: u16) -> Option<&Namespace> {
        self.open.get(usize::from(app))?.as_ref()
    }

    /// The namespace of this number for changes, if it is open.
    #[inline]
    pub fn get_mut(&mut self, app: u16) -> Option<&mut Namespace> {
        self.open.get_mut(usize::from(app))?.as_mut()
    }

    /// The open namespaces.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Namespace)> {
        (0..).zip(&self.open).filter_map(|(app, namespace)| Some((app, namespace.as_ref()?)))
    }

    /// Opens a namespace that is not open.
    pub fn open(&mut self, app: u16, view: ChunkView) {
        let at = usize::from(app);
        if self.open.len() <= at {
            self.open.resize_with(at + 1, || None);
        }
        assert!(self.open[at].is_none(), "an application is opened once");
        self.open[at] = Some(Namespace { view, statistics: Statistics::default(), under_way: 0 });
    }

    /// Closes a namespace; `false`: it was not open.
    pub fn close(&mut self, app: u16) -> bool {
        let closed = self.open.get_mut(usize::from(app)).and_then(Option::take);
        assert!(closed.as_ref().is_none_or(|closed| closed.under_way == 0), "a namespace at rest");
        closed.is_some()
    }

    /// Replaces a namespace's view; `None` closes it.
    pub fn set_view(&mut self, app: u16, view: Option<ChunkView>) {
        match (self.get_mut(app), view) {
            (Some(namespace), Some(view)) => namespace.view = view,
            _ => {
                self.close(app);
            }
        }
    }

    /// Notes a new command of an application; returns its generation.
    pub fn begin(&mut self, app: u16) -> u32 {
        self.under_way += 1;
        self.get_mut(app).expect("it is open").under_way += 1;
        self.epoch
    }

    /// Notes the end of a command of this generation.
    pub fn end(&mut self, app: u16, epoch: u32) {
        if let Some(namespace) = self.get_mut(app) {
            namespace.under_way -= 1;
        }
        self.under_way -= 1;
        self.draining -= usize::from(epoch != self.epoch && self.draining > 0);
    }

    /// Number of unfinished commands of applications.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Begins a new generation of commands.
    pub fn drain(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.draining = self.under_way;
    }

    /// Reports whether all commands of earlier generations have ended.
    pub fn is_drained(&self) -> bool {
        self.draining == 0
    }

    /// Drops everything in flight after a power cut.
    pub fn forget(&mut self) {
        assert_eq!(self.under_way, 0, "commands after a power cut");
        self.draining = 0;
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        let under_way: usize = self.iter().map(|(_, namespace)| namespace.under_way).sum();
        assert_eq!(under_way, self.under_way, "commands under way");
        assert!(self.draining <= self.under_way, "commands of earlier generations");
    }
}
