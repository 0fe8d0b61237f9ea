//! Damage done to a running drive, and what the drive does about flash that cannot be trusted any more.
//!
//! ```text
//!  corrected, but nearly not ─► its block is written anew elsewhere and erased (refresh)
//!  read fails after every retry ─► its block is emptied of what can be read, then retired
//!  killed die ─► nothing is planned there any more; reads fail; programs under way fail and go elsewhere
//!  too little room left for the host's capacity ─► read-only
//! ```
//! What is promised: a command to damaged flash ends with a status, never with wrong data, and the drive goes on as long
//! as its good blocks hold the host's capacity and what is needed to work.

use crate::device::Device;
use pellucid_flash::{DieId, Ppa, SimTime};
use pellucid_media::{Fault, MediaError};

impl Device {
    /// Does damage at `now`, which must not lie before the last `advance`. The drive may have something to do at once, so
    /// [`Device::next_event`] and [`Device::pop`] have to be asked again.
    ///
    /// # Errors
    /// A die that is not there, or a factor out of range; nothing has happened then.
    pub fn inject(&mut self, now: SimTime, fault: Fault) -> Result<(), MediaError> {
        self.advance(now);
        self.media.inject(fault)?;
        match fault {
            Fault::KillDie { .. } | Fault::WearOut => {
                self.bury_dead_dies();
                self.erase_emptied();
                self.pump_all();
                self.continue_flush();
            }
            Fault::BitErrors { .. }
            | Fault::SlowDie { .. }
            | Fault::FailPrograms { .. }
            | Fault::FailErases { .. } => {}
        }
        self.drain();
        Ok(())
    }

    /// Translation gives up the dies that are dead, and the drive writing if too little is left.
    pub(crate) fn bury_dead_dies(&mut self) {
        if !self.has_block_namespace() {
            return;
        }
        for die in (0..self.layout.dies).map(DieId) {
            if self.media.is_dead(die) {
                self.ftl.kill_die(die);
            }
        }
        self.read_only |= self.ftl.worn_out() || self.media.spent();
    }

    /// Counts what error correction did for a read that succeeded after `attempts` failures.
    #[inline]
    pub(crate) fn corrected(&mut self, bits: u32, attempts: u32) {
        self.counters.corrected_bits += u64::from(bits);
        self.counters.corrected_reads += u64::from(attempts > 0);
    }

    /// A chunk of the unit at `ppa` had `bits` wrong bits: above the threshold its block is written anew in time.
    pub(crate) fn refresh_if_due(&mut self, ppa: Ppa, bits: u32) {
        let Some(threshold) = self.config.scheduler.refresh_above else { return };
        let block = self.layout.block_of(ppa);
        if bits > threshold && self.ftl.refresh_block(block) {
            self.pump(self.layout.die_of_block(block));
        }
    }

    /// Lets time pass at once, as on a shelf: what is stored is older by so many seconds.
    pub fn elapse(&mut self, seconds: u64) {
        self.media.elapse(seconds);
    }

    /// Whether a read that failed `attempts` times is tried again.
    pub(crate) fn tries_again(&self, ppa: Ppa, attempts: u32) -> bool {
        attempts < self.config.scheduler.read_retries && !self.media.is_condemned(ppa)
    }

    /// The unit at `ppa` could not be read after every retry. It stays lost: a later attempt that happens to succeed would
    /// bring back data whose overwriting has been acknowledged, and then failed for want of the rest of the unit.
    pub(crate) fn unreadable(&mut self, ppa: Ppa) {
        self.media.condemn(ppa);
        let block = self.layout.block_of(ppa);
        // What the store has lost says nothing about the flash.
        let emptied = match self.media.was_damaged() {
            true => self.ftl.refresh_block(block),
            false => self.ftl.retire_block(block),
        };
        if emptied {
            self.pump(self.layout.die_of_block(block));
        }
    }
}
