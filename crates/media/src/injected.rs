//! Damage that sets in while the drive works: dies that fail, slow down or err more often, operations that fail.
//!
//! Nothing here is random, so an injected fault happens at the next opportunity, whatever the seed. A drive without injected faults holds
//! no [`Injected`] at all and pays one comparison per operation.
//!
//! Injected damage belongs to the running drive: a clone and a power cut keep it, images and snapshots do not, as with
//! the random streams of [`crate::Faults`]. Blocks that were retired because of it stay retired everywhere.

use crate::MediaError;
use pellucid_flash::{DieId, Layout};

/// A fault injected into a running drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// From now on the raw bit error rate is `factor` times the modelled one, on one die or on all. Replaces an
    /// earlier factor of the same dies. Needs the bit-error model ([`crate::BitErrors`]).
    BitErrors {
        /// The die; `None`: all.
        die: Option<DieId>,
        /// 1 is the model alone; finite, at least 0.
        factor: f64,
    },
    /// From now on array operations of a die take `factor` times as long. Replaces an earlier factor.
    SlowDie {
        /// The die.
        die: DieId,
        /// 1 is the description alone; finite, from 0.001 to 1,000,000.
        factor: f64,
    },
    /// The die is dead from now on: its programs and erases fail, and its data are unreadable. Spare areas and
    /// translation pages stay readable for a mount; they stand for the copy of the map that a drive keeps on more than
    /// one die. Without it, a mount would find older copies on other dies and return them as good.
    KillDie {
        /// The die.
        die: DieId,
    },
    /// The next `count` programs fail, wherever they go (added to those still to come).
    FailPrograms {
        /// Number of programs.
        count: u32,
    },
    /// The next `count` erases fail, wherever they go (added to those still to come).
    FailErases {
        /// Number of erases.
        count: u32,
    },
    /// All spare blocks are used up: the drive is read-only from now on.
    WearOut,
}

/// Damage injected so far.
#[derive(Clone, Debug)]
pub(crate) struct Injected {
    /// Per die: factor on the raw bit error rate.
    pub error_factor: Vec<f64>,
    /// Per die: factor on array times.
    pub time_factor: Vec<f64>,
    /// Per die: it is dead.
    pub dead: Vec<bool>,
    pub failing_programs: u32,
    pub failing_erases: u32,
    pub worn_out: bool,
}

impl Injected {
    pub fn new(layout: &Layout) -> Injected {
        let dies = layout.dies as usize;
        Injected {
            error_factor: vec![1.0; dies],
            time_factor: vec![1.0; dies],
            dead: vec![false; dies],
            failing_programs: 0,
            failing_erases: 0,
            worn_out: false,
        }
    }

    /// Adds a checked fault.
    pub fn add(&mut self, fault: Fault) {
        match fault {
            Fault::BitErrors { die: Some(die), factor } => self.error_factor[die.0 as usize] = factor,
            Fault::BitErrors { die: None, factor } => self.error_factor.fill(factor),
            Fault::SlowDie { die, factor } => self.time_factor[die.0 as usize] = factor,
            Fault::KillDie { die } => self.dead[die.0 as usize] = true,
            Fault::FailPrograms { count } => {
                self.failing_programs = self.failing_programs.saturating_add(count);
            }
            Fault::FailErases { count } => self.failing_erases = self.failing_erases.saturating_add(count),
            Fault::WearOut => self.worn_out = true,
        }
    }

    pub fn program_fails(&mut self, die: DieId) -> bool {
        self.dead[die.0 as usize] || spend(&mut self.failing_programs)
    }

    pub fn erase_fails(&mut self, die: DieId) -> bool {
        self.dead[die.0 as usize] || spend(&mut self.failing_erases)
    }
}

/// Decrements a count; `false`: it is zero.
fn spend(count: &mut u32) -> bool {
    let some = *count > 0;
    *count -= u32::from(some);
    some
}

/// Refuses impossible faults. `errs`: the media have a bit-error model.
pub(crate) fn check(fault: Fault, layout: &Layout, errs: bool) -> Result<(), MediaError> {
    let refuse = |key, value: String, allowed: String| Err(MediaError::Config { key, value, allowed });
    let die = match fault {
        Fault::BitErrors { die, .. } => die,
        Fault::SlowDie { die, .. } | Fault::KillDie { die } => Some(die),
        Fault::FailPrograms { .. } | Fault::FailErases { .. } | Fault::WearOut => None,
    };
    if let Some(DieId(die)) = die.filter(|die| die.0 >= layout.dies) {
        return refuse("die", die.to_string(), format!("0 to {}", layout.dies - 1));
    }
    match fault {
        Fault::BitErrors { factor, .. } if !errs => refuse(
            "bit_errors",
            factor.to_string(),
            "a factor on drives that have drive.media.bit_errors.enabled = true".into(),
        ),
        Fault::BitErrors { factor, .. } if !(0.0..=1e9).contains(&factor) => {
            refuse("bit_errors", factor.to_string(), "a factor from 0 to 1e9".into())
        }
        Fault::SlowDie { factor, .. } if !(0.001..=1e6).contains(&factor) => {
            refuse("slow_die", factor.to_string(), "a factor from 0.001 to 1,000,000".into())
        }
        Fault::FailPrograms { count: 0 } | Fault::FailErases { count: 0 } => {
            refuse("count", "0".into(), "1 to 4294967295; an injected failure is not taken back".into())
        }
        _ => Ok(()),
    }
}
