//! How long commands, status checks and data take on a channel, and what else slows read data.
//!
//! ```text
//!  program  memory ─► interconnect ─► channel ─► die            page by page, where pages cross one by one
//!  read     die ─► channel ─► interconnect ─► data path drains
//!                     └─► key-equation solver ─► decoder ─► in the controller
//! ```
//! Invariant: the parts in which a superpage crosses together take what all of it takes at once.

use super::interconnect::{Interconnect, Towards};
use super::operation::{FlashOp, OpKind};
use super::solver::Solvers;
use crate::config::Scheduler as Config;
use pellucid_flash::{Layout, Nanos, Rng, SimTime};
use pellucid_media::Timing;

/// Drain of the data path behind each transfer of read data.
#[derive(Clone, Debug)]
struct Drain {
    time: Nanos,
    spread: f64,
    rng: Rng,
}

/// Times of transfers.
#[derive(Clone, Debug)]
pub(super) struct Transfers {
    command: Nanos,
    status: Nanos,
    /// Time of a mapping unit, and that of a superpage.
    unit: Nanos,
    superpage: Nanos,
    unit_bytes: u64,
    unit_sectors: u32,
    superpage_units: u32,
    /// Pages of a superpage that are transferred separately, and mapping units per page; 1 and no limit: one transfer for
    /// all.
    superpage_pages: u32,
    page_units: u32,
    /// Data cross in more than one go.
    in_pages: bool,
    /// Something but the channel takes part in the transfer of read data.
    slow_reads: bool,
    drain: Option<Drain>,
    decode: Nanos,
    interconnect: Option<Interconnect>,
    solvers: Option<Solvers>,
}

impl Transfers {
    /// `page_units`: mapping units of a page.
    pub fn new(config: &Config, timing: &Timing, layout: &Layout, page_units: u32, seed: u64) -> Transfers {
        let rate = u128::from(timing.channel_bytes_per_second);
        let time = |bytes: u64| Nanos((u128::from(bytes) * 1_000_000_000).div_ceil(rate) as u64);
        let unit = u64::from(layout.unit_bytes + layout.spare_bytes_per_unit);
        let interconnect = Interconnect::new(config.interconnect_bytes_per_second, layout.unit_bytes);
        let solvers = config.solver.map(|solver| {
            Solvers::new(solver.channels, solver.chunk_bytes, solver.chunk_ns, layout.channels)
        });
        let (time_ns, spread) = (config.drain_ns, config.drain_spread);
        let drain = (time_ns > Nanos::ZERO).then(|| Drain {
            time: time_ns,
            spread,
            rng: Rng::stream(seed, "scheduler.drain"),
        });
        let pages = (layout.units_per_superpage / page_units).max(1);
        Transfers {
            command: timing.command_ns,
            status: timing.status_ns,
            unit: time(unit),
            superpage: time(u64::from(layout.units_per_superpage) * unit),
            unit_bytes: layout.unit_bytes.into(),
            unit_sectors: layout.sectors_per_unit,
            superpage_units: layout.units_per_superpage,
            superpage_pages: if config.page_transfers { pages } else { 1 },
            page_units: if config.page_transfers { page_units } else { u32::MAX },
            in_pages: config.page_transfers,
            slow_reads: interconnect.is_some()
                || solvers.is_some()
                || drain.is_some()
                || config.decode_ns > Nanos::ZERO,
            drain,
            decode: config.decode_ns,
            interconnect,
            solvers,
        }
    }

    /// Time of a command.
    #[inline]
    pub fn command(&self) -> Nanos {
        self.command
    }

    /// Time of a status check; 0: nobody asks.
    #[inline]
    pub fn status(&self) -> Nanos {
        self.status
    }

    /// Returns whether data cross in more than one go.
    #[inline]
    pub fn in_pages(&self) -> bool {
        self.in_pages
    }

