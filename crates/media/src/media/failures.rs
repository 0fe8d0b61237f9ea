//! Failures of the media: planned ones, injected ones, and wear beyond the endurance.
//!
//! Invariant: random numbers are drawn for every operation that can fail, whether or not it fails for another reason, so that one fault does
//! not move the others.

use crate::MediaConfig;
use crate::error::MediaError;
use crate::faults::{self, FaultPlan};
use crate::injected::{self, Fault, Injected};
use pellucid_flash::{DieId, Layout, Nanos};

/// Failures of the media.
#[derive(Clone, Debug)]
pub struct Failures {
    plan: FaultPlan,
    /// Faults injected while the drive worked; `None`: none.
    injected: Option<Box<Injected>>,
    endurance: Option<u32>,
    /// Blocks that went bad.
    retired: u64,
}

impl Failures {
    /// Creates the failures that `config` plans.
    pub(super) fn new(config: &MediaConfig, layout: &Layout) -> Failures {
        Failures {
            plan: FaultPlan::new(config, layout),
            injected: None,
            endurance: config.endurance,
            retired: 0,
        }
    }

    /// Replaces the planned faults, with random streams that start anew.
    pub(super) fn plan_anew(&mut self, config: &MediaConfig, layout: &Layout) -> Result<(), MediaError> {
        faults::check(&config.faults, layout)?;
        self.plan = FaultPlan::new(config, layout);
        Ok(())
    }

    /// Injects a fault into media that err or do not.
    pub(super) fn inject(&mut self, fault: Fault, layout: &Layout, errs: bool) -> Result<(), MediaError> {
        injected::check(fault, layout, errs)?;
        self.injected.get_or_insert_with(|| Box::new(Injected::new(layout))).add(fault);
        Ok(())
    }

    /// Returns whether a die was killed.
    #[inline]
    pub fn is_dead(&self, die: DieId) -> bool {
        self.injected.as_ref().is_some_and(|injected| injected.dead[die.0 as usize])
    }

    /// Returns whether any fault was injected.
    #[inline]
    pub(super) fn has_injected(&self) -> bool {
        self.injected.is_some()
    }

    /// Returns whether [`Fault::WearOut`] was injected.
    pub fn spent(&self) -> bool {
        self.injected.as_ref().is_some_and(|injected| injected.worn_out)
    }

    /// An array time, scaled for a die that was made slower.
    #[inline]
    pub(super) fn slowed(&self, die: u32, time: Nanos) -> Nanos {
        match &self.injected {
            None => time,
            Some(injected) => Nanos((time.0 as f64 * injected.time_factor[die as usize]).round() as u64),
        }
    }

    /// Factor of the error rate of a die.
    #[inline]
    pub(super) fn error_factor(&self, die: impl FnOnce() -> DieId) -> f64 {
        self.injected.as_ref().map_or(1.0, |injected| injected.error_factor[die().0 as usize])
    }

    /// Returns whether a planned fault makes this read fail.
    #[inline]
    pub(super) fn read_fails(&mut self, block: u32, superpage: u32, attempt: u32) -> bool {
        self.plan.read_fails(block, superpage, attempt)
    }

    /// Returns whether a fault makes this program fail.
    #[inline]
    pub(super) fn program_fails(
        &mut self,
        die: impl FnOnce() -> DieId,
        block: u32,
        superpage: u32,
        erases: u32,
    ) -> bool {
        let injected = self.injected.is_some() && self.injected_program_fails(die());
        self.plan.program_fails(block, superpage, erases) || injected
    }

    #[cold]
    fn injected_program_fails(&mut self, die: DieId) -> bool {
        self.injected.as_mut().is_some_and(|injected| injected.program_fails(die))
    }

    /// Returns whether a fault makes this erase fail.
    pub(super) fn erase_fails(&mut self, die: DieId, block: u32, erases: u32) -> bool {
        let injected = self.injected.as_mut().is_some_and(|injected| injected.erase_fails(die));
        self.plan.erase_fails(block, erases) || injected
    }

    /// Returns whether the number of erases exceeds the endurance of a block.
    #[inline]
    pub(super) fn is_worn_out(&self, erases: u32) -> bool {
        self.endurance.is_some_and(|limit| erases >= limit)
    }

    /// Counts a block that went bad.
    pub(super) fn count_retired(&mut self) {
        self.retired += 1;
    }

    /// Blocks that went bad.
    pub fn retired(&self) -> u64 {
        self.retired
    }

    /// Counts anew.
    pub(super) fn reset_counts(&mut self) {
        self.retired = 0;
    }
}
