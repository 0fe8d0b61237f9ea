//! Media side of a block namespace: everything between its buffer and the scheduler.
//!
//! ```text
//!  buffer ─► translation places it ─► superpage ─► program          programs
//!                 │        ▲
//!                 ▼        └── GC: read, packed, programmed elsewhere, erased          gc, fixed_copies, erases
//!              map jobs: journal, checkpoints, translation pages          metadata
//! ```
//! It knows neither commands nor buffer entries, so GC, erases and the writing of metadata need no other object. Its paths are functions
//! of the modules named above.

use super::Purpose;
use super::discards::Discards;
use super::fixed_copies::FixedCopies;
use super::gc::Gc;
use super::superpages::Superpages;
use crate::back::scheduler::Owner;
use crate::shared::Shared;
use crate::timeline::Stored;
use pellucid_flash::{DieId, Layout, Lpn, Ppa};
use pellucid_ftl::{Damage, FtlConfig, Load, Located, Translation};
use pellucid_media::Media;

/// Translation with the objects that carry out what it plans.
#[derive(Clone, Debug)]
pub(super) struct MediaSide {
    number: u16,
    ftl: FtlConfig,
    /// Mapping units that hosts may use.
    user_units: u32,
    pub translation: Translation,
    /// Units of the programs that were planned, by all who plan: writes, GC, metadata.
    pub superpages: Superpages,
    pub gc: Gc,
    pub fixed: FixedCopies,
    pub discards: Discards,
    /// It has run out of good blocks.
    read_only: bool,
    /// The drive has been idle for so long that GC may fold the SLC cache.
    rested: bool,
    /// GC was asked to make space for metadata and has not returned.
    makes_space: bool,
}

impl MediaSide {
    /// Makes the media side of namespace `number` around its translation.
    pub fn new(
        number: u16,
        ftl: FtlConfig,
        translation: Translation,
        layout: &Layout,
        image_bytes: usize,
    ) -> MediaSide {
        let view = translation.view();
        MediaSide {
            number,
            user_units: view.user_units,
            read_only: view.worn_out,
            translation,
            superpages: Superpages::new(layout.units_per_superpage),
            gc: Gc::new(&ftl, layout, image_bytes),
            fixed: FixedCopies::default(),
            discards: Discards::default(),
            rested: false,
            makes_space: false,
            ftl,
        }
    }

    /// Returns the number of the namespace.
    #[inline]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the description of the translation.
    #[inline]
    pub fn ftl(&self) -> &FtlConfig {
        &self.ftl
    }

    /// Returns the number of mapping units that hosts may use.
    #[inline]
    pub fn user_units(&self) -> u32 {
        self.user_units
    }

    /// Returns the number of sectors that hosts may use.
    pub fn capacity_sectors(&self, layout: &Layout) -> u64 {
        u64::from(self.user_units) * u64::from(layout.sectors_per_unit)
    }

    /// Address of the newest programmed copy of a logical page.
    pub fn locate(&self, lpn: Lpn) -> Option<Ppa> {
        let inside = lpn.0 < self.user_units;
        match inside.then(|| self.translation.peek(lpn)) {
            Some(Located::At(ppa)) => Some(ppa),
            _ => None,
        }
    }

    /// Owner of a flash operation of the namespace.
    #[inline]
    pub fn owner(&self, purpose: Purpose) -> Owner {
        Owner { namespace: self.number, token: purpose.token() }
    }

    /// Returns where the data of a page wait to be programmed, for observers of the drive.
    #[inline]
    pub fn stored_at(&self, lpn: Lpn) -> Stored {
        (self.number, lpn.0.into())
    }

    /// Returns whether the namespace is read-only.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Allows writing again; later checks decide anew whether the namespace is worn out.
    pub fn begin_writing(&mut self) {
        self.read_only = false;
    }

    /// Nothing is written from now on.
    pub fn end_writing(&mut self) {
        self.read_only = true;
    }

    /// A block has failed or was retired: ends the writing if too few good blocks are left for host data.
    pub fn lose_block(&mut self) {
        self.read_only |= self.translation.view().worn_out;
    }

    /// Removes dead dies from translation, and makes the namespace read-only if too little is left.
    pub fn bury_dead_dies(&mut self, media: &Media) {
        for die in (0..media.layout().dies).map(DieId) {
            if media.failures().is_dead(die) {
                self.translation.damage(Damage::Dead(die));
            }
        }
        self.lose_block();
        self.read_only |= media.failures().spent();
    }

    /// Returns the drive's load beside GC.
    #[inline]
    pub fn load(&self, shared: &Shared) -> Load {
        match shared.fetched.active() {
            _ if self.rested => Load::Rested,
            0 => Load::Idle,
            _ => Load::Busy,
        }
    }

    /// The drive has been idle for long, or a command has come.
    #[inline]
    pub fn set_rested(&mut self, rested: bool) {
        self.rested = rested;
    }

    /// GC begins to make space for metadata; `false`: it does so already.
    #[inline]
    pub fn begin_making_space(&mut self) -> bool {
        !std::mem::replace(&mut self.makes_space, true)
    }

    /// GC has made what space for metadata it could.
    pub fn end_making_space(&mut self) {
        assert!(std::mem::take(&mut self.makes_space), "space for metadata was made twice");
    }
}
