//! The objects of a file system. Each has private fields and keeps its own invariants; the paths (`paths/`) are functions over all of them.

use crate::catalog::Catalog;
use crate::checkpoints::Checkpoints;
use crate::cleaner::Cleaner;
use crate::commits::Commits;
use crate::finding::Findings;
use crate::layout::Layout;
use crate::library::Library;
use crate::life::Life;
use crate::log::Log;
use crate::names::Names;
use crate::orphans::Orphans;
use crate::pages::Pages;
use crate::reads::Reads;
use crate::space::Space;
use crate::superblock::superblock;
use crate::turn::Turn;
use crate::writes::Writes;

/// The objects of a file system.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub life: Life,
    pub turn: Turn,
    pub findings: Findings,
    pub catalog: Catalog,
    pub pages: Pages,
    pub orphans: Orphans,
    pub space: Space,
    pub log: Log,
    pub reads: Reads,
    pub writes: Writes,
    pub commits: Commits,
    pub checkpoints: Checkpoints,
    pub cleaner: Cleaner,
    pub library: Library,
    pub names: Names,
}

impl Core {
    /// An empty file system with this layout and identity.
    pub fn new(life: Life, layout: Layout, log: Log) -> Core {
        Core {
            life,
            turn: Turn::default(),
            findings: Findings::default(),
            catalog: Catalog::new(log.file_system()),
            pages: Pages::default(),
            orphans: Orphans::default(),
            space: Space::new(layout),
            log,
            reads: Reads::default(),
            writes: Writes::default(),
            commits: Commits::default(),
            checkpoints: Checkpoints::default(),
            cleaner: Cleaner::default(),
            library: Library::default(),
            names: Names::default(),
        }
    }

    /// Requests a checkpoint as soon as the current one is durable.
    pub fn want_checkpoint(&mut self) {
        if self.checkpoints.want() {
            self.turn.went_on();
        }
    }

    /// Accepts no changes from now on.
    pub fn degrade(&mut self) {
        self.life.degrade();
        self.writes.stop();
    }

    /// The encoded superblock.
    pub fn superblock(&self) -> Vec<u8> {
        superblock(self.space.layout(), self.log.file_system(), self.log.data_checksums())
    }
}