    /// The data that `op` has read, or the next page of them, begin to cross `channel`. For how long. `is_word`: a control word goes before
    /// them.
    #[inline]
    pub fn read(&mut self, now: SimTime, channel: u32, op: &FlashOp, is_word: bool) -> Nanos {
        let units = (op.units - op.pages * self.page_units.min(op.units)).min(self.page_units);
        let data = self.of_sectors(op.sectors, Nanos(self.unit.0 * u64::from(units)));
        match is_word || self.slow_reads {
            true => self.slow_read(now, channel, units, data, is_word),
            false => data,
        }
    }

    /// Returns how long a transfer of `units` units takes that would take `data` by the channel alone.
    fn slow_read(&mut self, now: SimTime, channel: u32, units: u32, data: Nanos, is_word: bool) -> Nanos {
        let setup = if is_word { self.command } else { Nanos::ZERO };
        let data = match &mut self.interconnect {
            Some(interconnect) => interconnect.carry(now + setup, Towards::Memory, units, data),
            None => data,
        };
        if let Some(solvers) = &mut self.solvers {
            solvers.begin(now + setup, channel, self.unit_bytes * u64::from(units), data);
        }
        let drain = match &mut self.drain {
            Some(drain) => drain.time.scaled(drain.rng.factor(drain.spread)),
            None => Nanos::ZERO,
        };
        setup + data + drain
    }

    /// The data of the program `op`, or their next page, begin to cross, behind its command. For how long.
    pub fn program(&mut self, now: SimTime, op: &FlashOp) -> Nanos {
        let setup = if op.pages == 0 { self.command } else { Nanos::ZERO };
        let data = self.of_sectors(op.sectors, self.page_of_program(op.pages));
        let data = match &mut self.interconnect {
            Some(interconnect) => {
                let units = self.superpage_units.div_ceil(self.superpage_pages);
                interconnect.carry(now + setup, Towards::Flash, units, data)
            }
            None => data,
        };
        setup + data
    }

    /// Returns the transfer time of `sectors` sectors of a mapping unit, which takes `whole` as a whole; 0 sectors: all of them.
    #[inline]
    fn of_sectors(&self, sectors: u32, whole: Nanos) -> Nanos {
        match sectors {
            0 => whole,
            _ => Nanos((whole.0 * u64::from(sectors)).div_ceil(u64::from(self.unit_sectors))),
        }
    }

    /// Returns the transfer time of page `page` of a superpage whose pages are transferred one by
    /// one.
    fn page_of_program(&self, page: u32) -> Nanos {
        if self.superpage_pages == 1 {
            return self.superpage;
        }
        let until = |pages: u32| self.superpage.0 * u64::from(pages) / u64::from(self.superpage_pages);
        Nanos(until(page + 1) - until(page))
    }

    /// Returns in how many pages the data of a program cross.
    pub fn pages_of_program(&self) -> u32 {
        self.superpage_pages
    }

    /// Returns in how many pages the data of a read cross.
    pub fn pages_of_read(&self, op: &FlashOp) -> u32 {
        debug_assert_eq!(op.kind, OpKind::Read, "only reads bring data");
        if op.units > self.page_units { op.units.div_ceil(self.page_units) } else { 1 }
    }

    /// A page of read data has crossed `channel`, and others follow.
    pub fn page_ended(&mut self, now: SimTime, channel: u32) {
        self.solved(now, channel);
    }

    /// All data of a read have crossed `channel`. How long until they are decoded.
    #[inline]
    pub fn read_ended(&mut self, now: SimTime, channel: u32) -> Nanos {
        if self.slow_reads { self.solved(now, channel) + self.decode } else { Nanos::ZERO }
    }

    /// Returns how long the key-equation solver keeps what `channel` has just transferred.
    fn solved(&mut self, now: SimTime, channel: u32) -> Nanos {
        self.solvers.as_mut().map_or(Nanos::ZERO, |solvers| solvers.end(now, channel))
    }

    /// Clears the transfers in progress (power cut).
    pub fn reset(&mut self) {
        if let Some(interconnect) = &mut self.interconnect {
            interconnect.reset();
        }
        if let Some(solvers) = &mut self.solvers {
            solvers.reset();
        }
    }
}
